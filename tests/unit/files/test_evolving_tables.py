"""Tables whose schema or history changes: what a refresh makes of them is what a new store would read, or an error."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sempre
from sempre.api import refresh as refreshing

PROGRAM = ".decl e(x: symbol, y: number)\n.input e({source})\n"
ROWS = pa.table({"x": ["a", "b", "c"], "y": pa.array([1, 2, 3], pa.int64())})
MORE = pa.table({"x": ["d"], "y": pa.array([4], pa.int64())})


def refreshed(program: str, folder: Path, *steps: Callable[[], object]) -> list[tuple[Any, ...]]:
    """The facts after a refresh for each step, which are those of a new store."""
    with sempre.Database(program, store=folder / "store") as db:
        db.refresh(folder)
        for number, step in enumerate(steps):
            step()
            db.refresh()
            with sempre.Database(program, store=folder / f"store{number}") as fresh:
                fresh.refresh(folder)
                assert set(db["e"]) == set(fresh["e"]), f"after step {number}"
        return sorted(db["e"])


class Iceberg:
    """A table in a catalog of its own."""

    def __init__(self, folder: Path) -> None:
        from pyiceberg.catalog import load_catalog

        uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
        catalog = load_catalog("tests", uri=uri, warehouse=warehouse)
        catalog.create_namespace("db")
        self.table = catalog.create_table("db.e", schema=ROWS.schema)
        self.table.append(ROWS)
        self.source = f'IO=iceberg, table="db.e", catalog="tests", uri="{uri}", warehouse="{warehouse}"'

    def program(self, more: str = "") -> str:
        return PROGRAM.format(source=self.source + more)

    def expire(self) -> None:
        self.table.append(MORE)
        self.table.maintenance.expire_snapshots().by_id(self.table.snapshots()[0].snapshot_id).commit()

    def rename(self, old: str, new: str) -> None:
        with self.table.update_schema() as update:
            update.rename_column(old, new)

    def drop(self) -> None:
        with self.table.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("y")

    def dropped_and_added(self) -> None:
        self.drop()
        self.add()

    def add(self) -> None:
        from pyiceberg.types import LongType

        with self.table.update_schema() as update:
            update.add_column("y", LongType())
        self.table.append(MORE)


def test_a_snapshot_that_has_expired_is_compared(tmp_path: Path) -> None:
    """The package finds no files for it, so that all rows would seem to have come, once more."""
    iceberg = Iceberg(tmp_path)
    steps = (iceberg.expire, lambda: iceberg.table.delete("x == 'a'"))
    assert refreshed(iceberg.program(), tmp_path, *steps) == [("b", 2), ("c", 3), ("d", 4)]


def how(db: sempre.Database) -> str:
    return refreshing.refresh(db, None, overwrite=False, maintain_only=False).read["e"]


def test_why_all_rows_are_compared_is_said(tmp_path: Path) -> None:
    iceberg = Iceberg(tmp_path)
    with sempre.Database(iceberg.program(), store=tmp_path / "iceberg") as db:
        db.refresh(tmp_path)
        snapshot = iceberg.table.metadata.current_snapshot_id
        iceberg.expire()
        assert how(db) == f"all 4 rows compared: snapshot {snapshot} has expired"
    deltalake.write_deltalake(tmp_path / "t", ROWS)
    with sempre.Database(PROGRAM.format(source="IO=delta, table=t"), store=tmp_path / "delta") as db:
        db.refresh(tmp_path)
        deltalake.DeltaTable(tmp_path / "t").delete("x = 'a'")
        assert how(db) == "all 2 rows compared: the table keeps no change feed, and most files are new"


def test_a_column_that_is_dropped_and_added_again_is_another(tmp_path: Path) -> None:
    iceberg = Iceberg(tmp_path)
    with sempre.Database(iceberg.program(), store=tmp_path / "store") as db:
        db.refresh(tmp_path)
        iceberg.rename("y", "w")
        with pytest.raises(sempre.DataError, match=r"E502(.|\n)*not found: y(.|\n)*select x, w as y"):
            db.refresh()
        iceberg.rename("w", "y")
        assert db.refresh() is None
    assert refreshed(iceberg.program(", nulls=drop"), tmp_path / "again", iceberg.dropped_and_added) == [("d", 4)]


# ---------------------------------------------------------------------------------- what `deltalake` does not write

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def encoded(data: bytes) -> str:
    """Z85, as deletion vectors in the log have it."""
    data += b"\0" * (-len(data) % 4)
    found = ""
    for at in range(0, len(data), 4):
        number, digits = int.from_bytes(data[at : at + 4], "big"), ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            digits = Z85[digit] + digits
        found += digits
    return found


def vector(*rows: int) -> dict[str, Any]:
    """A deletion vector, in the log itself: one Roaring bitmap of one container."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    return {
        "storageType": "i", "pathOrInlineDv": encoded(data), "sizeInBytes": len(data), "cardinality": len(rows)
    }  # fmt: skip


