"""Databases that follow a stream: every batch an epoch, applied once, whatever is stopped or killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import sempre
from sempre.diagnostics import BackendError, DataError, SempreError, StateError
from tests.spark.conftest import KIND, ON_CONNECT, ONCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sempre.spark.streams import BatchReport, Maintenance


REACH = """
.decl edge(x: symbol, y: symbol)
.decl blocked(x: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y), !blocked(x).
reach(x, z) :- reach(x, y), edge(y, z), !blocked(y).
"""
SCHEMA = "relation string, operation string, x string, y string, at bigint"
NOW = {"availableNow": True}
EXAMPLE = Path(__file__).parents[2] / "examples" / "stream" / "follow.py"


class Source:
    """A folder of JSON files, each of which is a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.count = 0
        folder.mkdir()

    def write(self, *rows: dict[str, Any]) -> None:
        staged = self.folder / f".{self.count}.tmp"
        staged.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        moment = 1_700_000_000 + self.count  # Spark takes files in the order of their times
        os.utime(staged, (moment, moment))
        staged.rename(self.folder / f"{self.count:04}.json")
        self.count += 1

    def edges(self, sign: str, *pairs: str) -> None:
        self.write(*({"relation": "edge", "operation": sign, "x": x, "y": y} for x, y in map(tuple, pairs)))

    def stream(self, schema: str = SCHEMA) -> DataFrame:
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path / "source")


@pytest.fixture
def db(spark: SparkSession) -> Iterator[sempre.Database]:
    with sempre.Database(REACH, spark=spark) as db:
        yield db


def pairs(db: sempre.Database, name: str = "reach") -> set[str]:
    return {"".join(row) for row in db[name]}


def run(db: sempre.Database, stream: DataFrame, folder: Path, **options: Any) -> Maintenance:
    """Apply all that the stream has now."""
    maintenance = db.maintain(stream, checkpoint=folder / "checkpoint", trigger=NOW, **options)
    assert maintenance.await_termination(120)
    return maintenance


def progress_of(maintenance: Maintenance) -> BatchReport:
    """How the last batch went."""
    assert maintenance.last_progress is not None
    return maintenance.last_progress


def test_every_batch_is_an_epoch(db: sempre.Database, source: Source, tmp_path: Path) -> None:
    seen: list[sempre.ChangeSet] = []
    source.edges("insert", "ab", "bc")
    maintenance = db.maintain(
        source.stream(), checkpoint=tmp_path / "checkpoint", feed=tmp_path / "feed", on_changes=seen.append
    )
    maintenance.process_available()
    assert pairs(db) == {"ab", "ac", "bc"}
    source.edges("+", "cd")
    source.write(
        {"relation": "edge", "operation": "delete", "x": "a", "y": "b"},
        {"relation": "blocked", "operation": "insert", "x": "c"},
    )
    maintenance.process_available()
    assert (pairs(db), pairs(db, "blocked"), db.epoch) == ({"bc"}, {"c"}, 3)
    assert db.verify().ok
    progress = progress_of(maintenance)
    assert (progress.batch, progress.epoch, progress.rows) == (2, 3, 2)
    assert (maintenance.is_active, maintenance.exception()) == (True, None)
    maintenance.stop()
    assert not maintenance.is_active
    assert maintenance.await_termination(1)
    assert [changes.report.added.get("reach", 0) for changes in seen] == [3, 3, 0]
    assert sorted(path.name for path in (tmp_path / "feed").iterdir()) == ["1", "2", "3"]
    rows = pq.read_table(tmp_path / "feed" / "3" / "reach.parquet").to_pylist()
    assert {(row["x"] + row["y"], row["_epoch"], row["_change"]) for row in rows} == {
        (pair, 3, "removed") for pair in ("ab", "ac", "ad", "bd", "cd")
    }


