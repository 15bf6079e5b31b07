"""What aggregates mean: over groups of rows of a column, and over a list of plain values.

`AGGREGATES` has every aggregate of the language once, and those of users in Python are called from here; who evaluates
one, of whatever kind, asks here. Values of each type are in one
order for `min` and `max`: numbers by size with NaN after all other floats, symbols by their text. Sums of integers are
exact and must fit; for those of floats, see `float_sums`. A mean is the exact sum as a float, divided by the count.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sempre.data import dataclass
from sempre.kernel import join
from sempre.kernel.float_sums import Floats, float_parts, float_sum, float_sums
from sempre.kernel.functors import UINT64_MAX, Fault
from sempre.kernel.layout import INT64_MAX, INT64_MIN, Column
from sempre.kernel.values import Values, float_codes, floats_of
from sempre.python_functions import in_order, name_of

RANGES = {"number": (INT64_MIN, INT64_MAX), "unsigned": (0, UINT64_MAX)}


@dataclass(frozen=True, slots=True)
class Groups:
    """A column cut into stretches, one for each group; none is empty. Stretch i begins at `starts[i]`."""

    term: Column
    starts: join.Rows
    counts: Column


@dataclass(frozen=True, slots=True)
class Merging:
    """How an aggregate is put together from parts that were made elsewhere.

    `part` stands for some plain values, without any loss, and is made of what messages can carry: integers of 64 bits,
    floats, texts and tuples. `whole` is the aggregate of all values that several parts stand for.
    """

    part: Callable[[Sequence[Any], str], Any]
    whole: Callable[[Sequence[Any], str], Any]


@dataclass(frozen=True, slots=True)
class Meaning:
    """One aggregate. `columns` gives a code for every group, `plain` the value of plain values; both for operands of a
    kind, and never of nothing. With `zero`, that of nothing is 0; else it has no value.
    """

    columns: Callable[[Values, str, Groups], Column]
    plain: Callable[[Sequence[Any], str], Any]
    parts: Merging | None = None
    zero: bool = False


def by_group(
    kind: str, operand: str, groups: Sequence[Column], terms: Sequence[Column], size: int, values: Values
) -> tuple[join.Mask, Column]:
    """For groups `0..size-1`, whether each has a result, and the result.

    `groups[i]` and `terms[i]` run in parallel: a group number and the value it contributes, once per row.
    """
    group = np.concatenate(groups) if groups else np.empty(0, np.int64)
    term = np.concatenate(terms) if terms else np.empty(0, np.int64)
    counts = np.bincount(group, minlength=size)
    if name_of(kind):
        from sempre.kernel.calling import aggregate_in_python

        return aggregate_in_python(values, kind, term[np.argsort(group, kind="stable")], counts)
    meaning = AGGREGATES[kind]
    present = np.flatnonzero(counts)
    out = np.zeros(size, np.int64)
    if present.size:
        sorted_ = term if kind == "count" else term[np.argsort(group, kind="stable")]
        starts = (counts.cumsum() - counts)[present]
        out[present] = meaning.columns(values, operand, Groups(sorted_, starts, counts[present]))
    return np.ones(size, np.bool_) if meaning.zero else counts > 0, out


def aggregate(kind: str, found: Sequence[Any], operand: str) -> Any:
    """The aggregate of plain values; None where it has no value."""
    if name_of(kind):
        from sempre.kernel.calling import aggregated, fitting

        there, results = aggregated(name_of(kind), [in_order(found)])
        return fitting(kind, results[0]) if there else None
    meaning = AGGREGATES[kind]
    if found:
        return meaning.plain(found, operand)
    return (0.0 if operand == "float" and kind != "count" else 0) if meaning.zero else None


# -------------------------------------------------------------------------------------------------- the order


def ranked(values: Values, column: Column, operand: str) -> Column:
    """Integers that order like the values of a column."""
    if operand == "unsigned":
        return column ^ np.int64(INT64_MIN)
    if operand == "float":
        # The bits of a float order like it where it is positive, and the other way round where it is not; NaN is last.
        return np.where(column < 0, column ^ np.int64(INT64_MAX), column)
    if operand == "symbol":
        return _text_ranks(values, column)[1]
    return column


def _text_ranks(values: Values, column: Column) -> tuple[Column, Column]:
    """The codes in a column in the order of their texts, and the place of each row's code among them."""
    codes = join.distinct(column.copy())
    texts = values.symbols.decode(codes)
    order = np.array(sorted(range(codes.size), key=texts.__getitem__), np.int64)
    places = np.empty(codes.size, np.int64)
    places[order] = np.arange(codes.size)
    return codes[order], places[codes.searchsorted(column)]


