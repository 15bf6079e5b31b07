"""Asks for rows of a table of the session, or of a database that Spark reaches."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sempre.analysis.model import Relation, Type
from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.directive_options import Endpoint
from sempre.files.sources import FactSource
from sempre.files.sources.queried_source import Condition, QueriedSource
from sempre.spark.failures import reading
from sempre.spark.frames import WantedColumns, from_frame
from sempre.spark.sources import table_frame, without_followed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def spark_source(spark: SparkSession, endpoint: Endpoint, relation: Relation, types: Mapping[str, Type]) -> FactSource:
    """The source of a directive that Spark reads."""
    return QueriedSource(SparkReader(spark, endpoint, relation, types), endpoint, relation)


class SparkReader:
    """A table, or a query, that Spark reads."""

    def __init__(self, spark: SparkSession, endpoint: Endpoint, relation: Relation, types: Mapping[str, Type]) -> None:
        self._spark = spark
        self._endpoint = endpoint
        self._relation = relation
        self._types = types

    @property
    def place(self) -> str:
        """Without what may be secret, and what may change while the table is the same."""
        options = dict(self._endpoint.jdbc)
        url = re.split("[?;]", re.sub("//[^/@]*@", "//", options.get("url", "")))[0]
        said = hashlib.sha256(options.get("query", "").encode()).hexdigest() if "query" in options else ""
        endpoint = self._endpoint
        return f"{endpoint.io} {url} {endpoint.table} {said} {endpoint.follow} {endpoint.taking}"

    def rows(self, conditions: Sequence[Condition] = ()) -> pa.Table:
        what, span = self._what
        with reading(what, span):
            df = self._frame()
            for sign, value in conditions:
                df = df.filter(self._compared(df, sign, value))
            df = without_followed(df, self._relation, self._endpoint)
        endpoint = self._endpoint
        wanted = WantedColumns(self._relation, self._types, endpoint.taking, what, span, endpoint.values)
        return from_frame(df, wanted).table.replace_schema_metadata()

    @property
    def _what(self) -> tuple[str, Span]:
        table = self._endpoint.table
        return f"table `{table}`", Span(table, 0, 0, 0, 0)

    def _frame(self) -> DataFrame:
        return table_frame(self._spark, self._endpoint)

    def _column(self, df: DataFrame) -> str:
        found = [name for name in df.columns if name.lower() == self._endpoint.follow.lower()]
        if len(found) != 1:
            message = f"table `{self._endpoint.table}` has no column `{self._endpoint.follow}` to follow"
            raise DataError(Diagnostic("E502", message, self._what[1], hint=f"It has {', '.join(df.columns)}."))
        return found[0]

    def _compared(self, df: DataFrame, sign: str, value: Any) -> Column:
        """The followed column against a value, as a comparison that a database can make."""
        from pyspark.sql import functions as fn

        name = self._column(df)
        given = df.schema[name].dataType.simpleString()
        there = fn.timestamp_micros(fn.lit(int(value))) if given == "timestamp" else fn.lit(value).cast(given)
        col = fn.col(f"`{name}`")
        return col == there if sign == "=" else col >= there

    def last(self) -> Any:
        from pyspark.sql import functions as fn

        with reading(*self._what):
            df = self._frame()
            name = self._column(df)
            given = df.schema[name].dataType.simpleString()
            top = fn.max(f"`{name}`")
            shown = fn.unix_micros(top) if given == "timestamp" else top.cast("string")
            return df.agg(shown.alias("last")).toArrow().column(0)[0].as_py()

    def has_nulls(self) -> bool:
        from pyspark.sql import functions as fn

        with reading(*self._what):
            df = self._frame()
            return not df.filter(fn.col(f"`{self._column(df)}`").isNull()).limit(1).isEmpty()
