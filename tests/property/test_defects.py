"""The comparison with the oracle bites: defects planted into the engine are found by a few random cases."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sempre
from sempre.backends import lookups, pipeline
from sempre.backends.local import LocalBackend
from sempre.kernel import layout
from sempre.kernel import trace as traces
from sempre.kernel.trace import RowSet, Trace
from sempre.maintain import planning, seminaive
from tests.engine import check_epochs
from tests.property.programs import random_case

pytestmark = pytest.mark.oracle
Plant = Callable[[pytest.MonkeyPatch], None]
CASES = 60


def drop_the_last_slice(patch: pytest.MonkeyPatch) -> None:
    original = lookups.Scan.slices

    def slices(scan: Any, view: Any, rows: int, counted: bool) -> Iterator[Any]:
        found = list(original(scan, view, 2, counted))
        yield from found[:-1] if len(found) > 1 else found

    patch.setattr(lookups.Scan, "slices", slices)


def skip_negated_atoms(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pipeline._Nested, "found", lambda nested, rows, views: np.zeros(rows.size, np.bool_))


def skip_the_filter_of_known_facts(patch: pytest.MonkeyPatch) -> None:
    original = LocalBackend.derive

    def derive(backend: LocalBackend, relation: str, plans: Any, views: Any, known: Any) -> Any:
        return original(backend, relation, plans, views, backend.empty(relation))

    patch.setattr(LocalBackend, "derive", derive)


def forget_one_delta_plan(patch: pytest.MonkeyPatch) -> None:
    original = planning.pivots

    def pivots(rule: Any, relations: Any) -> list[Any]:
        found = original(rule, relations)
        return found[:-1] if len(found) > 1 else found

    patch.setattr(seminaive, "pivots", pivots)


def read_too_little_left_of_the_pivot(patch: pytest.MonkeyPatch) -> None:
    """Every literal reads what only this state has."""
    from sempre.plan import planner
    from sempre.plan.ops import Read

    def reads_for(size: int, pivot: int) -> list[Read]:
        return [Read.ONLY if i == pivot else Read.BOTH for i in range(size)]

    patch.setattr(planner, "reads_for", reads_for)


def forget_the_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Trace, "removing", lambda trace, rows: trace)


def bound_too_far(patch: pytest.MonkeyPatch) -> None:
    """Lookups find the rows of the next value too."""
    original = layout.Packing.bounds

    def bounds(packing: Any, prefix: Any, size: int) -> Any:
        low, high = original(packing, prefix, size)
        return low, high + 1 if packing.narrow and 0 < len(prefix) < len(packing.order) else high

    patch.setattr(layout.Packing, "bounds", bounds)


def lose_a_row_when_runs_meet(patch: pytest.MonkeyPatch) -> None:
    original = traces._push

    def push(runs: Any, keys: Any) -> Any:
        return original(runs, keys[1:] if runs and keys.size > 2 else keys)

    patch.setattr(traces, "_push", push)


DEFECTS: list[Plant] = [
    drop_the_last_slice,
    skip_negated_atoms,
    skip_the_filter_of_known_facts,
    forget_one_delta_plan,
    read_too_little_left_of_the_pivot,
    forget_the_dead,
    bound_too_far,
    lose_a_row_when_runs_meet,
]


class Endless(Exception):
    """A case took far more steps than any case needs."""


def first_difference(patch: pytest.MonkeyPatch) -> int | None:
    """The first case in which the engine differs from the oracle, fails, or does not end."""
    steps = 0
    union = LocalBackend.union

    def limited(backend: LocalBackend, sets: Any) -> RowSet:
        nonlocal steps
        steps += 1
        if steps > 200:
            raise Endless
        return union(backend, sets)

    patch.setattr(LocalBackend, "union", limited)
    for seed in range(CASES):
        case = random_case(random.Random(seed))
        steps = 0
        try:
            check_epochs(case.program, [(case.facts, {}), *case.updates], "recompute")
        except (AssertionError, Endless, ValueError, IndexError, sempre.StateError):
            return seed
    return None


def test_without_a_defect_nothing_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_difference(monkeypatch) is None


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert first_difference(monkeypatch) is not None
