"""Databases on a session that somebody else owns."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import sempre
from sempre.diagnostics import DataError, StateError
from tests.spark.conftest import KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


REACH = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


def edges(spark: SparkSession, *pairs: tuple[str, str]) -> DataFrame:
    return spark.createDataFrame(list(pairs), "x string, y string")


def collected(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in df.toArrow().to_pylist())


def persisted(spark: SparkSession) -> int:
    """How many frames the session keeps; only a classic session can be asked."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size()) if KIND == "classic" else 0


def settings_of(spark: SparkSession) -> dict[str, str]:
    return {str(row["key"]): str(row["value"]) for row in spark.sql("set").toArrow().to_pylist()}


def test_frames_in_frames_out(spark: SparkSession) -> None:
    db = sempre.Database(REACH, spark=spark)
    db.apply(insert={"edge": edges(spark, ("a", "b"), ("b", "c"))})
    assert collected(db["reach"].to_spark()) == [("a", "b"), ("a", "c"), ("b", "c")]
    changes = db.apply(insert={"edge": edges(spark, ("c", "d"))}, delete={"edge": edges(spark, ("a", "b"))})
    assert collected(changes.to_spark("reach")) == [
        ("a", "b", 2, "removed"),
        ("a", "c", 2, "removed"),
        ("b", "d", 2, "added"),
        ("c", "d", 2, "added"),
    ]
    assert changes.to_spark("reach").columns == ["x", "y", "_epoch", "_change"]
    with db.transaction() as tx:
        tx.insert("edge", edges(spark, ("d", "e")))
        tx.delete("edge", edges(spark, ("b", "c")))
    assert collected(db["reach"].to_spark()) == [("c", "d"), ("c", "e"), ("d", "e")]


def test_a_frame_is_of_its_epoch(spark: SparkSession) -> None:
    db = sempre.Database(REACH, spark=spark)
    db.apply(insert={"edge": [("a", "b")]})
    df = db["reach"].to_spark()
    db.apply(insert={"edge": [("b", "c")]})
    assert collected(df) == [("a", "b")]


def test_relations_as_views(spark: SparkSession) -> None:
    db = sempre.Database(REACH, spark=spark)
    db.apply(insert={"edge": [("a", "b"), ("b", "c")]})
    assert db.register_views("reach") == ["reach"]
    assert collected(spark.sql("select y, count(*) n from reach group by y")) == [("b", 1), ("c", 2)]
    assert db.register_views(prefix="my_") == ["my_edge", "my_reach"]
    assert spark.table("my_edge").count() == 2
    with pytest.raises(DataError, match="no relation is called `raech`"):
        db.register_views("raech")
    for name in ("reach", "my_edge", "my_reach"):
        spark.catalog.dropTempView(name)


def test_two_databases_share_a_session_that_stays_as_it_was(spark: SparkSession) -> None:
    settings, frames = settings_of(spark), persisted(spark)
    one, two = sempre.Database(REACH, spark=spark), sempre.Database(REACH, spark=spark)
    with one, two:
        one.apply(insert={"edge": edges(spark, ("a", "b"))})
        two.apply(insert={"edge": one["reach"].to_spark()})
        two.apply(insert={"edge": edges(spark, ("b", "c"))})
        assert (len(one["reach"]), two["reach"].to_spark().count()) == (1, 3)
    assert spark.range(3).count() == 3
    assert settings_of(spark) == settings
    assert persisted(spark) == frames


def test_columns_by_position_are_reported(spark: SparkSession) -> None:
    db = sempre.Database(REACH, spark=spark)
    assert db.apply(insert={"edge": edges(spark, ("a", "b"))}).report.by_position == ()
    db = sempre.Database(REACH, spark=spark)
    named = edges(spark, ("a", "b")).toDF("src", "dst")
    with pytest.raises(DataError, match=r"sempre.by_position\(...\) takes them as they come"):
        db.apply(insert={"edge": named})
    report = db.apply(insert={"edge": sempre.by_position(named)}).report
    assert (report.by_position, report.to_json()["by_position"]) == (("edge",), ["edge"])
    assert list(db["edge"]) == [("a", "b")]


def test_columns_that_change_between_epochs(spark: SparkSession) -> None:
    db = sempre.Database(REACH, spark=spark)
    db.apply(insert={"edge": edges(spark, ("a", "b"))})
    db.apply(insert={"edge": edges(spark, ("c", "b")).select("y", "x")})
    assert sorted(db["edge"]) == [("a", "b"), ("c", "b")]
    db.apply(insert={"edge": edges(spark, ("d", "b")).toDF("X", "Y")})
    with pytest.raises(DataError, match="not found: y") as caught:
        db.apply(insert={"edge": edges(spark, ("a", "b")).toDF("x", "z")})
    assert caught.value.diagnostics[0].code == "E502"
    assert len(db["edge"]) == 3
    db.apply(insert={"edge": sempre.by_position(edges(spark, ("e", "b")).toDF("p", "q"))})
    with pytest.raises(DataError, match="now without q and with z") as caught:
        db.apply(insert={"edge": sempre.by_position(edges(spark, ("a", "b")).toDF("p", "z"))})
    assert caught.value.diagnostics[0].code == "E516"
    assert len(db["edge"]) == 4


def test_a_bad_frame_leaves_the_database_as_it_was(spark: SparkSession) -> None:
    db = sempre.Database(REACH, spark=spark)
    db.apply(insert={"edge": [("a", "b")]})
    failing = spark.sql("select 'a' x, cast(raise_error('no luck') as string) y")
    for bad in (failing, spark.sql("select 'a' x, string(null) y"), spark.sql("select 1 x, 2 y")):
        with pytest.raises(DataError):
            db.apply(insert={"edge": bad})
    assert (db.epoch, len(db["edge"])) == (1, 1)


def test_without_a_session() -> None:
    db = sempre.Database(REACH)
    for use in (db["reach"].to_spark, db.register_views, lambda: db.apply().to_spark("reach")):
        with pytest.raises(StateError, match="no Spark session"):
            use()


def test_a_small_update_runs_no_job_and_takes_milliseconds(spark: SparkSession) -> None:
    db = sempre.Database(".decl edge(x: number, y: number)\n", spark=spark)
    db.apply(insert={"edge": spark.range(2_000_000).selectExpr("id x", "id + 1 y")})
    tracker = spark.sparkContext.statusTracker() if KIND == "classic" else None
    jobs = tracker.getJobIdsForGroup(None) if tracker else ()
    seconds = []
    for number in range(5):
        started = time.perf_counter()
        db.apply(insert={"edge": [(-n, number) for n in range(1, 11)]}, delete={"edge": [(number, number + 1)]})
        seconds.append(time.perf_counter() - started)
    assert len(db["edge"]) == 2_000_000 + 50 - 5
    assert min(seconds) < 0.1
    if tracker:
        assert tracker.getJobIdsForGroup(None) == jobs
