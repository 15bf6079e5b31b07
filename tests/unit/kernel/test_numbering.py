"""Texts numbered by compiled loops: the codes that a dictionary of Python gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sempre.kernel import compiled, compiled_loops, numbering
from sempre.kernel.numbering import Numbering, TooManyTexts

# Texts of any length around that of a word, which differ in any byte; many are equal.
TEXT = st.one_of(
    st.binary(max_size=3),
    st.builds(
        lambda head, tail: b"<java.lang" + head + tail, st.binary(max_size=9), st.sampled_from([b"", b"\0", b"x"])
    ),
)
COLUMNS = st.lists(st.lists(TEXT, max_size=12), max_size=5)


@pytest.fixture(scope="module", autouse=True)
def _loops() -> None:
    compiled.load(compiled.LOOPS, wait=True)


def arrays(texts: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """As Arrow has them, in the middle of other bytes."""
    ends = np.cumsum([3, *map(len, texts)]).astype(np.uint32)
    return np.frombuffer(b"\xff\0\xfe" + b"".join(texts) + b"\0", np.uint8), ends


def table(texts: int, room: int) -> Numbering:
    return Numbering(compiled.kept(), texts, room)


@given(COLUMNS, st.sampled_from([1, 2, 64]), st.sampled_from([1, 16, 1 << 10]), st.sampled_from([1, 3, 32]))
def test_codes_are_those_of_a_dictionary(columns: list[list[bytes]], texts: int, room: int, ahead: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_loops, "AHEAD", ahead)
        compare(columns, texts, room)


def compare(columns: list[list[bytes]], texts: int, room: int) -> None:
    numbers, model = table(texts, room), dict[bytes, int]()
    for column in columns:
        expected = [model.setdefault(each, len(model)) for each in column]
        assert numbers.codes(*arrays(column)).tolist() == expected
    assert numbers.pool().encoded() == list(model)


@given(COLUMNS, COLUMNS)
def test_codes_are_taken_back(first: list[list[bytes]], then: list[list[bytes]]) -> None:
    numbers, model = table(1, 1), dict[bytes, int]()
    for text in (each for column in first for each in column):
        model.setdefault(text, len(model))
    for column in first:
        numbers.codes(*arrays(column))
    for column in then:
        numbers.codes(*arrays([b"gone" + each for each in column]))
    numbers.back_to(len(model))
    for column in then:
        assert numbers.codes(*arrays(column)).tolist() == [model.setdefault(each, len(model)) for each in column]
    assert numbers.pool().encoded() == list(model)


def hashes(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of texts of eight bytes, as the loop has them."""
    factor = np.uint64(0x9E3779B97F4A7C15)
    found = (words ^ (np.uint64(8) * factor)) * factor
    found = (found ^ (found >> np.uint64(29))) * factor
    found = (found ^ (found >> np.uint64(32))) * factor
    return found ^ (found >> np.uint64(29))


def test_equal_hashes_are_not_taken_for_equal_texts() -> None:
    with np.errstate(over="ignore"):
        words = np.arange(1 << 19, dtype=np.uint64) * np.uint64(0x0123456789ABCDF)
        marks = hashes(words) >> np.uint64(32)
    order = np.argsort(marks)
    alike = np.flatnonzero(marks[order][1:] == marks[order][:-1])
    assert alike.size > 8, "texts with the same half of a hash"
    for at in alike:
        pair = [words[order[at]].tobytes(), words[order[at + 1]].tobytes()]
        assert table(1, 8).codes(*arrays(pair)).tolist() == [0, 1]
        assert table(2, 16).codes(*arrays([*pair, *pair])).tolist() == [0, 1, 0, 1]


def test_there_are_no_more_codes_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "MOST_TEXTS", 3)
    numbers = table(1, 1)
    assert numbers.codes(*arrays([b"a", b"b", b"c", b"a"])).tolist() == [0, 1, 2, 0]
    with pytest.raises(TooManyTexts):
        numbers.codes(*arrays([b"a", b"d"]))
