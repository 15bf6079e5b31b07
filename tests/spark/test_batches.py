"""Batches of streams that stay on the cluster: the same facts, changes and errors as in the driver."""

from __future__ import annotations

import datetime as dt
import gc
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.diagnostics import SempreError
from sempre.limits import DEFAULTS, Limits
from sempre.spark.batches import Batches
from sempre.spark.operations import Columns, StreamReader
from tests.inside import cluster_of, engine_of
from tests.spark.conftest import KIND, ONCE, sample
from tests.spark.test_staying import symbols_in_driver
from tests.spark.test_streams import REACH, SCHEMA, Source, pairs, progress_of, run

PROGRAM = """
.type pair = [n: number, s: symbol]
.decl edge(x: symbol, y: symbol)
.decl level(f: float, u: unsigned)
.decl tag(p: pair)
.decl on()
.decl back(x: symbol, y: symbol)
back(y, x) :- edge(x, y).
.decl shown(f: float, p: pair)
shown(f, p) :- level(f, _), tag(p), on().
"""
FIELDS = "relation string, operation string, x string, y string, f double, u decimal(20,0), p string"
RELATIONS = ("edge", "level", "tag", "on", "back", "shown")
# A place in the order as each kind of column has it, from a number; texts go by code points, not by UTF-16.
ORDERS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "bigint": ("bigint", lambda at: at - 3),
    "date": ("date", lambda at: dt.date(1969, 12, 29) + dt.timedelta(at)),
    "timestamp": ("timestamp", lambda at: dt.datetime(2020, 1, 1, microsecond=7 * at)),
    "string": ("string", lambda at: ["", "9", "B", "a", "é", "\uffee", "\U0001f600"][at]),
}


def random_row(rng: random.Random, order: Callable[[int], Any]) -> tuple[Any, ...]:
    """A row that changes one of a few facts, which have several spellings; what it does not need may be anything."""
    relation = rng.choice(["edge", "edge", "level", "tag", "on"])
    word = rng.choice(["insert", "+", "update_postimage", "delete", "-", "update_preimage"])
    x, y = rng.choice("abc"), rng.choice("abc")
    f, u = rng.choice([0.0, -0.0, nan, 1.5]), Decimal(rng.choice([0, 2**64 - 1]))
    p = rng.choice(["[1, a]", "[1,a]", " [ 1 , a ]", "[2, b]", "nil"])
    values = {"edge": (x, y, None, None, None), "level": (None, None, f, u, None), "tag": (x, None, None, None, p)}
    rest = values.get(relation, (None, None, None, None, "no record"))
    return (relation, word, *(rest[:3]), rest[3], rest[4], order(rng.randrange(7)))


def plain(row: tuple[Any, ...]) -> tuple[str, Any]:
    """The fact that a row is about, in one spelling."""
    relation, _, x, y, f, u, p, _ = row
    if relation == "edge":
        return relation, (x, y)
    if relation == "level":
        return relation, ("nan" if f != f else f + 0.0, u)
    return relation, "".join(p.split()) if relation == "tag" else ()


class Follower:
    """A database that takes frames as if they were batches of a stream."""

    def __init__(self, db: sempre.Database, schema: Any, **columns: Any) -> None:
        self.db = db
        db.epoch  # noqa: B018  # materialized, as by `maintain`
        self.batches = Batches(StreamReader(db.program.checked, schema, Columns(**columns)), db._staying)
        self.count = 0
        self.changes: Any = None

    def take(self, df: Any) -> Any:
        batch = self.batches.read(df, "the batch")

        def publish(epoch: int, changes: Any) -> None:
            self.changes = changes

        report = self.db._take_batch(batch, ("stream", self.count), publish)
        self.count += 1
        return report

    def outcome(self, df: Any) -> Any:
        try:
            return self.take(df).rows
        except SempreError as error:
            return [(type(error).__mro__[-4], found.code, found.message, found.hint) for found in error.diagnostics]

    def state(self) -> dict[str, list[str]]:
        return {name: sorted(map(repr, self.db[name])) for name in RELATIONS}

    def changed(self) -> dict[str, tuple[list[str], ...]]:
        sides = (self.changes.added, self.changes.removed)
        return {name: tuple(sorted(map(repr, rows_of(side[name]))) for side in sides) for name in RELATIONS}


