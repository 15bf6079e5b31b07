"""What jobs leave: Parquet in a folder of our own.

`settle` is the only place that writes what a round found. A DataFrame that is built on the last round's DataFrame
carries the plans of all rounds before it, each several times; so everything that a round found is written, and the
next round starts from files. Files go as soon as nobody holds their table.
"""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from sempre.data import dataclass
from sempre.diagnostics import BackendError, Diagnostic
from sempre.files.locations import local_path
from sempre.limits import DEFAULTS, Limits
from sempre.spark.cluster.column_types import Kinds, schema_of
from sempre.spark.cluster.pages import SketchBudget
from sempre.spark.failures import job_errors
from sempre.spark.jobs import Jobs
from sempre.spark.ship import ensure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Names the folder for what rounds find: one that the driver and all executors see.
SCRATCH_VARIABLE = "SEMPRE_SCRATCH"
# A sample is taken from about so many files.
SAMPLE_FILES = 8


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows in a folder of Parquet files."""

    path: Path
    num_rows: int


Found: TypeAlias = WrittenRows | pa.Table


class Scratch:
    """A folder for one database, and `jobs` that fill it."""

    def __init__(self, spark: SparkSession, limits: Limits = DEFAULTS) -> None:
        self.spark = spark
        self.limits = limits
        self.jobs = Jobs(spark)
        self.sketches = SketchBudget(limits.sketch_bytes)
        self._numbers = itertools.count()
        self._left: list[Path] = []
        chosen = os.environ.get(SCRATCH_VARIABLE)
        # Facts are nobody else's business where everybody may look. In a folder that somebody chose, tasks of another
        # user may have to write: who may do so is for that folder to say, and for the umask.
        self._mode = 0o777 if chosen else 0o700
        self.folder = _parent(chosen or tempfile.gettempdir()) / f"sempre-{uuid.uuid4().hex}"
        # Also when nobody closes the database: at the latest when this process ends.
        self._removal = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def close(self) -> None:
        """Remove everything."""
        self.jobs.close()
        self._removal()

    def paths(self) -> list[Path]:
        """What is there now."""
        return sorted(self.folder.iterdir()) if self.folder.exists() else []

    # ---------------------------------------------------------------------------------------------------- jobs

    def write_all(self, frames: Sequence[Callable[[], DataFrame]], few: Sequence[bool]) -> list[Found]:
        """Writes DataFrames, several at a time; returns what is to be kept of each.

        Those that are expected to have `few` rows are fetched instead: Spark takes longer to prepare files, and to read
        them again, than to find a few rows.
        """
        return self.jobs.run([functools.partial(self._write, *each) for each in zip(frames, few, strict=True)])

    def mapped(self, df: DataFrame, run: Callable[..., Any], schema: StructType) -> DataFrame:
        """`df.mapInArrow`, with a function of this package."""
        self.jobs.count(ensure(self.spark))
        return df.mapInArrow(run, schema)

    @contextmanager
    def folders_for_tasks(self, names: Iterable[str]) -> Iterator[dict[str, Path]]:
        """New folders that tasks may write to; gone again if something is raised."""
        paths = {name: self._fresh() for name in names}
        try:
            for path in paths.values():
                path.mkdir(parents=True)
            yield paths
        except BaseException:
            for path in paths.values():
                self.discard(path)
            raise

    def reported(self, make: Callable[[], DataFrame]) -> pa.Table:
        """What the tasks of a frame report, who write their results themselves; a small table."""

        def report() -> pa.Table:
            self.jobs.count(ensure(self.spark) + 1)
            return make().toArrow()

        with job_errors():
            return self.jobs.one(report)

    def _write(self, make: Callable[[], DataFrame], few: bool) -> Found:
        with job_errors():
            found = self.fetched(make) if few else None
            return self.write(make) if found is None else found

    def fetched(self, make: Callable[[], DataFrame]) -> pa.Table | None:
        """The rows of a DataFrame, here; None if there are more than a few. What Spark raises is left as it is."""
        self.jobs.count()
        most = self.limits.driver_rows
        table = make().limit(most + 1).toArrow()
        return table if table.num_rows <= most else None

    def write(self, make: Callable[[], DataFrame]) -> WrittenRows:
        """The rows of a DataFrame in files. What Spark raises is left as it is."""
        path = self._fresh()
        try:
            self.jobs.count()
            writer = (
                make().write.option("compression", "snappy").option("parquet.block.size", str(self.limits.page_bytes))
            )
            writer.parquet(path.as_uri())
        except BaseException:
            self.discard(path)
            raise
        return WrittenRows(path, self._written(path))

    def discard(self, path: Path) -> None:
        """Remove what a job left that did not succeed; again later, as tasks of it may not know yet."""
        shutil.rmtree(path, ignore_errors=True)
        self._left.append(path)

    def _written(self, path: Path) -> int:
        """How many rows a job wrote, by what is there."""
        self.check_seen([path / "_SUCCESS"])
        return sum(pq.read_metadata(file).num_rows for file in path.glob("*.parquet"))

    def check_seen(self, paths: Iterable[Path]) -> None:
        """Raise if something that Spark says it wrote is not here."""
        for path in paths:
            if not path.exists():
                raise BackendError(
                    Diagnostic(
                        "E707",
                        f"what Spark wrote to `{path.parent}` cannot be seen from here",
                        hint=f"Set {SCRATCH_VARIABLE} to a folder that the driver and all executors share.",
                    )
                )

    def put(self, table: pa.Table) -> WrittenRows:
        """Writes an Arrow table, without a job."""
        path = self._fresh()
        path.mkdir(parents=True)
        pq.write_table(table, path / "part-0.parquet", compression="snappy", row_group_size=self.limits.page_rows)
        return WrittenRows(path, table.num_rows)

    def get(self, path: Path, columns: Sequence[str]) -> pa.Table:
        """The rows of what was written, without a job."""
        return pq.read_table(path, columns=list(columns), partitioning=None)

    def sample(self, path: Path, column: str, rows: int) -> pa.ChunkedArray:
        """About so many values of a column: from all over some of the files, which may be sorted."""
        files = [pq.ParquetFile(file) for file in sorted(path.glob("*.parquet"))]
        files = [file for file in files if file.metadata.num_rows]
        files = files[:: max(1, len(files) // SAMPLE_FILES)]
        taken = []
        for file in files:
            values = file.read_row_group(file.num_row_groups // 2, columns=[column]).column(0)
            taken += values.take(pa.array(range(0, len(values), max(1, len(values) * len(files) // rows)))).chunks
        return pa.chunked_array(taken)

    def local_frame(self, table: pa.Table, kinds: Kinds, weighted: bool) -> DataFrame:
        """A few rows, as one chunk: Spark loses rows of tables that begin with several empty ones."""
        return self.spark.createDataFrame(table.combine_chunks(), schema_of(kinds, weighted))

    def frame(self, paths: Sequence[Path], kinds: Kinds, weighted: bool) -> DataFrame:
        """What was written at some places."""
        return self.spark.read.schema(schema_of(kinds, weighted)).parquet(*(path.as_uri() for path in paths))

    def landing(self) -> Path:
        """A new folder, which stays until the database is closed."""
        return self._fresh()

    def _fresh(self) -> Path:
        while self._left:
            shutil.rmtree(self._left.pop(), ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=self._mode, exist_ok=True)
        return self.folder / f"t{next(self._numbers)}"


def _parent(place: str) -> Path:
    """The folder that scratch is below; raises `BackendError` if it is not one that this process reaches."""
    path = local_path(place)
    if path is None:
        raise BackendError(
            Diagnostic(
                "E707",
                f"`{place}` is no folder that the driver can see",
                hint=f"Set {SCRATCH_VARIABLE} to the path under which the driver and all executors have it mounted.",
            )
        )
    return path
