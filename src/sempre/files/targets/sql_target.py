"""Tables of databases as targets: rows and epoch change in one transaction.

The epoch is in a table of its own, `sempre_epochs`, with a row for every table that is published to. What changed is
put into a staging table first, so that one statement deletes and one inserts, whatever the database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pyarrow as pa

from sempre.diagnostics import DataError, Diagnostic
from sempre.files.sqlite_tables import EPOCHS

SIDE = "_sempre_side"
REMOVED, ADDED = 0, 1


class SqlConnection(Protocol):
    """A connection to a database. Leaving its context commits what came after `begin`, or undoes it on an error."""

    def quoted(self, name: str) -> str:
        """The name of a column or table as it is written in a statement."""
        ...

    def columns(self, table: str) -> list[str] | None:
        """The columns of a table; None if it is not there. Asked before `begin`."""
        ...

    def make(self, table: str, rows: pa.Table) -> None:
        """Make a table for such rows."""
        ...

    def stage(self, rows: pa.Table) -> str:
        """Put rows into a table that is nobody else's; its name as statements have it. Before `begin`."""
        ...

    def begin(self) -> None: ...

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; how many rows it changed."""
        ...

    def ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...


class SqlTarget:
    """A table of a database; `written` is its name as statements have it, and `table` as its user does."""

    def __init__(self, table: str, written: str, connect: Callable[[], AbstractContextManager[SqlConnection]]) -> None:
        self._table = table
        self._written = written
        self._connect = connect

    def epoch(self, publisher: str) -> int | None:
        with self._connect() as connection:
            if connection.columns(self._table) is None or connection.columns(EPOCHS) is None:
                return None
            found = connection.ask(f"SELECT publisher, epoch FROM {EPOCHS} WHERE target = ?", [self._table])
        return next((int(epoch) for owner, epoch in found if owner == publisher), None)

    def replace(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        with self._connect() as connection:
            self._fit(connection, rows)
            staged = self._staged(connection, rows.slice(0, 0), rows)
            connection.begin()
            connection.run(f"DELETE FROM {self._written}")
            self._insert(connection, staged, rows)
            self._mark(connection, publisher, epoch)

    def append(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        with self._connect() as connection:
            self._fit(connection, rows)
            staged = self._staged(connection, rows.slice(0, 0), rows)
            connection.begin()
            self._insert(connection, staged, rows)
            self._mark(connection, publisher, epoch)

    def change(self, added: pa.Table, removed: pa.Table, publisher: str, epoch: int) -> bool:
        """False where the table has not exactly the rows that are to go: then somebody else has written to it."""
        try:
            with self._connect() as connection:
                self._fit(connection, added)
                staged = self._staged(connection, removed, added)
                connection.begin()
                if self._delete(connection, staged, removed) != removed.num_rows:
                    raise _OtherRows
                self._insert(connection, staged, added)
                self._mark(connection, publisher, epoch)
        except _OtherRows:
            return False
        return True

    def _fit(self, connection: SqlConnection, rows: pa.Table) -> None:
        """Make what is not there; raises where the table has not the columns of the rows."""
        if connection.columns(EPOCHS) is None:
            connection.run(
                f"CREATE TABLE {EPOCHS} (target VARCHAR(255) NOT NULL PRIMARY KEY, "
                "publisher VARCHAR(64) NOT NULL, epoch BIGINT NOT NULL)"
            )
        there = connection.columns(self._table)
        if there is None:
            connection.make(self._table, rows)
            return
        lacking = [name for name in rows.column_names if name.lower() not in map(str.lower, there)]
        if lacking:
            message = f"table `{self._table}` has no column `{lacking[0]}`: it has {', '.join(there)}"
            hint = "Name another table, or drop that one: it is made anew with the columns of the output."
            raise DataError(Diagnostic("E512", message, hint=hint))

    def _staged(self, connection: SqlConnection, removed: pa.Table, added: pa.Table) -> str:
        """The staging table of what changed; none where nothing did."""
        return connection.stage(_sided(removed, added)) if removed.num_rows or added.num_rows else ""

    def _insert(self, connection: SqlConnection, staged: str, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        names = ", ".join(map(connection.quoted, rows.column_names))
        side = connection.quoted(SIDE)
        connection.run(f"INSERT INTO {self._written} ({names}) SELECT {names} FROM {staged} WHERE {side} = {ADDED}")

    def _delete(self, connection: SqlConnection, staged: str, rows: pa.Table) -> int:
        if not rows.num_rows:
            return 0
        quoted = [connection.quoted(name) for name in rows.column_names]
        same = " AND ".join(f"{staged}.{name} = {self._written}.{name}" for name in quoted)
        side = connection.quoted(SIDE)
        return connection.run(
            f"DELETE FROM {self._written} WHERE EXISTS "
            f"(SELECT 1 FROM {staged} WHERE {staged}.{side} = {REMOVED} AND {same})"
        )

    def _mark(self, connection: SqlConnection, publisher: str, epoch: int) -> None:
        connection.run(f"DELETE FROM {EPOCHS} WHERE target = ?", [self._table])
        connection.run(
            f"INSERT INTO {EPOCHS} (target, publisher, epoch) VALUES (?, ?, ?)", [self._table, publisher, epoch]
        )


class _OtherRows(Exception):
    """The table has not the rows that are to go."""


def _sided(removed: pa.Table, added: pa.Table) -> pa.Table:
    """The rows of both sides, each with its side."""
    field = pa.field(SIDE, pa.int64(), nullable=False)
    sides = [
        rows.append_column(field, pa.repeat(pa.scalar(side, pa.int64()), rows.num_rows))
        for side, rows in ((REMOVED, removed), (ADDED, added))
    ]
    return pa.concat_tables(sides)
