"""Workers that a session starts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import sempre
from sempre.spark.hired import slots_of
from tests.unit.workers.test_processes import CHAIN, REACH, processes_of, wait_for_the_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    assert time.monotonic() - began < 2
    assert spark.range(3).count() == 3
