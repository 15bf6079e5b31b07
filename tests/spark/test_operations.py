"""The rows of a stream as operations, by frames that stand for batches; and the feed that tells of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram
from sempre.diagnostics import DataError, StateError
from sempre.files.columns import empty_table, table_of
from sempre.lang.parser import parse
from sempre.spark.feed import Feed
from sempre.spark.operations import Columns, StreamReader, last_operations
from tests.spark.conftest import ONCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


TEXT = """
.decl edge(x: symbol, y: symbol)
.decl size(x: symbol, n: number)
.decl on()
.decl when(x: symbol, y: number)
"""


@pytest.fixture(scope="module")
def checked() -> CheckedProgram:
    return check(parse(TEXT, "t.dl"), {"t.dl": TEXT})


def read(checked: CheckedProgram, df: DataFrame, **columns: Any) -> dict[str, Any]:
    """Place in the order, sign and values of every row, by relation."""
    found = StreamReader(checked, df.schema, Columns(**columns)).read(df, "the batch")
    result = {}
    for name, given in found.items():
        rows = given.table.to_pylist() if given.table.num_columns else [{}] * given.inserts.size
        marked = zip(given.ranks.tolist(), given.inserts.tolist(), rows, strict=True)
        result[name] = sorted((rank, "+" if insert else "-", *row.values()) for rank, insert, row in marked)
    return result


def test_relations_of_different_columns_in_one_stream(checked: CheckedProgram, spark: SparkSession) -> None:
    df = spark.createDataFrame(
        [
            ("edge", "insert", "a", "b", None),
            ("size", "delete", "a", None, 3),
            ("edge", "-", "b", "c", None),
            ("on", "+", None, None, None),
        ],
        "relation string, operation string, x string, y string, n int",
    )
    assert read(checked, df) == {
        "edge": [(0, "+", "a", "b"), (0, "-", "b", "c")],
        "size": [(0, "-", "a", 3)],
        "on": [(0, "+")],
    }


def test_changes_as_delta_has_them(checked: CheckedProgram, spark: SparkSession) -> None:
    rows = [("a", "b", "update_preimage", 7), ("a", "c", "update_postimage", 7), ("d", "d", "insert", 5)]
    df = spark.createDataFrame(rows, "x string, y string, _change_type string, _commit_version bigint")
    assert read(checked, df, relation="edge") == {
        "edge": [(1, "+", "d", "d"), (2, "+", "a", "c"), (2, "-", "a", "b")],
    }


def test_a_stream_without_operations_inserts(checked: CheckedProgram, spark: SparkSession) -> None:
    df = spark.createDataFrame([("b", "a", 1)], "y string, x string, note int")
    assert read(checked, df, relation="edge") == {"edge": [(0, "+", "a", "b")]}
    assert read(checked, df.filter("note = 2"), relation="edge") == {}


@ONCE
def test_columns_of_other_names(checked: CheckedProgram, spark: SparkSession) -> None:
    df = spark.sql("select 'edge' rel, '+' op, timestamp'2020-01-01 00:00:00' ts, 'a' x, 'b' y")
    df = df.union(spark.sql("select 'edge', '-', timestamp'2019-01-01 00:00:00', 'a', 'b'"))
    found = read(checked, df, relation_column="rel", operation="op", order="ts")
    assert found == {"edge": [(1, "-", "a", "b"), (2, "+", "a", "b")]}


@ONCE
def test_words_in_any_case_and_those_of_debezium(checked: CheckedProgram, spark: SparkSession) -> None:
    words = {"c": "+", "R": "+", "d": "-", "D": "-", "INSERT": "+", "Delete": "-", "Update_PostImage": "+"}
    df = spark.createDataFrame([(word, word, "b") for word in words], "op string, x string, y string")
    found = read(checked, df, relation="edge", operation="op")["edge"]
    assert {row[-2]: row[1] for row in found} == words
    with pytest.raises(DataError, match="An update is the row that was there, deleted"):
        read(checked, spark.sql("select 'U' op, 'a' x, 'b' y"), relation="edge", operation="op")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (("edge", "upsert", "a", "b"), "column `operation` of the stream has `upsert`"),
        (("egde", "+", "a", "b"), "the stream changes relation `egde`, which is not declared"),
        (("edge", "+", "a", None), "column `y` of relation `edge`: 1 null"),
        (("edge", None, "a", "b"), "column `operation` of the stream: 1 null"),
        ((None, "+", "a", "b"), "column `relation` of the stream: 1 null"),
        (("size", "+", "a", "b"), "column `n` of relation `size` is not in the stream"),
        (("when", "+", "a", "b"), "column `y` of relation `when`: a column of type string cannot be read"),
    ],
)
def test_rows_that_are_wrong(checked: CheckedProgram, spark: SparkSession, row: tuple[Any, ...], text: str) -> None:
    schema = "relation string, operation string, x string, y string"
    df = spark.createDataFrame([("edge", "+", "a", "b"), row], schema)
    with pytest.raises(DataError, match=text):
        read(checked, df)


@ONCE
def test_the_last_operation_on_a_fact_wins() -> None:
    """Compared with a loop over the operations in their order."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        size = int(rng.integers(0, 12))
        columns = [rng.integers(0, 3, size), rng.integers(0, 2, size)]
        inserts, ranks = rng.integers(0, 2, size).astype(np.bool_), rng.integers(0, 4, size)
        wanted: dict[tuple[int, ...], bool] = {}
        for at in sorted(range(size), key=lambda at: (ranks[at], inserts[at])):
            wanted[tuple(int(column[at]) for column in columns)] = bool(inserts[at])
        plus, minus = last_operations(columns, inserts, ranks)
        facts = [tuple(int(column[at]) for column in columns) for at in (*plus, *minus)]
        assert dict(zip(facts, [True] * plus.size + [False] * minus.size, strict=True)) == wanted
        assert len(facts) == len(wanted)


class Edges:
    """Changes that add these edges."""

    def __init__(self, checked: CheckedProgram, *pairs: str) -> None:
        nothing = {name: empty_table(relation) for name, relation in checked.relations.items()}
        edges = table_of(checked.relations["edge"], [[p[0] for p in pairs], [p[1] for p in pairs]])
        self.added: dict[str, pa.Table] = {**nothing, "edge": edges}
        self.removed: dict[str, pa.Table] = nothing


@ONCE
def test_a_feed_has_every_epoch_once(checked: CheckedProgram, tmp_path: Path) -> None:
    feed = Feed.at(tmp_path / "deep" / "feed", checked)
    feed.write(1, ("s", 0), Edges(checked, "ab"))
    feed.write(2, ("s", 1), Edges(checked))
    path = feed.folder / "1" / "edge.parquet"
    before = path.stat().st_mtime_ns
    feed.write(1, ("s", 0), Edges(checked, "ab"))
    assert path.stat().st_mtime_ns == before
    assert pq.read_table(path).to_pylist() == [{"x": "a", "y": "b", "_epoch": 1, "_change": "added"}]
    names = [sorted(path.name for path in (feed.folder / number).iterdir()) for number in "12"]
    assert names == [["_epoch.json", "edge.parquet"], ["_epoch.json"]]
    for batch, pairs in ((("s", 1), ["ab"]), (("t", 0), ["ab"]), (("s", 0), ["ab", "cd"])):
        with pytest.raises(StateError, match="is of another history"):
            feed.write(1, batch, Edges(checked, *pairs))


@ONCE
def test_a_feed_that_cannot_be_written(checked: CheckedProgram, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        Feed.at(tmp_path / "file", checked)
