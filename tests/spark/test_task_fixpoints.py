"""Fixpoints inside of tasks, on a session: equal to those of this process."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import sempre
from sempre.limits import DEFAULTS, Limits
from sempre.spark import ship
from sempre.spark.cluster import task_closing
from sempre.spark.task_room import TaskRoom
from tests.inside import cluster_of
from tests.property.test_task_fixpoints import PROGRAMS
from tests.spark.conftest import ONCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KINDS = """
.decl e(x: unsigned, y: float, s: symbol)
.decl p(x: unsigned, y: float, s: symbol)
p(x, y, s) :- e(x, y, s).
p(x, y + 1.0, t) :- p(x, y, s), e(_, _, t), y < 4.0.
"""


def check_in_tasks(
    spark: SparkSession,
    program: str,
    rows: list[Any],
    says: str,
    relations: str = "p",
    limits: Limits = DEFAULTS,
) -> None:
    """What tasks find is what this process finds, and it is tasks that found it."""
    with (
        sempre.Database(program) as here,
        # A first epoch of few rows would be followed in the driver.
        sempre.Database(program, spark=spark, place="cluster", limits=replace(limits, followed_rows=0)) as there,
    ):
        here.apply(insert={"e": rows})
        report = there.apply(insert={"e": rows}).report
        assert "inside of tasks" in report.why
        assert says in report.why
        for name in relations.split():
            assert sorted(map(repr, there[name])) == sorted(map(repr, here[name]))
            assert there[name].to_spark().count() == len(here[name])
        assert not [file for path in cluster_of(there).scratch.paths() for file in path.glob("_*.parquet")]


def edges(name: str, nodes: int, count: int) -> list[tuple[str, str]]:
    rng = random.Random(name)
    return [(f"n{rng.randrange(nodes)}", f"n{rng.randrange(nodes)}") for _ in range(count)]


@pytest.mark.parametrize(
    ("name", "says", "relations"),
    [("transitive", "transitive", "p"), ("mutual", "splits by odd(x), even(x)", "odd even"), ("equivalence", "", "p")],
)
def test_shares_by_tasks(spark: SparkSession, name: str, says: str, relations: str) -> None:
    limits = Limits(single_share_rows=10)
    check_in_tasks(spark, PROGRAMS[name], edges(name, 60, 90), says, relations, limits)


@ONCE
def test_every_kind_of_value(spark: SparkSession) -> None:
    check_in_tasks(spark, KINDS, [(2**64 - 1, 0.5, "é"), (7, -0.0, "")], "splits by p(x)")


@ONCE
def test_first_facts_from_a_frame(spark: SparkSession) -> None:
    program = """
        .decl e(x: symbol, y: symbol)
        .decl p(x: symbol, y: symbol)
        p(x, y) :- e(x, y).
        p(y, x) :- e(x, y).
        .decl step(x: symbol, y: symbol)
        step(x, y) :- e(x, y), x < "n2".
        p(x, z) :- p(x, y), step(y, z)."""
    limits = Limits(copied_rows=50, task_share=0, most_shares=3)
    check_in_tasks(spark, program, edges("seeds", 30, 60), "first facts in 3 shares", limits=limits)


@ONCE
def test_a_task_that_outgrows_its_room_gives_up_and_rounds_go_on(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
        .decl e(x: number, y: number)
        .decl p(x: number)
        p(0).
        p(y) :- p(x), e(x, y)."""
    wide = [(0, y) for y in range(1, 400)]
    # The edges take 19,152 bytes, the first fact twice 24, and what follows from it 9,576.
    monkeypatch.setattr(task_closing, "task_room", lambda spark, limits: TaskRoom(alone=20_000))
    with sempre.Database(program, spark=spark, place="cluster", limits=Limits(followed_rows=0)) as db:
        report = db.apply(insert={"e": wide}).report
        assert "all of it (400 rows) goes to one task" in report.why
        assert "p by rounds: about 28,800 bytes in one task after 2 rounds, and it has 20,000" in report.why
        assert sorted(db["p"]) == [(x,) for x in range(400)]
        report = db.apply(insert={"e": [(1, 400)]}).report  # it is not tried again with as many rows
        assert "one task" not in report.why
        assert sorted(db["p"]) == [(x,) for x in range(401)]
        assert "one task" in db.apply(delete={"e": wide}).report.why  # but with fewer
        assert sorted(db["p"]) == [(0,)]
        assert not [file for path in cluster_of(db).scratch.paths() for file in path.glob("_*.parquet")]


def test_a_fault_in_a_task_is_told_as_one_here(spark: SparkSession) -> None:
    text = """.decl e(x: number, y: number)
    .decl p(x: number, y: number)
    p(x, y) :- e(x, y).
    p(x, y / z) :- p(x, y), e(y, z)."""
    with sempre.Database(text, spark=spark, place="cluster") as db:
        db.apply(insert={"e": [(1, 2)]})
        with pytest.raises(sempre.DataError, match="2 / 0 has no value") as caught:
            db.apply(insert={"e": [(2, 0)]})
        assert caught.value.diagnostics[0].code == "E510"
        assert sorted(db["p"]) == [(1, 2)]
        assert spark.range(3).count() == 3


def test_the_package_is_there_for_tasks(spark: SparkSession) -> None:
    ship.ensure(spark)
    assert spark in ship._ready
