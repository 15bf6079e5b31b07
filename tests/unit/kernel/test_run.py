from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sempre.kernel.layout import EVERYTHING, Field, Keys, packing
from sempre.kernel.run import Run
from sempre.kernel.sieve import Sieve, marked
from tests.unit.kernel.rows import keys

TOP = (1 << 63) - 1
VALUES = st.lists(
    st.one_of(st.integers(0, 30), st.integers(0, TOP), st.sampled_from([TOP, TOP - 1, 1 << 62])), max_size=60
)
both_paths = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)


def sorted_keys(values: list[int]) -> Keys:
    return keys(sorted(set(values)))


@both_paths
@given(held=VALUES, probes=VALUES)
def test_member(path: str, held: list[int], probes: list[int]) -> None:
    run = Run(sorted_keys(held))
    probes = probes + held[:3]
    for _ in range(2):  # the second time a directory may be there
        assert run.member(keys(probes)).tolist() == [probe in set(held) for probe in probes]


@both_paths
@given(held=VALUES, others=VALUES, dense=st.integers(0, 4000), step=st.integers(1, 5))
def test_numbers_are_added_where_their_keys_are(
    path: str, held: list[int], others: list[int], dense: int, step: int
) -> None:
    run = Run(sorted_keys([*held, *range(0, dense, step)]))
    given_ = sorted_keys([*others, *range(dense // 3, dense, 2)])
    sums = np.arange(run.size)
    numbers = {key: at + 1 for at, key in enumerate(given_.tolist())}
    run.lodge(given_, np.arange(1, given_.size + 1), sums)
    assert sums.tolist() == [at + numbers.get(key, 0) for at, key in enumerate(run.keys.tolist())]


@both_paths
@given(held=VALUES, bounds=st.lists(st.tuples(VALUES.filter(bool).map(min), VALUES.filter(bool).map(max)), max_size=20))
def test_ranges_and_what_is_in_them(path: str, held: list[int], bounds: list[tuple[int, int]]) -> None:
    run = Run(sorted_keys(held))
    bounds = [(min(pair), max(pair)) for pair in bounds]
    low, high = keys(low for low, _ in bounds), keys(high for _, high in bounds)
    begins, ends = run.ranges(low, high)
    inside = [[key for key in sorted(set(held)) if a <= key <= b] for a, b in bounds]
    assert (ends - begins).tolist() == [len(some) for some in inside]
    rows, found = run.expand(begins, ends)
    assert rows.tolist() == [row for row, some in enumerate(inside) for _ in some]
    assert found.tolist() == [key for some in inside for key in some]


@both_paths
@given(
    held=st.lists(st.tuples(st.integers(0, 7), st.integers(-3, 4)), max_size=40),
    wanted=st.lists(st.integers(0, 7), max_size=6),
    there=st.sets(st.integers(-5, 9), max_size=6),
)
def test_what_a_sieve_lets_through(path: str, held: list[tuple[int, int]], wanted: list[int], there: set[int]) -> None:
    layout = packing((Field(0, 3), Field(-3, 3)), (0, 1))
    pairs = sorted(set(held))
    run = Run(layout.pack([keys(x for x, _ in pairs), keys(y for _, y in pairs)], len(pairs)))
    low, high = layout.bounds([keys(wanted)], len(wanted))
    sieve = Sieve(layout.place(1)[0], 7, marked(keys(sorted(there)), layout.fields[1]))
    rows, found = run.sift(*run.ranges(low, high), sieve)
    expected = [(row, x, y) for row, value in enumerate(wanted) for x, y in pairs if x == value and y in there]
    assert (
        list(zip(rows.tolist(), layout.unpack(found, 0).tolist(), layout.unpack(found, 1).tolist(), strict=True))
        == expected
    )


@given(held=st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 4)), max_size=20), first=st.integers(-1, 5))
def test_marks_of_a_column_after_constants(held: list[tuple[int, int]], first: int) -> None:
    layout = packing((Field(0, 2), Field(-3, 3)), (0, 1))
    pairs = sorted(set(held))
    run = Run(layout.pack([keys(x for x, _ in pairs), keys(y for _, y in pairs)], len(pairs)))
    for field in (Field(-3, 3), Field(0, 2), Field(-8, 4)):
        for _ in range(2):  # the second time it is kept
            there = {y for x, y in pairs if x == first and field.lo <= y <= field.hi}
            assert np.flatnonzero(run.marks(layout, (first,), field)).tolist() == sorted(y - field.lo for y in there)


@pytest.mark.parametrize("size", [1, 2, 9, 1000, 100_000])
def test_long_ranges_and_far_probes(path: str, size: int) -> None:
    rng = np.random.default_rng(size)
    held = np.unique(rng.integers(0, 1 << 40, size))
    run = Run(held)
    low = np.sort(rng.integers(0, 1 << 41, 3000))
    high = low + rng.integers(0, 1 << 38, 3000)
    begins, ends = run.ranges(low, high)
    assert begins.tolist() == held.searchsorted(low).tolist()
    assert ends.tolist() == held.searchsorted(high, side="right").tolist()


def test_the_greatest_key_there_is(path: str) -> None:
    run = Run(keys([0, 5, TOP]))
    probes = keys([0, 1, TOP - 1, TOP])
    assert run.member(probes).tolist() == [True, False, False, True]
    begins, ends = run.ranges(keys([6, 0]), keys([TOP, TOP]))
    assert (begins.tolist(), ends.tolist()) == ([2, 0], [3, 3])


def test_an_empty_run_holds_nothing(path: str) -> None:
    run = Run(keys([]))
    assert run.member(keys([1, 2])).tolist() == [False, False]
    assert [side.tolist() for side in run.ranges(keys([1]), keys([2]))] == [[0], [0]]


def test_wide_runs(path: str) -> None:
    layout = packing((EVERYTHING, EVERYTHING), (0, 1))
    run = Run(np.sort(layout.pack([keys([1, 1, -9]), keys([-1, 7, 0])], 3)))
    low, high = layout.bounds([keys([1, 2, -9])], 3)
    begins, ends = run.ranges(low, high)
    assert (ends - begins).tolist() == [2, 0, 1]
    rows, found = run.expand(begins, ends)
    assert rows.tolist() == [0, 0, 2]
    assert layout.unpack(found, 1).tolist() == [-1, 7, 0]
    assert run.member(layout.pack([keys([1, 1]), keys([7, 8])], 2)).tolist() == [True, False]
