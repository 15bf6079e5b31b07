"""Tables of Apache Iceberg: a version is a snapshot, and what lies between two is in files that only one of them has.

A file counts together with the files that say which of its rows are deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sempre.analysis.model import Relation, Type
from sempre.files.directive_options import Endpoint
from sempre.files.sources.lake import TableColumns, need, table_location, told
from sempre.files.sources.source import RowChanges, SourceVersion

METADATA = ".metadata.json"


def open_iceberg(endpoint: Endpoint, folder: Path) -> Any:
    """The table of a catalog, or the one that a metadata file describes, which is only read."""
    if endpoint.table.endswith(METADATA):
        tables = need("pyiceberg", "iceberg", lambda: __import__("pyiceberg.table", fromlist=["StaticTable"]))
        with told(endpoint.table, "open"):
            return tables.StaticTable.from_metadata(table_location(endpoint, folder))
    catalogs = need("pyiceberg", "iceberg", lambda: __import__("pyiceberg.catalog", fromlist=["load_catalog"]))
    options = dict(endpoint.catalog)
    with told(endpoint.table, "open"):
        return catalogs.load_catalog(options.pop("catalog", None), **options).load_table(endpoint.table)


class IcebergSource:
    """A table of Apache Iceberg."""

    def __init__(self, endpoint: Endpoint, relation: Relation, types: Mapping[str, Type], folder: Path) -> None:
        self.why = ""
        self._endpoint = endpoint
        self._folder = folder
        self._columns = TableColumns(endpoint, relation, types, endpoint.table)
        self._table: Any = None

    @property
    def place(self) -> str:
        where = table_location(self._endpoint, self._folder) if self._endpoint.table.endswith(METADATA) else ""
        return f"{where} {self._endpoint}".strip()

    def version(self, known: SourceVersion | None) -> SourceVersion:
        self._table = open_iceberg(self._endpoint, self._folder)
        snapshot, schema = self._table.current_snapshot(), self._table.schema()
        wanted = self._columns.wanted(list(schema.column_names))
        return {
            "table": str(self._table.metadata.table_uuid),
            "snapshot": None if snapshot is None else snapshot.snapshot_id,
            # A column that was dropped and added again has another number, and other values in the same files.
            "columns": [schema.find_field(name).field_id for name in wanted],
        }

    def rows(self, version: SourceVersion) -> pa.Table:
        with told(self._endpoint.table, "read"):
            return self._read(list(self._tasks(version["snapshot"]).values()))

    def changes(self, since: SourceVersion, until: SourceVersion) -> RowChanges | None:
        if since["table"] != until["table"] or since.get("columns") != until["columns"]:
            self.why = "it is another table under the name, or has other columns"
            return None
        if not self._has(since["snapshot"]):
            self.why = f"snapshot {since['snapshot']} has expired"
            return None
        try:
            old, new = self._tasks(since["snapshot"]), self._tasks(until["snapshot"])
            came, went = [new[key] for key in new.keys() - old.keys()], [old[key] for key in old.keys() - new.keys()]
            if _rows_in(came) + _rows_in(went) > _rows_in(list(new.values())):
                self.why = "most files are new"
                return None
            return RowChanges(self._read(came), self._read(went))
        except Exception:  # noqa: BLE001  # the old snapshot is expired: then all of the new one is read
            self.why = f"the files of snapshot {since['snapshot']} cannot be read"
            return None

    def _has(self, snapshot: int | None) -> bool:
        """Whether a snapshot can be read: of one that is expired, the package finds no files, and says nothing."""
        return snapshot is None or self._table.snapshot_by_id(snapshot) is not None

    def _tasks(self, snapshot: int | None) -> dict[tuple[str, ...], Any]:
        """What is read for a snapshot: each file with those that say what is deleted in it."""
        if snapshot is None:
            return {}
        tasks = self._table.scan(snapshot_id=snapshot).plan_files()
        return {(each.file.file_path, *sorted(gone.file_path for gone in each.delete_files)): each for each in tasks}

    def _read(self, tasks: list[Any]) -> pa.Table:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        table = self._table
        wanted = table.schema().select(*self._columns.wanted(list(table.schema().column_names)))
        return self._columns.taken(ArrowScan(table.metadata, table.io, wanted, AlwaysTrue()).to_table(tasks))


def _rows_in(tasks: list[Any]) -> int:
    return sum(task.file.record_count for task in tasks)
