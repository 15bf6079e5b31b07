"""Fact files in: what is accepted, and the exact words for what is not."""

from __future__ import annotations

import gzip
import io
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sempre.diagnostics import DataError, ProgramError
from sempre.files import read_inputs, schema_of
from tests.unit.files.build import TYPES, program, relation

EDGE = ("x:number", "y:number")


def read(data: bytes, tmp_path: Path, *columns: str, **options: str) -> list[tuple[object, ...]]:
    """The rows of a file for a relation `r` with `columns`."""
    (tmp_path / options.get("filename", "r.facts")).write_bytes(data)
    table = read_inputs(program(relation("r", *columns, input=options)), tmp_path)["r"]
    return rows(table)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def errors(data: bytes, tmp_path: Path, *columns: str, **options: str) -> str:
    with pytest.raises(DataError) as caught:
        read(data, tmp_path, *columns, **options)
    return str(caught.value).replace(str(tmp_path) + "/", "")


GOOD = [
    (b"1\t2\n3\t4\n", EDGE, {}, [(1, 2), (3, 4)]),
    (b"1\t2\n3\t4", EDGE, {}, [(1, 2), (3, 4)]),
    (b"", EDGE, {}, []),
    (b"1\t2\r\n3\t4\r\n", EDGE, {}, [(1, 2), (3, 4)]),
    (b"\xef\xbb\xbf1\t2\n", EDGE, {}, [(1, 2)]),
    (b"+1\t-2\n", EDGE, {}, [(1, -2)]),
    (b"0x1f\t0b11\n", EDGE, {}, [(31, 3)]),
    (b"-9223372036854775808\t9223372036854775807\n", EDGE, {}, [(-(2**63), 2**63 - 1)]),
    (b"18446744073709551615\n", ("x:unsigned",), {}, [(2**64 - 1,)]),
    (b"1\n1.5\n-1e300\n.5\ninf\n", ("x:float",), {}, [(1.0,), (1.5,), (-1e300,), (0.5,), (float("inf"),)]),
    (b"a\n\nb\n", ("x:symbol",), {}, [("a",), ("",), ("b",)]),
    (b"\n", ("x:symbol",), {}, [("",)]),
    (b'"a"\t b \n', ("x:symbol", "y:symbol"), {}, [('"a"', " b ")]),
    (b"a\rb\tc\n", ("x:symbol", "y:symbol"), {}, [("a\rb", "c")]),
    (b"NULL\tnan\n", ("x:symbol", "y:symbol"), {}, [("NULL", "nan")]),
    ("żółć\t🦉\n".encode(), ("x:symbol", "y:symbol"), {}, [("żółć", "🦉")]),
    (b"a\x00b\n", ("x:symbol",), {}, [("a\x00b",)]),
    (b"1,2\n", EDGE, {"delimiter": ","}, [(1, 2)]),
    (b"1::2\n3::4\n", EDGE, {"delimiter": "::"}, [(1, 2), (3, 4)]),
    (b"a\x1f\tb::c\n", ("x:symbol", "y:symbol"), {"delimiter": "::"}, [("a\x1f\tb", "c")]),
    ("1→2\n".encode(), EDGE, {"delimiter": "→"}, [(1, 2)]),
    (b"x\ty\n1\t2\n", EDGE, {"headers": "true"}, [(1, 2)]),
    (b"x\ty", EDGE, {"headers": "true"}, []),
    (b"1\t2\t3\n", ("x:number", "y:number", "z:number"), {"columns": "2:0:1"}, [(3, 1, 2)]),
    (b"a\t2\tb\t4\n", EDGE, {"columns": "3:1"}, [(4, 2)]),
    (b'"a,b",2\n"c""d",3\n', ("x:symbol", "y:number"), {"rfc4180": "true"}, [("a,b", 2), ('c"d', 3)]),
    (b'"a\nb",2\r\nc,3\r\n', ("x:symbol", "y:number"), {"rfc4180": "true"}, [("a\nb", 2), ("c", 3)]),
    (b'"a",+2\n', ("x:symbol", "y:number"), {"rfc4180": "true"}, [("a", 2)]),
    (b"1,2\n", EDGE, {"IO": "csv", "filename": "r.csv"}, [(1, 2)]),
    (b"[1, [2, nil]]\nnil\n[ 1,[2,nil] ]\n", ("x:List",), {}, [("[1, [2, nil]]",), ("nil",), ("[1, [2, nil]]",)]),
    (b"[1, nil],7\n", ("x:List", "y:number"), {"delimiter": ","}, [("[1, nil]", 7)]),
    (b"[a b, 1.5]\n", ("x:Pair",), {}, [("[a b, 1.5]",)]),
    (gzip.compress(b"1\t2\n"), EDGE, {"compress": "true", "filename": "r.facts.gz"}, [(1, 2)]),
    (gzip.compress(b"1\t2\n"), EDGE, {}, [(1, 2)]),
    (b"[[1, 2], [3, 4]]", EDGE, {"IO": "json", "filename": "r.json"}, [(1, 2), (3, 4)]),
    (b'[{"y": 2, "x": 1}]', EDGE, {"IO": "json", "filename": "r.json"}, [(1, 2)]),
    (b"[[[1, [2, null]]], [null]]", ("x:List",), {"IO": "json", "filename": "r.json"}, [("[1, [2, nil]]",), ("nil",)]),
]


