"""What one database has to do with Spark: frames that come in, frames that go out, and what came before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from sempre.analysis.model import CheckedProgram, Relation
from sempre.diagnostics import NOWHERE, DataError, Diagnostic, StateError
from sempre.files.write import Changes
from sempre.plan.backend import Rows
from sempre.spark.frames import chosen_columns, from_frame, restored, to_frame
from sempre.spark.sinks import changes_frame, changes_table
from sempre.spark.sources import Inputs, read_inputs
from sempre.spark.staying import Arriving, Staying

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Border:
    """The border between one database and a session that somebody else owns: nothing is set, cached or stopped."""

    def __init__(self, spark: SparkSession | None, checked: CheckedProgram) -> None:
        self._spark = spark
        self._checked = checked
        self._columns: dict[str, tuple[str, ...]] = {}
        self._by_position: set[str] = set()

    # ---------------------------------------------------------------------------------------------------- in

    def read_inputs(self, folder: str, staying: Staying | None = None) -> Inputs:
        """What the `.input` directives say, read by Spark."""
        inputs = read_inputs(self._session(), self._checked, folder, staying)
        for name, notes in inputs.notes.items():
            if any(note.get("columns") == "by position" for note in notes):
                self._by_position.add(name)
        return inputs

    def take(self, relation: Relation, df: DataFrame) -> pa.Table:
        """The rows of a DataFrame; raises if its columns are not those that it had before."""
        names, before = self._known(relation, df)
        crossing = from_frame(df, relation)
        self._note(relation, names, before, crossing.by_name)
        return crossing.table

    def given(self, relation: Relation, df: DataFrame, staying: Staying | None) -> tuple[pa.Table | None, Rows | None]:
        """The rows of a DataFrame, here or left where they are; raises like `take`."""
        if staying is not None and relation.arity:
            names, before = self._known(relation, df)
            chosen, _, by_name = chosen_columns(df, relation, "the DataFrame", NOWHERE)
            # The rows of a local frame are in its plan: they have been here before.
            taken = staying.take(Arriving(relation, chosen, most=lambda: 0 if df.isLocal() else None))
            if taken is not None:
                self._note(relation, names, before, by_name)
                return None, taken[0]
        return self.take(relation, df), None

    def _known(self, relation: Relation, df: DataFrame) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the columns now and the last time."""
        names = tuple(df.columns)
        before = self._columns.get(relation.name, names)
        if sorted(before) != sorted(names):
            raise DataError(_changed(relation, before, names))
        return names, before

    def _note(self, relation: Relation, names: tuple[str, ...], before: tuple[str, ...], by_name: bool) -> None:
        self._columns[relation.name] = names
        if not by_name:
            if before != names:
                raise DataError(_changed(relation, before, names))
            self._by_position.add(relation.name)

    def by_position(self) -> tuple[str, ...]:
        """The relations whose columns were taken by position since the last call."""
        found, self._by_position = tuple(sorted(self._by_position)), set()
        return found

    # --------------------------------------------------------------------------------------------------- out

    def frame(self, relation: Relation, table: pa.Table) -> DataFrame:
        return to_frame(self._session(), table, relation, self._checked.types)

    def changes_frame(self, relation: Relation, epoch: int, changes: Changes) -> DataFrame:
        """The rows that an epoch added or removed, with the columns `_epoch` and `_change`."""
        return to_frame(self._session(), changes_table(relation, epoch, changes), relation, self._checked.types)

    def cluster_changes(self, relation: Relation, epoch: int, frames: Mapping[str, DataFrame]) -> DataFrame:
        """The same from frames of the cluster's."""
        return self.restored(relation, changes_frame(epoch, frames))

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
        hint="select the columns as they were, or rename them with toDF",
    )
