"""A closure inside of tasks, against the loop that a Spark user writes and Spark's own recursive queries.

python benchmarks/intask.py [--chains N] [--length N] [--only intask,loop,sql] [--large]

The graph is N chains of edges, so that the closure is known, every pair has one path, and Spark's `WITH RECURSIVE`,
which removes no duplicates, can express it. `--large` is a graph of a million edges with 100,500,000 results, by
tasks alone. Peak memory is of all processes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial

from processes import Memory
from pyspark.sql import DataFrame, SparkSession

import sempre
from sempre.spark.session import SessionOptions, StartingSession

CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
SQL = """
with recursive path(x, y) as (
  select x, y from edge
  union all
  select path.x, edge.y from path join edge on path.y = edge.x
)
select count(*) from path
"""


def chains_df(spark: SparkSession, chains: int, length: int) -> DataFrame:
    """Edges from each number to the next, except at the ends of chains."""
    nodes_df = spark.range(0, chains * (length + 1), 1, 2)
    return nodes_df.filter(f"id % {length + 1} != {length}").selectExpr("id x", "id + 1 y")


def by_tasks(spark: SparkSession, edge_df: DataFrame) -> int:
    with sempre.Database(CLOSURE, spark=spark, place="cluster", strategy="recompute") as db:
        print(f"  {db.apply(insert={'edge': edge_df}).report.why}")
        return len(db["path"])


def by_loop(spark: SparkSession, edge_df: DataFrame) -> int:
    """Semi-naive evaluation as it is written by hand: join, distinct, left_anti, checkpoint per round."""
    edge_df = edge_df.localCheckpoint()
    known_df = delta_df = edge_df
    step_df = edge_df.toDF("y", "z")
    while True:
        found_df = delta_df.join(step_df, "y").selectExpr("x", "z as y").distinct()
        delta_df = found_df.join(known_df, ["x", "y"], "left_anti").localCheckpoint()
        if delta_df.isEmpty():
            return int(known_df.count())
        known_df = known_df.union(delta_df).localCheckpoint()


def by_sql(spark: SparkSession, edge_df: DataFrame) -> int:
    edge_df.localCheckpoint().createOrReplaceTempView("edge")
    return int(spark.sql(SQL).collect()[0][0])


WAYS: dict[str, Callable[[SparkSession, DataFrame], int]] = {"intask": by_tasks, "loop": by_loop, "sql": by_sql}


def measure(name: str, run: Callable[[], int], expected: int | None = None) -> None:
    with Memory() as memory:
        started = time.perf_counter()
        rows = run()
        seconds = time.perf_counter() - started
    right = "" if expected is None else "  right" if rows == expected else f"  WRONG, not {expected:,}"
    print(f"{name:8} {rows:>13,} rows {seconds:8.1f} s  {memory.peak / 2**30:5.1f} GiB{right}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=1000)
    parser.add_argument("--length", type=int, default=50)
    parser.add_argument("--only", default=",".join(WAYS))
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        conf = {
            "spark.sql.warehouse.dir": folder,
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.cteRecursionLevelLimit": "-1",
            "spark.sql.cteRecursionRowLimit": "-1",
        }
        session = StartingSession(SessionOptions("local[2]", conf=conf))
        spark = session.get()
        try:
            spark.range(2).mapInArrow(lambda batches: batches, "id bigint").count()  # Python workers start
            if options.large:
                measure("intask", lambda: by_tasks(spark, chains_df(spark, 5000, 200)), 100_500_000)
            else:
                expected = options.chains * options.length * (options.length + 1) // 2
                for name in options.only.split(","):
                    edge_df = chains_df(spark, options.chains, options.length)
                    measure(name, partial(WAYS[name], spark, edge_df), expected)
        finally:
            session.close()


if __name__ == "__main__":
    main()
