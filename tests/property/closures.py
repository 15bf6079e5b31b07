"""Random programs in which rules that modules take over share a stratum, and relations, with rules they do not.

Three binary relations read each other through random generic rules; some of them are closed, linear, symmetric or
equivalences. Every relation may have explicit facts, and readers above count and negate what the modules derive.
"""

from __future__ import annotations

import random

from sempre.lang.parser import parse
from tests.oracle.naive import Facts
from tests.property.programs import Case

BASES = ("e", "f", "g")
HEADS = ("r", "s", "t")

# What may close `H`; `B` is a base relation, `O` another head.
CLOSING = (
    ("H(x, z) :- H(x, y), H(y, z).",),
    ("H(x, z) :- H(y, z), H(x, y).",),
    ("H(x, y) :- H(y, x).", "H(x, z) :- H(x, y), H(y, z)."),
    ("H(x, z) :- H(x, y), B(y, z).",),
    ("H(x, z) :- B(x, y), H(y, z).",),
    ("H(x, z) :- B(x, y), H(y, z).", "H(x, z) :- H(x, y), B(y, z)."),
    ("H(x, z) :- H(x, y), O(y, z).",),
    ("H(x, z) :- O(x, y), H(y, z).", "H(x, z) :- H(x, y), H(y, z)."),
    ("H(x, z) :- O(x, y), O(y, z).",),
    # Two relations that are the same step: one may stand in for the other, and rest on what it stands in for.
    ("H(x, z) :- H(x, y), B(y, z).", "H(x, z) :- H(x, y), O(y, z)."),
    ("H(x, z) :- O(x, y), H(y, z).", "H(x, z) :- B(x, y), H(y, z)."),
)
GENERIC = (
    "H(x, y) :- B(x, y).",
    "H(x, y) :- B(x, y).",
    "H(x, y) :- B(x, y), !B(y, x).",
    "H(y, x) :- O(x, y).",
    "H(x, y) :- O(x, y), B(x, y).",
    "H(x, y) :- O(x, z), B(z, y).",
    "H(x, y) :- O(x, y), H(y, x).",
    "H(x, y) :- B(x, y), O(y, y).",
    "H(x, y) :- O(x, z), O(y, z), x < y.",
)
READERS = (
    ".decl n(x: number, y: number)\nn(x, y) :- B(x, y), !H(x, y).",
    ".decl c(x: number, n: number)\nc(x, n) :- B(x, _), n = count : { H(x, _) }.",
    ".decl m(x: number)\nm(n) :- n = max y : { H(_, y) }.",
)


# Chains that do not read their head.
STEPS = ("H(x, z) :- O(x, y), B(y, z).", "H(x, z) :- B(x, y), O(y, z).", "H(x, w) :- O(x, y), B(y, z), O(z, w).")


def modular_case(rng: random.Random, stepping: bool = False) -> Case:
    """A program with closures, facts for it, and updates; where it is `stepping`, heads have chains of others."""
    heads = HEADS[: rng.randint(1, 3)]
    equivalence = rng.choice(heads) if rng.random() < 0.2 else ""
    lines = [f".decl {name}(x: number, y: number)" for name in BASES]
    lines += [f".decl {name}(x: number, y: number){' eqrel' if name == equivalence else ''}" for name in heads]
    for head in heads:
        if rng.random() < 0.8 and head != equivalence:
            lines += [_filled(rng, rule, head, heads) for rule in rng.choice(CLOSING)]
        lines += [_filled(rng, rng.choice(GENERIC), head, heads) for _ in range(rng.randint(1, 3))]
        lines += [_filled(rng, rng.choice(STEPS), head, heads) for _ in range(stepping and rng.randint(0, 2))]
    for reader in rng.sample(READERS, rng.randint(0, 2)):
        lines.append(_filled(rng, reader, rng.choice(heads), heads))
    program = parse("\n".join(lines), "random.dl")
    size = rng.randint(3, 6)
    present: dict[str, set[tuple[int, int]]] = {name: set() for name in (*BASES, *heads)}
    start = {name: _rows(rng, size, rng.randint(0, 6)) for name in BASES}
    start |= {name: _rows(rng, size, rng.randint(0, 2)) for name in heads}
    for name, rows in start.items():
        present[name] |= rows
    return Case(program, dict(start), [_update(rng, size, present) for _ in range(rng.randint(2, 4))])


def _filled(rng: random.Random, rule: str, head: str, heads: tuple[str, ...]) -> str:
    other = rng.choice([name for name in heads if name != head] or [rng.choice(BASES)])
    return rule.replace("H(", f"{head}(").replace("O(", f"{other}(").replace("B(", f"{rng.choice(BASES)}(")


def _rows(rng: random.Random, size: int, number: int) -> set[tuple[int, int]]:
    return {(rng.randrange(size), rng.randrange(size)) for _ in range(number)}


def _update(rng: random.Random, size: int, present: dict[str, set[tuple[int, int]]]) -> tuple[Facts, Facts]:
    """Some insertions and deletions of explicit facts; `present` is brought up to date."""
    insert: Facts = {}
    delete: Facts = {}
    for name, rows in present.items():
        if rng.random() < 0.5:
            gone = {row for row in sorted(rows) if rng.random() < 0.4}
            come = _rows(rng, size, rng.randint(0, 3))
            delete[name], insert[name] = set(gone), set(come)
            rows -= gone
            rows |= come
    return insert, delete
