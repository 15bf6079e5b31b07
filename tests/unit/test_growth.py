"""What many rules cost grows as the rules do: function calls are counted, which no busy machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.analysis.check import check
from sempre.lang.parser import parse
from sempre.plan.backend import DRIVER
from tests.inside import engine_of

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import rules as many  # the benchmark's own generator


def calls(work: Callable[[], Any]) -> int:
    """How many functions, of Python and of C, a piece of work calls."""
    count = 0

    def look(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def checked(rules: int) -> Callable[[], Any]:
    text = many.program(rules, 3 * rules // 10)
    return lambda: check(parse(text), {"<text>": text})


def evaluated(rules: int) -> Callable[[], Any]:
    program = sempre.Program(many.program(rules, 3 * rules // 10))
    return lambda: sempre.Database(program).apply()


@pytest.mark.parametrize("work", [checked, evaluated])
def test_four_times_the_rules_are_little_more_than_four_times_the_calls(work: Any) -> None:
    work(20)()  # methods are written, and caches filled
    few, lots = calls(work(100)), calls(work(400))
    assert lots < 5 * few, f"{few:,} calls for 100 rules, {lots:,} for 400"


def test_checking_a_rule_takes_so_many_calls() -> None:
    """The bound is a third above what it takes: a pass more over every rule is seen here."""
    checked(20)()
    each = (calls(checked(300)) - calls(checked(100))) / 200
    assert each < 4_000, f"{each:,.0f} calls for a rule"


def test_a_plan_is_made_when_there_are_rows_for_it() -> None:
    rules = "".join(f".decl p{n}(x: number)\np{n}(x) :- empty(x), full(x).\n" for n in range(20))
    with sempre.Database(".decl empty(x: number)\n.decl full(x: number)\nfull(1).\n" + rules) as db:
        assert list(db["p0"]) == []
        assert not engine_of(db).places.plans[DRIVER]._entries
        db.apply(insert={"empty": [1]})
        assert [list(db[f"p{n}"]) for n in range(20)] == [[(1,)]] * 20
        assert db.verify().ok
