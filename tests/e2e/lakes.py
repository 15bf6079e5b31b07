"""Tables that a store is refreshed from, and that it publishes to: of Delta Lake, of Iceberg, and of SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import deltalake
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

Edge = tuple[str, str]
PROGRAM = """
.decl edge(x: symbol, y: symbol)
.input edge({at}"edge"{catalog})
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.output reach
.output reach({at}"reach"{catalog}, mode=merge)
.decl node(x: symbol)
node(x) :- edge(x, _).
.output node({at}"node_changes"{catalog}, mode=changes)
"""


class Lake(Protocol):
    """The source `edge`, and what was published."""

    program: str

    def make(self, edges: list[Edge]) -> None: ...

    def append(self, edges: list[Edge]) -> None: ...

    def delete(self, edge: Edge) -> None: ...

    def read(self, name: str) -> list[dict[str, Any]]: ...


class Delta:
    """Tables of Delta Lake, with a change feed at the source."""

    program = PROGRAM.format(at="IO=delta, table=", catalog="")

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, edges: list[Edge]) -> None:
        feed = {"delta.enableChangeDataFeed": "true"}
        deltalake.write_deltalake(self.folder / "facts/edge", table_of(edges), configuration=feed)

    def append(self, edges: list[Edge]) -> None:
        deltalake.write_deltalake(self.folder / "facts/edge", table_of(edges), mode="append")

    def delete(self, edge: Edge) -> None:
        deltalake.DeltaTable(self.folder / "facts/edge").delete(f"x = '{edge[0]}' AND y = '{edge[1]}'")

    def read(self, name: str) -> Any:
        return deltalake.DeltaTable(self.folder / "out" / name).to_pyarrow_table().to_pylist()


class Iceberg:
    """Tables of Iceberg, in a catalog of SQLite."""

    def __init__(self, folder: Path) -> None:
        place = {"uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder / 'warehouse'}"}
        options = "".join(f', {name}="{value}"' for name, value in place.items())
        self.program = PROGRAM.replace('{at}"', 'IO=iceberg, table="db.').format(catalog=options)
        self.catalog = SqlCatalog("default", **place)

    def make(self, edges: list[Edge]) -> None:
        self.catalog.create_namespace("db")
        rows = table_of(edges)
        self.catalog.create_table("db.edge", schema=rows.schema).append(rows)

    def append(self, edges: list[Edge]) -> None:
        self.catalog.load_table("db.edge").append(table_of(edges))

    def delete(self, edge: Edge) -> None:
        self.catalog.load_table("db.edge").delete(f"x = '{edge[0]}' AND y = '{edge[1]}'")

    def read(self, name: str) -> Any:
        return self.catalog.load_table(f"db.{name}").scan().to_arrow().to_pylist()


class Sqlite:
    """Tables of SQLite files."""

    program = (
        PROGRAM.format(at="IO=sqlite, filename={file}, table=", catalog="")
        .replace("{file}", '"edges.db"', 1)
        .replace("{file}", '"results.db"')
    )

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, edges: list[Edge]) -> None:
        (self.folder / "facts").mkdir()
        self._do("facts/edges.db", "CREATE TABLE edge (x TEXT, y TEXT)", [()])
        self.append(edges)

    def append(self, edges: list[Edge]) -> None:
        self._do("facts/edges.db", "INSERT INTO edge VALUES (?, ?)", edges)

    def delete(self, edge: Edge) -> None:
        self._do("facts/edges.db", "DELETE FROM edge WHERE x = ? AND y = ?", [edge])

    def read(self, name: str) -> list[dict[str, Any]]:
        return self._do("out/results.db", f"SELECT * FROM {name}", [()])

    def _do(self, file: str, statement: str, values: list[Any]) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.folder / file)) as database, database:
            database.row_factory = sqlite3.Row
            return [dict(row) for each in values for row in database.execute(statement, each)]


LAKES: dict[str, type[Delta | Iceberg | Sqlite]] = {"delta": Delta, "iceberg": Iceberg, "sqlite": Sqlite}


def table_of(edges: list[Edge]) -> pa.Table:
    schema = pa.schema([("x", "string"), ("y", "string")])
    return pa.table({"x": [x for x, _ in edges], "y": [y for _, y in edges]}, schema=schema)
