"""Batches of a stream into active rules: told before they are committed, remembered, and applied once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sempre
from sempre.spark.batches import Batch
from sempre.spark.operations import Operations

RULES = """
.pragma "semantics" "active"
.decl up(x: symbol)
.decl link(x: symbol, y: symbol)
up(y) :- up(x), link(x, y).
"""


def batch(*pairs: str) -> Batch:
    table = pa.table({"x": [pair[0] for pair in pairs], "y": [pair[1] for pair in pairs]})
    size = len(pairs)
    return Batch(size, {"link": Operations(table, np.ones(size, np.bool_), np.zeros(size, np.int64))})


@pytest.fixture
def db() -> sempre.Database:
    db = sempre.Database(RULES)
    db.apply(insert={"up": [("a",)]})
    return db


def test_changes_are_told_before_they_can_be_seen(db: sempre.Database) -> None:
    told: list[tuple[int, int, int, list[object]]] = []

    def publish(epoch: int, changes: sempre.ChangeSet) -> None:
        told.append((epoch, db.epoch, len(db["up"]), changes.added["up"].to_pylist()))

    report = db._take_batch(batch("ab", "bc"), ("s", 0), publish)
    assert told == [(2, 1, 1, [{"x": "b"}, {"x": "c"}])]
    assert (report.epoch, report.rows, report.added["up"]) == (2, 2, 2)
    assert (db._last_batch("s"), db._last_batch("t"), sorted(db["up"])) == (0, -1, [("a",), ("b",), ("c",)])


def test_a_publisher_that_raises_leaves_no_epoch(db: sempre.Database) -> None:
    def refuse(epoch: int, changes: sempre.ChangeSet) -> None:
        raise RuntimeError("not now")

    with pytest.raises(RuntimeError, match="not now"):
        db._take_batch(batch("ab"), ("s", 0), refuse)
    assert (db.epoch, db._last_batch("s"), sorted(db["up"])) == (1, -1, [("a",)])
    assert db.verify().ok
    db._take_batch(batch("ab"), ("s", 0), lambda epoch, changes: None)
    assert (db.epoch, db._last_batch("s"), sorted(db["up"])) == (2, 0, [("a",), ("b",)])


def test_batches_are_remembered_by_later_epochs(db: sempre.Database) -> None:
    db._take_batch(batch("ab"), ("s", 0), lambda epoch, changes: None)
    db.apply(insert={"link": [("b", "c")]})
    db.start(insert={"link": [("c", "d")]})
    db.wait()
    db._take_batch(batch("de"), ("t", 4), lambda epoch, changes: None)
    assert (db._last_batch("s"), db._last_batch("t"), len(db["up"])) == (0, 4, 5)
