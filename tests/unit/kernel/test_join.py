from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sempre.kernel import compiled, join
from sempre.kernel.layout import EVERYTHING, packing
from tests.unit.kernel.rows import keys

VALUES = st.lists(st.one_of(st.integers(0, 9), st.integers(0, (1 << 63) - 1)), max_size=40)
both_paths = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


@both_paths
@given(values=VALUES)
def test_distinct(path: str, values: list[int]) -> None:
    assert join.distinct(keys(values)).tolist() == sorted(set(values))


@both_paths
@given(left=VALUES, right=VALUES)
def test_merge(path: str, left: list[int], right: list[int]) -> None:
    assert join.merge(keys(sorted(left)), keys(sorted(right))).tolist() == sorted(left + right)


@given(values=VALUES, signs=st.lists(st.integers(-2, 2), min_size=40, max_size=40))
def test_consolidate_adds_weights_and_drops_what_cancels(values: list[int], signs: list[int]) -> None:
    weights = signs[: len(values)]
    total: Counter[int] = Counter()
    for value, weight in zip(values, weights, strict=True):
        total[value] += weight
    found, sums = join.consolidate(keys(values), keys(weights))
    assert dict(zip(found.tolist(), sums.tolist(), strict=True)) == {v: w for v, w in total.items() if w}
    assert found.tolist() == sorted(found.tolist())


@given(values=VALUES)
def test_tally(values: list[int]) -> None:
    found, counts = join.tally(keys(values))
    assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == Counter(values)
    assert found.tolist() == sorted(found.tolist())


SPREAD = st.builds(
    lambda values, dense: sorted({*values, *dense}),
    st.lists(
        st.one_of(st.integers(0, 300), st.sampled_from([-(1 << 63), -1, (1 << 63) - 2, (1 << 63) - 1])), max_size=40
    ),
    st.builds(range, st.integers(0, 200), st.integers(0, 300)),
)


@given(mine=SPREAD, other=SPREAD, counted=st.booleans())
def test_what_is_unknown_moves_to_the_front(mine: list[int], other: list[int], counted: bool) -> None:
    compiled.load(compiled.LOOPS, wait=True)
    found, counts = keys(mine), keys([~value for value in mine] if counted else [])
    size = compiled.kept().unknown(found, counts, keys(other))
    assert found[:size].tolist() == [value for value in mine if value not in set(other)]
    if counted:
        assert counts[:size].tolist() == [~value for value in found[:size].tolist()]


def test_wide_keys_take_the_same_operations() -> None:
    layout = packing((EVERYTHING, EVERYTHING), (0, 1))
    some = layout.pack([keys([3, -1, 3]), keys([1, 1, 1])], 3)
    more = layout.pack([keys([0]), keys([-5])], 1)
    one = join.distinct(some.copy())
    assert [c.tolist() for c in layout.columns(one)] == [[-1, 3], [1, 1]]
    assert [c.tolist() for c in layout.columns(join.merge(one, more))] == [[-1, 0, 3], [1, -5, 1]]
    assert join.consolidate(some, keys([1, 5, -1]))[1].tolist() == [5]
    assert join.tally(some.copy())[1].tolist() == [1, 2]


def test_where_groups_begin() -> None:
    assert join.group_starts(np.array([4, 4, 5, 7, 7, 7])).tolist() == [0, 2, 3]


@both_paths
@given(values=st.lists(st.one_of(st.integers(-9, 9), st.integers(-(1 << 63), (1 << 63) - 1)), max_size=40))
def test_numbers_of_any_sign_are_ordered(path: str, values: list[int]) -> None:
    assert join.ordered(keys(values)).tolist() == sorted(values)


@both_paths
@given(values=VALUES, low=st.integers(0, 62))
def test_the_last_bits_need_not_be_ordered(path: str, values: list[int], low: int) -> None:
    found = join.ordered(keys(values), low).tolist()
    assert sorted(found) == sorted(values)
    assert [value >> low for value in found] == sorted(value >> low for value in values)
