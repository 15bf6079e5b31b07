"""JDBC: which class is the driver of a URL. Spark finds it by itself only where the JVM had it from the beginning."""

from __future__ import annotations

from collections.abc import Mapping

DRIVERS = {
    "clickhouse": "com.clickhouse.jdbc.ClickHouseDriver",
    "databricks": "com.databricks.client.jdbc.Driver",
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "duckdb": "org.duckdb.DuckDBDriver",
    "h2": "org.h2.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "postgresql": "org.postgresql.Driver",
    "redshift": "com.amazon.redshift.Driver",
    "snowflake": "net.snowflake.client.jdbc.SnowflakeDriver",
    "sqlite": "org.sqlite.JDBC",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "trino": "io.trino.jdbc.TrinoDriver",
}


def with_driver(options: Mapping[str, str]) -> dict[str, str]:
    """Options of a JDBC source, with the class of the driver where the URL says which and nobody has named one."""
    jdbc, _, rest = options.get("url", "").partition(":")
    driver = DRIVERS.get(rest.partition(":")[0].lower()) if jdbc.lower() == "jdbc" else None
    return {"driver": driver, **options} if driver is not None else dict(options)
