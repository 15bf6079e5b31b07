"""Measures rounds on DataFrames: `place="cluster"` beside the loop that a Spark user writes by hand.

python benchmarks/cluster.py el [--only loop|sempre]          classification of an EL ontology (GALEN)
python benchmarks/cluster.py closure [--edges N] [--rounds]   a sparse graph, 100 million results or more
python benchmarks/cluster.py epochs [--epochs N]              small changes: nothing may pile up
python benchmarks/cluster.py tree [--edges N] [--budget M]     one edge of a tree, and its closure, comes and goes
python benchmarks/cluster.py skew                             a join in which half of the rows have one key

The ontology is in the folder that SEMPRE_SHARED names, or in `shared` beside the project. `--master` and `--memory` say
where Spark runs and how much memory Java has.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from processes import Memory, cpu_seconds, family, resident

import sempre
from sempre.engine import Progress
from sempre.limits import DEFAULTS, Limits
from sempre.spark.cluster.scratch import Scratch
from sempre.spark.session import SessionOptions, StartingSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("SEMPRE_SHARED", ROOT.parent / "shared"))
EXPECTED = {"p": 1_628_967, "q": 3_154_760}
COLUMNS = {"p": "xy", "q": "xry", "c": "abz", "u": "yrz", "s": "rt", "r": "abt"}

CLOSURE = """
.decl edge(x: number, y: number)
.decl reach(x: number, y: number)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


def galen(spark: SparkSession, share: float) -> dict[str, DataFrame]:
    """The ontology, a DataFrame per relation; or a share of it."""
    folder = SHARED / "data/galen"
    found = {}
    for name, columns in COLUMNS.items():
        schema = ", ".join(f"{column} bigint" for column in columns)
        df = spark.read.csv(str(next(folder.glob(f"{name}.facts*"))), sep="\t", schema=schema)
        found[name] = df if share == 1 else df.filter(f"pmod(hash(*), 1000) < {share * 1000}")
    return found


def by_hand(spark: SparkSession, facts: dict[str, DataFrame]) -> dict[str, int]:
    """Semi-naive evaluation as one writes it: join, distinct, left_anti, a checkpoint per round."""
    c, u, s, r = (facts[name].cache() for name in "cusr")
    p, q = facts["p"].distinct().localCheckpoint(), facts["q"].distinct().localCheckpoint()
    dp, dq = p, q
    rounds = 0
    while True:
        rounds += 1
        new_p, new_q = _round(p, q, dp, dq, c, u, s, r)
        dp = new_p.distinct().join(p, ["x", "y"], "left_anti").localCheckpoint()
        dq = new_q.distinct().join(q, ["x", "r", "y"], "left_anti").localCheckpoint()
        size_p, size_q = dp.count(), dq.count()
        print(f"  round {rounds}: {size_p:,} {size_q:,}", flush=True)
        if not size_p and not size_q:
            return {"p": p.count(), "q": q.count()}
        p, q = p.union(dp).localCheckpoint(), q.union(dq).localCheckpoint()


def _round(
    p: DataFrame, q: DataFrame, dp: DataFrame, dq: DataFrame, c: DataFrame, u: DataFrame, s: DataFrame, r: DataFrame
) -> tuple[DataFrame, DataFrame]:
    def renamed(df: DataFrame, *names: str) -> DataFrame:
        return df.toDF(*names)

    def chained(left: DataFrame, right: DataFrame) -> DataFrame:
        return renamed(left, "x", "y").join(renamed(right, "y", "z"), "y").select("x", "z").toDF("x", "y")

    def inherited(left: DataFrame, right: DataFrame) -> DataFrame:
        return left.join(renamed(right, "y", "t", "z"), "y").select("x", "t", "z").toDF("x", "r", "y")

    def implied(left: DataFrame, right: DataFrame) -> DataFrame:
        some = renamed(left, "x", "t", "y").join(renamed(right, "y", "w"), "y")
        return some.join(renamed(u, "w", "t", "z"), ["w", "t"]).select("x", "z").toDF("x", "y")

    def both(left: DataFrame, right: DataFrame) -> DataFrame:
        some = renamed(left, "x", "a").join(renamed(c, "a", "b", "z"), "a")
        return some.join(renamed(right, "x", "b"), ["x", "b"]).select("x", "z").toDF("x", "y")

    def composed(left: DataFrame, right: DataFrame) -> DataFrame:
        some = renamed(left, "x", "a", "y").join(renamed(r, "a", "b", "t"), "a")
        return some.join(renamed(right, "y", "b", "z"), ["y", "b"]).select("x", "t", "z").toDF("x", "r", "y")

    up = renamed(dq, "x", "a", "z").join(renamed(s, "a", "t"), "a").select("x", "t", "z").toDF("x", "r", "y")
    new_p = chained(dp, p).union(chained(p, dp)).union(implied(dq, p)).union(implied(q, dp))
    new_p = new_p.union(both(dp, p)).union(both(p, dp))
    new_q = inherited(dp, q).union(inherited(p, dq)).union(up).union(composed(dq, q)).union(composed(q, dq))
    return new_p, new_q


