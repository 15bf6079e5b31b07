"""What a store reads and writes where Python has no client for a URL, and the Java of a Spark session has.

A manifest is committed by a rename that fails if the name exists, which the name node of HDFS sees to: of two writers
one gets the name. What other file systems make of such a rename is theirs to say.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from sempre.diagnostics import Diagnostic, StateError
from sempre.spark.hadoop_files import HadoopFiles
from sempre.storage.object_disk import RenamingDisk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_disk(spark: SparkSession, place: str) -> SessionDisk | None:
    """What reads and writes at a URL through a session; None on Spark Connect, whose Java is elsewhere."""
    if not hasattr(spark, "_jvm"):
        return None
    try:
        return SessionDisk(spark, place)
    except OSError as error:
        hint = "The session has to know the scheme: see its settings, and the jars on its class path."
        message = f"a store cannot be kept at `{place}`: {error.strerror or error}"
        raise StateError(Diagnostic("E608", message, hint=hint)) from None


class SessionDisk(RenamingDisk):
    """A file system of the session's Java."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        parts = urlsplit(place)
        self._root = f"{parts.scheme}://{parts.netloc}"
        super().__init__(HadoopFiles(spark, self._root), parts.scheme)

    def url(self, path: PurePath) -> str:
        return f"{self._root}{path}"

    def path_of(self, place: str) -> str:
        return urlsplit(place).path.rstrip("/") or "/"

    def commit(self, staged: PurePath, path: PurePath, data: bytes) -> None:
        self.rename(staged, path)

    def table(self, folder: PurePath, columns: list[str]) -> Any:
        parts = [self.read(folder / name) for name in sorted(self.names(folder)) if name.endswith(".parquet")]
        return pa.concat_tables(pq.read_table(pa.BufferReader(part), columns=columns) for part in parts)
