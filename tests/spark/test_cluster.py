"""Strata as DataFrames: the same facts, changes and counters as anywhere else, and nothing left behind."""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import subprocess
import threading
from dataclasses import replace
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sempre
from sempre.analysis.model import Kind
from sempre.limits import Limits
from tests.budget import scaled
from tests.engine import STRATEGIES as EVERY_STRATEGY
from tests.engine import UNHURRIED, check_epochs
from tests.inside import cluster_of
from tests.oracle.values import OracleError, canonical
from tests.property.programs import random_case
from tests.property.valued import by_relation, valued_case
from tests.scripts.script import read
from tests.spark.conftest import KIND, ONCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SCRIPTS = Path(__file__).parents[1] / "scripts"

REACH = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


STRATEGIES = ("recompute", "dredc", "elastic")
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.dl"))


def sampled(names: list[str], every: int, first: int = 0) -> list[tuple[str, str]]:
    """Some of the scripts, each with one of the strategies, all of which come up; the slow tests have more of both."""
    return [(name, EVERY_STRATEGY[(first + at) % len(EVERY_STRATEGY)]) for at, name in enumerate(names[::every])]


MORE_SEEDS = (*range(100, 120), 167, 177, 231, 373)  # many of these have records
MORE_SCRIPTS = [pair for start in range(3) for pair in sampled(NAMES, 1, 3 * start)]
# Nothing is closed inside of tasks.
BY_ROUNDS = replace(UNHURRIED, copied_rows=-1, whole_rows=-1, task_share=0)


def check_random(spark: SparkSession, seed: int, strategy: str, epochs: int = 2, limits: Limits = UNHURRIED) -> None:
    case = random_case(random.Random(seed))
    changes = [(case.facts, {}), *case.updates[:epochs]]
    check_epochs(case.program, changes, strategy, limits=limits, spark=spark, place="cluster")


def check_script(spark: SparkSession, name: str, strategy: str, limits: Limits = UNHURRIED) -> None:
    script = read((SCRIPTS / f"{name}.dl").read_text("utf-8"), name)
    check_epochs(script.program, script.epochs, strategy, limits=limits, spark=spark, place="cluster")


@pytest.mark.parametrize(("seed", "strategy"), [(5, "elastic"), pytest.param(5, "dredc", marks=pytest.mark.slow)])
@pytest.mark.skipif(KIND == "connect", reason="scripts are the sample on Connect")
def test_random_programs_agree_with_the_oracle(spark: SparkSession, seed: int, strategy: str) -> None:
    check_random(spark, seed, strategy, limits=BY_ROUNDS)


@pytest.mark.parametrize(("seed", "strategy"), [(6, "elastic"), pytest.param(8, "dredc", marks=pytest.mark.slow)])
@pytest.mark.skipif(KIND == "connect", reason="scripts are the sample on Connect")
def test_few_facts_against_many(spark: SparkSession, seed: int, strategy: str) -> None:
    """As if everything but a row or two were too much to be sent to every task."""
    limits = replace(BY_ROUNDS, broadcast_values=4, fanout=1)
    check_random(spark, seed, strategy, limits=limits)


@pytest.mark.parametrize(
    ("name", "strategy"), [("cycle", "dredc"), pytest.param("chain_of_strata", "elastic", marks=pytest.mark.slow)]
)
@pytest.mark.skipif(KIND == "connect", reason="other scripts are the sample on Connect")
def test_parts_are_merged_and_rows_are_written(spark: SparkSession, name: str, strategy: str) -> None:
    """As if a few parts were many, and a few rows more than was expected."""
    limits = replace(BY_ROUNDS, many_parts=3, fetched_rows=1000, driver_rows=2)
    check_script(spark, name, strategy, limits=limits)


@ONCE
def test_no_part_is_lost_over_many_rounds(spark: SparkSession) -> None:
    """Where facts are only added, the larger parts are kept as they are."""
    limits = replace(BY_ROUNDS, many_parts=3)
    with sempre.Database(REACH, spark=spark, place="cluster", strategy="recompute", limits=limits) as db:
        db.apply(insert={"edge": [(str(n), str(n + 1)) for n in range(7)]})
        assert sorted(db["reach"]) == [(str(x), str(y)) for x in range(8) for y in range(x + 1, 8)]


