"""Asks for rows of a table in an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from sempre.analysis.model import Relation, Type
from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.directive_options import Endpoint
from sempre.files.locations import path_inside
from sempre.files.read import existing
from sempre.files.sources.queried_source import Condition
from sempre.files.sqlite_tables import quoted, read_sqlite


class SqliteReader:
    """A table of which one column is followed."""

    def __init__(self, endpoint: Endpoint, relation: Relation, types: Mapping[str, Type], folder: Path) -> None:
        self._endpoint = endpoint
        self._relation = relation
        self._types = types
        self._file = path_inside(folder, endpoint.filename)

    @property
    def place(self) -> str:
        return f"{self._file.absolute()} {self._endpoint}"

    @property
    def _path(self) -> Path:
        return existing(self._file, self._relation)

    def rows(self, conditions: Sequence[Condition] = ()) -> pa.Table:
        said = " AND ".join(f"{quoted(self._endpoint.follow)} {sign} ?" for sign, _ in conditions)
        values = [value for _, value in conditions]
        return read_sqlite(
            self._path, self._relation, self._endpoint, self._types, f" WHERE {said}" if said else "", values
        )

    def last(self) -> Any:
        found = self._asked(f"SELECT max({quoted(self._endpoint.follow)}) FROM {quoted(self._endpoint.table)}")
        if isinstance(found, bytes):
            message = (
                f"column `{self._endpoint.follow}` of `{self._endpoint.table}` holds bytes, and cannot be followed"
            )
            raise DataError(Diagnostic("E509", message, hint="Follow a column of numbers or of texts."))
        return found

    def has_nulls(self) -> bool:
        column, table = quoted(self._endpoint.follow), quoted(self._endpoint.table)
        return bool(self._asked(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE {column} IS NULL)"))

    def _asked(self, statement: str) -> Any:
        path = self._path
        try:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
                names = [name for (name,) in database.execute(
                    "SELECT name FROM pragma_table_xinfo(?)", (self._endpoint.table,)
                )]  # fmt: skip
                # SQLite takes the name of a column that is not there for a text.
                if names and self._endpoint.follow.lower() not in map(str.lower, names):
                    message = f"table `{self._endpoint.table}` has no column `{self._endpoint.follow}` to follow"
                    hint = f"It has {', '.join(names)}."
                    raise DataError(Diagnostic("E502", message, Span(str(path), 0, 0, 0, 0), hint=hint))
                return database.execute(statement).fetchone()[0]
        except sqlite3.Error as error:
            message = f"cannot read `{path}` as SQLite: {str(error).lower()}"
            raise DataError(Diagnostic("E506", message, Span(str(path), 0, 0, 0, 0))) from None
