"""A `.plan` decides the order of atoms, and nothing else: the same facts, counters and ranks come out."""

from __future__ import annotations

import random
from dataclasses import replace
from unittest import mock

import pytest

from sempre.lang import syntax as s
from sempre.maintain import planning
from sempre.plan.planner import stated_order
from tests.engine import check_epochs
from tests.property.programs import random_case

pytestmark = pytest.mark.oracle
CASES = 8
STRATEGIES = ("recompute", "dredc", "bfc", "counting", "ranked", "auto")


def planned(program: s.ParsedProgram, rng: random.Random) -> s.ParsedProgram:
    """The program with a random `.plan` after every rule whose body is a plain conjunction."""
    items: list[s.Item] = []
    for item in program.items:
        if isinstance(item, s.Rule) and not item.is_fact:
            parts = item.body.parts if isinstance(item.body, s.Conjunction) else (item.body,)
            atoms = [part for part in parts if isinstance(part, s.Atom)]
            plain = not any(isinstance(part, s.Disjunction | s.Conjunction) for part in parts)
            if atoms and plain:
                order = tuple(rng.sample(range(1, len(atoms) + 1), len(atoms)))
                item = replace(item, plan=((0, order),))
        items.append(item)
    return s.ParsedProgram(tuple(items))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_stated_order_finds_the_same(strategy: str) -> None:
    stated: list[tuple[int, ...]] = []

    def seen(*args: object) -> tuple[int, ...]:
        order = stated_order(*args)  # type: ignore[arg-type]
        stated.append(order)
        return order

    with mock.patch.object(planning, "stated_order", seen):
        for seed in range(CASES):
            rng = random.Random(f"stated/{strategy}/{seed}")
            case = random_case(rng)
            check_epochs(planned(case.program, rng), [(case.facts, {}), *case.updates], strategy)
    assert any(order and list(order) != sorted(order) for order in stated)
