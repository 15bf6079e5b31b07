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


# The digits that `ordered` sorts by have at most so many bits: there are as many places to write to at a time.
DIGIT_BITS = 10


@_loop
def ordered(keys: Ints, low: int, other: Ints) -> Ints:
    """Numbers sorted by all but their `low` last bits: in `keys` itself, or in another array of its size.

    Digit by digit, the last first; digits that are the same in all numbers are left out.
    """
    size = keys.size
    if size < 2:
        return keys
    first = keys[0]
    last = first >> low
    varying = np.int64(0)
    is_sorted = True
    for i in range(size):
        key = keys[i]
        varying |= key ^ first
        key >>= low
        is_sorted &= last <= key
        last = key
    if is_sorted:
        return keys
    # Where signs differ, the last digit has it the other way round.
    sign = np.int64(-1) << 63 if varying < 0 else np.int64(0)
    bits = 64
    while bits > low and not (varying >> (bits - 1)) & 1:
        bits -= 1
    passes = (bits - low + DIGIT_BITS - 1) // DIGIT_BITS
    width = (bits - low + passes - 1) // passes
    mask = (np.int64(1) << width) - 1
    places = np.empty(1 << width, np.int64)
    for shift in range(low, bits, width):
        if not (varying >> shift) & mask:
            continue
        places[:] = 0
        for i in range(size):
            places[((keys[i] ^ sign) >> shift) & mask] += 1
        place = 0
        for digit in range(places.size):
            count = places[digit]
            places[digit] = place
            place += count
        for i in range(size):
            key = keys[i]
            digit = ((key ^ sign) >> shift) & mask
            other[places[digit]] = key
            places[digit] += 1
        keys, other = other, keys
    return keys


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
def summed(both: Ints, spare: int, sums: Ints) -> int:
    """Move the distinct values of sorted numbers without their `spare` last bits to the front; returns how many.

    `sums` gets the sums of those bits.
    """
    mask = (np.int64(1) << spare) - 1
    n = -1
    last = np.int64(-1)
    for i in range(both.size):
        key = both[i] >> spare
        count = both[i] & mask
        if key != last:
            n += 1
            last = key
            both[n] = key
            sums[n] = count
        else:
            sums[n] += count
    return n + 1


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


@_loop
def gather(
    base: Ints,
    weights: Ints,
    keys: Ints,
    begins: Ints,
    ends: Ints,
    shifts: Ints,
    masks: Ints,
    places: Ints,
    slots: Ints,
    counts: Ints,
    used: Ints,
    state: Ints,
    most: int,
) -> bool:
    """Count the keys that rows and the keys in their ranges make, see `gather.Recipe`; False when there is more to do.

    `slots` has the keys by their hash, -1 for none, `used` the places in it that have one. `state` has how many there
    are, the row, and the position in its range.
    """
    n, row, position = state[0], state[1], state[2]
    last = np.int64(slots.size - 1)
    away = np.uint64(64)
    while (np.int64(1) << (np.int64(64) - np.int64(away))) <= last:
        away -= np.uint64(1)
    one_weight = weights.size == 1
    moves = shifts.size
    shift, mask, place = shifts[0], masks[0], places[0]
    done = 0
    while row < begins.size:
        first = base[row]
        weight = weights[0] if one_weight else weights[row]
        if position < 0:
            position = begins[row]
        stop = min(ends[row], position + most - done)
        done += stop - position
        while position < stop:
            if n == used.size:
                state[0], state[1], state[2] = n, row, position
                return False
            found = keys[position]
            key = first + (((found >> shift) & mask) << place)
            for move in range(1, moves):
                key += ((found >> shifts[move]) & masks[move]) << places[move]
            at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> away)
            while True:
                slot = slots[at]
                if slot == key:
                    counts[at] += weight
                    break
                if slot == -1:
                    slots[at] = key
                    counts[at] = weight
                    used[n] = at
                    n += 1
                    break
                at = (at + 1) & last
            position += 1
        if position < ends[row]:
            state[0], state[1], state[2] = n, row, position
            return False
        row += 1
        position = np.int64(-1)
    state[0], state[1], state[2] = n, row, position
    return True


@_loop
def pour(
    base: Ints,
    weights: Ints,
    keys: Ints,
    begins: Ints,
    ends: Ints,
    shifts: Ints,
    masks: Ints,
    places: Ints,
    spare: int,
    words: Ints,
    state: Ints,
) -> bool:
    """Write the keys that `gather` would count one after the other, with their weights in `spare` bits behind them.

    `state` is as in `gather`; False when `words` are full and there is more to do.
    """
    n, row, position = state[0], state[1], state[2]
    one_weight = weights.size == 1
    moves = shifts.size
    shift, mask, place = shifts[0], masks[0], places[0]
    while row < begins.size:
        first = base[row]
        weight = weights[0] if one_weight else weights[row]
        if spare == 0:
            weight = np.int64(0)
        if position < 0:
            position = begins[row]
        stop = min(ends[row], position + words.size - n)
        for at in range(position, stop):
            found = keys[at]
            key = first + (((found >> shift) & mask) << place)
            for move in range(1, moves):
                key += ((found >> shifts[move]) & masks[move]) << places[move]
            words[n] = (key << spare) | weight
            n += 1
        if stop < ends[row]:
            state[0], state[1], state[2] = n, row, stop
            return False
        row += 1
        position = np.int64(-1)
    state[0], state[1], state[2] = n, row, position
    return True


def warm() -> None:
    """Compile or load every loop for the types it is called with."""
    one = np.ones(1, np.int64)
    starts = directory(one, 0, 2)
    ordered(one, 0, one.copy())
    distinct(one)
    tally(one)
    summed(one.copy(), 1, one.copy())
    merge(one, one)
    without(one, one)
    member(one, starts, 0, one)
    find(one, starts, 0, one)
    ranges(one, starts, 0, one, one)
    expand(one, one, one, 0)
    reach(np.array([0, 1]), one - one, one - one)
    gather(one, one, one, one - one, one - one, one, one, one, one - 2, one.copy(), one.copy(), one - one, 1)
    pour(one, one, one, one - one, one - one, one, one, one, 0, one.copy(), one - one)
