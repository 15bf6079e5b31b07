"""Which worker has which row.

A row has a *home*: the worker that the hash of its value in the home column picks. There it is made distinct, counted
and looked for. Rows that plans look up by other columns have a copy for each such column, at the worker that the value
there picks. So an index is sharded by the first column it is looked up by, and every lookup has one worker to go to.
A small relation has one copy instead, with all rows at every worker: lookups there are taken wherever one is.

Where a value has more than its share of the rows, the copy that its column places has those rows at all workers, each
row at the one that the hash of the whole row picks. Lookups of that value go to all workers, and each finds a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sempre.analysis.model import Relation
from sempre.kernel.trace import Trace
from sempre.workers.framing import Column

Workers = NDArray[np.signedinteger[Any]]
# For so many workers, rows are looked through once for each.
FEW_WORKERS = 4

# The "column" of the copy that has all rows, at every worker.
EVERYWHERE = -1

_MIX = np.uint64(0x9E3779B97F4A7C15)


def owners(values: Column, workers: int) -> Workers:
    """The worker of each value."""
    if workers == 1:
        return np.zeros(values.size, np.intp)
    mixed = values.view(np.uint64) * _MIX
    mixed ^= mixed >> np.uint64(32)
    mixed *= _MIX
    return ((mixed >> np.uint64(40)) % np.uint64(workers)).astype(np.intp)


def placed_by(columns: Sequence[Column], column: int, common: Column, workers: int) -> Workers:
    """The worker of each row in the copy that a column places; rows of `common` values are split."""
    at = owners(columns[column], workers)
    if common.size:
        among = np.flatnonzero(np.isin(columns[column], common))
        whole = np.zeros(among.size, np.uint64)
        for each in columns:
            whole = (whole ^ each[among].view(np.uint64)) * _MIX
        at[among] = owners(whole.view(np.int64), workers)
    return at


def frequent_values(rows: Trace, column: int, least: int) -> tuple[Column, Column]:
    """The values of a column that at least so many rows have, and how many do, perhaps with some that have gone.

    In a run that is sorted by the column, a value with many rows is found by looking at a few.
    """
    order = next((order for order in rows.orders if order[:1] == (column,)), None)
    layout = None if order is None else rows.packing.reordered(order)
    if order is None or layout is None or not layout.narrow:
        return counted_values(rows.rows().columns()[column], least)
    shift, runs = layout.shifts[0], [run.keys for run in rows.orders[order] if run.size]
    step = max(1, -(-least // max(1, len(runs))))
    seen = [keys[step - 1 :: step] >> shift for keys in runs]
    values = np.unique(np.concatenate([np.empty(0, np.int64), *seen]))
    counts = np.zeros(values.size, np.int64)
    for keys in runs:
        counts += np.searchsorted(keys, (values + 1) << shift) - np.searchsorted(keys, values << shift)
    many = counts >= least
    return values[many] + layout.fields[column].lo, counts[many]


def counted_values(values: Column, least: int) -> tuple[Column, Column]:
    """The same of values in any order."""
    found, counts = np.unique(values, return_counts=True)
    many = counts >= least
    return found[many], counts[many]


def owner(value: int, workers: int) -> int:
    """The worker of one value."""
    return int(owners(np.array([value], np.int64), workers)[0])


def home_column(relation: Relation) -> int | None:
    """The column that says where a row is at home; None if all rows are with the first worker.

    With an aggregate in the head, rows of one group are at one place, so the aggregated column does not decide.
    """
    kept = None if relation.aggregate is None else relation.aggregate[1]
    return next((column for column in range(relation.arity) if column != kept), None)


def split(columns: Sequence[NDArray[Any]], at: Workers | None, workers: int) -> list[list[NDArray[Any]]]:
    """The rows for each worker; `at` None sends all to the first."""
    if at is None or workers == 1:
        nothing = [column[:0] for column in columns]
        return [list(columns), *([nothing] * (workers - 1))]
    if workers <= FEW_WORKERS:
        return [[column.take(rows) for column in columns] for rows in (np.flatnonzero(at == w) for w in range(workers))]
    order = np.argsort(at.astype(np.uint16), kind="stable")  # by their digits, which is quicker
    ends = np.cumsum(np.bincount(at, minlength=workers))
    sorted_columns = [column.take(order) for column in columns]
    starts = [0, *ends[:-1]]
    return [[column[start:stop] for column in sorted_columns] for start, stop in zip(starts, ends, strict=True)]