@pytest.mark.parametrize("strategy", ["recompute", "auto"])
@pytest.mark.skipif(KIND == "connect", reason="scripts are the sample on Connect")
def test_random_programs_inside_of_tasks_agree_with_the_oracle(spark: SparkSession, strategy: str) -> None:
    check_random(spark, 51, strategy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "strategy"), list(zip(MORE_SEEDS, itertools.cycle(STRATEGIES)))[: scaled(len(MORE_SEEDS))]
)
@pytest.mark.skipif(KIND == "connect", reason="scripts are the sample on Connect")
def test_more_random_programs(spark: SparkSession, seed: int, strategy: str) -> None:
    check_random(spark, seed, strategy, limits=BY_ROUNDS)


# Hundreds of jobs each. Scripts of fewer rounds stand in for them.
LONG = [("inline_record_twice", "bfc"), ("nonlinear", "elastic"), ("points_to", "ranked")]
SHORT = [*(pair for pair in sampled(NAMES, 4) if pair not in LONG), ("cycle", "bfc"), ("self_join", "ranked")]
CLASSIC = [*SHORT, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in LONG)]


@pytest.mark.parametrize(("name", "strategy"), CLASSIC if KIND == "classic" else sampled(NAMES[1:], 10))
def test_scripts_agree_with_the_oracle(spark: SparkSession, name: str, strategy: str) -> None:
    check_script(spark, name, strategy, limits=BY_ROUNDS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "strategy"), MORE_SCRIPTS[: scaled(len(MORE_SCRIPTS))])
def test_all_scripts_with_several_strategies(spark: SparkSession, name: str, strategy: str) -> None:
    check_script(spark, name, strategy)


NEXT = """
.decl e(g: symbol, x: unsigned)
.decl n(g: symbol, x: unsigned, y: unsigned)
n(g, x, y) :- e(g, x), e(g, y), x < y, !(e(g, z), x < z, z < y).
.decl f(x: float)
.decl between(x: float, y: float)
between(x, y) :- f(x), f(y), f(z), x < z, z < y.
.decl m(x: float, y: float)
m(x, y) :- f(x), f(y), x < y, !between(x, y).
"""


@ONCE
@pytest.mark.parametrize("place", ["cluster", "auto"])
def test_neighbors_are_found_by_range(spark: SparkSession, place: str) -> None:
    rng = random.Random(place)
    e = [(rng.choice("ab"), rng.choice([rng.randrange(30), 2**64 - 1 - rng.randrange(30)])) for _ in range(60)]
    f = [(rng.choice([nan, -rng.random(), rng.random(), float("inf")]),) for _ in range(30)]
    options: Any = {"place": place} if place == "cluster" else {"memory": 100}
    with sempre.Database(NEXT) as here, sempre.Database(NEXT, spark=spark, **options) as there:
        for change in ({"insert": {"e": e, "f": f}}, {"delete": {"e": e[:20], "f": f[:10]}}):
            expected, found = here.apply(**change), there.apply(**change)
            assert [s["placement"] for s in found.report.strata if s["strategy"] == "seq"] == ["cluster", "cluster"]
            for name in ("n", "m", "between"):
                assert sorted(map(repr, there[name])) == sorted(map(repr, here[name]))
                assert found.removed[name].num_rows == expected.removed[name].num_rows
        assert "next#" not in found.report.why


@ONCE
def test_only_the_state_stays_on_scratch_and_nothing_after_closing(spark: SparkSession) -> None:
    with sempre.Database(REACH, spark=spark, place="cluster", strategy="dredc") as db:
        db.apply(insert={"edge": [("a", "b"), ("b", "c"), ("c", "a")]})
        sizes = []
        for _ in range(2):
            db.apply(delete={"edge": [("c", "a")]})
            db.apply(insert={"edge": [("c", "a")]})
            gc.collect()
            sizes.append(len(cluster_of(db).scratch.paths()))
        folder = cluster_of(db).scratch.folder
        assert folder.exists()
        assert sizes[-1] <= max(sizes[:-1]), "tables pile up from epoch to epoch"
    assert not folder.exists()


def test_frames_stay_on_the_cluster_and_come_out_as_frames(spark: SparkSession) -> None:
    text = ".decl e(x: unsigned, f: float, s: symbol)\n.decl r(x: unsigned, f: float)\nr(x, f) :- e(x, f, _)."
    df = spark.createDataFrame(
        [(Decimal(2**64 - 1), nan, "a"), (Decimal(2**64 - 1), nan, "b"), (Decimal(7), -0.0, "ü")],
        "x decimal(20,0), f double, s string",
    )
    with sempre.Database(text, spark=spark, place="cluster") as db:
        symbols = len(db._backend.values.symbols)
        changes = db.apply(insert={"e": df})
        assert len(db["r"]) == 2
        assert changes.report.placement == "cluster"
        assert changes.report.jobs > 0
        assert len(db._backend.values.symbols) == symbols, "nothing is interned in the driver"
        rows = db["r"].to_spark().toArrow().to_pylist()
        assert sorted(int(row["x"]) for row in rows) == [7, 2**64 - 1]
        assert str({row["f"] for row in rows if row["x"] == 7}) == "{0.0}"
        with pytest.raises(sempre.DataError, match="E508"):
            db.apply(insert={"e": spark.createDataFrame([(None, 1.0, "x")], df.schema)})
        assert len(db["e"]) == 3


