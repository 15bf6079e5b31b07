"""The reader by columns and the reader by rows agree."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sempre.diagnostics import DataError
from sempre.files.directive_options import TextFormat
from sempre.files.scan import scan_text
from sempre.files.text import BLOCK_BYTES, _read_fast, read_text
from tests.unit.files.build import TYPES, relation

KINDS = ("number", "unsigned", "float", "symbol")
LAYOUTS = (
    TextFormat(),
    TextFormat(","),
    TextFormat("ab"),
    TextFormat(",", rfc4180=True),
    TextFormat(columns=(1,)),
    TextFormat(",", rfc4180=True, columns=(2,)),
)
# Few characters, so that delimiters, quotes, line breaks and almost-numbers meet often.
PIECES = st.sampled_from(
    (
        *(char.encode() for char in '10-+.xab_ \t,"\n\r\0ż'),
        *(b"\r\n", b"e5", b"0x", b"inf", b"nan", b"\xff", b"9223372036854775807", b"18446744073709551616"),
    )
)


def values(table: pa.Table) -> list[tuple[str, ...]]:
    return [tuple(map(repr, row.values())) for row in table.to_pylist()]


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, min_size=1).map(b"".join), st.sampled_from(KINDS), st.sampled_from(LAYOUTS))
def test_what_is_read_by_columns_is_what_is_read_by_rows(data: bytes, kind: str, layout: TextFormat) -> None:
    wanted = relation("r", f"x:{kind}") if layout.columns else relation("r", f"x:{kind}", "y:symbol")
    by_columns = _read_fast(data, 0, wanted, layout)
    if by_columns is None:
        return
    if layout.rfc4180 and b'"' in data:
        return  # Arrow mends wrong quotes, which the reader by rows refuses
    by_rows = scan_text(data, 0, wanted, layout, "r.facts", TYPES)
    assert values(by_columns) == values(by_rows)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"])),
            st.integers(-(2**63), 2**63 - 1),
        )
    )
)
def test_text_without_breaks_is_read_as_it_is(rows: list[tuple[str, int]]) -> None:
    data = "".join(f"{x}\t{y}\n" for x, y in rows).encode("utf-8")
    table = read_text(data, relation("r", "x:symbol", "y:number"), TextFormat(), "r.facts", TYPES)
    found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert found == [(x.removeprefix("\ufeff") if i == 0 else x, y) for i, (x, y) in enumerate(rows)]


def test_a_line_longer_than_a_block_is_read() -> None:
    data = b"a" * (BLOCK_BYTES + 10) + b"\t1\nb\t2\n" + b"c" * (BLOCK_BYTES + 10) + b"\t3\n"
    table = read_text(data, relation("r", "x:symbol", "y:number"), TextFormat(), "r.facts", TYPES)
    assert table.column("y").to_pylist() == [1, 2, 3]
    assert [len(x) for x in table.column("x").to_pylist()] == [BLOCK_BYTES + 10, 1, BLOCK_BYTES + 10]


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 9)), min_size=1))
def test_quoted_text_is_read_alike_by_both(rows: list[tuple[str, int]]) -> None:
    data = "".join('"' + x.replace('"', '""') + f'",{y}\n' for x, y in rows).encode("utf-8")
    wanted, layout = relation("r", "x:symbol", "y:number"), TextFormat(",", rfc4180=True)
    by_rows = scan_text(data, 0, wanted, layout, "r.facts", TYPES)
    assert list(zip(*(column.to_pylist() for column in by_rows.columns), strict=True)) == rows
    assert values(read_text(data, wanted, layout, "r.facts", TYPES)) == values(by_rows)


@pytest.mark.parametrize("text", [b'"a,1\nb,2\n', b'b,1\n"a,1\n', b'"a"x,+1\n'])
def test_wrong_quotes_are_an_error(text: bytes) -> None:
    with pytest.raises(DataError, match=r"E502\]: a quote is not closed, or text follows the closing quote"):
        read_text(text, relation("r", "x:symbol", "y:number"), TextFormat(",", rfc4180=True), "r", TYPES)