@pytest.mark.parametrize(("data", "columns", "options", "expected"), GOOD)
def test_reads(
    data: bytes, columns: tuple[str, ...], options: dict[str, str], expected: object, tmp_path: Path
) -> None:
    assert read(data, tmp_path, *columns, **options) == expected


BAD = [
    (
        b"1\t2\n3\n",
        EDGE,
        "error[E502]: expected 2 columns, found 1\n  --> r.facts:2:1\n 2 | 3\n   | ^\n"
        'hint: `r` has the columns x, y. Separate them by tabs, or name another character with delimiter=",".',
    ),
    (
        b"1\t2\t3\n",
        EDGE,
        "error[E502]: expected 2 columns, found 3\n  --> r.facts:1:1\n 1 | 1\t2\t3\n   | ^^^^^\n"
        "hint: `r` has the columns x, y.",
    ),
    (
        b'1\t"2\t3"\n',
        EDGE,
        'error[E502]: expected 2 columns, found 3\n  --> r.facts:1:1\n 1 | 1\t"2\t3"\n   | ^^^^^^^\n'
        "hint: `r` has the columns x, y. If quotes keep a cell together, say rfc4180=true.",
    ),
    (
        b"1\t2\n\n",
        EDGE,
        "error[E502]: the line is empty: expected 2 columns, found 1\n  --> r.facts:2:1\n 2 | \n   | ^\n"
        "hint: Remove it.",
    ),
    (b"1\ttwo\n", EDGE, "error[E503]: `two` is not a number\n  --> r.facts:1:3\n 1 | 1\ttwo\n   |  \t^^^"),
    (b"1\t\n", EDGE, "error[E503]: `` is not a number\n  --> r.facts:1:3\n 1 | 1\t\n   |  \t^"),
    (b"1\t2.0\n", EDGE, "error[E503]: `2.0` is not a number\n  --> r.facts:1:3\n 1 | 1\t2.0\n   |  \t^^^"),
    (b"1\t1_0\n", EDGE, "error[E503]: `1_0` is not a number\n  --> r.facts:1:3\n 1 | 1\t1_0\n   |  \t^^^"),
    (b"-1\n", ("x:unsigned",), "error[E504]: `-1` is out of range\n  --> r.facts:1:1\n 1 | -1\n   | ^^\n"
     "hint: Use a value from 0 to 18446744073709551615."),
    (b"9223372036854775808\n", ("x:number",),
     "error[E504]: `9223372036854775808` is out of range\n  --> r.facts:1:1\n 1 | 9223372036854775808\n   | " + "^" * 19
     + "\nhint: Use a value from -9223372036854775808 to 9223372036854775807."),
    (b"0xFFFFFFFFFFFFFFFF\n", ("x:number",),
     "error[E504]: `0xFFFFFFFFFFFFFFFF` is out of range\n  --> r.facts:1:1\n 1 | 0xFFFFFFFFFFFFFFFF\n   | " + "^" * 18
     + "\nhint: Use a value from -9223372036854775808 to 9223372036854775807."),
    (b"1.5x\n", ("x:float",), "error[E503]: `1.5x` is not a float\n  --> r.facts:1:1\n 1 | 1.5x\n   | ^^^^"),
    (b"ok\nab\xffc\n", ("x:symbol",),
     "error[E505]: byte 0xff is not UTF-8\n  --> r.facts:2:3\n 2 | ab\N{REPLACEMENT CHARACTER}c\n   |   ^^\n"
     "hint: Convert the file to UTF-8."),
    (b"[1, 2]\n", ("x:List",),
     "error[E507]: expected `[` or `nil` for a value of type `List`\n  --> r.facts:1:5\n 1 | [1, 2]\n   |     ^^\n"
     "hint: Write records as [1, [2, nil]]."),
]  # fmt: skip


