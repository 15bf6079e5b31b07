"""Tables of Delta Lake as targets. The epoch is a transaction of an application, as the format has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sempre.diagnostics import DataError, Diagnostic
from sempre.files.directive_options import Endpoint
from sempre.files.sources.lake import need, table_location, told

SIDE = "_sempre_side"


class DeltaTarget:
    """A table of Delta Lake."""

    def __init__(self, endpoint: Endpoint, folder: Path) -> None:
        self._place = endpoint.table
        self._location = table_location(endpoint, folder)
        self._delta = need("deltalake", "delta", lambda: __import__("deltalake"))

    def _table(self) -> Any:
        with told(self._place, "open"):
            there = self._delta.DeltaTable.is_deltatable(self._location)
            return self._delta.DeltaTable(self._location) if there else None

    def epoch(self, publisher: str) -> int | None:
        table = self._table()
        return None if table is None else table.transaction_version(publisher)

    def _marked(self, publisher: str, epoch: int) -> Any:
        return self._delta.CommitProperties(app_transactions=[self._delta.Transaction(publisher, epoch)])

    def replace(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        self._write(rows, "overwrite", publisher, epoch)

    def append(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        self._write(rows, "append", publisher, epoch)

    def _write(self, rows: pa.Table, mode: str, publisher: str, epoch: int) -> None:
        with told(self._place, "write"):
            self._delta.write_deltalake(
                self._location, rows, mode=mode, commit_properties=self._marked(publisher, epoch)
            )

    def change(self, added: pa.Table, removed: pa.Table, publisher: str, epoch: int) -> bool:
        if not removed.num_rows:
            self.append(added, publisher, epoch)
            return True
        with told(self._place, "write"):
            _merged(self._table(), added, removed, added.column_names, self._marked(publisher, epoch))
        return True


def merge_keyed(place: Any, added: pa.Table, removed: pa.Table, keys: Sequence[str] | None) -> None:
    """Merge changes into a table, in one commit: rows of it are named by `keys`, by default by all columns.

    `place` is the path or URL of a table of Delta Lake, or an open table of `deltalake` or `pyiceberg`.
    """
    is_iceberg = type(place).__module__.startswith("pyiceberg.")
    with told(_shown(place), "write"):  # the formats have no unsigned numbers
        schema = pa.schema([_signed(field) for field in added.schema])
        added, removed = added.cast(schema), removed.cast(schema)
    names = list(keys or added.column_names)
    unknown = [name for name in names if name not in added.column_names]
    if unknown:
        message = f"`{unknown[0]}` is no column of the relation: it has {', '.join(added.column_names)}"
        raise DataError(Diagnostic("E502", message))
    twice = added.group_by(names).aggregate([([], "count_all")]).filter(pc.field("count_all") > 1)
    if twice.num_rows:
        shown = ", ".join(f"{name}={twice.column(name)[0].as_py()!r}" for name in names)
        hint = "Name more columns in keys=, so that a key is that of one row."
        raise DataError(Diagnostic("E512", f"several rows were added with the key {shown}", hint=hint))
    # A row with the key of one that was added is replaced, not removed.
    gone = removed.join(added.select(names), names, join_type="left anti").select(added.column_names).cast(added.schema)
    if not (added.num_rows or gone.num_rows):
        return
    if is_iceberg:
        from sempre.files.targets.iceberg_target import merge_into_table

        merge_into_table(place, added, gone, names)
        return
    delta = need("deltalake", "delta", lambda: __import__("deltalake"))
    with told(_shown(place), "write"):
        table = place if isinstance(place, delta.DeltaTable) else delta.DeltaTable(str(place))
        table.update_incremental()  # one that was opened earlier does not know what was written since
        _merged(table, added, gone, names, None)


def _shown(place: Any) -> str:
    """A table in messages."""
    if isinstance(place, str | Path):
        return str(place)
    named = place.name() if hasattr(place, "name") else place.table_uri
    return ".".join(map(str, named)) if isinstance(named, tuple) else str(named)


def _signed(field: pa.Field) -> pa.Field:
    return pa.field(field.name, pa.int64() if field.type == pa.uint64() else field.type)


def _merged(table: Any, added: pa.Table, removed: pa.Table, keys: Sequence[str], properties: Any) -> None:
    """Add, replace and remove rows of a table, in one commit."""
    columns = added.column_names
    sides = [
        rows.append_column(SIDE, pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows))
        for number, rows in enumerate((removed, added))
    ]
    same = " AND ".join(f'target."{name}" = source."{name}"' for name in keys)
    merge = table.merge(
        pa.concat_tables(sides), same, source_alias="source", target_alias="target", commit_properties=properties
    )
    values = {f'"{name}"': f'source."{name}"' for name in columns}
    merge = merge.when_matched_delete(f"source.{SIDE} = 0")
    if len(keys) < len(columns):
        merge = merge.when_matched_update(values, f"source.{SIDE} = 1")
    merge.when_not_matched_insert(values, f"source.{SIDE} = 1").execute()
