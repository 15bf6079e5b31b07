"""DataFrames of a database: its relations, and what its epochs changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import CheckedProgram, Relation
from sempre.data import dataclass
from sempre.maintain.strategy import Change
from sempre.plan.backend import CLUSTER, Column
from sempre.results import Decoder, RelationShape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sempre.files.write import Changes
    from sempre.spark.border import Border


class RelationFrames:
    """Makes the DataFrames of one database, and holds the rows on the cluster that these read."""

    def __init__(self, checked: CheckedProgram, spark: Any, decoder: Decoder) -> None:
        self._checked = checked
        self._spark = spark
        self._decoder = decoder
        self._border: Border | None = None
        # What DataFrames read; its files stay as long as the database.
        self._shown: list[object] = []

    def border(self) -> Border:
        """The border to Spark, made when there is need of one."""
        if self._border is None:
            from sempre.spark.border import Border

            self._border = Border(self._spark, self._checked)
        return self._border

    def hold(self, rows: object) -> None:
        """Keep rows for as long as the database."""
        self._shown.append(rows)

    def shape(self, relation: Relation, hold: bool = True) -> FramedRelation:
        """What `Rows.to_frame` asks for."""
        return FramedRelation(RelationShape(relation, self._decoder), self, hold)

    def of_change(
        self, relation: Relation, change: Change | None, epoch: int, tables: Changes, hold: bool
    ) -> DataFrame:
        """What an epoch changed in a relation; readable as long as the database if it is to `hold`."""
        if change is not None and change.plus.place == CLUSTER:
            shape = self.shape(relation, hold)
            sides = {"added": change.plus.to_frame(shape), "removed": change.minus.to_frame(shape)}
            return self.border().cluster_changes(epoch, sides)
        return self.border().changes_frame(relation, epoch, tables)


@dataclass(frozen=True, slots=True)
class FramedRelation:
    """How rows of one relation become a DataFrame: see `sempre.plan.backend.FrameShape`."""

    _shape: RelationShape
    _frames: RelationFrames
    _holds: bool

    @property
    def relation(self) -> Relation:
        return self._shape.relation

    def decoded(self, columns: Sequence[Column], size: int) -> Any:
        return self._shape.decoded(columns, size)

    def streamed(self, columns: Callable[[int, int], Sequence[Column]], size: int) -> Any:
        return self._shape.streamed(columns, size)

    def framed(self, table: pa.Table) -> DataFrame:
        return self._frames.border().frame(self.relation, table)

    def restored(self, frame: DataFrame, rows: object) -> DataFrame:
        if self._holds:
            self._frames.hold(rows)
        return self._frames.border().restored(self.relation, frame)