def rows_of(table: Any) -> list[Any]:
    if not table.num_columns:
        return [()] * table.num_rows
    return [tuple(row.values()) for row in table.to_pylist()]


# Two rows are many: a batch is written, and read from files.
IN_FILES = Limits(driver_rows=2)
CASES = [("string", False, 3), ("", False, 1), ("timestamp", True, 5)]
MORE_CASES = [pytest.param(*case, marks=pytest.mark.slow) for case in (("bigint", True, 2), ("date", False, 4))]


@pytest.mark.parametrize(("kind", "in_files", "seed"), sample([*CASES, *MORE_CASES], connect=1))
def test_the_same_batches_make_the_same_epochs(spark: Any, kind: str, in_files: bool, seed: int) -> None:
    """Compared with the driver and with a loop over the operations, after every batch."""
    rng = random.Random(seed)
    limits = IN_FILES if in_files else DEFAULTS
    type_, order = ORDERS[kind or "bigint"]
    schema = f"{FIELDS}, at {type_}"
    wanted: set[tuple[str, Any]] = set()
    with ExitStack() as stack:
        followers: list[Follower] = []
        for place in ("driver", "cluster"):
            db = stack.enter_context(sempre.Database(PROGRAM, spark=spark, place=place, limits=limits))
            like = spark.createDataFrame([], schema).schema
            followers.append(Follower(db, like, order="at" if kind else None))
        here, there = followers
        for size in (14, 0, 20) if seed == 1 else (14, 20):
            rows = [random_row(rng, order) for _ in range(size)]
            df = spark.createDataFrame(rows, schema).repartition(2)
            reports = [follower.take(df) for follower in followers]
            assert [report.rows for report in reports] == [size, size]
            assert there.changed() == here.changed()
            assert there.state() == here.state()
            assert reports[0].added == reports[1].added
            inserts = ("insert", "+", "update_postimage")
            places = [(rows[at][-1] if kind else 0, rows[at][1] in inserts, at) for at in range(size)]
            for _, is_insert, at in sorted(places):
                (wanted.add if is_insert else wanted.discard)(plain(rows[at]))
            sizes = {name: len([fact for fact in wanted if fact[0] == name]) for name in RELATIONS[:4]}
            assert {name: len(there.db[name]) for name in sizes} == sizes
        assert sorted(there.db["edge"]) == sorted(fact for name, fact in wanted if name == "edge")


# ---------------------------------------------------------------------------------------------------- what is wrong

GOOD = ("edge", "+", "a", "b", None, None, None, 1)
NEGATIVE = ("level", "+", None, None, 1.0, Decimal(-1), None, 1)
BAD: dict[str, list[tuple[Any, ...]]] = {
    "operation": [("edge", "upsert", "a", "b", None, None, None, 1)],
    "operations": [("edge", word, "a", "b", None, None, None, 1) for word in ("z", "y", "x", "w", "y")],
    "no operation": [("edge", None, "a", "b", None, None, None, 1)],
    "relation": [("egde", "+", "a", "b", None, None, None, 1)],
    "relations": [(name, "+", "a", "b", None, None, None, 1) for name in ("é", "q", "levle", "", "q")],
    "no relation": [(None, "+", "a", "b", None, None, None, 1)] * 2,
    "no order": [("edge", "-", "a", "b", None, None, None, None)],
    "nulls": [("edge", "+", "a", None, None, None, None, 1)] * 2 + [("level", "-", None, None, None, None, None, 1)],
    "range": [NEGATIVE],
    "null and range": [NEGATIVE, ("edge", "-", None, None, None, None, None, 1)],
    "record": [("tag", "+", None, None, None, None, "[x, a]", 1)],
    "null record": [("tag", "-", None, None, None, None, None, 1)],
    "record and null": [("tag", "+", None, None, None, None, "[", 1), ("edge", "-", "a", None, None, None, None, 1)],
    "several": [("egde", None, "a", "b", None, None, None, None), ("edge", "?", "a", "b", None, None, None, 1)],
    "not in the stream": [("other", "+", "a", "b", None, None, None, 1), ("misfit", "-", "a", None, None, None, "", 1)],
}
EXTRA = "\n.decl other(x: symbol, z: symbol)\n.decl misfit(x: number, p: pair)\n"