def float_rank(value: float) -> int:
    """An integer that orders like a float; that of NaN is the greatest."""
    (bits,) = _INT.unpack(_FLOAT.pack(value if value == value else _NAN))
    return int(bits ^ INT64_MAX) if bits < 0 else int(bits)


_INT, _FLOAT = struct.Struct("<q"), struct.Struct("<d")
_NAN = float("nan")


def _extremes(pick: np.ufunc) -> Callable[[Values, str, Groups], Column]:
    def extremes(values: Values, operand: str, groups: Groups) -> Column:
        if operand == "symbol":
            codes, places = _text_ranks(values, groups.term)
            return codes[pick.reduceat(places, groups.starts)]
        best: Column = pick.reduceat(ranked(values, groups.term, operand), groups.starts)
        return ranked(values, best, operand)  # applied twice, it gives the values back

    return extremes


def _least(found: Sequence[Any], operand: str) -> Any:
    return min(found, key=float_rank) if operand == "float" else min(found)


def _greatest(found: Sequence[Any], operand: str) -> Any:
    return max(found, key=float_rank) if operand == "float" else max(found)


# ------------------------------------------------------------------------------------------------------- sums


def _sums(_: Values, operand: str, groups: Groups) -> Column:
    if operand == "float":
        return float_codes(float_sums(floats_of(groups.term), groups.starts, groups.counts))
    return _fitting(_whole_sums(groups, operand), operand)


def _whole_sums(groups: Groups, operand: str) -> NDArray[Any]:
    """Exact sums of integers; those of a column with huge ones are Python's."""
    term = groups.term.view(np.uint64) if operand == "unsigned" else groups.term
    largest = max(abs(int(term.min())), abs(int(term.max())))
    if largest * int(groups.counts.max()) <= INT64_MAX:
        return np.asarray(np.add.reduceat(term, groups.starts).astype(np.int64))
    return np.asarray(np.add.reduceat(term.astype(object), groups.starts))


def _fitting(sums: NDArray[Any], operand: str) -> Column:
    """Sums as codes; raises for one that does not fit."""
    if sums.dtype != object:
        return sums
    for value in sums:
        _check_sum(value, operand)
    return np.array([value - (1 << 64) if value > INT64_MAX else value for value in sums], np.int64)


def _check_sum(total: int, operand: str) -> int:
    low, high = RANGES[operand]
    if not low <= total <= high:
        raise Fault(f"the sum {total} does not fit in 64 bits")
    return total


def _sum(found: Sequence[Any], operand: str) -> Any:
    return float_sum(found) if operand == "float" else _check_sum(sum(found), operand)


def _sum_part(found: Sequence[Any], operand: str) -> tuple[Any, ...]:
    """Floats that lose nothing; of an integer, which may be larger than those in messages, two digits."""
    return float_parts(found) if operand == "float" else divmod(sum(found), _DIGIT)


def _sum_of_parts(parts: Sequence[Any], operand: str) -> Any:
    if operand == "float":
        return float_sum([value for part in parts for value in part])
    return _check_sum(sum(high * _DIGIT + low for high, low in parts), operand)


_DIGIT = 1 << 62


def weighted_sums(operand: str, groups: Groups, weights: join.Weights) -> Column:
    """The sum of every group, each row of which counts as often as its weight says."""
    if operand == "float":
        counts = np.add.reduceat(weights, groups.starts)
        repeated = groups.term.repeat(weights)
        return float_codes(float_sums(floats_of(repeated), counts.cumsum() - counts, counts))
    term = groups.term.view(np.uint64) if operand == "unsigned" else groups.term
    products = term.astype(object) * weights.astype(object)
    return _fitting(np.add.reduceat(products, groups.starts), operand)


def _means(_: Values, operand: str, groups: Groups) -> Column:
    if operand == "float":
        sums: Floats = float_sums(floats_of(groups.term), groups.starts, groups.counts)
    else:
        sums = _whole_sums(groups, operand).astype(np.float64)
    return float_codes(sums / groups.counts)


def _mean(found: Sequence[Any], operand: str) -> float:
    whole = float_sum(found) if operand == "float" else float(sum(found))
    return whole / len(found) + 0.0 if whole == whole else whole


def _count(found: Sequence[Any], _: str) -> int:
    return len(found)


AGGREGATES: dict[str, Meaning] = {
    "count": Meaning(
        lambda _, __, groups: groups.counts, _count, Merging(_count, lambda parts, _: sum(parts)), zero=True
    ),
    "sum": Meaning(_sums, _sum, Merging(_sum_part, _sum_of_parts), zero=True),
    "min": Meaning(_extremes(np.minimum), _least, Merging(_least, _least)),
    "max": Meaning(_extremes(np.maximum), _greatest, Merging(_greatest, _greatest)),
    "mean": Meaning(_means, _mean),
}
