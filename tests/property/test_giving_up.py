"""An update that is given up, at whatever moment, leaves nothing behind: the next run and the next update are right."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from sempre.analysis.model import Stratum
from sempre.backends import rerank
from sempre.kernel import compiled
from sempre.maintain import auto
from sempre.maintain.auto import Auto
from sempre.maintain.costs import COUNTERS, RANKED, History
from sempre.maintain.seminaive import Fixpoint
from sempre.maintain.strategy import Abandoned, Outcome, Work
from sempre.plan.backend import Counted
from tests.engine import check_epochs
from tests.property.programs import random_case

pytestmark = pytest.mark.oracle

CASES = 16


@pytest.fixture
def given_up(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every look of the guard, whether it gave up: at random, in the middle of settling and between rounds."""
    compiled.load(wait=True)
    monkeypatch.setattr(rerank, "SLICE", 1)
    rng, looks = random.Random(1), []

    def look(guard: auto._Guard, rest: float | None = None) -> None:
        looks.append(rng.random() < 0.1)
        if looks[-1]:
            raise Abandoned("at random")

    monkeypatch.setattr(auto._Guard, "look", look)
    return looks


def wrong_cases() -> int:
    """How many random programs do not agree with the oracle."""
    wrong = 0
    for seed in range(CASES):
        case = random_case(random.Random(f"given up/{seed}"))
        try:
            check_epochs(case.program, [(case.facts, {}), *case.updates], "auto", verifying=True)
        except Exception:  # noqa: BLE001  # a defect may show as a wrong result or as any error
            wrong += 1
    return wrong


def test_what_is_given_up_leaves_nothing_behind(given_up: list[bool]) -> None:
    assert wrong_cases() == 0
    assert sum(given_up) > CASES / 2
    assert given_up.count(False) > CASES


def test_an_update_that_is_kept_when_it_was_given_up_is_found(
    given_up: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The versions of the old state are taken for those of the new one."""
    again = Auto._again

    def kept(self: Auto, work: Work, stratum: Stratum, history: History, reason: str, given_up: bool) -> Outcome:
        return replace(again(self, work, stratum, history, reason, given_up), versions=dict(work.old))

    monkeypatch.setattr(Auto, "_again", kept)
    assert wrong_cases() > 0


def test_a_settling_that_ends_after_its_first_slice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done until somebody looked is taken for all."""
    compiled.load(wait=True)
    monkeypatch.setattr(rerank, "SLICE", 1)
    original = rerank._goes_on

    def once(state: Any, rest: float, budget: int) -> bool:
        going = original(state, rest, budget) and not state[3][rerank.TAKEN]
        if not going:
            state[3][rerank.WAITING] = 0
        return going

    monkeypatch.setattr(rerank, "_goes_on", once)
    assert wrong_cases() > 0


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways that strata are maintained in after a run from scratch: now by ranks and now by counters."""
    rng, taken = random.Random(2), []

    def next_way(history: History, limits: Any) -> tuple[str, str]:
        taken.append(rng.choice((RANKED, COUNTERS)))
        return taken[-1], "at random"

    monkeypatch.setattr(History, "next_way", next_way)
    return taken


def test_a_stratum_changes_between_ranks_and_counters(given_up: list[bool], ways: list[str]) -> None:
    """A run counts all instances on its way; the counters are those of the oracle, also after further updates."""
    assert wrong_cases() == 0
    assert ways.count(COUNTERS) > CASES / 2
    assert ways.count(RANKED) > CASES / 2


def test_counters_that_leave_known_facts_out_are_found(
    given_up: list[bool], ways: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the numbers of tight instances do."""
    supports = Fixpoint._supports

    def only_new(self: Fixpoint, head: str, plans: Any, known: Any) -> Counted:
        found = supports(self, head, plans, known)
        if self.counted is not None:
            self.counted[head][-1] = found
        return found

    monkeypatch.setattr(Fixpoint, "_supports", only_new)
    assert wrong_cases() > 0
