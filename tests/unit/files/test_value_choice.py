"""Nulls that become values, and decimals that become units: what was asked for, and nothing else."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sempre
from sempre.analysis.model import Relation
from sempre.diagnostics import DataError, ProgramError
from sempre.files.read import read_inputs
from tests.unit.files.build import program, relation

COLUMNS = ("x:symbol", "n:number", "u:unsigned", "f:float")
NULLS: dict[str, list[Any]] = {"x": ["a", None], "n": [1, None], "u": [None, 2], "f": [None, 0.5]}


def found(folder: Path, columns: tuple[str, ...], **options: str) -> list[tuple[Any, ...]]:
    table = read_inputs(program(relation("r", *columns, input={"IO": "parquet", **options})), folder)["r"]
    return [tuple(row.values()) for row in table.to_pylist()]


def written(folder: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), folder / "r.parquet")
    return folder


@pytest.mark.parametrize(
    ("nulls", "rows"),
    [
        ("x=none,n=0,u=7,f=-1", [("a", 1, 7, -1.0), ("none", 0, 2, 0.5)]),
        ("x=,n=-5,u=0,f=nan", [("a", 1, 0, None), ("", -5, 2, 0.5)]),
        ("0", [("a", 1, 0, 0.0), ("0", 0, 2, 0.5)]),
        ("drop", []),
    ],
)
def test_nulls_become_values(nulls: str, rows: list[tuple[Any, ...]], tmp_path: Path) -> None:
    given = found(written(tmp_path, **NULLS), COLUMNS, nulls=nulls)
    shown = [tuple(None if cell != cell else cell for cell in row) for row in given]
    assert shown == rows
    lists = [list(row) for row in zip(*NULLS.values(), strict=True)]
    (tmp_path / "r.json").write_text(json.dumps(lists))
    table = read_inputs(program(relation("r", *COLUMNS, input={"IO": "json", "nulls": nulls})), tmp_path)["r"]
    shown = [tuple(None if cell != cell else cell for cell in row.values()) for row in table.to_pylist()]
    assert shown == rows


def test_nulls_that_nobody_spoke_of_are_errors(tmp_path: Path) -> None:
    for nulls in ("x=none,n=0,u=7", "none", "-1"):
        with pytest.raises(DataError, match="E508"):
            found(written(tmp_path, **NULLS), COLUMNS, nulls=nulls)


def test_records_and_dictionaries(tmp_path: Path) -> None:
    texts = pa.array(["a", None, "a"]).dictionary_encode()
    assert found(written(tmp_path, x=texts), ("x:symbol",), nulls="none") == [("a",), ("none",), ("a",)]


def prices(*values: str | None, type_: pa.DataType | None = None) -> pa.Array:
    return pa.array([None if value is None else Decimal(value) for value in values], type_ or pa.decimal128(20, 3))


def test_decimals_become_units(tmp_path: Path) -> None:
    given = prices("1.25", "-0.100", "92233720368547758.07", None)
    options = {"decimals": "p=2", "nulls": "0"}
    units = [(125,), (-10,), (2**63 - 1,), (0,)]
    assert found(written(tmp_path, p=given), ("p:number",), **options) == units
    sliced = pa.chunked_array([given.slice(1, 2), given.slice(0, 1)])
    assert found(written(tmp_path, p=sliced), ("p:number",), decimals="p=2") == [units[1], units[2], units[0]]
    assert found(written(tmp_path, p=prices("7.5")), ("p:unsigned",), decimals="p=18") == [(75 * 10**17,)]
    wide = prices("1.5", type_=pa.decimal256(60, 5))
    assert found(written(tmp_path, p=wide), ("p:number",), decimals="p=1") == [(15,)]
    assert found(written(tmp_path, p=prices("1.1")), ("p:float",), decimals="float") == [(1.1,)]


@pytest.mark.parametrize(
    ("value", "columns", "decimals", "text"),
    [
        ("1.255", "p:number", "p=2", "E504.*a decimal has more than 2 places after the point"),
        ("92233720368547758.08", "p:number", "p=2", "E504"),
        ("-1.00", "p:unsigned", "p=2", "E504"),
        ("1.00", "p:number", "", 'E509(.|\n)*or decimals="NAME=3" takes units'),
        ("1.00", "p:float", "", "E509(.|\n)*or decimals=float in .input takes the nearest float"),
    ],
)
def test_decimals_are_never_rounded(value: str, columns: str, decimals: str, text: str, tmp_path: Path) -> None:
    options = {"decimals": decimals} if decimals else {}
    with pytest.raises(DataError, match=text):
        found(written(tmp_path, p=prices(value)), (columns,), **options)


def test_a_column_that_has_no_decimals_any_more_is_refused(tmp_path: Path) -> None:
    """Its values would be a hundred times as much."""
    with pytest.raises(DataError, match=r"E509.*a column of type int64 has no decimals"):
        found(written(tmp_path, p=pa.array([125])), ("p:number",), decimals="p=2")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"nulls": "dorp"}, "`nulls=dorp` is unknown"),
        ({"nulls": "n=one"}, "`nulls`: `one` is no number, which column `n` holds"),
        ({"nulls": "u=-1"}, "`nulls`: `-1` is no unsigned"),
        ({"nulls": "n=0,z=1"}, "relation `r` has no column `z`"),
        ({"decimals": "2"}, "`decimals=2` does not say which column of `r` is meant"),
        ({"decimals": "n=19"}, "`decimals`: `19` is no scale for column `n`, which holds a number"),
        ({"decimals": "x=2"}, "`decimals`: `2` is no scale for column `x`, which holds a symbol"),
        ({"decimals": "f=2"}, "`decimals`: `2` is no scale for column `f`"),
    ],
)
def test_choices_that_do_not_fit(options: dict[str, str], text: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=text):
        found(tmp_path, COLUMNS, **options)
    found_relation: Relation = relation("r", "n:number", input={"IO": "parquet", "nulls": "none"})
    with pytest.raises(ProgramError, match="`nulls=none` fits no column of relation `r`"):
        read_inputs(program(found_relation), tmp_path)


@pytest.mark.parametrize("feed", [False, True])
def test_a_table_that_is_followed_has_the_same_values(feed: bool, tmp_path: Path) -> None:
    """The first rows, those that come, and those that go."""

    def rows(*given: tuple[str | None, str]) -> pa.Table:
        return pa.table({"x": pa.array([x for x, _ in given], pa.string()), "p": prices(*(p for _, p in given))})

    settings = {"delta.enableChangeDataFeed": "true"} if feed else None
    deltalake.write_deltalake(tmp_path / "t", rows((None, "1.5"), ("b", "2")), configuration=settings)
    deltalake.write_deltalake(tmp_path / "t", rows(("c", "3")), mode="append")
    text = '.decl r(x: symbol, p: number)\n.input r(IO=delta, table=t, nulls="x=none", decimals="p=2")\n'
    with sempre.Database(text, store=tmp_path / "store") as db:
        db.refresh(tmp_path)
        assert set(db["r"]) == {("none", 150), ("b", 200), ("c", 300)}
        deltalake.DeltaTable(tmp_path / "t").delete("x = 'c'")
        deltalake.write_deltalake(tmp_path / "t", rows((None, "4.25")), mode="append")
        db.refresh()
        assert set(db["r"]) == {("none", 150), ("b", 200), ("none", 425)}
        deltalake.write_deltalake(tmp_path / "t", rows(("d", "0.125")), mode="append")
        with pytest.raises(DataError, match=r"E504.*column `p` of relation `r`: a decimal has more than 2 places"):
            db.refresh()
