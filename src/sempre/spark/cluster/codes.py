"""A few rows of the cluster's as those of the kernel, and back, without a number of the driver's.

Whatever is done with few rows is done by the kernel's own code, so that it cannot differ. Codes are of one `Coder`
alone, and go with it: nothing is numbered for good because an epoch looked at it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sempre.kernel import join
from sempre.kernel.layout import EMPTY, Column, fields_covering, packing
from sempre.kernel.trace import RowSet, Trace
from sempre.kernel.values import Values
from sempre.spark.cluster.column_types import Kinds, from_arrow, names_of, table_of, to_arrow


def rows_of(columns: Sequence[Column], size: int) -> RowSet:
    """Distinct rows from columns of codes."""
    fields = fields_covering(columns, (EMPTY,) * len(columns))
    layout = packing(fields, tuple(range(len(fields))))
    return RowSet(layout, join.distinct(layout.pack(columns, size).copy()))


class Coder:
    """Codes for plain values."""

    def __init__(self, values: Values | None = None) -> None:
        self.values = values or Values()

    def rows(self, table: pa.Table, kinds: Kinds, arity: int) -> RowSet:
        """The rows of a table."""
        names = names_of(kinds)[:arity]
        columns = [from_arrow(self.values, table.column(at), kind) for at, kind in zip(names, kinds, strict=False)]
        return rows_of(columns, table.num_rows)

    def table(self, rows: RowSet, kinds: Kinds, arity: int) -> pa.Table:
        """Rows as a table."""
        return table_of(self.values, rows.columns(), len(rows), kinds, arity)

    def plain(self, column: Column, kinds: Kinds, at: int) -> pa.Array:
        """Values of a column."""
        return to_arrow(self.values, column, kinds[at])


def left_of(rows: RowSet, gone: RowSet) -> RowSet:
    """The rows that are not gone."""
    if not len(rows) or not len(gone):
        return rows
    return RowSet(rows.packing, rows.keys[~Trace.of(gone).contains(rows)])


def shared(rows: RowSet, others: RowSet) -> RowSet:
    """The rows that are among others."""
    if not len(rows) or not len(others):
        return RowSet(rows.packing, rows.keys[:0])
    return RowSet(rows.packing, rows.keys[Trace.of(others).contains(rows)])


def without(table: pa.Table, gone: Sequence[pa.Table], kinds: Kinds, arity: int) -> pa.Table:
    """The rows of a table that are in no other."""
    coder = Coder()
    rows = coder.rows(table, kinds, arity)
    for other in gone:
        rows = left_of(rows, coder.rows(other, kinds, arity))
    return coder.table(rows, kinds, arity)
