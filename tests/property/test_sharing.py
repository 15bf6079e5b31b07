"""Joins that rows share are taken once for all of them, and give each what it would have found alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sempre.analysis.model import Var
from sempre.backends import pipeline
from sempre.backends.bindings import Bindings
from sempre.plan.ops import Probe
from tests.engine import check_epochs
from tests.property.cycles import counted_case, cyclic_case
from tests.property.programs import random_case

pytestmark = pytest.mark.oracle
CASES = 25
# With sets of facts, with numbers of instances, and with ranks.
STRATEGIES = ("recompute", "dredc", "ranked")


def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have every row share what it can; returns how many rows were spared, join by join."""
    monkeypatch.setattr(pipeline, "SHARING_ROWS", 1)
    monkeypatch.setattr(pipeline, "SHARERS", 1)
    spared: list[int] = []
    original = pipeline._Shared._groups

    def groups(self: Any, rows: Any) -> Any:
        starts = original(self, rows)
        if starts is not None:
            spared.append(rows.size - starts.size)
        return starts

    monkeypatch.setattr(pipeline._Shared, "_groups", groups)
    return spared


def check(strategy: str) -> None:
    for seed in range(CASES):
        for make in (random_case, cyclic_case, counted_case):
            case = make(random.Random(f"sharing/{strategy}/{seed}"))
            check_epochs(case.program, [(case.facts, {}), *case.updates], strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_shared_is_found_by_each(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spared = shared(monkeypatch)
    check(strategy)
    assert len(spared) > 100
    assert sum(spared) > 20, "too few rows shared anything"


def neighbors_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two rows are taken for alike."""
    original = pipeline._Shared._groups

    def groups(self: Any, rows: Any) -> Any:
        starts = original(self, rows)
        return starts if starts is None or starts.size < 2 else np.delete(starts, 1)

    monkeypatch.setattr(pipeline._Shared, "_groups", groups)


def one_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found goes to the first row alone."""
    original = pipeline._Shared._spread

    def spread(self: Any, rows: Any, found: Any, starts: Any, hits: Any) -> Any:
        return original(self, rows, found, starts, np.ones_like(hits))

    monkeypatch.setattr(pipeline._Shared, "_spread", spread)


def weights_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows a join finds that binds nothing, they count for one."""
    original = pipeline._Shared._spread

    def spread(self: Any, rows: Any, found: Any, starts: Any, hits: Any) -> Any:
        if found.weights is not None:
            found.weights = np.ones_like(found.weights)
        return original(self, rows, found, starts, hits)

    monkeypatch.setattr(pipeline._Shared, "_spread", spread)


def weights_of_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that stands for several instances, or for one that is lost, counts for one that is found."""
    original = pipeline._Shared._spread

    def spread(self: Any, rows: Any, *rest: Any) -> Any:
        if rows.weights is not None:
            rows = Bindings(rows.size, rows.columns, rows.fields, np.ones_like(rows.weights))
        return original(self, rows, *rest)

    monkeypatch.setattr(pipeline._Shared, "_spread", spread)


def sees_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins are shared that see what others do not share."""

    def together(steps: Any) -> Any:
        found: list[Any] = []
        for step in steps:
            if not isinstance(step, Probe) or not step.lookup or not (found or step.binds):
                break
            found.append(step)
        seen = {arg.name for step in found[:1] for arg in step.lookup if isinstance(arg, Var)}
        return found if seen else []

    monkeypatch.setattr(pipeline, "_together", together)


Plant = Callable[[pytest.MonkeyPatch], None]
FACTS, NUMBERS = r"^\w+ (added |removed )?after epoch \d", r"^nonrec of \w+ after epoch \d"
# The strategy that shows it, and how: wrong facts, a wrong number of instances, or a variable that is not there.
DEFECTS: dict[str, tuple[str, Plant, type[Exception], str]] = {
    "neighbors agree": ("recompute", neighbors_agree, AssertionError, FACTS),
    "one for all": ("recompute", one_for_all, AssertionError, FACTS),
    "weights of rows": ("dredc", weights_of_rows, AssertionError, NUMBERS),
    "weights of joins": ("dredc", weights_of_joins, AssertionError, NUMBERS),
    "joins see more": ("recompute", sees_more, KeyError, r"^'\w+'$"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, plant, failure, said = DEFECTS[name]
    shared(monkeypatch)
    plant(monkeypatch)
    with pytest.raises(failure, match=said):
        check(strategy)
