"""Rows that are written as codes make the lines that their Arrow table makes."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sempre.files import coded_rows
from sempre.files.coded_rows import CodedRows
from sempre.files.directive_options import TextFormat
from sempre.files.encode import row_count, write_text
from sempre.kernel import compiled
from sempre.kernel.layout import Column
from sempre.kernel.texts import Pool
from sempre.kernel.values import Values
from sempre.results import Decoder, RelationShape
from tests.unit.files.build import relation

NUMBERS = st.one_of(st.integers(-12, 12), st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), 2**63 - 1, 0]))
TEXTS = st.lists(st.text('ab\t\n",ż', max_size=20), unique=True, min_size=1, max_size=9)
FORMATS = [TextFormat(), TextFormat(","), TextFormat("::"), TextFormat("1"), TextFormat(",", rfc4180=True)]


@pytest.fixture(scope="module", autouse=True)
def _loops() -> None:
    compiled.load(compiled.LOOPS, wait=True)


@pytest.fixture(params=["numpy", "compiled"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded by Arrow, and written by the loop however few rows there are, a few rows at a time."""
    monkeypatch.setattr(compiled, "WORTH_ROWS", 0 if request.param == "compiled" else 1 << 62)
    monkeypatch.setattr(coded_rows, "SLICE_ROWS", 5)
    monkeypatch.setattr(coded_rows, "ROOM", 64)
    monkeypatch.setattr("sempre.results.BULK_ROWS", 2)


def coded(
    kinds: Sequence[str], columns: list[list[int]], texts: list[str], pooled: int
) -> tuple[CodedRows, Decoder, list[Column]]:
    """Rows of these columns of codes; of the texts so many lie side by side, as they came from files."""
    values = Values()
    assert values.symbols.pool(Pool.of([text.encode() for text in texts[:pooled]]), 0)
    for text in texts[pooled:]:
        values.symbols.code(text)
    made = relation("r", *(f"c{i}:{kind}" for i, kind in enumerate(kinds)))
    decoder = Decoder(values, {})
    arrays = [np.array(column, np.int64) for column in columns]
    shape = RelationShape(made, decoder)
    rows = shape.streamed(lambda begin, end: [array[begin:end] for array in arrays], arrays[0].size)
    return rows, decoder, arrays


@pytest.mark.usefixtures("path")
@given(st.data())
def test_lines_are_those_of_the_table(data: st.DataObject) -> None:
    texts = data.draw(TEXTS)
    kinds = data.draw(st.lists(st.sampled_from(["number", "unsigned", "symbol", "float"]), min_size=1, max_size=4))
    size = data.draw(st.integers(0, 13))
    codes = {"symbol": st.integers(0, len(texts) - 1), "float": st.sampled_from([0, 1 << 62])}
    columns = [data.draw(st.lists(codes.get(kind, NUMBERS), min_size=size, max_size=size)) for kind in kinds]
    rows, decoder, arrays = coded(kinds, columns, texts, data.draw(st.integers(0, len(texts))))
    plain = decoder.table(rows.relation, arrays, size)
    assert row_count(rows) == row_count(plain) == size
    assert [row for batch in rows.batches() for row in batch.to_pylist()] == plain.to_pylist()
    for layout in FORMATS:
        mine, theirs = io.BytesIO(), io.BytesIO()
        broken = write_text(rows, mine, rows.relation, layout), write_text(plain, theirs, rows.relation, layout)
        assert mine.getvalue() == theirs.getvalue()
        assert broken[0] == broken[1]


@pytest.mark.usefixtures("path")
def test_a_line_that_is_longer_than_the_room() -> None:
    rows, _, _ = coded(["symbol", "number"], [[1, 0, 1], [-1, 2, 3]], ["a", "b" * 1_000], 1)
    sink = io.BytesIO()
    assert write_text(rows, sink, rows.relation, TextFormat()) == 0
    assert sink.getvalue() == b"b" * 1_000 + b"\t-1\na\t2\n" + b"b" * 1_000 + b"\t3\n"


def test_texts_of_many_codes_need_no_other_copy_of_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is numbered after a pool of texts does not have the pool copied."""
    monkeypatch.setattr("sempre.results.BULK_ROWS", 0)
    rows, decoder, _ = coded(["symbol"], [[0, 2, 1, 2]], ["a", "b", "c"], 2)
    before = pa.total_allocated_bytes()
    assert rows.table(0, 4).column(0).to_pylist() == ["a", "c", "b", "c"]
    assert rows.table(1, 2).column(0).to_pylist() == ["c"]
    assert rows.table(2, 3).column(0).to_pylist() == ["b"]
    kept = decoder._texts
    assert kept is not None
    assert [len(each) for each in kept] == [2, 1]
    assert pa.total_allocated_bytes() - before < 1_000
