"""Tables of SQLite files as targets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.directive_options import Endpoint
from sempre.files.locations import path_inside
from sempre.files.sqlite_tables import quoted
from sempre.files.targets.sql_target import SIDE, SqlTarget

STAGED = "temp.sempre_staged"
LOCK_SECONDS = 60  # how long another writer is waited for


def sqlite_target(endpoint: Endpoint, folder: Path) -> SqlTarget:
    """The table that an output names."""
    path = path_inside(folder, endpoint.filename)
    return SqlTarget(endpoint.table, quoted(endpoint.table), partial(_connected, path))


@contextmanager
def _connected(path: Path) -> Iterator[SqliteConnection]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)) as database:
            yield SqliteConnection(database)
            if database.in_transaction:
                database.execute("COMMIT")
    except (sqlite3.Error, OSError) as error:
        message = f"cannot write `{path}` as SQLite: {str(error).lower()}"
        raise DataError(Diagnostic("E512", message, Span(str(path), 0, 0, 0, 0))) from None


class SqliteConnection:
    """A connection; closing it without a commit undoes what was begun."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def quoted(self, name: str) -> str:
        return quoted(name)

    def columns(self, table: str) -> list[str] | None:
        found = self._database.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
        return [name for (name,) in found] or None

    def make(self, table: str, rows: pa.Table) -> None:
        self._database.execute(f"CREATE TABLE {quoted(table)} ({_declared(rows)})")

    def stage(self, rows: pa.Table) -> str:
        # Keys make deleting one pass over the table.
        self._database.execute(f"CREATE TABLE {STAGED} ({_declared(rows)})")
        marks = ", ".join("?" * rows.num_columns)
        for batch in rows.to_batches():
            values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            self._database.execute("BEGIN")
            self._database.executemany(f"INSERT INTO {STAGED} VALUES ({marks})", values)
            self._database.execute("COMMIT")
        keys = ", ".join(quoted(name) for name in rows.column_names if name != SIDE)
        self._database.execute(f"CREATE INDEX temp.sempre_keys ON {STAGED.removeprefix('temp.')} ({keys})")
        return STAGED

    def begin(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._database.execute(statement, values).rowcount

    def ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._database.execute(statement, values).fetchall()


def _declared(rows: pa.Table) -> str:
    types = {pa.int64(): "INTEGER", pa.float64(): "REAL"}
    return ", ".join(f"{quoted(field.name)} {types.get(field.type, 'TEXT')}" for field in rows.schema)