@pytest.fixture(scope="module")
def both(spark: Any) -> Iterator[list[Follower]]:
    """A database in the driver, and one on the cluster."""
    schema = spark.createDataFrame([], f"{FIELDS}, at bigint").schema
    with ExitStack() as stack:
        options: list[dict[str, Any]] = [{"place": "driver"}, {"place": "cluster"}]
        dbs = [stack.enter_context(sempre.Database(PROGRAM + EXTRA, spark=spark, **each)) for each in options]
        yield [Follower(db, schema, order="at") for db in dbs]


def outcomes(both: list[Follower], df: Any) -> list[Any]:
    """What comes of a batch in the driver, on the cluster, and there if it is written before."""
    found = [follower.outcome(df) for follower in both]
    cluster_of(both[1].db).scratch.limits = Limits(driver_rows=0)
    return [*found, both[1].outcome(df)]


@pytest.mark.parametrize("name", sample(reversed(BAD), connect=3))
def test_what_is_wrong_is_said_in_the_same_words(spark: Any, both: list[Follower], name: str) -> None:
    df = spark.createDataFrame([GOOD, *BAD[name]], f"{FIELDS}, at bigint")
    here, there, written = outcomes(both, df)
    assert there == here
    assert written == here
    assert all(code.startswith("E5") for _, code, _, _ in here)
    assert [follower.db.epoch for follower in both] == [0, 0]


@pytest.mark.parametrize("column", sample(["y", "operation", "relation"], connect=1))
def test_bytes_that_are_no_text(spark: Any, both: list[Follower], column: str) -> None:
    df = spark.createDataFrame([GOOD], f"{FIELDS}, at bigint")
    df = df.selectExpr(*(f"cast(X'ff' as string) {name}" if name == column else name for name in df.columns))
    here, there, written = outcomes(both, df)
    assert there == here
    assert written == here
    assert here[0][1] == "E505"


# ------------------------------------------------------------------------------------------------- what stays


FLAT = ".decl edge(x: symbol, y: symbol)\n.decl back(x: symbol, y: symbol)\nback(y, x) :- edge(x, y).\n"


def reach_batch(spark: Any, start: int, stop: int, sign: str = "+") -> Any:
    """Edges of a chain."""
    return spark.range(start, stop).selectExpr(
        "'edge' as relation", f"'{sign}' as operation", "concat('n', id) as x", "concat('n', id + 1) as y", "id as at"
    )


@pytest.mark.parametrize("in_files", sample([True, False], connect=1))
def test_rows_stay_on_the_cluster_and_nothing_else_does(spark: Any, in_files: bool) -> None:
    limits = IN_FILES if in_files else DEFAULTS
    with sempre.Database(FLAT, spark=spark, place="cluster", limits=limits) as db:
        known = symbols_in_driver(db)
        df = reach_batch(spark, 0, 20)
        follower = Follower(db, df.schema, order="at")
        files = []
        for at in range(2):
            follower.take(reach_batch(spark, 20 * at, 20 * at + 20))
            follower.take(reach_batch(spark, 20 * at, 20 * at + 20, "-").union(reach_batch(spark, 0, 5)))
            follower.changes = None
            gc.collect()
            files.append(len(cluster_of(db).scratch.paths()))
        assert (len(db["edge"]), len(db["back"])) == (5, 5)
        assert symbols_in_driver(db) == known, "texts have passed through the driver"
        versions: list[Any] = list(engine_of(db).snapshot.versions.values())
        held = [table for version in versions for table in version.tables()]
        assert files[-1] <= len({id(table) for table in held})
    assert not persisted(spark)


def placement_of(changes: Any, name: str) -> str:
    return str({stratum["relations"]: stratum["placement"] for stratum in changes.report.strata}[(name,)])


def persisted(spark: Any) -> bool:
    if KIND == "connect":
        return False
    return bool(spark.sparkContext._jsc.getPersistentRDDs())


