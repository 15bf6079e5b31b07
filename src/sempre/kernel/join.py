"""Array operations on sorted keys: arrays in, arrays out, no loop over rows.

Written in NumPy. Where an operation is one pass over two sorted arrays, NumPy has to search or sort instead; the
loops in `compiled` do that pass, and are used once they are loaded and the arrays are large enough to be worth it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sempre.kernel import compiled
from sempre.kernel.capacity import uncountable
from sempre.kernel.layout import INT64_MAX, INT64_MIN, Column, Keys

Rows: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]
Weights: TypeAlias = NDArray[np.int64]


def ordered(keys: Keys, low: int = 0, scratch: Keys | None = None) -> Keys:
    """Keys sorted, numbers by all but their `low` last bits: in `keys` or `scratch`, and the other is undefined."""
    if keys.dtype == np.int64 and (loops := compiled.loops(keys.size)) is not None:
        return np.asarray(loops.ordered(keys, low, np.empty_like(keys) if scratch is None else scratch[: keys.size]))
    keys.sort()
    return keys


def distinct(keys: Keys, scratch: Keys | None = None) -> Keys:
    """The distinct keys, sorted, in `keys` or in `scratch`. What else is in them afterwards is undefined."""
    if keys.size < 2:
        return keys
    keys = ordered(keys, 0, scratch)
    if keys.dtype == np.int64 and (loops := compiled.loops(keys.size)) is not None:
        return keys[: loops.distinct(keys)]
    fresh = keys[1:] != keys[:-1]
    if np.count_nonzero(fresh) == fresh.size:
        return keys
    keep = np.empty(keys.size, np.bool_)
    keep[0] = True
    keep[1:] = fresh
    return keys[keep]


def consolidate(keys: Keys, weights: Weights) -> tuple[Keys, Weights]:
    """Distinct sorted keys with the sums of their weights; keys whose weights cancel are dropped."""
    if not keys.size:
        return keys, weights
    order = np.argsort(keys, kind="stable")
    keys, weights = keys[order], weights[order].astype(np.int64, copy=False)
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    sums = added(weights, starts)
    keep = sums != 0
    return keys[starts][keep], sums[keep]


def added(weights: Weights, starts: Rows) -> Weights:
    """The sum of every stretch that begins at one of `starts`; raises `CapacityError` where one does not fit."""
    if magnitude(weights) * weights.size <= INT64_MAX:
        return np.asarray(np.add.reduceat(weights, starts, dtype=np.int64))
    return _exact(np.add.reduceat(weights.astype(object), starts))


def multiplied(weights: Weights, times: Column) -> Weights:
    """Weights, each a number of times; raises `CapacityError` where one does not fit."""
    if magnitude(weights) * magnitude(times) <= INT64_MAX:
        return weights * times
    return _exact(weights.astype(object) * times.astype(object))


def magnitude(weights: Weights) -> int:
    """The greatest absolute value."""
    return max(int(weights.max()), -int(weights.min())) if weights.size else 0


def _exact(numbers: NDArray[np.object_]) -> Weights:
    if not all(INT64_MIN <= number <= INT64_MAX for number in numbers):
        raise uncountable()
    return numbers.astype(np.int64)


def summed(keys: Keys, counts: Weights, bits: int) -> tuple[Keys, Weights]:
    """Distinct sorted keys with the sums of their counts, none of which is negative; `bits` is how many a key has.

    Where a key leaves room in its word for the count, the two are sorted as one number.
    """
    spare = 63 - bits
    if keys.dtype != np.int64 or spare < 1 or not keys.size or int(counts.max()) >> spare:
        return consolidate(keys, counts)
    both = keys << spare
    both |= counts
    keys, sums = totals(both, spare)
    return keys.copy(), sums.copy()


def totals(both: Keys, spare: int, scratch: Keys | None = None) -> tuple[Keys, Weights]:
    """Distinct sorted keys with the sums of their counts; a number has both, the count in its `spare` last bits.

    What they are in may be `both` and `scratch`.
    """
    if (loops := compiled.loops(both.size)) is not None:
        scratch = np.empty_like(both) if scratch is None else scratch[: both.size]
        sorted_ = np.asarray(loops.ordered(both, spare, scratch))
        sums = scratch if sorted_ is both else both
        size = loops.summed(sorted_, spare, sums)
        return sorted_[:size], sums[:size]
    both.sort()
    keys, counts = both >> spare, both & ((1 << spare) - 1)
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[starts], np.add.reduceat(counts, starts)


def tally(keys: Keys) -> tuple[Keys, Weights]:
    """Distinct sorted keys and how often each occurs. What is in `keys` afterwards is undefined."""
    if not keys.size:
        return keys, np.empty(0, np.int64)
    keys = ordered(keys)
    if keys.dtype == np.int64 and (loops := compiled.loops(keys.size)) is not None:
        counts = loops.tally(keys)
        return keys[: counts.size], counts
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[starts], np.diff(np.append(starts, keys.size))


def merge(left: Keys, right: Keys) -> Keys:
    """Two sorted arrays as one."""
    if left.dtype == np.int64 and (loops := compiled.loops(left.size + right.size)) is not None:
        return np.asarray(loops.merge(left, right))
    keys = np.concatenate((left, right))
    keys.sort()
    return keys


def group_starts(column: Column) -> Rows:
    """Where each stretch of equal values begins in a sorted column that is not empty."""
    return np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1])))
