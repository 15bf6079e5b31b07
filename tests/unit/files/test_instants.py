"""A date is no instant, and the time on a clock is neither; without Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sempre
from sempre.diagnostics import DataError

TYPES = """
.type date <: number
.type hired <: date
.type timestamp <: number
.type logged <: timestamp
.type timestamp_ntz <: number
"""
DAY = pa.array([dt.date(2024, 2, 29)])
INSTANT = pa.array([dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)])
CLOCK = pa.array([dt.datetime(1970, 1, 1, 0, 0, 1)])  # that is the point of it
GIVEN = {"date": (DAY, 19782), "timestamp": (INSTANT, 1_000_000), "timestamp_ntz": (CLOCK, 1_000_000)}
BELOW = {"hired": "date", "logged": "timestamp"}


def outcomes(column: pa.Array, type_: str, folder: Path) -> list[Any]:
    """What a column becomes in memory and from a file: a number, or the code of the error."""
    table = pa.table({"at": column})
    pq.write_table(table, folder / "r.parquet")
    db = sempre.Database(f"{TYPES}.decl r(at: {type_})\n.input r(IO=parquet)\n")
    file = sempre.Database(db.program)
    found: list[Any] = []
    for database in (db, file):
        try:
            if database is db:
                database.apply(insert={"r": table})
            else:
                database.load(folder)
            found.append(next(iter(database["r"]))[0])
        except DataError as error:
            found.append(error.diagnostics[0].code)
    return found


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("type_", ["number", *GIVEN, *BELOW])
def test_what_comes_as_what(given: str, type_: str, tmp_path: Path) -> None:
    column, number = GIVEN[given]
    fits = type_ == "number" or BELOW.get(type_, type_) == given
    assert outcomes(column, type_, tmp_path) == [number if fits else "E509"] * 2


def test_instants_of_other_zones_and_units(tmp_path: Path) -> None:
    for unit in ("s", "ms", "us", "ns"):
        column = INSTANT.cast(pa.timestamp(unit, "Asia/Kolkata"))
        assert outcomes(column, "timestamp", tmp_path) == [1_000_000] * 2
    assert outcomes(DAY.cast(pa.date64()), "date", tmp_path) == [19782] * 2


def test_nanoseconds_are_not_cut_off(tmp_path: Path) -> None:
    column = pa.array([1_001], pa.timestamp("ns", "UTC"))
    assert outcomes(column, "timestamp", tmp_path) == ["E509"] * 2
