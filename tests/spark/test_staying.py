"""Rows that do not pass through the driver, on their way in and on their way out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sempre
from sempre.files import write_changes, write_outputs
from sempre.spark.sinks import Sinks
from sempre.spark.sources import read_inputs
from tests.inside import cluster_of
from tests.spark.conftest import KIND, ONCE, sample
from tests.spark.test_sources import outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PROGRAM = """
.type date <: number
.decl edge(x: symbol, y: symbol)
.input edge
.input edge(IO=parquet)
.decl node(x: symbol, day: date)
.input node(IO=json, format=lines)
.decl big(x: unsigned, f: float)
.input big(IO=spark, table=sempre_big)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.decl seen(x: symbol, day: date)
seen(y, d) :- node(x, d), reach(x, y).
.output reach
.output seen(IO=parquet)
.output seen(IO=json, mode=changes, filename=log)
.output big
"""


def symbols_in_driver(db: sempre.Database) -> int:
    return len(db._backend.values.symbols)


def fill(spark: SparkSession, folder: Path) -> None:
    (folder / "edge.facts").write_text("a\tb\nb\tc\nb\tc\n", "utf-8")
    pq.write_table(pa.table({"y": ["d"], "x": ["c"]}), folder / "edge.parquet")
    (folder / "node.json").write_text('{"x": "a", "day": 1}\n{"day": 2, "x": "c"}\n', "utf-8")
    rows = "values (18446744073709551615BD, 0.5D), (7BD, double('NaN'))"
    spark.sql(f"select cast(x as decimal(20,0)) x, f from {rows} t(x, f)").createOrReplaceTempView("sempre_big")


def test_sources_stay_on_the_cluster_and_come_out_from_there(spark: SparkSession, tmp_path: Path) -> None:
    fill(spark, tmp_path)
    with sempre.Database(PROGRAM, spark=spark, place="cluster") as db:
        known = symbols_in_driver(db)
        inputs = read_inputs(spark, db.program.checked, str(tmp_path), db._staying())
        assert [note["place"] for notes in inputs.notes.values() for note in notes] == ["cluster"] * 4
        assert [note["rows"] for note in inputs.notes["edge"]] == [3, 1]
        changes = db.materialise(inputs.tables)
        assert changes.report.added == {"edge": 3, "node": 2, "big": 2, "reach": 6, "seen": 4}
        sinks = Sinks(spark, db.program.checked, str(tmp_path))
        sinks.write_outputs(lambda name: db[name].to_spark())
        sinks.write_changes(0, changes)
        written = write_outputs(db.program.checked, lambda name: db[name]._stream(), tmp_path, elsewhere=sinks.takes)
        write_changes(db.program.checked, changes.streamed(), tmp_path / "changes")
        assert changes.to_spark("reach").count() == 6
        assert db["seen"].to_arrow().num_rows == 4
        assert symbols_in_driver(db) == known, "texts have passed through the driver"
        assert sorted(path.name for path in written.files) == ["big.csv", "reach.csv"]
        assert sorted(db.query('reach("b", X)').column("X").to_pylist()) == ["c", "d"]
        assert db.query("reach(X, X)").num_rows == 0
    lines = (tmp_path / "reach.csv").read_text("utf-8").splitlines()
    assert sorted(lines) == ["a\tb", "a\tc", "a\td", "b\tc", "b\td", "c\td"]
    assert (tmp_path / "changes" / "reach.added.csv").read_text("utf-8").count("\n") == 6
    assert sorted((tmp_path / "big.csv").read_text("utf-8").split()) == ["0.5", "18446744073709551615", "7", "nan"]
    seen = spark.read.parquet(str(tmp_path / "seen.parquet"))
    assert seen.schema.simpleString() == "struct<x:string,day:date>"
    assert {str(row["day"]) for row in seen.toArrow().to_pylist()} == {"1970-01-02", "1970-01-03"}
    log = spark.read.json(str(tmp_path / "log")).toArrow().to_pylist()
    assert {(row["_epoch"], row["_change"]) for row in log} == {(0, "added")}
    assert len(log) == 4


BAD = {
    "edge.facts": "a\tb\nc\n",
    "edge.parquet": {"x": ["a", None, None], "y": ["b", "c", None]},
    "node.json": '{"x": "a", "day": "b"}\n',
}


@pytest.mark.parametrize("name", sample(BAD, connect=1))
def test_what_is_wrong_is_said_as_it_is_elsewhere(spark: SparkSession, tmp_path: Path, name: str) -> None:
    fill(spark, tmp_path)
    bad = BAD[name]
    if isinstance(bad, str):
        (tmp_path / name).write_text(bad, "utf-8")
    else:
        pq.write_table(pa.table(bad), tmp_path / name)
    with sempre.Database(PROGRAM, spark=spark, place="cluster") as db:
        checked, staying = db.program.checked, db._staying()
        here = outcome(lambda: read_inputs(spark, checked, str(tmp_path)).tables)
        assert outcome(lambda: read_inputs(spark, checked, str(tmp_path), staying).tables) == here
        assert "E50" in str(here)


def test_a_source_that_changes_while_it_is_read_fails_the_epoch(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": ["a"], "y": ["b"]}), tmp_path / "edge.parquet")
    with sempre.Database(REACH, spark=spark, place="cluster") as db:
        df = spark.read.parquet(str(tmp_path / "edge.parquet"))
        rows, size = cluster_of(db).take(db.program.relations["edge"], df.toDF("c0", "c1"))
        assert size == 1
        pq.write_table(pa.table({"x": ["a"], "y": pa.array([None], pa.string())}), tmp_path / "edge.parquet")
        spark.catalog.refreshByPath(str(tmp_path / "edge.parquet"))
        with pytest.raises(sempre.BackendError, match="E706"):
            len(rows)


# --------------------------------------------------------------------------------------------- by the budget

REACH = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


@ONCE
def test_auto_leaves_on_the_cluster_what_the_budget_has_no_room_for(spark: SparkSession, tmp_path: Path) -> None:
    chain = spark.range(30).selectExpr("concat('n', id) as x", "concat('n', id + 1) as y")
    with sempre.Database(REACH, spark=spark, memory=1400) as db:
        known = symbols_in_driver(db)
        report = db.apply(insert={"edge": chain}).report
        assert report.placement == "cluster"
        assert "; edge on the cluster: about 1,440 bytes, and the budget is 1,400; reach on the cluster" in report.why
        assert len(db["reach"]) == 465
        assert symbols_in_driver(db) == known
        db.apply(insert={"edge": [("n30", "n31")]})
        assert len(db["reach"]) == 496
        db.apply(delete={"edge": chain.filter("x not in ('n28', 'n29')")})
        assert len(db["reach"]) == 6
        # Little is left of it: it comes back.
        report = db.apply(delete={"edge": [("n28", "n29")]}).report
        assert {tuple(s["relations"]): s["placement"] for s in report.strata}[("edge",)] == "driver"
        assert sorted(db["reach"]) == [("n29", "n30"), ("n29", "n31"), ("n30", "n31")]
        assert db.verify().ok
    (tmp_path / "edge.facts").write_text("".join(f"n{i}\tn{i + 1}\n" for i in range(30)), "utf-8")
    with sempre.Database(REACH, spark=spark, memory=1400) as db:
        assert db.load(tmp_path).report.placement == "cluster"
        assert len(db["reach"]) == 465
        assert symbols_in_driver(db) == known


def test_auto_takes_into_the_driver_what_fits_without_a_job_where_that_is_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "edge.facts").write_text("a\tb\n", "utf-8")
    with sempre.Database(REACH, spark=spark, memory="1g") as db:
        report = db.load(tmp_path).report
        assert (report.placement, report.jobs, cluster_of(db).jobs) == ("driver", 0, 0)
        local = spark.createDataFrame(pa.table({"x": ["b"], "y": ["c"]}))
        db.apply(insert={"edge": local})
        before = cluster_of(db).jobs
        assert before == 0 or KIND == "connect", "Connect does not say that a frame is local"
        db.apply(insert={"edge": spark.range(1).selectExpr("'c' as x", "'d' as y")})
        assert cluster_of(db).jobs == before + 1, "one count"
        assert len(db["reach"]) == 6
