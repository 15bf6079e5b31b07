"""The compiled loops: single passes that NumPy can only express as searches, sorts or several passes.

Imported by `compiled` alone, and only when worth it. Each has a NumPy twin in `join` or `run` that gives the same
answer; `tests/unit/kernel` holds them to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def _loop(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_loop
def distinct(keys: Ints) -> int:
    """Move the distinct values of a sorted array to its front; returns how many there are."""
    if keys.size == 0:
        return 0
    last = keys[0]
    n = 1
    for i in range(1, keys.size):
        key = keys[i]
        if key != last:
            keys[n] = key
            last = key
            n += 1
    return n


@_loop
def tally(keys: Ints) -> Ints:
    """Move the distinct values of a sorted array to its front; returns how often each occurs."""
    counts = np.empty(keys.size, np.int64)
    n = 0
    i = 0
    while i < keys.size:
        key = keys[i]
        begin = i
        i += 1
        while i < keys.size and keys[i] == key:
            i += 1
        keys[n] = key
        counts[n] = i - begin
        n += 1
    return counts[:n].copy()


@_loop
def summed(both: Ints, spare: int) -> tuple[Ints, Ints]:
    """The distinct values of sorted numbers without their `spare` last bits, and the sums of those bits."""
    keys = np.empty(both.size, np.int64)
    sums = np.empty(both.size, np.int64)
    mask = (np.int64(1) << spare) - 1
    n = -1
    last = np.int64(-1)
    for i in range(both.size):
        key = both[i] >> spare
        if key != last:
            n += 1
            last = key
            keys[n] = key
            sums[n] = 0
        sums[n] += both[i] & mask
    return keys[: n + 1].copy(), sums[: n + 1].copy()


@_loop
def merge(left: Ints, right: Ints) -> Ints:
    out = np.empty(left.size + right.size, np.int64)
    i = 0
    j = 0
    n = 0
    while i < left.size and j < right.size:
        a = left[i]
        b = right[j]
        take_left = a <= b
        out[n] = a if take_left else b
        i += take_left
        j += not take_left
        n += 1
    out[n : n + left.size - i] = left[i:]
    n += left.size - i
    out[n:] = right[j:]
    return out


@_loop
def without(left: Ints, right: Ints) -> Ints:
    """The values of one sorted array that are not in the other."""
    out = np.empty(left.size, np.int64)
    j = 0
    n = 0
    for i in range(left.size):
        key = left[i]
        while j < right.size and right[j] < key:
            j += 1
        if j == right.size or right[j] != key:
            out[n] = key
            n += 1
    return out[:n]


@_loop
def directory(keys: Ints, shift: int, buckets: int) -> NDArray[np.uint32]:
    """Where each stretch of keys with equal `key >> shift` begins."""
    starts = np.zeros(buckets + 1, np.uint32)
    for i in range(keys.size):
        starts[(keys[i] >> shift) + 1] += np.uint32(1)
    for bucket in range(buckets):
        starts[bucket + 1] += starts[bucket]
    return starts


@_loop
def _lower_bound(keys: Ints, starts: NDArray[np.uint32], shift: int, key: int) -> int:
    """The first position whose key is not below `key`."""
    bucket = key >> shift
    low = np.int64(starts[bucket])
    high = np.int64(starts[bucket + 1])
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return int(low)


@_loop
def member(keys: Ints, starts: NDArray[np.uint32], shift: int, probes: Ints) -> NDArray[np.bool_]:
    found = np.zeros(probes.size, np.bool_)
    for i in range(probes.size):
        at = _lower_bound(keys, starts, shift, probes[i])
        found[i] = at < keys.size and keys[at] == probes[i]
    return found


@_loop
def find(keys: Ints, starts: NDArray[np.uint32], shift: int, probes: Ints) -> Ints:
    found = np.empty(probes.size, np.int64)
    for i in range(probes.size):
        at = _lower_bound(keys, starts, shift, probes[i])
        found[i] = at if at < keys.size and keys[at] == probes[i] else -1
    return found


@_loop
def ranges(keys: Ints, starts: NDArray[np.uint32], shift: int, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    begins = np.empty(low.size, np.int64)
    ends = np.empty(low.size, np.int64)
    for i in range(low.size):
        at = _lower_bound(keys, starts, shift, low[i])
        begins[i] = at
        last = high[i]
        if at < keys.size and keys[at] <= last:
            # Most ranges are short: look a few keys ahead before searching.
            stop = min(at + 8, keys.size)
            at += 1
            while at < stop and keys[at] <= last:
                at += 1
            if at == stop and at < keys.size and keys[at] <= last:
                at = _lower_bound(keys, starts, shift, last)
                if at < keys.size and keys[at] == last:
                    at += 1
        ends[i] = at
    return begins, ends


@_loop
def expand(keys: Ints, begins: Ints, ends: Ints, total: int) -> tuple[Ints, Ints]:
    """For every range, its row number and the keys in it."""
    rows = np.empty(total, np.int64)
    found = np.empty(total, np.int64)
    n = 0
    for i in range(begins.size):
        for position in range(begins[i], ends[i]):
            rows[n] = i
            found[n] = keys[position]
            n += 1
    return rows, found


@_loop
def reach(starts: Ints, heads: Ints, sources: Ints) -> tuple[Ints, Ints]:
    """The (position of the source, node) pairs that nonempty paths from the sources make.

    The edges of node i are `heads[starts[i]:starts[i + 1]]`.
    """
    seen = np.full(starts.size - 1, -1, np.int64)
    size = 1024
    rows = np.empty(size, np.int64)
    found = np.empty(size, np.int64)
    n = 0
    for i in range(sources.size):
        at = n
        node = sources[i]
        while True:
            for position in range(starts[node], starts[node + 1]):
                head = heads[position]
                if seen[head] != i:
                    seen[head] = i
                    if n == size:
                        size *= 2
                        longer = np.empty(size, np.int64)
                        longer[:n] = rows
                        rows = longer
                        longer = np.empty(size, np.int64)
                        longer[:n] = found
                        found = longer
                    rows[n] = i
                    found[n] = head
                    n += 1
            if at == n:
                break
            node = found[at]
            at += 1
    return rows[:n], found[:n]


def warm() -> None:
    """Compile or load every loop for the types it is called with."""
    one = np.ones(1, np.int64)
    starts = directory(one, 0, 2)
    distinct(one)
    tally(one)
    summed(one, 1)
    merge(one, one)
    without(one, one)
    member(one, starts, 0, one)
    find(one, starts, 0, one)
    ranges(one, starts, 0, one, one)
    expand(one, one, one, 0)
    reach(np.array([0, 1]), one - one, one - one)
