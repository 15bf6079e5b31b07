"""What stores are tested with: a program, rows for it, and programs that its store may be migrated to.

Some programs are random, and some are what a random program seldom has: neighbors in several shapes, helpers that are
evaluated on demand, closures that share a stratum, many relations in one stratum, symbols in groups and records, `ord`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import sempre
from sempre.lang import syntax as s
from sempre.lang.parser import parse
from sempre.lang.printer import to_text
from tests.engine import Changes
from tests.oracle.naive import Facts
from tests.oracle.values import Row, Value, canonical
from tests.property.closures import modular_case
from tests.property.dice import RECORD, Dice
from tests.property.programs import random_case

# Each makes columns wider than the last.
WIDENING = (40, 300, -7, 70_000, 1 << 33, -(1 << 40), (1 << 62) + 5, -(1 << 62))
FLOATS = (0.0, -0.0, 0.5, 1.5, float("nan"), float("inf"), float("-inf"), 1e300, -1e300)
# Relations of this prefix hold what only this engine can say, such as the number of a symbol.
UNKNOWN = "ord_"


@dataclass(frozen=True)
class Subject:
    """A program, the programs that may follow it, and how to make values for its columns."""

    name: str
    program: s.ParsedProgram
    value: Callable[[random.Random, str], Value]
    others: tuple[s.ParsedProgram, ...] = ()

    def change(self, program: s.ParsedProgram, explicit: Facts, rng: random.Random) -> Changes:
        """Insertions and deletions: of some relations, mostly of facts that are there, and few enough to stay small."""
        insert: Facts = {}
        delete: Facts = {}
        columns = open_columns(program)
        for name, kinds in columns.items():
            there = sorted(explicit.get(name, ()), key=repr)
            base = not _is_derived(program, name)
            if rng.random() > (0.9 if base else 0.12):
                continue
            room = max(0, 14 - len(there)) if base else 2
            going = rng.sample(there, min(len(there), rng.choice((0, 1, 1, 2, 5))))
            coming = [self.row(rng, kinds) for _ in range(min(room, rng.choice((1, 1, 2, 3, 7))))]
            if rng.random() < 0.1:
                going.append(self.row(rng, kinds))
            if going:
                delete[name] = set(going)
            if coming:
                insert[name] = set(coming)
        return insert, delete

    def row(self, rng: random.Random, kinds: tuple[str, ...]) -> Row:
        return tuple(canonical(self.value(rng, kind)) for kind in kinds)


def open_columns(program: s.ParsedProgram) -> dict[str, tuple[str, ...]]:
    """The types of the columns of the relations that an update may change."""
    return {
        item.name: tuple(attribute.type_name for attribute in item.attributes)
        for item in program.items
        if isinstance(item, s.RelationDecl)
        and "inline" not in item.qualifiers
        and not item.name.startswith(("agg", UNKNOWN))
    }


def known_part(program: s.ParsedProgram) -> s.ParsedProgram:
    """The program without relations that the oracle knows nothing of."""
    return s.ParsedProgram(tuple(item for item in program.items if not _names(item).startswith(UNKNOWN)))


def _names(item: s.Item) -> str:
    if isinstance(item, s.RelationDecl):
        return item.name
    if isinstance(item, s.Directive):
        return item.relations[0]
    return item.heads[0].atom.relation if isinstance(item, s.Rule) else ""


def _is_derived(program: s.ParsedProgram, name: str) -> bool:
    return any(
        isinstance(item, s.Rule) and not isinstance(item.body, s.Truth) and _names(item) == name
        for item in program.items
    )


# ------------------------------------------------------------------------------------------------------- values


def few(rng: random.Random, kind: str) -> Value:
    """A value of a small domain."""
    return Dice(rng.randrange).value(kind, 5)


def wide(rng: random.Random, kind: str) -> Value:
    """Mostly a value of a small domain; sometimes one that needs more room than all before, or a new symbol."""
    if kind == "number":
        return rng.choice(WIDENING) if rng.random() < 0.15 else rng.randrange(8)
    if kind == "unsigned":
        return rng.choice((1 << 20, 1 << 63)) if rng.random() < 0.1 else rng.randrange(8)
    if kind == "float":
        return rng.choice(FLOATS) if rng.random() < 0.4 else rng.randrange(6) / 2
    if kind == "symbol":
        return f"s{rng.randrange(1_000)}" if rng.random() < 0.25 else rng.choice("abcd")
    if kind == RECORD:
        return None if rng.random() < 0.1 else (wide(rng, "symbol"), rng.randrange(4))
    assert kind == "List", kind
    return None if rng.random() < 0.3 else (wide(rng, RECORD), wide(rng, "List"))


# ----------------------------------------------------------------------------------------------------- programs

EVENTS = """
.decl ev(t: number, k: symbol)
.decl seen(t: number, k: symbol)
.decl next(x: number, y: number)
.decl of(x: number, y: number)
.decl reach(x: number, y: number)
seen(t, k) :- ev(t, k), k != "c".
next(x, y) :- seen(x, _), seen(y, _), x < y, !(seen(z, _), x < z, z < y).
next(x, y) :- seen(x, "a"), seen(y, "a"), x < y, !(seen(z, "a"), x < z, z < y).
of(x, y) :- seen(x, k), seen(y, k), x < y, !(seen(z, k), z < y, x < z).
reach(x, y) :- next(x, y).
reach(x, y) :- reach(x, w), seen(w, k), seen(y, k), y > w, !(seen(z, k), w < z, y > z).
"""
READINGS = """
.decl reading(sensor: symbol, at: number, value: number)
.decl step(sensor: symbol, at: number, u: number, v: number)
.decl rising(sensor: symbol)
step(s, t, u, v) :- reading(s, b, u), reading(s, t, v), b < t, !(reading(s, z, _), b < z, z < t).
rising(s) :- step(s, _, u, v), u < v.
"""
HELPERS = """
.decl at(t: number)
.decl by(t: float, k: symbol)
.decl between(x: number, y: number)
.decl within(k: symbol, x: float, y: float)
.decl next(x: number, y: number)
.decl after(k: symbol, x: float, y: float)
between(x, y) :- at(x), at(z), at(y), x < z, z < y.
next(x, y) :- at(x), at(y), x < y, !between(x, y).
within(k, x, y) :- by(x, k), by(z, k), by(y, k), x < z, z < y.
after(k, x, y) :- by(x, k), by(y, k), x < y, !within(k, x, y).
"""
TWO = """
.decl a(t: number)
.decl b(t: number)
.decl na(x: number, y: number)
.decl nb(x: number, y: number)
na(x, y) :- a(x), a(y), x < y, !(a(z), x < z, z < y).
nb(x, y) :- b(x), b(y), x < y, !(b(z), x < z, z < y).
"""
MUTUAL = """
.decl e(x: number, y: number)
.decl p(x: number, y: number)
.decl q(x: number, y: number)
.decl best(x: number, n: number)
p(x, y) :- e(x, y).
q(x, z) :- p(x, y), e(y, z).
p(x, z) :- q(x, y), e(y, z), x != 99.
best(x, n) :- e(x, _), n = count : { p(x, _) }.
"""
PATHS = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
.decl apart(x: symbol, y: symbol)
.decl hops(x: symbol, n: number)
.decl degree(x: symbol, n: number)
hops("a", 0).
edge("a", "b").
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), reach(y, z).
apart(x, y) :- edge(x, _), edge(_, y), !(reach(x, z), reach(z, y)).
hops(y, min(n + 1)) :- hops(x, n), edge(x, y).
degree(x, n) :- edge(x, _), n = count : { edge(x, _) }.
"""
RECORDS = """
.type Pair = [name: symbol, n: number]
.type List = [head: Pair, tail: List]
.decl l(x: List)
.decl of(p: Pair, f: float)
.decl in(x: List, y: List)
.decl head(p: Pair)
.decl lone(p: Pair, f: float)
in(x, x) :- l(x).
in(x, t) :- in(x, [_, t]).
head(p) :- in(_, [p, _]).
lone(p, f) :- of(p, f), !head(p).
"""
NUMBERED = """
.decl e(x: symbol, y: symbol)
.decl r(x: symbol, y: symbol)
.decl ord_e(x: symbol, n: number)
r(x, y) :- e(x, y).
r(x, z) :- r(x, y), e(y, z).
ord_e(x, ord(x)) :- e(x, _).
ord_e(x, ord(x)) :- e(_, x).
"""
# What a rewrite derives for `range` is stored with the rest, and has symbols.
SPANS = """
.decl span(k: symbol, a: number, b: number)
.decl within(k: symbol, x: number)
.decl lone(k: symbol)
within(k, x) :- span(k, a, b), x = range(a % 3, b % 5).
within(k, x) :- within(j, y), span(k, y, _), j != k, x = range(0, y, 2).
lone(k) :- span(k, a, _), !( within(k, x), x = range(-2, a % 2) ).
"""
FIXED = {
    "events": (EVENTS, wide),
    "readings": (READINGS, wide),
    "helpers": (HELPERS, wide),
    "two": (TWO, wide),
    "mutual": (MUTUAL, wide),
    "paths": (PATHS, wide),
    "records": (RECORDS, wide),
    "numbered": (NUMBERED, wide),
    "spans": (SPANS, wide),
}


