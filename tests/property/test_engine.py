"""The engine equals the oracle after every epoch, and reports exactly what changed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings

from tests.engine import STRATEGIES, check_epochs
from tests.property.programs import Case, cases, random_case

pytestmark = pytest.mark.oracle
BATCH = 50


def check(case: Case, strategy: str) -> None:
    check_epochs(case.program, [(case.facts, {}), *case.updates], strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("start", range(0, 300, BATCH))
def test_random_cases(strategy: str, start: int) -> None:
    for seed in range(start, start + BATCH):
        check(random_case(random.Random(seed)), strategy)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("start", range(1_000, 6_000, BATCH))
def test_thousands_of_random_cases(strategy: str, start: int) -> None:
    for seed in range(start, start + BATCH):
        check(random_case(random.Random(seed)), strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=40)
@given(case=cases())
def test_cases_that_shrink(strategy: str, case: Case) -> None:
    check(case, strategy)
