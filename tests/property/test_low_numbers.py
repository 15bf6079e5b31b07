"""Numbers of tight instances that are too low cost time and never a fact: as in stores of old, which have none."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from sempre.backends.local import LocalBackend
from sempre.kernel.capacity import uncountable
from sempre.maintain import auto, ranked
from sempre.maintain.ranked import FoundRanks
from tests.engine import check_epochs
from tests.property.programs import random_case

pytestmark = pytest.mark.oracle
CASES = 20


def check(strategy: str) -> None:
    for seed in range(CASES):
        case = random_case(random.Random(f"low/{strategy}/{seed}"))
        check_epochs(case.program, [(case.facts, {}), *case.updates], strategy)


@pytest.mark.parametrize("strategy", ["ranked", "auto"])
def test_no_numbers_at_all(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ranked.ranks_of

    def without_numbers(*args: Any) -> ranked.Ranks:
        memory = real(*args)
        found = {name: FoundRanks(rounds.ranked) for name, rounds in memory.found.items()}
        return replace(memory, found=found, exact=False)

    for module in (ranked, auto):
        monkeypatch.setattr(module, "ranks_of", without_numbers)
    check(strategy)


@pytest.mark.parametrize("strategy", ["ranked", "auto"])
def test_numbers_that_do_not_fit(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without them takes the place of one that cannot count, and of an update."""

    def supports(*args: Any) -> Any:
        raise uncountable()

    monkeypatch.setattr(LocalBackend, "supports", supports)
    check(strategy)