class ModernDelta:
    """A table with deletion vectors, whose columns have other names in the files."""

    def __init__(self, folder: Path, *, mapped: bool, feed: bool) -> None:
        self.folder = folder
        self.mapped = mapped
        self.version = 0
        self.settings = {"delta.enableDeletionVectors": "true"} | (
            {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"} if mapped else {}
        )
        self.settings |= {"delta.enableChangeDataFeed": "true"} if feed else {}
        features = ["deletionVectors", *(["columnMapping"] if mapped else [])]
        writing = [*features, *(["changeDataFeed"] if feed else [])]
        (folder / "_delta_log").mkdir(parents=True)
        protocol = {
            "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": writing
        }  # fmt: skip
        self.commit({"protocol": protocol}, self.metadata("y"), self.added("first", ROWS))

    def commit(self, *actions: dict[str, Any]) -> None:
        path = self.folder / f"_delta_log/{self.version:020}.json"
        path.write_text("\n".join(map(json.dumps, actions)))
        self.version += 1

    def metadata(self, last: str, number: int = 2) -> dict[str, Any]:
        """The columns `x` and `last`, which is the column of that number."""
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": self.mapping(at)}
            for at, name, kind in ((1, "x", "string"), (number, last, "long"))
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        form = {"provider": "parquet", "options": {}}
        return {
            "metaData": {
                "id": "11111111-1111-1111-1111-111111111111", "format": form, "schemaString": schema,
                "partitionColumns": [], "configuration": self.settings, "createdTime": 0,
            }
        }  # fmt: skip

    def mapping(self, at: int) -> dict[str, Any]:
        if not self.mapped:
            return {}
        return {"delta.columnMapping.id": at, "delta.columnMapping.physicalName": f"column-{at}"}

    def added(self, name: str, rows: pa.Table, gone: dict[str, Any] | None = None) -> dict[str, Any]:
        path = self.folder / f"{name}.parquet"
        pq.write_table(rows.rename_columns(["column-1", "column-2"]) if self.mapped else rows, path)
        action = {
            "path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 0,
            "dataChange": True, "stats": json.dumps({"numRecords": rows.num_rows}),
        }  # fmt: skip
        return {"add": action | ({"deletionVector": gone} if gone else {})}

    def delete(self, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
        """Rows of the first file."""
        action = {"path": "first.parquet", "dataChange": True, "deletionTimestamp": 1}
        remove = {"remove": action | ({"deletionVector": before} if before else {})}
        self.commit(remove, self.added("first", ROWS, after))


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("feed", [False, True])
def test_deletion_vectors_and_columns_with_other_names(mapped: bool, feed: bool, tmp_path: Path) -> None:
    table = ModernDelta(tmp_path / "t", mapped=mapped, feed=feed)
    program = PROGRAM.format(source='IO=delta, table="t"')
    found = refreshed(
        program,
        tmp_path,
        lambda: table.commit(table.added("second", MORE)),
        lambda: table.delete(None, vector(1)),
        lambda: table.delete(vector(1), vector(0, 1)),
    )
    assert found == [("c", 3), ("d", 4)]
    if mapped:
        table.commit(table.metadata("z"))
        with (
            sempre.Database(program, store=tmp_path / "store") as db,
            pytest.raises(sempre.DataError, match=r"E502(.|\n)*not found: y(.|\n)*select x, z as y"),
        ):
            db.refresh()


@pytest.mark.parametrize("feed", [False, True])
def test_a_column_of_delta_that_is_dropped_and_added_again_is_another(feed: bool, tmp_path: Path) -> None:
    """No row is written, and no row is as it was: the files have values of the column that was dropped."""
    table = ModernDelta(tmp_path / "t", mapped=True, feed=feed)
    found = refreshed(
        PROGRAM.format(source='IO=delta, table="t", nulls=0'),
        tmp_path,
        lambda: table.commit(table.metadata("y", 3)),
        lambda: table.commit(table.added("second", MORE)),
    )
    assert found == [("a", 0), ("b", 0), ("c", 0), ("d", 0)]


@pytest.mark.parametrize("feed", [False, True])
def test_the_schema_of_a_delta_table_changes(feed: bool, tmp_path: Path) -> None:
    path = tmp_path / "t"
    settings = {"delta.enableChangeDataFeed": "true"} if feed else None
    deltalake.write_deltalake(path, ROWS, configuration=settings)

    def evolve() -> None:
        deltalake.write_deltalake(path, MORE.append_column("z", [["q"]]), mode="append", schema_mode="merge")

    def vacuum() -> None:
        deltalake.DeltaTable(path).delete("x = 'a'")
        deltalake.DeltaTable(path).vacuum(0, enforce_retention_duration=False, dry_run=False)

    def narrow() -> None:
        rows = pa.table({"x": ["k"], "y": pa.array([9], pa.int32())})
        deltalake.write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")

    def forget() -> None:
        deltalake.write_deltalake(path, MORE.cast(pa.schema([("x", "string"), ("y", "int32")])), mode="append")
        deltalake.DeltaTable(path).create_checkpoint()
        for version in range(2):
            (path / f"_delta_log/{version:020}.json").unlink()

    program = PROGRAM.format(source='IO=delta, table="t", extra=ignore')
    assert refreshed(program, tmp_path, evolve, vacuum, narrow, forget) == [("d", 4), ("k", 9)]
    deltalake.write_deltalake(path, pa.table({"x": ["a"], "y": ["4"]}), mode="overwrite", schema_mode="overwrite")
    with (
        sempre.Database(program, store=tmp_path / "store") as db,
        pytest.raises(sempre.DataError, match=r"E509.*a column of type string cannot be read"),
    ):
        db.refresh()
