"""Maps from rows to numbers, against dictionaries."""

from __future__ import annotations

import ctypes
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sempre.kernel import tally as tally_file
from sempre.kernel.layout import Field, packing
from sempre.kernel.tally import Counted, Tally
from sempre.kernel.trace import RowSet, Trace
from tests.unit.kernel.rows import keys

LAYOUT = packing((Field(0, 12),), (0,))
ROWS = 3000
PART = st.dictionaries(st.integers(0, 90), st.integers(1, 5), max_size=40)
CHANGE = st.dictionaries(st.integers(0, 120), st.integers(-4, 4).filter(bool), max_size=20)
NUMBERS = {4: ctypes.c_int32, 8: ctypes.c_int64}
both_paths = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


def counted(numbers: dict[int, int]) -> Counted:
    return Counted(LAYOUT, keys(sorted(numbers)), keys(numbers[key] for key in sorted(numbers)))


def trace_of(*sets: set[int]) -> Trace:
    """A relation of several runs."""
    trace = Trace.empty(LAYOUT.fields)
    for rows in sets:
        trace = trace.adding(RowSet(LAYOUT, keys(sorted(rows))))
    return trace


def numbers_of(tally: Tally) -> dict[int, int]:
    found = tally.entries()
    return dict(zip(found.keys.tolist(), found.weights.tolist(), strict=True))


def runs_of(tally: Tally) -> int:
    return len(tally._runs)


@both_paths
@given(parts=st.lists(PART, max_size=5), changes=st.lists(CHANGE, max_size=3), asked=st.sampled_from([0, 1, 10**6]))
def test_parts_are_the_map_that_they_become(
    path: str, parts: list[dict[int, int]], changes: list[dict[int, int]], asked: int
) -> None:
    """However much is asked in between, and in whatever way."""
    early = set(range(ROWS))
    tally = Tally.over(trace_of(early, {ROWS + 7}), [counted(part) for part in parts])
    expected = sum((Counter(part) for part in parts), Counter[int]())
    probes = keys(range(130))
    for change in [{}, *changes]:
        before, known = tally, dict(expected)
        expected.update(change)
        expected = Counter({key: number for key, number in expected.items() if number})
        tally = tally.adding(counted(change))
        tally._probed(asked)
        wanted = [expected[key] for key in range(130)]
        assert tally.get(RowSet(LAYOUT, probes)).tolist() == wanted
        assert tally.of_columns([probes], 130).tolist() == wanted
        assert tally.between(keys([0, 7]), keys([129, 9])).tolist() == [sum(wanted), sum(wanted[7:10])]
        assert numbers_of(tally) == expected
        assert numbers_of(before) == {key: number for key, number in known.items() if number}
    stored: Counter[int] = Counter()
    for found, weights in tally.runs():
        stored.update(dict(zip(found.tolist(), weights.tolist(), strict=True)))
    assert {key: number for key, number in stored.items() if number} == expected


def test_few_lookups_leave_the_parts_alone() -> None:
    tally = Tally.over(
        trace_of(set(range(ROWS))), [counted(dict.fromkeys(range(at, ROWS, 3), at + 1)) for at in (0, 1, 2)]
    )
    few = RowSet(LAYOUT, keys([3, 4, 5]))
    assert tally.get(few).tolist() == [1, 2, 3]
    assert runs_of(tally) == 3
    tally.get(RowSet(LAYOUT, keys(range(ROWS))))
    assert runs_of(tally) == 1
    assert tally.get(few).tolist() == [1, 2, 3]


def test_what_is_read_by_address_stays_where_it_is() -> None:
    """Another may ask for so much meanwhile that the parts are put together."""
    tally = Tally.over(trace_of(set(range(ROWS))), [counted({1: 5}), counted({2: 6})])
    held = [run for run, _ in tally._runs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally_file, "PROBES_BY_ADDRESS", 0)
        places = tally.places()
    tally._probed(10**6)
    assert [place[0] for place in places] == [run.keys.ctypes.data for run in held]
    assert [run for run, _ in tally._held] == held


def test_a_map_of_nothing_has_no_zeros() -> None:
    tally = Tally.over(trace_of(set(range(ROWS))), [counted({})])
    assert tally.get(RowSet(LAYOUT, keys(range(ROWS)))).tolist() == [0] * ROWS
    assert tally.nbytes == 0
    assert numbers_of(tally.adding(counted({5: 2}))) == {5: 2}


def test_large_numbers_are_in_one_run() -> None:
    large = (1 << 40) + 1
    tally = Tally.over(trace_of({1, 2, 3}), [counted({1: large}), counted({1: 2, 3: 1})])
    assert runs_of(tally) == 1
    assert numbers_of(tally) == {1: large + 2, 3: 1}
    assert np.asarray(tally.get(RowSet(LAYOUT, keys([1])))).tolist() == [large + 2]


@pytest.mark.parametrize("number", [3, 1 << 40])
def test_columns_of_a_table_are_read_by_address_too(number: int) -> None:
    """Compiled loops take what lies one after the other."""
    table = np.array([[key, 7, number + key] for key in range(0, ROWS, 2)])
    change = Counted(LAYOUT, table[:, 0], table[:, 2])
    for tally in (Tally(LAYOUT).adding(change), Tally.over(trace_of(set(range(ROWS))), [change])):
        ((address, where, size, width),) = tally.addresses()
        read = (ctypes.c_int64 * size).from_address(address), (NUMBERS[width] * size).from_address(where)
        assert {key: found for key, found in zip(*read, strict=True) if found} == dict(table[:, [0, 2]].tolist())