@ONCE
def test_a_batch_that_fails_leaves_nothing(spark: Any) -> None:
    with sempre.Database(FLAT, spark=spark, place="cluster", limits=IN_FILES) as db:
        follower = Follower(db, reach_batch(spark, 0, 1).schema)
        bad = reach_batch(spark, 0, 20).selectExpr("relation", "operation", "x", "nullif(y, 'n7') as y", "at")
        assert follower.outcome(bad)[0][1:3] == ("E508", "column `y` of relation `edge`: 1 null")
        gc.collect()
        assert cluster_of(db).scratch.paths() == []
        assert not persisted(spark)


def test_a_batch_is_computed_twice_at_most(spark: Any) -> None:
    """Once for nothing, to see whether it is small, unless the one before was not."""
    if KIND == "connect":
        pytest.skip("accumulators are of the classic session")
    from pyspark.sql import functions as fn

    rows = spark.sparkContext.accumulator(0)

    def count(text: str) -> str:
        rows.add(1)
        return text

    seen = fn.udf(count, "string", useArrow=False)
    with sempre.Database(FLAT, spark=spark, place="cluster", limits=Limits(driver_rows=2, fetched_rows=2)) as db:
        follower = Follower(db, reach_batch(spark, 0, 1).schema)
        counts = []
        for at in range(2):
            df = reach_batch(spark, 40 * at, 40 * at + 40).coalesce(1)
            follower.take(df.select("relation", "operation", "x", seen("y").alias("y"), "at"))
            counts.append(rows.value)
        assert 40 <= counts[0] <= 80
        assert counts[1] - counts[0] == 40


@ONCE
def test_auto_takes_small_batches_into_the_driver_by_one_job(spark: Any) -> None:
    with sempre.Database(FLAT, spark=spark, memory="1g") as db:
        follower = Follower(db, reach_batch(spark, 0, 1).schema)
        before = cluster_of(db).jobs
        follower.take(reach_batch(spark, 0, 20))
        assert cluster_of(db).jobs == before + 1
        assert follower.changes.report.placement == "driver"
        assert cluster_of(db).scratch.paths() == []


@ONCE
@pytest.mark.parametrize("in_files", sample([True, False], connect=1))
def test_auto_leaves_on_the_cluster_what_is_there_or_does_not_fit(spark: Any, in_files: bool) -> None:
    limits = IN_FILES if in_files else DEFAULTS
    with sempre.Database(REACH, spark=spark, memory=1400, limits=limits) as db:
        known = symbols_in_driver(db)
        follower = Follower(db, reach_batch(spark, 0, 1).schema)
        follower.take(reach_batch(spark, 0, 30))
        assert placement_of(follower.changes, "edge") == "cluster"
        assert len(db["reach"]) == 465
        follower.take(reach_batch(spark, 30, 31))
        assert len(db["reach"]) == 496
        assert symbols_in_driver(db) == known, "texts have passed through the driver"
        some = spark.sql("select 'blocked' as relation, '+' as operation, 'n3' as x, '' as y, 0L as at")
        report = follower.take(some.union(reach_batch(spark, 5, 10, "-")))
        assert (report.rows, symbols_in_driver(db)) == (6, known + 1), "the small relation is in the driver"
        assert len(db["reach"]) == 7 + 21 * 22 // 2
        follower.take(reach_batch(spark, 0, 30, "-"))
        assert sorted(db["reach"]) == [("n30", "n31")]
        assert db.verify().ok


@pytest.mark.parametrize("options", [{"place": "cluster"}, pytest.param({"memory": 40}, marks=pytest.mark.slow)])
def test_a_stream_on_the_cluster(spark: Any, tmp_path: Path, options: dict[str, Any]) -> None:
    """Real batches, with a feed; once, and again for a new database, which finds the feed as it would make it."""
    source = Source(spark, tmp_path / "source")
    source.edges("+", "ab", "bc", "cd")
    row = {"relation": "edge", "x": "a", "y": "b"}
    source.write(*({**row, "operation": word, "at": at} for at, word in ((9, "+"), (7, "+"), (8, "-"), (9, "-"))))
    source.write({**row, "operation": "-", "at": 2}, {**row, "operation": "+", "at": 1})
    source.write({"relation": "blocked", "operation": "+", "x": "c", "at": 1})
    assert SCHEMA.endswith("at bigint")
    stream = source.stream().selectExpr("relation", "operation", "x", "y", "coalesce(at, 0) as at")
    for _ in range(2):
        seen: list[Any] = []
        with sempre.Database(REACH, spark=spark, **options) as db:
            how: dict[str, Any] = {
                "order": "at",
                "keep_batches": True,
                "feed": tmp_path / "feed",
                "on_changes": seen.append,
            }
            last = progress_of(run(db, stream, tmp_path, **how))
            assert (last.batch, last.epoch, last.rows, db.epoch) == (3, 4, 1, 4)
            assert [changes.report.added.get("edge", 0) for changes in seen] == [3, 0, 0, 0]
            assert [changes.report.removed.get("edge", 0) for changes in seen] == [0, 0, 1, 0]
            assert placement_of(seen[0], "edge") == "cluster"
            assert (pairs(db, "edge"), pairs(db), pairs(db, "blocked")) == ({"bc", "cd"}, {"bc"}, {"c"})
            assert db.verify().ok
    assert sorted(path.name for path in (tmp_path / "feed").iterdir()) == ["1", "2", "3", "4"]


