"""Aggregates in heads: one row per group, the best or the total of what was derived for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sempre.kernel import join, reduce
from sempre.kernel.layout import Column, Keys, Packing, fields_covering, packing
from sempre.kernel.trace import Order, RowSet, Trace
from sempre.kernel.values import Values


def group_order(arity: int, column: int) -> Order:
    """The order that has the rows of a group side by side: the aggregated column last."""
    return (*(c for c in range(arity) if c != column), column)


def best_per_group(values: Values, rows: RowSet, kind: str, operand: str, column: int) -> RowSet:
    """The row with the least (`min`) or greatest (`max`) value of each group."""
    if len(rows) < 2:
        return rows
    columns = rows.columns()
    groups = _group_numbers(columns, column, len(rows))
    value = reduce.ranked(values, columns[column], operand)
    order = np.lexsort((value if kind == "min" else ~value, groups))
    first = join.group_starts(groups[order])
    return RowSet(rows.packing, np.sort(rows.keys[order[first]]))


def _group_numbers(columns: Sequence[Column], column: int, size: int) -> Column:
    """Equal numbers for rows of equal groups."""
    others = [c for index, c in enumerate(columns) if index != column]
    if not others:
        return np.zeros(size, np.int64)
    numbers = np.zeros(size, np.int64)
    for other in others:
        # Dense codes, folded column by column: never more than `size` numbers.
        _, codes = np.unique(other, return_inverse=True)
        _, numbers = np.unique(numbers * (int(codes.max()) + 1) + codes, return_inverse=True)
    return numbers


def first_per_group(rows: RowSet, column: int) -> RowSet:
    """The first row of each group."""
    if len(rows) < 2:
        return rows
    columns = rows.columns()
    groups = _group_numbers(columns, column, len(rows))
    order = np.argsort(groups, kind="stable")
    return RowSet(rows.packing, np.sort(rows.keys[order[join.group_starts(groups[order])]]))


def improvement(
    values: Values, rows: RowSet, version: Trace, kind: str, operand: str, column: int
) -> tuple[RowSet, RowSet]:
    """The best rows that beat what `version` has for their groups, and the rows of `version` they replace."""
    best = best_per_group(values, rows, kind, operand, column)
    if not len(best) or not len(version):
        return best, RowSet(version.packing, np.empty(0, version.packing.dtype))
    order = group_order(len(version.packing.fields), column)
    version = version.indexed((order,))
    at, keys = _rows_of_groups(best, version, order)
    layout = version.packing.reordered(order)
    both = np.concatenate([layout.unpack(keys, column), best.columns()[column][at]])
    held, offered = np.split(reduce.ranked(values, both, operand), [at.size])
    better = offered < held if kind == "min" else offered > held
    keep = np.ones(len(best), np.bool_)
    keep[at[~better]] = False
    replaced = version.packing.pack(layout.columns(keys[better]), int(better.sum()))
    replaced.sort()
    return RowSet(best.packing, best.keys[keep]), RowSet(version.packing, replaced)


def _rows_of_groups(rows: RowSet, version: Trace, order: Order) -> tuple[join.Rows, Keys]:
    """For rows of which each has its own group, the row number and the key of what `version` has for that group."""
    columns = rows.columns()
    prefix = [columns[c] for c in order[:-1]]
    inside = np.ones(len(rows), np.bool_)
    for c, values in zip(order, prefix, strict=False):
        field = version.fields[c]
        inside &= (values >= field.lo) & (values <= field.hi)
    at = np.flatnonzero(inside)
    layout: Packing = version.packing.reordered(order)
    low, high = layout.bounds([values[at] for values in prefix], at.size)
    found_rows, found_keys = [np.empty(0, np.intp)], [np.empty(0, layout.dtype)]
    for run in version.orders[order]:
        hit, keys = run.expand(*run.ranges(low, high))
        if version.dead is not None:
            alive = version.dead.count(order, keys, keys, exact=True) == 0
            hit, keys = hit[alive], keys[alive]
        found_rows.append(at[hit])
        found_keys.append(keys)
    return np.concatenate(found_rows), np.concatenate(found_keys)


def group_rows(rows: RowSet, version: Trace, column: int) -> RowSet:
    """The rows of `version` in the groups of `rows`, which has one row per group."""
    order = group_order(len(version.packing.fields), column)
    version = version.indexed((order,))
    _, keys = _rows_of_groups(rows, version, order)
    found = version.packing.pack(version.packing.reordered(order).columns(keys), keys.size)
    return RowSet(version.packing, join.distinct(found.copy()))


def totals(layout: Packing, keys: Keys, weights: join.Weights, kind: str, operand: str, column: int) -> RowSet:
    """`sum` or `count` per group of distinct rows with multiplicities."""
    columns = layout.columns(keys)
    if not keys.size:
        return RowSet(layout, keys)
    groups = _group_numbers(columns, column, keys.size)
    order = np.argsort(groups, kind="stable")
    starts = join.group_starts(groups[order])
    if kind == "count":
        result = join.added(weights[order], starts)
    else:
        counts = np.diff(starts, append=keys.size)
        result = reduce.weighted_sums(operand, reduce.Groups(columns[column][order], starts, counts), weights[order])
    grouped = [c[order[starts]] if index != column else result for index, c in enumerate(columns)]
    target = packing(fields_covering(grouped, layout.fields), layout.order)
    return RowSet(target, join.distinct(target.pack(grouped, starts.size).copy()))
