from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sempre.kernel import reduce
from sempre.kernel.float_sums import float_parts, float_sum, float_sums
from sempre.kernel.functors import Fault
from sempre.kernel.layout import Column
from sempre.kernel.values import Values, float_codes, floats_of
from tests.oracle.values import total
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
    found, out = reduce.by_group(kind, operand, groups, terms, size, Values())
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
    found, out = reduce.by_group(kind, "float", [np.zeros(len(values), np.int64)], [codes(*values)], 1, Values())
    assert found.all()
    return float(floats_of(out)[0])


def test_floats() -> None:
    assert floats("sum", 0.1, 0.2, 0.3) == floats("sum", 0.3, 0.2, 0.1)
    assert (floats("min", 2.0, -1.5), floats("max", 2.0, -1.5), floats("mean", 1.0, 2.0)) == (-1.5, 2.0, 1.5)
    assert math.isnan(floats("sum", math.inf, -math.inf))
    assert math.isnan(floats("mean", math.inf, -math.inf))
    assert floats("sum", 1e308, 1e308) == math.inf
    assert floats("sum", 1e16, 1.0, -1e16, 2.0) == 3.0
    assert (floats("min", math.nan, 1.0), floats("max", math.inf, 1.0)) == (1.0, math.inf)
    assert math.isnan(floats("max", math.nan, math.inf))
    assert math.isnan(floats("min", math.nan))


ODD = (math.inf, -math.inf, math.nan, 1.7e308, -1.7e308, 5e-324, -5e-324, 1e16, -1e16, 1.0, 0.1, 0.0, 2.0**53, 1e-300)
FLOATS = st.lists(st.lists(st.floats() | st.sampled_from(ODD), min_size=1, max_size=9), min_size=1, max_size=5)


def shown(value: float) -> str:
    return "nan" if math.isnan(value) else repr(value + 0.0)


@given(FLOATS)
def test_sums_of_floats_are_exact(groups: list[list[float]]) -> None:
    counts = np.array([len(group) for group in groups])
    found = float_sums(np.array([value for group in groups for value in group]), counts.cumsum() - counts, counts)
    wanted = [shown(total(group)) for group in groups]
    assert [shown(value) for value in found.tolist()] == wanted
    assert [shown(float_sum(group)) for group in groups] == wanted
    parts = [float_parts(group) for group in groups]
    assert [shown(float_sum(part)) for part in parts] == wanted
    together = [value for part in parts for value in part]
    assert shown(float_sum(together)) == shown(total([value for group in groups for value in group]))


def test_long_sums_of_floats_are_exact() -> None:
    rng = np.random.default_rng(7)
    values = np.ldexp(rng.normal(size=60_000), rng.integers(-60, 60, 60_000))
    counts = np.array([1, 10, 989, 4_000, 55_000])
    starts = counts.cumsum() - counts
    wanted = [math.fsum(values[start : start + count].tolist()) for start, count in zip(starts, counts, strict=True)]
    assert float_sums(values, starts, counts).tolist() == wanted


def test_symbols_order_like_their_texts() -> None:
    values = Values()
    column = values.symbols.encode(["z", "b", "é", "a", "B", ""])
    groups = [np.array([0, 0, 0, 1, 1, 2])]
    for kind, wanted in (("min", ["b", "B", ""]), ("max", ["é", "a", ""])):
        _, out = reduce.by_group(kind, "symbol", groups, [column], 3, values)
        assert values.symbols.decode(out) == wanted


@pytest.mark.parametrize(("operand", "wanted"), [("number", 0.5), ("unsigned", float(1 << 63))])
def test_the_mean_is_a_float(operand: str, wanted: float) -> None:
    _, out = reduce.by_group("mean", operand, [np.zeros(2, np.int64)], [np.array([2, -1])], 1, Values())
    assert floats_of(out).tolist() == [wanted]


def test_no_rows_at_all() -> None:
    nothing: list[tuple[int, int]] = []
    assert by_group("count", "number", nothing, 2) == {0: 0, 1: 0}
    assert by_group("sum", "number", nothing, 2) == {0: 0, 1: 0}
    assert by_group("min", "number", nothing, 2) == {}
    assert by_group("mean", "number", nothing, 2) == {}
