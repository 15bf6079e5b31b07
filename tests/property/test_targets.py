"""Tables that results are published to show some epoch as a whole, whenever the process that publishes dies.

A process dies by an error at a random one of its steps: a statement of a transaction, a commit of a table, a rename.
Nobody handles it on the way, and what was begun is lost, as with a process that is killed.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sempre
from sempre.files.targets import sql_target, sqlite_target
from sempre.files.targets.parquet_changes import ParquetChanges
from sempre.files.targets.sqlite_target import SqliteConnection
from tests.budget import seeds

PROGRAM = """
.decl edge(x: symbol, y: number)
.decl big(x: symbol, y: number)
big(x, y) :- edge(x, y), y > 1.
.decl name(x: symbol)
name(x) :- edge(x, _).
.output big(IO=sqlite, mode=merge)
.output big(IO=sqlite, filename="other.sqlite", table="the log", mode=changes)
.output name(IO=sqlite, filename="big.sqlite", mode=merge)
.output name(IO=parquet, filename="names", mode=changes)
"""


class Died(BaseException):
    """The process is gone."""


class Death:
    """Comes at a step."""

    def __init__(self) -> None:
        self.steps = -1

    def step(self) -> None:
        if self.steps == 0:
            self.steps = -1
            raise Died
        self.steps -= 1


def asked(file: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute(statement).fetchall()


def rows_of(folder: Path) -> tuple[Counter[Any], Counter[Any], Counter[Any], Counter[Any]]:
    """What the tables say that `big` and `name` are, each by its state and by its changes."""
    states = [Counter(asked(folder / "big.sqlite", f"SELECT * FROM {name}")) for name in ("big", "name")]
    log, names = Counter[Any](), Counter[Any]()
    for x, y, _, change in asked(folder / "other.sqlite", 'SELECT * FROM "the log"'):
        log[x, y] += 1 if change == "added" else -1
    for row in pq.read_table(folder / "names").to_pylist():
        names[row["x"],] += 1 if row["_change"] == "added" else -1
    return states[0], +log, states[1], +names


def check(db: sempre.Database, folder: Path) -> None:
    big, name = (Counter(map(tuple, db[each])) for each in ("big", "name"))
    assert rows_of(folder) == (big, big, name, name)


@pytest.fixture
def death(monkeypatch: pytest.MonkeyPatch) -> Death:
    """Steps are counted; nobody dies before `steps` is set."""
    death = Death()

    def stepping(owner: Any, method: str) -> None:
        real = getattr(owner, method)

        def stepped(*args: Any) -> Any:
            death.step()
            found = real(*args)
            death.step()
            return found

        monkeypatch.setattr(owner, method, stepped)

    for method in ("run", "begin", "stage", "make"):
        stepping(SqliteConnection, method)
    stepping(ParquetChanges, "append")
    return death


def run(folder: Path, rng: random.Random, death: Death, epochs: int = 12) -> int:
    """Random epochs, some published by a process that dies; how many died."""
    died = 0
    db = sempre.Database(PROGRAM, store=folder / "store")
    for _ in range(epochs):
        insert = [(rng.choice("abcdé'\""), rng.randrange(5)) for _ in range(rng.randrange(3))]
        delete = rng.sample(sorted(db["edge"]), min(len(db["edge"]), rng.randrange(3))) if db.epoch >= 0 else []
        db.apply(insert={"edge": insert}, delete={"edge": delete})
        if rng.random() < 0.2:
            continue  # the next one publishes two epochs
        if rng.random() < 0.5:
            death.steps = rng.randrange(40)
            try:
                db.publish(folder)
            except Died:
                died += 1
                if rng.random() < 0.3:
                    db.close()
                    db = sempre.Database(PROGRAM, store=folder / "store")
            death.steps = -1
        if rng.random() < 0.1 and (folder / "big.sqlite").exists():
            with closing(sqlite3.connect(folder / "big.sqlite")) as database, database:
                database.execute("DELETE FROM big")  # somebody else; found out where one of the rows is to go
            db.apply(delete={"edge": list(db["edge"])})
        db.publish(folder)
        check(db, folder)
        db.publish(folder)
        check(db, folder)
    db.close()
    return died


def many(folder: Path, tried: Iterable[int], death: Death) -> int:
    return sum(run(folder / str(seed), random.Random(seed), death) for seed in tried)


def test_tables_show_whole_epochs(tmp_path: Path, death: Death) -> None:
    assert many(tmp_path, range(6), death) > 8


@pytest.mark.slow
def test_many(tmp_path: Path, death: Death) -> None:
    assert many(tmp_path, seeds(0, 60), death)


def test_readers_see_one_epoch_or_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every statement of a transaction, another connection sees the state of before."""
    with sempre.Database(PROGRAM, store=tmp_path / "store") as db:
        db.apply(insert={"edge": [("a", 2), ("b", 3)]})
        db.publish(tmp_path)
        before = rows_of(tmp_path)[0]
        real, seen = SqliteConnection.run, list[Counter[Any]]()

        def watched(self: SqliteConnection, *args: Any) -> int:
            found = real(self, *args)
            seen.append(Counter(asked(tmp_path / "big.sqlite", "SELECT * FROM big")))
            return found

        db.apply(insert={"edge": [("c", 4)]}, delete={"edge": [("a", 2)]})
        monkeypatch.setattr(SqliteConnection, "run", watched)
        db.publish(tmp_path)
        assert seen[:4] == [before] * 4
        check(db, tmp_path)


