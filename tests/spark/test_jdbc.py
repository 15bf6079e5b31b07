"""A JDBC source and sink, against a real database."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sempre
from sempre.api import refresh as refreshing
from sempre.diagnostics import DataError
from sempre.spark.sinks import Sinks
from sempre.spark.sources import read_inputs
from tests.inside import table_in
from tests.spark.conftest import ON_CONNECT, ONCE, free_port
from tests.spark.databases import Service, derby, postgres, postgres_home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


PROGRAM = """
.type date <: number
.type timestamp <: number
.decl staff(name: symbol, age: number, score: float, born: date, seen: timestamp)
.input staff({options}, table="staff")
.decl old(name: symbol, age: number, score: float, born: date, seen: timestamp)
old(n, a, s, b, t) :- staff(n, a, s, b, t), a > 40.
.output old({options}, table="old_staff")
.output old({options}, table="old_staff_log", mode=changes)
"""
QUERY = """
select * from values
  ('ada', 36, 1.5D, date'1815-12-10', timestamp'2024-01-01 00:00:00+00:00'),
  ('żaneta', 50, -0.5D, date'1970-01-01', timestamp'1969-12-31 23:59:59.999999+00:00')
  as t(name, age, score, born, seen)
"""


@pytest.fixture(scope="module")
def service(spark: SparkSession, driver_jar: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = postgres_home()
    if home and driver_jar:
        with postgres(home, free_port()) as service:
            yield service
        return
    import pyspark

    if list((Path(pyspark.__file__).parent / "jars").glob("derby-*.jar")):
        yield derby(tmp_path_factory.mktemp("derby"))
        return
    pytest.skip("no database: install postgresql and libpostgresql-jdbc-java (Debian), or a Spark that ships Derby")


@pytest.fixture(scope="module")
def staff(spark: SparkSession, service: Service) -> None:
    """The table that the program reads."""
    options = {"url": service.url, "driver": service.driver, "dbtable": "staff"}
    options |= {"user": service.user} if service.user else {}
    spark.sql(QUERY).write.format("jdbc").options(**options).mode("overwrite").save()


def rows(spark: SparkSession, service: Service, table: str) -> list[tuple[Any, ...]]:
    reader = spark.read.format("jdbc").option("url", service.url).option("driver", service.driver)
    reader = reader.option("user", service.user) if service.user else reader
    df = reader.option("dbtable", table).load()
    return sorted(tuple(row.values()) for row in df.toArrow().to_pylist())


def shown(db: sempre.Database, name: str) -> DataFrame:
    return db[name].to_spark()


@pytest.mark.usefixtures("staff")
def test_from_a_table_to_a_table(spark: SparkSession, service: Service) -> None:
    program = sempre.Program(PROGRAM.format(options=service.options))
    inputs = read_inputs(spark, program.checked, ".")
    assert table_in(inputs, "staff").sort_by("name").to_pylist() == [
        {"name": "ada", "age": 36, "score": 1.5, "born": -56270, "seen": 1_704_067_200_000_000},
        {"name": "żaneta", "age": 50, "score": -0.5, "born": 0, "seen": -1},
    ]
    db = sempre.Database(program, spark=spark)
    sinks = Sinks(spark, program.checked, ".")
    for _ in range(2):  # replaced, not doubled
        db = sempre.Database(program, spark=spark)
        sinks.write_changes(0, db.materialise(inputs.tables))
        sinks.write_changes(1, db.apply(insert={"staff": [("bo", 44, 0.0, 1, 2)]}, delete={"staff": [db_row(db)]}))
        sinks.write_outputs(partial(shown, db))
    assert [row[:3] for row in rows(spark, service, "old_staff")] == [("bo", 44, 0.0)]
    log = [(row[0], *row[-2:]) for row in rows(spark, service, "old_staff_log")]
    assert log == [("bo", 1, "added"), ("żaneta", 0, "added"), ("żaneta", 1, "removed")]


def db_row(db: sempre.Database) -> tuple[Any, ...]:
    return next(row for row in db["staff"] if row[0] == "żaneta")


@ONCE
@pytest.mark.usefixtures("staff")
def test_a_query_is_a_source_too(spark: SparkSession, service: Service) -> None:
    query = r"select \"name\" as x from staff where \"age\" > 40"  # X to Derby
    program = sempre.Program(f'.decl r(x: symbol)\n.input r({service.options}, query="{query}")\n')
    assert table_in(read_inputs(spark, program.checked, "."), "r").to_pylist() == [{"x": "żaneta"}]


def test_a_table_that_is_not_there(spark: SparkSession, service: Service) -> None:
    program = sempre.Program(f'.decl r(x: symbol)\n.input r({service.options}, table="nowhere")\n')
    with pytest.raises(DataError, match="table `nowhere`"):
        read_inputs(spark, program.checked, ".")


@ONCE
def test_a_database_that_is_not_there(spark: SparkSession, service: Service) -> None:
    port = free_port()
    url = f"jdbc:postgresql://127.0.0.1:{port}/x" if "postgresql" in service.url else "jdbc:derby:/no/such/place"
    program = sempre.Program(f'.decl r(x: symbol)\n.input r(IO=jdbc, url="{url}", driver="{service.driver}")\n')
    with pytest.raises(DataError, match="cannot read table `r`"):
        read_inputs(spark, program.checked, ".")


@ONCE
def test_a_driver_that_is_not_there(spark: SparkSession) -> None:
    program = sempre.Program('.decl r(x: symbol)\n.input r(IO=jdbc, url="jdbc:nosuch:x")\n')
    with pytest.raises(DataError, match=r"E506[^$]*No suitable driver"):
        read_inputs(spark, program.checked, ".")


STORED = """
.type date <: number
.decl staff(name: symbol, age: number, born: date)
.decl old(name: symbol, age: number, born: date)
old(n, a, b) :- staff(n, a, b), a > 40.
.output old({options}, table="stored_old", mode=merge)
.output old({options}, table="stored_log", mode=changes)
.output old(IO=spark, table="session_log", mode=changes)
"""


def shown_rows(spark: SparkSession, service: Service) -> tuple[list[Any], list[Any], list[Any]]:
    state, log = (rows(spark, service, table) for table in ("stored_old", "stored_log"))
    session = sorted(tuple(row.values()) for row in spark.table("session_log").toArrow().to_pylist())
    return [row[0] for row in state], [(row[0], *row[3:]) for row in log], [(row[0], *row[3:]) for row in session]


@ONCE
def test_a_store_keeps_tables_of_a_database_current(
    spark: SparkSession, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a process dies before a transaction ends, or between two tables."""
    if "derby" in service.url:
        pytest.skip("Derby does not compare the type that Spark makes of texts there")
    from sempre.spark.targets import JdbcConnection, SessionTarget

    program = STORED.format(options=service.options)
    with sempre.Database(program, store=tmp_path / "store", spark=spark) as db:
        db.apply(insert={"staff": [("ada", 50, 1), ("bo", 60, 2), ("cy", 10, 3)]})
        db.publish(tmp_path)
        first = [("ada", 1, "added"), ("bo", 1, "added")]
        assert shown_rows(spark, service) == (["ada", "bo"], first, first)
        db.apply(insert={"staff": [("di", 70, 4)]}, delete={"staff": [("ada", 50, 1)]})
        with monkeypatch.context() as patched:
            patched.setattr(JdbcConnection, "begin", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                db.publish(tmp_path)
        assert shown_rows(spark, service)[0] == ["ada", "bo"]
        with monkeypatch.context() as patched:  # the properties of the session's table are not told
            patched.setattr(SessionTarget, "_tell", lambda self, properties: None)
            db.publish(tmp_path)
        for _ in range(2):
            db.publish(tmp_path)
            second = sorted([*first, ("ada", 2, "removed"), ("di", 2, "added")])
            assert shown_rows(spark, service) == (["bo", "di"], second, second)
        listed = spark.read.format("jdbc").option("url", service.url).option("user", service.user)
        tables = listed.option("driver", service.driver).option("dbtable", "information_schema.tables").load()
        assert tables.filter("table_name like '%staged'").isEmpty()
    with sempre.Database(program, store=tmp_path / "other", spark=spark) as db:
        db.apply(insert={"staff": [("eve", 50, 1)]})
        with pytest.raises(DataError, match="table `session_log` has changes that are not of this store"):
            db.publish(tmp_path)


@ON_CONNECT
def test_a_transaction_needs_a_classic_session(spark: SparkSession, service: Service, tmp_path: Path) -> None:
    with sempre.Database(STORED.format(options=service.options), store=tmp_path / "store", spark=spark) as db:
        db.apply(insert={"staff": [("ada", 50, 1)]})
        with pytest.raises(sempre.SempreError, match="needs a classic session"):
            db.publish(tmp_path)


FOLLOWED = """
.decl person(name: symbol, age: number)
.input person({options}, table="followed", follow="seen", key="name")
.decl pair(x: number, y: symbol)
.input pair(IO=spark, table="followed_pairs")
.decl old(name: symbol)
old(n) :- person(n, a), a > 40.
"""


def fill(spark: SparkSession, service: Service, values: str, mode: str) -> None:
    df = spark.sql(f"select * from values {values} as t(name, age, seen)").selectExpr(
        "name", "age", "timestamp_micros(seen) as seen"
    )
    writer = (
        df.write.format("jdbc").option("url", service.url).option("driver", service.driver).option("user", "sempre")
    )
    writer.option("dbtable", "followed").mode(mode).save()


@ONCE
def test_tables_are_followed(spark: SparkSession, service: Service, tmp_path: Path) -> None:
    """By a column, and what has none by comparing all rows."""
    if "derby" in service.url:
        pytest.skip("Derby does not compare the type that Spark makes of texts there")
    fill(spark, service, "('ada', 36, 5L), ('bo', 50, 1700000000000007L)", "overwrite")
    spark.sql("create or replace temp view followed_pairs as select 1L as x, 'a' as y")
    with sempre.Database(FOLLOWED.format(options=service.options), store=tmp_path / "store", spark=spark) as db:
        tables = read_inputs(spark, db.program.checked, ".")  # the column that is followed is not in the way
        assert table_in(tables, "person").num_rows == 2
        db.refresh(tmp_path)
        assert set(db["person"]) == {("ada", 36), ("bo", 50)}
        assert db.refresh() is None
        fill(spark, service, "('cy', 60, 1700000000000007L), ('ada', 41, 1700000000000008L)", "append")
        spark.sql("create or replace temp view followed_pairs as select 2L as x, 'b' as y")
        found = refreshing.refresh(db, None, overwrite=False, maintain_only=False)
        assert found.read == {
            "person": "2 rows came and 0 went; rows that are deleted there are not seen",
            "pair": "all 1 rows compared",
        }
        assert set(db["old"]) == {("ada",), ("bo",), ("cy",)}
        assert ("ada", 36) not in set(db["person"])
        assert set(db["pair"]) == {(2, "b")}
        assert db.refresh() is None
