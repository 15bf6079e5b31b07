"""Tables of Apache Iceberg as targets. The epoch is among the properties of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sempre.diagnostics import DataError, Diagnostic
from sempre.files.directive_options import Endpoint
from sempre.files.sources.iceberg_source import METADATA
from sempre.files.sources.lake import need, told

# Rows that are removed one by one in a commit, and how many of them one condition names by several columns.
MOST_REMOVED, MOST_TERMS = 1_000, 200
PUBLISHER, EPOCH = "sempre.publisher", "sempre.epoch"


class IcebergTarget:
    """A table in a catalog of Apache Iceberg."""

    def __init__(self, endpoint: Endpoint, folder: Path) -> None:
        if endpoint.table.endswith(METADATA):
            hint = "Name a table of a catalog: table=db.name, catalog=NAME or uri=..., warehouse=..."
            raise DataError(
                Diagnostic("E512", f"`{endpoint.table}` is one version of a table, and only read", hint=hint)
            )
        self._name = endpoint.table
        catalogs = need("pyiceberg", "iceberg", lambda: __import__("pyiceberg.catalog", fromlist=["load_catalog"]))
        options = dict(endpoint.catalog)
        with told(self._name, "open"):
            self._catalog = catalogs.load_catalog(options.pop("catalog", None), **options)

    def _table(self) -> Any:
        with told(self._name, "open"):
            return self._catalog.load_table(self._name) if self._catalog.table_exists(self._name) else None

    def epoch(self, publisher: str) -> int | None:
        table = self._table()
        snapshot = None if table is None else table.current_snapshot()
        if snapshot is None or snapshot.summary is None:
            return None
        known = snapshot.summary.additional_properties
        return int(known[EPOCH]) if known.get(PUBLISHER) == publisher else None

    def _made(self, rows: pa.Table) -> Any:
        table = self._table()
        if table is None:
            with told(self._name, "make"):
                table = self._catalog.create_table(self._name, schema=rows.schema)
        return table

    def replace(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        table = self._made(rows)
        with told(self._name, "write"):
            table.overwrite(rows, snapshot_properties=_marks(publisher, epoch))

    def append(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        table = self._made(rows)
        with told(self._name, "write"):
            table.append(rows, snapshot_properties=_marks(publisher, epoch))

    def change(self, added: pa.Table, removed: pa.Table, publisher: str, epoch: int) -> bool:
        """Files with rows that go are written again; where these are many, replacing the state is no more work."""
        if removed.num_rows > MOST_REMOVED:
            return False
        table = self._made(added)
        with told(self._name, "write"):
            _changed(table, added, removed, removed.column_names, _marks(publisher, epoch))
        return True


def merge_into_table(table: Any, added: pa.Table, gone: pa.Table, keys: Sequence[str]) -> None:
    """Merge rows into a table that is open, in one commit: each replaces the rows with its key, others go."""
    with told(".".join(map(str, table.name())), "write"):
        met = pa.concat_tables([added, gone]).select(list(keys))
        _changed(table.refresh(), added, met, keys, {})


def _changed(table: Any, added: pa.Table, removed: pa.Table, keys: Sequence[str], marks: Mapping[str, str]) -> None:
    """Remove the rows with some keys and add others, in one commit; without either, the marks are a commit, too."""
    with table.transaction() as transaction:
        for rows in _slices(removed.select(list(keys))):
            transaction.delete(_matching(rows), snapshot_properties=dict(marks))
        transaction.append(added, snapshot_properties=dict(marks))


def _slices(rows: pa.Table) -> Iterator[pa.Table]:
    size = MOST_REMOVED if rows.num_columns == 1 else MOST_TERMS
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def _matching(rows: pa.Table) -> Any:
    """The condition that a row of a table is one of some rows."""
    from pyiceberg import expressions

    make: Any = expressions  # whose classes take arguments that their types do not tell of
    names = rows.column_names
    if len(names) == 1:
        return make.In(names[0], rows.column(0).to_pylist())
    terms = [make.And(*(make.EqualTo(name, row[name]) for name in names)) for row in rows.to_pylist()]
    return terms[0] if len(terms) == 1 else make.Or(*terms)


def _marks(publisher: str, epoch: int) -> dict[str, str]:
    return {PUBLISHER: publisher, EPOCH: str(epoch)}
