"""Questions that stay, and outputs by magic sets, where strata are DataFrames: the answers of the whole relation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import sempre
from tests.property.test_demand import any_case, keep_asking, write_outputs
from tests.spark.conftest import ONCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


def test_a_question_stays_on_the_cluster(spark: SparkSession) -> None:
    with sempre.Database(PROGRAM, demand=["reach"], spark=spark, place="cluster") as db:
        db.apply(insert={"edge": [("a", "b"), ("b", "c"), ("x", "y")]})
        assert db.query('reach("a", Y)').column(0).to_pylist() == ["b", "c"]
        assert len(db["reach"]) == 2
        db.apply(insert={"edge": [("c", "d")]}, delete={"edge": [("a", "b")]})
        assert db.query('reach("a", Y)').num_rows == 0
        db.apply(insert={"edge": [("a", "c")]})
        assert db.query('reach("a", Y)').column(0).to_pylist() == ["c", "d"]


def test_a_question_to_a_program_on_the_cluster(spark: SparkSession) -> None:
    facts = {"edge": [("a", "b"), ("b", "c"), ("x", "y")]}
    answers = sempre.Program(PROGRAM).query('reach("b", Y)', facts, spark=spark, place="cluster")
    assert answers.column(0).to_pylist() == ["c"]


@ONCE
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3, 8])
def test_random_demand_on_the_cluster(spark: SparkSession, seed: int) -> None:
    keep_asking(any_case(seed), seed, spark=spark, place="cluster")


@ONCE
@pytest.mark.slow
def test_outputs_by_magic_sets_on_the_cluster(spark: SparkSession) -> None:
    write_outputs(any_case(5), 5, spark=spark, place="cluster")
