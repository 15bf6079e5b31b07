"""`range`: the engine equals the oracle after every epoch."""

from __future__ import annotations

import random

import pytest

import sempre
from tests.budget import seeds
from tests.engine import STRATEGIES, check_epochs
from tests.property.ranging import ranging_case

pytestmark = pytest.mark.oracle
CASES = 3
SEEDS = {strategy: 1_000 * number for number, strategy in enumerate(STRATEGIES)}


def check(seed: int, strategy: str) -> None:
    case = ranging_case(random.Random(seed))
    check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, verifying=seed % 3 == 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ranges_in_rules(strategy: str) -> None:
    for seed in range(SEEDS[strategy], SEEDS[strategy] + CASES):
        check(seed, strategy)


@pytest.mark.slow
@pytest.mark.parametrize("first", [100_000, 200_000])
def test_many_programs_with_ranges(first: int) -> None:
    for seed in seeds(first, 60):
        for strategy in STRATEGIES:
            check(seed, strategy)


def test_a_range_takes_few_rounds() -> None:
    """Numbers come by halves: a hundred thousand of them are no hundred thousand rounds."""
    with sempre.Database(".decl p(x: number) p(x) :- x = range(0, 100000).") as db:
        changes = db.apply()
        assert len(db["p"]) == 100_000
        assert changes.report.rounds < 30
