"""A store that follows files and tables: after every refresh its facts are what the sources have, and its results too.

The model is a bag of rows in Python. How a source is written (appended, deleted from, rewritten, compacted, vacuumed,
made anew), when the store is closed, vacuumed, or changed by hand, and what the program states itself is random.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sempre
from sempre.api import refresh as refreshing
from sempre.api.stores import vacuum
from sempre.diagnostics import DataError
from sempre.storage.keeper import Keeper
from tests.budget import seeds

Row = tuple[str, int]

PROGRAM = """
.decl edge(x: symbol, y: number)
.input edge({options})
.decl twice(x: symbol, y: number)
twice(x, y) :- edge(x, y), edge(x, z), z != y.
edge("s", 1).
edge("a", 1).
.output twice
"""
STATED = {("s", 1), ("a", 1)}


class Table(Protocol):
    """A source that tests write to."""

    options: str

    def replace(self, rows: list[Row]) -> None: ...

    def append(self, rows: list[Row]) -> None: ...

    def delete(self, row: Row) -> None:
        """All copies of a row go."""
        ...

    def tidy(self, rng: random.Random) -> None:
        """Something that changes no row."""
        ...


def columns(rows: list[Row]) -> pa.Table:
    xs, ys = ([row[at] for row in rows] for at in (0, 1))
    return pa.table({"x": pa.array(xs, pa.string()), "y": pa.array(ys, pa.int64())})


class TextFile:
    """A file of lines."""

    options = ""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "edge.facts"
        self.rows: list[Row] = []
        self.replace([])

    def replace(self, rows: list[Row]) -> None:
        self.rows = list(rows)
        self.path.write_text("".join(f"{x}\t{y}\n" for x, y in rows), "utf-8")

    def append(self, rows: list[Row]) -> None:
        self.replace(self.rows + rows)

    def delete(self, row: Row) -> None:
        self.replace([each for each in self.rows if each != row])

    def tidy(self, rng: random.Random) -> None:
        if rng.random() < 0.5:
            self.path.touch()
        else:
            rng.shuffle(self.rows)
            self.replace(self.rows)


class ParquetFolder(TextFile):
    """A folder of Parquet files."""

    options = 'IO=parquet, filename="edge.parquet"'

    def __init__(self, folder: Path) -> None:
        self.path = folder / "edge.parquet"
        self.rows = []
        self.replace([])

    def replace(self, rows: list[Row]) -> None:
        self.rows = list(rows)
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir()
        for number in range(2):
            pq.write_table(columns(rows[number::2]), self.path / f"{number}.parquet")

    def append(self, rows: list[Row]) -> None:
        """As a file of its own, in the folder or in one below it."""
        self.rows = self.rows + rows
        pq.write_table(columns(rows), self.path / f"{len(list(self.path.iterdir()))}-more.parquet")

    def delete(self, row: Row) -> None:
        """One file is written again."""
        self.rows = [each for each in self.rows if each != row]
        for file in self.path.iterdir():
            table = pq.read_table(file)
            kept = [each for each in zip(*(column.to_pylist() for column in table.columns), strict=True) if each != row]
            if len(kept) < table.num_rows:
                pq.write_table(columns(kept), file)

    def tidy(self, rng: random.Random) -> None:
        self.replace(self.rows)


class DeltaTable:
    """A table of Delta Lake, with a change feed or without."""

    options = 'IO=delta, table="lake/edge"'

    def __init__(self, folder: Path, *, feed: bool) -> None:
        self.path = str(folder / "lake/edge")
        self.feed = feed
        self.write(columns([]), "error")

    def write(self, rows: pa.Table, mode: Any) -> None:
        import deltalake

        configuration = {"delta.enableChangeDataFeed": "true"} if self.feed else None
        deltalake.write_deltalake(self.path, rows, mode=mode, configuration=configuration if mode == "error" else None)

    def replace(self, rows: list[Row]) -> None:
        self.write(columns(rows), "overwrite")

    def append(self, rows: list[Row]) -> None:
        self.write(columns(rows), "append")

    def delete(self, row: Row) -> None:
        import deltalake

        deltalake.DeltaTable(self.path).delete(f"x = '{row[0]}' AND y = {row[1]}")

    def tidy(self, rng: random.Random) -> None:
        import deltalake

        table = deltalake.DeltaTable(self.path)
        match rng.randrange(3):
            case 0:
                table.optimize.compact()
            case 1:
                table.vacuum(0, enforce_retention_duration=False, dry_run=False)
            case _:
                rows = table.to_pyarrow_table()
                shutil.rmtree(self.path)
                self.write(rows, "error")


class IcebergTable:
    """A table in a catalog of Iceberg."""

    def __init__(self, folder: Path) -> None:
        from pyiceberg.catalog import load_catalog

        uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
        catalog = load_catalog("tests", uri=uri, warehouse=warehouse)
        catalog.create_namespace("db")
        self.table = catalog.create_table("db.edge", schema=columns([]).schema)
        self.options = f'IO=iceberg, table="db.edge", catalog="tests", uri="{uri}", warehouse="{warehouse}"'

    def replace(self, rows: list[Row]) -> None:
        self.table.overwrite(columns(rows))

    def append(self, rows: list[Row]) -> None:
        self.table.append(columns(rows))

    def delete(self, row: Row) -> None:
        self.table.delete(f"x == '{row[0]}' and y == {row[1]}")

    def tidy(self, rng: random.Random) -> None:
        self.table.append(columns([]))


TABLES: dict[str, Callable[[Path], Any]] = {
    "file": TextFile,
    "folder": ParquetFolder,
    "delta with a feed": partial(DeltaTable, feed=True),
    "delta": partial(DeltaTable, feed=False),
    "iceberg": IcebergTable,
}


def random_row(rng: random.Random) -> Row:
    return rng.choice("abcs"), rng.randrange(3)


def check(db: sempre.Database, rows: list[Row]) -> None:
    facts = set(rows) | STATED
    assert set(db["edge"]) == facts
    assert set(db["twice"]) == {(x, y) for x, y in facts if any(x == u and y != v for u, v in facts)}


def change(table: Table, rows: list[Row], rng: random.Random) -> list[Row]:
    """Write to the source; returns the rows it has then."""
    match rng.randrange(4):
        case 0:
            some = [random_row(rng) for _ in range(rng.randrange(1, 5))]
            table.append(some)
            return rows + some
        case 1:
            row = rng.choice(rows) if rows else random_row(rng)
            if rows:
                table.delete(row)
            return [each for each in rows if each != row]
        case 2:
            some = [random_row(rng) for _ in range(rng.randrange(5))]
            table.replace(some)
            return some
        case _:
            table.tidy(rng)
            return rows


def run(kind: str, folder: Path, rng: random.Random) -> None:
    """Random writes to a source, each followed by a refresh now and then."""
    facts, store = folder / "facts", folder / "store"
    facts.mkdir(parents=True)
    table = TABLES[kind](facts)
    rows = [random_row(rng) for _ in range(6)]
    table.append(rows)
    program = sempre.Program(PROGRAM.format(options=table.options))
    db = sempre.Database(program, store=store)
    db.refresh(facts)
    for _ in range(8):
        for _ in range(rng.randrange(3)):
            rows = change(table, rows, rng)
        by_hand = rng.random() < 0.15
        if by_hand:
            by_hand = bool(db.apply(insert={"edge": [("z", rng.randrange(99))]}))
        if rng.random() < 0.3:
            db.close()
            if rng.random() < 0.5:
                vacuum(store)
            db = sempre.Database(program, store=store)
        if by_hand:
            with pytest.raises(DataError, match="by hand"):
                db.refresh()
        db.refresh(overwrite=by_hand)
        check(db, rows)
        assert db.refresh() is None or kind in ("file", "folder")
        assert db.verify().ok
    db.close()


@pytest.mark.parametrize("kind", TABLES)
def test_facts_are_those_of_the_source(kind: str, tmp_path: Path) -> None:
    for seed in range(6 if kind != "iceberg" else 2):
        run(kind, tmp_path / str(seed), random.Random(f"{kind} {seed}"))


# What pyiceberg says of tables without rows that are overwritten.
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLES)
def test_many(kind: str, tmp_path: Path) -> None:
    for seed in seeds(0, 30):
        run(kind, tmp_path / str(seed), random.Random(f"many {kind} {seed}"))


def some_runs(folder: Path) -> None:
    for seed in range(12):
        run("delta with a feed", folder / str(seed), random.Random(seed))


def found(tmp_path: Path) -> None:
    with pytest.raises((AssertionError, DataError)):
        some_runs(tmp_path)


def test_copies_that_are_not_counted_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refreshing, "copies_of", lambda *_: refreshing._summed([], 2))
    found(tmp_path)


def test_facts_of_the_program_that_are_forgotten_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refreshing, "_stated", lambda database, name: None)
    found(tmp_path)


def test_versions_that_are_not_kept_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A feed that is read twice counts its rows twice."""
    kept = Keeper.commit

    def forgetful(self: Keeper, *args: Any) -> None:
        before = self.followed
        kept(self, *args)
        if before is not None and self.manifest is not None:
            self.manifest = replace(self.manifest, sources=before.to_json())

    monkeypatch.setattr(Keeper, "commit", forgetful)
    found(tmp_path)
