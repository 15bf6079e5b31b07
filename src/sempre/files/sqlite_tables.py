"""Tables of SQLite files: what `IO=sqlite` reads and writes.

A relation is the table, or the view, of its name. Soufflé keeps texts in a table of their own and makes such views;
what is written here is one table for each relation, which reads the same.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from sempre.analysis.model import Kind, Relation, Type
from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.columns import schema_of
from sempre.files.directive_options import Endpoint
from sempre.files.encode import Rows, batches
from sempre.files.foreign import conform

# Which epoch of which store a table shows, for tables that stores publish to.
EPOCHS = "sempre_epochs"
_TYPES = {Kind.NUMBER: "INTEGER", Kind.UNSIGNED: "INTEGER", Kind.FLOAT: "REAL"}


def read_sqlite(
    path: Path,
    relation: Relation,
    endpoint: Endpoint,
    types: Mapping[str, Type],
    where: str = "",
    values: Sequence[object] = (),
) -> pa.Table:
    """The facts in a table of a file; columns go by name, or by place where their names are numbers.

    `where` is a condition on rows, with `values` for its question marks. The column that is followed may be beside
    those of the relation.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            _require(database, path, endpoint.table)
            cursor = database.execute(f"SELECT * FROM {quoted(endpoint.table)}{where}", values)
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _error("E506", f"cannot read `{path}` as SQLite: {str(error).lower()}", path) from None
    if len(names) == relation.arity and all(name.isdigit() for name in names):
        names = list(relation.columns)
    kinds = dict(zip(relation.columns, schema_of(relation).types, strict=True))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    arrays = [_column(list(column), name, kinds.get(name), path) for name, column in zip(names, columns, strict=True)]
    table = pa.Table.from_arrays(arrays, names=names)
    followed = endpoint.follow.lower()
    if followed and endpoint.taking.places is None and followed not in map(str.lower, relation.columns):
        table = table.select([name for name in names if name.lower() != followed])
    return conform(table, relation, str(path), types, values=endpoint.values, taking=endpoint.taking)


def _column(values: list[object], name: str, wanted: pa.DataType | None, path: Path) -> pa.Array:
    if not any(value is not None for value in values):
        return pa.array(values, wanted or pa.string())
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        message = f"column `{name}` holds values of several types"
        raise _error("E509", message, path, "Cast it to one type where the file is written.") from None


def _require(database: sqlite3.Connection, path: Path, table: str) -> None:
    """Raise unless the file has the table."""
    found = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
    if table.lower() not in map(str.lower, found):
        hint = f"It has {', '.join(f'`{name}`' for name in sorted(found)[:5])}." if found else "It has none."
        raise _error("E506", f"`{path}` has no table `{table}`", path, hint)


def write_sqlite(target: Path, copy: Path, rows: Rows, relation: Relation, endpoint: Endpoint) -> None:
    """Write a table into `copy`, which becomes the file `target`: its other tables stay."""
    if not copy.exists() and target.exists():
        shutil.copyfile(target, copy)
    table = quoted(endpoint.table)
    pairs = zip(relation.columns, relation.kinds, strict=True)
    columns = ", ".join(f"{quoted(name)} {_TYPES.get(kind, 'TEXT')}" for name, kind in pairs)
    marks = ", ".join("?" * relation.arity)
    try:
        with closing(sqlite3.connect(copy)) as database, database:
            known = "SELECT type FROM sqlite_master WHERE lower(name) = lower(?) AND type IN ('table', 'view')"
            for (kind,) in database.execute(known, (endpoint.table,)).fetchall():
                database.execute(f"DROP {kind} {table}")
            for _ in database.execute(known, (EPOCHS,)).fetchall():  # it shows no epoch of a store any more
                database.execute(f"DELETE FROM {EPOCHS} WHERE target = ?", (endpoint.table,))
            database.execute(f"CREATE TABLE {table} ({columns})")
            for batch in batches(rows):
                values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
                database.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
    except (sqlite3.Error, OverflowError) as error:
        raise _error("E512", f"cannot write `{target}` as SQLite: {str(error).lower()}", target) from None


def quoted(name: str) -> str:
    """The name of a table or a column as statements have it."""
    return '"' + name.replace('"', '""') + '"'


def _error(code: str, message: str, path: Path, hint: str = "") -> DataError:
    return DataError(Diagnostic(code, message, Span(str(path), 0, 0, 0, 0), hint=hint))
