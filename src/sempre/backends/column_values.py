"""The values that a column has, and which rows have one of them in a column of theirs."""

from __future__ import annotations

import numpy as np

from sempre.kernel import join
from sempre.kernel.layout import Column, span_of
from sempre.kernel.trace import RowSet, Trace

# Up to this many times as many places as values, a table of places is made: it answers without a search.
PLACES_PER_VALUE = 64
# Rows that a share is estimated from.
SHARE_ROWS = 1 << 14


def values_of(version: Trace, column: int) -> Column:
    """The different values of a column, in order."""
    rows = version.rows()
    return join.distinct(rows.packing.unpack(rows.keys, column).copy())


class ColumnValues:
    """The different values of a column, given once each and in order."""

    @staticmethod
    def of(version: Trace, column: int) -> ColumnValues:
        return ColumnValues(values_of(version, column))

    def __init__(self, values: Column) -> None:
        self._values = values
        self._least, most = span_of(self._values) if self._values.size else (0, -1)
        self._table: join.Mask | None = None
        if most - self._least < PLACES_PER_VALUE * self._values.size:
            self._table = np.zeros(most - self._least + 1, np.bool_)
            self._table[self._values - self._least] = True

    def having(self, rows: RowSet, column: int) -> RowSet:
        """The rows with one of the values in a column."""
        found = self._among(rows.packing.unpack(rows.keys, column))
        return rows if found.all() else RowSet(rows.packing, rows.keys[found])

    def share(self, version: Trace, column: int) -> float:
        """About what part of the rows of a version has one of the values in a column."""
        rows = version.rows()
        keys = rows.keys
        if keys.size > SHARE_ROWS:
            keys = keys[np.random.default_rng(0).choice(keys.size, SHARE_ROWS, replace=False, shuffle=False)]
        return float(self._among(rows.packing.unpack(keys, column)).mean()) if keys.size else 1.0

    def _among(self, column: Column) -> join.Mask:
        if not self._values.size:
            return np.zeros(column.size, np.bool_)
        if self._table is not None:
            inside: join.Mask = (column >= self._least) & (column <= self._least + self._table.size - 1)
            found: join.Mask = inside.copy()
            found[inside] = self._table[column[inside] - self._least]
            return found
        at = self._values.searchsorted(column)
        return np.asarray(self._values.take(at, mode="clip") == column)