@pytest.mark.skipif(KIND == "connect", reason="what the batches do is the same on both")
def test_the_last_operation_wins_by_the_order(db: sempre.Database, source: Source, tmp_path: Path) -> None:
    row = {"relation": "edge", "x": "a", "y": "b"}
    source.write(*({**row, "operation": word, "at": at} for at, word in ((3, "-"), (1, "+"), (2, "-"))))
    source.write(*({**row, "operation": word, "at": at} for at, word in ((9, "+"), (7, "+"), (8, "-"), (9, "-"))))
    run(db, source.stream(), tmp_path, order="at")
    assert pairs(db, "edge") == {"ab"}  # of two at the same place the insertion
    source.write(*({**row, "operation": word, "at": at} for at, word in ((10, "+"), (11, "-"))))
    run(db, source.stream(), tmp_path, order="at")
    assert pairs(db, "edge") == set()


@ONCE
def test_a_stream_goes_on_where_it_stopped(db: sempre.Database, source: Source, tmp_path: Path) -> None:
    source.edges("+", "ab")
    run(db, source.stream(), tmp_path)
    source.edges("+", "bc")
    assert progress_of(run(db, source.stream(), tmp_path)).batch == 1
    assert (db.epoch, pairs(db)) == (2, {"ab", "ac", "bc"})


@pytest.mark.skipif(KIND == "connect", reason="batches are always kept there: nothing is missing")
def test_a_new_database_on_an_old_checkpoint(
    spark: SparkSession, db: sempre.Database, source: Source, tmp_path: Path
) -> None:
    source.edges("+", "ab")
    run(db, source.stream(), tmp_path)
    source.edges("+", "bc")
    with sempre.Database(REACH, spark=spark) as other:
        with pytest.raises(StateError, match="goes on with batch 1, and this database has seen nothing of it"):
            run(other, source.stream(), tmp_path)
        assert other.epoch == 0
        other.apply(insert={"edge": [("a", "b")]})
        run(other, source.stream(), tmp_path, trust_checkpoint=True)
        assert pairs(other) == {"ab", "ac", "bc"}


@ONCE
def test_kept_batches_bring_a_new_database_up_to_date(
    spark: SparkSession, db: sempre.Database, source: Source, tmp_path: Path
) -> None:
    source.edges("+", "ab", "zz")
    source.edges("-", "zz")
    run(db, source.stream(), tmp_path, keep_batches=True, feed=tmp_path / "feed")
    source.edges("+", "bc")
    with sempre.Database(REACH, spark=spark) as other:
        run(other, source.stream(), tmp_path, keep_batches=True, feed=tmp_path / "feed")
        assert (other.epoch, pairs(other)) == (3, {"ab", "ac", "bc"})
    assert sorted(path.name for path in (tmp_path / "feed").iterdir()) == ["1", "2", "3"]


def test_a_bad_row_ends_the_stream_and_leaves_the_last_epoch(
    db: sempre.Database, source: Source, tmp_path: Path
) -> None:
    source.edges("+", "ab")
    source.edges("upsert", "bc")
    maintenance = db.maintain(source.stream(), checkpoint=tmp_path / "checkpoint", trigger=NOW)
    with pytest.raises(DataError, match="column `operation` of the stream has `upsert`") as caught:
        maintenance.await_termination(120)
    assert maintenance.exception() is caught.value
    assert not maintenance.is_active
    assert (db.epoch, pairs(db)) == (1, {"ab"})
    db.apply(insert={"edge": [("b", "d")]})
    assert db.verify().ok


def test_a_function_that_fails_keeps_its_epoch_from_happening(
    db: sempre.Database, source: Source, tmp_path: Path
) -> None:
    class Full(Exception):
        pass

    calls = []

    def publish(changes: sempre.ChangeSet) -> None:
        calls.append(changes)
        assert (db.epoch, len(db["edge"])) == (0, 0)  # nobody sees the epoch yet
        if len(calls) == 1:
            raise Full("no room")

    source.edges("+", "ab")
    maintenance = db.maintain(source.stream(), checkpoint=tmp_path / "c", trigger=NOW, on_changes=publish)
    with pytest.raises(Full):
        maintenance.await_termination(120)
    assert (db.epoch, pairs(db)) == (0, set())
    maintenance = db.maintain(source.stream(), checkpoint=tmp_path / "c", trigger=NOW, on_changes=publish)
    maintenance.await_termination(120)
    assert (db.epoch, pairs(db), len(calls)) == (1, {"ab"}, 2)


