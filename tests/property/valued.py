"""Random programs over values of every type: floats that are NaN, infinite or negative zeros, symbols, records.

What they do with them is aggregated in heads and in bodies, some of it in recursion, and computed by functors, of
Python too. All relations have a location, so that the same program runs on nodes and in one place.

    valued_case(rng)         a `Case` of `networks`
    registered()             a context with the Python functors that the programs call
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import sempre
from sempre.network.node import Fact
from sempre.network.simulate import Burst
from sempre.python_functions import REGISTERED
from tests.oracle.values import NAN, Row, Value, canonical
from tests.property.networks import Case, case_of

FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.1, 0.2, 0.3, 2.0, 1e16, -1e16, 3.0, 1e300, -1e300, 1.7e308, -1.7e308, 5e-324, 2.0**-1060),
    *(math.inf, -math.inf, NAN),
)
# Those that show how they were added.
ROUNDING = (1.0, 0.1, 0.2, 0.3, 1e16, -1e16, 3.0)
SYMBOLS = ("", "z", "b", "a", "ab", "B", "é", "ß", "\U0001f600", "10", "9", "nan")
# Small enough for every sum in between: nodes add before they know of all that is deleted.
NUMBERS = (0, 1, -1, 2, 7, 1 << 53, (1 << 53) + 1, -(1 << 60), (1 << 60) + 1)
UNSIGNED = (0, 1, 2, 7, 1 << 53, (1 << 53) + 1, 1 << 60, 1 << 61)
VALUES: dict[str, tuple[Value, ...]] = {
    "float": FLOATS, "symbol": SYMBOLS, "number": NUMBERS, "unsigned": UNSIGNED,
}  # fmt: skip
# The relation that holds values of a kind.
BASES = {"float": "f", "symbol": "s", "number": "i", "unsigned": "u"}

KINDS = ("float", "float", "float", "symbol", "number", "unsigned")
NODES = 3

# `{k}` is the kind, `{b}` its relation, `{n}` a number that no other rule has.
ANY = (
    ("d{n}(@k: number, x: {k})", "d{n}(@k, min(x)) :- {b}(@k, x)."),
    ("d{n}(@k: number, x: {k})", "d{n}(@k, max(x)) :- {b}(@k, x)."),
    ("d{n}(@k: number, x: {k})", "d{n}(@k, x) :- link(@k, _), x = min y : {{ {b}(@k, y) }}."),
    ("d{n}(@k: number, x: {k})", "d{n}(@k, x) :- link(@k, _), x = max y : {{ {b}(@k, y) }}."),
    ("d{n}(@k: number, x: number)", "d{n}(@k, count(x)) :- link(@k, z), {b}(@z, x)."),
    ("d{n}(@k: number, x: number)", "d{n}(@k, x) :- link(@k, z), x = count : {{ {b}(@z, _) }}."),
    ("d{n}(@k: number, x: {k})", "d{n}(@k, min(x, y)) :- {b}(@k, x), link(@k, z), {b}(@z, y)."),
    ("d{n}(@k: number, x: {k})", "d{n}(@k, max(x, y, x)) :- {b}(@k, x), link(@k, z), {b}(@z, y)."),
    ("d{n}(@k: number, x: {k})", "d{n}(@k, x) :- {b}(@k, x), link(@k, z), !{b}(@z, x)."),
    ("d{n}(@k: number, x: {k}, y: {k})", "d{n}(@k, x, y) :- {b}(@k, x), {b}(@k, y), x < y."),
    ("d{n}(@k: number, x: {k}, y: {k})", "d{n}(@k, x, y) :- {b}(@k, x), {b}(@k, y), x >= y, x != y."),
    # A value is the key of a group, and what rows are joined by.
    ("d{n}(@k: number, x: {k}, c: number)", "d{n}(@k, x, count(c)) :- {b}(@k, x), link(@k, c)."),
    ("d{n}(@k: number, x: {k})", "d{n}(@d, x) :- link(@k, d), {b}(@k, x), {b}(@d, x)."),
    ("d{n}(@k: number, x: symbol)", "d{n}(@k, cat(s, s)) :- s(@k, s), {b}(@k, x), x = x."),
    # Around cycles.
    (
        "d{n}(@k: number, x: {k})",
        "d{n}(@k, min(x)) :- {b}(@k, x).\nd{n}(@d, min(x)) :- link(@k, d), d{n}(@k, x).",
    ),
    ("d{n}(@k: number, x: {k})", "d{n}(@k, x) :- {b}(@k, x).\nd{n}(@d, x) :- link(@k, d), d{n}(@k, x)."),
)
NUMERIC = (
    ("d{n}(@k: number, x: {k})", "d{n}(@k, sum(x)) :- {b}(@k, x)."),
    ("d{n}(@k: number, x: {k})", "d{n}(@d, sum(x)) :- link(@k, d), {b}(@k, x)."),
    ("d{n}(@k: number, x: {k})", "d{n}(@k, sum(x)) :- link(@k, z), {b}(@z, x).\nd{n}(@k, sum(x)) :- {b}(@k, x)."),
    ("d{n}(@k: number, x: {k})", "d{n}(@k, x) :- link(@k, z), x = sum y : {{ {b}(@z, y), link(@z, _) }}."),
    ("d{n}(@k: number, x: float)", "d{n}(@k, x) :- link(@k, _), x = mean y : {{ {b}(@k, y) }}."),
    (
        "d{n}(@k: number, x: {k})",
        "d{n}(@k, max(x)) :- {b}(@k, x).\nd{n}(@d, max(x)) :- link(@k, d), d{n}(@k, x).",
    ),
)
OF_FLOATS = (
    ("d{n}(@k: number, x: float)", "d{n}(@k, x + y) :- f(@k, x), f(@k, y)."),
    ("d{n}(@k: number, x: float)", "d{n}(@k, x * y) :- f(@k, x), link(@k, z), f(@z, y)."),
    ("d{n}(@k: number, x: float)", "d{n}(@k, -x - 0.0) :- f(@k, x)."),
    ("d{n}(@k: number, x: float)", "d{n}(@k, sum(x + y)) :- f(@k, x), link(@k, z), f(@z, y)."),
    ("d{n}(@k: number, x: float)", "d{n}(@k, x) :- f(@k, x), x = 0.0."),
    ("d{n}(@k: number, x: float)", "d{n}(@k, x) :- h(@k, [x, _]), f(@k, x)."),
    ("d{n}(@k: number, p: pair)", "d{n}(@k, [x, s]) :- f(@k, x), s(@k, s)."),
    ("d{n}(@k: number, p: pair)", "d{n}(@d, p) :- h(@k, p), link(@k, d), !h(@d, p)."),
    ("d{n}(@k: number, x: float)", "d{n}(@k, @half(x)) :- f(@k, x)."),
    ("d{n}(@k: number, x: float)", "d{n}(@k, x) :- link(@k, _), x = sum @half(y) : { f(@k, y) }."),
    ("d{n}(@k: number, x: symbol)", "d{n}(@k, @marked(s, i)) :- s(@k, s), i(@k, i)."),
    ("d{n}(@k: number, u: unsigned)", "d{n}(@k, u) :- u(@k, u), !i(@k, @size(u))."),
)
# What the oracle has instead of Python.
MEANING = {
    "@half(x)": "x * 0.5", "@half(y)": "y * 0.5", "@marked(s, i)": "cat(s, to_string(i))",
    "@size(u)": "strlen(to_string(u))",
}  # fmt: skip
DECLARED = """
.type pair = [x: float, s: symbol]
.functor half(x: float): float
.functor marked(s: symbol, n: number): symbol
.functor size(u: unsigned): number
.decl link(@k: number, d: number)
.decl f(@k: number, x: float)
.decl s(@k: number, x: symbol)
.decl i(@k: number, x: number)
.decl u(@k: number, x: unsigned)
.decl h(@k: number, p: pair)
"""


@contextmanager
def registered() -> Iterator[None]:
    """The Python functors of the programs are there."""
    before = dict(REGISTERED)

    @sempre.functor
    def half(x: float) -> float:
        return x * 0.5

    @sempre.functor
    def marked(text: str, number: int) -> str:
        return f"{text}{number}"

    @sempre.functor(columns=True)
    def size(numbers: Any) -> list[int]:
        return [len(str(number)) for number in numbers.tolist()]

    try:
        yield
    finally:
        REGISTERED.clear()
        REGISTERED.update(before)


def valued_case(rng: random.Random, python: bool = True) -> tuple[Case, Case]:
    """A case, and the one that means the same to the oracle, which has no Python functors."""
    of_floats = [rule for rule in OF_FLOATS if python or not any(call in rule[1] for call in MEANING)]
    texts = [DECLARED, "\n".join(line for line in DECLARED.splitlines() if not line.startswith(".functor"))]
    for number in range(rng.randint(3, 7)):
        kind = rng.choice(KINDS)
        pools = [ANY, NUMERIC if kind != "symbol" else ANY, of_floats]
        form, rules = rng.choice(rng.choice(pools))
        if "{b}" in rules:
            rules = rules.format(k=kind, b=BASES[kind], n=number)
        else:
            rules = rules.replace("{n}", str(number))
        declared = f".decl {form.format(k=kind, n=number)}\n"
        texts[0] += declared + rules + "\n"
        for call, meaning in MEANING.items():
            rules = rules.replace(call, meaning)
        texts[1] += declared + rules + "\n"
    bursts = tuple(_bursts(rng, rng.randint(1, 4)))
    ours, theirs = (case_of(text, bursts) for text in texts)
    return ours, theirs


def by_relation(facts: Iterable[Fact]) -> dict[str, list[Row]]:
    """Facts as `Database.apply` takes them."""
    found: dict[str, list[Row]] = {}
    for name, row in facts:
        found.setdefault(name, []).append(row)
    return found


def _bursts(rng: random.Random, count: int) -> Iterator[Burst]:
    here: list[Fact] = []
    for number in range(count):
        insert = list(dict.fromkeys(_fact(rng) for _ in range(rng.randint(1, 8 if number else 20))))
        delete = rng.sample(here, rng.randint(0, len(here) // 2))
        here = [fact for fact in dict.fromkeys([*here, *insert]) if fact not in delete or fact in insert]
        yield Burst(tuple(insert), tuple(delete))


def _fact(rng: random.Random) -> Fact:
    node = rng.randint(1, NODES)
    name = rng.choice(("link", "link", "f", "f", "f", "s", "i", "u", "h"))
    row: Row
    if name == "link":
        row = (node, rng.randint(1, NODES))
    elif name == "h":
        row = (node, rng.choice([None, (canonical(rng.choice(FLOATS)), rng.choice(SYMBOLS))]))
    else:
        kind = next(kind for kind, base in BASES.items() if base == name)
        value = rng.choice(ROUNDING if kind == "float" and rng.random() < 0.5 else VALUES[kind])
        row = (node, canonical(value))
    return name, row
