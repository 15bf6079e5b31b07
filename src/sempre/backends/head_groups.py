"""Aggregates in heads: one row per group, the best or the total of what was derived for it."""

from __future__ import annotations

import numpy as np

from sempre.kernel import join, reduce
from sempre.kernel.layout import Keys, Packing, fields_covering, packing
from sempre.kernel.trace import Order, RowSet, Trace
from sempre.kernel.values import Values


def group_order(arity: int, column: int) -> Order:
    """The order that has the rows of a group side by side: the aggregated column last."""
    return (*(c for c in range(arity) if c != column), column)


def best_per_group(values: Values, rows: RowSet, kind: str, operand: str, column: int) -> RowSet:
    """The row with the least (`min`) or greatest (`max`) value of each group."""
    if len(rows) < 2:
        return rows
    layout, keys = _side_by_side(rows, column)
    starts = _group_starts(layout, keys)
    value = reduce.ranked(values, layout.unpack(keys, column), operand)
    sizes = np.diff(starts, append=keys.size)
    best = (np.minimum if kind == "min" else np.maximum).reduceat(value, starts)
    # Rows of a group differ in this value, and in nothing else.
    return _brought_back(rows, layout, keys[value == best.repeat(sizes)])


def first_per_group(rows: RowSet, column: int) -> RowSet:
    """The first row of each group."""
    if len(rows) < 2:
        return rows
    layout, keys = _side_by_side(rows, column)
    return _brought_back(rows, layout, keys[_group_starts(layout, keys)])


def _side_by_side(rows: RowSet, column: int) -> tuple[Packing, Keys]:
    """The rows sorted by their groups: as they are, where the aggregated column is the last one anyway."""
    order = group_order(len(rows.packing.fields), column)
    layout = rows.packing.reordered(order)
    if order == rows.packing.order:
        return layout, rows.keys
    return layout, join.ordered(layout.pack(rows.columns(), len(rows)))


def _brought_back(rows: RowSet, layout: Packing, keys: Keys) -> RowSet:
    """Some of the rows, sorted as they were."""
    if layout.order == rows.packing.order:
        return RowSet(rows.packing, keys)
    return RowSet(rows.packing, join.ordered(rows.packing.pack(layout.columns(keys), keys.size)))


def _group_starts(layout: Packing, keys: Keys) -> join.Rows:
    """Where groups begin in keys that are sorted by them; the last column is the aggregated one."""
    if layout.narrow:
        return join.group_starts(keys >> layout.fields[layout.order[-1]].bits)
    fresh = np.zeros(keys.size, np.bool_)
    fresh[:1] = True
    for column in layout.order[:-1]:
        values = layout.unpack(keys, column)
        fresh[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(fresh)


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
    if not keys.size:
        return RowSet(layout, keys)
    grouped_by = layout.reordered(group_order(len(layout.fields), column))
    columns = layout.columns(keys)
    moved = grouped_by.pack(columns, keys.size)
    order = np.argsort(moved, kind="stable")
    starts = _group_starts(grouped_by, moved[order])
    if kind == "count":
        result = join.added(weights[order], starts)
    else:
        counts = np.diff(starts, append=keys.size)
        result = reduce.weighted_sums(operand, reduce.Groups(columns[column][order], starts, counts), weights[order])
    grouped = [c[order[starts]] if index != column else result for index, c in enumerate(columns)]
    target = packing(fields_covering(grouped, layout.fields), layout.order)
    return RowSet(target, join.distinct(target.pack(grouped, starts.size).copy()))
