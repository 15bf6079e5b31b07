"""Workers that a session starts."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

import sempre
from sempre.spark.hired import slots_of
from tests.unit.workers.test_processes import CHAIN, REACH, processes_of, wait_for_the_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


WATCH = """
.pragma "semantics" "active"
.decl up(x: symbol)
.decl link(x: symbol, y: symbol)
.decl down(x: symbol)
up(y) :- up(x), link(x, y), !down(y).
-up(x) :- down(x), up(x).
"""


def test_a_closure_on_two_workers(spark: SparkSession) -> None:
    with sempre.Database(REACH, spark=spark, place="workers", workers=2) as db:
        assert db.apply(insert={"edge": CHAIN}).report.placement == "driver, workers"
        assert db["reach"].to_spark().count() == 55  # the session has its slots back
        assert len(db.apply(delete={"edge": [(4, 5)]}).removed["reach"]) == 30
        db.apply(insert={"edge": spark.createDataFrame([(4, 5)], "x long, y long")})
        assert sorted(db["reach"]) == [(i, j) for i in range(11) for j in range(i + 1, 11)]
        workers = processes_of(db)
        assert len(set(workers)) == 2
    wait_for_the_end(workers)
    assert spark.range(3).count() == 3


def test_more_workers_than_slots_are_refused(spark: SparkSession) -> None:
    slots = slots_of(spark)
    assert slots is not None
    began = time.monotonic()
    with pytest.raises(sempre.BackendError, match="E744"):
        sempre.Database(REACH, spark=spark, place="workers", workers=slots + 1)
    assert time.monotonic() - began < 10  # a barrier job that finds no slots would wait for minutes
    assert spark.range(3).count() == 3


def test_a_killed_worker_is_replaced(spark: SparkSession) -> None:
    with sempre.Database(REACH, spark=spark, place="workers", workers=2) as db:
        db.apply(insert={"edge": CHAIN})
        killed = processes_of(db)
        os.kill(killed[0], signal.SIGKILL)
        began = time.monotonic()
        assert len(db.apply(delete={"edge": [(4, 5)]}).removed["reach"]) == 30
        assert time.monotonic() - began < 30
        assert len(db["reach"]) == 25
        workers = processes_of(db)
    wait_for_the_end([*killed, *workers])


def test_auto_takes_workers_for_what_does_not_fit(spark: SparkSession) -> None:
    """And the cluster, if there is no room for them; it says why."""
    with sempre.Database(REACH, spark=spark, workers=2, memory=100) as db:
        report = db.apply(insert={"edge": CHAIN}).report
        assert {each["relations"][0]: each["placement"] for each in report.strata}["reach"] == "workers"
        assert "the budget is 100" in report.why
        assert len(db["reach"]) == 55
        assert len(db.apply(delete={"edge": [(4, 5)]}).removed["reach"]) == 30
    slots = slots_of(spark)
    assert slots is not None
    with sempre.Database(REACH, spark=spark, workers=slots + 1, memory=100) as db:
        report = db.apply(insert={"edge": CHAIN}).report
        assert {each["relations"][0]: each["placement"] for each in report.strata}["reach"] == "cluster"
        assert f"no workers: {slots + 1} workers were asked for" in report.why
        assert len(db["reach"]) == 55


def test_active_rules_run_ahead_on_two_workers(spark: SparkSession) -> None:
    links = [(f"n{i}", f"n{i + 1}") for i in range(20)]
    with sempre.Database(WATCH, spark=spark, place="workers", workers=2) as db:
        changes = db.materialise({"up": [("n0",)], "link": links, "down": [("n15",)]})
        assert changes.report.placement == "workers"
        assert (len(db["up"]), db.cycle, len(db.at_cycle(3)["up"])) == (15, 15, 4)
        assert db.verify().ok
        assert db.apply(delete={"down": [("n15",)]}).report.placement == "driver"
        assert len(db["up"]) == 21
    assert spark.range(3).count() == 3
