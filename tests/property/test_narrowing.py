"""Atoms that are narrowed: the same facts, instances and numbers as the oracle's, in programs that have such atoms."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from sempre.lang.parser import parse
from sempre.maintain import narrowing, seminaive, states
from sempre.maintain.narrowing import Narrowed
from tests.engine import UNHURRIED, Changes, check_epochs
from tests.oracle.naive import Facts

pytestmark = pytest.mark.oracle

# A defect is found in the first of these; some take more.
CASES, SEARCHED = 30, 80
# Those that begin with rounds from scratch, with and without numbers that count instances.
STRATEGIES = ("recompute", "ranked", "dredc")
ALWAYS = replace(UNHURRIED, narrowed_rows=0, narrowed_share=1.0, narrowing_size=1 << 60)

VALUES: dict[str, tuple[Any, ...]] = {
    "number": (-(1 << 63), -1, 0, 1, 2, (1 << 63) - 1),
    "unsigned": (0, 1, 2, 3, 1 << 63, (1 << 64) - 1),
    "float": (0.0, 1.5, -1.5, 5e-324, float("inf"), -1.7e308),
    "symbol": ("", "a", "b", "é", "a\tb", "0"),
}
# Those of the stratum, and those below.
OWN, BELOW = {"p": 2, "q": 3, "w": 6}, {"a": 1, "b": 2, "c": 3}
FIRST = {"p": "e", "q": "f", "w": "g"}
NAMES = "xyzuv"


def random_program(rng: random.Random) -> tuple[str, str]:
    """A program with rules of several recursive atoms and some below, and the kind of all its columns."""
    kind = rng.choice(tuple(VALUES))
    arities = {**OWN, **BELOW, **{name: OWN[own] for own, name in FIRST.items()}}
    lines = [f".decl {name}({', '.join(f'c{at}: {kind}' for at in range(arity))})" for name, arity in arities.items()]
    for own, first in FIRST.items():
        args = ", ".join(NAMES[at % 5] + str(at) for at in range(OWN[own]))
        lines.append(f"{own}({args}) :- {first}({args}).")
    for _ in range(rng.randint(2, 4)):
        names = [rng.choice(("p", "p", "q", "q", "w")) for _ in range(rng.choice((2, 2, 2, 3)))]
        names += [rng.choice(tuple(BELOW)) for _ in range(rng.randint(1, 2))]
        rng.shuffle(names)
        used: list[str] = []
        body = []
        for name in names:
            row: list[str] = []
            for _ in range(arities[name]):
                row.append(
                    "_" if rng.random() < 0.15 else rng.choice(used[-3:] if used and rng.random() < 0.6 else NAMES)
                )
                used += [row[-1]] if row[-1] != "_" else []
            body.append(f"{name}({', '.join(row)})")
        known = used or ["x"]
        if rng.random() < 0.3:
            body.append(f"!b({rng.choice(known)}, {rng.choice(known)})")
        if not used:
            continue
        head = rng.choice(tuple(OWN))
        lines.append(f"{head}({', '.join(rng.choice(known) for _ in range(OWN[head]))}) :- {', '.join(body)}.")
    return "\n".join(lines) + "\n", kind


def random_facts(rng: random.Random, kind: str, most: int) -> Facts:
    """Facts over four values; those below have two of them, so that little is left of others."""
    domain = VALUES[kind][-4:]
    found: Facts = {}
    for name, arity in {**BELOW, "e": 2, "f": 3, "g": 6}.items():
        values = domain[1:3] if name in BELOW else domain
        found[name] = {tuple(rng.choice(values) for _ in range(arity)) for _ in range(rng.randint(most // 2, most))}
    return found


def check(strategy: str, cases: int, **options: Any) -> tuple[int, int]:
    """Runs cases with atoms narrowed wherever they can be; returns the rows that were looked at, and those left out.

    `options` are those of the databases.
    """
    seen = left_out = 0
    real = Narrowed.of

    def of(self: Narrowed, rows: Any) -> Any:
        nonlocal seen, left_out
        found = real(self, rows)
        seen, left_out = seen + len(rows), left_out + len(rows) - len(found)
        return found

    with mock.patch.object(Narrowed, "of", of):
        for seed in range(cases):
            rng = random.Random(f"narrowing/{strategy}/{seed}")
            text, kind = random_program(rng)
            epochs: list[Changes] = [(random_facts(rng, kind, 9), {})]
            epochs.append(
                (random_facts(rng, kind, 2), {name: set(list(rows)[:2]) for name, rows in epochs[0][0].items()})
            )
            check_epochs(parse(text), epochs, strategy, limits=ALWAYS, modules="off", **options)
    return seen, left_out


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_narrowed_atoms_find_the_same(strategy: str) -> None:
    seen, left_out = check(strategy, CASES)
    assert 0 < left_out < seen


def _other_column(self: Any, rows: Any) -> Any:
    """The values are looked for in another column."""
    for column, values in self._tests:
        rows = values.having(rows, column - 1 if column else column)
    return rows


def _new_as_old(views: Any, name: str, larger: Any, smaller: Any, only: Any) -> None:
    """Instances with two new facts are found by two plans."""
    READ_STEP(views, name, larger, larger if "#" in name else smaller, only)


READ_STEP = states.read_step
DEFECTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "the wrong column is narrowed": (Narrowed, "of", _other_column),
    "instances are found twice": (seminaive, "read_step", _new_as_old),
    "new rows are forgotten": (seminaive.Fixpoint, "_step_narrowed", lambda self, delta: []),
    "any atom needs what one needs": (narrowing, "_is_of", lambda step, atom: step.relation == atom.relation),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str) -> None:
    target, attribute, defect = DEFECTS[name]
    with mock.patch.object(target, attribute, defect), pytest.raises((AssertionError, KeyError)):
        check("ranked", SEARCHED)