RECORDS = """
.type Name <: symbol
.type Item = [name: Name, weight: float, size: unsigned]
.type List = [item: Item, rest: List]
.decl e(l: List, n: number)
.decl part(i: Item)
.decl grown(l: List)
part(i) :- e([i, _], _).
part(i) :- e([_, [i, _]], _).
grown([["", w, s], l]) :- e(l, _), part([_, w, s]).
"""


@ONCE
def test_records_stay_on_the_cluster_and_come_out_as_the_driver_gives_them(spark: SparkSession) -> None:
    texts = [
        "[[a, 0.5, 1], [[ü, nan, 18446744073709551615], nil]]",
        '[ [a,0.50,+1],[[ "ü", NaN, 18446744073709551615], nil ] ]',  # the same
        '[["b, [", -0.0, 0], nil]',
        "[nil, nil]",
        "nil",
    ]
    df = spark.createDataFrame([(text, 1) for text in texts], "l string, n long")
    found = {}
    for place in ("driver", "cluster"):
        with sempre.Database(RECORDS, spark=spark, place=place, strategy="recompute") as db:
            db.apply(insert={"e": df})
            found[place] = {name: sorted(map(repr, db[name])) for name in db}
            for name in db:
                out = db[name].to_spark()
                found[place][name] += [str(out.dtypes), *sorted(map(repr, out.toArrow().to_pylist()))]
    assert found["cluster"] == found["driver"]
    assert sum(row.startswith(("((", "(None")) for row in found["driver"]["e"]) == 4
    assert len(found["driver"]["part"]) == 2 * 4 + 1


def test_texts_that_are_no_records_are_refused_and_change_nothing(spark: SparkSession) -> None:
    text = ".type L = [h: number, t: L]\n.decl a(l: L)"
    with sempre.Database(text, spark=spark, place="cluster") as db:
        db.apply(insert={"a": [((1, None),)]})
        for bad, code, why in (
            ("[x, nil]", "E507", "1 text is not of its type: `x` is not a number"),
            ("[1, nil", "E507", "expected `]`"),
            (None, "E508", "1 null"),
        ):
            with pytest.raises(sempre.DataError) as caught:
                db.apply(insert={"a": spark.createDataFrame([("[2, nil]",), (bad,)], "l string")})
            assert caught.value.diagnostics[0].code == code
            assert why in str(caught.value)
            assert "column `l` of relation `a`" in str(caught.value)
        assert list(db["a"]) == [((1, None),)]


@pytest.mark.slow
@ONCE
@pytest.mark.parametrize(("place", "first"), [("cluster", 0), ("workers", 100)])
def test_values_of_every_type_mean_the_same(spark: SparkSession, place: str, first: int) -> None:
    """Exact sums, NaN last, symbols by their text: in tasks, and where Spark aggregates."""
    done = 0
    for seed in range(first, first + 100):
        case, meant = valued_case(random.Random(f"spark {seed}"), python=False)
        try:
            expected = meant.central()
        except OracleError:
            continue
        done += 1
        with sempre.Database(case.text, spark=spark, place=place) as db:
            for burst in case.bursts:
                db.apply(insert=by_relation(burst.insert), delete=by_relation(burst.delete))
            for name, rows in expected.items():
                assert {canonical(row) for row in db[name]} == rows, f"{case.text}\n{case.bursts}\n{name}"
        if done == 2:
            return


def test_what_is_counted_in_a_head_need_not_be_a_number(spark: SparkSession) -> None:
    text = """
    .type Pair = [a: number, b: symbol]
    .decl e(x: number, s: symbol, p: Pair)
    .decl symbols(x: number, n: number)
    .decl pairs(x: number, n: number)
    .decl made(x: number, n: number)
    symbols(x, count(s)) :- e(x, s, _).
    pairs(x, count(p)) :- e(x, _, p).
    made(x, count(as([x, s], Pair))) :- e(x, s, _).
    """
    first = [(1, "a", (1, "a")), (1, "b", None), (2, "a", (1, "a"))]
    with sempre.Database(text, spark=spark, place="cluster", strategy="dredc") as db:
        db.apply(insert={"e": first})
        assert {tuple(sorted(db[name])) for name in ("symbols", "pairs", "made")} == {((1, 2), (2, 1))}
        db.apply(delete={"e": first[1:]}, insert={"e": [(1, "c", (3, "")), (1, "d", None)]})
        assert {tuple(sorted(db[name])) for name in ("symbols", "pairs", "made")} == {((1, 3),)}


