"""Texts of many columns numbered at once: the codes that numbering one by one gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sempre
from sempre.diagnostics import DataError
from sempre.files import symbols
from sempre.files.columns import CODED
from sempre.files.symbols import encode_columns
from sempre.kernel.values import Symbols

TEXT = st.text(st.sampled_from("aé\x00🦉"), max_size=2)
KINDS = [pa.string(), pa.large_string(), CODED, pa.dictionary(pa.int8(), pa.large_string())]
CHUNKS = st.lists(st.lists(TEXT, max_size=5), max_size=4)


def chunked(chunks: list[list[str]], kind: Any) -> Any:
    """Chunks as they are, each with a dictionary of its own."""
    arrays = [pa.array(each, pa.string()) for each in chunks]
    made = [each.dictionary_encode() if pa.types.is_dictionary(kind) else each for each in arrays]
    return pa.chunked_array([each.cast(kind) for each in made], kind)


@given(st.lists(st.tuples(CHUNKS, st.sampled_from(KINDS)), max_size=4), st.lists(TEXT), st.booleans())
def test_codes_are_those_of_numbering_in_order(columns: Any, before: list[str], twice: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(symbols, "MANY", 1)
        patch.setattr(symbols, "SHARE", 1 << 20)
        table, model = Symbols(), Symbols()
        for each in (table, model):
            each.encode(before)
        made = [chunked(chunks, kind) for chunks, kind in columns]
        if twice:  # the second time there is a pool
            encode_columns(table, made)
        codes = encode_columns(table, made)
        for column in made:
            for chunk in column.chunks:
                if len(chunk):
                    model.encode((chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk).to_pylist())
        if codes is None:
            assert not any(len(column) for column in made)
            return
        assert [model.decode(each) for each in codes] == [column.to_pylist() for column in made]
        assert table.utf8().texts() == model.utf8().texts()
        assert table.decode(np.arange(len(table))) == model.utf8().texts()


def test_a_slice_of_a_column_has_its_own_texts_only() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(symbols, "MANY", 1)
        table = Symbols()
        column = pa.chunked_array([pa.array(["a", "b", "c", "d"]).slice(1, 2)])
        found = encode_columns(table, [column])
        assert found is not None
        assert [each.tolist() for each in found] == [[0, 1]]
        assert table.utf8().texts() == ["b", "c"]


PROGRAM = """
.decl r(x: symbol, y: symbol)
.decl s(x: symbol)
.output s
s(x) :- r(x, "end").
"""


def test_a_database_of_pooled_texts_is_updated_queried_and_opened_again(tmp_path: Any) -> None:
    size = 80_000
    names = [f"<a.long.Name: void f{n}(int)>/é{n % 3}" for n in range(size)]
    ends = ["end" if n % 2 else f"no{n % 10}" for n in range(size)]
    rows = pa.table({"x": names, "y": pa.array(ends).dictionary_encode()})
    with sempre.Database(PROGRAM, store=tmp_path / "store") as db:
        db.apply(insert={"r": rows})
        assert len(db["s"]) == size // 2
        assert sorted(db["s"]) == sorted((name,) for name in names[1::2])
        assert db["s"].to_arrow().column(0).to_pylist() == [name for (name,) in db["s"]]
        changes = db.apply(insert={"r": [("new", "end"), (names[0], "end")]}, delete={"r": [(names[1], "end")]})
        assert sorted(changes.added["s"].column(0).to_pylist()) == sorted(["new", names[0]])
        assert changes.removed["s"].column(0).to_pylist() == [names[1]]
        assert db.query(f'r("{names[5]}", Y)').to_pylist() == [{"Y": "end"}]
        assert db.query('r("nobody", Y)').num_rows == 0
        more = pa.table({"x": [f"more{n}" for n in range(size)], "y": ["end"] * size})
        db.apply(insert={"r": more})
        assert len(db["s"]) == size // 2 + 1 + size
        assert db.verify().ok
    with sempre.Database.open(tmp_path / "store") as again:
        assert ("new",) in again["s"]
        assert ("more7",) in again["s"]
        assert len(again["s"]) == size // 2 + 1 + size


def test_bytes_that_are_not_utf8_are_refused_in_bulk_too() -> None:
    size = 1 << 17
    data = pa.py_buffer(b"ab\xffc" * (size // 4))
    offsets = pa.py_buffer(np.arange(size + 1, dtype=np.int32))
    bad = pa.Array.from_buffers(pa.string(), size, [None, offsets, data])
    db = sempre.Database(".decl s(x: symbol)")
    with pytest.raises(DataError, match="column `x` has bytes that are not UTF-8"):
        db.apply(insert={"s": pa.table({"x": bad})})
    assert len(db["s"]) == 0
    assert len(db._backend.values.symbols) == 0
