"""What the planner is told of relations."""

from __future__ import annotations

import numpy as np
import pytest

from sempre.backends.trace_statistics import TraceStatistics
from sempre.kernel.layout import Field, packing
from sempre.kernel.trace import RowSet, Trace
from sempre.limits import DEFAULTS


def statistics(*columns: object) -> TraceStatistics:
    arrays = [np.asarray(column, np.int64) for column in columns]
    fields = tuple(Field.covering(int(array.min()), int(array.max())) for array in arrays)
    layout = packing(fields, tuple(range(len(fields))))
    keys = np.unique(layout.pack(arrays, arrays[0].size))
    return TraceStatistics({"r": Trace.of(RowSet(layout, keys))}, DEFAULTS)


def test_columns_that_go_together_are_seen_together() -> None:
    number = np.arange(3_000)
    found = statistics(number % 30, number % 30 + 7, number).matching("r", (0, 1))
    assert found is not None
    assert found.mean == pytest.approx(100, rel=0.01)
    assert found.crowd == pytest.approx(100, rel=0.01)


def test_a_crowd_weighs_more_than_the_average() -> None:
    number = np.arange(2_000)
    found = statistics(np.where(number < 1_000, 0, number), number).matching("r", (0,))
    assert found is not None
    assert found.mean == pytest.approx(2, rel=0.01)
    assert found.crowd == pytest.approx(500, rel=0.01)
    assert found.mean < found.fanout < found.crowd


@pytest.mark.parametrize("per_value", [1, 4, 50])
def test_a_sample_is_near_the_truth(per_value: int) -> None:
    number = np.arange(200_000)
    found = statistics(number // per_value, number).matching("r", (0,))
    assert found is not None
    assert per_value / 3 < found.fanout < per_value * 3


def test_nothing_is_known_of_an_empty_relation() -> None:
    empty = TraceStatistics({"r": Trace.empty((Field.covering(0, 1),))}, DEFAULTS)
    assert empty.matching("r", (0,)).fanout == 1.0
