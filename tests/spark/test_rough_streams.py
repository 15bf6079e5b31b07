"""Streams as they are: updates by key, nulls, decimals, and rows that cannot be taken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import sempre
from sempre.diagnostics import DataError
from tests.spark.conftest import ONCE
from tests.spark.test_streams import Source, progress_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = """
.decl price(item: symbol, shop: symbol, cost: number)
.type List = [head: number, tail: List]
.decl tag(item: symbol, list: List)
.decl dear(item: symbol)
dear(i) :- price(i, _, c), c > 1000.
"""
SCHEMA = "relation string, op string, item string, shop string, cost decimal(12,3), list string, at bigint"
OPTIONS: dict[str, Any] = {
    "operation": "op", "order": "at", "keys": {"price": ["item"]}, "nulls": {"shop": "nowhere"}, "decimals": {"cost": 2}
}  # fmt: skip


def price(op: str, item: str | None, cost: float | None = None, at: int = 0, shop: str | None = None) -> dict[str, Any]:
    return {"relation": "price", "op": op, "item": item, "shop": shop, "cost": cost, "at": at}


def rejected(folder: Path) -> list[tuple[Any, ...]]:
    """Batch, relation and reason of every row."""
    rows = pq.read_table(folder).to_pylist() if list(folder.glob("*.parquet")) else []
    assert all(Path(row["_file"]).suffix == ".json" or not row["_file"] for row in rows)
    assert all('"relation"' in row["_row"] for row in rows)
    return [(row["_batch"], row["_relation"], row["_reason"]) for row in rows]


def test_updates_nulls_decimals_and_rejects(spark: SparkSession, tmp_path: Path) -> None:
    source, folder = Source(spark, tmp_path / "source"), tmp_path / "rejects"
    with sempre.Database(RULES, spark=spark) as db:
        options = {**OPTIONS, "checkpoint": tmp_path / "checkpoint", "rejects": folder}
        source.write(price("c", "a", 9.99), price("r", "b", 20.5, shop="s"))
        stream = db.maintain(source.stream(SCHEMA), **options)
        stream.process_available()
        assert set(db["price"]) == {("a", "nowhere", 999), ("b", "s", 2050)}
        source.write(
            price("u", "a", 10.01, at=1), price("d", "b", at=1), price("U", "c", 1, at=1), price("u", "c", 2, at=2)
        )
        stream.process_available()
        assert set(db["price"]) == {("a", "nowhere", 1001), ("c", "nowhere", 200)}
        assert set(db["dear"]) == {("a",)}
        assert rejected(folder) == []
        tag = {"relation": "tag", "op": "+", "item": "a", "at": 1}
        source.write(
            price("u", "a", 12.345),
            price("u", None, 1),
            price("upsort", "a", 1),
            {**tag, "list": "[1, nil]"},
            {**tag, "list": "[1, nul]"},
            {**tag, "op": "u", "list": "nil"},
            {**tag, "relation": "tog"},
            {"relation": "price", "item": "d"},
            price("u", "d", 3.25),
        )
        stream.process_available()
        assert set(db["price"]) == {("a", "nowhere", 1001), ("c", "nowhere", 200), ("d", "nowhere", 325)}
        assert [row[0] for row in db["tag"]] == ["a"]
        reasons = [
            ("price", "column `cost` of relation `price`: a decimal has more than 2 places after the point"),
            ("price", "column `item` of relation `price`: a null"),
            ("price", "column `op` of the stream has `upsort`"),
            ("tag", "a record of relation `tag`: `[1, nul]`"),
            ("tag", "column `op` of the stream has `u`"),
            ("tog", "relation `tog` is not declared"),
            ("price", "column `op` of the stream: a null"),
        ]
        found = rejected(folder)
        assert [(batch, name) for batch, name, _ in found] == [(2, name) for name, _ in reasons]
        for (_, _, why), (_, begin) in zip(found, reasons, strict=True):
            assert why.startswith(begin)
        assert progress_of(stream).rejected == 7
        assert db.verify().ok
        stream.stop()


@ONCE
def test_a_batch_that_comes_again_is_rejected_once(spark: SparkSession, tmp_path: Path) -> None:
    """The epoch fails after the rows were written; the stream is started again from its checkpoint."""
    source, folder = Source(spark, tmp_path / "source"), tmp_path / "rejects"
    source.write(price("c", "a", 1), price("c", None, 1))
    options = {**OPTIONS, "checkpoint": tmp_path / "checkpoint", "rejects": folder, "trigger": {"availableNow": True}}

    def fail(changes: sempre.ChangeSet) -> None:
        raise RuntimeError("the power is gone")

    with sempre.Database(RULES, spark=spark) as db:
        with pytest.raises(RuntimeError):
            db.maintain(source.stream(SCHEMA), on_changes=fail, **options).await_termination(120)
        assert (len(db["price"]), len(rejected(folder))) == (0, 1)
        assert db.maintain(source.stream(SCHEMA), **options).await_termination(120)
        assert (len(db["price"]), len(rejected(folder))) == (1, 1)


@ONCE
def test_what_does_not_fit_is_said_at_once(spark: SparkSession, tmp_path: Path) -> None:
    stream = Source(spark, tmp_path / "source").stream(SCHEMA)
    with sempre.Database(RULES, spark=spark) as db:
        for options, text in (
            ({"keys": {"price": ["it"]}}, "keys: relation `price` has no column `it`"),
            ({"keys": {"prize": ["item"]}}, "keys: the stream does not change a relation `prize`"),
            ({"nulls": {"shap": "x"}}, "nulls: no relation of the stream has a column `shap`"),
            ({"decimals": {"cost": 19}}, "`decimals`: `19` is no scale for column `cost`"),
        ):
            with pytest.raises(DataError, match=text):
                db.maintain(stream, operation="op", **options)
