"""Commands that go out together."""

from __future__ import annotations

from typing import Any

from sempre.workers.crew import side_by_side


def command(op: str, n: int, args: list[Any], out: list[int], free: list[int] | None = None) -> dict[str, Any]:
    return {"op": op, "n": n, "args": args, "out": out, **({} if free is None else {"free": free})}


def count(n: int, view: int, out: int, free: list[int] | None = None) -> dict[str, Any]:
    return command("count", n, ["r", [1], [["r", "ONLY", view, False]]], [out], free)


def found(commands: list[dict[str, Any]]) -> list[tuple[str, int, list[int]]]:
    return [(each["op"], each["n"], each.get("out", [])) for each in side_by_side(commands)]


def test_what_needs_nothing_of_what_came_before_goes_side_by_side() -> None:
    commands = [count(1, 5, 10), command("negated", 2, [10], [11]), count(3, 6, 12)]
    assert found(commands) == [("find", 1, [10, 12]), ("negated", 2, [11])]


def test_what_needs_a_result_goes_after_it() -> None:
    commands = [count(1, 5, 10), command("view", 2, [10], [11]), count(3, 11, 12), count(4, 11, 13), count(5, 12, 14)]
    assert found(commands) == [("find", 1, [10]), ("view", 2, [11]), ("find", 3, [12, 13]), ("find", 5, [14])]


def test_what_is_forgotten_is_forgotten_where_it_was() -> None:
    """And not before what is still to read it."""
    commands = [
        count(1, 5, 10),
        command("view", 2, [7], [11]),
        count(3, 6, 12, free=[7]),
        command("rows", 4, [9], [13]),
    ]
    made = side_by_side(commands)
    assert [(each["op"], each.get("free")) for each in made] == [
        ("find", None),
        ("view", None),
        ("none", [7]),
        ("rows", None),
    ]
    assert commands[0]["out"] == [10]  # those that go out are others


def test_known_facts_and_plans_are_needed_too() -> None:
    known = command("derive", 3, ["r", [1], [["r", "ONLY", 6, False]], 11], [12])
    assert [op for op, _, _ in found([count(1, 5, 10), command("adding", 2, [4], [11]), known])] == [
        "find",
        "adding",
        "find",
    ]
    plan = command("derive", 3, ["r", [11], [["r", "ONLY", 6, False]], 2], [12])
    assert [op for op, _, _ in found([count(1, 5, 10), command("prepare", 2, [{}], [11]), plan])] == [
        "find",
        "prepare",
        "find",
    ]