@pytest.mark.parametrize(("data", "columns", "expected"), BAD)
def test_refuses_with_the_place(data: bytes, columns: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    assert errors(data, tmp_path, *columns) == expected


def test_reports_every_bad_row_and_counts_the_rest(tmp_path: Path) -> None:
    data = b"".join(b"1\tx\n" if i % 2 else b"1\t2\n" for i in range(60))
    with pytest.raises(DataError) as caught:
        read(data, tmp_path, *EDGE)
    found = caught.value.diagnostics
    assert [d.span.line for d in found] == list(range(2, 42, 2))
    assert found[-1].detail == "and 10 more errors in this file"


def test_a_value_of_ten_thousand_digits_is_out_of_range(tmp_path: Path) -> None:
    assert errors(b"9" * 10_000 + b"\n", tmp_path, "x:number").splitlines()[:4] == [
        "error[E504]: `" + "9" * 37 + "...` is out of range",
        "  --> r.facts:1:1",
        " 1 | " + "9" * 200 + "…",
        "   | " + "^" * 200,
    ]


def test_lines_count_the_header(tmp_path: Path) -> None:
    assert "r.facts:3:3" in errors(b"x\ty\n1\t2\n1\tz\n", tmp_path, *EDGE, headers="true")


def test_quoted_cells_keep_their_lines_and_columns(tmp_path: Path) -> None:
    text = errors(b'"a\nb",1\n"c",z\n', tmp_path, "x:symbol", "y:number", rfc4180="true")
    assert text == 'error[E503]: `z` is not a number\n  --> r.facts:3:5\n 3 | "c",z\n   |     ^'


def test_too_few_columns_for_the_mapping(tmp_path: Path) -> None:
    assert errors(b"1\t2\t3\n4\t5\n", tmp_path, *EDGE, columns="2:0").startswith(
        "error[E502]: expected at least 3 columns, found 2\n  --> r.facts:2:1"
    )


def test_errors_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.facts").write_text("x\n")
    (tmp_path / "b.facts").write_text("y\n")
    checked = program(relation("a", "x:number", input={}), relation("b", "x:number", input={}))
    with pytest.raises(DataError) as caught:
        read_inputs(checked, tmp_path)
    assert [d.message for d in caught.value.diagnostics] == ["`x` is not a number", "`y` is not a number"]


@pytest.mark.parametrize(
    ("present", "hint"),
    [
        (["edges.facts", "other.txt"], "hint: `DIR` has `edges.facts`."),
        (["zzz.csv"], "hint: `DIR` has `zzz.csv`."),
        ([], "hint: `DIR` is empty."),
    ],
)
def test_a_missing_file_names_its_neighbors(present: list[str], hint: str, tmp_path: Path) -> None:
    for name in present:
        (tmp_path / name).touch()
    with pytest.raises(DataError) as caught:
        read_inputs(program(relation("edge", *EDGE, input={})), tmp_path)
    text = str(caught.value).replace(str(tmp_path), "DIR")
    assert text == f"error[E501]: file `DIR/edge.facts` for relation `edge` does not exist\n{hint}"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="hint: There is no folder `"):
        read_inputs(program(relation("edge", *EDGE, input={})), tmp_path / "nowhere")


def test_a_folder_or_damaged_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "r.facts").mkdir()
    with pytest.raises(DataError, match=r"error\[E506\]: cannot read `.*r.facts`: is a directory"):
        read_inputs(program(relation("r", *EDGE, input={})), tmp_path)
    (tmp_path / "s.facts").write_bytes(gzip.compress(b"1\t2\n")[:-6])
    with pytest.raises(DataError, match=r"error\[E506\]: cannot read"):
        read_inputs(program(relation("s", *EDGE, input={})), tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"IO": "sqlite", "compress": "true"},
            "`IO=sqlite` has tables with columns, and no `mode`, `compress` or `format`",
        ),
        ({"IO": "ftp"}, "`IO=ftp` is unknown for .input"),
        ({"delimeter": ","}, "unknown option `delimeter`"),
        ({"delimiter": ""}, "the delimiter is empty or a line break"),
        ({"headers": "maybe"}, "option `headers` is true or false, not `maybe`"),
        ({"columns": "a"}, "`columns=a` is not a list of places"),
        ({"columns": "0:0"}, "`columns=0:0` must name 2 different places, one per column"),
        ({"IO": "json", "format": "xml"}, "`format=xml` is unknown"),
    ],
)
def test_options_that_cannot_be_honored(options: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError) as caught:
        read_inputs(program(relation("r", *EDGE, input=options)), tmp_path)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("E511", message)


