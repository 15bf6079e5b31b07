"""What a join finds, counted while it is made: by the table and by buckets, as by counting one after the other."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest

from sempre.kernel import compiled, gather
from sempre.kernel.layout import Field, Keys, packing

SOURCE = packing((Field(0, 4), Field(5, 6)), (0, 1))
TARGET = packing((Field(0, 7), Field(3, 8)), (0, 1))


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> Any:
    compiled.load(wait=True)
    monkeypatch.setattr(compiled, "WORTH_ROWS", 0)
    return compiled.loops(1)


def joined(seed: int, weighted: bool) -> tuple[gather.Join, Counter[tuple[int, int]]]:
    """A join of rows with ranges of a run, and what it finds: each row with the last column of what is in its range."""
    rng = np.random.default_rng(seed)
    pairs = sorted({(int(a), int(b)) for a, b in zip(rng.integers(0, 16, 90), rng.integers(5, 69, 90), strict=True)})
    columns = [np.array([pair[i] for pair in pairs]) for i in range(2)]
    size = 60
    rows, begins = rng.integers(0, 5, size), rng.integers(0, len(pairs), size)
    ends = np.minimum(begins + rng.integers(0, 40, size), len(pairs))
    weights = rng.integers(1, 4, size) if weighted else None
    mixing = gather.Mixing(TARGET, size)
    assert mixing.column(0, rows, None)
    assert mixing.moved(1, SOURCE, 1)
    found: Counter[tuple[int, int]] = Counter()
    for row in range(size):
        for at in range(begins[row], ends[row]):
            found[int(rows[row]), pairs[at][1]] += 1 if weights is None else int(weights[row])
    keys = SOURCE.pack(columns, len(pairs))
    return gather.Join(mixing.recipe(), weights, keys, begins, ends), found


def counted(keys: Keys, counts: Keys) -> Counter[tuple[int, int]]:
    rows = zip(*(column.tolist() for column in TARGET.columns(keys)), strict=True)
    return Counter(dict(zip(rows, counts.tolist(), strict=True)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("stretch", [3, 1 << 20])
def test_the_table_adds_up(weighted: bool, stretch: int, loops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "GATHERED_KEYS", stretch)
    monkeypatch.setattr(gather, "SUM_TABLE_BITS", 4)
    monkeypatch.setattr(gather, "_table", [])
    for seed in range(20):
        join, expected = joined(seed, weighted)
        total: Counter[tuple[int, int]] = Counter()
        for keys, counts in gather.gathered(loops, join):
            assert len(set(keys.tolist())) == keys.size
            total += counted(keys, counts)
        assert total == expected


def _note(parts: list[tuple[Keys, Keys]], keys: Keys, numbers: Keys) -> None:
    parts.append((keys.copy(), numbers.copy()))  # what is handed on is the bucket's


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("counts", [False, True])
def test_buckets_hand_on_what_they_get(
    weighted: bool, counts: bool, loops: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "BUCKET_WORDS", 64)
    monkeypatch.setattr(gather, "_idle", [])
    for seed in range(20):
        join, expected = joined(seed, weighted)
        parts: list[tuple[Keys, Keys]] = []
        bucket = gather.Bucket(TARGET.bits, counts, partial(_note, parts))
        bucket.pour(loops, join)
        bucket.close()
        assert len(gather._idle) == 1  # which the next bucket takes
        assert all(keys.tolist() == sorted(set(keys.tolist())) for keys, _ in parts)
        total: Counter[tuple[int, int]] = Counter()
        for keys, numbers in parts:
            total += counted(keys, numbers if counts else np.ones_like(keys))
        assert total == expected if counts else total.keys() == expected.keys()


def test_what_does_not_fit_is_refused() -> None:
    mixing = gather.Mixing(TARGET, 1)
    assert not mixing.column(0, np.array([128]), None)
    assert not mixing.constant(1, 2)
    assert not mixing.moved(0, packing((Field(0, 8),), (0,)), 0)
