"""Traces against a plain set of tuples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sempre.kernel import trace as traces
from sempre.kernel.layout import EMPTY, EVERYTHING, Field
from sempre.kernel.trace import RowSet, Trace, TraceView
from tests.unit.kernel.rows import ANY, Row, columns_of, row_set, tuples

ORDERS = ((1, 0, 2), (2, 1, 0))
both_paths = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
SMALL_ROWS = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1))
ANY_ROWS = st.tuples(ANY, st.integers(-2, 2), ANY)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove", "index", "widen", "purge"]), st.sets(SMALL_ROWS | ANY_ROWS, max_size=8)
    ),
    max_size=12,
)


@pytest.fixture(params=["few runs", "many runs"])
def merging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are merged as usual, or hardly ever, and dead rows are kept for long."""
    if request.param == "many runs":
        monkeypatch.setattr(traces, "MERGE_RATIO", 0)
        monkeypatch.setattr(traces, "SMALL_RUN", 0)
        monkeypatch.setattr(traces, "DEAD_SHARE", 0)


def step(trace: Trace, model: set[Row], kind: str, rows: set[Row]) -> tuple[Trace, set[Row]]:
    fields = trace.fields
    if kind == "add":
        fresh = rows - model
        return trace.adding(row_set(fresh, fields)), model | fresh
    if kind == "remove":
        # Half of what is there, and what else was named.
        gone = set(sorted(model)[::2]) | (rows & model)
        return trace.removing(row_set(gone, (EMPTY,) * 3 if len(gone) % 2 else fields)), model - gone
    if kind == "index":
        return trace.indexed(ORDERS[: 1 + len(rows) % 2]), model
    if kind == "widen":
        wide = row_set(rows, fields).packing.fields
        return trace.widened(wide), model
    return trace.purged(), model


def check(trace: Trace, model: set[Row]) -> None:
    assert len(trace) == len(model)
    assert tuples(trace.rows().columns()) == sorted(model)
    asked = sorted(model | {(0, 0, 0), (1, 2, 1), (-(1 << 63), 0, 5), (3, -2, (1 << 63) - 1)})
    probes = row_set(asked, (EMPTY,) * 3)
    assert trace.contains(probes).tolist() == [row in model for row in asked]
    for order in trace.orders:
        check_order(trace, order, model)


def check_order(trace: Trace, order: tuple[int, ...], model: set[Row]) -> None:
    """Counts by every prefix of the order, for the rows that are there."""
    layout = trace.packing.reordered(order)
    listed = sorted(model)
    columns = columns_of(listed, 3)
    for length in range(4):
        low, high = layout.bounds([columns[c] for c in order[:length]], len(listed))
        expected = [sum(all(o[c] == row[c] for c in order[:length]) for o in listed) for row in listed]
        assert trace.count(order, low, high, exact=length == 3).tolist() == expected


@both_paths
@given(steps=STEPS)
def test_random_sequences(path: str, merging: None, steps: list[tuple[str, set[Row]]]) -> None:
    trace, model = Trace.empty((EMPTY,) * 3), set[Row]()
    earlier = []
    for kind, rows in steps:
        earlier.append((trace, model))
        trace, model = step(trace, model, kind, rows)
        check(trace, model)
    for old, rows in earlier:  # versions that somebody still holds have not changed
        assert tuples(old.rows().columns()) == sorted(rows)


@both_paths
@given(some=st.sets(SMALL_ROWS | ANY_ROWS), wide=st.booleans())
def test_a_trace_of_rows(path: str, some: set[Row], wide: bool) -> None:
    rows = row_set(some, (EVERYTHING if wide else EMPTY,) * 3)
    check(Trace.of(rows, ORDERS), some)


def test_rows_come_back_from_the_dead() -> None:
    rows = {(n, n % 3, 0) for n in range(100)}
    trace = Trace.of(row_set(rows, (EMPTY,) * 3), ORDERS)
    few = {(5, 2, 0), (6, 0, 0)}
    less = trace.removing(row_set(few, trace.fields))
    assert less.dead is not None
    again = less.adding(row_set({(5, 2, 0), (200, 0, 0)}, trace.fields))
    check(again, rows - {(6, 0, 0)} | {(200, 0, 0)})
    assert less.adding(row_set(few, trace.fields)).dead is None


def test_many_dead_rows_are_purged() -> None:
    rows = {(n, 0, 0) for n in range(64)}
    trace = Trace.of(row_set(rows, (EMPTY,) * 3))
    assert trace.removing(row_set(list(rows)[:30], trace.fields)).dead is None


def test_adding_nothing_is_the_same_trace() -> None:
    trace = Trace.of(row_set([(1, 2)], (EMPTY,) * 2))
    nothing = RowSet(trace.packing, np.empty(0, trace.packing.dtype))
    assert trace.adding(nothing) is trace
    assert trace.removing(nothing) is trace
    assert trace.indexed([(0, 1)]) is trace
    assert trace.widened(trace.fields) is trace


@given(base=st.sets(SMALL_ROWS), minus=st.sets(SMALL_ROWS), plus=st.sets(SMALL_ROWS))
def test_a_view_is_traces_without_others(base: set[Row], minus: set[Row], plus: set[Row]) -> None:
    fields = (Field(0, 4),) * 3
    whole, gone, more = (Trace.of(row_set(rows, fields)) for rows in (base, base & minus, plus - base))
    view = TraceView.of(whole).without(gone).plus(more)
    expected = (base - minus) | (plus - base)
    assert len(view) == len(expected)
    asked = sorted(base | minus | plus)
    assert view.contains(row_set(asked, fields)).tolist() == [row in expected for row in asked]


def test_a_relation_without_columns_holds_or_not() -> None:
    nothing = Trace.empty(())
    one = RowSet(nothing.packing, np.zeros(1, np.int64))
    holds = nothing.adding(one)
    assert (len(holds), holds.contains(one).tolist(), nothing.contains(one).tolist()) == (1, [True], [False])
    assert len(holds.removing(one)) == 0
