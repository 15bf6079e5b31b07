"""Tables without versions are followed by a column that grows, and where there is a key, rows replace rows."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.api import refresh as refreshing
from sempre.diagnostics import DataError
from sempre.files.sources import queried_source
from sempre.files.sources.sqlite_reader import SqliteReader

PROGRAM = """
.decl price(item: symbol, cost: number)
.input price(IO=sqlite, filename="shop.db", follow="at"{key})
.decl dear(item: symbol)
dear(i) :- price(i, c), c > 5.
"""


def write(folder: Path, statement: str, *rows: tuple[Any, ...]) -> None:
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.executemany(statement, rows or [()])


def shop(folder: Path, key: str = "") -> sempre.Database:
    write(folder, "CREATE TABLE price (item TEXT PRIMARY KEY, cost INTEGER, at INTEGER)")
    db = sempre.Database(PROGRAM.format(key=key), store=folder / "store")
    db.refresh(folder)
    return db


def how(db: sempre.Database) -> str:
    return refreshing.refresh(db, None, overwrite=False, maintain_only=False).read["price"]


@pytest.mark.parametrize("most", [10_000, 2])
def test_a_table_with_a_key_is_followed(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random writes; rows come with the time of the last ones, or later. Nothing is deleted."""
    monkeypatch.setattr(queried_source, "MOST_LAST", most)
    for seed in range(4):
        rng, have, now = random.Random(seed), dict[str, int](), 0
        folder = tmp_path / str(seed)
        folder.mkdir()
        db = shop(folder, ', key="item"')
        for _ in range(15):
            for _ in range(rng.randrange(4)):
                now += rng.randrange(2)
                item, have[item] = rng.choice("abcdef"), rng.randrange(10)
                write(folder, "INSERT OR REPLACE INTO price VALUES (?, ?, ?)", (item, have[item], now))
            if rng.random() < 0.3:
                db.close()
                db = sempre.Database.open(folder / "store")
            db.refresh()
            assert dict(db["price"]) == have
            assert set(db["dear"]) == {(each,) for each, cost in have.items() if cost > 5}
            assert db.refresh() is None
        assert db.verify().ok
        db.close()


def test_only_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with shop(tmp_path) as db:
        write(tmp_path, "INSERT INTO price VALUES (?, ?, ?)", *((f"i{n}", n, n) for n in range(100)))
        assert how(db) == "100 rows came and 0 went; rows that are deleted there are not seen"
        write(tmp_path, "INSERT INTO price VALUES ('late', 1, 99), ('new', 2, 100)")
        read = SqliteReader.rows
        counts: list[int] = []

        def counted(self: SqliteReader, *args: Any) -> Any:
            found = read(self, *args)
            counts.append(found.num_rows)
            return found

        monkeypatch.setattr(SqliteReader, "rows", counted)
        assert how(db) == "2 rows came and 0 went; rows that are deleted there are not seen"
        assert sum(counts) == 4, "those with the last value that was known, and the new ones; the last of these twice"
        assert how(db) == "nothing new"
        write(tmp_path, "DELETE FROM price WHERE item = 'i7'")
        assert how(db) == "nothing new"
        db.refresh(overwrite=True)
        assert ("i7", 7) not in set(db["price"])


def test_without_a_key_rows_only_come(tmp_path: Path) -> None:
    with shop(tmp_path) as db:
        write(tmp_path, "INSERT INTO price VALUES ('a', 1, 1)")
        db.refresh()
        write(tmp_path, "UPDATE price SET cost = 9, at = 2")
        db.refresh()
        assert set(db["price"]) == {("a", 1), ("a", 9)}


def test_what_is_refused(tmp_path: Path) -> None:
    with shop(tmp_path, ', key="item"') as db:
        write(tmp_path, "INSERT INTO price VALUES ('a', 1, NULL)")
        with pytest.raises(DataError, match=r"E508.*column `at` of `price` has nulls"):
            db.refresh()
        write(tmp_path, "DROP TABLE price")
        write(tmp_path, "CREATE TABLE price (item, cost, at)")
        write(tmp_path, "INSERT INTO price VALUES ('a', 1, 1), ('a', 2, 2)")
        with pytest.raises(DataError, match=r"E667.*several rows with one key \(item\)"):
            db.refresh()
        with pytest.raises(DataError, match=r"E667.*several rows with one key \(item\)"):
            db.refresh(overwrite=True)
        write(tmp_path, "ALTER TABLE price DROP COLUMN at")
        with pytest.raises(DataError, match=r"E502.*no column `at` to follow"):
            db.refresh()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('IO=sqlite, key="item"', "`key` says which row a later one replaces"),
        ('IO=sqlite, follow="at", key="it"', "relation `price` has no column `it`"),
        ('follow="at"', "unknown option `follow`"),
    ],
)
def test_options_that_do_not_fit(options: str, message: str, tmp_path: Path) -> None:
    program = PROGRAM.replace('IO=sqlite, filename="shop.db", follow="at"{key}', options)
    with sempre.Database(program, store=tmp_path / "store") as db, pytest.raises(sempre.ProgramError, match=message):
        db.refresh(tmp_path)
