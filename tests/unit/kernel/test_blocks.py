"""Blocks of sorted keys against a plain sorted list."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pytest

from sempre.kernel import blocks as module
from sempre.kernel.blocks import Blocks


def as_keys(values: list[int], wide: bool) -> np.ndarray:
    """Keys of both layouts: integers, and big-endian bytes that sort like them."""
    column = np.array(values, np.int64)
    return column.astype(">u8").view("S8").reshape(len(values)) if wide else column


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("many", [0, 1000])
def test_changes_and_neighbors_are_those_of_a_list(wide: bool, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_KEYS", 4)
    monkeypatch.setattr(module, "MANY_PROBES", many)
    dice = np.random.default_rng(7)
    have: list[int] = sorted(dice.choice(200, 100, replace=False).tolist())
    blocks = Blocks.of(as_keys(have, wide))
    for step in range(120):
        size = 2 if step % 10 else 25
        minus = sorted(dice.choice(have, min(size, len(have)), replace=False).tolist()) if have else []
        plus = sorted(set(dice.choice(200, size).tolist()) - {*have})
        before, earlier = list(have), blocks
        blocks = blocks.changed(as_keys(plus, wide), as_keys(minus, wide))
        have = sorted({*have, *plus} - {*minus})
        assert blocks.flat().tolist() == as_keys(have, wide).tolist()
        assert earlier.flat().tolist() == as_keys(before, wide).tolist(), "an earlier version has changed"
        assert len(blocks) == len(have)
        compare_neighbors(blocks, have, wide)


def compare_neighbors(blocks: Blocks, have: list[int], wide: bool) -> None:
    probes = list(range(202))
    keys = as_keys(probes, wide)
    for found, at in (
        (blocks.before(keys), [bisect_left(have, probe) - 1 for probe in probes]),
        (blocks.after(keys), [bisect_right(have, probe) for probe in probes]),
        (blocks.after(keys, inclusive=True), [bisect_left(have, probe) for probe in probes]),
    ):
        expected = [as_keys([have[i]], wide)[0] if 0 <= i < len(have) else None for i in at]
        assert [key if has else None for has, key in zip(*found, strict=True)] == expected


def test_an_empty_set_has_no_neighbors() -> None:
    blocks = Blocks.of(np.empty(0, np.int64)).changed(np.array([5]), np.empty(0, np.int64))
    blocks = blocks.changed(np.empty(0, np.int64), np.array([5]))
    assert not blocks.before(np.array([5]))[0].any()
    assert not blocks.after(np.array([5]), inclusive=True)[0].any()
