"""Plans that leave their order to the rows find what others find, also where relations are too small to be asked."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from sempre.backends import pipeline
from sempre.plan.ops import Either
from tests.engine import UNHURRIED, check_epochs
from tests.property.programs import random_case

pytestmark = pytest.mark.oracle
CASES = 25
# Those that look for what derives a fact.
STRATEGIES = ("ranked", "dred", "bfc", "elastic")


def check(strategy: str, cases: int) -> int:
    """Runs cases with choices wherever there can be one; returns how many were compiled."""
    choices = 0
    real = pipeline._Choice.__init__

    def noticed(choice: Any, step: Either, *rest: Any) -> None:
        nonlocal choices
        choices += 1
        real(choice, step, *rest)

    with mock.patch.object(pipeline._Choice, "__init__", noticed):
        for seed in range(cases):
            case = random_case(random.Random(f"choices/{strategy}/{seed}"))
            check_epochs(
                case.program, [(case.facts, {}), *case.updates], strategy, limits=replace(UNHURRIED, choice_rows=0)
            )
    return choices


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_either_way_finds_the_same(strategy: str) -> None:
    assert check(strategy, CASES) > 0


def test_a_way_that_is_not_taken_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted defect: rows for which the second lookup finds less are dropped."""

    def run(choice: Any, rows: Any, views: Any, sink: Any, counts: Any) -> None:
        best = np.argmin([first.found(rows, views) for first in choice._firsts], axis=0)
        choice._options[0].run(rows.keep(best == 0, frozenset(rows.columns)), views, sink, counts=counts)

    monkeypatch.setattr(pipeline._Choice, "run", run)
    with pytest.raises(AssertionError):
        check("ranked", CASES)
