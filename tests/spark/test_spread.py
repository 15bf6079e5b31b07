"""Joins with common keys: the same rows as without, from many tasks instead of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import sempre
from sempre.spark.cluster.spread import PIECE, Common, spread
from tests.spark.conftest import KIND, ONCE
from tests.spark.test_cluster import BY_ROUNDS, check_random, check_script

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# As if all tables were large and all values common.
SPREAD = replace(BY_ROUNDS, broadcast_values=-1, common_share=0, common_rows=1, spread_tasks=3)


def joined(spark: SparkSession, left: Sequence[Any], right: Sequence[Any], commons: tuple[Common, Common]) -> DataFrame:
    """The join of rows (k, l, x) and (k, l, y) on k and l."""
    left_df = spark.createDataFrame(list(left), "k long, l string, x long")
    right_df = spark.createDataFrame(list(right), "k long, l string, y long")
    left_df, right_df, keys = spread(left_df, right_df, ["k", "l"], *commons, 16)
    return left_df.join(right_df.hint("shuffle_hash"), on=keys).drop(PIECE)


@ONCE
@pytest.mark.parametrize(
    "commons",
    [
        (({1, 2}, {"a"}), (set(), set())),
        ((set(), set()), ({1, 2}, {"a"})),
        (({1, 7}, {"a", "b"}), ({1, 2}, {"a", "c"})),
        (({1}, set()), ({1}, {"a"})),
    ],
    ids=["left", "right", "both", "not in all columns"],
)
def test_every_two_rows_meet_once(spark: SparkSession, commons: tuple[Common, Common]) -> None:
    left = [(n % 4, "abc"[n % 3], n // 2) for n in range(60)]  # some rows twice: instances are counted
    right = [(n % 5, "ab"[n % 2], n) for n in range(40)]
    expected = Counter((*of_left, of_right[2]) for of_left in left for of_right in right if of_left[:2] == of_right[:2])
    assert Counter(map(tuple, joined(spark, left, right, commons).collect())) == expected


@ONCE
def test_rows_of_a_common_key_are_in_several_tasks(spark: SparkSession) -> None:
    from pyspark.sql import functions as fn

    def largest(commons: tuple[Common, Common]) -> float:
        df = joined(spark, [(0, "a", n) for n in range(3000)], [(0, "a", n) for n in range(20)], commons)
        sizes = [row[1] for row in df.groupBy(fn.spark_partition_id()).count().collect()]
        assert sum(sizes) == 60_000
        return float(max(sizes) / sum(sizes))

    none: Common = (set(), set())
    joins_small_tasks = "spark.sql.adaptive.coalescePartitions.enabled"
    before = spark.conf.get(joins_small_tasks) or "true"
    spark.conf.set(joins_small_tasks, False)
    try:
        assert largest((none, none)) == 1
        assert largest((({0}, {"a"}), none)) < 0.9
    finally:
        spark.conf.set(joins_small_tasks, before)


def test_a_sample_finds_what_is_common(spark: SparkSession) -> None:
    rules = ".decl e(x: symbol, y: number)\n.decl p(y: number)\np(y) :- e(_, y)."
    with sempre.Database(rules, spark=spark, place="cluster") as db:
        hub_df = spark.range(60_000).selectExpr("cast(id as string) as x", "if(id % 3 = 0, 7, 100 + id) as y")
        db.apply(insert={"e": hub_df})
        assert db._cluster is not None
        version: Any = db._engine.snapshot.versions["e"]
        assert (version.common(0), version.common(1)) == (frozenset(), {7})


@pytest.mark.parametrize(("seed", "strategy"), [(14, "dredc"), pytest.param(11, "elastic", marks=pytest.mark.slow)])
@pytest.mark.skipif(KIND == "connect", reason="a script is the sample on Connect")
def test_random_programs_with_every_key_common(spark: SparkSession, seed: int, strategy: str) -> None:
    check_random(spark, seed, strategy, limits=SPREAD)


def test_a_script_with_every_key_common(spark: SparkSession) -> None:
    check_script(spark, "parallel_steps", "counting", limits=SPREAD)
