"""Fixpoints inside of tasks, on a session: equal to those of this process."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import sempre
from sempre.diagnostics import DataError
from sempre.spark import intask, ship
from sempre.spark.shares import decide
from tests.property.test_intask import PROGRAMS, inputs_of, rows_of

KINDS = """
.decl e(x: unsigned, y: float, s: symbol)
.decl p(x: unsigned, y: float, s: symbol)
p(x, y, s) :- e(x, y, s).
p(x, y + 1.0, t) :- p(x, y, s), e(_, _, t), y < 4.0.
"""


def closed(spark: Any, db: Any, **options: Any) -> dict[str, Any]:
    """The relations of the recursive stratum, by tasks."""
    program = db._engine.program
    (stratum,) = (stratum for stratum in program.strata if stratum.recursive)
    sizes = {name: len(db[name]) for name in db}
    split = decide(program, stratum, sizes, **options)
    assert split is not None
    inputs = inputs_of(db, split, stratum.relations)
    frames = {name: spark.createDataFrame(table) for name, table in inputs.items() if table.num_rows}
    return intask.close(spark, program, stratum, split, {**inputs, **frames})


@pytest.mark.parametrize("name", ["transitive", "mutual"])
def test_shares_by_tasks(spark: Any, name: str) -> None:
    rng = random.Random(name)
    nodes = [f"n{at}" for at in range(60)]
    with sempre.Database(PROGRAMS[name]) as db:
        db.apply(insert={"e": [(rng.choice(nodes), rng.choice(nodes)) for _ in range(90)]})
        for relation, df in closed(spark, db, parts=4).items():
            table = df.toArrow()
            assert table.column_names == list(db.program.relations[relation].columns)
            assert table.num_rows == len(db[relation])
            assert set(rows_of([table])) == set(rows_of([db[relation].to_arrow()]))


def test_every_kind_of_value(spark: Any) -> None:
    with sempre.Database(KINDS) as db:
        db.apply(insert={"e": [(2**64 - 1, 0.5, "é"), (7, -0.0, "")]})
        program = db._engine.program
        (stratum,) = (stratum for stratum in program.strata if stratum.recursive)
        split = decide(program, stratum, {}, 2)
        assert split is not None
        (df,) = intask.close(spark, program, stratum, split, inputs_of(db, split, ("p",))).values()
        assert df.dtypes == [("x", "decimal(20,0)"), ("y", "double"), ("s", "string")]
        assert set(rows_of([df.toArrow()])) == set(rows_of([intask._for_spark(db["p"].to_arrow())]))


def test_first_facts_from_a_frame(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sempre.spark.shares.COPIED_ROWS", 50)
    with sempre.Database(PROGRAMS["right linear"]) as db:
        db.apply(insert={"e": [(f"n{at}", f"n{at + 1}") for at in range(30)]})
        program = db._engine.program
        (stratum,) = (stratum for stratum in program.strata if stratum.recursive)
        split = decide(program, stratum, {"p": 100, "e": 30}, 3)
        assert split is not None
        seeds = spark.createDataFrame(pa.table(db["e"].to_arrow().to_pydict()))
        frames = intask.close(spark, program, stratum, split, {"e": db["e"].to_arrow(), "p": seeds})
        assert set(rows_of([frames["p"].toArrow()])) == set(rows_of([db["p"].to_arrow()]))


def test_a_fault_in_a_task_is_told_as_one_here(spark: Any) -> None:
    text = """.decl e(x: number, y: number)
    .decl p(x: number, y: number)
    p(x, y) :- e(x, y).
    p(x, y / z) :- p(x, y), e(y, z)."""
    with sempre.Database(text) as db:
        db.apply(insert={"e": [(1, 2)]})
        program = db._engine.program
        (stratum,) = (stratum for stratum in program.strata if stratum.recursive)
        split = decide(program, stratum, {}, 2)
        assert split is not None
        bad = {"e": pa.table({"x": [1, 2], "y": [2, 0]})}
        (df,) = intask.close(spark, program, stratum, split, {**inputs_of(db, split, ("p",)), **bad}).values()
        with pytest.raises(DataError, match="2 / 0 has no value"), intask.told():
            df.count()
        assert spark.range(3).count() == 3


def test_the_package_is_there_for_tasks(spark: Any) -> None:
    ship.ensure(spark)
    assert spark in ship._ready
