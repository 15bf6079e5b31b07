"""Joins with circles in them, over hubs, in many orders: the oracle's results, by choices that the rows make."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sempre.backends import pipeline
from sempre.plan.ops import Either
from tests.engine import STRATEGIES, UNHURRIED, check_epochs
from tests.property.cycles import cyclic_case

pytestmark = pytest.mark.oracle
CASES = 15


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch) -> list[Either]:
    """Collects the choices that plans leave to the rows."""
    found: list[Either] = []
    real = pipeline._Choice.__init__

    def noticed(choice: Any, step: Either, *rest: Any) -> None:
        found.append(step)
        real(choice, step, *rest)

    monkeypatch.setattr(pipeline._Choice, "__init__", noticed)
    return found


def check(strategy: str, cases: int, **others: int) -> None:
    limits = replace(UNHURRIED, crowd_rows=0, choice_rows=0, **others)
    for seed in range(cases):
        case = cyclic_case(random.Random(f"{strategy}/{seed}"))
        check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, limits=limits)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_that_choose_find_what_the_oracle_finds(strategy: str, choices: list[Either]) -> None:
    check(strategy, CASES)
    assert len(choices) > CASES
    assert any(len(choice.options) > 2 for choice in choices)


@pytest.mark.parametrize("rows", [1, 3])
def test_rows_choose_in_tiny_pieces(rows: int, choices: list[Either]) -> None:
    check("auto", CASES, piece_rows=rows)
    assert choices


def test_a_choice_that_goes_on_twice_is_found_out(choices: list[Either], monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted defect: rows that two lookups find as little for take both ways."""

    def run(choice: Any, rows: Any, views: Any, sink: Any, counts: Any) -> None:
        found = np.array([first.found(rows, views) for first in choice._firsts])
        for number, option in enumerate(choice._options):
            option.run(
                rows.keep(found[number] == found.min(axis=0), frozenset(rows.columns)), views, sink, counts=counts
            )

    monkeypatch.setattr(pipeline._Choice, "run", run)
    with pytest.raises(AssertionError):
        check("counting" if "counting" in STRATEGIES else "ranked", 2 * CASES)


def test_a_filter_that_is_forgotten_is_found_out(choices: list[Either], monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted defect: the second way does not look at the other atoms."""
    real = pipeline._Choice.__init__

    def forgetful(choice: Any, step: Either, *rest: Any) -> None:
        first, *others = step.options
        real(choice, Either((first, *(option[:1] for option in others)), step.live), *rest)

    monkeypatch.setattr(pipeline._Choice, "__init__", forgetful)
    with pytest.raises((AssertionError, KeyError)):
        check("recompute", CASES)
