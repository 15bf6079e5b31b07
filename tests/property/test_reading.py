"""Fact files of any bytes: each way of reading gives what a plain reader in Python gives, or the same error."""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sempre
from sempre.diagnostics import DataError
from sempre.files import read_inputs, text
from sempre.files.numbered import NumberedTexts
from sempre.kernel import compiled
from tests.unit.files.build import program, relation

KINDS = ("symbol", "symbol", "number", "unsigned", "float")
VALUES = {
    "symbol": st.one_of(
        st.text(st.sampled_from("ab,<>:() é🦉\"'\x00\x1f\u2028\x85;xX[]"), max_size=12),
        st.sampled_from(
            ["", "<java.lang.String: void <init>(char[],int,int)>/@param0", "NULL", "nan", "a" * 5000, "\r"]
        ),
    ),
    "number": st.one_of(
        st.integers(-(2**63), 2**63 - 1).map(str),
        st.sampled_from(["0", "-0", "+7", "0x1f", "-0x1", "0xffffffffffffffff", "0b101", "007", "9223372036854775808"]),
    ),
    "unsigned": st.one_of(st.integers(0, 2**64 - 1).map(str), st.sampled_from(["-1", "0xff", "18446744073709551616"])),
    "float": st.one_of(
        st.floats(allow_nan=False).map(repr), st.sampled_from(["1", ".5", "1e3", "inf", "-inf", "1e999", "x", "nan"])
    ),
}
# What may stand where a line should be: empty ones, too few or too many values, bytes that are no text.
ODD = st.sampled_from([b"", b"", b"\t", b"a\tb\tc\td\te", b"\xff\tb", b"\r", b" ", b"\xef\xbb\xbf", b"a\rb"])
BREAKS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n"])


@st.composite
def files(draw: st.DrawFn) -> tuple[tuple[str, ...], bytes]:
    """The kinds of the columns, and the bytes of a file."""
    kinds = tuple(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3)))
    good = st.tuples(*(VALUES[kind] for kind in kinds)).map(lambda cells: "\t".join(cells).encode())
    flag: Any = st.booleans()
    lines = draw(st.lists(st.one_of(good, good, good, good, ODD) if draw(flag) else good, max_size=8))
    break_ = draw(BREAKS) if draw(flag) else b"\n"
    data = break_.join(lines)
    if lines and draw(flag):
        data += break_
    return kinds, data


class Bad(Exception):
    """A file that no reader takes."""


def plain(kinds: tuple[str, ...], data: bytes) -> list[tuple[Any, ...]]:
    """The rows of a file, read in the plainest way."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    rows = []
    for line in lines:
        cells = line.removesuffix(b"\r").split(b"\t")
        if len(cells) != len(kinds):
            raise Bad
        rows.append(tuple(value(cell, kind) for cell, kind in zip(cells, kinds, strict=True)))
    return rows


def value(cell: bytes, kind: str) -> Any:
    try:
        spelled = cell.decode()
    except UnicodeDecodeError:
        raise Bad from None
    if kind == "symbol":
        return spelled
    if kind == "float":
        if not re.fullmatch(
            r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|infinity|nan)", spelled.strip(), re.IGNORECASE | re.ASCII
        ):
            raise Bad
        return float(spelled)
    if not re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)", spelled.strip(" \t")):
        raise Bad
    body = spelled.strip(" \t")
    prefix = body.lstrip("+-")[:2].lower()
    number = int(body, 16 if prefix == "0x" else 2 if prefix == "0b" else 10)
    low, high = (0, 2**64 - 1) if kind == "unsigned" else (-(2**63), 2**63 - 1)
    if not low <= number <= high:
        raise Bad
    return number


@pytest.fixture(scope="module", autouse=True)
def _loops() -> None:
    compiled.load(compiled.LOOPS, wait=True)


def read(
    kinds: tuple[str, ...], data: bytes, large: int, block: int, numbering: bool = True
) -> list[tuple[Any, ...]] | str:
    """What the files' own reader gives: rows, or the text of the error. With or without loops that number texts."""
    columns = [f"c{at}:{kind}" for at, kind in enumerate(kinds)]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "LARGE_BYTES", large)
        patch.setattr(text, "BLOCK_BYTES", block)
        if not numbering:
            patch.setattr(NumberedTexts, "ready", lambda: None)
        (Path(folder) / "r.facts").write_bytes(data)
        try:
            table = read_inputs(program(relation("r", *columns, input={})), folder)["r"]
        except DataError as error:
            return str(error).replace(folder, "")
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def shown(rows: list[tuple[Any, ...]] | str) -> Any:
    """Rows that compare: NaN equals itself."""
    if isinstance(rows, str):
        return rows
    return [tuple("nan" if isinstance(cell, float) and math.isnan(cell) else cell for cell in row) for row in rows]


