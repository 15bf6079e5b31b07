"""Where rows are kept between jobs: a folder that this process sees, or a URL that only Spark reaches.

Behind a URL everything goes through DataFrames: no client is needed, and whatever scheme the session knows will do. It
takes jobs where a folder takes none; so what reads files in the driver, or writes them in tasks, is for folders.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from sempre.diagnostics import BackendError, Diagnostic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A sample is taken from about so many files.
SAMPLE_FILES = 8
# So many folders behind a URL are emptied together, since each takes a job.
EMPTIED_AT_ONCE = 16


class FolderShelf:
    """A folder that this process and all tasks see."""

    is_here = True

    def __init__(self, parent: Path, mode: int, hint: str) -> None:
        self.folder = parent / f"sempre-{uuid.uuid4().hex}"
        self._mode = mode
        self._hint = hint
        self._left: list[Path] = []

    def fresh(self, name: str) -> Path:
        """A new place; what could not be removed before is removed again."""
        while self._left:
            shutil.rmtree(self._left.pop(), ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=self._mode, exist_ok=True)
        return self.folder / name

    def uri(self, path: PurePath) -> str:
        """A place as Spark names it."""
        return Path(path).as_uri()

    def rows_at(self, path: PurePath) -> int:
        """How many rows a job wrote, by what is there."""
        self.check_seen([path / "_SUCCESS"])
        return sum(pq.read_metadata(file).num_rows for file in Path(path).glob("*.parquet"))

    def check_seen(self, paths: Iterable[PurePath]) -> None:
        """Raise if something that Spark says it wrote is not here."""
        for path in paths:
            if not Path(path).exists():
                message = f"what Spark wrote to `{path.parent}` cannot be seen from here"
                raise BackendError(Diagnostic("E707", message, hint=self._hint))

    def put(self, path: PurePath, table: pa.Table, group_rows: int) -> None:
        Path(path).mkdir(parents=True)
        pq.write_table(table, Path(path) / "part-0.parquet", compression="snappy", row_group_size=group_rows)

    def get(self, path: PurePath, columns: Sequence[str]) -> pa.Table:
        return pq.read_table(path, columns=list(columns), partitioning=None)

    def sample(self, path: PurePath, column: str, rows: int) -> pa.ChunkedArray:
        """About so many values of a column: from all over some of the files, which may be sorted."""
        files = [pq.ParquetFile(file) for file in sorted(Path(path).glob("*.parquet"))]
        files = [file for file in files if file.metadata.num_rows]
        files = files[:: max(1, len(files) // SAMPLE_FILES)]
        taken = []
        for file in files:
            values = file.read_row_group(file.num_row_groups // 2, columns=[column]).column(0)
            taken += values.take(pa.array(range(0, len(values), max(1, len(values) * len(files) // rows)))).chunks
        return pa.chunked_array(taken)

    def free(self, path: PurePath) -> None:
        """Nobody needs what is there any more."""
        shutil.rmtree(path, ignore_errors=True)

    def discard(self, path: PurePath) -> None:
        """Remove what a job left that did not succeed; again later, as tasks of it may not know yet."""
        self.free(path)
        self._left.append(Path(path))

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def paths(self) -> list[Path]:
        """What is there now."""
        return sorted(self.folder.iterdir()) if self.folder.exists() else []


class SparkShelf:
    """A place behind a URL, by Spark alone."""

    is_here = False

    def __init__(self, spark: SparkSession, url: str) -> None:
        self._spark = spark
        self._url = url.rstrip("/")
        self.folder = PurePosixPath(f"sempre-{uuid.uuid4().hex}")
        self._freed: list[PurePath] = []

    def fresh(self, name: str) -> PurePath:
        """A new place. Places that were freed are emptied now and then."""
        if len(self._freed) >= EMPTIED_AT_ONCE:
            self._empty()
        return self.folder / name

    def uri(self, path: PurePath) -> str:
        return f"{self._url}/{path}"

    def _frame(self, path: PurePath) -> DataFrame:
        return self._spark.read.parquet(self.uri(path))

    def rows_at(self, path: PurePath) -> int:
        return int(self._frame(path).count())

    def check_seen(self, paths: Iterable[PurePath]) -> None:
        """Nothing: who would look is Spark, and Spark has written it."""

    def put(self, path: PurePath, table: pa.Table, group_rows: int) -> None:
        self._spark.createDataFrame(table.combine_chunks()).write.parquet(self.uri(path))

    def get(self, path: PurePath, columns: Sequence[str]) -> pa.Table:
        return self._frame(path).select(*columns).toArrow()

    def sample(self, path: PurePath, column: str, rows: int) -> pa.ChunkedArray:
        frame = self._frame(path).select(column)
        share = min(1.0, 1.5 * rows / max(1, frame.count()))
        found = frame.sample(fraction=share, seed=1).limit(rows).toArrow().column(0)
        return found if len(found) else frame.limit(rows).toArrow().column(0)

    def free(self, path: PurePath) -> None:
        """Remember that it can go: who frees may be anywhere, and must not start a job."""
        self._freed.append(path)

    discard = free

    def _empty(self) -> None:
        """Leave folders without rows: DataFrames can do that, and cannot remove a folder."""
        nothing = self._spark.createDataFrame([], "gone boolean")
        while self._freed:
            nothing.coalesce(1).write.mode("overwrite").parquet(self.uri(self._freed.pop()))

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the session may have ended before
            self._empty()

    def paths(self) -> list[Any]:
        return []