@pytest.mark.skipif(KIND == "connect", reason="batches are always kept there")
def test_a_stream_that_keeps_nothing(spark: Any, tmp_path: Path) -> None:
    """Batches as Spark hands them over, small ones and some that are written; what was applied is passed over."""
    source = Source(spark, tmp_path / "source")
    source.edges("+", "ab", "bc", "cd")
    with sempre.Database(REACH, spark=spark, place="cluster", limits=IN_FILES) as db:
        known = symbols_in_driver(db)
        run(db, source.stream(), tmp_path)
        for commit in (tmp_path / "checkpoint" / "commits").iterdir():
            commit.unlink()
        source.edges("-", "bc")
        last = progress_of(run(db, source.stream(), tmp_path))
        assert (last.batch, last.epoch, last.removed["edge"]) == (1, 2, 1)
        assert symbols_in_driver(db) == known
        assert pairs(db) == {"ab", "cd"}
        assert not persisted(spark)
    source.edges("?", "xy")
    with sempre.Database(REACH, spark=spark, place="cluster", limits=IN_FILES) as db:
        with pytest.raises(SempreError, match="column `operation` of the stream has"):
            run(db, source.stream(), tmp_path / "again")
        assert (db.epoch, pairs(db, "edge")) == (2, {"ab", "cd"})


@pytest.mark.skipif(KIND == "connect", reason="there batches are kept by one action")
def test_a_stream_with_a_state_of_its_own(spark: Any, tmp_path: Path) -> None:
    """What Spark remembers from batch to batch stands a batch that is begun twice, or read behind a limit."""
    source = Source(spark, tmp_path / "source")
    source.edges("+", "ab", "bc", "cd")
    source.edges("+", "ab", "ef")
    sizes: list[int] = []
    with sempre.Database(FLAT, spark=spark, place="cluster", limits=IN_FILES) as db:
        new = source.stream().dropDuplicates(["x", "y"])
        run(db, new, tmp_path, on_changes=lambda changes: sizes.append(changes.report.added.get("edge", 0)))
        assert (sizes, db.epoch) == ([3, 1], 2)
        for commit in (tmp_path / "checkpoint" / "commits").glob("*1*"):
            commit.unlink()
        source.edges("+", "ef", "zz")
        run(db, new, tmp_path, on_changes=lambda changes: sizes.append(changes.report.added.get("edge", 0)))
        assert (sizes, db.epoch) == ([3, 1, 1], 3), "a batch that came again was passed over"


@ONCE
def test_a_store_on_the_cluster_has_every_batch_once(spark: Any, tmp_path: Path) -> None:
    source = Source(spark, tmp_path / "source")
    source.edges("+", "ab", "bc")
    options: dict[str, Any] = {"spark": spark, "place": "cluster", "store": tmp_path / "store"}
    with sempre.Database(FLAT, **options) as db:
        run(db, source.stream(), tmp_path)
        epoch = db.epoch
    for commit in (tmp_path / "checkpoint" / "commits").iterdir():
        commit.unlink()
    source.edges("-", "bc")
    with sempre.Database(FLAT, **options) as db:
        run(db, source.stream(), tmp_path)
        assert (db.epoch, pairs(db, "back")) == (epoch + 1, {"ba"})
        assert list(db._engine.snapshot.batches.values()) == [1]