@given(files(), st.sampled_from([1 << 20, 1 << 14]))
@example((("symbol", "symbol"), b"a\tb\n\nc\td\n"), 1 << 20)
@example((("symbol", "symbol"), b"\na\tb\n"), 1 << 20)
@example((("symbol", "symbol"), b"a\tb\n\t\n"), 1 << 20)
@example((("symbol", "number"), b"a\t1\n\n"), 1 << 20)
@example((("number",), b"0xffffffffffffffff\n"), 1 << 20)
@example((("symbol",), b"a\n\nb\n"), 1 << 20)
@example((("symbol",), b"a\rb\nc\n"), 1 << 20)
@example((("symbol", "symbol"), b"a\rb\tc\nd\te\n"), 1 << 20)
@example((("symbol", "symbol"), b'"a\tb"\n"\t""\n'), 1 << 20)
def test_every_way_of_reading_agrees_with_a_plain_reader(file: tuple[tuple[str, ...], bytes], block: int) -> None:
    kinds, data = file
    small, large = read(kinds, data, 1 << 30, block), read(kinds, data, 0, block)
    assert shown(large) == shown(small)
    assert shown(read(kinds, data, 0, block, numbering=False)) == shown(small)
    try:
        expected = plain(kinds, data)
    except Bad:
        assert isinstance(small, str), "a bad file was taken"
        return
    assert shown(small) == shown(expected)


def test_a_large_file_with_a_bad_line_names_it(tmp_path: Path) -> None:
    lines = [f"<a.Class{n}: void f()>\t{n}" for n in range(400_000)]
    lines[345_678] = "<a.Class: void g()>\tmany"
    (tmp_path / "r.facts").write_text("\n".join(lines) + "\n")
    assert (tmp_path / "r.facts").stat().st_size > text.LARGE_BYTES
    with pytest.raises(DataError, match=r"r\.facts:345679:21") as caught:
        read_inputs(program(relation("r", "x:symbol", "y:number", input={})), tmp_path)
    assert "`many` is not a number" in str(caught.value)


def test_files_of_all_kinds_share_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files and small ones, several of a relation, one that needs a closer look, and columns in Parquet."""
    monkeypatch.setattr(text, "LARGE_BYTES", 1 << 16)
    names = [f"<a.Class{n % 7_000}: void f()>" for n in range(20_000)]
    (tmp_path / "large.facts").write_text("".join(f"{name}\t{n % 3}\n" for n, name in enumerate(names)))
    (tmp_path / "odd.facts").write_bytes("".join(f"{name}!\n" for name in names).encode() + b"left\rright\n")
    (tmp_path / "small.facts").write_text("<a.Class5: void f()>\nnew\n\n")
    pq.write_table(pa.table({"x": [*names[:100], "é"], "y": range(101)}), tmp_path / "r.parquet")
    (tmp_path / "both.dl").write_text("""
.decl r(x: symbol, y: number)
.decl s(x: symbol)
.decl t(x: symbol)
.input r(filename="large.facts"), s(filename="small.facts"), r(filename="r.parquet", IO=parquet)
.input t(filename="odd.facts")
.input s(filename="small.facts")
""")
    program = sempre.Program.from_file(tmp_path / "both.dl")
    tables = read_inputs(program.checked, tmp_path)
    expected: dict[str, list[tuple[Any, ...]]] = {
        "r": [*((name, n % 3) for n, name in enumerate(names)), *((name, n) for n, name in enumerate(names[:100]))],
        "s": [("<a.Class5: void f()>",), ("new",), ("",)] * 2,
        "t": [*((f"{name}!",) for name in names), ("left\rright",)],
    }
    expected["r"].append(("é", 100))
    for name, rows in expected.items():
        assert list(zip(*(column.to_pylist() for column in tables[name].columns), strict=True)) == rows
    with sempre.Database(program) as db:
        db.load(tmp_path)
        assert {name: sorted(db[name]) for name in expected} == {
            name: sorted(set(rows)) for name, rows in expected.items()
        }
        # What was read and given up has left no text.
        assert len(db._backend.values.symbols) == len({row[0] for rows in expected.values() for row in rows})
