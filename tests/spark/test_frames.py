"""Values across the border, both ways, whatever the session's settings are."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import sempre
from sempre.diagnostics import DataError
from sempre.files.matching import BY_NAME, ColumnChoice
from sempre.files.value_choice import ValueChoice
from sempre.spark.frames import WantedColumns, from_frame
from tests.spark.conftest import ONCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


SETTINGS = (
    {"spark.sql.ansi.enabled": "true", "spark.sql.caseSensitive": "true", "spark.sql.session.timeZone": "Asia/Kolkata"},
    {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "false",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
    },
)


@pytest.fixture(params=SETTINGS, ids=("ansi", "lax"))
def settings(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[dict[str, str]]:
    """The session with other settings for a while: the test owns it, the library does not."""
    wanted: dict[str, str] = request.param
    before = {key: value for key in wanted if (value := spark.conf.get(key)) is not None}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    yield wanted
    for key, value in before.items():
        spark.conf.set(key, value)


TYPES = (
    ".type date <: number\n.type timestamp <: number\n.type hired <: date\n.type logged <: timestamp\n"
    ".type timestamp_ntz <: number\n"
)
BY_POSITION = ColumnChoice(by_position=True)


def wanted(columns: str, taking: ColumnChoice = BY_NAME) -> WantedColumns:
    checked = sempre.Program(f"{TYPES}.decl r({columns})\n").checked
    return WantedColumns(checked.relations["r"], checked.types, taking)


def rows(df: DataFrame, columns: str, taking: ColumnChoice = BY_NAME, **options: Any) -> list[tuple[Any, ...]]:
    table = from_frame(df, replace(wanted(columns, taking), **options)).table
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_every_type_arrives_as_it_should(spark: SparkSession, settings: dict[str, str]) -> None:
    df = spark.sql(
        "select 1Y a, -2S b, 3 c, 9223372036854775807L d, true e, cast(1.5 as float) f, cast('NaN' as double) g,"
        " -0.0D h, 'żółć 🦉' i, date'1969-12-31' j, 5 k,"
        " timestamp'1970-01-02 00:00:00+00:00' l, timestamp_ntz'1970-01-01 00:00:01.000002' m"
    )
    columns = (
        "a: number, b: number, c: number, d: number, e: number, f: float, g: float, h: float, i: symbol, j: number,"
        " k: unsigned, l: number, m: number"
    )
    (row,) = rows(df, columns)
    assert row[:6] == (1, -2, 3, 2**63 - 1, 1, 1.5)
    assert math.isnan(row[6])
    assert row[7:] == (0.0, "żółć 🦉", -1, 5, 86_400_000_000, 1_000_002)


def test_instants_do_not_depend_on_daylight_saving(spark: SparkSession, settings: dict[str, str]) -> None:
    # 2021-03-14 02:30 does not exist in New York, and 2021-11-07 01:30 exists twice.
    df = spark.sql(
        "select timestamp_ntz'2021-03-14 02:30:00' a, timestamp_ntz'2021-11-07 01:30:00' b,"
        " timestamp'2021-11-07 05:30:00+00:00' c, timestamp'2021-11-07 06:30:00+00:00' d"
    )
    expected = tuple(
        int(dt.datetime(*parts, tzinfo=dt.UTC).timestamp()) * 1_000_000
        for parts in ((2021, 3, 14, 2, 30), (2021, 11, 7, 1, 30), (2021, 11, 7, 5, 30), (2021, 11, 7, 6, 30))
    )
    assert rows(df, "a: number, b: number, c: number, d: number") == [expected]


def test_unsigned_numbers_beyond_signed_ones(spark: SparkSession) -> None:
    df = spark.sql("select cast('18446744073709551615' as decimal(20,0)) a")
    assert rows(df, "a: unsigned") == [(2**64 - 1,)]


@pytest.mark.parametrize(
    ("query", "columns", "message", "hint"),
    [
        ("select 1.5BD a", "a: float", "type decimal(2,1)", "cast(a as double)"),
        ("select 1.5BD a", "a: number", "type decimal(2,1)", "cast(a as bigint)"),
        ("select X'00' a", "a: symbol", "type binary", "hex(a)"),
        ("select array(1) a", "a: symbol", "type array<int>", "to_json(a)"),
        ("select array(1) a", "a: number", "type array<int>", "explode(a)"),
        ("select array(1) `A`", "a: number", "type array<int>", "A.FIELD"),
        ("select '1' a", "a: number", "type string", "cast(a as bigint)"),
        ("select 1 a", "a: symbol", "type int", "cast(a as string)"),
        ("select date'2020-01-01' a", "a: float", "type date", "cast(a as double)"),
        ("select null a", "a: symbol", "type void", "cast(a as string)"),
        ("select date'2020-01-01' a", "a: timestamp", "a date cannot be read as `timestamp`", "cast(a as timestamp)"),
        ("select date'2020-01-01' a", "a: logged", "a date cannot be read as `logged`", "cast(a as timestamp)"),
        ("select timestamp_micros(1) a", "a: date", "an instant cannot be read as `date`", "to_date(a)"),
        ("select timestamp_micros(1) a", "a: hired", "an instant cannot be read as `hired`", "to_date(a)"),
        ("select timestamp_ntz'2020-01-01 00:00:00' a", "a: date", "a time without a zone", "to_date(a)"),
        ("select timestamp_ntz'2020-01-01 00:00:00' a", "a: timestamp", "which is an instant", "cast(a as timestamp)"),
        ("select timestamp_micros(1) a", "a: timestamp_ntz", "which is a time without", "cast(a as timestamp_ntz)"),
    ],
)
def test_what_does_not_fit_names_the_cast_to_write(
    spark: SparkSession, query: str, columns: str, message: str, hint: str
) -> None:
    with pytest.raises(DataError) as caught:
        rows(spark.sql(query), columns)
    (finding,) = caught.value.diagnostics
    assert finding.code == "E509"
    assert message in finding.message
    assert hint in finding.hint


def test_every_bad_column_is_named_at_once(spark: SparkSession) -> None:
    with pytest.raises(DataError) as caught:
        rows(spark.sql("select 1.5BD a, X'00' b, 1 c"), "a: float, b: symbol, c: number")
    assert [finding.message.split("`")[1] for finding in caught.value.diagnostics] == ["a", "b"]


def test_nulls_are_counted_per_column(spark: SparkSession) -> None:
    df = spark.sql("select * from values (1, 'a'), (null, 'b'), (null, null) t(x, y)")
    with pytest.raises(DataError) as caught:
        rows(df, "x: number, y: symbol")
    assert [(finding.code, finding.message) for finding in caught.value.diagnostics] == [
        ("E508", "column `x` of relation `r`: 2 nulls"),
        ("E508", "column `y` of relation `r`: 1 null"),
    ]


def test_nulls_can_be_dropped_and_nan_is_none(spark: SparkSession) -> None:
    df = spark.sql("select * from values (1, double('NaN')), (null, 1.0D), (2, null) t(x, y)")
    (row,) = rows(df, "x: number, y: float", values=ValueChoice(drop_nulls=True))
    assert row[0] == 1
    assert math.isnan(row[1])


@ONCE
def test_nulls_become_values_and_decimals_units(spark: SparkSession) -> None:
    df = spark.sql("select * from values (null, 'a', 1.25BD, null), (1, null, -0.5BD, 2.5BD) t(n, s, p, f)")
    fills = (("n", 7), ("s", "none"), ("f", 0.5))
    choice = ValueChoice(fills=fills, scales=(("p", 2), ("f", None)))
    columns = "n: unsigned, s: symbol, p: number, f: float"
    assert rows(df, columns, values=choice) == [(7, "a", 125, 0.5), (1, "none", -50, 2.5)]
    narrow = replace(choice, scales=(("p", 1), ("f", None)))
    with pytest.raises(DataError, match=r"E504.*column `p` of relation `r`: a decimal has more than 1 places"):
        rows(df, columns, values=narrow)
    with pytest.raises(DataError, match=r"E509.*column `n` of relation `r`: a column of type int has no decimals"):
        rows(df, columns, values=replace(choice, scales=(("n", 1),)))


def test_columns_go_by_name_and_by_position_on_request(spark: SparkSession, settings: dict[str, str]) -> None:
    df = spark.sql("select 1 y, 2 x")
    for names in ("x: number, y: number", "X: number, y: number", "X: number, Y: number"):
        crossing = from_frame(df, wanted(names))
        assert ([tuple(row.values()) for row in crossing.table.to_pylist()], crossing.by_name) == ([(2, 1)], True)
    with pytest.raises(DataError, match="Say which is which: select y as a, x as b"):
        from_frame(df, wanted("a: number, b: number"))
    crossing = from_frame(df, wanted("a: number, b: number", BY_POSITION))
    assert (crossing.table.to_pylist(), crossing.by_name) == ([{"a": 1, "b": 2}], False)
    assert rows(df, "y: number", ColumnChoice(extra=True)) == [(1,)]
    assert rows(df, "y: number", ColumnChoice((1,))) == [(2,)]
    nameless = spark.createDataFrame([(1, 2)]).toDF("_1", "_2")
    assert rows(nameless, "x: number, y: number") == [(1, 2)]


def test_dates_and_times_come_out_as_they_went_in(spark: SparkSession, settings: dict[str, str]) -> None:
    query = (
        "select date'2024-02-29' a, date'1969-07-20' b, timestamp_micros(-1) c, timestamp_micros(1700000000000001) d,"
        " timestamp_ntz'2021-03-14 02:30:00.000001' e"
    )
    db = sempre.Database(f"{TYPES}.decl r(a: date, b: hired, c: timestamp, d: logged, e: timestamp_ntz)\n", spark=spark)
    df = spark.sql(query)
    for place in (db, sempre.Database(db.program, spark=spark, place="cluster")):
        place.apply(insert={"r": df})
        back = place["r"].to_spark()
        assert [field.dataType.simpleString() for field in back.schema.fields] == [
            field.dataType.simpleString() for field in df.schema.fields
        ]
        assert back.exceptAll(df).count() == 0
        assert back.count() == 1
        place.close()


def test_names_that_sql_finds_difficult(spark: SparkSession, settings: dict[str, str]) -> None:
    df = spark.range(1).selectExpr("1 as `a.b`", "2 as `c``d`", "3 as `select`", "4 as `X`")
    assert rows(df, "p: number, q: number, r: number, s: number", BY_POSITION) == [(1, 2, 3, 4)]
    twice = spark.range(1).selectExpr("1 as x", "2 as x", "3 as X")
    assert rows(twice, "p: number, q: number, r: number", BY_POSITION) == [(1, 2, 3)]
    with pytest.raises(DataError, match="more than one is called x"):
        rows(twice, "x: number, X: number, y: number")
    case = spark.range(1).selectExpr("1 as X", "2 as x")
    assert rows(case, "x: number, X: number") == [(2, 1)]


def test_a_wrong_number_of_columns(spark: SparkSession) -> None:
    with pytest.raises(DataError, match=r"relation `r` has 1 columns, the DataFrame has 2"):
        rows(spark.sql("select 1 a, 2 b"), "a: number", BY_POSITION)
    with pytest.raises(DataError, match=r"the relation has no b"):
        rows(spark.sql("select 1 a, 2 b"), "a: number")


def test_text_that_is_not_utf_8(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="a value is not UTF-8"):
        rows(spark.sql("select cast(X'61ff' as string) a"), "a: symbol")


def test_a_negative_number_is_not_unsigned(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="out of range"):
        rows(spark.sql("select -1 a"), "a: unsigned")


VALUES = """
.type date <: number
.type birthday <: date
.type timestamp <: number
.type List = [head: number, tail: List]
.decl r(a: number, b: unsigned, c: float, d: symbol, e: date, f: birthday, g: timestamp, h: List)
"""
ROW = (-5, 2**64 - 1, float("nan"), "ż\t'\"", 0, 20_000, 86_400_000_001, (1, (2, None)))


def test_every_type_leaves_as_it_should(spark: SparkSession, settings: dict[str, str]) -> None:
    db = sempre.Database(VALUES, spark=spark)
    db.apply(insert={"r": [ROW]})
    df = db["r"].to_spark()
    types = "bigint decimal(20,0) double string date date timestamp string"
    assert [field.dataType.simpleString() for field in df.schema.fields] == types.split()
    (row,) = df.selectExpr("a", "b", "c", "d", "e", "f", "unix_micros(g) g", "h").toArrow().to_pylist()
    assert math.isnan(row.pop("c"))
    assert row == {
        "a": -5,
        "b": decimal.Decimal(2**64 - 1),
        "d": "ż\t'\"",
        "e": dt.date(1970, 1, 1),
        "f": dt.date(2024, 10, 4),
        "g": 86_400_000_001,
        "h": "[1, [2, nil]]",
    }


def test_what_leaves_can_come_back(spark: SparkSession, settings: dict[str, str]) -> None:
    db, copy = sempre.Database(VALUES, spark=spark), sempre.Database(VALUES, spark=spark)
    db.apply(insert={"r": [ROW, (1, 2, -0.0, "", 3, 4, -5, None)]})
    copy.apply(insert={"r": db["r"].to_spark()})
    assert copy["r"].to_arrow().equals(db["r"].to_arrow()) or sorted(map(repr, copy["r"])) == sorted(map(repr, db["r"]))


def test_a_number_that_is_no_date(spark: SparkSession) -> None:
    db = sempre.Database(VALUES, spark=spark)
    db.apply(insert={"r": [(1, 2, 3.0, "", 4, 2**40, 5, None)]})
    with pytest.raises(DataError, match="1099511627776 is no date"):
        db["r"].to_spark()


def test_empty_relations_and_relations_without_columns(spark: SparkSession) -> None:
    db = sempre.Database(".decl e(x: number, y: symbol)\n.decl on()\n.decl off()\non().\n", spark=spark)
    assert db["e"].to_spark().schema.simpleString() == "struct<x:bigint,y:string>"
    assert db["e"].to_spark().count() == 0
    assert [db[name].to_spark().count() for name in ("on", "off")] == [1, 0]
    db.apply(insert={"off": spark.range(3).select()})
    assert len(db["off"]) == 1
