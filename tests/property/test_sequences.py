"""Successor rules, recognized or not, equal the oracle after every epoch, in facts, counters and change sets."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

import sempre
from sempre.lang.parser import parse
from sempre.modules.find import modularize
from tests.engine import STRATEGIES, Changes, check_epochs, truths
from tests.oracle.naive import Facts
from tests.oracle.values import Row, Value

pytestmark = pytest.mark.oracle

PLAIN = """
.decl ev(t: {kind})
.decl next(x: {kind}, y: {kind})
next(x, y) :- ev(x), ev(y), x < y, !(ev(z), x < z, z < y).
"""
GROUPS = """
.decl ev(k: symbol, t: {kind}, v: number)
.decl step(k: symbol, x: {kind}, y: {kind}, d: number)
step(k, x, y, b - a) :- !(ev(k, z, _), y > z, z > x), y > x, ev(k, y, b), ev(k, x, a), a < 9.
"""
SEVERAL = """
.decl ev(t: {kind}, k: symbol)
.decl seen(t: {kind}, k: symbol)
.decl next(x: {kind}, y: {kind})
.decl of(x: {kind}, y: {kind})
.decl reach(x: {kind}, y: {kind})
seen(t, k) :- ev(t, k), k != "c".
next(x, y) :- seen(x, _), seen(y, _), x < y, !(seen(z, _), x < z, z < y).
next(x, y) :- seen(x, "a"), seen(y, "a"), x < y, !(seen(z, "a"), x < z, z < y).
of(x, y) :- seen(x, k), seen(y, k), x < y, !(seen(z, k), z < y, x < z).
reach(x, y) :- next(x, y).
reach(x, y) :- reach(x, w), seen(w, k), seen(y, k), y > w, !(seen(z, k), w < z, y > z).
"""
HELPER = """
.decl ev(t: {kind}, k: symbol)
.decl between(k: symbol, x: {kind}, y: {kind})
.decl next(x: {kind}, y: {kind})
between(k, x, y) :- ev(x, k), ev(z, k), ev(y, k), x < z, z < y.
next(x, y) :- ev(x, k), ev(y, k), x < y, !between(k, x, y).
"""
PROGRAMS = {"plain": PLAIN, "groups": GROUPS, "several": SEVERAL, "helper": HELPER}
KINDS = ("number", "unsigned", "float")
VALUES: dict[str, list[Value]] = {
    "number": [*range(-6, 7), -(1 << 63), (1 << 63) - 1],
    "unsigned": [*range(8), (1 << 63) - 1, 1 << 63, (1 << 64) - 1],
    "float": [*(n / 4 for n in range(-6, 7)), 1e300, -1e300, float("inf"), float("-inf")],
}


def event(name: str, kind: str, dice: random.Random) -> Row:
    time, group = dice.choice(VALUES[kind]), dice.choice("abc")
    return {"plain": (time,), "groups": (group, time, dice.randrange(12))}.get(name, (time, group))


def epochs_of(name: str, kind: str, dice: random.Random, number: int = 6) -> list[Changes]:
    have: set[Row] = set()
    epochs = []
    for epoch in range(number):
        plus = {event(name, kind, dice) for _ in range(dice.choice((1, 2, 12 if epoch else 20)))}
        minus = set(dice.sample(sorted(have), min(len(have), dice.choice((0, 1, 3, 12)))))
        insert: Facts = {"ev": plus}
        delete: Facts = {"ev": minus}
        have = (have - minus) | plus
        if name == "helper":
            group = dice.choice("abc")
            pairs = list(pairwise(sorted(time for time, other in have if other == group)))
            chosen: set[Row] = {(group, *pair) for pair in dice.sample(pairs, min(len(pairs), 2))}
            (insert if dice.random() < 0.7 else delete)["between"] = chosen
        epochs.append((insert, delete))
    return epochs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_neighbors_equal_the_oracle(name: str, kind: str) -> None:
    text = PROGRAMS[name].format(kind=kind)
    assert any("#" in relation for relation in modularize(sempre.Program(text).checked).program.relations)
    program = parse(text)
    for seed in range(2):
        epochs = epochs_of(name, kind, random.Random(f"{name} {kind} {seed}"))
        expected = truths(program, epochs)
        for strategy in STRATEGIES:
            check_epochs(program, epochs, strategy, expected)


def test_a_nan_is_nobodys_neighbor() -> None:
    nan = float("nan")
    for modules in ("auto", "off"):
        db = sempre.Database(PLAIN.format(kind="float"), modules=modules)
        db.apply(insert={"ev": [(1.0,), (nan,), (2.0,)]})
        assert list(db["next"]) == [(1.0, 2.0)]
        db.apply(insert={"ev": [(1.5,)]}, delete={"ev": [(nan,)]})
        assert sorted(db["next"]) == [(1.0, 1.5), (1.5, 2.0)]
        changes = db.apply(insert={"ev": [(nan,), (-0.0,), (0.0,)]})
        assert changes.added["next"].to_pylist() == [{"x": 0.0, "y": 1.0}]
