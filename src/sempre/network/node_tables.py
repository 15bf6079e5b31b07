"""The tables of a node: rows in a dict, and dict indexes on the columns that rules look rows up by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = tuple[Any, ...]


class NodeTable:
    """The rows of one relation at one node, each with what the algorithm notes about it.

    An index on one column has the bare value as its key, one on several a tuple. Rows keep the order of insertion, so
    that a run is the same every time.
    """

    __slots__ = ("_plans", "indexes", "rows")

    def __init__(self, indexes: Iterable[tuple[int, ...]]) -> None:
        self.rows: dict[Row, Any] = {}
        self.indexes: dict[tuple[int, ...], dict[Any, dict[Row, None]]] = {columns: {} for columns in indexes}
        self._plans = [
            (columns[0] if len(columns) == 1 else None, columns, index) for columns, index in self.indexes.items()
        ]

    def add(self, row: Row, note: Any = None) -> None:
        """Add a row, or replace its note."""
        if row not in self.rows:
            for single, columns, index in self._plans:
                key = row[single] if single is not None else tuple(row[at] for at in columns)
                found = index.get(key)
                if found is None:
                    index[key] = {row: None}
                else:
                    found[row] = None
        self.rows[row] = note

    def remove(self, row: Row) -> None:
        """Remove a row that is there."""
        del self.rows[row]
        for single, columns, index in self._plans:
            key = row[single] if single is not None else tuple(row[at] for at in columns)
            found = index[key]
            del found[row]
            if not found:
                del index[key]
