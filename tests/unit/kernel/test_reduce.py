from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sempre.kernel import reduce
from sempre.kernel.functors import Fault
from sempre.kernel.layout import Column
from sempre.kernel.values import Values, float_codes, floats_of
from tests.unit.kernel.rows import HIGH, LOW

U64 = (1 << 64) - 1
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(-50, 50) | st.sampled_from([HIGH, LOW, HIGH // 2])), max_size=12
)


def by_group(kind: str, operand: str, rows: list[tuple[int, int]], size: int = 5) -> dict[int, int]:
    """Results of the groups that have one, from rows that arrive in two batches."""
    half = len(rows) // 2
    batches = [rows[:half], rows[half:]]
    groups = [np.array([g for g, _ in batch], np.int64) for batch in batches]
    terms = [np.array([t for _, t in batch], np.int64) for batch in batches]
    found, out = reduce.by_group(Values(), kind, operand, groups, terms, size)
    return {group: int(out[group]) for group in range(size) if found[group]}


@given(ROWS)
def test_numbers(rows: list[tuple[int, int]]) -> None:
    terms: dict[int, list[int]] = defaultdict(list)
    for group, term in rows:
        terms[group].append(term)
    assert by_group("count", "number", rows) == {g: len(terms[g]) for g in range(5)}
    assert by_group("min", "number", rows) == {g: min(ts) for g, ts in terms.items() if ts}
    assert by_group("max", "number", rows) == {g: max(ts) for g, ts in terms.items() if ts}
    sums = {g: sum(terms[g]) for g in range(5)}
    if all(LOW <= total <= HIGH for total in sums.values()):
        assert by_group("sum", "number", rows) == sums
    else:
        with pytest.raises(Fault, match="does not fit in 64 bits"):
            by_group("sum", "number", rows)


def test_unsigned_numbers_order_and_add_as_such() -> None:
    rows = [(0, -1), (0, 1), (1, 7)]  # -1 is the code of the greatest
    assert by_group("max", "unsigned", rows) == {0: -1, 1: 7}
    assert by_group("min", "unsigned", rows) == {0: 1, 1: 7}
    assert by_group("sum", "unsigned", [(0, HIGH), (0, HIGH), (0, 1)], 1) == {0: -1}
    with pytest.raises(Fault):
        by_group("sum", "unsigned", rows)


def codes(*values: float) -> Column:
    return float_codes(np.array(values, np.float64))


def floats(kind: str, *values: float) -> float:
    found, out = reduce.by_group(Values(), kind, "float", [np.zeros(len(values), np.int64)], [codes(*values)], 1)
    assert found.all()
    return float(floats_of(out)[0])


def test_floats() -> None:
    assert floats("sum", 0.1, 0.2, 0.3) == floats("sum", 0.3, 0.2, 0.1)
    assert (floats("min", 2.0, -1.5), floats("max", 2.0, -1.5), floats("mean", 1.0, 2.0)) == (-1.5, 2.0, 1.5)
    assert math.isnan(floats("sum", math.inf, -math.inf))
    assert math.isnan(floats("mean", math.inf, -math.inf))
    assert floats("sum", 1e308, 1e308) == math.inf


@pytest.mark.parametrize(("operand", "wanted"), [("number", 0.5), ("unsigned", float(1 << 63))])
def test_the_mean_is_a_float(operand: str, wanted: float) -> None:
    _, out = reduce.by_group(Values(), "mean", operand, [np.zeros(2, np.int64)], [np.array([2, -1])], 1)
    assert floats_of(out).tolist() == [wanted]


def test_no_rows_at_all() -> None:
    nothing: list[tuple[int, int]] = []
    assert by_group("count", "number", nothing, 2) == {0: 0, 1: 0}
    assert by_group("sum", "number", nothing, 2) == {0: 0, 1: 0}
    assert by_group("min", "number", nothing, 2) == {}
    assert by_group("mean", "number", nothing, 2) == {}