@pytest.mark.parametrize(("data", "holds"), [(b"()\n", 1), (b"", 0), (b"\n", 1)])
def test_a_relation_without_columns(data: bytes, holds: int, tmp_path: Path) -> None:
    (tmp_path / "r.facts").write_bytes(data)
    assert read_inputs(program(relation("r", input={})), tmp_path)["r"].num_rows == holds


def test_a_relation_without_columns_refuses_values(tmp_path: Path) -> None:
    assert errors(b"1\n", tmp_path) == (
        "error[E502]: relation `r` has no columns\n  --> r.facts:1:1\n 1 | 1\n   | ^\n"
        "hint: Write the line `()` when it holds."
    )


def test_standard_input_serves_one_relation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def feed() -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1\t2\n")))

    feed()
    one = relation("a", *EDGE, input={"IO": "stdin"})
    assert rows(read_inputs(program(one), tmp_path)["a"]) == [(1, 2)]
    feed()
    with pytest.raises(DataError, match="`b` and `a` are both read from standard input"):
        read_inputs(program(one, relation("b", *EDGE, input={"IO": "stdin"})), tmp_path)


def test_parquet_by_name_and_by_position_on_request(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    checked = program(relation("r", "x:number", "y:symbol", input={"IO": "parquet"}))
    pq.write_table(pa.table({"y": ["a"], "x": pa.array([1], pa.int8())}), tmp_path / "r.parquet")
    assert rows(read_inputs(checked, tmp_path)["r"]) == [(1, "a")]
    pq.write_table(pa.table({"p": [True], "q": pa.array(["a"]).dictionary_encode()}), tmp_path / "r.parquet")
    with pytest.raises(DataError, match=r"select p as x, q as y; columns=0:1 in \.input takes them as they come"):
        read_inputs(checked, tmp_path)
    checked = program(relation("r", "x:number", "y:symbol", input={"IO": "parquet", "columns": "0:1"}))
    assert rows(read_inputs(checked, tmp_path)["r"]) == [(1, "a")]


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        (pa.array([1, None]), "number", "column `x` of relation `r`: 1 null"),
        (pa.array(["a"]), "number", "column `x` of relation `r`: a column of type string cannot be read"),
        (pa.array([1]), "symbol", "column `x` of relation `r`: a column of type int64 cannot be read"),
        (pa.array([-1]), "unsigned", "column `x` of relation `r`: a value is out of range"),
        (pa.array([2**64 - 1], pa.uint64()), "number", "column `x` of relation `r`: a value is out of range"),
    ],
)
def test_parquet_columns_that_do_not_fit(column: pa.Array, kind: str, message: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": column}), tmp_path / "r.parquet")
    with pytest.raises(DataError) as caught:
        read_inputs(program(relation("r", f"x:{kind}", input={"IO": "parquet"})), tmp_path)
    assert caught.value.diagnostics[0].message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[1]]", "row 1 of `r.json`: expected 2 values, found 1"),
        ('[[1, 2], [1, "a"]]', 'row 2 of `r.json`: "a" is not of type number'),
        ("[[1, null]]", "row 1 of `r.json`: a null"),
        ("[[1, 9223372036854775808]]", "row 1 of `r.json`: 9223372036854775808 is out of range"),
        ("{}", "`r.json` must hold a list of rows"),
        ("[[1,", "`r.json` is not JSON: expecting value"),
        ('[{"x": 1, "z": 2}]', "row 1 of `r.json`: expected the keys x, y, found x, z"),
    ],
)
def test_json_that_does_not_fit(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(DataError) as caught:
        read_inputs(program(relation("r", *EDGE, input={"IO": "json"})), tmp_path)
    assert caught.value.diagnostics[0].message.replace(f"{tmp_path}/", "") == message


def test_every_kind_has_its_arrow_type() -> None:
    made = relation("r", *(f"c{i}:{name}" for i, name in enumerate(TYPES)))
    assert [str(t) for t in schema_of(made).types] == ["int64", "uint64", "double", "string", "string", "string"]


def test_a_million_pairs_are_read_by_columns(tmp_path: Path) -> None:
    pairs = np.random.default_rng(1).integers(0, 10_000, (1_000_000, 2))
    text = "\n".join(f"{x}\t{y}" for x, y in pairs.tolist())
    (tmp_path / "r.facts").write_text(text)
    checked = program(relation("r", *EDGE, input={}))
    started = time.process_time()
    table = read_inputs(checked, tmp_path)["r"]
    read = time.process_time()
    assert [(int(x), int(y)) for x, y in (line.split("\t") for line in text.split("\n"))] == list(map(tuple, pairs))
    assert read - started < time.process_time() - read, "a loop over rows takes as long"
    assert np.array_equal(np.column_stack([column.to_numpy() for column in table.columns]), pairs)
