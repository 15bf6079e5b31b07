"""Ctrl-C in the middle of an epoch on the cluster: it ends, its jobs end, and the database is as it was."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import sempre
from sempre.limits import Limits
from sempre.spark.cluster import task_fixpoints
from sempre.spark.cluster.tables import Table
from tests.inside import cluster_of
from tests.spark.conftest import KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


pytestmark = pytest.mark.skipif(KIND == "connect", reason="the jobs are looked up in the driver's own JVM")

RULES = """
.decl a(x: number)
.decl b(x: number)
.decl c(x: number)
b(x * 3) :- a(x).
c(x + 1) :- b(x).
.decl e(x: number, y: number)
.decl r(x: number, y: number)
r(x, y) :- e(x, y).
r(x, z) :- r(x, y), e(y, z).
"""
# No epoch here takes that long unless it waits for its slow job.
SLOW_SECONDS, SOON_SECONDS = 60, 20


def slowly(spark: SparkSession) -> DataFrame:
    """A row that takes a minute to find."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        for batch in batches:
            time.sleep(SLOW_SECONDS)
            yield batch

    return spark.range(1).mapInArrow(run, "id bigint").toDF("x")


def active_jobs(spark: SparkSession) -> list[int]:
    return list(spark.sparkContext.statusTracker().getActiveJobsIds())


def interrupted(spark: SparkSession, action: Callable[[], object]) -> float:
    """Sends Ctrl-C when the slow job of the action runs; returns how long it took to come back after that."""
    sent: list[float] = []

    def send() -> None:
        deadline, seen = time.monotonic() + SLOW_SECONDS, [(time.monotonic(), active_jobs(spark))]
        # What runs for that long is the slow one.
        while time.monotonic() < deadline and (not seen[0][1] or seen[-1][0] - seen[0][0] < 1.5):
            time.sleep(0.05)
            seen.append((time.monotonic(), active_jobs(spark)))
            seen = seen if seen[-1][1] == seen[0][1] else seen[-1:]
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            action()
        return time.monotonic() - sent[0]
    finally:
        thread.join()


def test_an_epoch_that_is_interrupted_leaves_nothing_behind(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark's own handler ends the jobs of everybody; what is ours has to end without it.
    monkeypatch.setattr(spark.sparkContext, "cancelAllJobs", lambda: None)
    assert active_jobs(spark) == []
    # Small changes are followed in the driver, without jobs: not here.
    with sempre.Database(RULES, spark=spark, place="cluster", limits=Limits(followed_rows=0)) as db:
        db.apply(insert={"a": [(1,)], "e": [(1, 2), (2, 3)]})
        before = {name: sorted(db[name]) for name in db}

        def check(change: dict[str, Any]) -> None:
            assert interrupted(spark, lambda: db.apply(insert=change)) < SOON_SECONDS
            assert active_jobs(spark) == []
            assert {name: sorted(db[name]) for name in db} == before

        check({"a": slowly(spark)})  # while it is looked at
        with monkeypatch.context() as patch:  # in a pass of tasks
            patch.setattr(task_fixpoints, "tasks", lambda *_: slowly(spark))
            check({"e": [(3, 4)]})
        with monkeypatch.context() as patch:  # in a round
            patch.setattr(cluster_of(db).scratch, "_write", lambda *_: slowly(spark).count())
            check({"a": [(5,)]})
        db.apply(insert={"a": [(5,)], "e": [(3, 4)]})
        assert sorted(db["c"]) == [(4,), (16,)]
        assert (1, 4) in db["r"]
        gc.collect()
        held = {table._path for table in gc.get_objects() if isinstance(table, Table)}
        assert set(cluster_of(db).scratch.paths()) <= held