def on_cluster(program: sempre.Program | str, spark: SparkSession, limits: Limits = DEFAULTS) -> sempre.Database:
    return sempre.Database(program, spark=spark, place="cluster", strategy="recompute", progress=_show(), limits=limits)


def scratch_of(db: sempre.Database) -> Scratch:
    """Where the rounds of a database are written."""
    assert db._cluster is not None
    return db._cluster.scratch


def ours(spark: SparkSession, facts: dict[str, DataFrame]) -> dict[str, int]:
    program = sempre.Program.from_file(SHARED / "programs/el.dl")
    with on_cluster(program, spark) as db:
        changes = db.apply(insert=facts)
        print(f"  {changes.report.rounds} rounds, {changes.report.jobs} jobs", flush=True)
        return {name: len(db[name]) for name in EXPECTED}


def _show() -> Callable[[Progress], None]:
    started = time.perf_counter()

    def show(progress: Progress) -> None:
        spent = time.perf_counter() - started
        print(f"  round {progress.round}: {progress.facts:,} facts, {spent:.1f} s", flush=True)

    return show


def el(spark: SparkSession, only: str | None, share: float) -> None:
    facts = galen(spark, share)
    expected = EXPECTED if share == 1 else None
    for name, run in (("loop", by_hand), ("sempre", ours)):
        if only in (None, name):
            started, before = time.perf_counter(), cpu_seconds()
            counts = run(spark, facts)
            spent, used = time.perf_counter() - started, cpu_seconds() - before
            print(f"{name}: {spent:.1f} s, {used:.0f} s of processor time, {counts}", flush=True)
            expected = expected or counts
            assert counts == expected, f"expected {expected}"


def sparse(edges: int) -> np.ndarray:
    """Edges within blocks of 350 nodes, two per node: a giant component in each block, and a small diameter."""
    rng = np.random.default_rng(7)
    nodes, block = edges // 2, 350
    source = rng.integers(0, nodes, edges)
    low = source // block * block
    target = low + rng.integers(0, block, edges)
    return np.unique(np.column_stack([source, np.minimum(target, nodes - 1)]), axis=0)


def closure(spark: SparkSession, edges: int, by_rounds: bool) -> None:
    pairs = sparse(edges)
    # By rounds, nothing may be closed inside of tasks.
    limits = Limits(copied_rows=-1, whole_rows=-1, task_share=0) if by_rounds else DEFAULTS
    with tempfile.TemporaryDirectory() as folder, Memory() as memory:
        pq.write_table(pa.table({"x": pairs[:, 0], "y": pairs[:, 1]}), f"{folder}/edge.parquet")
        df = spark.read.parquet(f"{folder}/edge.parquet")
        started = time.perf_counter()
        with on_cluster(CLOSURE, spark, limits) as db:
            report = db.apply(insert={"edge": df}).report
            spent = time.perf_counter() - started
            print(
                f"{len(pairs):,} edges, {len(db['reach']):,} pairs, {report.rounds} rounds: {spent:.1f} s; {report.why}"
            )
            held = [file for path in scratch_of(db).paths() for file in path.glob("*")]
            print(f"kept: {sum(file.stat().st_size for file in held) / 2**20:,.0f} MiB on scratch")
            folder_of_rounds = scratch_of(db).folder
        print(f"left after closing: {folder_of_rounds.exists()}")
    print(f"all processes: {memory.peak / 2**30:.1f} GiB at most")