def ring(number: int) -> str:
    """`number` relations that recur through each other."""
    lines = [".decl e(x: number, y: number)", ".decl stop(x: number)", "r0(x, y) :- e(x, y)."]
    lines += [f".decl r{i}(x: number, y: number)" for i in range(number)]
    lines += [f"r{(i + 1) % number}(x, y) :- r{i}(x, y), !stop(x)." for i in range(number)]
    lines += [f"r{i}(x, z) :- r{number - 1 - i}(x, y), e(y, z)." for i in range(0, number, max(1, number // 3))]
    return "\n".join(lines)


def fixed(name: str) -> Subject:
    text, value = FIXED[name]
    program = parse(text, f"{name}.dl")
    return Subject(name, program, value, _shorter(program))


def _shorter(program: s.ParsedProgram) -> tuple[s.ParsedProgram, ...]:
    """The programs that lack one of the rules, and the one that lacks a fact."""
    found = []
    for at, item in enumerate(program.items):
        if isinstance(item, s.Rule) and not _names(item).startswith(UNKNOWN):
            found.append(s.ParsedProgram((*program.items[:at], *program.items[at + 1 :])))
    return tuple(found)


def _random(rng: random.Random) -> Subject:
    program = random_case(rng).program
    others = _shorter(program)
    chosen = rng.sample(others, min(len(others), 2))
    return Subject("random", program, few, tuple(other for other in chosen if _is_valid(other)))


def _is_valid(program: s.ParsedProgram) -> bool:
    try:
        sempre.Program(to_text(program))
    except sempre.ProgramError:
        return False
    return True


def _closures(rng: random.Random) -> Subject:
    others = tuple(modular_case(rng).program for _ in range(3))
    return Subject("closures", others[0], few, others)


def _ring(sizes: tuple[int, ...], rng: random.Random) -> Subject:
    programs = tuple(parse(ring(number), "ring.dl") for number in rng.sample(sizes, 2))
    return Subject("ring", programs[0], few, programs)


MADE: Mapping[str, Callable[[random.Random], Subject]] = {
    "random": _random,
    "closures": _closures,
    "ring": partial(_ring, (2, 3, 5, 9)),
    "long ring": partial(_ring, (60, 131, 300)),
}
NAMES = (*FIXED, *MADE)
QUICK = tuple(name for name in NAMES if name != "long ring")


def subject(name: str, rng: random.Random) -> Subject:
    return fixed(name) if name in FIXED else MADE[name](rng)
