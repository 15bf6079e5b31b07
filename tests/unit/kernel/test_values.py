from __future__ import annotations

import math
import threading

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sempre.kernel.values import NAN_BITS, Records, Symbols, Values, float_codes, floats_of
from tests.unit.kernel.rows import ANY, SMALL, columns_of, tuples


@given(st.lists(st.text(max_size=5)))
def test_symbols_are_numbered_in_order_of_first_use(texts: list[str]) -> None:
    symbols = Symbols()
    codes = symbols.encode(texts)
    assert symbols.decode(codes) == texts
    assert symbols.utf8().texts() == list(dict.fromkeys(texts))
    assert symbols.encode(texts).tolist() == codes.tolist()
    assert len(symbols) == len(set(texts))


def test_looking_up_a_symbol_does_not_make_one() -> None:
    symbols = Symbols()
    assert symbols.known("a") is None
    assert (symbols.code("a"), symbols.known("a"), symbols.text(0)) == (0, 0, "a")


def test_threads_agree_on_codes() -> None:
    symbols = Symbols()
    texts = [f"text {n % 500}" for n in range(5000)]
    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda: found.append(symbols.encode(texts).tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(codes == found[0] for codes in found)
    assert symbols.decode(np.array(found[0])) == texts


@given(st.lists(st.lists(st.tuples(SMALL | ANY, SMALL, ANY | SMALL), max_size=8), max_size=5))
def test_records_are_the_same_when_their_fields_are(batches: list[list[tuple[int, ...]]]) -> None:
    records = Records(3)
    known: dict[tuple[int, ...], int] = {}
    for rows in batches:
        codes = records.encode(columns_of(rows, 3), len(rows))
        for row, code in zip(rows, codes.tolist(), strict=True):
            assert known.setdefault(row, code) == code
        assert tuples([records.field(codes, at) for at in range(3)]) == rows
    assert sorted(known.values()) == list(range(1, len(known) + 1))  # 0 is nil


def test_records_without_fields_are_one() -> None:
    records = Records(0)
    assert records.encode([], 3).tolist() == [1, 1, 1]
    assert records.encode([], 1).tolist() == [1]


def test_each_arity_has_its_table() -> None:
    values = Values()
    assert values.records(2) is values.records(2)
    assert values.records(2) is not values.records(3)


def test_there_is_one_zero_and_one_nan() -> None:
    strange = np.array([NAN_BITS | 1, NAN_BITS | (1 << 62), -1], np.int64).view(np.float64)
    assert np.isnan(strange).all()
    assert set(float_codes(strange).tolist()) == {NAN_BITS}
    assert float_codes(np.array([0.0, -0.0])).tolist() == [0, 0]


@given(st.lists(st.floats()))
def test_floats_keep_their_values(values: list[float]) -> None:
    back = floats_of(float_codes(np.array(values, np.float64))).tolist()
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(values, back, strict=True))


def test_encoding_floats_leaves_the_array_alone() -> None:
    values = np.array([-0.0, np.nan, 1.0])
    before = values.view(np.int64).tolist()
    float_codes(values)
    assert values.view(np.int64).tolist() == before
