"""Tables that Spark writes as targets of a store: those of databases, and those of the session.

A database is written to by one transaction of a JDBC connection, from a staging table that Spark fills.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sempre.analysis.model import Relation, Type
from sempre.data import dataclass
from sempre.diagnostics import BackendError, DataError, Diagnostic, Span
from sempre.files.changes_table import EPOCH
from sempre.files.directive_options import Endpoint
from sempre.files.targets.sql_target import ADDED, REMOVED, SIDE, SqlTarget
from sempre.files.targets.target import TableTarget
from sempre.spark.failures import condition_of, writing
from sempre.spark.frames import to_frame
from sempre.spark.jdbc import with_driver
from sempre.spark.sinks import refill, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUBLISHER, SHOWN = "sempre.publisher", "sempre.epoch"
# The epoch that a table of the session is being brought to.
COMING = "sempre.coming"


def spark_target(spark: SparkSession, relation: Relation, types: Mapping[str, Type], endpoint: Endpoint) -> TableTarget:
    """The table of a database, or of the session, that an output names."""
    if endpoint.io == "spark":
        kind = SessionState if endpoint.merges else SessionTarget
        return kind(spark, relation, types, endpoint.table)
    if not hasattr(spark, "_jvm"):
        message = f"`IO=jdbc` with mode={'changes' if endpoint.changes else 'merge'} needs a classic session"
        hint = "Leave out --remote: on Spark Connect there is no connection that could hold a transaction."
        raise BackendError(Diagnostic("E515", message, hint=hint))
    return SqlTarget(endpoint.table, endpoint.table, partial(_connected, spark, relation, types, endpoint))


# ------------------------------------------------------------------------------------------------------ databases


@contextmanager
def _connected(
    spark: SparkSession, relation: Relation, types: Mapping[str, Type], endpoint: Endpoint
) -> Iterator[JdbcConnection]:
    options = with_driver(dict(endpoint.jdbc))
    with writing(f"table `{endpoint.table}`", Span(endpoint.table, 0, 0, 0, 0)):
        jvm: Any = spark._jvm
        if "driver" in options:
            jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(options["driver"])
        properties = jvm.java.util.Properties()
        for key in ("user", "password"):
            if key in options:
                properties.setProperty(key, options[key])
        connection = jvm.java.sql.DriverManager.getConnection(options["url"], properties)
        try:
            found = JdbcConnection(spark, jvm, connection, relation, types, endpoint, options)
            try:
                yield found
                if not connection.getAutoCommit():
                    connection.commit()
            except BaseException:
                if not connection.getAutoCommit():
                    connection.rollback()
                raise
            finally:
                found.tidy()
        finally:
            connection.close()


class JdbcConnection:
    """A connection of the driver's Java."""

    def __init__(
        self,
        spark: SparkSession,
        jvm: Any,
        connection: Any,
        relation: Relation,
        types: Mapping[str, Type],
        endpoint: Endpoint,
        options: Mapping[str, str],
    ) -> None:
        self._spark = spark
        self._connection = connection
        self._relation = relation
        self._types = types
        self._endpoint = endpoint
        self._options = options
        self._dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])
        self._staged = ""

    def quoted(self, name: str) -> str:
        return str(self._dialect.quoteIdentifier(name))

    def columns(self, table: str) -> list[str] | None:
        from py4j.protocol import Py4JJavaError

        statement = self._connection.createStatement()
        try:
            meta = statement.executeQuery(f"SELECT * FROM {table} WHERE 1 = 0").getMetaData()
            return [str(meta.getColumnName(at + 1)) for at in range(meta.getColumnCount())]
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName().startswith("java.sql.SQLNonTransient"):
                raise  # no connection
            return None
        finally:
            statement.close()

    def make(self, table: str, rows: pa.Table) -> None:
        self._save(table, rows.slice(0, 0), "append")

    def stage(self, rows: pa.Table) -> str:
        self._staged = f"{self._endpoint.table}_sempre_staged"
        self._save(self._staged, rows, "overwrite")
        return self._staged

    def _save(self, table: str, rows: pa.Table, mode: str) -> None:
        df = to_frame(self._spark, rows, self._relation, self._types)
        save(df.write.mode(mode), replace(self._endpoint, table=table), table)

    def begin(self) -> None:
        self._connection.setAutoCommit(False)

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        prepared = self._prepared(statement, values)
        try:
            return int(prepared.executeUpdate())
        finally:
            prepared.close()

    def ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        prepared = self._prepared(statement, values)
        try:
            found, rows = prepared.executeQuery(), []
            width = found.getMetaData().getColumnCount()
            while found.next():
                rows.append(tuple(found.getObject(at + 1) for at in range(width)))
            return rows
        finally:
            prepared.close()

    def _prepared(self, statement: str, values: Sequence[Any]) -> Any:
        prepared = self._connection.prepareStatement(statement)
        for at, value in enumerate(values, 1):
            if isinstance(value, int):
                prepared.setLong(at, value)
            else:
                prepared.setString(at, value)
        return prepared

    def tidy(self) -> None:
        """The staging table goes, whatever became of its rows."""
        if self._staged:
            self._connection.setAutoCommit(True)
            self.run(f"DROP TABLE {self._staged}")


# ------------------------------------------------------------------------------------------ tables of the session


