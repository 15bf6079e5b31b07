"""Random programs with `range`: bounds that are constants, columns and results, in recursion, negations and aggregates.

ranging_case(rng)      a `Case`: rules of a pool over one kind of numbers, facts and updates of all base relations
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from sempre.lang.parser import parse
from tests.oracle.naive import Facts
from tests.oracle.values import Row, Value
from tests.property.programs import Case, Update

DECLARED = """
.decl low(k: number, x: T)
.decl span(x: T, y: T)
.decl p(x: T, y: T)
.decl q(x: T)
.decl total(x: T, n: number)
"""
POOL = (
    "p(x, y) :- low(_, x), y = range(x, {3}).",
    "p(x, y) :- span(x, z), y = range(x, z).",
    "p(x, y) :- span(x, z), y = range(z, x, {2}), y < z.",
    "p(x, y) :- span(x, z), low(_, s), range(x, z, s) = y.",
    "p(x, y) :- q(x), q(y), y = range({0}, x).",
    "p(x, y + {1}) :- span(x, z), y = range({0}, w), w = range(x, z).",
    "q(y) :- q(x), span(_, z), y = range(x, z, {1}).",
    "q(y) :- q(x), low(k, x), y = range(x, {4}, {2}), k > 0.",
    "q(x) :- x = range({1}, {4}).",
    "q(x) :- p(x, _), !(x = range({1}, {3})).",
    "q(x) :- low(_, x), !(span(x, z), z = range({0}, x)).",
    "total(x, n) :- low(_, x), n = count : {{ y = range({0}, x), y != {1} }}.",
    "total(x, n) :- p(x, z), n = count : {{ span(a, b), y = range(a, b), y < z }}.",
    "total(x, n) :- low(n, x), m = max k : {{ low(k, _) }}, n = range(0, m).",
)
LITERALS = {
    "number": ("0", "1", "2", "5", "6"),
    "unsigned": ("0", "1", "2", "5", "6"),
    "float": ("0.0", "0.5", "1.0", "2.5", "3.0"),
}
BASES = ("low", "span")


def ranging_case(rng: random.Random) -> Case:
    """A random program with its facts and updates."""
    kind = rng.choice(("number", "number", "unsigned", "float"))
    rules = [rule.format(*LITERALS[kind]) for rule in rng.sample(POOL, rng.randint(3, 7))]
    program = parse(DECLARED.replace("T", kind) + "\n".join(rules), "random.dl")
    facts = {name: {_row(rng, kind, name) for _ in range(rng.randint(1, 4))} for name in BASES}
    facts["q"] = {(_value(rng, kind),) for _ in range(rng.randint(0, 2))}
    return Case(program, facts, list(_updates(rng, kind, facts)))


def _updates(rng: random.Random, kind: str, facts: Facts) -> Iterator[Update]:
    now = {name: set(facts[name]) for name in BASES}
    for _ in range(3):
        insert: Facts = {}
        delete: Facts = {}
        for name in BASES:
            delete[name] = {row for row in now[name] if rng.random() < 0.3}
            insert[name] = {_row(rng, kind, name) for _ in range(rng.randint(0, 2))}
            now[name] = (now[name] - delete[name]) | insert[name]
        yield insert, delete


def _row(rng: random.Random, kind: str, name: str) -> Row:
    first: Value = rng.randrange(3) if name == "low" else _value(rng, kind)
    return (first, _value(rng, kind))


def _value(rng: random.Random, kind: str) -> Value:
    if kind == "float":
        return rng.randrange(-2, 7) / 2
    return rng.randrange(0 if kind == "unsigned" else -3, 7)
