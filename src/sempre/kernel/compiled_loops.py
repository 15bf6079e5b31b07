"""The faces of the compiled loops: arrays in, arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sempre.kernel import object_code

Ints = NDArray[np.int64]
Small = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

# The digits that `ordered` sorts by have at most so many bits: there are as many places to write to at a time.
DIGIT_BITS = 10

# Texts whose places in the table are looked at together.
AHEAD = 32


class CompiledLoops:
    """The loops of `loops.py`, given as functions of addresses and numbers."""

    def __init__(self, functions: object_code.Functions) -> None:
        self._functions = functions

    @staticmethod
    def kept() -> CompiledLoops | None:
        """If they were compiled before."""
        functions = object_code.kept()
        return None if functions is None else CompiledLoops(functions)

    @staticmethod
    def made() -> CompiledLoops:
        """Compiled now, which takes seconds."""
        return CompiledLoops(object_code.made())

    def ordered(self, keys: Ints, low: int, other: Ints) -> Ints:
        """Numbers sorted by all but their `low` last bits: in `keys` itself, or in `other`, which has its size."""
        places = np.empty(1 << DIGIT_BITS, np.int64)
        swapped = self._functions["ordered"](_to(keys), keys.size, _to(other), low, _to(places), DIGIT_BITS)
        return other if swapped else keys

    def distinct(self, keys: Ints) -> int:
        """Move the distinct values of a sorted array to its front; returns how many there are."""
        return self._functions["distinct"](_to(keys), keys.size)

    def tally(self, keys: Ints) -> Ints:
        """Move the distinct values of a sorted array to its front; returns how often each occurs."""
        counts = np.empty(keys.size, np.int64)
        return counts[: self._functions["tally"](_to(keys), keys.size, _to(counts))].copy()

    def summed(self, both: Ints, spare: int, sums: Ints) -> int:
        """Move the distinct values of sorted numbers without their `spare` last bits to the front; returns how many."""
        return self._functions["summed"](_to(both), both.size, spare, _to(sums))

    def merge(self, left: Ints, right: Ints) -> Ints:
        """Two sorted arrays as one."""
        left, right, out = _ints(left), _ints(right), np.empty(left.size + right.size, np.int64)
        self._functions["merge"](_at(left), left.size, _at(right), right.size, _at(out))
        return out

    def without(self, left: Ints, right: Ints) -> Ints:
        """The values of one sorted array that are not in the other."""
        left, right, out = _ints(left), _ints(right), np.empty(left.size, np.int64)
        return out[: self._functions["without"](_at(left), left.size, _at(right), right.size, _at(out))]

    def unknown(self, keys: Ints, counts: Ints, other: Ints) -> int:
        """Move the values of a sorted array that are not in the other to its front, and their counts, if there are any.

        Returns how many there are.
        """
        other = _ints(other)
        mine = (_to(keys), _to(counts), int(counts.size > 0), keys.size)
        return self._functions["unknown"](*mine, _at(other), other.size)

    def lodged(self, keys: Ints, sums: Ints, other: Ints, numbers: Ints) -> None:
        """Add the numbers of sorted distinct keys to the sums of those of them that occur."""
        keys, other, numbers = _ints(keys), _ints(other), _ints(numbers)
        sides = (_at(keys), keys.size, _to(sums), _at(other), other.size)
        self._functions["lodged"](*sides, _at(numbers))

    def directory(self, keys: Ints, shift: int, buckets: int) -> NDArray[np.uint32]:
        """Where each stretch of keys with equal `key >> shift` begins."""
        keys, starts = _ints(keys), np.empty(buckets + 1, np.uint32)
        self._functions["directory"](_at(keys), keys.size, shift, _at(starts), buckets)
        return starts

    def member(self, keys: Ints, starts: NDArray[np.uint32], shift: int, most: int, probes: Ints) -> NDArray[np.bool_]:
        """Which probes occur."""
        keys, probes, found = _ints(keys), _ints(probes), np.empty(probes.size, np.bool_)
        self._functions["member"](*_indexed(keys, starts, shift, most), _at(probes), probes.size, _at(found))
        return found

    def find(self, keys: Ints, starts: NDArray[np.uint32], shift: int, most: int, probes: Ints) -> Ints:
        """The position of each probe, -1 for those that do not occur."""
        keys, probes, found = _ints(keys), _ints(probes), np.empty(probes.size, np.int64)
        self._functions["find"](*_indexed(keys, starts, shift, most), _at(probes), probes.size, _at(found))
        return found

    def ranges(
        self, keys: Ints, starts: NDArray[np.uint32], shift: int, most: int, low: Ints, high: Ints
    ) -> tuple[Ints, Ints]:
        """For every pair of bounds, the positions `begin:end` of the keys within them."""
        keys, low, high = _ints(keys), _ints(low), _ints(high)
        begins, ends = np.empty(low.size, np.int64), np.empty(low.size, np.int64)
        bounds = (_at(low), _at(high), low.size, _at(begins), _at(ends))
        self._functions["ranges"](*_indexed(keys, starts, shift, most), *bounds)
        return begins, ends

    def expand(self, keys: Ints, begins: Ints, ends: Ints, total: int) -> tuple[Ints, Ints]:
        """For every range, its row number and the keys in it."""
        keys, begins, ends = _ints(keys), _ints(begins), _ints(ends)
        rows, found = np.empty(total, np.int64), np.empty(total, np.int64)
        self._functions["expand"](_at(keys), _at(begins), _at(ends), begins.size, _at(rows), _at(found))
        return rows, found

    def sift(
        self, keys: Ints, begins: Ints, ends: Ints, total: int, shift: int, mask: int, marks: Bytes
    ) -> tuple[Ints, Ints]:
        """For every range, its row number and those keys in it whose bits at `shift` are marked."""
        keys, begins, ends = _ints(keys), _ints(begins), _ints(ends)
        rows, found = np.empty(total + 1, np.int64), np.empty(total + 1, np.int64)
        ranges = (_at(keys), _at(begins), _at(ends), begins.size)
        size = self._functions["sift"](*ranges, shift, mask, _at(marks), _at(rows), _at(found))
        return rows[:size], found[:size]

    def reach(self, starts: Ints, heads: Ints, sources: Ints) -> tuple[Ints, Ints]:
        """The (position of the source, node) pairs that nonempty paths from the sources make."""
        starts, heads, sources = _ints(starts), _ints(heads), _ints(sources)
        nodes = starts.size - 1
        seen, state = np.full(nodes, -1, np.int64), np.zeros(2, np.int64)
        graph = (_at(starts), _at(heads), nodes, _at(sources), sources.size, _at(seen))
        rows, found = np.empty(2 * nodes, np.int64), np.empty(2 * nodes, np.int64)
        while self._functions["reach"](*graph, _at(rows), _at(found), rows.size, _at(state)) < sources.size:
            rows, found = _longer(rows), _longer(found)
        return rows[: state[1]], found[: state[1]]

    def gather(
        self, base: Ints, weights: Ints, keys: Ints, begins: Ints, ends: Ints, shifts: Ints, masks: Ints, places: Ints,
        slots: Ints, counts: Ints, used: Ints, state: Ints, most: int,
    ) -> bool:  # fmt: skip
        """Count the keys that a join makes in a table; False when there is more to do. See the loop."""
        join = [_ints(each) for each in (base, weights, keys, begins, ends, shifts, masks, places)]
        table = (_to(slots), slots.size.bit_length() - 1, _to(counts), _to(used), used.size, _to(state), most)
        return self._functions["gather"](*_addresses(join), *table) == 1

    def pour(
        self, base: Ints, weights: Ints, keys: Ints, begins: Ints, ends: Ints, shifts: Ints, masks: Ints, places: Ints,
        spare: int, words: Ints, state: Ints,
    ) -> bool:  # fmt: skip
        """Write the keys that a join makes to `words`; False when there is more to do. See the loop."""
        join = [_ints(each) for each in (base, weights, keys, begins, ends, shifts, masks, places)]
        return self._functions["pour"](*_addresses(join), spare, _to(words), words.size, _to(state)) == 1

    def intern(
        self, data: Bytes, ends: Small, slots: Ints, hashes: Ints, pool: Bytes, starts: Ints, codes: Small, state: Ints
    ) -> bool:
        """Number texts; False where there is no room for a new one. See the loop."""
        count, most = ends.size - 1, hashes.size
        texts = (_at(data), _at(ends), count, _to(slots), slots.size.bit_length() - 1, _to(hashes), most)
        ahead = np.empty(2 * AHEAD + 1, np.int64)
        table = (_at(pool), pool.size, _to(starts), _at(codes), _to(state), _to(ahead), AHEAD)
        return self._functions["intern"](*texts, *table) == 1

    def placed(self, hashes: Ints, count: int, slots: Ints) -> None:
        """Put codes into free slots."""
        self._functions["placed"](_to(hashes), count, _to(slots), slots.size.bit_length() - 1)

    def lines(
        self, codes: Ints, kinds: Ints, pool: Bytes, starts: Ints, others: Bytes, other_starts: Ints,
        delimiter: bytes, out: Bytes, state: Ints,
    ) -> int:  # fmt: skip
        """Write rows as lines, as many as there is room for; returns how many bytes. See the loop."""
        between = np.frombuffer(delimiter, np.uint8)
        columns, rows = codes.shape
        texts = (_at(pool), _at(starts), starts.size - 1, _at(others), _at(other_starts))
        given = (_to(codes), rows, columns, _at(kinds), *texts, _at(between), between.size)
        return self._functions["lines"](*given, _at(out), out.size, _to(state))


def _indexed(keys: Ints, starts: NDArray[np.uint32], shift: int, most: int) -> tuple[int, ...]:
    return _at(keys), keys.size, _at(starts), shift, most


def _addresses(join: list[Ints]) -> tuple[int, ...]:
    base, weights, keys, begins, ends, shifts, masks, places = join
    one_weight = int(weights.size == 1)
    rows = (_at(base), base.size, _at(weights), one_weight, _at(keys), _at(begins), _at(ends))
    return (*rows, _at(shifts), _at(masks), _at(places), shifts.size)


def _longer(array: Ints) -> Ints:
    """The same array with as much room again behind it."""
    made = np.empty(2 * array.size, np.int64)
    made[: array.size] = array
    return made


def _ints(array: Ints) -> Ints:
    """The numbers side by side, as the loops read them."""
    return np.ascontiguousarray(array, np.int64)


def _at(array: NDArray[Any]) -> int:
    return array.ctypes.data


def _to(array: Ints) -> int:
    """The address of an array that a loop writes to."""
    assert array.dtype == np.int64
    assert array.flags.carray
    return array.ctypes.data
