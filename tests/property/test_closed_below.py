"""Chains over relations that lower strata have closed, and helpers of other kinds, equal the oracle."""

from __future__ import annotations

import random

import pytest

from sempre.lang.parser import parse
from tests.engine import STRATEGIES, Changes, check_epochs, truths
from tests.oracle.naive import Facts
from tests.oracle.values import Row

pytestmark = pytest.mark.oracle

PROGRAM = """
.decl e(x: number, y: number)
.decl r(x: number, y: number)
.decl q(x: number, y: number) eqrel
.decl s(x: number, y: number)
.decl t(x: number, y: number)
r(x, z) :- r(x, y), r(y, z).
r(x, y) :- e(x, y), x < y.
q(x, y) :- e(x, y), e(y, x).
s(x, z) :- s(x, y), r(y, z).
s(x, z) :- q(x, y), s(y, z).
s(x, z) :- s(x, y), e(y, z), x > z.
t(x, w) :- t(x, y), r(y, z), r(z, w).
t(x, z) :- t(x, y), q(y, z).
t(x, y) :- s(x, y), !r(x, y).
"""
NODES, EPOCHS, SEEDS = 6, 5, 3


def epochs_of(dice: random.Random) -> list[Changes]:
    epochs: list[Changes] = []
    have: dict[str, set[Row]] = {name: set() for name in ("e", "r", "q", "s", "t")}
    for epoch in range(EPOCHS):
        insert: dict[str, set[Row]] = {}
        delete: dict[str, set[Row]] = {}
        for name, rows in have.items():
            delete[name] = set(dice.sample(sorted(rows), min(len(rows), dice.choice((0, 1, 4)))))
            size = dice.choice((0, 1, 2)) + (3 if not epoch and name in "ers" else 0)
            insert[name] = {(dice.randrange(NODES), dice.randrange(NODES)) for _ in range(size)}
            rows -= delete[name]
            rows |= insert[name]
        epochs.append((insert, delete))
    return epochs


@pytest.mark.parametrize("seed", range(SEEDS))
def test_chains_over_what_is_closed(seed: int) -> None:
    program = parse(PROGRAM)
    epochs = epochs_of(random.Random(seed))
    expected = truths(program, epochs)
    for strategy in STRATEGIES:
        check_epochs(program, epochs, strategy, expected)


AROUND = """
.decl e(x: number, y: number)
.decl q(x: number, y: number) eqrel
.decl s(x: number, y: number)
q(x, y) :- e(x, y), e(y, x).
s(x, z) :- q(x, y), s(y, z).
s(x, z) :- s(x, y), e(y, z), x > z.
"""


def _without_others(rows: Facts) -> Facts:
    return {name: rows[name] for name in rows if name in "eqs"}


@pytest.mark.parametrize("strategy", ["dredc", "dred", "bf", "bfc"])
def test_ways_around_are_no_support(strategy: str) -> None:
    """A path that leads back to where it began was never taken, so that a module does not miss it."""
    program = parse(AROUND)
    for seed in (*range(4), 109, 121, 124, 147, 152):
        epochs = [
            (_without_others(insert), _without_others(delete)) for insert, delete in epochs_of(random.Random(seed))
        ]
        check_epochs(program, epochs, strategy)
