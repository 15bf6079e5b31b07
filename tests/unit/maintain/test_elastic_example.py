"""The running example of [Zhao]: a points-to analysis, its proof counts per iteration, two updates of section 2.

The source program is a fragment of six lines; `a` and `b` are assigned to each other, `c.f` holds `a`, and `b` and `e`
are loaded from the field `f` of `c` and `d`.
"""

from __future__ import annotations

from typing import Any

import pytest

import sempre
from tests.engine import STRATEGIES, UNHURRIED
from tests.inside import engine_of
from tests.memories import numbers

POINTS_TO = """
.decl new(v: symbol, o: symbol)
.decl assign(v: symbol, w: symbol)
.decl load(v: symbol, w: symbol, f: symbol)
.decl store(v: symbol, f: symbol, w: symbol)
.decl vpt(v: symbol, o: symbol)
.decl alias(v: symbol, w: symbol)
vpt(v, o) :- new(v, o).
vpt(v, o) :- assign(v, w), vpt(w, o).
vpt(v, o) :- load(v, w, f), store(x, f, y), vpt(y, o), vpt(w, p), vpt(x, p).
alias(v, w) :- vpt(v, o), vpt(w, o), v != w.
"""
INPUT = {
    "new": [("a", "L1"), ("c", "L3"), ("d", "L4")],
    "assign": [("a", "b"), ("b", "a")],
    "store": [("c", "f", "a")],
    "load": [("e", "d", "f"), ("b", "c", "f")],
}
FIRST = {("a", "L1"): 1, ("c", "L3"): 1, ("d", "L4"): 1}
SECOND = {("b", "L1"): 2}  # by the assignment, and by the load


def counts(db: sempre.Database, name: str) -> list[dict[Any, int]]:
    """The proof counts of a relation, iteration by iteration."""
    engine = engine_of(db)
    index = next(stratum.index for stratum in engine.program.strata if name in stratum.relations)
    levels = engine.snapshot.memories[index].levels
    return [numbers(db, name, level.counts[name]) if name in level.counts else {} for level in levels]


def test_bootstrap_counts_the_proofs_of_each_iteration() -> None:
    with sempre.Database(POINTS_TO, strategy="elastic") as db:
        db.apply(insert=INPUT)
        assert counts(db, "vpt") == [FIRST, SECOND]
        assert counts(db, "alias") == [{("a", "b"): 1, ("b", "a"): 1}]


def test_counting_also_keeps_later_proofs() -> None:
    """In iteration 3 vpt(a, L1) is found again: elastic drops that proof, counting remembers it."""
    with sempre.Database(POINTS_TO, strategy="counting") as db:
        db.apply(insert=INPUT)
        assert counts(db, "vpt") == [FIRST, SECOND, {("a", "L1"): 1}]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_removing_a_load_changes_nothing_else(strategy: str) -> None:
    """The small update: line L6 goes, and nothing rested on it."""
    with sempre.Database(POINTS_TO, strategy=strategy, limits=UNHURRIED) as db:
        db.apply(insert=INPUT)
        changes = db.apply(delete={"load": [("e", "d", "f")]})
        assert {name: n for name, n in changes.report.removed.items() if n} == {"load": 1}
        if strategy == "elastic":
            assert counts(db, "vpt") == [FIRST, SECOND]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_removing_an_allocation_takes_half_of_vpt_and_all_of_alias(strategy: str) -> None:
    """The large update: line L1 goes too; a and b point to each other and must not hold each other up."""
    with sempre.Database(POINTS_TO, strategy=strategy, limits=UNHURRIED) as db:
        db.apply(insert=INPUT)
        db.apply(delete={"load": [("e", "d", "f")], "new": [("a", "L1")]})
        assert set(db["vpt"]) == {("c", "L3"), ("d", "L4")}
        assert set(db["alias"]) == set()
        if strategy == "elastic":
            assert counts(db, "vpt") == [{("c", "L3"): 1, ("d", "L4"): 1}]
        db.apply(insert={"load": [("e", "d", "f")], "new": [("a", "L1")]})
        assert set(db["vpt"]) == {*FIRST, *SECOND}
        if strategy == "elastic":
            assert counts(db, "vpt") == [FIRST, SECOND]


def test_a_proof_less_is_a_count_less() -> None:
    """Without the assignment to b the load still proves vpt(b, L1), in the same iteration, once."""
    with sempre.Database(POINTS_TO, strategy="elastic", limits=UNHURRIED) as db:
        db.apply(insert=INPUT)
        changes = db.apply(delete={"assign": [("b", "a")]})
        assert changes.report.removed == {"assign": 1}
        assert counts(db, "vpt") == [FIRST, {("b", "L1"): 1}]
