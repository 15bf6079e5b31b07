"""`verify` finds what was planted, names it, and finds nothing where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sempre
from sempre.engine import Engine
from sempre.kernel.trace import RowSet
from sempre.maintain.dredc import Counters
from sempre.maintain.iterations import Level, Levels
from sempre.maintain.sequence import SortedSource
from tests.engine import FORGETTING, STRATEGIES, UNHURRIED

REACH = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.decl far(x: symbol, n: number)
far(x, count : { reach(x, _) }) :- edge(x, _).
"""
EDGES = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c")]

Make = Callable[[str], sempre.Database]


@pytest.fixture
def databases() -> Iterator[Make]:
    opened: list[sempre.Database] = []

    def make(strategy: str) -> sempre.Database:
        db = sempre.Database(REACH, strategy=strategy, modules="off", limits=UNHURRIED)
        opened.append(db)
        db.apply(insert={"edge": EDGES})
        db.apply(delete={"edge": [("c", "d")]})
        return db

    yield make
    for db in opened:
        db.close()


def rows(db: sempre.Database, name: str, row: tuple[Any, ...]) -> RowSet:
    columns, size = db._encode(name, [row])
    return db._backend.rows(name, columns, size)


def plant(db: sempre.Database, **changes: Any) -> None:
    engine = db._engine
    assert isinstance(engine, Engine)
    engine._snapshot = replace(engine.snapshot, **changes)


def memory_of(db: sempre.Database, name: str) -> tuple[int, Any]:
    strata = db._engine.program.strata
    index = next(stratum.index for stratum in strata if name in stratum.relations)
    return index, db._engine.snapshot.memories[index]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_maintained_state_is_what_a_run_from_scratch_gives(strategy: str, databases: Make) -> None:
    found = databases(strategy).verify()
    assert found.ok
    assert found
    assert found.differences == []
    assert (found.counters > 0) == (strategy not in FORGETTING)
    assert repr(found).startswith("<Verification: ok; 3 relations, 8 facts, ")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_fact_too_many_and_one_too_few_are_named(strategy: str, databases: Make) -> None:
    db = databases(strategy)
    versions = dict(db._engine.snapshot.versions)
    versions["reach"] = versions["reach"].adding(rows(db, "reach", ("d", "a"))).removing(rows(db, "reach", ("a", "b")))
    plant(db, versions=versions)
    found = db.verify()
    assert not found.ok
    assert [(each.relation, each.what, each.size) for each in found.differences] == [
        ("reach", "missing", 1),
        ("reach", "unexpected", 1),
    ]
    assert found.differences[0].rows.to_pylist() == [{"x": "a", "y": "b"}]
    assert 'should not have 1 fact: reach("d", "a")' in repr(found)


@pytest.mark.parametrize(("strategy", "what"), [("dredc", "nonrec"), ("dredc", "rec"), ("bfc", "nonrec")])
def test_a_wrong_counter_is_named(strategy: str, what: str, databases: Make) -> None:
    db = databases(strategy)
    index, memory = memory_of(db, "reach")
    tallies = dict(getattr(memory, what))
    tallies["reach"] = tallies["reach"].adding(db._backend.once(rows(db, "reach", ("a", "c"))))
    changed = {"nonrec": memory.nonrec, "rec": memory.rec, what: tallies}
    plant(db, memories={**db._engine.snapshot.memories, index: Counters(**changed)})
    (difference,) = db.verify().differences
    assert (difference.relation, difference.what) == ("reach", what)
    assert difference.rows.to_pylist() == [{"x": "a", "y": "c"}]
    assert difference.message == f'{what} of `reach` is wrong for 1 fact: reach("a", "c") has 2, should have 1'


@pytest.mark.parametrize("strategy", ["counting", "elastic"])
def test_a_wrong_iteration_is_named(strategy: str, databases: Make) -> None:
    db = databases(strategy)
    index, memory = memory_of(db, "reach")
    first = memory.levels[0]
    doubled = replace(first.counts["reach"], weights=first.counts["reach"].weights * np.int64(2))
    levels = (Level(first.facts, {"reach": doubled}), *memory.levels[1:])
    plant(db, memories={**db._engine.snapshot.memories, index: Levels(levels, 1.0)})
    (difference,) = db.verify().differences
    assert (difference.relation, difference.what, difference.size) == ("reach", "iteration", 3)
    assert difference.message.startswith("the count of `reach` in iteration 1 is wrong for 3 facts: reach(")


def test_verifying_changes_nothing(databases: Make) -> None:
    db = databases("dredc")
    before = db._engine.snapshot
    assert db.verify()
    assert db._engine.snapshot is before
    assert db.apply(insert={"edge": [("c", "d")]}).report.added["reach"] == 3
    assert db.verify()


def test_a_new_database_verifies() -> None:
    with sempre.Database(REACH + 'edge("a", "b").') as db:
        assert db.verify().ok


def test_a_wrong_order_is_named() -> None:
    rules = ".decl e(n: number)\n.decl s(a: number, b: number)\ns(a, b) :- e(a), e(b), a < b, !m(a, b).\n"
    rules += ".decl m(a: number, b: number)\nm(a, b) :- e(a), e(b), e(n), a < n, n < b.\n"
    with sempre.Database(rules) as db:
        db.apply(insert={"e": [(1,), (3,), (7,)]})
        db.apply(insert={"e": [(5,)]}, delete={"e": [(3,)]})
        memories = db._engine.snapshot.memories
        (index,) = (index for index, memory in memories.items() if isinstance(memory, SortedSource))
        kept, found = memories[index], db.verify()
        assert (found.ok, found.counters >= 2) == (True, True)
        late = kept.ordering.changed(rows(db, "e", (4,)), rows(db, "e", (5,)))
        plant(db, memories={**memories, index: replace(kept, ordering=late)})
        (difference,) = db.verify().differences
        assert (difference.relation, difference.what, difference.size) == (kept.relation, "order", 4)
        assert difference.message.startswith("the order is wrong for 4 facts of")
