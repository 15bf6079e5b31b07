"""Tables of Delta Lake as targets. The epoch is a transaction of an application, as the format has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

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
        names = added.column_names
        sides = [
            table.append_column(SIDE, pa.repeat(pa.scalar(number, pa.int32()), table.num_rows))
            for number, table in enumerate((removed, added))
        ]
        same = " AND ".join(f'target."{name}" = source."{name}"' for name in names)
        with told(self._place, "write"):
            merge = self._table().merge(
                pa.concat_tables(sides),
                same,
                source_alias="source",
                target_alias="target",
                commit_properties=self._marked(publisher, epoch),
            )
            merge = merge.when_matched_delete(f"source.{SIDE} = 0")
            values = {f'"{name}"': f'source."{name}"' for name in names}
            merge.when_not_matched_insert(values, f"source.{SIDE} = 1").execute()
        return True