def test_what_is_wrong_with_a_stream_is_said_before_it_starts(
    db: sempre.Database, source: Source, spark: SparkSession, tmp_path: Path
) -> None:
    def fails(text: str, stream: DataFrame, **options: Any) -> None:
        with pytest.raises(SempreError, match=text):
            db.maintain(stream, checkpoint=tmp_path / "checkpoint", **options)

    fails("not a stream", spark.range(1).selectExpr("'a' x", "'b' y"), relation="edge")
    fails("no relation is called `egde`", source.stream(), relation="egde")
    fails("has no column `relation`: it has x, y", source.stream("x string, y string"))
    fails("has no column `operation`", source.stream("relation string, x string, y string"))
    fails("has no column `op`", source.stream(), relation="edge", operation="op")
    fails("column `y` of relation `edge` is not in the stream", source.stream("x string"), relation="edge")
    fails("column `x` of relation `edge`: a column of type int", source.stream("x int, y string"), relation="edge")
    fails("a folder of this machine", source.stream(), feed="s3a://bucket/feed")
    if KIND == "connect":
        with pytest.raises(BackendError, match="checkpoint"):
            db.maintain(source.stream())


def test_readers_see_whole_epochs_while_a_stream_runs(db: sempre.Database, source: Source, tmp_path: Path) -> None:
    """Every batch adds an edge and takes one away: there are always as many."""
    source.edges("+", "ab")
    for at in range(6):
        x, y = chr(ord("a") + at), chr(ord("b") + at)
        old = {"relation": "edge", "operation": "-", "x": x, "y": y}
        source.write(old, {"relation": "edge", "operation": "+", "x": y, "y": chr(ord(y) + 1)})
    maintenance = db.maintain(source.stream(), checkpoint=tmp_path / "checkpoint", trigger=NOW)
    sizes = set()
    own = 0
    while maintenance.is_active:
        sizes.add(len(db["reach"]))
        db.apply(insert={"blocked": [(f"only {own}",)]})
        own += 1
        time.sleep(0.01)
    maintenance.await_termination(1)
    assert sizes <= {0, 1}
    assert pairs(db, "edge") == {"gh"}
    assert (db.epoch, len(db["blocked"])) == (own + 7, own)
    assert db.verify().ok


