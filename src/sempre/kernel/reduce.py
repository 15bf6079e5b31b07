"""Aggregates over groups of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sempre.kernel import join
from sempre.kernel.functors import UINT64_MAX, Fault
from sempre.kernel.layout import INT64_MAX, INT64_MIN, Column
from sempre.kernel.values import Values, float_codes, floats_of


def by_group(
    values: Values, kind: str, operand: str, groups: Sequence[Column], terms: Sequence[Column], size: int
) -> tuple[join.Mask, Column]:
    """For groups `0..size-1`, whether each has a result, and the result.

    `groups[i]` and `terms[i]` run in parallel: a group number and the value it contributes, once per row.
    """
    group = np.concatenate(groups) if groups else np.empty(0, np.int64)
    term = np.concatenate(terms) if terms else np.empty(0, np.int64)
    counts = np.bincount(group, minlength=size)
    if kind == "count":
        return np.ones(size, np.bool_), counts
    order = np.argsort(group, kind="stable")
    term = term[order]
    if kind.startswith("@"):
        from sempre.kernel.calling import aggregate_in_python

        return aggregate_in_python(values, kind, term, counts)
    present = np.flatnonzero(counts)
    starts = (counts.cumsum() - counts)[present]
    out = np.zeros(size, np.int64)
    if present.size:
        out[present] = reduced(kind, operand, term, starts, counts[present])
    if kind == "sum":
        return np.ones(size, np.bool_), out
    return counts > 0, out


def reduced(kind: str, operand: str, term: Column, starts: join.Rows, counts: Column) -> Column:
    """One code per stretch of `term`; stretch i begins at `starts[i]` and is never empty."""
    if kind == "mean":
        return float_codes(_sum_floats(_as_floats(term, operand), starts) / counts)
    if operand == "float":
        values = floats_of(term)
        return float_codes(_sum_floats(values, starts) if kind == "sum" else _extreme(kind).reduceat(values, starts))
    if operand == "unsigned":
        unsigned = term.view(np.uint64)
        if kind == "sum":
            return _sum_exact(unsigned, starts, counts, 0, UINT64_MAX)
        return np.asarray(_extreme(kind).reduceat(unsigned, starts).view(np.int64))
    if kind == "sum":
        return _sum_exact(term, starts, counts, INT64_MIN, INT64_MAX)
    return np.asarray(_extreme(kind).reduceat(term, starts))


def _as_floats(term: Column, operand: str) -> NDArray[np.float64]:
    if operand == "float":
        return floats_of(term)
    return term.view(np.uint64).astype(np.float64) if operand == "unsigned" else term.astype(np.float64)


def _extreme(kind: str) -> np.ufunc:
    return np.minimum if kind == "min" else np.maximum


def _sum_floats(values: NDArray[np.float64], starts: join.Rows) -> NDArray[np.float64]:
    """Sums that do not depend on the order the rows came in: each stretch is added smallest first."""
    stretch = np.zeros(values.size, np.int64)
    stretch[starts[1:]] = 1
    ordered = values[np.lexsort((values, stretch.cumsum()))]
    with np.errstate(all="ignore"):  # infinities of both signs have the sum NaN
        return np.asarray(np.add.reduceat(ordered, starts))


def _sum_exact(values: NDArray[np.integer], starts: join.Rows, counts: Column, low: int, high: int) -> Column:
    largest = max(abs(int(values.min())), abs(int(values.max())))
    if largest * int(counts.max()) <= INT64_MAX:
        return np.asarray(np.add.reduceat(values, starts).astype(np.int64))
    sums = np.add.reduceat(values.astype(object), starts)
    for value in sums:
        if not low <= value <= high:
            raise Fault(f"the sum {value} does not fit in 64 bits")
    return np.array([value - (1 << 64) if value > INT64_MAX else value for value in sums], np.int64)
