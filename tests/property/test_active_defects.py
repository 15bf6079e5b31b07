"""The comparison with the oracle bites: what the published pseudocode gets wrong is found, and other defects too."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from sempre.active import absorb, inference, matcher, timeline
from sempre.kernel import chains
from sempre.kernel.chains import Chain
from sempre.kernel.tally import Counted
from sempre.plan.ops import Read
from tests.property.active_programs import random_case
from tests.property.test_active import Check

pytestmark = pytest.mark.oracle
CASES = 120


def return_before_the_last_cycle(patch: pytest.MonkeyPatch) -> None:
    original = absorb.Absorption._cycles

    def cycles(update: Any, phase: int) -> Iterator[int]:
        yield from list(original(update, phase))[:-1]

    patch.setattr(absorb.Absorption, "_cycles", cycles)


def undo_on_the_new_database(patch: pytest.MonkeyPatch) -> None:
    original = matcher._views

    def views(sides: Any, gained: bool) -> Any:
        found = original(sides, gained)
        if not gained:
            for name, side in sides.items():
                found[name, Read.HERE] = side.new
        return found

    patch.setattr(matcher, "_views", views)


def count_every_head_once(patch: pytest.MonkeyPatch) -> None:
    original = matcher.Matcher.difference

    def difference(matcher: Any, *args: Any) -> dict[int, Counted]:
        found: Any = original(matcher, *args)
        return {n: Counted(c.packing, c.keys, np.sign(c.weights)) for n, c in found.items()}

    patch.setattr(matcher.Matcher, "difference", difference)


def look_only_at_facts_with_new_records(patch: pytest.MonkeyPatch) -> None:
    original = Chain.compared

    def compared(chain: Chain, cycle: int, added: Any, deleted: Any, plus: Any, minus: Any) -> Any:
        if added is None and deleted is None:
            return plus, minus
        nothing = type(plus)(plus.packing, plus.keys[:0])
        return original(chain, cycle, added, deleted, nothing, nothing)

    patch.setattr(Chain, "compared", compared)


def forget_to_undo_where_the_runs_meet(patch: pytest.MonkeyPatch) -> None:
    original = absorb.Absorption._cycle

    def cycle(update: Any, *args: Any) -> None:
        if update.differ:
            original(update, *args)

    patch.setattr(absorb.Absorption, "_cycle", cycle)


def match_only_where_the_difference_changes(patch: pytest.MonkeyPatch) -> None:
    original = absorb.Absorption._decide

    def decide(update: Any, rules: Any, names: Any, at: int) -> None:
        original(update, rules, names, at)
        update._moved -= set(update._line.flips.get(at, ())) - update.differ.keys()

    patch.setattr(absorb.Absorption, "_decide", decide)


def delete_what_is_both_added_and_deleted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        chains, "decide", lambda added, deleted, before: np.where(deleted > 0, False, np.where(added > 0, True, before))
    )


def lose_facts_that_come_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Chain, "_sorted_out", lambda chain, rows: chain)


def stop_one_cycle_early(patch: pytest.MonkeyPatch) -> None:
    original = inference.Inference.advance

    def advance(run: Any) -> bool:
        return original(run) and sum(map(len, (c.plus for c in run.timeline.last.values()))) != 1

    patch.setattr(inference.Inference, "advance", advance)


def let_what_is_given_count_for_ever(patch: pytest.MonkeyPatch) -> None:
    original = timeline.given_counts

    def given_counts(backend: Any, given: Any, at: int) -> Any:
        return original(backend, {at: given[at]} if at in given else {}, at)

    for module in (absorb, inference):
        patch.setattr(module, "given_counts", given_counts)


def end_before_all_is_given(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(timeline, "last_given", lambda given: 0)


def shorten_a_run_to_before_what_is_given(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(absorb, "last_given", lambda given: 0)


def take_a_repetition_before_all_is_given_for_endless(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inference, "last_given", lambda given: 0)


def decide_only_where_what_is_given_changes(patch: pytest.MonkeyPatch) -> None:
    original = absorb.Absorption._tell

    def tell(update: Any, at: int) -> Any:
        told = original(update, at)
        return told if at in update._told else set()

    patch.setattr(absorb.Absorption, "_tell", tell)


DEFECTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    return_before_the_last_cycle,
    undo_on_the_new_database,
    count_every_head_once,
    look_only_at_facts_with_new_records,
    forget_to_undo_where_the_runs_meet,
    match_only_where_the_difference_changes,
    delete_what_is_both_added_and_deleted,
    lose_facts_that_come_back,
    stop_one_cycle_early,
    let_what_is_given_count_for_ever,
    end_before_all_is_given,
    shorten_a_run_to_before_what_is_given,
    take_a_repetition_before_all_is_given_for_endless,
    decide_only_where_what_is_given_changes,
]


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(CASES):
        try:
            Check(random_case(random.Random(seed))).run()
        except Exception:  # noqa: BLE001  # a failed assertion, or whatever the defect leads to
            return
    pytest.fail(f"not found in {CASES} cases")
