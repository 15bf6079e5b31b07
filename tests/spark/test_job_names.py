"""Jobs say what they are for: in a classic session by their description, on Connect by a tag."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sempre
from sempre.limits import Limits
from sempre.spark.jobs import Jobs
from tests.spark.conftest import KIND, ONCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = """
.decl edge(x: number, y: number)
.input edge(IO=parquet)
.decl reach(x: number, y: number)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), reach(y, z), x != z.
"""
BY_ROUNDS = Limits(followed_rows=0, copied_rows=-1, whole_rows=-1, task_share=0, fetched_rows=-1)


def descriptions(spark: SparkSession) -> list[str]:
    """What the jobs of a classic session were for, the last one first."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(at).description() for at in range(jobs.size())]
    return [told.get() for told in found if told.isDefined()]


@ONCE
def test_many_rounds_of_jobs_are_warned_of(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    with sempre.Database(RULES, spark=spark, place="cluster", limits=replace(BY_ROUNDS, warned_rounds=2)) as db:
        report = db.apply(insert={"edge": [(x, x + 1) for x in range(4)]}).report
    (record,) = [record for record in caplog.records if record.name == "sempre.places"]
    assert (record.levelname, vars(record)["rounds"]) == ("WARNING", 2)
    assert record.getMessage().startswith("reach has taken 2 rounds on the cluster, ")
    assert 'place="auto" has no rounds of jobs' in record.getMessage()
    assert "reach has taken 2 rounds on the cluster, " in report.why


def test_jobs_name_relations_and_rounds(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(4).selectExpr("id as x", "id + 1 as y").write.parquet(str(tmp_path / "edge.parquet"))
    if KIND == "connect":
        jobs = Jobs(spark)
        jobs.doing = "epoch 0, p, q, round 1"
        (tags,) = jobs.run([lambda: set(spark.getTags())])
        assert "sempre: epoch 0; p; q; round 1" in tags
        jobs.close()
        assert not [tag for tag in spark.getTags() if tag.startswith("sempre")]
        return
    spark.sparkContext.setLocalProperty("spark.job.description", "mine")
    with sempre.Database(RULES, spark=spark, place="cluster", limits=BY_ROUNDS) as db:
        db.load(tmp_path)
        told = descriptions(spark)
        assert "sempre: reading edge" in told
        assert any(each.startswith("sempre: epoch 0, reach, round 2") for each in told)
        assert len(db["reach"]) == 10
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
    spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