def test_a_fault_in_a_task_names_the_rule_and_changes_nothing(spark: SparkSession) -> None:
    text = ".decl a(x: number)\n.decl b(x: number)\nb(10 / x) :- a(x)."
    with sempre.Database(text, spark=spark, place="cluster") as db:
        db.apply(insert={"a": [(5,)]})
        with pytest.raises(sempre.DataError) as caught:
            db.apply(insert={"a": [(0,)]})
        assert caught.value.diagnostics[0].code == "E510"
        assert "10 / 0 has no value" in str(caught.value)
        assert list(db["a"]) == [(5,)]
        assert list(db["b"]) == [(2,)]


@ONCE
def test_a_small_change_is_followed_without_a_job(spark: SparkSession) -> None:
    """Also when everything is in files, and again after it was given up."""
    limits = Limits(driver_rows=10, fetched_whole=10, followed_moment=1e9)
    edges = spark.range(1, 400).selectExpr("cast(floor(id / 2) as string) x", "cast(id as string) y")
    with sempre.Database(REACH, spark=spark, place="cluster", limits=limits) as db, sempre.Database(REACH) as here:
        for other in (db, here):
            other.apply(insert={"edge": edges.toArrow() if other is here else edges})
        for side, rows in (("delete", [("5", "10")]), ("insert", [("5", "10"), ("7", "x")]), ("delete", [("7", "x")])):
            found, expected = (other.apply(**{side: {"edge": rows}}) for other in (db, here))
            assert found.report.jobs == 0
            assert "followed in the driver" in str(found.report.strata)
            assert found.removed["reach"].num_rows == expected.removed["reach"].num_rows
        cluster_of(db).scratch.limits = replace(limits, followed_facts=1)
        given_up = db.apply(delete={"edge": [("1", "2")]}).report
        assert given_up.jobs > 0
        assert "not followed in the driver" in given_up.why
        here.apply(delete={"edge": [("1", "2")]})
        assert sorted(db["reach"]) == sorted(here["reach"])
        assert db.verify().ok


def test_local_rows_arrive_whatever_chunks_they_have(spark: SparkSession) -> None:
    empty = pa.table({"c0": pa.array([], pa.int64())})
    rows = pa.concat_tables([empty, empty, pa.table({"c0": [5]})])
    with sempre.Database(".decl a(x: number)", spark=spark, place="cluster") as db:
        assert cluster_of(db).scratch.local_frame(rows, (Kind.NUMBER,), False).count() == 1


# ------------------------------------------------------------------------------------------------ placement


@ONCE
def test_auto_takes_the_cluster_when_the_estimate_exceeds_the_budget(spark: SparkSession) -> None:
    edges = [(f"n{i}", f"n{i + 1}") for i in range(4)]
    with sempre.Database(REACH, spark=spark, memory=100) as db:
        report = db.apply(insert={"edge": edges}).report
        assert "budget" in report.why
        assert {tuple(s["relations"]): s["placement"] for s in report.strata}[("reach",)] == "cluster"
        assert len(db["reach"]) == 10
        changes = db.apply(delete={"edge": edges[1:2]})
        assert changes.removed["reach"].num_rows == 6
        assert sorted(db["reach"]) == [("n0", "n1"), ("n2", "n3"), ("n2", "n4"), ("n3", "n4")]
        assert db.verify().ok


@ONCE
def test_auto_takes_records_to_the_cluster_and_back(spark: SparkSession) -> None:
    text = """
    .type Step = [from: symbol, to: symbol]
    .decl step(s: Step, n: number)
    .decl path(x: symbol, y: symbol)
    .decl taken(s: Step)
    path(x, y) :- step([x, y], _).
    path(x, z) :- path(x, y), step([y, z], _).
    taken([x, y]) :- path(x, y).
    """
    steps = [((f"n{i}", f"n{i + 1}"), i) for i in range(4)]
    with sempre.Database(text, spark=spark, memory=100) as db:
        report = db.apply(insert={"step": steps}).report
        assert "cluster" in report.placement
        db.apply(delete={"step": steps[1:2]})
        assert sorted(db["taken"]) == [(pair,) for pair in sorted(db["path"])]
        assert sorted(db["path"]) == [("n0", "n1"), ("n2", "n3"), ("n2", "n4"), ("n3", "n4")]
        assert db.verify().ok