def test_an_epoch_that_is_noted_outside_of_the_transaction_is_found(
    tmp_path: Path, death: Death, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_target.SqliteConnection, "begin", lambda self: None)
    with pytest.raises(AssertionError):
        many(tmp_path, range(20), death)


def test_rows_that_somebody_else_removed_are_noticed(
    tmp_path: Path, death: Death, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sql_target.SqlTarget._delete
    monkeypatch.setattr(
        sql_target.SqlTarget, "_delete", lambda self, c, s, rows: (real(self, c, s, rows), rows.num_rows)[1]
    )
    with sempre.Database(PROGRAM, store=tmp_path / "store") as db:
        db.apply(insert={"edge": [("a", 2), ("b", 3)]})
        db.publish(tmp_path)
        with closing(sqlite3.connect(tmp_path / "big.sqlite")) as database, database:
            database.execute("DELETE FROM big")
        db.apply(delete={"edge": [("a", 2)]})
        db.publish(tmp_path)
        assert rows_of(tmp_path)[0] == Counter(), "as long as nobody counts, ('b', 3) stays away"
        monkeypatch.setattr(sql_target.SqlTarget, "_delete", real)
        db.apply(insert={"edge": [("a", 2)]})
        db.publish(tmp_path)
        with closing(sqlite3.connect(tmp_path / "big.sqlite")) as database, database:
            database.execute("DELETE FROM big")
        db.apply(delete={"edge": [("a", 2)]})
        db.publish(tmp_path)
        check(db, tmp_path)


def test_a_table_with_other_columns_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "big.sqlite")) as database, database:
        database.execute("CREATE TABLE big (x, z)")
    with sempre.Database(PROGRAM, store=tmp_path / "store") as db:
        db.apply(insert={"edge": [("a", 2)]})
        with pytest.raises(sempre.DataError, match=r"E512.*table `big` has no column `y`: it has x, z"):
            db.publish(tmp_path)


def test_a_table_that_a_run_has_written_shows_no_epoch(tmp_path: Path) -> None:
    other = PROGRAM.replace("IO=sqlite, mode=merge", "IO=sqlite")
    with sempre.Database(PROGRAM, store=tmp_path / "store") as db:
        db.apply(insert={"edge": [("a", 2)]})
        db.publish(tmp_path)
        with sempre.Database(other, store=tmp_path / "other") as another:
            another.apply(insert={"edge": [("b", 2)]})
            another.publish(tmp_path)
        assert rows_of(tmp_path)[0] == Counter([("b", 2)])
        db.publish(tmp_path)
        assert rows_of(tmp_path)[0] == Counter([("a", 2)])
