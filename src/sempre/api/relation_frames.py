"""DataFrames of a database: its relations, and what its epochs changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import CheckedProgram, Relation
from sempre.maintain.strategy import Change
from sempre.plan.backend import CLUSTER

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sempre.files.write import Changes
    from sempre.spark.border import Border
    from sempre.spark.cluster.spark_backend import SparkBackend


class RelationFrames:
    """The DataFrames of one database; the cluster's own files serve where they are there already."""

    def __init__(self, checked: CheckedProgram, spark: Any, cluster: SparkBackend | None) -> None:
        self._checked = checked
        self._spark = spark
        self._cluster = cluster
        self._border: Border | None = None
        # What DataFrames read; its files stay as long as the database.
        self._shown: list[Any] = []

    def border(self) -> Border:
        """The border to Spark, made when there is need of one."""
        if self._border is None:
            from sempre.spark.border import Border

            self._border = Border(self._spark, self._checked)
        return self._border

    def of_relation(self, relation: Relation, version: Any, table: Callable[[], pa.Table]) -> DataFrame:
        """A version of a relation; `table` makes the Arrow table if there is need of one."""
        if self._cluster is not None and version.place == CLUSTER:
            self._shown.append(version)
            return self.border().restored(relation, self._cluster.frame(relation, version))
        return self.border().frame(relation, table())

    def of_change(
        self, relation: Relation, change: Change | None, epoch: int, tables: Changes, hold: bool
    ) -> DataFrame:
        """What an epoch changed in a relation; readable as long as the database if it is to `hold`."""
        if self._cluster is not None and change is not None and change.plus.place == CLUSTER:
            if hold:
                self._shown.append(change)
            from sempre.spark.cluster.tables import unsealed

            cluster = self._cluster
            rows = {"added": unsealed(change.plus), "removed": unsealed(change.minus)}
            frames = {word: cluster.frame(relation, cluster.version(side)) for word, side in rows.items()}
            return self.border().cluster_changes(relation, epoch, frames)
        return self.border().changes_frame(relation, epoch, tables)
