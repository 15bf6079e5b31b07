"""Random programs over values of algebraic types: built, taken apart, compared, negated, counted, in recursion.

branching_case(rng)      a `Case`: rules of a pool, facts of all relations, updates of all base relations
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from sempre.lang.parser import parse
from tests.oracle.naive import Facts
from tests.oracle.values import Row, Value
from tests.property.dice import SYMBOLS
from tests.property.programs import Case, Update

TYPES = """
.type Pair = [a: number, t: Tree]
.type Tree = Leaf {} | Node {left: Tree, v: number, right: Tree} | Tag {name: symbol, held: Pair}
.type Color = Red {} | Green {} | Mixed {f: float, u: unsigned}
.decl tree(t: Tree)
.decl paint(t: Tree, c: Color)
.decl key(n: number)
.decl made(t: Tree)
.decl part(t: Tree, of: Tree)
.decl size(t: Tree, n: number)
.decl lone(t: Tree)
.decl seen(n: number, c: Color)
.decl counted(c: Color, n: number)
.decl many(c: Color, n: number)
"""
ALWAYS = ("made(t) :- tree(t).", "part(t, t) :- made(t).")
POOL = (
    "part(l, t) :- part($Node(l, _, _), t).",
    "part(r, t) :- part(x, t), x = $Node(_, n, r), n < 3.",
    "part(x, t) :- part($Tag(_, [_, x]), t).",
    "made($Node(a, n, b)) :- tree(a), tree(b), key(n).",
    "made($Node($Leaf, n, t)) :- tree(t), key(n), !tree($Node(t, n, $Leaf)).",
    'made($Tag("a", [n, t])) :- tree(t), key(n).',
    "made($Tag(s, nil)) :- tree($Tag(s, [_, $Leaf])).",
    "made(l) :- made($Node(l, _, _)).",
    "size($Leaf, 0). size(t, 1) :- made(t), t = $Tag(_, _).",
    "size(t, a + b + 1) :- made(t), t = $Node(l, _, r), size(l, a), size(r, b).",
    "lone(t) :- made(t), !paint(t, _), t != $Leaf.",
    "lone(t) :- made(t), !(t = $Node(_, n, _), key(n)).",
    "lone(t) :- paint(t, $Red) ; paint(t, $Mixed(f, _)), f > 0.5.",
    "seen(n, c) :- paint($Node(_, n, _), c).",
    "seen(n, $Mixed(itof(n), 1)) :- key(n), paint(_, $Green).",
    "seen(n, c) :- seen(m, c), key(n), m < n, !paint($Leaf, c).",
    "counted(c, n) :- paint(_, c), n = count : { paint(_, c) }.",
    "counted($Red, n) :- n = max v : { made($Node(_, v, _)) }.",
    "many(c, count(t)) :- paint(t, c).",
    "many($Red, count(n)) :- key(n).",
)
BASES = ("tree", "paint", "key")


def branching_case(rng: random.Random) -> Case:
    """A random program with its facts and updates."""
    rules = [*ALWAYS, *rng.sample(POOL, rng.randint(4, 10))]
    rng.shuffle(rules)
    program = parse(TYPES + "\n".join(rules), "random.dl")
    facts = {name: {_row(rng, name) for _ in range(rng.randint(1, 4))} for name in BASES}
    facts["made"] = {_row(rng, "tree") for _ in range(rng.randint(0, 1))}
    return Case(program, facts, list(_updates(rng, facts)))


def _updates(rng: random.Random, facts: Facts) -> Iterator[Update]:
    now = {name: set(rows) for name, rows in facts.items()}
    for _ in range(3):
        insert: Facts = {}
        delete: Facts = {}
        for name in rng.sample(sorted(now), rng.randint(1, 3)):
            gone = {row for row in now[name] if rng.random() < 0.4}
            come = {_row(rng, "tree" if name == "made" else name) for _ in range(rng.randint(0, 2))}
            delete[name], insert[name] = gone, come
            now[name] = (now[name] - gone) | come
        yield insert, delete


def _row(rng: random.Random, name: str) -> Row:
    if name == "key":
        return (rng.randrange(4),)
    return (_tree(rng, 2),) if name == "tree" else (_tree(rng, 1), _color(rng))


def _tree(rng: random.Random, depth: int) -> Value:
    roll = rng.random()
    if not depth or roll < 0.3:
        return ("Leaf",)
    if roll < 0.75:
        return ("Node", _tree(rng, depth - 1), rng.randrange(4), _tree(rng, depth - 1))
    held = None if rng.random() < 0.2 else (rng.randrange(3), _tree(rng, depth - 1))
    return ("Tag", rng.choice((*SYMBOLS, "f(x)", ")", "$Leaf")), held)


def _color(rng: random.Random) -> Value:
    return rng.choice((("Red",), ("Green",), ("Mixed", rng.randrange(3) / 2, rng.choice((0, 1, (1 << 64) - 1)))))
