"""Which rows stay on the cluster: those that have to, and those that the driver has no room for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sempre.analysis.model import Relation
from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, Span
from sempre.maintain.decide import bytes_of
from sempre.places import Places
from sempre.plan.backend import CLUSTER, Rows, Version
from sempre.spark.failures import reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sempre.spark.cluster.spark_backend import SparkBackend
    from sempre.spark.jobs import Jobs


@dataclass(frozen=True, slots=True)
class ArrivingFrame:
    """A DataFrame with the columns of a relation, as they come in; nothing has been looked at yet.

    `most` says how many values there can be, where that is known without a job.
    """

    relation: Relation
    chosen: DataFrame
    what: str = "the DataFrame"
    span: Span = NOWHERE
    most: Callable[[], int | None] = lambda: None


@dataclass(frozen=True, slots=True)
class Residency:
    """Takes what stays; `held` gives the explicit facts that a relation has already."""

    cluster: SparkBackend
    places: Places
    held: Callable[[str], Version]

    @property
    def jobs(self) -> Jobs:
        return self.cluster.scratch.jobs

    def take(self, arriving: ArrivingFrame) -> tuple[Rows, int] | None:
        """The rows on the cluster, checked, and how many there were; None if the driver should have them."""
        with reading(arriving.what, arriving.span):
            if not self._stays(arriving):
                return None
            return self.cluster.take(arriving.relation, arriving.chosen, arriving.span)

    def _stays(self, arriving: ArrivingFrame) -> bool:
        relation = arriving.relation

        def rows() -> int:
            """How many there are, or may be where even that is few enough."""
            most = arriving.most()
            if most is not None and self._fits(relation, -(-most // relation.arity)):
                return -(-most // relation.arity)
            self.jobs.count()
            return self.jobs.one(arriving.chosen.count)

        return bool(relation.arity) and self.stays(relation, rows)

    def stays(self, relation: Relation, rows: Callable[[], int]) -> bool:
        """Whether rows of a relation stay on the cluster; they are counted only if it depends on that."""
        if self.places.fixed is not None:
            return self.places.fixed == CLUSTER
        held = self.held(relation.name)
        return bool(len(held) and held.place == CLUSTER) or not self._fits(relation, rows())

    def _fits(self, relation: Relation, rows: int) -> bool:
        """Whether the driver has room for so many rows more."""
        return bytes_of(relation, rows + len(self.held(relation.name))) <= self.places.budget


def values_in_text(path: str) -> int | None:
    """At most so many values are in a text file, or a folder of such: each takes a character, if only a separator."""
    files = _files(Path(path))
    if not files or any(file.suffix in (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate") for file in files):
        return None
    return sum(file.stat().st_size + 1 for file in files)


def values_in_parquet(path: str, columns: int) -> int | None:
    """So many values are in a Parquet file, or in a folder of such."""
    import pyarrow.parquet as pq

    files = _files(Path(path))
    try:
        return sum(pq.read_metadata(file).num_rows for file in files) * columns if files else None
    except (OSError, pa.ArrowInvalid):
        return None  # Spark will say what is wrong with it


def _files(path: Path) -> list[Path]:
    """The files that Spark would read here; none if it is somewhere else."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        return []
    inside: list[Any] = [file for file in path.rglob("*") if file.is_file()]
    return [file for file in inside if not file.name.startswith(("_", "."))]
