"""What does not fit the widths that are used inside: it is right, or it is an error that says so."""

from __future__ import annotations

import pytest

import sempre
from sempre.backends import walk_code
from sempre.backends.ordering import Ordering
from sempre.kernel import compiled
from sempre.kernel.join import distinct
from sempre.limits import Limits
from sempre.network.node import Message
from sempre.network.wire import WireError, encode
from tests.inside import engine_of

CROSS = ".decl a(x: number)\n.decl r(x: number)\nr(1) :- a(_), a(_), a(_), a(_).\n"
OTHER_COLUMN = """
.decl reading(sensor: symbol, at: number, value: number)
.decl step(sensor: symbol, at: number, by: number)
step(s, t, v - u) :- reading(s, b, u), reading(s, t, v), b < t, !(reading(s, z, _), b < z, z < t).
"""


def ring(count: int, columns: int = 1) -> str:
    """Relations that copy each other in a circle; every rule has variables of its own."""
    lines = [f".decl r{at}({', '.join(f'c{c}: number' for c in range(columns))})" for at in range(count)]
    for at in range(count):
        args = ", ".join(f"v{at}_{c}" for c in range(columns))
        lines.append(f"r{(at + 1) % count}({args}) :- r{at}({args}).")
    return "\n".join(lines)


@pytest.fixture
def walking() -> Limits:
    """Walks from the first round on."""
    compiled.load(wait=True)
    return Limits(walk_after=0)


@pytest.mark.parametrize("strategy", ["recompute", "dredc"])
@pytest.mark.parametrize("count", [127, 128, 129, 257])
def test_a_walk_through_many_relations(count: int, strategy: str, walking: Limits) -> None:
    with sempre.Database(ring(count), strategy=strategy, limits=walking) as db:
        db.apply(insert={"r0": [(1,), (2,)]})
        assert {len(db[f"r{at}"]) for at in range(count)} == {2}
        db.apply(delete={"r0": [(1,)]})
        assert {tuple(db[f"r{at}"]) for at in range(count)} == {((2,),)}
        db.apply(delete={"r0": [(2,)]})
        assert {len(db[f"r{at}"]) for at in range(count)} == {0}


@pytest.mark.parametrize("columns", [3, 30])
def test_a_walk_with_many_variables(columns: int, walking: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots are as many as the largest plan needs, however many names all plans have together."""
    made = []
    original = walk_code.WalkWriter.plan

    def plan(writer: walk_code.WalkWriter, *args: object) -> tuple[int, int]:
        found = original(writer, *args)  # type: ignore[arg-type]
        made.append(writer.most_slots)
        return found

    monkeypatch.setattr(walk_code.WalkWriter, "plan", plan)
    with sempre.Database(ring(70, columns), strategy="recompute", limits=walking) as db:
        db.apply(insert={"r0": [tuple(c % 2 for c in range(columns))]})
        assert {len(db[f"r{at}"]) for at in range(70)} == {1}
    assert max(made) == columns


@pytest.mark.parametrize("strategy", ["dredc", "counting", "elastic", "bfc"])
def test_derivations_that_cannot_be_counted(strategy: str) -> None:
    """65,536 rows to the fourth are 2^64 derivations of one fact, which is zero in 64 bits."""

    def apply_all() -> None:
        with sempre.Database(CROSS, strategy=strategy) as db:
            db.apply(insert={"a": [(x,) for x in range(1 << 16)]})
            db.apply(insert={"a": [(1 << 17,)]})
            db.apply(delete={"a": [(1 << 17,)]})

    with pytest.raises(sempre.DataError) as caught:
        apply_all()
    (found,) = caught.value.diagnostics
    assert found.code == "E510"
    assert found.message == "one fact has more derivations than 64 bits can count"
    assert "`dred`" in found.hint


@pytest.mark.parametrize("strategy", ["auto", "recompute", "dred"])
def test_derivations_that_need_not_be_counted(strategy: str) -> None:
    with sempre.Database(CROSS, strategy=strategy) as db:
        db.apply(insert={"a": [(x,) for x in range(1 << 16)]})
        db.apply(insert={"a": [(1 << 17,)]})
        assert list(db["r"]) == [(1,)]


@pytest.mark.parametrize("rules", ["s(sum(x)) :- e(_, x).", "s(sum(x)) :- e(_, x), x > 5.\ns(sum(x)) :- e(_, x)."])
def test_a_sum_in_a_head_that_does_not_fit(rules: str) -> None:
    text = f".decl e(k: number, x: number)\n.decl s(x: number)\n{rules}\n"
    with sempre.Database(text) as db:
        with pytest.raises(sempre.DataError) as caught:
            db.apply(insert={"e": [(1, (1 << 63) - 1), (2, 5)]})
        (found,) = caught.value.diagnostics
        assert found.code == "E510"
        assert "does not fit in 64 bits" in found.message
        assert found.detail.startswith("while evaluating")
        assert found.span.line == 3
        assert not len(db["e"])


@pytest.mark.parametrize("value", [12, 127, 128, 100_000, 1 << 31, 1 << 62, -(1 << 62)])
def test_neighbors_when_another_column_widens(value: int) -> None:
    with sempre.Database(OTHER_COLUMN) as db:
        db.apply(insert={"reading": [("a", 1, 10), ("a", 5, 30)]})
        db.apply(insert={"reading": [("a", 3, value)]})
        assert sorted(db["step"]) == [("a", 3, value - 10), ("a", 5, 30 - value)]
        assert db.verify().ok


def test_verify_sorts_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbors that are sorted wrongly from the start are found: `verify` does not sort them in the same way."""
    original = Ordering.neighbors
    monkeypatch.setattr(Ordering, "neighbors", lambda self: type(r := original(self))(r.packing, distinct(r.keys[1:])))
    with sempre.Database(OTHER_COLUMN) as db:
        db.apply(insert={"reading": [("a", 1, 10), ("a", 5, 30), ("b", 2, 7), ("b", 3, 8)]})
        assert not db.verify().ok


def test_more_relations_than_the_wire_has_numbers() -> None:
    numbers = {"r": 1 << 16}
    with pytest.raises(WireError, match="cannot be written"):
        encode(Message("a", "b", 1, ((1, "r", (1,), None, None),)), numbers)


def test_verify_looks_at_what_was_asked_for() -> None:
    text = """
    .decl ev(t: number)
    .decl between(x: number, y: number)
    .decl next(x: number, y: number)
    between(x, y) :- ev(x), ev(z), ev(y), x < z, z < y.
    next(x, y) :- ev(x), ev(y), x < y, !between(x, y).
    """
    with sempre.Database(text) as db:
        db.apply(insert={"ev": [(1,), (2,), (4,)]})
        assert list(db["between"]) == [(1, 4)]
        assert db.verify().ok
        snapshot = engine_of(db).snapshot
        snapshot.demanded["between"] = snapshot.versions["next"]
        assert {difference.relation for difference in db.verify().differences} == {"between"}
