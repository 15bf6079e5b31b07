"""Random programs whose rules end in trees of joins that only have to be there, over relations with hubs.

Of a tree of atoms the head has a variable or two, near each other. The other atoms lead away from them, in any order,
over relations below and of the rule's own stratum, past comparisons, negations and counts, and twice over the same.
"""

from __future__ import annotations

import random

from sempre.lang.parser import parse
from tests.oracle.naive import Facts
from tests.oracle.values import Row
from tests.property.cycles import shuffled
from tests.property.programs import Case

BASES = {"e": 2, "f": 2, "g": 3}
HEADS = {"p": 1, "r": 2, "o": 1}
HUB, SIZE = 0, 6


def tailed_case(rng: random.Random) -> Case:
    """A program of rules with tails, facts with hubs, and updates."""
    lines = [f".decl {name}({_columns(arity)})" for name, arity in (BASES | HEADS).items()]
    lines += [_rule(rng, head) for head in HEADS for _ in range(rng.randint(1, 2))]
    lines += [".decl left(x: number)", "left(x) :- e(x, _), !p(x)."]
    program = parse("\n".join(lines), "random.dl")
    start: Facts = {name: _rows(rng, arity, rng.randint(3, 14)) for name, arity in BASES.items()}
    present = {name: set(rows) for name, rows in start.items()}
    return Case(program, start, [_update(rng, present) for _ in range(rng.randint(1, 2))])


def _columns(arity: int) -> str:
    return ", ".join(f"{column}: number" for column in "xyz"[:arity])


def _rule(rng: random.Random, head: str) -> str:
    """A tree of atoms that grows from the variables of the head."""
    known = ["v0", "v1"][: HEADS[head]]
    body = [f"{rng.choice('ef')}(v0, {known[-1] if len(known) > 1 else '_'})"]
    for _ in range(rng.randint(2, 5)):
        # Mostly on from the last one: what is far from the head has to be there, no more.
        old = known[-1] if rng.random() < 0.7 else rng.choice(known)
        known.append(f"v{len(known) + 1}")
        body.append(_atom(rng, old, known[-1], head))
    if rng.random() < 0.3:
        body.append(f"{rng.choice(known)} {rng.choice(('!=', '<'))} {rng.choice((*known, '0', '3'))}")
    if rng.random() < 0.2:
        body.append(f"!f({rng.choice(known)}, {rng.choice((*known, '_'))})")
    if rng.random() < 0.2:
        body.append(f"n = count : {{ e({rng.choice(known)}, _) }}, n != 1")
    if rng.random() < 0.2:
        body.append(f"{known[-1]} + 1 = w, e(w, _)")
    if rng.random() < 0.2:
        body.append(rng.choice(body[:2]))
    return f"{head}({', '.join(known[: HEADS[head]])}) :- {', '.join(shuffled(rng, body))}."


def _atom(rng: random.Random, old: str, new: str, head: str) -> str:
    name = rng.choice(("e", "e", "f", "g", "r" if head == "r" else "e", "p" if head == "p" else "f"))
    if name == "p":
        return f"e({old}, {new}), p({new})"
    args = rng.sample([old, new], 2)
    if name == "g":
        args.insert(rng.randrange(3), rng.choice(("_", "_", "0", old, new)))
    return f"{name}({', '.join(args)})"


def _rows(rng: random.Random, arity: int, number: int) -> set[Row]:
    return {tuple(HUB if rng.random() < 0.3 else rng.randrange(SIZE) for _ in range(arity)) for _ in range(number)}


def _update(rng: random.Random, present: dict[str, set[Row]]) -> tuple[Facts, Facts]:
    insert: Facts = {name: _rows(rng, arity, rng.randint(0, 3)) for name, arity in BASES.items()}
    delete: Facts = {
        name: set(rng.sample(sorted(rows), min(len(rows), rng.randint(0, 4)))) for name, rows in present.items()
    }
    for name, rows in present.items():
        rows -= delete[name]
        rows |= insert[name]
    return insert, delete
