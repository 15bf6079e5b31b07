"""Outputs by Spark's writers: the state replaced, the changes appended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import sempre
from sempre.diagnostics import DataError
from sempre.spark.sinks import Sinks
from tests.spark.conftest import ONCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


RULES = """
.type date <: number
.decl edge(x: symbol, day: date)
.decl out(x: symbol, day: date)
out(x, d) :- edge(x, d).
"""


def database(spark: SparkSession, options: str) -> sempre.Database:
    return sempre.Database(f"{RULES}.output out({options})\n", spark=spark)


def sinks(db: sempre.Database, spark: SparkSession, folder: Path | str) -> Sinks:
    return Sinks(spark, db.program.checked, str(folder))


def rows(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in df.toArrow().to_pylist())


def publish(db: sempre.Database, sink: Sinks) -> None:
    sink.write_outputs(lambda name: db[name].to_spark())


def test_parquet_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    db = database(spark, "IO=parquet")
    sink = sinks(db, spark, tmp_path)
    (tmp_path / "out.parquet").write_text("a file from before", "utf-8")
    db.apply(insert={"edge": [("a", 0), ("b", 1)]})
    publish(db, sink)
    db.apply(delete={"edge": [("a", 0)]})
    publish(db, sink)
    df = spark.read.parquet(str(tmp_path / "out.parquet"))
    assert df.schema.simpleString() == "struct<x:string,day:date>"
    assert [(x, str(day)) for x, day in rows(df)] == [("b", "1970-01-02")]
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 1


@pytest.mark.parametrize("io", ["parquet", "json", "csv"])
def test_changes_are_appended_with_their_epoch(spark: SparkSession, tmp_path: Path, io: str) -> None:
    db = database(spark, f"IO={io}, mode=changes, filename=log")
    sink = sinks(db, spark, tmp_path)
    for _ in range(2):  # the second run begins anew
        db = database(spark, f"IO={io}, mode=changes, filename=log")
        sink.write_changes(0, db.materialise({"edge": [("a", 0), ("b", 0)]}))
        sink.write_changes(1, db.apply(insert={"edge": [("c", 1)]}, delete={"edge": [("a", 0)]}))
        sink.write_changes(2, db.apply())
        sink.write_changes(3, db.apply(delete={"edge": [("b", 0)]}))
    publish(db, sink)
    columns = "x string, day date, _epoch bigint, _change string"
    reader = spark.read.schema(columns)
    path = str(tmp_path / "log")
    df = reader.parquet(path) if io == "parquet" else reader.json(path) if io == "json" else reader.csv(path)
    assert [(x, e, c) for x, _, e, c in rows(df)] == [
        ("a", 0, "added"),
        ("a", 1, "removed"),
        ("b", 0, "added"),
        ("b", 3, "removed"),
        ("c", 1, "added"),
    ]


def test_tables_of_the_catalog(spark: SparkSession, tmp_path: Path) -> None:
    db = sempre.Database(
        f"{RULES}.output out(IO=spark, table=sempre_out)\n.output out(IO=spark, table=sempre_log, mode=changes)\n",
        spark=spark,
    )
    sink = sinks(db, spark, tmp_path)
    sink.write_changes(0, db.materialise({"edge": [("a", 0)]}))
    sink.write_changes(1, db.apply(insert={"edge": [("b", 1)]}))
    publish(db, sink)
    publish(db, sink)
    assert [x for x, _ in rows(spark.table("sempre_out"))] == ["a", "b"]
    assert [(x, e, c) for x, _, e, c in rows(spark.table("sempre_log"))] == [("a", 0, "added"), ("b", 1, "added")]
    for table in ("sempre_out", "sempre_log"):
        spark.sql(f"drop table {table}")


def test_a_table_stays_what_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """Format, partitions, comment and properties; and all partitions are replaced."""
    spark.sql(
        "create table sempre_kept (day date, x string) using json partitioned by (x) comment 'ours' "
        "tblproperties ('kept_by' = 'me')"
    )
    db = database(spark, "IO=spark, table=sempre_kept")
    sink = sinks(db, spark, tmp_path)
    db.apply(insert={"edge": [("a", 0), ("b", 1)]})
    publish(db, sink)
    db.apply(delete={"edge": [("a", 0)]})
    publish(db, sink)
    assert [(str(day), x) for day, x in rows(spark.table("sempre_kept"))] == [("1970-01-02", "b")]
    said = {row[0]: row[1] for row in spark.sql("describe table extended sempre_kept").collect()}
    assert (said["Provider"], said["Comment"]) == ("json", "ours")
    assert "kept_by=me" in said["Table Properties"]
    assert "# Partition Information" in said
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    with pytest.raises(DataError, match="would leave partitions of table `sempre_kept`"):
        publish(db, sink)
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    spark.sql("drop table sempre_kept")
    spark.sql("create table sempre_kept (other string) using json")
    with pytest.raises(DataError, match="has the columns other, and the output x, day"):
        publish(db, sink)
    spark.sql("drop table sempre_kept")


def test_text_goes_through_spark_only_where_nothing_else_reaches(spark: SparkSession, tmp_path: Path) -> None:
    db = database(spark, "")
    db.apply(insert={"edge": [("a", 0)]})
    here, there = sinks(db, spark, tmp_path), sinks(db, spark, tmp_path.as_uri())
    publish(db, here)
    assert not list(tmp_path.iterdir())
    publish(db, there)
    assert [row[0] for row in rows(spark.read.text(str(tmp_path / "out.csv")))] == ["a\t1970-01-01"]


@ONCE
def test_what_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    db = database(spark, 'IO=parquet, filename="file/out"')
    with pytest.raises(DataError, match=r"E512.*cannot write"):
        publish(db, sinks(db, spark, tmp_path))
    db = sempre.Database(".decl on()\non().\n.output on(IO=parquet)\n", spark=spark)
    with pytest.raises(DataError, match="has no columns"):
        publish(db, sinks(db, spark, tmp_path))
