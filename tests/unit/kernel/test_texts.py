"""Pools of texts, and symbol tables whose first texts are in one: the same as tables of Python's own."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sempre.kernel import values
from sempre.kernel.texts import NO_TEXTS, Pool
from sempre.kernel.values import Symbols

TEXTS = st.lists(st.text(st.sampled_from("ab\x00é🦉"), max_size=4), unique=True, max_size=12)


def pooled(texts: list[str]) -> Pool:
    return Pool.of([text.encode() for text in texts])


@given(TEXTS, st.integers(0, 12), st.integers(0, 12))
def test_a_pool_is_a_list_of_texts(texts: list[str], first: int, count: int) -> None:
    pool = pooled(texts)
    assert pool.texts() == texts
    assert [pool.text(at) for at in range(len(pool))] == texts
    first = min(first, len(texts))
    assert pool.first(count).texts() == texts[:count]
    assert pool.after(first).texts() == texts[first:]
    assert pool.after(first).joined(pool.first(count)).texts() == texts[first:] + texts[:count]


@given(TEXTS, st.text(st.sampled_from("ab\x00é🦉"), max_size=4), st.integers(0, 12))
def test_a_text_is_found_where_it_is(texts: list[str], text: str, left: int) -> None:
    for wanted in [*texts, text]:
        assert pooled(texts).find(wanted.encode()) == (texts.index(wanted) if wanted in texts else None)
    behind = texts[left:]
    assert pooled(texts).after(min(left, len(texts))).find(text.encode()) == (
        behind.index(text) if text in behind else None
    )


def test_many_texts_of_one_length_are_told_apart() -> None:
    texts = [f"{n:05}" for n in range(10_000)]
    pool = pooled(texts)
    assert [pool.find(texts[at].encode()) for at in (0, 1, 4095, 4096, 9_999)] == [0, 1, 4095, 4096, 9_999]
    assert pool.find(b"x0000") is None


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["code", "known", "encode", "pool", "keep", "forget", "decode", "branch"]),
        st.lists(st.text(st.sampled_from("abc"), max_size=2), max_size=4),
    ),
    max_size=25,
)


@given(OPERATIONS, st.integers(0, 3))
def test_a_table_with_a_pool_does_what_one_without_does(operations: list[tuple[str, list[str]]], lookups: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "MOST_LOOKUPS", lookups)
        table, model = Symbols(), Symbols()
        for name, texts in operations:
            if name == "pool":
                for text in texts:
                    model.code(text)
                assert table.pool(pooled(model.utf8().texts()), len(table))
                assert not table.pool(NO_TEXTS, len(table) + 1)
            else:
                assert answer(table, name, texts) == answer(model, name, texts)
            assert len(table) == len(model)
            assert table.is_kept == model.is_kept
            assert table.utf8().texts() == model.utf8().texts()


def answer(table: Symbols, name: str, texts: list[str]) -> Any:
    if name in ("keep", "forget"):
        return getattr(table, name)()
    if name == "encode":
        return table.encode(texts).tolist()
    if name == "decode":
        twice = np.arange(len(table) * 2) % max(1, len(table))
        return table.decode(twice), [table.text(code) for code in range(len(table))]
    if name == "branch":
        branch = table.branch()
        codes = [branch.code(text) for text in texts]
        known = [branch.known(text) for text in [*texts, "zz"]]
        whole = branch.utf8().texts()
        assert branch.decode(np.arange(len(branch))) == whole
        return codes, known, whole, branch.utf8(1, len(branch)).texts() if len(branch) else [], table.known("zz")
    return [getattr(table, name)(text) for text in texts]


def test_threads_agree_on_codes_of_a_pool() -> None:
    table = Symbols()
    texts = [f"text {n}" for n in range(3000)]
    assert table.pool(pooled(texts), 0)
    found: list[list[int]] = []
    asked = [*texts[::7], "new", "newer"]
    threads = [threading.Thread(target=lambda: found.append(table.encode(asked).tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(codes == found[0] for codes in found)
    assert table.decode(np.array(found[0])) == asked
