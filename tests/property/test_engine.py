"""The engine equals the oracle after every epoch, in facts and counters, and reports exactly what changed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings

from tests.budget import seeds
from tests.engine import FORGETTING, STRATEGIES, check_epochs, truths
from tests.property.programs import Case, cases, random_case

pytestmark = pytest.mark.oracle
BATCH = 20
# Every strategy has seeds of its own, so that together they see more programs.
SEEDS = {strategy: 100_000 * number for number, strategy in enumerate(STRATEGIES)}


def check(case: Case, strategy: str) -> int:
    return check_epochs(case.program, [(case.facts, {}), *case.updates], strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("start", range(0, 60, BATCH))
def test_random_cases(strategy: str, start: int) -> None:
    compared = 0
    for seed in range(start, start + BATCH):
        compared += check(random_case(random.Random(SEEDS[strategy] + seed)), strategy)
    assert (compared > 0) == (strategy not in FORGETTING)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 100_000, 10_000))
def test_thousands_of_random_cases(first: int) -> None:
    """Every case with every strategy."""
    for seed in seeds(first, 60):
        case = random_case(random.Random(seed))
        epochs = [(case.facts, {}), *case.updates]
        expected = truths(case.program, epochs)
        for strategy in STRATEGIES:
            check_epochs(case.program, epochs, strategy, expected)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=15)
@given(case=cases())
def test_cases_that_shrink(strategy: str, case: Case) -> None:
    check(case, strategy)
