"""Writes outputs through Spark's writers: the state, replaced; or the changes of each epoch, appended.

One text file per relation, as Soufflé writes it, stays with `sempre.files`, unless the folder is a URL: then Spark
writes a folder of parts in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sempre.analysis.model import CheckedProgram, Relation
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.changes_table import CHANGE, EPOCH
from sempre.files.directive_options import LAKE, Endpoint, output_endpoint
from sempre.files.locations import is_url
from sempre.spark.failures import writing
from sempre.spark.jdbc import with_driver
from sempre.spark.jobs import described

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession


OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


class FramedChanges(Protocol):
    """A set of changes that Spark can write."""

    def size(self, relation: str) -> int:
        """How many rows of a relation were added or removed."""
        ...

    def to_spark(self, relation: str, *, hold: bool = True) -> DataFrame: ...


def through_spark(endpoint: Endpoint, folder: str) -> bool:
    """Whether this output is written by Spark."""
    if endpoint.io in LAKE or endpoint.merges:
        return False
    if endpoint.needs_spark:
        return True
    if folder == "-" or endpoint.io == "sqlite" or endpoint.io.startswith("stdout"):
        return False
    return endpoint.io == "parquet" or is_url(folder) or is_url(endpoint.filename)


@dataclass(frozen=True, slots=True)
class Sinks:
    """The outputs of a program that Spark writes; relative file names are in `folder`."""

    spark: SparkSession
    checked: CheckedProgram
    folder: str

    def takes(self, endpoint: Endpoint) -> bool:
        return through_spark(endpoint, self.folder)

    def write_outputs(self, frame_of: Callable[[str], DataFrame]) -> None:
        """Replace every output of the state; `frame_of` has the relations."""
        for relation, endpoint in self._endpoints():
            if not endpoint.changes:
                if not relation.arity:
                    message = f"relation `{relation.name}` has no columns: Spark cannot store it"
                    raise DataError(Diagnostic("E512", message, hint="Write it to a text file, or give it a column."))
                self._write(endpoint, frame_of(relation.name), "overwrite")

    def write_changes(self, epoch: int, changes: FramedChanges) -> None:
        """Append the changes of one epoch to every output with `mode=changes`; epoch 0 begins it anew."""
        for relation, endpoint in self._endpoints():
            if endpoint.changes and (changes.size(relation.name) or not epoch):
                df = changes.to_spark(relation.name, hold=False)
                self._write(endpoint, df, "append" if epoch else "overwrite")

    def _endpoints(self) -> list[tuple[Relation, Endpoint]]:
        found = [
            (relation, output_endpoint(relation, directive))
            for relation in self.checked.relations.values()
            for directive in relation.outputs
        ]
        return [(relation, endpoint) for relation, endpoint in found if self.takes(endpoint)]

    def _write(self, endpoint: Endpoint, df: DataFrame, mode: str) -> None:
        what, path = located_output(endpoint, self.folder)
        with writing(what, Span(path, 0, 0, 0, 0)), described(self.spark, f"writing {what.replace('`', '')}"):
            if endpoint.io == "spark" and mode == "overwrite" and self.spark.catalog.tableExists(path):
                refill(self.spark, df, path)
            else:
                save(df.write.mode(mode), endpoint, path)


def refill(spark: SparkSession, df: DataFrame, table: str) -> None:
    """Replace the rows of a table, which keeps its format, partitions, comment and properties."""
    there = spark.table(table).columns
    if sorted(map(str.lower, there)) != sorted(map(str.lower, df.columns)):
        message = f"table `{table}` has the columns {', '.join(there)}, and the output {', '.join(df.columns)}"
        hint = "Name another table, or drop that one: it is made anew with the columns of the output."
        raise DataError(Diagnostic("E512", message, hint=hint))
    mode = spark.conf.get(OVERWRITE_MODE, "static") or "static"
    if mode.lower() == "dynamic" and any(column.isPartition for column in spark.catalog.listColumns(table)):
        message = f"the session would leave partitions of table `{table}` that have no rows any more"
        hint = f"Set {OVERWRITE_MODE} to static, or write to a table without partitions."
        raise DataError(Diagnostic("E512", message, hint=hint))
    df.select(*there).write.insertInto(table, overwrite=True)


def located_output(endpoint: Endpoint, folder: str) -> tuple[str, str]:
    """What is written, in words, and where."""
    if endpoint.io in ("spark", "jdbc"):
        return f"table `{endpoint.table}`", endpoint.table
    if is_url(endpoint.filename):
        path = endpoint.filename
    elif is_url(folder):
        path = f"{folder.rstrip('/')}/{endpoint.filename}"
    else:
        path = str((Path("." if folder == "-" else folder) / endpoint.filename).absolute())
    return f"`{path}`", path


def save(writer: DataFrameWriter, endpoint: Endpoint, path: str) -> None:
    """Write rows in the format of an output."""
    match endpoint.io:
        case "parquet":
            writer.parquet(path)
        case "json":
            writer.json(path, ignoreNullFields=False)
        case "spark":
            writer.saveAsTable(endpoint.table)
        case "jdbc":
            options = with_driver(dict(endpoint.jdbc))
            writer.format("jdbc").options(dbtable=endpoint.table, truncate="true", **options).save()
        case _:
            text = endpoint.text
            writer.csv(path, sep=text.delimiter, header=text.headers, quote='"' if text.rfc4180 else "", escape='"')


def changes_frame(epoch: int, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The same from the cluster's frames of the rows that were added and removed."""
    from pyspark.sql import functions as fn

    marked = [
        df.select("*", fn.lit(epoch).cast("bigint").alias(EPOCH), fn.lit(word).alias(CHANGE))
        for word, df in frames.items()
    ]
    return marked[0].unionAll(marked[1])
