"""What a table is that results are published to: it says itself which epoch it shows, so that nothing comes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pyarrow as pa

from sempre.analysis.model import Relation
from sempre.diagnostics import DataError, Diagnostic
from sempre.files.directive_options import LAKE, Endpoint
from sempre.files.locations import is_url, path_inside


class TableTarget(Protocol):
    """One table. Each method is one commit of it: readers see the table before or after, and nothing in between.

    `publisher` is the name of a store, and `epoch` what the table shows of it after the commit.
    """

    def epoch(self, publisher: str) -> int | None:
        """Which epoch of a store the table shows; None if it is not there, or shows something else."""
        ...

    def replace(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        """Make these the rows of the table, which stays what it is otherwise; a table that is not there is made."""
        ...

    def change(self, added: pa.Table, removed: pa.Table, publisher: str, epoch: int) -> bool:
        """Add rows that are not there and remove rows that are; False, and nothing done, where the format cannot."""
        ...

    def append(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        """Add rows, whatever is there; a table that is not there is made."""
        ...


def target_of(endpoint: Endpoint, folder: str) -> TableTarget:
    """The table that an output names, of those that need no Spark."""
    if endpoint.io not in (*LAKE, "sqlite", "parquet") or (endpoint.io == "parquet" and _is_far(endpoint, folder)):
        message = f"a store cannot append changes to `{endpoint.filename}` in `{folder}`"
        hint = "Use a table: IO=delta, iceberg, sqlite, jdbc or spark; or IO=parquet in a folder of this machine."
        raise DataError(Diagnostic("E512", message, hint=hint))
    return _table(endpoint, Path(folder))


def _is_far(endpoint: Endpoint, folder: str) -> bool:
    return is_url(folder) or is_url(endpoint.filename)


def _table(endpoint: Endpoint, folder: Path) -> TableTarget:
    if endpoint.io == "delta":
        from sempre.files.targets.delta_target import DeltaTarget

        return DeltaTarget(endpoint, folder)
    if endpoint.io == "sqlite":
        from sempre.files.targets.sqlite_target import sqlite_target

        return sqlite_target(endpoint, folder)
    if endpoint.io == "parquet":
        from sempre.files.targets.parquet_changes import ParquetChanges

        return ParquetChanges(path_inside(folder, endpoint.filename))
    from sempre.files.targets.iceberg_target import IcebergTarget

    return IcebergTarget(endpoint, folder)


def publishable(rows: pa.Table, relation: Relation) -> pa.Table:
    """Rows as tables take them: formats without unsigned numbers have signed ones."""
    if not relation.arity:
        message = f"relation `{relation.name}` has no columns: a table cannot hold it"
        raise DataError(Diagnostic("E512", message, hint="Write it to a text file, or give it a column."))
    import pyarrow.compute as pc  # slow to load, and only tables need it

    rows = rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema]))  # as a table may have been made
    for at, field in enumerate(rows.schema):
        if field.type == pa.uint64():
            column = rows.column(at)
            if rows.num_rows and pc.max(column).as_py() >= 1 << 63:
                message = f"column `{field.name}` of relation `{relation.name}` has numbers beyond 63 bits"
                hint = "Tables have no unsigned numbers: publish it as text, with to_string(...)."
                raise DataError(Diagnostic("E512", message, hint=hint))
            rows = rows.set_column(at, field.with_type(pa.int64()), column.cast(pa.int64()))
    return rows
