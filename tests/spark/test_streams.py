"""Databases that follow a stream: every batch an epoch, applied once, whatever is stopped or killed."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sempre
from sempre.diagnostics import BackendError, DataError, SempreError, StateError
from tests.spark.conftest import KIND

REACH = """
.decl edge(x: symbol, y: symbol)
.decl blocked(x: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y), !blocked(x).
reach(x, z) :- reach(x, y), edge(y, z), !blocked(y).
"""
SCHEMA = "relation string, operation string, x string, y string, at bigint"
NOW = {"availableNow": True}


class Source:
    """A folder of JSON files, each of which is a batch."""

    def __init__(self, spark: Any, folder: Path) -> None:
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
        self.write(*({"relation": "edge", "operation": sign, "x": x, "y": y} for x, y in pairs))

    def stream(self, schema: str = SCHEMA) -> Any:
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))


@pytest.fixture
def source(spark: Any, tmp_path: Path) -> Source:
    return Source(spark, tmp_path / "source")


@pytest.fixture
def db(spark: Any) -> Iterator[sempre.Database]:
    with sempre.Database(REACH, spark=spark) as db:
        yield db


def pairs(db: sempre.Database, name: str = "reach") -> set[str]:
    return {"".join(row) for row in db[name]}


def run(db: sempre.Database, stream: Any, folder: Path, **options: Any) -> Any:
    """Apply all that the stream has now."""
    maintenance = db.maintain(stream, checkpoint=folder / "checkpoint", trigger=NOW, **options)
    assert maintenance.await_termination(120)
    return maintenance


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
    progress = maintenance.last_progress
    assert (progress.batch, progress.epoch, progress.rows) == (2, 3, 2)
    assert maintenance.is_active
    assert maintenance.exception() is None
    maintenance.stop()
    assert not maintenance.is_active
    assert maintenance.await_termination(1)
    assert [changes.report.added.get("reach", 0) for changes in seen] == [3, 3, 0]
    assert sorted(path.name for path in (tmp_path / "feed").iterdir()) == ["1", "2", "3"]
    rows = pq.read_table(tmp_path / "feed" / "3" / "reach.parquet").to_pylist()
    assert {(row["x"] + row["y"], row["_epoch"], row["_change"]) for row in rows} == {
        (pair, 3, "removed") for pair in ("ab", "ac", "ad", "bd", "cd")
    }


def test_the_last_operation_wins_by_the_order(db: sempre.Database, source: Source, tmp_path: Path) -> None:
    row = {"relation": "edge", "x": "a", "y": "b"}
    source.write(*({**row, "operation": word, "at": at} for at, word in ((3, "-"), (1, "+"), (2, "-"))))
    source.write(*({**row, "operation": word, "at": at} for at, word in ((9, "+"), (7, "+"), (8, "-"), (9, "-"))))
    run(db, source.stream(), tmp_path, order="at")
    assert pairs(db, "edge") == {"ab"}  # of two at the same place the insertion
    source.write(*({**row, "operation": word, "at": at} for at, word in ((10, "+"), (11, "-"))))
    run(db, source.stream(), tmp_path, order="at")
    assert pairs(db, "edge") == set()


def test_changes_as_delta_has_them(db: sempre.Database, source: Source, tmp_path: Path) -> None:
    schema = "x string, y string, _change_type string, _commit_version bigint"
    rows = [("ab", "insert", 1), ("ab", "update_preimage", 2), ("ac", "update_postimage", 2), ("cd", "insert", 2)]
    rows += [("cd", "delete", 4), ("ac", "update_preimage", 5), ("ab", "update_postimage", 5)]
    for part in (rows[:4], rows[4:]):
        source.write(*({"x": p[0], "y": p[1], "_change_type": word, "_commit_version": at} for p, word, at in part))
    run(db, source.stream(schema), tmp_path, relation="edge")
    assert (db.epoch, pairs(db)) == (2, {"ab"})


def test_a_stream_without_operations_inserts(db: sempre.Database, source: Source, tmp_path: Path) -> None:
    source.write({"x": "a", "y": "b"}, {"x": "b", "y": "c"})
    run(db, source.stream("y string, x string, note string"), tmp_path, relation="edge")
    assert pairs(db) == {"ab", "ac", "bc"}


def test_a_stream_goes_on_where_it_stopped(db: sempre.Database, source: Source, tmp_path: Path) -> None:
    source.edges("+", "ab")
    run(db, source.stream(), tmp_path)
    source.edges("+", "bc")
    assert run(db, source.stream(), tmp_path).last_progress.batch == 1
    assert (db.epoch, pairs(db)) == (2, {"ab", "ac", "bc"})


def test_a_new_database_on_an_old_checkpoint(spark: Any, db: sempre.Database, source: Source, tmp_path: Path) -> None:
    source.edges("+", "ab")
    run(db, source.stream(), tmp_path, feed=tmp_path / "feed")
    source.edges("+", "bc")
    with sempre.Database(REACH, spark=spark) as other:
        if KIND == "connect":  # batches are kept there: nothing is missing
            run(other, source.stream(), tmp_path, feed=tmp_path / "feed")
        else:
            with pytest.raises(StateError, match="goes on with batch 1, and this database has seen nothing of it"):
                run(other, source.stream(), tmp_path)
            assert other.epoch == 0
            other.apply(insert={"edge": [("a", "b")]})
            run(other, source.stream(), tmp_path, trust_checkpoint=True)
        assert pairs(other) == {"ab", "ac", "bc"}


def test_kept_batches_bring_a_new_database_up_to_date(
    spark: Any, db: sempre.Database, source: Source, tmp_path: Path
) -> None:
    source.edges("+", "ab", "zz")
    source.edges("-", "zz")
    run(db, source.stream(), tmp_path, keep_batches=True, feed=tmp_path / "feed")
    source.edges("+", "bc")
    with sempre.Database(REACH, spark=spark) as other:
        run(other, source.stream(), tmp_path, keep_batches=True, feed=tmp_path / "feed")
        assert (other.epoch, pairs(other)) == (3, {"ab", "ac", "bc"})
    assert sorted(path.name for path in (tmp_path / "feed").iterdir()) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"relation": "edge", "operation": "upsert", "x": "a", "y": "b"}, "E517"),
        ({"relation": "egde", "operation": "+", "x": "a", "y": "b"}, "did you mean `edge`"),
        ({"relation": "edge", "operation": "+", "x": "a"}, "column `y` of relation `edge`: 1 null"),
        ({"relation": "edge", "x": "a", "y": "b"}, "column `operation` of the stream: 1 null"),
    ],
)
def test_a_bad_row_ends_the_stream_and_leaves_the_last_epoch(
    db: sempre.Database, source: Source, tmp_path: Path, row: dict[str, Any], text: str
) -> None:
    source.edges("+", "ab")
    source.write({"relation": "edge", "operation": "+", "x": "b", "y": "c"}, row)
    maintenance = db.maintain(source.stream(), checkpoint=tmp_path / "checkpoint", trigger=NOW)
    with pytest.raises(DataError) as caught:
        maintenance.await_termination(120)
    assert text in str(caught.value)
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


def test_a_feed_of_another_history(spark: Any, db: sempre.Database, source: Source, tmp_path: Path) -> None:
    source.edges("+", "ab")
    run(db, source.stream(), tmp_path, feed=tmp_path / "feed")
    with sempre.Database(REACH, spark=spark) as other, pytest.raises(StateError, match="another history"):
        run(other, source.stream(), tmp_path / "other", feed=tmp_path / "feed")


def test_what_is_wrong_with_a_stream_is_said_before_it_starts(
    db: sempre.Database, source: Source, spark: Any, tmp_path: Path
) -> None:
    def fails(text: str, stream: Any, **options: Any) -> None:
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
