"""Tables of SQLite files are read as Soufflé writes them, and written so that nothing else in the file changes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sempre.diagnostics import DataError
from sempre.files.read import read_inputs
from sempre.files.write import write_outputs
from tests.unit.files.build import program, relation
from tests.unit.files.test_write import table

COLUMNS = ("x:number", "s:symbol", "f:float")
ROWS = [(-1, "ż\t'\"", 1.5), (2, "", 2.0)]


def made(tmp_path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(tmp_path / "r.sqlite")) as database, database:
        for statement in statements:
            database.execute(statement)
    return tmp_path


def found(folder: Path, *columns: str, **options: str) -> list[tuple[object, ...]]:
    tables = read_inputs(program(relation("r", *columns, input={"IO": "sqlite", **options})), folder)
    return [tuple(row.values()) for row in tables["r"].to_pylist()]


def test_what_is_written_is_read_and_other_tables_stay(tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE other (a)", "INSERT INTO other VALUES (1)", "CREATE TABLE r (old)")
    first = relation("r", *COLUMNS, output={"IO": "sqlite"})
    second = relation("s", "u:unsigned", output={"IO": "sqlite", "dbname": "r.sqlite", "table": "the s"})
    tables = {"r": table(first, *ROWS), "s": table(second, (7,))}
    for _ in range(2):
        write_outputs(program(first, second), tables.__getitem__, tmp_path)
    assert sorted(found(tmp_path, *COLUMNS)) == ROWS
    assert found(tmp_path, "u:unsigned", table="the s") == [(7,)]
    assert found(tmp_path, "a:number", table="other") == [(1,)]
    assert [path.name for path in tmp_path.iterdir()] == ["r.sqlite"]


def test_a_view_as_souffle_makes_it(tmp_path: Path) -> None:
    made(
        tmp_path,
        "CREATE TABLE __SymbolTable (id INTEGER PRIMARY KEY, symbol TEXT UNIQUE)",
        "INSERT INTO __SymbolTable VALUES (0, 'zero'), (1, 'one')",
        'CREATE TABLE _r ("0" INTEGER, "1" INTEGER)',
        "INSERT INTO _r VALUES (10, 1), (20, 0)",
        'CREATE VIEW r AS SELECT _r."0" AS "0", s.symbol AS "1" FROM _r, __SymbolTable s WHERE s.id = _r."1"',
    )
    assert sorted(found(tmp_path, "n:number", "s:symbol")) == [(10, "one"), (20, "zero")]


def test_columns_go_by_name(tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE r (s TEXT, x INTEGER)", "INSERT INTO r VALUES ('a', 1)")
    assert found(tmp_path, "x:number", "s:symbol") == [(1, "a")]


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        (("CREATE TABLE q (x)",), "E506"),
        (("CREATE TABLE r (x)", "INSERT INTO r VALUES (1), ('a')"), "E509"),
        (("CREATE TABLE r (x)", "INSERT INTO r VALUES ('a')"), "E509"),
        (("CREATE TABLE r (x)", "INSERT INTO r VALUES (1), (NULL)"), "E508"),
        (("CREATE TABLE r (y, z)",), "E502"),
    ],
)
def test_what_does_not_fit_is_said(statements: tuple[str, ...], code: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        found(made(tmp_path, *statements), "x:number")
    assert [each.code for each in caught.value.diagnostics] == [code]


def test_a_failure_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE r (x)", "INSERT INTO r VALUES (1)")
    big = relation("r", "x:unsigned", output={"IO": "sqlite"})
    with pytest.raises(DataError, match="cannot write"):
        write_outputs(program(big), {"r": table(big, (2**64 - 1,))}.__getitem__, tmp_path)
    assert found(tmp_path, "x:number") == [(1,)]
    assert [path.name for path in tmp_path.iterdir()] == ["r.sqlite"]


def test_an_empty_table(tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE r (x)")
    assert found(tmp_path, "x:number") == []
