"""Fact files with Soufflé's options, parsed by Spark where they are.

Regular files are split and converted by expressions over `spark.read.text`. A line that these cannot read, and every
layout that is not one fact per line, goes to the readers of `sempre.files`, which know the exact lines of what is
wrong; both accept the same texts. Reading through Spark means that a file may be a folder, a glob, or far away.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from sempre.analysis.model import Kind, Relation
from sempre.diagnostics import DataError, Diagnostic, Findings, Span
from sempre.files.columns import RANGES, concat
from sempre.files.directive_options import TextFormat
from sempre.files.read import unpacked
from sempre.spark.frames import UNSIGNED, finished

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Beyond this, files are not fetched whole to find out which lines are wrong.
MOST_TEXT_BYTES = 512 << 20
BYTE_ORDER_MARK = "\ufeff"
SHOWN_LINES = 5

INTEGER = r"^-?[0-9]+$"
NATURAL = r"^[0-9]+$"
REAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"

Parse = Callable[[bytes, str], pa.Table]


def cells_of(spark: SparkSession, path: str, relation: Relation, layout: TextFormat) -> DataFrame | None:
    """The columns of delimited text files, with nulls where a line is not as it should be; lazy.

    None for layouts that take a reader of whole files.
    """
    if layout.rfc4180 or layout.headers or not relation.arity or Kind.RECORD in relation.kinds:
        return None
    return cells(spark.read.text(path, lineSep="\n").toDF("value"), relation, layout)


def read_delimited(
    spark: SparkSession, path: str, shown: str, relation: Relation, cells_df: DataFrame | None, parse: Parse
) -> pa.Table:
    """The facts of delimited text files; `shown` is their name in messages, `parse` the exact reader of one file."""
    table = None if cells_df is None else cells_df.toArrow()
    if table is None or any(column.null_count for column in table.columns):
        return read_whole(spark, path, shown, relation, parse)
    return finished(table, relation, Span(shown, 0, 0, 0, 0))


def cells(lines_df: DataFrame, relation: Relation, layout: TextFormat, *also: str) -> DataFrame:
    """One column per column of the relation, null where a line is not as it should be; and others as well. Lazy."""
    from pyspark.sql import functions as fn

    value = fn.col("value")
    line = fn.when(value.endswith("\r"), fn.expr("left(value, char_length(value) - 1)")).otherwise(value)
    pieces = fn.split(line, re.escape(layout.delimiter), -1)
    # Splitting replaces bytes that are not UTF-8, so they have to be looked for before.
    sound_df = lines_df.select(
        pieces.alias("cells"), (fn.is_valid_utf8(value) & ~value.startswith(BYTE_ORDER_MARK)).alias("sound"), *also
    )
    places = layout.columns or tuple(range(relation.arity))
    width = fn.size("cells")
    right = (width == relation.arity) if layout.columns is None else (width > max(places))
    columns = [
        fn.when(fn.col("sound") & right, _value(fn.get("cells", place), kind)).alias(f"c{at}")
        for at, (place, kind) in enumerate(zip(places, relation.kinds, strict=True))
    ]
    return sound_df.select(*columns, *also)


def _value(cell: Column, kind: Kind) -> Column:
    """The value that a cell spells, or null if it takes a closer look."""
    from pyspark.sql import functions as fn

    match kind:
        case Kind.NUMBER:
            return fn.when(cell.rlike(INTEGER), cell.try_cast("bigint"))
        case Kind.UNSIGNED:
            number, most = cell.try_cast(UNSIGNED), fn.lit(str(RANGES[kind][1])).cast(UNSIGNED)
            return fn.when(cell.rlike(NATURAL) & (number <= most), number)
        case Kind.FLOAT:
            return fn.when(cell.rlike(REAL), cell.try_cast("double"))
        case _:
            return cell


def read_whole(spark: SparkSession, path: str, shown: str, relation: Relation, parse: Parse) -> pa.Table:
    """The facts of files that are fetched whole and read by `parse`; raises with what is wrong in all of them."""
    files_df = spark.read.format("binaryFile").load(path)
    sizes = files_df.select("path", "length").toArrow().to_pylist()
    if sum(file["length"] for file in sizes) > MOST_TEXT_BYTES:
        raise too_large(spark, path, shown)
    contents = files_df.select("path", "content").toArrow().to_pylist()
    findings = Findings()
    tables = []
    for file in sorted(contents, key=lambda file: str(file["path"])):
        name = shown if len(contents) == 1 else file["path"].removeprefix("file:")
        with findings.gathered():
            tables.append(parse(unpacked(file["content"], name), name))
    findings.check()
    return concat(relation, tables)


def too_large(spark: SparkSession, path: str, shown: str) -> DataError:
    lines = spark.read.text(path, lineSep="\n").limit(SHOWN_LINES).toArrow().column(0).to_pylist()
    message = f"`{shown}` is not one fact per line as declared, and is too large to be searched for the lines"
    detail = f"it begins with {' ⏎ '.join(line[:80] for line in lines)}"
    return DataError(Diagnostic("E506", message, Span(shown, 0, 0, 0, 0), detail=detail))
