"""Tables of Apache Iceberg as targets. The epoch is among the properties of a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from sempre.diagnostics import DataError, Diagnostic
from sempre.files.directive_options import Endpoint
from sempre.files.sources.iceberg_source import METADATA
from sempre.files.sources.lake import need, told

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
        """Removing single rows takes the format a pass over the table, as replacing it does."""
        if removed.num_rows:
            return False
        self.append(added, publisher, epoch)
        return True


def _marks(publisher: str, epoch: int) -> dict[str, str]:
    return {PUBLISHER: publisher, EPOCH: str(epoch)}