@ONCE
def test_auto_starts_again_on_the_cluster_when_the_estimate_was_too_low(spark: SparkSession) -> None:
    edges = [(f"n{i}", f"n{i + 1}") for i in range(4)]
    with sempre.Database(REACH, spark=spark, memory=800) as db:
        report = db.apply(insert={"edge": edges}).report
        assert "reach again on the cluster" in report.why
        assert report.placement == "cluster, driver"
        assert len(db["reach"]) == 10


@ONCE
def test_auto_stays_in_the_driver_while_there_is_room(spark: SparkSession) -> None:
    with sempre.Database(REACH, spark=spark, memory="1g") as db:
        report = db.apply(insert={"edge": [("a", "b")]}).report
        assert report.placement == "driver"
        assert report.jobs == 0


@ONCE
def test_places_that_cannot_be_are_refused(spark: SparkSession) -> None:
    with pytest.raises(sempre.BackendError, match="Spark session"):
        sempre.Database(REACH, place="cluster")
    with pytest.raises(sempre.StateError, match="not a size"):
        sempre.Database(REACH, spark=spark, memory="lots")


# ------------------------------------------------------------------------------------------------- failures

SLOW = """
.decl a(x: number)
.decl b(x: number)
.decl c(x: number)
b(x * 3) :- a(x), x < 1000000.
c(x + 1) :- b(x), match("[0-9]*", to_string(x)).
"""


@pytest.mark.skipif(KIND == "connect", reason="the workers are the server's")
def test_a_python_worker_killed_in_an_epoch_ends_in_the_right_state_or_the_old_one(spark: SparkSession) -> None:
    with sempre.Database(SLOW, spark=spark, place="cluster", strategy="recompute") as db:
        db.apply(insert={"a": [(1,)]})
        before = {name: sorted(db[name]) for name in db}
        killed: list[int] = []
        stop = threading.Event()
        thread = threading.Thread(target=_kill_one, args=(killed, stop))
        thread.start()
        try:
            db.apply(insert={"a": spark.range(2, 40_000).withColumnRenamed("id", "x")})
        except sempre.BackendError:
            assert {name: sorted(db[name]) for name in db} == before
        else:
            assert len(db["c"]) == 39_999
        finally:
            stop.set()
            thread.join()
        assert killed, "no worker was there to be killed"
        assert spark.range(3).count() == 3
        db.apply(delete={"a": [(1,)]})
        assert (3,) not in db["b"]


@pytest.mark.skipif(KIND == "connect", reason="the workers are the server's")
def test_a_python_worker_killed_while_it_closes_a_share_leaves_nothing(spark: SparkSession) -> None:
    """The pass takes long enough to be noticed: the closure of a cycle."""
    nodes = 300
    edges = spark.range(nodes).selectExpr("cast(id as string) x", f"cast((id + 1) % {nodes} as string) y")
    with sempre.Database(REACH, spark=spark, place="cluster", strategy="recompute") as db:
        db.apply(insert={"edge": [("a", "b")]})
        killed: list[int] = []
        stop = threading.Event()
        thread = threading.Thread(target=_kill_one, args=(killed, stop))
        thread.start()
        try:
            db.apply(insert={"edge": edges})
        except sempre.BackendError:
            assert sorted(db["reach"]) == [("a", "b")]
        else:
            assert len(db["reach"]) == nodes**2 + 1
        finally:
            stop.set()
            thread.join()
        assert killed, "no worker was there to be killed"
        assert not [file for path in cluster_of(db).scratch.paths() for file in path.glob("_*.parquet")]
        db.apply(insert={"edge": [("b", "c")]})
        assert ("a", "c") in db["reach"]


def _kill_one(killed: list[int], stop: threading.Event) -> None:
    """Kills the first Python worker of ours that is busy."""
    while not killed and not stop.wait(0.02):
        for pid in _workers():
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
            return


def _workers() -> list[int]:
    """Python workers below this process."""
    lines = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    parents, commands = {}, {}
    for line in lines.splitlines()[1:]:
        pid, parent, command = line.split(None, 2)
        parents[int(pid)], commands[int(pid)] = int(parent), command
    daemons = {pid for pid, command in commands.items() if "pyspark" in command and "daemon" in command}

    def ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [pid for pid in daemons if parents[pid] in daemons and ours(pid)]
