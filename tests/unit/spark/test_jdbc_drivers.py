"""Which class is the driver of a JDBC URL."""

import pytest

from sempre.spark.jdbc import with_driver


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("jdbc:postgresql://host/base", "org.postgresql.Driver"),
        ("JDBC:MySQL://host/base", "com.mysql.cj.jdbc.Driver"),
        ("jdbc:sqlserver://host;databaseName=x", "com.microsoft.sqlserver.jdbc.SQLServerDriver"),
        ("jdbc:derby:memory:x", None),
        ("postgresql://host/base", None),
        ("", None),
    ],
)
def test_the_url_says_which(url: str, driver: str | None) -> None:
    assert with_driver({"url": url}).get("driver") == driver


def test_a_driver_that_is_named_stays() -> None:
    assert with_driver({"url": "jdbc:postgresql:x", "driver": "mine"})["driver"] == "mine"
