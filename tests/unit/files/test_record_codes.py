"""Texts of records as codes and back: equal exactly for equal records, whatever process reads them."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sempre
from sempre.analysis.model import Relation
from sempre.files.record_codes import codes_of, texts_of
from sempre.files.records import RecordError, format_record
from sempre.ingest import encode_rows
from sempre.kernel.values import Values
from sempre.results import Decoder

TYPES = sempre.Program("""
.type Id <: symbol
.type List = [head: number, tail: List]
.type Pair = [name: Id, at: float, size: unsigned]
.type Tree = [left: Tree, value: Pair, right: Tree, path: List]
.type One = [only: symbol]
.type Nothing = []
.type Whole = [n: number]
.type Real = [n: float]
.type Both = [whole: Whole, real: Real]
""").checked.types

NUMBERS = st.integers(-(2**63), 2**63 - 1)
# The code of a symbol and a small number look alike: few of each, so that they meet.
LISTS = st.recursive(st.none(), lambda rest: st.tuples(st.integers(0, 2) | NUMBERS, rest), max_leaves=6)
PAIRS = st.none() | st.tuples(
    st.sampled_from(["", "nil", "a", " a", '"', "\\n", "\n", "ü", "[1, nil]", "1", "🜁"]) | st.text(),
    st.sampled_from([0.0, -0.0, 1.5, math.inf, -math.inf, 5e-324]) | st.floats(allow_nan=False),
    st.integers(0, 2) | st.integers(0, 2**64 - 1),
)
TREES = st.recursive(st.none(), lambda tree: st.tuples(tree, PAIRS, tree, LISTS), max_leaves=6)
ALL = {"List": LISTS, "Pair": PAIRS, "Tree": TREES}


def column(values: Values, records: list[Any], name: str) -> Any:
    relation = Relation("r", ("x",), (TYPES[name],))
    return encode_rows(relation, [(record,) for record in records], values, TYPES)[0][0]


@pytest.mark.parametrize("name", sorted(ALL))
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_texts_carry_records_from_process_to_process(name: str, data: st.DataObject) -> None:
    records = data.draw(st.lists(ALL[name], max_size=12))
    ours, theirs = Values(), Values()
    theirs.symbols.encode(["something", "else"])
    codes = column(ours, records, name)
    texts = texts_of(ours, codes, TYPES[name], TYPES)
    there = codes_of(theirs, texts, TYPES[name], TYPES)
    found = Decoder(theirs, TYPES).python(there, TYPES[name])
    assert found == records
    assert texts_of(theirs, there, TYPES[name], TYPES) == texts
    assert texts == [
        format_record(value, TYPES[name], TYPES) for value in Decoder(ours, TYPES).python(codes, TYPES[name])
    ]
    for one, here, text in zip(codes, there, texts, strict=True):
        same = codes == one
        assert (same == (there == here)).all()
        assert (same == [other == text for other in texts]).all()


def test_there_is_one_nan_and_one_zero() -> None:
    values = Values()
    texts = ["[a, nan, 1]", "[a, -nan, 1]", "[a, 0, 1]", "[a, -0.0, 1]", "[a, 0.0, 1]"]
    codes = codes_of(values, texts, TYPES["Pair"], TYPES)
    assert codes.tolist() == [codes[0]] * 2 + [codes[2]] * 3
    assert codes[0] != codes[2]
    assert texts_of(values, codes[[0, 2]], TYPES["Pair"], TYPES) == ["[a, nan, 1]", "[a, 0.0, 1]"]


def test_other_ways_to_write_a_record_have_its_code() -> None:
    values = Values()
    codes = codes_of(values, ["[ 1,[+2 , nil]]", "[1, [2, nil]]", "nil", " nil "], TYPES["List"], TYPES)
    assert codes.tolist() == [codes[0], codes[0], 0, 0]
    assert texts_of(values, codes, TYPES["List"], TYPES) == ["[1, [2, nil]]"] * 2 + ["nil"] * 2


def test_records_of_one_field_and_of_none() -> None:
    values = Values()
    assert texts_of(values, codes_of(values, ['[""]', "nil"], TYPES["One"], TYPES), TYPES["One"], TYPES) == [
        '[""]',
        "nil",
    ]
    codes = codes_of(values, ["[]", "nil", "[ ]"], TYPES["Nothing"], TYPES)
    assert codes.tolist() == [1, 0, 1]
    assert texts_of(values, codes, TYPES["Nothing"], TYPES) == ["[]", "nil", "[]"]


def test_equal_numbers_of_two_types_are_two_records() -> None:
    values = Values()
    text = "[[1], [1.0]]"
    assert texts_of(values, codes_of(values, [text], TYPES["Both"], TYPES), TYPES["Both"], TYPES) == [text]


def test_records_are_found_again_in_tables_that_have_them() -> None:
    values, rng = Values(), random.Random(1)
    records = [(rng.randrange(3), (rng.randrange(3), None)) for _ in range(50)]
    codes = column(values, records, "List")
    before = len(values.records(2))
    texts = texts_of(values, codes, TYPES["List"], TYPES)
    assert codes_of(values, texts, TYPES["List"], TYPES).tolist() == codes.tolist()
    assert len(values.records(2)) == before


def test_a_list_may_be_longer_than_the_stack() -> None:
    text = "[7, " * 5000 + "nil" + "]" * 5000
    values = Values()
    codes = codes_of(values, [text, text], TYPES["List"], TYPES)
    assert codes.tolist() == [5000, 5000]
    assert texts_of(values, codes[:1], TYPES["List"], TYPES) == [text]


def test_nothing_in_nothing_out() -> None:
    values = Values()
    codes = codes_of(values, [], TYPES["List"], TYPES)
    assert codes.size == 0
    assert codes.dtype == np.int64
    assert texts_of(values, codes, TYPES["List"], TYPES) == []


def test_what_is_no_record_is_said() -> None:
    with pytest.raises(RecordError, match="`x` is not a number"):
        codes_of(Values(), ["[1, nil]", "[x, nil]"], TYPES["List"], TYPES)
