"""What `.input` says, read by Spark: the same as without it, and from more places."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sempre
from sempre.analysis.model import CheckedProgram, Relation
from sempre.api.options import Hiring, cluster_of, places_of
from sempre.backends.local import LocalBackend
from sempre.diagnostics import DataError, SempreError
from sempre.files import read_inputs as read_here
from sempre.ingest import Parts
from sempre.modules.find import modularize
from sempre.spark.cluster.arrow_output import table_of
from sempre.spark.cluster.tables import unsealed
from sempre.spark.residency import Residency
from sempre.spark.sources import read_inputs
from tests.inside import table_in
from tests.spark.conftest import ONCE, sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KINDS = "a: number, b: unsigned, c: float, d: symbol"


def checked(columns: str = "x: symbol, y: symbol", options: str = "", name: str = "r") -> CheckedProgram:
    return sempre.Program(
        f".type List = [head: number, tail: List]\n.decl {name}({columns})\n.input {name}({options})\n"
    ).checked


def outcome(read: Callable[[], Mapping[str, Any]], relation: Relation | None = None) -> Any:
    """The rows, or what was wrong with them."""
    try:
        table = read()["r"]
        if isinstance(table, Parts):
            here = () if table.in_driver is None else (table.in_driver,)
            assert relation is not None
            assert table.on_cluster is not None
            table = pa.concat_tables([table_of(unsealed(table.on_cluster), relation), *here])
    except SempreError as error:
        return [
            (finding.code, finding.message, finding.span.line, finding.span.column) for finding in error.diagnostics
        ]
    return (
        sorted(map(repr, (tuple(row.values()) for row in table.to_pylist()))) if table.num_columns else table.num_rows
    )


def left_there(spark: SparkSession, program: CheckedProgram, folder: Path) -> Any:
    """What comes of a folder if whatever can stays on the cluster; as a set."""
    driver = LocalBackend(program)
    cluster = cluster_of(program, spark, "auto", driver)
    assert cluster is not None
    places = places_of(modularize(program, "off"), driver, cluster, Hiring(), "auto", 1)
    assert places is not None
    try:
        staying = Residency(cluster, places, places.backends["cluster"].empty)
        return outcome(lambda: read_inputs(spark, program, str(folder), staying).tables, program.relations["r"])
    finally:
        cluster.close()


def both(spark: SparkSession, program: CheckedProgram, folder: Path) -> Any:
    """What Spark makes of a folder; fails if that is not what this process makes of it."""
    there = outcome(lambda: read_inputs(spark, program, str(folder)).tables)
    assert there == outcome(lambda: read_here(program, folder))
    assert left_there(spark, program, folder) == there
    return there


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    sample(
        [
            ("x: symbol, y: symbol", "", "a\tb\nc\td\n"),
            ("x: symbol, y: symbol", "", "a\tb\r\nc\t d "),
            ("x: symbol, y: symbol", "", "\ufeffa\tb\n"),
            ("x: symbol, y: symbol", "", 'a"\tż🦉\n"\t\n'),
            ("x: symbol, y: symbol", "", "a\tb\n\nc\td\n"),
            ("x: symbol, y: symbol", "", "a\n"),
            ("x: symbol, y: symbol", "", b"a\tb\nc\t\xff\n"),
            ("x: symbol", "", "a\n\nb\n"),
            ("x: symbol, y: symbol", 'delimiter="||"', "a|b||c\nd||\n"),
            ("x: symbol, y: symbol", 'delimiter="."', "a.b\n"),
            ("x: symbol, y: symbol", "rfc4180=true", 'a,"b,\n""c"\n'),
            ("x: symbol, y: symbol", "rfc4180=true, headers=true", "y,x\na,b\n"),
            ("x: symbol, y: symbol", "rfc4180=true, headers=true", "Y,z\na,b\n"),
            ("x: symbol, y: symbol", "headers=true, extra=ignore", "Y\tz\tX\na\tb\tc\n"),
            ("x: symbol, y: symbol", 'headers=true, columns="1:0"', "p\tq\na\tb\n"),
            ("x: symbol, y: symbol", 'columns="2:0"', "a\tb\tc\nd\te\tf\tg\n"),
            ("x: symbol, y: symbol", 'columns="2:0"', "a\tb\n"),
            (KINDS, "", "-9223372036854775808\t18446744073709551615\t1e-3\tx\n0\t007\t-.5\t\n"),
            (KINDS, "", "+5\t0x1f\tinf\tx\n0b11\t1\tnan\ty\n"),
            (KINDS, "", "9223372036854775808\t1\t1\tx\n"),
            (KINDS, "", "1\t18446744073709551616\t1\tx\n1\t-1\t1\tx\n"),
            (KINDS, "", "1.5\t1\t1\tx\n 1\t1\t1\tx\n1\t1\t1d\tx\n"),
            ("x: List, y: number", "", "[1, [2,nil]]\t3\nnil\t4\n"),
            ("", "", "()\n"),
            ("x: number", "", ""),
        ],
        connect=6,
    ),
)
def test_text_is_read_as_without_spark(
    spark: SparkSession, tmp_path: Path, columns: str, options: str, text: str
) -> None:
    (tmp_path / "r.facts").write_bytes(text.encode() if isinstance(text, str) else text)
    both(spark, checked(columns, options), tmp_path)


@pytest.mark.parametrize(
    ("options", "text"),
    sample(
        [
            ("", '[[1, "a"], [2, "b"]]'),
            ("", '[{"y": "a", "x": 1}]'),
            ("", '[[1, "a"'),
            ("format=lines", '{"x": 1, "y": "a"}\n{"y": "b", "x": 2}\n'),
            ("format=lines", '{"x": 1, "y": "a"}\n{"y": "b"}\n'),
            ("format=lines", '{"x": 1.5, "y": "a"}\n{"x": 2, "y": "a"}\n'),
            ("format=lines", '{"x": 1, "y": "a", "z": 1}\n'),
            ("format=lines", '{"X": 1, "y": "a"}\n\n{"x": 2, "Y": "b"}\n'),
            ("format=lines", '[1, "a"]\n{"x": 2, "y": "b"}\n'),
            ("format=lines, extra=ignore", '{"x": 1, "y": "a", "z": 1}\n{"x": 2, "y": "b"}\n'),
            ("format=lines, nulls=drop", '{"x": null, "y": "a"}\n{"x": 2, "y": "b"}\n'),
        ],
        connect=3,
    ),
)
def test_json_is_read_as_without_spark(spark: SparkSession, tmp_path: Path, options: str, text: str) -> None:
    (tmp_path / "r.json").write_text(text, "utf-8")
    both(spark, checked("x: number, y: symbol", f"IO=json, {options}".rstrip(", ")), tmp_path)


def test_a_bad_line_is_named_by_file_line_and_column(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "r.facts").write_text("1\t2\n3\tx\n", "utf-8")
    with pytest.raises(DataError) as caught:
        read_inputs(spark, checked("x: number, y: number"), str(tmp_path))
    assert f"{tmp_path}/r.facts:2:3" in str(caught.value)


@ONCE
def test_folders_globs_and_compressed_files(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "odd [name] {x}"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "one.facts").write_text("1\t2\n", "utf-8")
    (folder / "parts" / "two.facts").write_text("3\t4\n", "utf-8")
    (folder / "r.facts.gz").write_bytes(gzip.compress(b"5\t6\n"))
    columns = "x: number, y: number"
    for options, rows in (
        ("filename=parts", ["(1, 2)", "(3, 4)"]),
        ('filename="parts/*.facts"', ["(1, 2)", "(3, 4)"]),
        ('filename="parts/t*"', ["(3, 4)"]),
        ("", ["(5, 6)"]),
    ):
        tables = read_inputs(spark, checked(columns, options), str(folder)).tables
        assert outcome(partial(dict, tables)) == rows


@ONCE
def test_a_folder_may_be_a_url(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "r.facts").write_text("1\t2\n", "utf-8")
    assert outcome(lambda: read_inputs(spark, checked("x: number, y: number"), tmp_path.as_uri()).tables) == ["(1, 2)"]


def test_bad_files_of_a_folder_are_all_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("one", "two"):
        (tmp_path / "parts" / f"{name}.facts").write_text("1\t2\nx\t3\n", "utf-8")
    with pytest.raises(DataError) as caught:
        read_inputs(spark, checked("x: number, y: number", "filename=parts"), str(tmp_path))
    spans = [str(finding.span) for finding in caught.value.diagnostics]
    assert [span.rpartition("/")[2] for span in spans] == ["one.facts:2:1", "two.facts:2:1"]


@ONCE
def test_lines_that_stay_are_numbered_from_block_to_block(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "parts dir").mkdir()
    bad = {3: "x\t1", 40_000: "1\ty", 40_001: "+7\t8", 49_999: "1"}
    for name in ("one", "two"):
        lines = [bad.get(at, f"{at}\t{at}") for at in range(1, 50_001)]
        (tmp_path / "parts dir" / f"{name}.facts").write_text("\n".join(lines), "utf-8")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "65536")
    try:
        program = checked("x: number, y: number", 'filename="parts dir"')
        found = outcome(lambda: read_inputs(spark, program, str(tmp_path)).tables)
        assert [line for _, _, line, _ in found] == [3, 40_000, 49_999] * 2
        assert left_there(spark, program, tmp_path) == found
        (tmp_path / "parts dir" / "two.facts").unlink()
        (tmp_path / "parts dir" / "one.facts").write_text("+7\t8\n1\t2\n1\t2\n", "utf-8")
        assert left_there(spark, program, tmp_path) == ["(1, 2)", "(7, 8)"]
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


@ONCE
def test_files_that_spark_would_pass_over(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "_r.facts").write_text("a\tb\n", "utf-8")
    assert table_in(read_inputs(spark, checked(name="_r"), str(tmp_path)), "_r").num_rows == 1


def test_parquet_of_files_and_folders(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "r.parquet").mkdir()
    table = pa.table({"y": pa.array(["a", "b"]), "x": pa.array([1, 2], pa.int32())})
    for part in range(2):
        pq.write_table(table.slice(part, 1), tmp_path / "r.parquet" / f"{part}.parquet")
    assert both(spark, checked("x: number, y: symbol", "IO=parquet"), tmp_path) == ["(1, 'a')", "(2, 'b')"]
    assert both(spark, checked("X: number, Y: symbol", "IO=parquet"), tmp_path) == ["(1, 'a')", "(2, 'b')"]
    assert both(spark, checked("x: number", "IO=parquet, extra=ignore"), tmp_path) == ["(1,)", "(2,)"]
    with pytest.raises(DataError, match="Say which is which"):
        read_inputs(spark, checked("p: symbol, q: number", "IO=parquet"), str(tmp_path))
    found = read_inputs(spark, checked("p: symbol, q: number", 'IO=parquet, columns="0:1"'), str(tmp_path))
    (note,) = found.notes["r"]
    assert (note["columns"], note["source_columns"], note["rows"]) == ("by position", ["y", "x"], 2)


def test_nulls_of_parquet(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, None], "y": ["a", "b"]}), tmp_path / "r.parquet")
    with pytest.raises(DataError, match="column `x` of relation `r`: 1 null"):
        read_inputs(spark, checked("x: number, y: symbol", "IO=parquet"), str(tmp_path))
    assert both(spark, checked("x: number, y: symbol", "IO=parquet, nulls=drop"), tmp_path) == ["(1, 'a')"]


def test_tables_and_views(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("select 'a' x, 'b' y").createOrReplaceTempView("my_edges")
    found = read_inputs(spark, checked(options='IO=spark, table="my_edges"'), str(tmp_path))
    assert table_in(found, "r").to_pylist() == [{"x": "a", "y": "b"}]
    assert found.notes["r"] == [{"source": "my_edges", "rows": 1, "columns": "by name"}]
    found = read_inputs(spark, checked(options='IO=spark, query="select y as x, x as y from my_edges"'), str(tmp_path))
    assert table_in(found, "r").to_pylist() == [{"x": "b", "y": "a"}]
    spark.catalog.dropTempView("my_edges")
    with pytest.raises(DataError, match="table `my_edges` does not exist"):
        read_inputs(spark, checked(options='IO=spark, table="my_edges"'), str(tmp_path))


def test_everything_that_is_wrong_is_said_at_once(spark: SparkSession, tmp_path: Path) -> None:
    program = sempre.Program(
        ".decl p(x: number)\n.input p\n.decl q(x: number)\n.input q(IO=parquet)\n.decl r(x: number)\n.input r\n"
    ).checked
    (tmp_path / "r.facts").write_text("x\n", "utf-8")
    (tmp_path / "pp.facts").touch()
    with pytest.raises(DataError) as caught:
        read_inputs(spark, program, str(tmp_path))
    assert [finding.code for finding in caught.value.diagnostics] == ["E501", "E501", "E503"]
    assert "`pp.facts`" in str(caught.value)
    with pytest.raises(DataError, match="does not exist"):
        read_inputs(spark, checked(), "file:/no/such/place")


def test_a_file_that_is_not_what_it_is_called(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "r.parquet").write_text("not Parquet", "utf-8")
    with pytest.raises(DataError, match=r"E506.*cannot read"):
        read_inputs(spark, checked(options="IO=parquet"), str(tmp_path))


def test_a_database_loads_through_its_session(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"p": ["a"], "q": ["b"]}), tmp_path / "r.parquet")
    db = sempre.Database(
        '.decl r(x: symbol, y: symbol)\n.input r(IO=parquet, columns="0:1")\n.decl s(x: symbol)\ns(x) :- r(x, _).\n',
        spark=spark,
    )
    changes = db.load(tmp_path)
    assert (list(db["s"]), changes.report.by_position) == ([("a",)], ("r",))
