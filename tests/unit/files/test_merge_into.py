"""Changes that are merged into a table by keys: the table is what a dictionary would be."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import sempre

RULES = """
.decl owner(place: symbol, who: symbol, n: unsigned)
.decl seen(who: symbol, place: symbol)
seen(w, p) :- owner(p, w, _).
"""


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    table = deltalake.DeltaTable(path).to_pyarrow_table()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def made(path: Path, **columns: pa.DataType) -> Path:
    schema = pa.schema([pa.field(name, type_) for name, type_ in columns.items()])
    deltalake.write_deltalake(path, schema.empty_table())
    return path


class IcebergTables:
    """Tables in a catalog."""

    def __init__(self, folder: Path) -> None:
        from pyiceberg.catalog import load_catalog

        folder.mkdir()
        self.catalog = load_catalog("tests", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        self.catalog.create_namespace("db")

    def made(self, name: str, **columns: pa.DataType) -> Any:
        return self.catalog.create_table(f"db.{name}", schema=pa.schema(list(columns.items())))

    def rows_of(self, table: Any) -> list[tuple[Any, ...]]:
        rows = self.catalog.load_table(table.name()).scan().to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_with_keys_is_a_dictionary(form: str, tmp_path: Path) -> None:
    owner = {"place": pa.string(), "who": pa.string(), "n": pa.int64()}
    seen = {"who": pa.string(), "place": pa.string()}
    if form == "iceberg":
        tables = IcebergTables(tmp_path / "iceberg")
        dictionary_of(tables.made("owner", **owner), tables.made("seen", **seen), tables.rows_of, 3)
    else:
        table = deltalake.DeltaTable(made(tmp_path / "owner", **owner))
        dictionary_of(tmp_path / "owner", made(tmp_path / "seen", **seen), rows_of, 8)
        assert rows_of(tmp_path / "owner") != [], "and an open table is taken, too"
        with sempre.Database(RULES) as db:
            db.apply(insert={"owner": [("new", "x", 1)]}).merge_into(table, "owner", keys=["place"])
        assert ("new", "x", 1) in rows_of(tmp_path / "owner")


def dictionary_of(table: Any, pairs: Any, rows_of: Callable[[Any], list[tuple[Any, ...]]], epochs: int) -> None:
    rng, have = random.Random(3), dict[str, tuple[str, int]]()
    with sempre.Database(RULES) as db:
        for _ in range(epochs):
            before = dict(have)
            for place in rng.sample("abcdef", 3):
                have[place] = (rng.choice("xyz"), rng.randrange(5))
            for place in rng.sample("abcdef", 2):
                have.pop(place, None)
            insert = [(place, *rest) for place, rest in have.items() if before.get(place) != rest]
            delete = [(place, *rest) for place, rest in before.items() if have.get(place) != rest]
            changes = db.apply(insert={"owner": insert}, delete={"owner": delete})
            for _ in range(2):  # again: nothing changes
                changes.merge_into(table, "owner", keys=["place"])
                changes.merge_into(pairs, "seen")
                assert rows_of(table) == sorted((place, *rest) for place, rest in have.items())
                assert rows_of(pairs) == sorted((who, place) for place, (who, _) in have.items())


def test_what_cannot_be_merged(tmp_path: Path) -> None:
    table = made(tmp_path / "owner", place=pa.string(), who=pa.string(), n=pa.int64())
    with sempre.Database(RULES) as db:
        changes = db.apply(insert={"owner": [("a", "x", 1), ("a", "y", 1)]})
        with pytest.raises(sempre.DataError, match="several rows were added with the key place='a'"):
            changes.merge_into(table, "owner", keys=["place"])
        with pytest.raises(sempre.DataError, match="`where` is no column of the relation"):
            changes.merge_into(table, "owner", keys=["where"])
        with pytest.raises(sempre.StateError, match="nobody"):
            changes.merge_into(table, "nobody")
        with pytest.raises(sempre.DataError, match="E506"):
            changes.merge_into(tmp_path / "none", "owner")
        assert rows_of(table) == []
        far = db.apply(insert={"owner": [("b", "x", 2**63)]})
        with pytest.raises(sempre.DataError, match="E506"):
            far.merge_into(table, "owner")
