"""Random programs whose rules join in circles, over relations with hubs: what plans must not be led astray by.

Bodies have more atoms than variables, some of them atoms of the rule's own stratum, in any order, with constants,
values that nobody reads, negated circles and counted ones. Half of all values are the hub.
"""

from __future__ import annotations

import random

from sempre.lang.parser import parse
from tests.oracle.naive import Facts
from tests.oracle.values import Row
from tests.property.programs import Case

BASES = {"e": 2, "f": 2, "g": 3}
HEADS = {"r": 2, "s": 2, "t": 1}
VARIABLES = ("a", "b", "c", "d")
COUNTED = parse(
    """
.decl e(x: number, y: number)
.decl f(x: number, y: number)
.decl g(x: number, y: number)
.decl k(x: number, y: number)
.decl m(x: number, y: number, z: number)
.decl h(x: number)
.decl p(x: number, y: number)
h(b) :- g(a, b), k(b, _), f(a, c), e(c, _).
h(b) :- m(a, b, d), k(d, _), f(a, c), e(c, _).
p(a, b) :- g(a, b).
p(b, d) :- m(a, b, d), k(d, _), f(a, c), p(c, _).
p(b, c) :- p(a, b), k(b, _), f(a, c), e(c, _).
""",
    "counted.dl",
)
HUB = 0
SIZE = 7


def cyclic_case(rng: random.Random) -> Case:
    """A program of rules with circles, facts with hubs, and updates."""
    lines = [_declared(name, arity) for name, arity in (BASES | HEADS).items()]
    lines += [_rule(rng, head) for head in HEADS for _ in range(rng.randint(1, 2))]
    lines += [f".decl n(x: number, n: number)\nn(a, n) :- e(a, _), n = {_counted(rng)}." for _ in range(1)]
    program = parse("\n".join(lines), "random.dl")
    present: dict[str, set[Row]] = {name: set() for name in BASES}
    start: Facts = {name: _rows(rng, arity, rng.randint(0, 12)) for name, arity in BASES.items()}
    for name, rows in start.items():
        present[name] |= rows
    return Case(program, start, [_update(rng, present) for _ in range(rng.randint(1, 3))])


def shuffled(rng: random.Random, body: list[str]) -> list[str]:
    """The body in another order."""
    return rng.sample(body, len(body))


def _declared(name: str, arity: int) -> str:
    return f".decl {name}({', '.join(f'{column}: number' for column in 'xyz'[:arity])})"


def _rule(rng: random.Random, head: str) -> str:
    body = _circle(rng, (*BASES, *BASES, *HEADS), VARIABLES[: rng.randint(2, 4)])
    used = [name for name in VARIABLES if any(_mentions(atom, name) for atom in body)] or ["a"]
    if not any(_mentions(atom, used[0]) for atom in body):
        body.append("e(a, _)")
    args = ", ".join(rng.choice(used) for _ in range(HEADS[head]))
    if rng.random() < 0.2:
        body.append(f"!f({rng.choice(used)}, {rng.choice(used)})")
    if rng.random() < 0.2:
        body.append(f"!(e({used[0]}, z), f(z, w), e(w, {used[-1]}))")
    return f"{head}({args}) :- {', '.join(shuffled(rng, body))}."


def _circle(rng: random.Random, relations: tuple[str, ...], variables: tuple[str, ...]) -> list[str]:
    """Atoms that go round the variables, and some across."""
    body = []
    for number in range(len(variables) + rng.randint(0, 2)):
        ends = [variables[number % len(variables)], variables[(number + 1) % len(variables)]]
        name = rng.choice(relations)
        arity = (BASES | HEADS)[name]
        third = rng.choice((*variables, "_", "_", "0", "1"))
        args = [*rng.sample(ends, 2), third][:arity]
        body.append(f"{name}({', '.join(rng.sample(args, arity))})")
    return body


def _mentions(atom: str, variable: str) -> bool:
    return variable in atom[atom.index("(") :]


def _counted(rng: random.Random) -> str:
    body = ["e(a, y)", rng.choice(("f(y, z)", "r(y, z)")), "e(z, a)"]
    return f"count : {{ {', '.join(shuffled(rng, body))} }}"


def _rows(rng: random.Random, arity: int, number: int) -> set[Row]:
    return {tuple(HUB if rng.random() < 0.5 else rng.randrange(SIZE) for _ in range(arity)) for _ in range(number)}


def _update(rng: random.Random, present: dict[str, set[Row]]) -> tuple[Facts, Facts]:
    insert: Facts = {name: _rows(rng, arity, rng.randint(0, 3)) for name, arity in BASES.items()}
    delete: Facts = {
        name: set(rng.sample(sorted(rows), min(len(rows), rng.randint(0, 3)))) for name, rows in present.items()
    }
    for name, rows in present.items():
        rows -= delete[name]
        rows |= insert[name]
    return insert, delete


def counted_case(rng: random.Random) -> Case:
    """Rows that stand for several instances meet joins that find several and bind nothing."""

    def some(most: int) -> dict[str, set[tuple[int, ...]]]:
        return {
            name: {tuple(rng.randrange(3) for _ in range(arity)) for _ in range(rng.randint(0, most))}
            for name, arity in {"e": 2, "f": 2, "g": 2, "k": 2, "m": 3}.items()
        }

    return Case(COUNTED, some(9), [(some(3), some(3)) for _ in range(2)])
