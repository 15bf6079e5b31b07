"""Chains: the numbers of [Wolfson91] section 4, one by one, and what run-length encoding must not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sempre.kernel.chains import Chain, decide, digest, symmetric_difference, union
from sempre.kernel.layout import Field, packing
from sempre.kernel.tally import Counted
from sempre.kernel.trace import ExcludedRows, RowSet, Trace

LAYOUT = packing((Field(0, 4),), (0,))
F1, F2 = 1, 2


def rows(*values: int) -> RowSet:
    return RowSet(LAYOUT, np.array(sorted(values), np.int64))


def counted(numbers: dict[int, int]) -> Counted:
    keys = np.array(sorted(numbers), np.int64)
    return Counted(LAYOUT, keys, np.array([numbers[key] for key in keys.tolist()], np.int64))


def edited(chain: Chain, cycle: int, added: dict[int, int], deleted: dict[int, int]) -> Chain:
    """The chain with different numbers from this cycle on, and no other difference."""
    nothing = (rows(), rows())
    return chain.edited([], [(cycle, counted(added))], [(cycle, counted(deleted))], nothing, nothing)


def record(chain: Chain, fact: int, cycle: int) -> tuple[int, int]:
    added, deleted = chain.counts(rows(fact), cycle)
    return int(added[0]), int(deleted[0])


def start(*present: int) -> Chain:
    return Chain.starting(rows(*present))


def test_the_numbers_of_section_4() -> None:
    i = 3
    chain = edited(start(), i, {F1: 1}, {F1: 1, F2: 1})
    assert (record(chain, F1, i), record(chain, F2, i)) == ((1, 1), (0, 1))
    chain = edited(chain, i, {F1: -1}, {F2: -1})  # UNDO_MAINTAIN_CHAIN({f1, not f2}, i)
    assert (record(chain, F1, i), record(chain, F2, i)) == ((0, 1), (0, 0))
    chain = edited(chain, i, {F2: 1}, {F1: 1})  # REDO_MAINTAIN_CHAIN({not f1, f2}, i)
    assert (record(chain, F1, i), record(chain, F2, i)) == ((0, 2), (1, 0))


def test_a_record_holds_until_the_next_one() -> None:
    chain = edited(edited(start(), 2, {F1: 3}, {}), 5, {F1: -1}, {F1: 4})
    assert [record(chain, F1, cycle) for cycle in range(7)] == [
        (0, 0), (0, 0), (3, 0), (3, 0), (3, 0), (2, 4), (2, 4),
    ]  # fmt: skip
    assert chain.records == 3


@pytest.mark.parametrize(
    ("added", "deleted", "before", "after"),
    [(0, 0, True, True), (0, 0, False, False), (2, 1, True, True), (1, 2, False, False),
     (1, 0, False, True), (1, 0, True, True), (0, 3, True, False), (0, 3, False, False)],
)  # fmt: skip
def test_compute_new_decides_by_both_numbers(added: int, deleted: int, before: bool, after: bool) -> None:
    one: Any = np.array
    assert decide(one([added]), one([deleted]), one([before])).tolist() == [after]


def test_a_chain_begins_out_unless_the_fact_is_initial() -> None:
    chain, plus, minus = start(F1).advanced(4, counted({F2: 1}), None)
    assert chain.present(rows(F1, F2), 0).tolist() == [True, False]
    assert chain.present(rows(F1, F2), 3).tolist() == [True, False]
    assert chain.present(rows(F1, F2), 4).tolist() == [True, True]
    assert (plus.keys.tolist(), len(minus)) == ([F2], 0)


def test_facts_that_went_are_kept_apart_and_come_back() -> None:
    chain, _, minus = start(F1, F2).advanced(1, None, counted({F1: 2}))
    assert minus.keys.tolist() == [F1]
    assert (chain.now.rows().keys.tolist(), chain.gone.rows().keys.tolist()) == ([F2], [F1])
    chain, plus, _ = chain.advanced(2, counted({F1: 1}), counted({F1: -2}))
    assert (plus.keys.tolist(), chain.gone.rows().keys.tolist()) == ([F1], [])
    assert [chain.at(cycle).rows().keys.tolist() for cycle in range(4)] == [[1, 2], [2], [1, 2], [1, 2]]
    assert chain.cycles_of(rows(F1)) == [1, 2]
    assert chain.flipped(2, 9).keys.tolist() == [F1]


def test_a_view_of_the_past_finds_what_was_there() -> None:
    chain, _, _ = start(F1, F2).advanced(1, counted({5: 1}), counted({F1: 1}))
    chain, _, _ = chain.advanced(3, counted({F1: 1, 7: 1}), counted({F1: -1}))
    for cycle in range(5):
        view = chain.view(cycle, since=True)
        there = rows(*range(16))
        assert there.keys[view.contains(there)].tolist() == chain.at(cycle).rows().keys.tolist(), cycle
        counts = sum(count_all(trace) - sum(count_all(other) for other in excluded) for trace, excluded in view.parts)
        assert counts == len(chain.at(cycle)), cycle


def count_all(trace: Trace | ExcludedRows) -> int:
    (found,) = trace.count((0,), np.array([0]), np.array([15]), False).tolist()
    return int(found)


def test_what_differs_is_compared_on_both_sides() -> None:
    chain, _, _ = start(F1).advanced(2, counted({F2: 1}), None)
    # The other run has lost f1 and adds f2 no more.
    plus, minus = chain.compared(2, counted({F2: -1}), None, rows(), rows(F1))
    assert (plus.keys.tolist(), minus.keys.tolist()) == ([], [F1, F2])


def test_edits_give_the_chains_of_the_other_run() -> None:
    chain, _, _ = start(F1).advanced(2, counted({F2: 1}), None)
    other, _, _ = start(5).advanced(3, counted({F2: 1}), None)
    toggles = [(2, rows(F2)), (3, rows(F2))]
    start_, end = (rows(5), rows(F1)), (rows(5), rows(F1))
    made = chain.edited(toggles, [(2, counted({F2: -1})), (3, counted({F2: 1}))], [], start_, end)
    assert made.differences(other) == {}
    assert sorted(chain.differences(other)) == ["added", "cycles"]
    assert made.now.rows().keys.tolist() == [F2, 5]


def test_many_cycles_need_more_bits() -> None:
    chain = start(F1)
    for cycle in (1, 5_000, 20_000_000):
        chain, _, _ = chain.advanced(cycle, counted({cycle % 7: 1}), None)
    assert [len(chain.at(cycle)) for cycle in (0, 1, 4_999, 5_000, 20_000_000)] == [1, 1, 1, 2, 3]


def test_digests_add_up() -> None:
    left, right = rows(1, 2, 3), rows(3, 4)
    assert digest("p", left) ^ digest("p", right) == digest("p", symmetric_difference(left, right))
    assert digest("p", left) != digest("q", left)
    assert union((left, right)).keys.tolist() == [1, 2, 3, 4]
