"""Tables of Delta Lake: a version is a number, and what lies between two is in the change feed or in the files.

Where the table keeps a change feed, that is read. Otherwise, and where the feed does not reach back, the files that
only one of the versions has are read: rows that were merely moved are in both and cancel out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sempre.analysis.model import Relation, Type
from sempre.files.directive_options import Endpoint
from sempre.files.sources.lake import TableColumns, need, plain, table_location, told
from sempre.files.sources.source import RowChanges, SourceVersion

CAME = ("insert", "update_postimage")
WENT = ("delete", "update_preimage")
OPERATION = "_change_type"
TIDYING = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES")


class DeltaSource:
    """A table of Delta Lake."""

    def __init__(self, endpoint: Endpoint, relation: Relation, types: Mapping[str, Type], folder: Path) -> None:
        self._location = table_location(endpoint, folder)
        self._columns = TableColumns(endpoint, relation, types, endpoint.table)
        self.why = ""
        self._endpoint = endpoint
        self._opened: dict[int | None, Any] = {}

    @property
    def place(self) -> str:
        return f"{self._location} {self._endpoint}"

    def _table(self, version: int | None = None) -> Any:
        if version not in self._opened:
            deltalake = need("deltalake", "delta", lambda: __import__("deltalake"))
            with told(self._endpoint.table, "open"):
                table = deltalake.DeltaTable(self._location, version=version)
            self._opened[version] = self._opened[table.version()] = table
        return self._opened[version]

    def version(self, known: SourceVersion | None) -> SourceVersion:
        self._opened.clear()
        table = self._table()
        return {"table": table.metadata().id, "version": table.version()}

    def rows(self, version: SourceVersion) -> pa.Table:
        table = self._table(version["version"])
        with told(self._endpoint.table, "read"):
            try:
                dataset = _dataset(table)
            except Exception:  # noqa: BLE001  # features that only the package's own engine reads
                return self._columns.taken(self._queried(table))
            return self._columns.taken(_of_dataset(dataset, self._columns))

    def _queried(self, table: Any) -> pa.Table:
        deltalake = need("deltalake", "delta", lambda: __import__("deltalake"))
        wanted = ", ".join(f'"{name}"' for name in self._columns.wanted([each.name for each in table.schema().fields]))
        return pa.table(deltalake.QueryBuilder().register("source", table).execute(f"SELECT {wanted} FROM source"))

    def changes(self, since: SourceVersion, until: SourceVersion) -> RowChanges | None:
        if since["table"] != until["table"] or since["version"] > until["version"]:
            self.why = "it is another table under the name, or a copy of an earlier one"
            return None
        between = since["version"], until["version"]
        return self._tidied(*between) or self._fed(*between) or self._by_files(*between)

    def _tidied(self, since: int, until: int) -> RowChanges | None:
        """Nothing, where the table was only put in order: that moves all rows, and changes none."""
        try:
            done = [each for each in self._table(until).history(until - since) if each["version"] > since]
            if len(done) != until - since or any(each["operation"] not in TIDYING for each in done):
                return None
            table = self._table(until)
            nothing = pa.schema(table.schema().to_arrow()).empty_table()
            nothing = nothing.select(self._columns.wanted(nothing.column_names))
        except Exception:  # noqa: BLE001  # nothing that must be known
            return None
        return RowChanges(self._columns.taken(nothing), self._columns.taken(nothing))

    def _fed(self, since: int, until: int) -> RowChanges | None:
        """What the change feed says; None where there is none, or not of all of these versions."""
        table = self._table(until)
        if table.metadata().configuration.get("delta.enableChangeDataFeed", "").lower() != "true":
            self.why = "the table keeps no change feed"
            return None
        wanted = self._columns.wanted([field.name for field in table.schema().fields])
        try:
            feed = table.load_cdf(since + 1, until, columns=[*wanted, OPERATION])
            rows = plain(pa.table(feed))
        except Exception:  # noqa: BLE001  # the feed began later, or a vacuum took files of it away: files may do
            self.why = f"the change feed cannot be read from version {since + 1} on"
            return None
        return self._sides(rows.select(wanted), rows.column(OPERATION))

    def _sides(self, rows: pa.Table, operations: Any) -> RowChanges:
        plus, minus = (rows.filter(pc.is_in(operations, pa.array(names))) for names in (CAME, WENT))
        return RowChanges(self._columns.taken(plus), self._columns.taken(minus))

    def _by_files(self, since: int, until: int) -> RowChanges | None:
        """The rows of the files that one of the versions has and the other has not."""
        try:
            before, after = (_dataset(self._table(version)) for version in (since, until))
            old, new = ({piece.path: piece for piece in each.get_fragments()} for each in (before, after))
            came, went = (
                [new[path] for path in new.keys() - old.keys()],
                [old[path] for path in old.keys() - new.keys()],
            )
            changed, whole = (sum(piece.count_rows() for piece in pieces) for pieces in (came + went, new.values()))
            if changed > whole:
                self.why += ", and most files are new"
                return None
            plus, minus = (
                _of_dataset(_only(after, came), self._columns),
                _of_dataset(_only(before, went), self._columns),
            )
        except Exception:  # noqa: BLE001  # the old version cannot be read any more: then all of the new one is
            self.why += f", and the files of version {since} cannot be told or read"
            return None
        return RowChanges(self._columns.taken(plus), self._columns.taken(minus))


def _dataset(table: Any) -> Any:
    """The table as a dataset of its files, with the values of partitions."""
    return table.to_pyarrow_dataset()


def _only(dataset: Any, pieces: list[Any]) -> Any:
    """The dataset with some of its files."""
    from pyarrow import dataset as datasets

    return datasets.FileSystemDataset(pieces, dataset.schema, datasets.ParquetFileFormat(), dataset.filesystem)


def _of_dataset(dataset: Any, columns: TableColumns) -> pa.Table:
    return dataset.to_table(columns=columns.wanted(dataset.schema.names))