def test_stopping_waits_for_the_batch_that_is_being_applied(
    db: sempre.Database, source: Source, tmp_path: Path
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(changes: sempre.ChangeSet) -> None:
        entered.set()
        leave.wait(60)

    source.edges("+", "ab")
    source.edges("+", "bc")
    maintenance = db.maintain(source.stream(), checkpoint=tmp_path / "checkpoint", on_changes=slow)
    assert entered.wait(60)
    threading.Timer(0.5, leave.set).start()
    maintenance.stop()
    assert (leave.is_set(), db.epoch, pairs(db)) == (True, 1, {"ab"})
    run(db, source.stream(), tmp_path)
    assert (db.epoch, pairs(db)) == (2, {"ab", "ac", "bc"})
    assert maintenance.exception() is None


@pytest.mark.skipif(KIND == "connect", reason="there no query waits for the function")
def test_a_function_may_stop_its_stream(db: sempre.Database, source: Source, tmp_path: Path) -> None:
    running: list[Any] = []
    known = threading.Event()

    def enough(changes: sempre.ChangeSet) -> None:
        known.wait(60)
        running[0].stop()

    source.edges("+", "ab")
    source.edges("+", "bc")
    running.append(db.maintain(source.stream(), checkpoint=tmp_path / "checkpoint", on_changes=enough))
    known.set()
    assert running[0].await_termination(60)
    assert (db.epoch, pairs(db)) == (1, {"ab"})


@ON_CONNECT
def test_the_example_is_killed_and_goes_on(spark: SparkSession, where: list[str], tmp_path: Path) -> None:
    """Killed after the first batch is told of, and started again: every batch once, in the feed and in the database."""
    source = Source(spark, tmp_path / "changes")
    for at in range(4):
        part = {"relation": "part", "operation": "+", "whole": f"w{at}", "piece": f"w{at + 1}"}
        source.write(part, {"relation": "part", "operation": "-", "whole": f"w{at - 1}", "piece": f"w{at}"})
    source.write({"relation": "recalled", "operation": "insert", "piece": "w4"})
    command = [sys.executable, str(EXAMPLE), str(tmp_path), *where]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until(lambda: (tmp_path / "feed" / "1").exists(), process)
        finally:
            process.kill()
            process.wait(60)
    source.write({"relation": "part", "operation": "insert", "whole": "bike", "piece": "w3"})
    done = subprocess.run([*command, "--once"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    # Killed between two logs of its own, Spark puts the file that it was about to take and the next into one batch.
    batches = len([path for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdigit()])
    assert batches in (5, 6)
    assert json.loads(done.stdout.splitlines()[-1]) == {"epoch": batches, "halted": ["bike", "w3"]}
    feed = tmp_path / "feed"
    found = sorted(path.name for path in feed.iterdir() if not path.name.startswith("."))
    assert found == list("123456")[:batches]
    parts: set[str] = set()
    for epoch in range(1, batches + 1):
        path = feed / str(epoch) / "part.parquet"
        for row in pq.read_table(path).to_pylist() if path.exists() else []:
            change = parts.add if row["_change"] == "added" else parts.remove
            change(row["whole"] + row["piece"])
    assert parts == {"w3w4", "bikew3"}


def until(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


@ONCE
def test_a_store_commits_the_batch_with_the_epoch(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    """A batch that Spark delivers again, because it was killed before it noted the batch as done, is skipped."""
    source.edges("+", "ab", "bc")
    with sempre.Database(REACH, spark=spark, store=tmp_path / "store") as db:
        run(db, source.stream(), tmp_path)
        batches, epoch = dict(db._engine.snapshot.batches), db.epoch
        assert list(batches.values()) == [0]
    # The store has the batch, Spark's checkpoint does not know: what a kill between the two leaves.
    for commit in (tmp_path / "checkpoint" / "commits").iterdir():
        commit.unlink()
    with sempre.Database(REACH, spark=spark, store=tmp_path / "store") as db:
        assert db._engine.snapshot.batches == batches
        source.edges("-", "bc")
        run(db, source.stream(), tmp_path)
        assert db.epoch == epoch + 1, "the first batch came twice and was applied once"
        assert pairs(db) == {"ab"}
        assert list(db._engine.snapshot.batches.values()) == [1]
        assert db.verify().ok


ACTIVE = """
.pragma "semantics" "active"
.decl edge(x: symbol, y: symbol)
.decl blocked(x: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


@ONCE
def test_active_rules_follow_a_stream(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    fails = [True]

    def on_changes(changes: sempre.ChangeSet) -> None:
        if fails[0]:
            raise RuntimeError("not now")
        told.append((active.epoch, changes.size("reach")))

    with sempre.Database(ACTIVE, spark=spark) as active:
        source.edges("insert", "ab", "bc")
        with pytest.raises(Exception, match="not now"):
            run(active, source.stream(), tmp_path, on_changes=on_changes, feed=tmp_path / "feed")
        assert (active.epoch, pairs(active)) == (0, set())
        fails[0] = False
        source.edges("+", "cd")
        run(active, source.stream(), tmp_path, on_changes=on_changes, feed=tmp_path / "feed")
        assert (told, active.epoch, pairs(active)) == ([(0, 3), (1, 3)], 2, {"ab", "bc", "cd", "ac", "bd", "ad"})
        run(active, source.stream(), tmp_path, on_changes=on_changes, feed=tmp_path / "feed")
        assert (len(told), active.epoch) == (2, 2)
        assert sorted(path.name for path in (tmp_path / "feed").iterdir()) == ["1", "2"]


def test_columns_of_a_stream_are_found_whatever_their_case(db: sempre.Database, source: Source, tmp_path: Path) -> None:
    source.edges("insert", "ab")
    stream = source.stream().selectExpr("y as Y", "operation", "x as X")
    run(db, stream, tmp_path, relation="edge")
    assert pairs(db) == {"ab"}
    with pytest.raises(DataError, match="is in the stream 2 times"):
        db.maintain(source.stream().selectExpr("x", "y as x", "y", "operation"), relation="edge")
    with pytest.raises(DataError, match="column `y` of relation `edge` is not in the stream"):
        db.maintain(source.stream().selectExpr("x", "operation", "relation as z"), relation="edge")
