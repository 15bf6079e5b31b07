"""What one database has to do with Spark: frames that come in, frames that go out, and what came before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from sempre.analysis.model import CheckedProgram, Relation
from sempre.diagnostics import DataError, Diagnostic, StateError
from sempre.files.changes_table import changes_table
from sempre.files.matching import BY_NAME, ColumnChoice
from sempre.files.write import Changes
from sempre.ingest import Parts
from sempre.spark.frames import WantedColumns, chosen_columns, from_frame, restored, to_frame
from sempre.spark.residency import ArrivingFrame, Residency
from sempre.spark.sinks import changes_frame
from sempre.spark.sources import Inputs, read_inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Border:
    """The border between one database and a session that somebody else owns: nothing is set, cached or stopped."""

    def __init__(self, spark: SparkSession | None, checked: CheckedProgram) -> None:
        self._spark = spark
        self._checked = checked
        self._columns: dict[str, tuple[str, ...]] = {}

    # ---------------------------------------------------------------------------------------------------- in

    def read_inputs(self, folder: str, staying: Residency | None = None) -> Inputs:
        """What the `.input` directives say, read by Spark."""
        return read_inputs(self._session(), self._checked, folder, staying)

    def take(self, relation: Relation, df: DataFrame, taking: ColumnChoice = BY_NAME) -> pa.Table:
        """The rows of a DataFrame; raises if columns that go by position are not those that came before."""
        crossing = from_frame(df, WantedColumns(relation, self._checked.types, taking))
        self._check_order(relation, crossing.source_columns, crossing.by_name)
        return crossing.table

    def given(
        self, relation: Relation, df: DataFrame, staying: Residency | None, taking: ColumnChoice = BY_NAME
    ) -> Parts:
        """The rows of a DataFrame, here or left where they are; raises like `take`."""
        if staying is not None and relation.arity:
            chosen, names, found = chosen_columns(df, WantedColumns(relation, self._checked.types, taking))
            self._check_order(relation, names, found.by_name)
            # The rows of a local frame are in its plan: they have been here before.
            taken = staying.take(ArrivingFrame(relation, chosen, most=lambda: 0 if df.isLocal() else None))
            if taken is not None:
                return Parts(on_cluster=taken[0], by_position=not found.by_name)
        return Parts(self.take(relation, df, taking))

    def _check_order(self, relation: Relation, names: tuple[str, ...], by_name: bool) -> None:
        """Names decide which column is which; where they do not, at least they should not change between epochs."""
        if by_name:
            return
        before = self._columns.setdefault(relation.name, names)
        if before != names:
            raise DataError(_changed(relation, before, names))

    # --------------------------------------------------------------------------------------------------- out

    def frame(self, relation: Relation, table: pa.Table) -> DataFrame:
        return to_frame(self._session(), table, relation, self._checked.types)

    def changes_frame(self, relation: Relation, epoch: int, changes: Changes) -> DataFrame:
        """The rows that an epoch added or removed, with the columns `_epoch` and `_change`."""
        return to_frame(self._session(), changes_table(relation, epoch, changes), relation, self._checked.types)

    def cluster_changes(self, epoch: int, frames: Mapping[str, DataFrame]) -> DataFrame:
        """The same from frames of the cluster's."""
        return changes_frame(epoch, frames)

    def restored(self, relation: Relation, df: DataFrame) -> DataFrame:
        """A DataFrame of the cluster's as one for users: dates and timestamps where the declared type says so."""
        return restored(df, relation, self._checked.types)

    def _session(self) -> SparkSession:
        if self._spark is None:
            raise StateError("the database has no Spark session", hint="Make it with Database(program, spark=session).")
        return self._spark


def _changed(relation: Relation, before: tuple[str, ...], now: tuple[str, ...]) -> Diagnostic:
    gone = [name for name in before if name not in now]
    new = [name for name in now if name not in before]
    parts = [f"{word} {', '.join(names)}" for word, names in (("without", gone), ("with", new)) if names]
    change = " and ".join(parts) or f"in the order {', '.join(now)}"
    return Diagnostic(
        "E516",
        f"the columns of the source of relation `{relation.name}` have changed: now {change}",
        detail=f"before: {', '.join(before)}",
        hint="Select the columns as they were, or rename them as the relation's with toDF, so that names decide.",
    )
