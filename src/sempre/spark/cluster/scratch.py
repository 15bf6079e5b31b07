"""What jobs leave: Parquet in a folder of our own.

`settle` is the only place that writes what a round found. A DataFrame that is built on the last round's DataFrame
carries the plans of all rounds before it, each several times; so everything that a round found is written, and the
next round starts from files. Files go as soon as nobody holds their table.
"""

from __future__ import annotations

import functools
import itertools
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from sempre.data import dataclass
from sempre.files.locations import local_path
from sempre.limits import DEFAULTS, Limits
from sempre.spark.cluster.column_types import Kinds, schema_of
from sempre.spark.cluster.pages import SketchBudget
from sempre.spark.cluster.shelves import FolderShelf, SparkShelf
from sempre.spark.failures import job_errors
from sempre.spark.jobs import Jobs
from sempre.spark.ship import ensure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Names the place for what rounds find: a folder that the driver and all executors see, or a URL that Spark knows.
SCRATCH_VARIABLE = "SEMPRE_SCRATCH"


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows in a folder of Parquet files."""

    path: PurePath
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
        chosen = os.environ.get(SCRATCH_VARIABLE)
        self.shelf = _shelf(spark, chosen)
        self._landings: list[tempfile.TemporaryDirectory[str]] = []
        # Also when nobody closes the database: at the latest when this process ends.
        self._removal = weakref.finalize(self, self.shelf.close)

    @property
    def is_here(self) -> bool:
        """Whether this process, and tasks, can open the files."""
        return self.shelf.is_here

    @property
    def folder(self) -> Path:
        """The folder, where there is one."""
        assert isinstance(self.shelf, FolderShelf), "a URL is no folder"
        return self.shelf.folder

    def close(self) -> None:
        """Remove everything."""
        while self._landings:
            self._landings.pop().cleanup()
        if not self.is_here:
            for number in range(next(self._numbers)):  # also what somebody still holds
                self.shelf.free(self.shelf.folder / f"t{number}")
            self._removal()
            self.jobs.close()
            return
        self.jobs.close()
        self._removal()

    def paths(self) -> list[Path]:
        """What is there now."""
        return self.shelf.paths()

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
        paths = {name: Path(self._fresh()) for name in names}
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
            writer.parquet(self.shelf.uri(path))
        except BaseException:
            self.discard(path)
            raise
        return WrittenRows(path, self.shelf.rows_at(path))

    def discard(self, path: PurePath) -> None:
        """Remove what a job left that did not succeed."""
        self.shelf.discard(path)

    def free(self, path: PurePath) -> None:
        """Nobody needs what is there any more."""
        self.shelf.free(path)

    def check_seen(self, paths: Iterable[PurePath]) -> None:
        """Raise if something that Spark says it wrote is not here."""
        self.shelf.check_seen(paths)

    def put(self, table: pa.Table) -> WrittenRows:
        """Writes an Arrow table; to a folder without a job."""
        path = self._fresh()
        self.shelf.put(path, table, self.limits.page_rows)
        return WrittenRows(path, table.num_rows)

    def get(self, path: PurePath, columns: Sequence[str]) -> pa.Table:
        """The rows of what was written; of a folder without a job."""
        return self.shelf.get(path, columns)

    def sample(self, path: PurePath, column: str, rows: int) -> pa.ChunkedArray:
        """About so many values of a column."""
        return self.shelf.sample(path, column, rows)

    def local_frame(self, table: pa.Table, kinds: Kinds, weighted: bool) -> DataFrame:
        """A few rows, as one chunk: Spark loses rows of tables that begin with several empty ones."""
        return self.spark.createDataFrame(table.combine_chunks(), schema_of(kinds, weighted))

    def frame(self, paths: Sequence[PurePath], kinds: Kinds, weighted: bool) -> DataFrame:
        """What was written at some places."""
        return self.spark.read.schema(schema_of(kinds, weighted)).parquet(*map(self.shelf.uri, paths))

    def landing(self) -> Path:
        """A new folder of this process, which stays until the database is closed."""
        if self.is_here:
            return Path(self._fresh())
        self._landings.append(tempfile.TemporaryDirectory(prefix="sempre-"))
        return Path(self._landings[-1].name)

    def _fresh(self) -> PurePath:
        return self.shelf.fresh(f"t{next(self._numbers)}")


def _shelf(spark: SparkSession, chosen: str | None) -> FolderShelf | SparkShelf:
    """Where rows go that are kept between jobs."""
    place = chosen or tempfile.gettempdir()
    path = local_path(place)
    if path is None:
        return SparkShelf(spark, place)
    # Facts are nobody else's business where everybody may look. In a folder that somebody chose, tasks of another user
    # may have to write: who may do so is for that folder to say, and for the umask.
    hint = f"Set {SCRATCH_VARIABLE} to a folder that the driver and all executors share, or to a URL that Spark knows."
    # Executors have working folders of their own: a relative name means something else there.
    return FolderShelf(path.absolute(), 0o777 if chosen else 0o700, hint)
