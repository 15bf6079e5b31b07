"""Integers of fixed width, at their ends."""

from __future__ import annotations

import numpy as np
import pytest

from sempre.kernel import capacity, join
from sempre.kernel.capacity import CapacityError, check_nodes
from sempre.kernel.graphs import edges_of, ends
from sempre.kernel.layout import INT64_MAX, INT64_MIN, Field, packing
from sempre.kernel.run import Run
from sempre.kernel.tally import Counted, Tally

LAYOUT = packing((Field(0, 8),), (0,))
HALF = 1 << 62


def counted(*pairs: tuple[int, int]) -> Counted:
    keys, weights = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    return Counted(LAYOUT, keys, weights)


def test_sums_of_weights_are_exact_or_refused() -> None:
    keys = np.array([1, 1, 2])
    _, sums = join.consolidate(keys, np.array([HALF, HALF - 1, INT64_MIN]))
    assert sums.tolist() == [INT64_MAX, INT64_MIN]
    with pytest.raises(CapacityError):
        join.consolidate(keys, np.array([HALF, HALF, 1]))
    # What would come to zero in 64 bits is not dropped.
    with pytest.raises(CapacityError):
        join.consolidate(np.array([1, 1, 1, 1]), np.full(4, HALF))


def test_small_weights_do_not_stay_small() -> None:
    most = np.iinfo(np.int32).max
    _, sums = join.consolidate(np.array([1, 1]), np.full(2, most, np.int32))
    assert sums.tolist() == [2 * most]


def test_products_of_weights_are_exact_or_refused() -> None:
    assert join.multiplied(np.array([1 << 31, 3]), np.array([1 << 31, 4])).tolist() == [HALF, 12]
    assert join.multiplied(np.array([HALF, 1]), np.array([1, 5])).tolist() == [HALF, 5]
    with pytest.raises(CapacityError):
        join.multiplied(np.array([1 << 32]), np.array([1 << 32]))


@pytest.mark.parametrize("number", [(1 << 31) - 1, 1 << 31, -(1 << 31) - 1, (1 << 53) + 1, INT64_MAX, INT64_MIN + 2])
def test_a_tally_holds_any_number(number: int, path: str) -> None:
    many = counted(*((key, 1) for key in range(200)))
    tally = Tally(LAYOUT).adding(many).adding(counted((3, number - 1)))
    rows = counted((3, 1)).rows()
    assert tally.get(rows).tolist() == [number]
    assert tally.of_columns([np.array([3, 3])], 2).tolist() == [number, number]
    assert tally.between(np.array([3]), np.array([3])).tolist() == [number]
    assert tally.adding(counted((3, 1 - number))).entries().weights.tolist() == [1] * 200


def test_a_tally_whose_runs_would_not_fit_together() -> None:
    tally = Tally(LAYOUT).adding(counted((3, HALF)))
    with pytest.raises(CapacityError):
        tally.adding(counted((3, HALF)))


def test_a_tally_is_asked_for_what_it_has_no_room_for() -> None:
    tally = Tally(LAYOUT).adding(counted((1, 7)))
    # 257 would be 1 in the eight bits that the column has.
    assert tally.of_columns([np.array([1, 257, -1, INT64_MIN])], 4).tolist() == [7, 0, 0, 0]


def test_a_run_too_long_for_a_directory_has_none(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sempre.kernel.run.MOST_DIRECTORY_KEYS", 9)
    run = Run(np.arange(0, 20, 2))
    assert run.member(np.array([0, 1, 18, 19])).tolist() == [True, False, True, False]
    assert run._directory is None


def test_nodes_up_to_the_last_make_edges() -> None:
    last = capacity.MOST_NODES - 1
    tails, heads = ends(edges_of(np.array([0, last]), np.array([last, last])))
    assert (tails.tolist(), heads.tolist()) == ([0, last], [last, last])
    check_nodes(capacity.MOST_NODES)
    with pytest.raises(CapacityError, match="2,147,483,649 nodes"):
        check_nodes(capacity.MOST_NODES + 1)
