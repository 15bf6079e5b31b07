"""Networks whose nodes are hosted by processes that the tasks of a session start."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sempre
from sempre.spark.hired import slots_of
from tests.property.networks import random_case
from tests.property.test_hosted import others
from tests.spark.conftest import ONCE
from tests.spark.test_command import sempre as command
from tests.unit.network.carried import differing, run_again
from tests.unit.network.programs import REACH
from tests.unit.workers.test_processes import wait_for_the_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RING = [(f"n{at}", f"n{(at + 1) % 12}") for at in range(12)]


def test_frames_in_results_out_and_a_killed_task(spark: SparkSession) -> None:
    with sempre.Network(REACH, spark=spark, workers=2) as network:
        network.apply(insert={"link": spark.createDataFrame(RING, "s string, d string")})
        assert network["reach"].to_spark().count() == 144  # the session has its slots back
        assert len(network["reach"].at("n3")) == 12
        tasks = network.stats["tasks"]
        assert sum(task["nodes"] for task in tasks) == 12
        assert 0 < network.stats["crossed"] < network.stats["messages"]
        os.kill(tasks[0]["process"], signal.SIGKILL)
        network.apply(delete={"link": RING[:1]})
        assert len(network["reach"]) == 66
        assert network.stats["restarts"] == 1
        others = network.stats["tasks"]
    wait_for_the_end([task["process"] for task in [*tasks, *others]])
    assert spark.range(3).count() == 3


@ONCE
def test_a_random_program_gives_the_central_result(spark: SparkSession) -> None:
    rng = random.Random(seed := 1)
    case = random_case(rng)
    with sempre.Network(case.text, spark=spark, workers=2) as network:
        for each in others(case, seed, 5):
            assert run_again(each, network, rng) == ""
        assert differing(case, network, 0) == ""


@ONCE
def test_more_tasks_than_slots_are_refused(spark: SparkSession) -> None:
    slots = slots_of(spark)
    assert slots is not None
    with (
        sempre.Network(REACH, spark=spark, workers=slots + 1) as network,
        pytest.raises(sempre.BackendError, match="E744"),
    ):
        network.apply(insert={"link": RING})


def test_the_command_runs_on_spark(tmp_path: Path, where: list[str]) -> None:
    text = REACH + '.input link\n.output reach\n.output link(IO="parquet", filename="links")\n'
    (tmp_path / "reach.dl").write_text(text, "utf-8")
    (tmp_path / "link.facts").write_text("a\tb\nb\tc\nc\td\n", "utf-8")
    (tmp_path / "cut.changes").write_text('-link("b", "c"). commit. +link("b", "d"). commit.\n', "utf-8")
    done = command(
        "network", "reach.dl", "-D", "out", "--changes", "cut.changes", "--report", "r.json", *where, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "reach.csv").read_text("utf-8") == "a\tb\na\td\nb\td\nc\td\n"
    assert list((tmp_path / "out" / "links").glob("*.parquet"))
    report = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert len(report["bursts"]) == 3
    assert report["session_seconds"] > 0
