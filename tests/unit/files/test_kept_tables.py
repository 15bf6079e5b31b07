"""What is done to tables that are kept for long: after each step a refresh has what a new store would have."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

import sempre
from sempre.api import refresh as refreshing

pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
Rows = list[tuple[str, int]]
ODD = ["a/b=c %", "ä 日", " ", "100%25", "x:y"]
START: Rows = [(name, at) for at, name in enumerate([*ODD, "k", "l"])]


def table_of(rows: Rows, kind: str = "int64") -> pa.Table:
    return pa.table({"x": pa.array([x for x, _ in rows], "string"), "n": pa.array([n for _, n in rows], kind)})


def check(db: sempre.Database, wanted: Rows, folder: Path | None = None) -> str:
    """Refresh, and compare with all rows; how it was read."""
    found = refreshing.refresh(db, None if folder is None else str(folder), overwrite=False, maintain_only=False)
    assert sorted(db["e"]) == sorted(set(wanted))
    assert db.verify().ok
    return found.read["e"]


# ----------------------------------------------------------------------------------------------------- Delta Lake


class Delta:
    """A table of Delta Lake, and what is done to it; each step gives the rows that it should have then."""

    def __init__(self, path: Path, feed: bool) -> None:
        self.path = path
        self.configuration = {"delta.enableChangeDataFeed": "true"} if feed else {}
        self.write(START, mode="error", partition_by=["x"], configuration=self.configuration)

    @property
    def table(self) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(self.path)

    def write(self, rows: Rows, **options: Any) -> None:
        deltalake.write_deltalake(self.path, table_of(rows), **{"mode": "append", **options})

    def partitions_change(self) -> Rows:
        self.write([("new/one", 9), ("k", 10)])
        self.table.delete("x = 'a/b=c %'")
        self.table.update(updates={"n": "n + 100"}, predicate="x = ' '")
        return [*(row for row in START if row[0] not in ("a/b=c %", " ")), (" ", 102), ("new/one", 9), ("k", 10)]

    def is_restored(self) -> Rows:
        version = self.table.version()
        self.table.delete("n > 2")
        self.table.restore(version - 1 if version else 0)
        return sorted(rows_of(self.table))

    def loses_its_feed(self) -> Rows:
        self.write([("k", 77)])
        self.table.delete("x = 'l'")
        shutil.rmtree(self.path / "_change_data", ignore_errors=True)
        return rows_of(self.table)

    def begins_a_feed(self) -> Rows:
        self.write([("before", 1)])
        self.table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
        self.write([("after", 1)])
        return rows_of(self.table)

    def loses_its_log(self) -> Rows:
        for at in range(3):
            self.write([("log", at)])
        self.table.create_checkpoint()
        for path in sorted((self.path / "_delta_log").glob("*.json"))[:-1]:
            path.unlink()
        return rows_of(self.table)

    def is_written_by_others(self) -> Rows:
        merge = self.table.merge(table_of([("k", 500), ("m", 501)]), "t.x = s.x", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        self.write([("l", 3), ("l", 4)], mode="overwrite", predicate="x = 'l'")
        return rows_of(self.table)

    def has_other_types(self) -> Rows:
        rows = table_of([("narrow", 1), ("narrow", 2)], "int32")
        deltalake.write_deltalake(self.path, rows, mode="overwrite", schema_mode="overwrite", partition_by=["x"])
        return [("narrow", 1), ("narrow", 2)]

    def is_put_in_order(self) -> Rows:
        self.write([("k", 600)])
        self.table.optimize.compact()
        self.table.vacuum(0, enforce_retention_duration=False, dry_run=False)
        return rows_of(self.table)

    def is_made_anew(self) -> Rows:
        version = self.table.version()
        shutil.rmtree(self.path)
        self.write([("anew", 1)], mode="error", configuration=self.configuration)
        while self.table.version() <= version:
            self.write([("anew", self.table.version())])
        return rows_of(self.table)


def rows_of(table: deltalake.DeltaTable) -> Rows:
    found = table.to_pyarrow_table()
    return list(zip(found.column("x").to_pylist(), found.column("n").to_pylist(), strict=True))


DELTA_STEPS = [
    Delta.partitions_change, Delta.is_restored, Delta.loses_its_feed, Delta.begins_a_feed, Delta.is_put_in_order,
    Delta.loses_its_log, Delta.is_written_by_others, Delta.has_other_types, Delta.is_made_anew, Delta.partitions_change,
]  # fmt: skip


@pytest.mark.parametrize("feed", [False, True])
def test_a_table_of_delta_lake(feed: bool, tmp_path: Path) -> None:
    delta = Delta(tmp_path / "t", feed)
    program = '.decl e(x: symbol, n: number)\n.input e(IO=delta, table="t")\n'
    with sempre.Database(program, store=tmp_path / "store") as db:
        check(db, START, tmp_path)
        for step in DELTA_STEPS[:-1]:
            wanted = step(delta)
            print(step.__name__, check(db, wanted))
            assert check(db, wanted) == "nothing new"


# -------------------------------------------------------------------------------------------------------- Iceberg


class Iceberg:
    """A table of Iceberg, and what is done to it."""

    def __init__(self, folder: Path) -> None:
        place = {"uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder / 'warehouse'}"}
        options = ", ".join(f'{name}="{value}"' for name, value in place.items())
        self.program = f'.decl e(x: symbol, n: number)\n.input e(IO=iceberg, table="db.t", {options})\n'
        self.catalog = SqlCatalog("default", **place)
        self.catalog.create_namespace("db")
        self.create()

    def create(self) -> None:
        table = self.catalog.create_table("db.t", schema=table_of([], "int32").schema)
        table.append(table_of(START, "int32"))

    @property
    def table(self) -> Any:
        return self.catalog.load_table("db.t")

    def rows(self) -> Rows:
        found = self.table.scan().to_arrow()
        return list(zip(found.column("x").to_pylist(), found.column("n").to_pylist(), strict=True))

    def append(self, rows: Rows) -> None:
        kind = "int64" if str(self.table.schema().find_type("n")) == "long" else "int32"
        self.table.append(table_of(rows, kind))

    def partitions_change(self) -> Rows:
        with self.table.update_spec() as spec:
            spec.add_field("x", IdentityTransform(), "by_x")
        self.append([("a/b=c %", 50), ("new/one", 51)])
        with self.table.update_spec() as spec:
            spec.remove_field("by_x")
            spec.add_field("n", IdentityTransform(), "by_n")
        self.append([("k", 52), ("k", 53)])
        self.table.delete("x == ' '")
        return self.rows()

    def has_wider_numbers(self) -> Rows:
        with self.table.update_schema() as schema:
            schema.update_column("n", LongType())
        self.append([("wide", 1 << 40)])
        return self.rows()

    def is_rolled_back(self) -> Rows:
        before = self.table.current_snapshot().snapshot_id
        self.append([("gone", 1)])
        self.table.manage_snapshots().create_branch(self.table.current_snapshot().snapshot_id, "side").commit()
        self.table.manage_snapshots().rollback_to_snapshot(before).commit()
        return self.rows()

    def is_overwritten(self) -> Rows:
        kind = "int64" if str(self.table.schema().find_type("n")) == "long" else "int32"
        self.table.overwrite(table_of([("k", 7), ("o", 8)], kind))
        return [("k", 7), ("o", 8)]

    def is_upserted(self) -> Rows:
        rows = table_of([("o", 80), ("p", 81)]).select(list(self.table.schema().column_names))
        self.table.upsert(rows, join_cols=["x"])
        return self.rows()

    def is_made_anew(self) -> Rows:
        self.catalog.drop_table("db.t")
        self.create()
        return START

    def has_columns_moved(self) -> Rows:
        with self.table.update_schema() as schema:
            schema.move_first("n")
        return self.rows()


ICEBERG_STEPS: list[Callable[[Iceberg], Rows]] = [
    Iceberg.partitions_change, Iceberg.has_wider_numbers, Iceberg.is_rolled_back, Iceberg.has_columns_moved,
    Iceberg.is_overwritten, Iceberg.is_upserted, Iceberg.is_made_anew, Iceberg.partitions_change,
]  # fmt: skip


def test_a_table_of_iceberg(tmp_path: Path) -> None:
    iceberg = Iceberg(tmp_path)
    with sempre.Database(iceberg.program, store=tmp_path / "store") as db:
        check(db, START, tmp_path)
        for step in ICEBERG_STEPS:
            wanted = step(iceberg)
            print(step.__name__, check(db, wanted))
            assert check(db, wanted) == "nothing new"
