"""Options of directives that only Spark honors, and those that have few values."""

from __future__ import annotations

import pytest

from sempre.files.directive_options import Endpoint, check_directives, input_endpoint, output_endpoint
from tests.unit.files.build import program, relation


def source(**options: str) -> Endpoint:
    made = relation("r", "x:number", input=options)
    return input_endpoint(made, made.inputs[0])


def message(direction: str, **options: str) -> str:
    (finding,) = check_directives(program(relation("r", "x:number", printsize=False, **{direction: options})))
    assert finding.code == "E511"
    return finding.message


def test_tables_have_the_name_of_the_relation_unless_another_is_given() -> None:
    assert source(IO="spark").table == "r"
    assert source(IO="spark", table="db.t").table == "db.t"


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "secret")
    endpoint = source(IO="jdbc", url="jdbc:x", password="$MY_PASSWORD", driver="$MY_PASSWORD")
    assert dict(endpoint.jdbc) == {"url": "jdbc:x", "password": "secret", "driver": "$MY_PASSWORD"}
    monkeypatch.delenv("MY_PASSWORD")
    assert "no variable `MY_PASSWORD`" in message("input", IO="jdbc", url="$MY_PASSWORD")


def test_modes() -> None:
    made = relation("r", "x:number", output={"IO": "parquet", "mode": "changes"})
    assert output_endpoint(made, made.outputs[0]).changes
    assert source(IO="parquet", nulls="drop").values.drop_nulls


@pytest.mark.parametrize(
    ("direction", "options", "text"),
    [
        ("input", {"IO": "jdbc"}, "`IO=jdbc` needs a url"),
        ("input", {"IO": "jdbc", "url": "u", "query": "q", "table": "t"}, "a table and a query exclude each other"),
        ("output", {"IO": "jdbc", "url": "u", "query": "q"}, "a query can be read, not written"),
        ("output", {"mode": "append"}, "`mode=append` is unknown"),
        ("input", {"IO": "parquet", "nulls": "keep"}, "`nulls=keep` fits no column of relation `r`"),
        ("input", {"IO": "json", "format": "rows"}, "`format=rows` is unknown"),
        ("input", {"url": "u"}, "unknown option `url`"),
    ],
)
def test_what_cannot_be_honored(direction: str, options: dict[str, str], text: str) -> None:
    assert message(direction, **options) == text
