"""`elastic` in all its modes against the oracle: the switch is drawn at random, and may fall within an update."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from sempre.backends import pipeline
from sempre.maintain import iterations
from sempre.maintain.strategy import as_update
from sempre.plan import planner
from sempre.plan.ops import Absent
from tests.engine import check_epochs
from tests.property.programs import random_case

pytestmark = pytest.mark.oracle
CASES = 40
# Bootstrap alone, Update given up after its first round, as it comes, and Update alone.
SWITCHES = (0, 1e-9, 0.5, 2.0, "never", "never", "never")


def check(cases: int, switches: tuple[float | str, ...] = SWITCHES) -> tuple[int, int]:
    """Runs cases; returns how many numbers were compared, and how often an update was given up."""
    given_up = compared = 0
    real = as_update

    def noted(*args: Any) -> Any:
        nonlocal given_up
        given_up += 1
        return real(*args)

    with mock.patch.object(iterations, "as_update", noted):
        for seed in range(cases):
            dice = random.Random(f"elastic modes/{seed}")
            case = random_case(dice)
            epochs = [(case.facts, {}), *case.updates]
            compared += check_epochs(case.program, epochs, "elastic", switch=dice.choice(switches))
    return compared, given_up


def test_every_mode_has_the_numbers_of_a_run_from_scratch() -> None:
    compared, given_up = check(CASES)
    assert compared > 100
    assert given_up > 5


@contextmanager
def planted(target: Any, name: str, replacement: Any) -> Iterator[None]:
    """A defect is there: it shows, if only as an update that has no end."""
    real = iterations._LevelUpdate._level

    def limited(update: Any, *args: Any) -> Any:
        assert len(update._levels) < 60, "this has no end"
        return real(update, *args)

    with (
        mock.patch.object(target, name, replacement),
        mock.patch.object(iterations._LevelUpdate, "_level", limited),
        pytest.raises((AssertionError, KeyError)),
    ):
        yield


def test_a_fact_that_is_not_a_given_one_is_missed() -> None:
    """A planted defect: what was found is not looked for among the given facts."""

    def everything(step: Absent, *args: Any) -> Any:
        found = real(step, *args)
        nested = step.steps[0] if len(step.steps) == 1 else None
        return (lambda rows, views: rows) if isinstance(nested, Absent) else found

    real = pipeline._absent
    with planted(pipeline, "_absent", everything):
        check(CASES, ("never",))


def test_a_split_that_counts_the_given_facts_is_found() -> None:
    """A planted defect: values that several given facts share are followed once for each of them."""
    with planted(pipeline, "distinct_bindings", lambda rows, views: rows):
        check(CASES, ("never",))


def test_a_state_of_half_an_update_is_found() -> None:
    """A planted defect: levels of an update that was given up stay."""
    real = iterations.ByIteration.bootstrap

    def keeps(self: Any, work: Any, stratum: Any) -> Any:
        outcome = real(self, work, stratum)
        assert isinstance(outcome.memory, iterations.Levels)
        levels = outcome.memory.levels
        if len(levels) < 2 or work.decision is None or not work.decision.update:
            return outcome
        return replace(outcome, memory=iterations.Levels(levels[:-1], 1.0))

    with planted(iterations.ByIteration, "bootstrap", keeps):
        check(CASES, (0, 1e-9))


def test_some_rules_are_split() -> None:
    """The random programs have heads with variables of several atoms."""
    split = 0
    real = planner.split_steps

    def counted(*args: Any) -> Any:
        nonlocal split
        steps = real(*args)
        split += bool(steps)
        return steps

    with mock.patch.object(planner, "split_steps", counted):
        check(15, ("never",))
    assert split > 2
