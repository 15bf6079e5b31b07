"""Rounds followed row by row give what rounds of arrays give, counters included."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from sempre.backends import local
from sempre.backends import walk_code as walks
from sempre.kernel import compiled
from tests.engine import UNHURRIED, check_epochs
from tests.property.programs import random_case

pytestmark = pytest.mark.oracle

CASES = 60


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each walk, whether it was made."""
    compiled.load(wait=True)
    made: list[bool] = []
    original = walks.walk

    def noting(*args: Any) -> Any:
        result = original(*args)
        made.append(result is not None)
        return result

    monkeypatch.setattr(local, "walk", noting)
    return made


def first_difference(strategy: str) -> int | None:
    """The first random case that does not agree with the oracle; all walk from the first round on."""
    limits = replace(UNHURRIED, walk_after=0)
    for seed in range(CASES):
        case = random_case(random.Random(seed))
        try:
            check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, limits=limits)
        except AssertionError:
            return seed
    return None


@pytest.mark.parametrize("strategy", ["recompute", "dredc"])
def test_walks_agree_with_the_oracle(strategy: str, walked: list[bool]) -> None:
    assert first_difference(strategy) is None
    assert sum(walked) > CASES, "too few walks to say anything"


def test_a_walk_that_skips_negations_is_found(walked: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks.WalkWriter, "_absent", lambda writer, step: None)
    assert first_difference("recompute") is not None


def test_a_walk_that_miscounts_is_found(walked: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    original = walks.walk

    def miscounting(*args: Any) -> Any:
        result = original(*args)
        if result is None:
            return None
        twice = {n: type(c)(c.packing, c.keys, 2 * c.weights) for n, c in result.counts.items()}
        return walks.WalkResult(result.followed, result.pending, twice)

    monkeypatch.setattr(local, "walk", miscounting)
    assert first_difference("dredc") is not None
