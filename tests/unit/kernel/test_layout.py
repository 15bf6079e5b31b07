from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sempre.kernel.layout import EMPTY, EVERYTHING, Field, fields_covering, packing
from tests.unit.kernel.rows import ANY, EDGES, HIGH, LOW, SMALL, columns_of, row_set, tuples

ROWS = st.integers(1, 4).flatmap(
    lambda arity: st.tuples(
        st.just(arity),
        st.permutations(range(arity)),
        st.lists(st.tuples(*[st.one_of(SMALL, ANY)] * arity), min_size=1, max_size=12),
    )
)


@given(lo=ANY, hi=ANY)
def test_a_field_covers_what_it_was_made_for(lo: int, hi: int) -> None:
    lo, hi = min(lo, hi), max(lo, hi)
    field = Field.covering(lo, hi)
    assert field.holds(lo, hi)
    assert field.lo <= lo
    assert field.hi >= hi


@pytest.mark.parametrize(
    ("lo", "hi", "field"),
    [
        (0, 0, Field(0, 1)),
        (0, 7, Field(0, 3)),
        (5, 7, Field(0, 3)),  # as cheap from zero, and nothing to subtract
        (1000, 1001, Field(1000, 1)),
        (-1, 0, Field(-1, 1)),
        (0, HIGH, Field(0, 63)),
        (LOW, HIGH, EVERYTHING),
        (LOW, 0, EVERYTHING),
    ],
)
def test_fields_are_as_narrow_as_they_can_be(lo: int, hi: int, field: Field) -> None:
    assert Field.covering(lo, hi) == field


def test_an_empty_field_holds_nothing_and_lies_in_every_other() -> None:
    assert not EMPTY.holds(0, 0)
    assert Field(3, 2).contains(EMPTY)
    assert not EMPTY.contains(Field(0, 1))
    assert EVERYTHING.contains(Field(LOW, 5))


@given(ROWS)
def test_what_is_packed_is_unpacked(case: tuple[int, tuple[int, ...], list[tuple[int, ...]]]) -> None:
    arity, order, rows = case
    columns = columns_of(rows, arity)
    layout = packing(fields_covering(columns, (EMPTY,) * arity), tuple(order))
    assert layout.narrow == (layout.bits <= 63)
    packed = layout.pack(columns, len(rows))
    assert tuples(layout.columns(packed)) == rows


@given(ROWS)
def test_keys_sort_like_the_rows_they_stand_for(case: tuple[int, tuple[int, ...], list[tuple[int, ...]]]) -> None:
    arity, order, rows = case
    columns = columns_of(rows, arity)
    layout = packing(fields_covering(columns, (EMPTY,) * arity), tuple(order))
    packed = np.sort(layout.pack(columns, len(rows)))
    assert tuples(layout.columns(packed)) == sorted(rows, key=lambda row: [row[c] for c in order])


@given(ROWS, st.data())
def test_bounds_enclose_exactly_the_rows_with_a_prefix(
    case: tuple[int, tuple[int, ...], list[tuple[int, ...]]], data: st.DataObject
) -> None:
    arity, order, rows = case
    columns = columns_of(rows, arity)
    layout = packing(fields_covering(columns, (EMPTY,) * arity), tuple(order))
    packed = layout.pack(columns, len(rows))
    length = data.draw(st.integers(0, arity))
    low, high = layout.bounds([columns[c] for c in order[:length]], len(rows))
    for at, row in enumerate(rows):
        prefix = [row[c] for c in order[:length]]
        inside = (packed >= low[at]) & (packed <= high[at])
        assert inside.tolist() == [[other[c] for c in order[:length]] == prefix for other in rows]


@given(ROWS, st.data())
def test_widening_keeps_rows_and_their_order(
    case: tuple[int, tuple[int, ...], list[tuple[int, ...]]], data: st.DataObject
) -> None:
    arity, _, rows = case
    first = row_set(rows, (EMPTY,) * arity)
    extra = data.draw(st.lists(st.tuples(*[ANY] * arity), min_size=1, max_size=3))
    fields = fields_covering(columns_of(extra, arity), first.packing.fields)
    assert all(new.contains(old) for new, old in zip(fields, first.packing.fields, strict=True))
    wider = first.repacked(packing(fields, first.packing.order))
    assert tuples(wider.columns()) == tuples(first.columns()) == sorted(set(rows))


def test_spare_bits_are_left_only_where_they_are_free() -> None:
    (roomy,) = fields_covering([np.array([0, 7])], (EMPTY,))
    assert roomy == Field(0, 5)
    pair = fields_covering([np.array([0, (1 << 31) - 1]), np.array([0, (1 << 31) - 1])], (EMPTY, EMPTY))
    assert pair == (Field(0, 31), Field(0, 31))


def test_a_row_without_columns_has_one_key() -> None:
    layout = packing((), ())
    assert layout.pack([], 2).tolist() == [0, 0]
    assert [bound.tolist() for bound in layout.bounds([], 1)] == [[0], [0]]


def test_every_edge_value_has_its_place_in_a_wide_key() -> None:
    layout = packing((EVERYTHING, Field(0, 3), EVERYTHING), (2, 0, 1))
    rows = [(a, 5, b) for a in EDGES for b in EDGES]
    packed = layout.pack(columns_of(rows, 3), len(rows))
    assert packed.dtype == np.dtype("S24")
    assert tuples(layout.columns(packed)) == rows
    assert tuples(layout.columns(np.sort(packed))) == sorted(rows, key=lambda row: (row[2], row[0]))


def test_a_packing_that_is_held_stays_the_only_one() -> None:
    """Traces compare packings by identity, however many others were made meanwhile."""
    held = packing((Field(-17, 5),), (0,))
    for number in range(10_000):
        packing((Field(number, 7),), (0,))
    assert packing((Field(-17, 5),), (0,)) is held


def test_threads_agree_on_a_packing() -> None:
    wanted = [(Field(-number, 9), Field(number, 11)) for number in range(300)]
    found: list[list[object]] = []

    def work() -> None:
        found.append([packing(fields, (1, 0)) for fields in wanted])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len({id(each) for each in same}) == 1 for same in zip(*found, strict=True))


def test_a_wide_layout_may_begin_with_a_column_that_has_no_values_yet() -> None:
    layout = packing((EMPTY, EVERYTHING, EVERYTHING), (0, 1, 2))
    assert layout.pack(columns_of([], 3), 0).size == 0
    assert [column.size for column in layout.columns(layout.pack(columns_of([], 3), 0))] == [0, 0, 0]