def epochs(spark: SparkSession, number: int) -> None:
    with sempre.Database(CLOSURE, spark=spark, place="cluster", strategy="dredc") as db:
        db.apply(insert={"edge": [(n, n + 1) for n in range(20)]})
        for epoch in range(number):
            side = "insert" if epoch % 2 else "delete"
            started = time.perf_counter()
            jobs = db.apply(**{side: {"edge": [(10, 11)]}}).report.jobs
            spent = time.perf_counter() - started
            held = scratch_of(db).paths()
            memory = sum(map(resident, family(os.getpid()))) / 2**20
            kept = f"{len(held)} tables on scratch, {memory:,.0f} MiB in all processes"
            print(f"epoch {epoch + 1}: {spent:.1f} s, {jobs} jobs, {kept}", flush=True)


def tree(spark: SparkSession, edges: int, number: int, budget: str | None, strategy: str) -> None:
    """A node in the middle of a binary tree loses its parent, gets it again, and a leaf comes and goes."""
    nodes = np.arange(1, edges + 1)
    changes = [("delete", (edges // 32 // 2, edges // 32 + 1)), ("insert", (edges // 2, edges + 7))]
    place: Any = {"place": "cluster"} if budget is None else {"memory": budget}
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.table({"x": (nodes - 1) // 2, "y": nodes}), f"{folder}/edge.parquet")
        with sempre.Database(CLOSURE, spark=spark, strategy=strategy, **place) as db:
            started, before = time.perf_counter(), cpu_seconds()
            jobs = db.apply(insert={"edge": spark.read.parquet(f"{folder}/edge.parquet")}).report.jobs
            load, used = time.perf_counter() - started, cpu_seconds() - before
            print(f"load: {load:.1f} s, {used:.1f} s of processor time, {jobs} jobs, {len(db['reach']):,} pairs")
            for epoch in range(number):
                side, (x, y) = changes[epoch // 2 % 2]
                if epoch % 2:
                    side = {"insert": "delete", "delete": "insert"}[side]
                y = x * 2 + 1 if y <= edges else y
                started, before = time.perf_counter(), cpu_seconds()
                done = db.apply(**{side: {"edge": [(x, y)]}})
                spent, used = time.perf_counter() - started, cpu_seconds() - before
                changed = done.added["reach"].num_rows + done.removed["reach"].num_rows
                share = f"{spent:.2f} s, {spent / load:.1%} of the load, {used:.2f} s of processor time"
                why = "; ".join(s["why"] for s in done.report.strata if s["why"])
                print(f"{side} {x, y}: {share}, {done.report.jobs} jobs, {changed:,} pairs; {why}", flush=True)


SKEW = """
.decl visit(person: number, place: number)
.decl sold(place: number, thing: number)
.decl seen(person: number, thing: number)
seen(x, z) :- visit(x, y), sold(y, z).
"""


def skew(spark: SparkSession) -> None:
    """Half of all visits are to one place, which sells 20 things; with such keys spread over tasks, and without."""
    visits = spark.range(0, 1_200_000, 1, 8).selectExpr("id person", "if(id % 2 = 0, 0, id) place")
    things = spark.range(0, 1_200_000, 1, 8).selectExpr("if(id < 20, 0, id) place", "id thing")
    for part, way in [(DEFAULTS.common_share, "spread"), (2.0, "not spread")] * 3:
        limits = Limits(common_share=part)
        with sempre.Database(SKEW, spark=spark, place="cluster", strategy="recompute", limits=limits) as db:
            db.apply(insert={"sold": things})
            started = time.perf_counter()
            db.apply(insert={"visit": visits})
            print(f"{way:10} {len(db['seen']):,} results {time.perf_counter() - started:6.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("el", "closure", "epochs", "tree", "skew"))
    parser.add_argument("--only", choices=("loop", "sempre"))
    parser.add_argument("--share", type=float, default=1, help="of the ontology")
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--rounds", action="store_true", help="of DataFrames, not inside of tasks")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--budget", help="the driver's, as `memory=`; all on the cluster without")
    parser.add_argument("--strategy", default="auto", help="of the tree")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="4g")
    options = parser.parse_args()
    conf = {"spark.driver.memory": options.memory, "spark.driver.extraJavaOptions": ""}
    starting = StartingSession(SessionOptions(options.master, conf=conf))
    spark = starting.get()
    if options.what == "el":
        el(spark, options.only, options.share)
    elif options.what == "closure":
        closure(spark, options.edges, options.rounds)
    elif options.what == "epochs":
        epochs(spark, options.epochs)
    elif options.what == "tree":
        tree(spark, options.edges, options.epochs, options.budget, options.strategy)
    else:
        skew(spark)
    starting.close()


if __name__ == "__main__":
    main()
