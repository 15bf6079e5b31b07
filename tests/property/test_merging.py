"""Rows that became alike are merged: one stands for as many instances as all, and joins find what they found."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sempre
from sempre.backends import merging
from sempre.backends.bindings import Bindings
from sempre.limits import Limits
from tests.engine import check_epochs
from tests.property.cycles import counted_case, cyclic_case
from tests.property.programs import random_case

pytestmark = pytest.mark.oracle
CASES = 6
ALWAYS = Limits(merging_rows=1)
# With sets of facts, with numbers of instances, and with ranks.
STRATEGIES = ("recompute", "dredc", "ranked")


def observed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were spared, time after time."""
    spared: list[int] = []
    original = merging.Merger.merged

    def merged(self: Any, rows: Bindings, counts: bool | None) -> Bindings:
        found = original(self, rows, counts)
        if found is not rows:
            spared.append(rows.size - found.size)
        return found

    monkeypatch.setattr(merging.Merger, "merged", merged)
    return spared


def check(strategy: str, cases: int = CASES) -> None:
    for seed in range(cases):
        for make in (random_case, cyclic_case, counted_case):
            case = make(random.Random(f"merging/{strategy}/{seed}"))
            check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, limits=ALWAYS)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_merged_is_found_by_all(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spared = observed(monkeypatch)
    check(strategy)
    assert len(spared) > 100
    assert sum(spared) > 20, "too few rows were alike"


def numbers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def summed(rows: Any, layout: Any, keys: Any, counts: bool) -> Any:
        keys, weights = original(rows, layout, keys, counts)
        return keys, None if weights is None else np.ones_like(weights)

    original = merging._summed
    monkeypatch.setattr(merging, "_summed", summed)


def numbers_begin_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    original = merging.Merger.merged
    monkeypatch.setattr(merging.Merger, "merged", lambda self, rows, counts: original(self, rows, False))


def a_row_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def summed(rows: Any, layout: Any, keys: Any, counts: bool) -> Any:
        keys, weights = original(rows, layout, keys, counts)
        return keys[: max(1, keys.size - 1)], None if weights is None else weights[: max(1, keys.size - 1)]

    original = merging._summed
    monkeypatch.setattr(merging, "_summed", summed)


def nothing_bound_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_one(rows: Any, counts: bool) -> Bindings:
        found = original(rows, counts)
        return Bindings(1, {}, found.fields, None if found.weights is None else np.ones(1, np.int64))

    original = merging._as_one
    monkeypatch.setattr(merging, "_as_one", as_one)


DEFECTS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    numbers_are_forgotten: "dredc",
    numbers_begin_nowhere: "ranked",
    a_row_is_lost: "recompute",
    nothing_bound_counts_once: "dredc",
}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: str(defect.__name__))
def test_a_planted_defect_is_found(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        check(DEFECTS[defect], 30)


def test_a_hub_in_the_middle_does_not_multiply() -> None:
    """Everything leads to one place, and from there everywhere: 10^8 rows, if each comes from each."""
    program = """
    .decl e(x: number, y: number)
    .decl f(x: number, y: number)
    .decl g(x: number, y: number)
    .decl reach(x: number)
    reach(0).
    reach(w) :- reach(x), e(x, y), f(y, z), g(z, w).
    """
    size = 10_000
    facts = {
        "e": [(n, 0) for n in range(size)],
        "f": [(0, n) for n in range(size)],
        "g": [(n, (n + 1) % size) for n in range(size)],
    }
    looked = 0
    with sempre.Database(program, threads=1) as db:
        original = merging.Merger.merged

        def merged(self: Any, rows: Bindings, counts: bool | None) -> Bindings:
            nonlocal looked
            looked += rows.size
            return original(self, rows, counts)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(merging.Merger, "merged", merged)
            db.materialise(facts)
        assert len(db["reach"]) == size
    assert looked < 20 * size


def test_a_look_tells_whether_rows_are_alike() -> None:
    rng = np.random.default_rng(1)
    for size in (3_000, 50_000, 130_000):
        for values, alike in ((size * 8, False), (size, False), (size // 2, False), (size // 12, True), (7, True)):
            column = rng.integers(0, values, size)
            rows = Bindings(size, {"x": column}, {})
            found = merging.Merger(1, ["x"]).merged(rows, True)
            assert (found is not rows) == alike, (size, values)
            if alike:
                expected, numbers = np.unique(column, return_counts=True)
                assert found.columns["x"].tolist() == expected.tolist()
                assert found.weights is not None
                assert found.weights.tolist() == numbers.tolist()


def test_rows_that_do_not_fit_a_word_stay_as_they_are() -> None:
    wide = np.array([0, 1 << 62] * 3_000)
    rows = Bindings(wide.size, {"x": wide, "y": -wide}, {})
    assert merging.Merger(1, []).merged(rows, True) is rows


def test_numbers_may_cancel() -> None:
    rows = Bindings(4, {"x": np.array([5, 5, 6, 6])}, {}, np.array([1, -1, 2, 1]))
    found = merging.Merger(1, []).merged(rows, True)
    assert (found.columns["x"].tolist(), found.weights.tolist()) == ([6], [3])  # type: ignore[union-attr]
