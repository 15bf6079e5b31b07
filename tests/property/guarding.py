"""Random programs in which relations do not keep all rows: subsumption and limits, and choices.

guarding_case(rng)     subsumption (in recursion, or not) and `.limitsize`, with readers above
choosing_case(rng)     relations with `choice-domain`, in recursion or not, with readers above
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from sempre.lang.parser import parse
from tests.oracle.naive import Facts
from tests.oracle.values import Row, Value
from tests.property.programs import Case, Update

BASES = {"edge": "nnn", "word": "sn"}
DECLARED = ".decl edge(x: number, y: number, w: number)\n.decl word(s: symbol, n: number)\n"
GUARDED = (
    ".decl dist(x: number, d: number)\ndist(0, 0).\ndist(y, d + w) :- dist(x, d), edge(x, y, w).\n"
    "dist(x, a) <= dist(x, b) :- b < a.",
    ".decl dist(x: number, d: number)\ndist(x, w) :- edge(x, _, w).\ndist(x, d) :- dist(y, d), edge(x, y, _), d > 1.\n"
    "dist(x, a) <= dist(x, b) :- b > a.",
    ".decl dist(x: number, d: number)\ndist(x, w) :- edge(_, x, w).\ndist(x, a) <= dist(y, b) :- x <= y, a <= b.",
    ".decl dist(x: number, d: number)\ndist(x, w) :- edge(x, _, w).\ndist(x, a) <= dist(y, b) :- a <= b.",
    ".decl dist(x: number, d: number)\ndist(x, w) :- edge(x, _, w).\ndist(_, 0) <= dist(y, 0) :- y > 1.\n"
    "dist(x, a) <= dist(x, b) :- a < b, !(a = 2).",
    ".decl dist(x: number, d: number)\ndist(x, 0) :- word(_, x).\ndist(y, d + 1) :- dist(x, d), edge(x, y, _), d < 9.\n"
    ".limitsize dist(n=4)",
    ".decl dist(x: number, d: number)\n.decl hop(x: number, d: number)\ndist(0, 0).\n"
    "hop(y, d + w) :- dist(x, d), edge(x, y, w).\ndist(y, d) :- hop(y, d), !word(_, y).\n"
    "dist(x, a) <= dist(x, b) :- b < a.",
)
WORDS = (
    "",
    ".decl best(s: symbol, n: number)\nbest(s, n) :- word(s, n).\nbest(s, a) <= best(t, b) :- a <= b.",
    ".decl best(s: symbol, n: number)\nbest(cat(s, t), n) :- word(s, n), word(t, n).\n"
    "best(s, a) <= best(t, b) :- a = b, strlen(s) <= strlen(t).",
)
READERS = (
    ".decl above(x: number, n: number)\nabove(x, n) :- dist(x, _), n = count : { dist(_, _) }.\n"
    ".decl apart(x: number)\napart(x) :- edge(x, _, _), !dist(x, _).\n"
    ".decl far(x: number, y: number)\nfar(x, y) :- dist(x, _), edge(x, y, _).\nfar(x, z) :- far(x, y), edge(y, z, _).\n"
)
CHOOSING = (
    ".decl pick(x: number, y: number) choice-domain y\npick(0, 0).\npick(x, y) :- pick(_, x), edge(x, y, _).",
    ".decl pick(x: number, y: number) choice-domain x, y\npick(x, y) :- edge(x, y, _).",
    ".decl pick(x: number, y: number) choice-domain (x, y)\npick(x, w) :- edge(x, _, w).\npick(y, w) :- edge(_, y, w).",
    ".decl pick(x: number, y: number) choice-domain x\n.decl way(x: number, y: number)\n"
    "pick(x, y) :- edge(x, y, _).\npick(x, z) :- way(x, y), edge(y, z, 1).\nway(x, y) :- pick(x, y), x != y.",
)


def guarding_case(rng: random.Random) -> Case:
    """A random program with its facts and updates."""
    text = DECLARED + rng.choice(GUARDED) + "\n" + rng.choice(WORDS) + "\n" + READERS
    return _case(rng, text, "dist")


def choosing_case(rng: random.Random) -> Case:
    """A program with a relation `pick`, of which a row excludes others."""
    return _case(rng, DECLARED + rng.choice(CHOOSING) + "\n" + READERS.replace("dist", "pick"), "pick")


def _case(rng: random.Random, text: str, own: str) -> Case:
    program = parse(text, "random.dl")
    facts = {name: {_row(rng, kinds) for _ in range(rng.randint(2, 8))} for name, kinds in BASES.items()}
    facts[own] = {_row(rng, "nn") for _ in range(rng.randint(0, 2))}
    return Case(program, facts, list(_updates(rng, facts, own)))


def _updates(rng: random.Random, facts: Facts, own: str) -> Iterator[Update]:
    now = {name: set(rows) for name, rows in facts.items()}
    shapes = {**BASES, own: "nn"}
    for _ in range(4):
        insert: Facts = {}
        delete: Facts = {}
        for name in rng.sample(sorted(now), rng.randint(1, 2)):
            delete[name] = {row for row in now[name] if rng.random() < 0.3}
            insert[name] = {_row(rng, shapes[name]) for _ in range(rng.randint(0, 2))}
            now[name] = (now[name] - delete[name]) | insert[name]
        yield insert, delete


def _row(rng: random.Random, kinds: str) -> Row:
    values: dict[str, tuple[Value, ...]] = {"n": (0, 1, 2, 3, 4), "s": ("a", "b", "ab", "z", "")}
    return tuple(rng.choice(values[kind]) for kind in kinds)
