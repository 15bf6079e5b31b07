"""What a stream's columns may be, known before it starts and without a session."""

from __future__ import annotations

import pytest

import sempre
from sempre.diagnostics import DataError
from sempre.spark.operations import Columns, StreamReader

types = pytest.importorskip("pyspark.sql.types")

PROGRAM = ".type date <: number\n.type timestamp <: number\n.decl r(at: timestamp)\n"


def refused(relation: str, name: str, type_: object) -> str:
    checked = sempre.Program(PROGRAM).checked
    schema = types.StructType([types.StructField(name, type_)])
    with pytest.raises(DataError) as caught:
        StreamReader(checked, schema, Columns(relation))
    return f"{caught.value.diagnostics[0].code} {caught.value.diagnostics[0].hint}"


@pytest.mark.parametrize("type_", [types.DateType(), types.TimestampNTZType()], ids=str)
def test_a_date_of_a_stream_is_no_instant(type_: object) -> None:
    assert refused("r", "AT", type_).startswith("E509 Write cast(AT as timestamp)")


def test_other_names_are_shown() -> None:
    assert refused("r", "when", types.TimestampType()).endswith("withColumnRenamed: when.")