@dataclass(frozen=True, slots=True)
class SessionTarget:
    """A table of the session that the changes of every epoch are appended to, all of an epoch in one write.

    Its properties say whose changes they are, and up to which epoch; rows of a later epoch say that themselves.
    """

    spark: SparkSession
    relation: Relation
    types: Mapping[str, Type]
    table: str

    def epoch(self, publisher: str) -> int | None:
        with writing(f"table `{self.table}`", Span(self.table, 0, 0, 0, 0)):
            if not self.spark.catalog.tableExists(self.table):
                return None
            known = _properties(self.spark, self.table)
            newest = self._newest()
            if known.get(PUBLISHER) == publisher:
                shown = [int(each) for each in (known.get(SHOWN), newest) if each is not None]
                return max(shown, default=None)
        if newest is None:
            return None
        message = f"table `{self.table}` has changes that are not of this store"
        hint = "Name another table, or drop that one: the changes begin anew in it."
        raise DataError(Diagnostic("E512", message, hint=hint))

    def _newest(self) -> int | None:
        from pyspark.sql import functions as fn

        found = self.spark.table(self.table).agg(fn.max(EPOCH).alias("epoch")).toArrow().column(0)[0].as_py()
        return None if found is None else int(found)

    def append(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        df = to_frame(self.spark, rows, self.relation, self.types)
        with writing(f"table `{self.table}`", Span(self.table, 0, 0, 0, 0)):
            if not self.spark.catalog.tableExists(self.table):
                df.limit(0).write.saveAsTable(self.table)
            # Whose table it is, before there are rows of ours in it: then these rows tell which epoch it shows.
            self._tell({PUBLISHER: publisher})
            if rows.num_rows:
                df.select(*self.spark.table(self.table).columns).write.insertInto(self.table)
            self._tell({SHOWN: str(epoch)})

    def _tell(self, properties: Mapping[str, str]) -> None:
        _tell(self.spark, self.table, properties)

    def replace(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        raise AssertionError("changes are appended")

    def change(self, added: pa.Table, removed: pa.Table, publisher: str, epoch: int) -> bool:
        raise AssertionError("changes are appended")


@dataclass(frozen=True, slots=True)
class SessionState:
    """A table of the session that is kept current by MERGE: what changed in an epoch is one statement, and one commit.

    Properties of the table say which epoch of which store it shows, and before that which one is coming: where the two
    differ a process died in between, nobody knows which of the two the table shows, and its rows are replaced.
    """

    spark: SparkSession
    relation: Relation
    types: Mapping[str, Type]
    table: str

    def epoch(self, publisher: str) -> int | None:
        with self._writing():
            if not self.spark.catalog.tableExists(self.table):
                return None
            known = _properties(self.spark, self.table)
        shown = known.get(SHOWN)
        return int(shown) if shown and known.get(PUBLISHER) == publisher and known.get(COMING) == shown else None

    def replace(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        df = to_frame(self.spark, rows, self.relation, self.types)
        with self._writing():
            is_new = not self.spark.catalog.tableExists(self.table)
            if is_new:
                df.limit(0).write.saveAsTable(self.table)
            try:
                self._merge(df.limit(0), df.limit(0))  # whether that can be done is known now, and not an epoch later
            except BaseException:
                if is_new:
                    self.spark.sql(f"DROP TABLE {self.table}")
                raise
            _tell(self.spark, self.table, {PUBLISHER: publisher, COMING: str(epoch), SHOWN: ""})
            refill(self.spark, df, self.table)
            _tell(self.spark, self.table, {SHOWN: str(epoch)})

    def change(self, added: pa.Table, removed: pa.Table, publisher: str, epoch: int) -> bool:
        frames = (to_frame(self.spark, rows, self.relation, self.types) for rows in (added, removed))
        with self._writing():
            _tell(self.spark, self.table, {COMING: str(epoch)})
            if added.num_rows or removed.num_rows:
                self._merge(*frames)
            _tell(self.spark, self.table, {SHOWN: str(epoch)})
        return True

    def _merge(self, added: DataFrame, removed: DataFrame) -> None:
        from pyspark.sql import functions as fn

        sides = [df.withColumn(SIDE, fn.lit(side)) for side, df in ((REMOVED, removed), (ADDED, added))]
        view = f"sempre_merged_{uuid.uuid4().hex}"
        sides[0].unionAll(sides[1]).createOrReplaceTempView(view)
        names = [f"`{name}`" for name in self.relation.columns]
        same = " AND ".join(f"target.{name} = source.{name}" for name in names)
        try:
            self.spark.sql(
                f"MERGE INTO {self.table} AS target USING {view} AS source ON {same} "
                f"WHEN MATCHED AND source.{SIDE} = {REMOVED} THEN DELETE "
                f"WHEN NOT MATCHED AND source.{SIDE} = {ADDED} THEN INSERT ({', '.join(names)}) "
                f"VALUES ({', '.join(f'source.{name}' for name in names)})"
            )
        except Exception as error:
            if "MERGE" not in str(error) or not condition_of(error).startswith("UNSUPPORTED"):
                raise
            message = f"table `{self.table}` has a format without MERGE"
            hint = "Make it a table of Delta Lake or Iceberg; or leave `mode=merge` out, and it is replaced each time."
            raise DataError(Diagnostic("E512", message, hint=hint)) from None
        finally:
            self.spark.catalog.dropTempView(view)

    def append(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        raise AssertionError("a state is not appended to")

    def _writing(self) -> AbstractContextManager[None]:
        return writing(f"table `{self.table}`", Span(self.table, 0, 0, 0, 0))


def _properties(spark: SparkSession, table: str) -> dict[str, str]:
    listed = spark.sql(f"SHOW TBLPROPERTIES {table}").toArrow().to_pylist()
    return {row["key"]: row["value"] for row in listed}


def _tell(spark: SparkSession, table: str, properties: Mapping[str, str]) -> None:
    said = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({said})")
