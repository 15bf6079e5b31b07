"""Publishes a store to tables that know MERGE, and stops at every step; run by `test_merging`.

python -m tests.spark.merging.publishing JAR FOLDER
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.diagnostics import DataError
from sempre.spark import targets
from sempre.spark.session import SessionOptions, StartingSession
from tests.spark.conftest import CONF

PROGRAM = """
.type date <: number
.decl edge(x: symbol, d: date)
.decl out(x: symbol, d: date)
.output out(IO=spark, table="{table}", mode=merge)
out(x, d) :- edge(x, d), d > 0.
"""
Rows = set[tuple[Any, ...]]
NODES = "abcdefgh"


class Stopped(BaseException):
    """The process is gone."""


@contextmanager
def stopping(step: int) -> Iterator[list[str]]:
    """Stop before or after the step of that number."""
    taken: list[str] = []

    def take(name: str) -> None:
        if len(taken) == step:
            raise Stopped(name)
        taken.append(name)

    def counted(owner: Any, name: str) -> Any:
        function = getattr(owner, name)

        def with_steps(*args: Any) -> Any:
            take(f"before {name}")
            result = function(*args)
            take(f"after {name}")
            return result

        return with_steps

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((targets, "_tell"), (targets, "refill"), (targets.SessionState, "_merge")):
            patch.setattr(owner, name, counted(owner, name))
        yield taken


def shown(spark: Any, table: str) -> Rows:
    if not spark.catalog.tableExists(table):
        return set()
    rows = [tuple(row.values()) for row in spark.table(table).toArrow().to_pylist()]
    assert len(rows) == len(set(rows)), "nothing comes twice"
    return set(rows)


def states_of(db: sempre.Database) -> Rows:
    return {tuple(row.values()) for row in db["out"].to_spark().toArrow().to_pylist()}


def main(jar: str, folder: Path) -> None:
    conf = {**CONF, "spark.jars": jar, "spark.sql.catalog.lake": "sempre.merging.MergeCatalog"}
    starting = StartingSession(SessionOptions("local[2]", conf={**conf, "spark.sql.warehouse.dir": str(folder / "w")}))
    spark = starting.get()
    program, rng = PROGRAM.format(table="lake.db.out"), random.Random(4)
    with sempre.Database(program, store=folder / "store", spark=spark) as db:
        db.apply(insert={"edge": [(name, 1) for name in NODES]})
    states: list[Rows] = [set()]
    step, stops, wholes = 0, set[str](), 0
    for epoch in range(60):
        with sempre.Database.open(folder / "store", spark=spark) as db:
            there = sorted(db["out"])
            db.apply(insert={"edge": [(f"n{epoch}", 2)]}, delete={"edge": rng.sample(there, 1)})
            states.append(states_of(db))
            try:
                with stopping(step) as taken:
                    db.publish(folder)
                print("whole:", ", ".join(taken))
                step, wholes = 0, wholes + 1
                assert shown(spark, "lake.db.out") == states[-1]
            except Stopped as where:
                print("stopped", where)
                stops.add(str(where))
                step += 1
            assert shown(spark, "lake.db.out") in states, "some epoch's whole state"
        if rng.random() < 0.5:  # else the next epoch finds what was left undone
            with sempre.Database.open(folder / "store", spark=spark) as db:
                for _ in range(2):
                    db.publish(folder)
                    assert shown(spark, "lake.db.out") == states[-1]
        if wholes > 1 and len(stops) == 6:
            break
    others(spark, folder)
    starting.close()


def others(spark: Any, folder: Path) -> None:
    """A store that is another's successor replaces; a format without MERGE is refused, and left as it was."""
    with sempre.Database(PROGRAM.format(table="lake.db.out"), store=folder / "other", spark=spark) as db:
        db.apply(insert={"edge": [("z", 2)]})
        db.publish(folder)
        assert shown(spark, "lake.db.out") == states_of(db)
    with sempre.Database(PROGRAM.format(table="plain_out"), store=folder / "plain", spark=spark) as db:
        db.apply(insert={"edge": [("z", 2)]})
        with pytest.raises(DataError, match="table `plain_out` has a format without MERGE"):
            db.publish(folder)
        assert not spark.catalog.tableExists("plain_out")
    print("others as they should be")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
