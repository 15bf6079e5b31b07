"""The compiled loops: single passes that NumPy can only express as searches, sorts or several passes.

Each is a function as C has them: an array comes as the address of its first element, with its size where that is
needed, results go into arrays of the caller, and nothing is allocated. So the machine code that Numba makes of them
runs without Numba; `object_code` keeps it in a file, and imports this file only to make it. `CompiledLoops` has the
faces that the rest of the kernel sees. Each loop has a NumPy twin in `join` or `run` that gives the same answer;
`tests/unit/kernel` holds them to it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Small = NDArray[np.uint32]
Bits = NDArray[np.uint8]

# All that others can call, by name. Arguments are `Ints`, `Small`, `Bits` and numbers, and all return a number.
LOOPS: dict[str, Callable[..., int]] = {}


def _loop(function: Callable[..., int]) -> Callable[..., int]:
    LOOPS[function.__name__] = function
    return function


@_loop
def ordered(keys: Ints, size: int, other: Ints, low: int, places: Ints, most_bits: int) -> int:
    """Sort numbers by all but their `low` last bits; returns 0 if they are in `keys` then, 1 if they are in `other`.

    Digit by digit, the last first; digits that are the same in all numbers are left out. A digit has at most
    `most_bits` bits, and `places` has a place for each value of one.
    """
    if size < 2:
        return 0
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
        return 0
    # Where signs differ, the last digit has it the other way round.
    sign = np.int64(-1) << 63 if varying < 0 else np.int64(0)
    bits = 64
    while bits > low and not (varying >> (bits - 1)) & 1:
        bits -= 1
    passes = (bits - low + most_bits - 1) // most_bits
    width = (bits - low + passes - 1) // passes
    mask = (np.int64(1) << width) - 1
    swapped = 0
    for shift in range(low, bits, width):
        if not (varying >> shift) & mask:
            continue
        for digit in range(mask + 1):
            places[digit] = 0
        for i in range(size):
            places[((keys[i] ^ sign) >> shift) & mask] += 1
        place = np.int64(0)
        for digit in range(mask + 1):
            count = places[digit]
            places[digit] = place
            place += count
        for i in range(size):
            key = keys[i]
            digit = ((key ^ sign) >> shift) & mask
            other[places[digit]] = key
            places[digit] += 1
        keys, other = other, keys
        swapped = 1 - swapped
    return swapped


@_loop
def distinct(keys: Ints, size: int) -> int:
    """Move the distinct values of a sorted array to its front; returns how many there are."""
    if size == 0:
        return 0
    last = keys[0]
    n = 1
    for i in range(1, size):
        key = keys[i]
        if key != last:
            keys[n] = key
            last = key
            n += 1
    return n


@_loop
def tally(keys: Ints, size: int, counts: Ints) -> int:
    """Move the distinct values of a sorted array to its front, and to `counts` how often each occurs.

    Returns how many there are.
    """
    n = 0
    i = 0
    while i < size:
        key = keys[i]
        begin = i
        i += 1
        while i < size and keys[i] == key:
            i += 1
        keys[n] = key
        counts[n] = i - begin
        n += 1
    return n


@_loop
def summed(both: Ints, size: int, spare: int, sums: Ints) -> int:
    """Move the distinct values of sorted numbers without their `spare` last bits to the front; returns how many.

    `sums` gets the sums of those bits.
    """
    mask = (np.int64(1) << spare) - 1
    n = -1
    last = np.int64(-1)
    for i in range(size):
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
def merge(left: Ints, left_size: int, right: Ints, right_size: int, out: Ints) -> int:
    """Two sorted arrays as one."""
    i = 0
    j = 0
    n = 0
    while i < left_size and j < right_size:
        a = left[i]
        b = right[j]
        take_left = a <= b
        out[n] = a if take_left else b
        i += take_left
        j += not take_left
        n += 1
    while i < left_size:
        out[n] = left[i]
        i += 1
        n += 1
    while j < right_size:
        out[n] = right[j]
        j += 1
        n += 1
    return n


@_loop
def without(left: Ints, left_size: int, right: Ints, right_size: int, out: Ints) -> int:
    """The values of one sorted array that are not in the other; returns how many. `out` may be `left`."""
    j = 0
    n = 0
    for i in range(left_size):
        key = left[i]
        while j < right_size and right[j] < key:
            j += 1
        if j == right_size or right[j] != key:
            out[n] = key
            n += 1
    return n


@njit(error_model="numpy")
def _reached(keys: Ints, at: int, size: int, key: int) -> int:
    """The first position from `at` on whose key is not below `key`, by steps of growing length."""
    if at == size or keys[at] >= key:
        return at
    # keys[at] is below the key, and keys[stop] is not, or stop is the end.
    step = np.int64(1)
    stop = at + 1
    while stop < size and keys[stop] < key:
        at = stop
        step += step
        stop = min(at + step, size)
    at += 1
    while at < stop:
        middle = (at + stop) >> 1
        if keys[middle] < key:
            at = middle + 1
        else:
            stop = middle
    return at


@_loop
def unknown(keys: Ints, counts: Ints, counted: int, size: int, other: Ints, other_size: int) -> int:
    """Move the values of a sorted array that are not in the other to its front; returns how many there are.

    Their `counts` move with them, if there are any. What is much longer is not read as a whole.
    """
    j = np.int64(0)
    n = 0
    for i in range(size):
        key = keys[i]
        j = _reached(other, j, other_size, key)
        if j == other_size or other[j] != key:
            keys[n] = key
            if counted:
                counts[n] = counts[i]
            n += 1
    return n


@_loop
def lodged(keys: Ints, size: int, sums: Ints, other: Ints, other_size: int, numbers: Ints) -> int:
    """Add numbers of sorted distinct keys, `other`, to the sums of sorted distinct keys; returns how many both have.

    On both sides it takes steps of growing length, so that the longer one is not read as a whole.
    """
    i = np.int64(0)
    j = np.int64(0)
    hits = 0
    while i < size and j < other_size:
        key = other[j]
        i = _reached(keys, i, size, key)
        if i == size:
            break
        if keys[i] == key:
            sums[i] += numbers[j]
            hits += 1
            i += 1
            j += 1
        else:
            j = _reached(other, j, other_size, keys[i])
    return hits


@_loop
def directory(keys: Ints, size: int, shift: int, starts: Small, buckets: int) -> int:
    """Where each stretch of keys with equal `key >> shift` begins: one more number than there are buckets."""
    for bucket in range(buckets + 1):
        starts[bucket] = np.uint32(0)
    for i in range(size):
        starts[(keys[i] >> shift) + 1] += np.uint32(1)
    for bucket in range(buckets):
        starts[bucket + 1] += starts[bucket]
    return 0


@njit(error_model="numpy")
def _lower_bound(keys: Ints, starts: Small, shift: int, key: int) -> int:
    """The first position whose key is not below `key`, which the directory must reach: `most` is the greatest such."""
    bucket = key >> shift
    low = np.int64(starts[bucket])
    high = np.int64(starts[bucket + 1])
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low  # type: ignore[return-value]


@_loop
def member(keys: Ints, size: int, starts: Small, shift: int, most: int, probes: Ints, count: int, found: Bits) -> int:
    """Which probes occur; returns how many."""
    hits = 0
    for i in range(count):
        key = min(probes[i], most)
        at = _lower_bound(keys, starts, shift, key)
        hit = at < size and keys[at] == key
        found[i] = np.uint8(hit)
        hits += hit
    return hits


@_loop
def find(keys: Ints, size: int, starts: Small, shift: int, most: int, probes: Ints, count: int, found: Ints) -> int:
    """The position of each probe, -1 for those that do not occur."""
    for i in range(count):
        key = min(probes[i], most)
        at = _lower_bound(keys, starts, shift, key)
        found[i] = at if at < size and keys[at] == key else -1
    return 0


@_loop
def ranges(
    keys: Ints,
    size: int,
    starts: Small,
    shift: int,
    most: int,
    low: Ints,
    high: Ints,
    count: int,
    begins: Ints,
    ends: Ints,
) -> int:
    """For every pair of bounds, the positions `begin:end` of the keys within them."""
    for i in range(count):
        at = _lower_bound(keys, starts, shift, min(low[i], most))
        begins[i] = at
        last = min(high[i], most)
        if at < size and keys[at] <= last:
            # Most ranges are short: look a few keys ahead before searching.
            stop = min(at + 8, size)
            at += 1
            while at < stop and keys[at] <= last:
                at += 1
            if at == stop and at < size and keys[at] <= last:
                at = _lower_bound(keys, starts, shift, last)
                if at < size and keys[at] == last:
                    at += 1
        ends[i] = at
    return 0


@_loop
def expand(keys: Ints, begins: Ints, ends: Ints, count: int, rows: Ints, found: Ints) -> int:
    """For every range, its row number and the keys in it; returns how many."""
    n = 0
    for i in range(count):
        for position in range(begins[i], ends[i]):
            rows[n] = i
            found[n] = keys[position]
            n += 1
    return n


@_loop
def sift(
    keys: Ints, begins: Ints, ends: Ints, count: int, shift: int, mask: int, marks: Bits, rows: Ints, found: Ints
) -> int:
    """As `expand`, of the keys alone whose `(key >> shift) & mask` is marked; `rows` and `found` have a spare place."""
    n = 0
    for i in range(count):
        for position in range(begins[i], ends[i]):
            key = keys[position]
            rows[n] = i
            found[n] = key
            n += marks[(key >> shift) & mask]
    return n


@_loop
def reach(
    starts: Ints,
    heads: Ints,
    nodes: int,
    sources: Ints,
    count: int,
    seen: Ints,
    rows: Ints,
    found: Ints,
    room: int,
    state: Ints,
) -> int:
    """The (position of the source, node) pairs that nonempty paths from the sources make; returns how many are done.

    The edges of node i are `heads[starts[i]:starts[i + 1]]`. `seen` has the last source for every node, -1 at first.
    `state` has how many sources are done, and the number of pairs. Ends where the next source might not find room.
    """
    i, n = state[0], state[1]
    while i < count and room - n >= nodes:
        at = n
        node = sources[i]
        while True:
            for position in range(starts[node], starts[node + 1]):
                head = heads[position]
                if seen[head] != i:
                    seen[head] = i
                    rows[n] = i
                    found[n] = head
                    n += 1
            if at == n:
                break
            node = found[at]
            at += 1
        i += 1
    state[0], state[1] = i, n
    return i


@_loop
def gather(
    base: Ints,
    count: int,
    weights: Ints,
    one_weight: int,
    keys: Ints,
    begins: Ints,
    ends: Ints,
    shifts: Ints,
    masks: Ints,
    places: Ints,
    moves: int,
    slots: Ints,
    slot_bits: int,
    counts: Ints,
    used: Ints,
    most_used: int,
    state: Ints,
    most: int,
) -> int:
    """Count the keys that rows and the keys in their ranges make, see `gather.Recipe`; 0 when there is more to do.

    `slots` has the keys by their hash, -1 for none, `used` the places in it that have one. `state` has how many there
    are, the row, and the position in its range.
    """
    n, row, position = state[0], state[1], state[2]
    last = (np.int64(1) << slot_bits) - 1
    away = np.uint64(64 - slot_bits)
    shift, mask, place = shifts[0], masks[0], places[0]
    done = np.int64(0)
    while row < count:
        first = base[row]
        weight = weights[0] if one_weight else weights[row]
        if position < 0:
            position = begins[row]
        stop = min(ends[row], position + most - done)
        done += stop - position
        while position < stop:
            if n == most_used:
                state[0], state[1], state[2] = n, row, position
                return 0
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
            return 0
        row += 1
        position = np.int64(-1)
    state[0], state[1], state[2] = n, row, position
    return 1


@_loop
def pour(
    base: Ints,
    count: int,
    weights: Ints,
    one_weight: int,
    keys: Ints,
    begins: Ints,
    ends: Ints,
    shifts: Ints,
    masks: Ints,
    places: Ints,
    moves: int,
    spare: int,
    words: Ints,
    size: int,
    state: Ints,
) -> int:
    """Write the keys that `gather` would count one after the other, with their weights in `spare` bits behind them.

    `state` is as in `gather`; 0 when `words` are full and there is more to do.
    """
    n, row, position = state[0], state[1], state[2]
    shift, mask, place = shifts[0], masks[0], places[0]
    while row < count:
        first = base[row]
        weight = weights[0] if one_weight else weights[row]
        if spare == 0:
            weight = np.int64(0)
        if position < 0:
            position = begins[row]
        stop = min(ends[row], position + size - n)
        for at in range(position, stop):
            found = keys[at]
            key = first + (((found >> shift) & mask) << place)
            for move in range(1, moves):
                key += ((found >> shifts[move]) & masks[move]) << places[move]
            words[n] = (key << spare) | weight
            n += 1
        if stop < ends[row]:
            state[0], state[1], state[2] = n, row, stop
            return 0
        row += 1
        position = np.int64(-1)
    state[0], state[1], state[2] = n, row, position
    return 1


# ------------------------------------------------------------------------------------------------------ texts


@njit(error_model="numpy", inline="always")
def _word(data: Bits, at: int) -> int:
    """Eight bytes as a number; LLVM makes one load of it."""
    low = np.uint64(data[at]) | (np.uint64(data[at + 1]) << np.uint64(8))
    low |= (np.uint64(data[at + 2]) << np.uint64(16)) | (np.uint64(data[at + 3]) << np.uint64(24))
    high = np.uint64(data[at + 4]) | (np.uint64(data[at + 5]) << np.uint64(8))
    high |= (np.uint64(data[at + 6]) << np.uint64(16)) | (np.uint64(data[at + 7]) << np.uint64(24))
    return low | (high << np.uint64(32))  # type: ignore[return-value]


@njit(error_model="numpy", inline="always")
def _alike(left: Bits, left_at: int, right: Bits, right_at: int, size: int) -> bool:
    """Whether two stretches of bytes are equal."""
    at = np.int64(0)
    while at + 8 <= size:
        if _word(left, left_at + at) != _word(right, right_at + at):
            return False
        at += 8
    while at < size:
        if left[left_at + at] != right[right_at + at]:
            return False
        at += 1
    return True


@njit(error_model="numpy", inline="always")
def _hash(data: Bits, begin: int, size: int) -> int:
    """A number of 64 bits that says little of the text it was made of."""
    factor = np.uint64(0x9E3779B97F4A7C15)
    found = np.uint64(size) * factor
    at, stop = begin, begin + size
    while at + 8 <= stop:
        found = (found ^ np.uint64(_word(data, at))) * factor
        found ^= found >> np.uint64(29)
        at += 8
    rest = np.uint64(0)
    while at < stop:
        rest = (rest << np.uint64(8)) | np.uint64(data[at])
        at += 1
    found = (found ^ rest) * factor
    found = (found ^ (found >> np.uint64(32))) * factor
    return np.int64(found ^ (found >> np.uint64(29)))  # type: ignore[return-value]


@_loop
def intern(
    data: Bits,
    ends: Small,
    count: int,
    slots: Ints,
    slot_bits: int,
    hashes: Ints,
    most: int,
    pool: Bits,
    room: int,
    starts: Ints,
    codes: Small,
    state: Ints,
    ahead: Ints,
    block: int,
) -> int:
    """The code of each text `data[ends[i]:ends[i + 1]]`; texts without one get the next, and go to the `pool`.

    Text `c` of the pool is `pool[starts[c]:starts[c + 1]]`, and its hash `hashes[c]`. A slot has a code plus one, and
    above it half of the hash; 0 is free. `state` has the texts that are done, and how many codes there are. Returns 0
    where a new text has no room: more than `most` codes, or `room` bytes.

    Slots, starts and texts lie far apart. So those of some texts are looked at before the first is needed, when no one
    waits for the other: memory brings them together. `ahead` has room for the hashes of these and what was found.
    """
    i, known = state[0], state[1]
    last = (np.int64(1) << slot_bits) - 1
    low = np.int64(0xFFFFFFFF)
    # Neighbors in a column are often the same.
    before, before_size, before_code = np.int64(0), np.int64(-1), np.uint32(0)
    while i < count:
        some = min(block, count - i)
        begin_before, size_before = before, before_size
        for n in range(some):
            begin = np.int64(ends[i + n])
            size = np.int64(ends[i + n + 1]) - begin
            ahead[block + n] = -1
            if size != size_before or not _alike(data, begin, data, begin_before, size):
                hashed = np.int64(_hash(data, begin, size))
                ahead[n] = hashed
                ahead[block + n] = slots[hashed & last]
            begin_before, size_before = begin, size
        seen = np.int64(0)
        for n in range(some):
            slot = ahead[block + n]
            if slot > 0 or slot < -1:
                seen ^= starts[slot & low]
        for n in range(some):
            slot = ahead[block + n]
            if slot > 0 or slot < -1:
                # An empty text may begin where the pool ends.
                seen ^= np.int64(pool[min(starts[(slot & low) - 1], room - 1)])
        ahead[2 * block] = seen  # or the compiler would leave it all out
        for n in range(some):
            begin = np.int64(ends[i + n])
            size = np.int64(ends[i + n + 1]) - begin
            if ahead[block + n] != -1:
                hashed = ahead[n]
                mark = hashed & ~low
                at = hashed & last
                code = np.int64(-1)
                while slots[at] != 0:
                    slot = slots[at]
                    if slot & ~low == mark:
                        other = (slot & low) - 1
                        if starts[other + 1] - starts[other] == size and _alike(pool, starts[other], data, begin, size):
                            code = other
                            break
                    at = (at + 1) & last
                if code < 0:
                    first = starts[known]
                    if known == most or first + size > room:
                        state[0], state[1] = i + n, known
                        return 0
                    code = known
                    slots[at] = mark | (known + 1)
                    hashes[known] = hashed
                    for byte in range(size):
                        pool[first + byte] = data[begin + byte]
                    known += 1
                    starts[known] = first + size
                before, before_size, before_code = begin, size, np.uint32(code)
            codes[i + n] = before_code
        i += some
    state[0], state[1] = i, known
    return 1


@_loop
def placed(hashes: Ints, count: int, slots: Ints, slot_bits: int) -> int:
    """Put codes into slots that are free, see `intern`."""
    last = (np.int64(1) << slot_bits) - 1
    for code in range(count):
        at = hashes[code] & last
        while slots[at] != 0:
            at = (at + 1) & last
        slots[at] = (hashes[code] & ~np.int64(0xFFFFFFFF)) | (code + 1)
    return 0


@_loop
def lines(
    codes: Ints,
    rows: int,
    columns: int,
    kinds: Ints,
    pool: Bits,
    starts: Ints,
    inside: int,
    others: Bits,
    other_starts: Ints,
    delimiter: Bits,
    width: int,
    out: Bits,
    room: int,
    state: Ints,
) -> int:
    """Write rows as lines: value `i` of column `c` is `codes[c * rows + i]`, between two stand `width` bytes.

    The kind of a column is 0 for signed numbers, 1 for unsigned ones, 2 for texts. Text `c` is
    `pool[starts[c]:starts[c + 1]]` where `c` is less than `inside`, and after these come the others. `state` has the
    rows that are done. Returns how many bytes were written; rows are left where the next may not fit into the `room`.
    """
    row, at = state[0], np.int64(0)
    ten, zero = np.uint64(10), np.uint64(0)
    while row < rows:
        # A number has twenty characters at most.
        needed = columns * (width + 20) + 1
        for column in range(columns):
            if kinds[column] == 2:
                code = codes[column * rows + row]
                if code < inside:
                    needed += starts[code + 1] - starts[code]
                else:
                    needed += other_starts[code - inside + 1] - other_starts[code - inside]
        if at + needed > room:
            break
        for column in range(columns):
            if column:
                for byte in range(width):
                    out[at + byte] = delimiter[byte]
                at += width
            code = codes[column * rows + row]
            if kinds[column] == 2:
                if code < inside:
                    begin = starts[code]
                    size = starts[code + 1] - begin
                    for byte in range(size):
                        out[at + byte] = pool[begin + byte]
                else:
                    begin = other_starts[code - inside]
                    size = other_starts[code - inside + 1] - begin
                    for byte in range(size):
                        out[at + byte] = others[begin + byte]
                at += size
                continue
            left = np.uint64(code)
            if kinds[column] == 0 and code < 0:
                out[at] = np.uint8(45)
                at += 1
                left = zero - left
            digits, rest = np.int64(1), left // ten
            while rest > zero:
                digits += 1
                rest //= ten
            at += digits
            for place in range(digits):
                out[at - 1 - place] = np.uint8(left % ten) + np.uint8(48)
                left //= ten
        out[at] = np.uint8(10)
        at += 1
        row += 1
    state[0] = row
    return at
