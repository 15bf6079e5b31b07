"""Records as text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sempre.files.records import RecordError, Value, format_record, parse_record
from tests.unit.files.build import TYPES

LISTS = st.recursive(st.none(), lambda rest: st.tuples(st.integers(-(2**63), 2**63 - 1), rest), max_leaves=8)
PAIRS = st.none() | st.tuples(st.text(), st.floats(allow_nan=False))


@settings(deadline=None)
@given(LISTS)
def test_nested_records_read_back(value: Value) -> None:
    text = format_record(value, TYPES["List"], TYPES)
    assert parse_record(text, TYPES["List"], TYPES) == value


@settings(deadline=None)
@given(PAIRS)
def test_symbols_and_floats_read_back(value: Value) -> None:
    text = format_record(value, TYPES["Pair"], TYPES)
    assert "\n" not in text
    assert "\t" not in text
    assert parse_record(text, TYPES["Pair"], TYPES) == value


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "expected `[` or `nil` for a value of type `List`", 0),
        ("[1", "expected `,`: a record of type `List` has 2 fields", 2),
        ("[1, nil", "expected `]`: a record of type `List` has 2 fields", 7),
        ("[1, nil, 2]", "expected `]`: a record of type `List` has 2 fields", 7),
        ("[x, nil]", "`x` is not a number", 1),
        ("[9223372036854775808, nil]", "`9223372036854775808` does not fit a number of 64 bits", 1),
        ("nil x", "unexpected text after the end of the record: `x`", 4),
    ],
)
def test_what_is_not_a_record(text: str, message: str, position: int) -> None:
    with pytest.raises(RecordError) as caught:
        parse_record(text, TYPES["List"], TYPES)
    assert (str(caught.value), caught.value.position) == (message, position)
