"""What a source is: something that has versions, the rows of the newest, and perhaps what lies between two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sempre.analysis.model import Relation, Type
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic
from sempre.files.directive_options import SPARK_ONLY, Endpoint
from sempre.files.locations import path_inside

# What tells versions of a source apart, as JSON has it. Equal versions have the same rows.
SourceVersion = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The rows that came and that went between two versions, each as often as it did, with the relation's columns."""

    plus: pa.Table
    minus: pa.Table


class FactSource(Protocol):
    """The source of one `.input` directive.

    `why` says, in a few words, why the last question for `changes` had no answer, where its user can do something.
    """

    why: str

    @property
    def place(self) -> str:
        """What tells this source from others, as text: with another place, nothing that was known holds."""
        ...

    def version(self, known: SourceVersion | None) -> SourceVersion:
        """The version that is there now; `known` is one that was seen before, which may save work.

        Raises `DataError` if nothing is there.
        """
        ...

    def rows(self, version: SourceVersion) -> pa.Table:
        """All rows of a version, with the relation's columns. Raises `DataError` if that is not what is there now."""
        ...

    def changes(self, since: SourceVersion, until: SourceVersion) -> RowChanges | None:
        """What lies between two versions; None where that cannot be told, or costs more than all rows of `until`."""
        ...


def source_of(endpoint: Endpoint, relation: Relation, types: Mapping[str, Type], folder: Path) -> FactSource:
    """The source of a directive; raises `DataError` for one that cannot be followed."""
    if endpoint.io == "delta":
        from sempre.files.sources.delta_source import DeltaSource

        return DeltaSource(endpoint, relation, types, folder)
    if endpoint.io == "iceberg":
        from sempre.files.sources.iceberg_source import IcebergSource

        return IcebergSource(endpoint, relation, types, folder)
    if endpoint.io == "sqlite" and endpoint.follow:
        from sempre.files.sources.queried_source import QueriedSource
        from sempre.files.sources.sqlite_reader import SqliteReader

        return QueriedSource(SqliteReader(endpoint, relation, types, folder), endpoint, relation)
    if endpoint.io == "parquet" and path_inside(folder, endpoint.filename).is_dir():
        from sempre.files.sources.folder_source import FolderSource

        return FolderSource(endpoint, relation, types, folder)
    if endpoint.io in ("file", "parquet", "json", "sqlite"):
        from sempre.files.sources.file_source import FileSource

        return FileSource(endpoint, relation, types, folder)
    what = "standard input" if endpoint.io == "stdin" else f"IO={endpoint.io}"
    message = f"relation `{relation.name}` is read from {what}, which cannot be followed"
    hint = "Use files, IO=delta or IO=iceberg; `sempre apply` takes changes of other kinds."
    if endpoint.io in SPARK_ONLY:
        hint = "Give it a Spark session: --on spark, or Database(..., spark=...)."
    raise DataError(Diagnostic("E661", message, hint=hint))


__all__ = ["FactSource", "RowChanges", "SourceVersion", "source_of"]
