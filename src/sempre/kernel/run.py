"""A run: sorted distinct keys that never change, and how to find things in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sempre.kernel import compiled
from sempre.kernel.capacity import MOST_DIRECTORY_KEYS
from sempre.kernel.join import Mask, Rows, Weights
from sempre.kernel.layout import INT64_MAX, Column, Field, Keys, Packing
from sempre.kernel.sieve import Marks, Sieve, marked

# Keys per bucket of the directory, as a power of two.
BUCKET_BITS = 2
# A directory is built once this many probes per key were made: it costs a pass over the run.
PROBES_PER_KEY = 1 / 32

# A run of so many keys that is read by address gets a directory at once.
DIRECTORY_KEYS = 1 << 12

# Where one side has this many times fewer keys than the other, it is the one whose keys are looked for.
FEWER, FEWER_COMPILED = 2, 32
# Keys that are looked for at a time.
PLACE_KEYS = 1 << 17
NOWHERE: Rows = np.empty(0, np.intp)


class Run:
    """Sorted distinct keys.

    Searching for a few keys costs a binary search each. Once a run is probed a lot, a directory of its leading bits
    is built, which leaves a few comparisons a probe.
    """

    __slots__ = ("_directory", "_marks", "_most", "_probed", "_shift", "keys", "size")

    def __init__(self, keys: Keys) -> None:
        # Compiled loops read them by address, one after the other: a column of some table is copied.
        self.keys = np.ascontiguousarray(keys)
        self.size = int(keys.size)
        self._probed = 0
        self._shift = 0
        # Probes beyond the last key are taken for this one, just past it, where the directory still reaches.
        self._most = 0
        self._directory: NDArray[np.uint32] | None = None
        # What was marked last, and of what.
        self._marks: tuple[tuple[Packing, tuple[int, ...], Field], Marks] | None = None

    def _loops(self, probes: int) -> Any:
        """The compiled loops, with the directory ready, or None."""
        if self.keys.dtype != np.int64 or self.size > MOST_DIRECTORY_KEYS:
            return None
        loops = compiled.loops(probes)
        if loops is None or self._directory is not None:
            return loops
        self._probed += probes
        if self._probed < self.size * PROBES_PER_KEY or not self.size:
            return None
        last = int(self.keys[-1])
        # No narrow key lies beyond the greatest one, and there is no integer past it either.
        self._most = min(last, INT64_MAX - 1) + 1
        self._shift = max(0, last.bit_length() - max(self.size.bit_length() - BUCKET_BITS, 1))
        # One bucket more than the last key needs: probes beyond it are clipped there.
        self._directory = loops.directory(self.keys, self._shift, (last >> self._shift) + 2)
        return loops

    def address(self) -> tuple[int, int, int, int]:
        """Where the keys are and how many, and the directory and its shift; 0 where there is none."""
        if self._directory is None and self.size >= DIRECTORY_KEYS:
            self._loops(self.size)
        directory = 0 if self._directory is None else self._directory.ctypes.data
        return self.keys.ctypes.data, self.size, directory, self._shift

    def member(self, probes: Keys) -> Mask:
        """Which probes occur."""
        if not self.size:
            return np.zeros(probes.size, np.bool_)
        loops = self._loops(probes.size)
        if loops is not None:
            return np.asarray(loops.member(self.keys, self._directory, self._shift, self._most, probes))
        at = self.keys.searchsorted(probes)
        # A probe beyond the last key finds position `size`; comparing it with the last key is still a correct "no".
        np.minimum(at, self.size - 1, out=at)
        return np.asarray(self.keys.take(at) == probes)

    def among(self, sorted_: Keys) -> Mask:
        """Which of some sorted distinct keys occur."""
        if not self._is_fewer(sorted_):
            return self.member(sorted_)
        found = np.zeros(sorted_.size, np.bool_)
        for _, there in self._places(sorted_):
            found[there] = True
        return found

    def left_of(self, sorted_: Keys) -> Keys:
        """What is left of some sorted distinct keys without those that occur here."""
        if sorted_.dtype == np.int64 and (loops := compiled.loops(sorted_.size)) is not None:
            return np.asarray(loops.without(sorted_, self.keys))
        found = self.among(sorted_)
        return sorted_[~found] if found.any() else sorted_

    def place(self, sorted_: Keys) -> tuple[Rows, Rows]:
        """The positions here and there of the keys that occur both here and in some sorted distinct keys."""
        if self._is_fewer(sorted_):
            parts = list(self._places(sorted_))
            here, there = (np.concatenate(side) for side in zip(*parts, strict=True)) if parts else (NOWHERE, NOWHERE)
            return here, there
        here = self.find(sorted_)
        there = np.flatnonzero(here >= 0)
        return here[there], there

    def lodge(self, sorted_: Keys, numbers: Weights, sums: Weights) -> None:
        """Add the numbers of some sorted distinct keys to the sums, a place each, of those that occur here."""
        if not self.size or not sorted_.size:
            return
        if self.keys.dtype == np.int64 and (loops := compiled.loops(max(self.size, sorted_.size))) is not None:
            loops.lodged(self.keys, sums, sorted_, numbers)
            return
        here, there = self.place(sorted_)
        sums[here] += numbers[there]

    def _is_fewer(self, sorted_: Keys) -> bool:
        """Whether it is quicker to look for the keys here, there; the compiled loops look up more than that a key."""
        ratio = FEWER if compiled.loops(sorted_.size) is None else FEWER_COMPILED
        return self.size * ratio < sorted_.size

    def _places(self, sorted_: Keys) -> Iterator[tuple[Rows, Rows]]:
        """The same, part by part, by looking for what is here, there: quicker where less is here."""
        for begin in range(0, self.size, PLACE_KEYS):
            keys = self.keys[begin : begin + PLACE_KEYS]
            there = sorted_.searchsorted(keys)
            hit = np.flatnonzero(sorted_.take(there, mode="clip") == keys)
            yield hit + begin, there[hit]

    def find(self, probes: Keys) -> Rows:
        """The position of each probe, -1 for those that do not occur."""
        if not self.size:
            return np.full(probes.size, -1, np.int64)
        loops = self._loops(probes.size)
        if loops is not None:
            return np.asarray(loops.find(self.keys, self._directory, self._shift, self._most, probes))
        at = self.keys.searchsorted(probes)
        np.minimum(at, self.size - 1, out=at)
        at[self.keys.take(at) != probes] = -1
        return at

    def ranges(self, low: Keys, high: Keys) -> tuple[Rows, Rows]:
        """For every pair of bounds, the positions `begin:end` of the keys within them."""
        loops = self._loops(low.size)
        if loops is not None:
            found = loops.ranges(self.keys, self._directory, self._shift, self._most, low, high)
            return found[0], found[1]
        return self.keys.searchsorted(low), self.keys.searchsorted(high, side="right")

    def expand(self, begins: Rows, ends: Rows) -> tuple[Rows, Keys]:
        """For every range, its row number and the keys in it."""
        if begins.size == 1:
            keys = self.keys[begins[0] : ends[0]]
            return np.zeros(keys.size, np.int64), keys
        hits = ends - begins
        total = int(hits.sum())
        loops = compiled.loops(total)
        if loops is not None and self.keys.dtype == np.int64:
            rows, keys = loops.expand(self.keys, begins, ends, total)
            return rows, keys
        rows = np.arange(hits.size).repeat(hits)
        positions = np.arange(total)
        positions += (begins - hits.cumsum() + hits).take(rows)
        return rows, self.keys.take(positions)

    def sift(self, begins: Rows, ends: Rows, sieve: Sieve) -> tuple[Rows, Keys]:
        """As `expand`, of the keys alone that the sieve lets through."""
        total = int(ends.sum()) - int(begins.sum())
        loops = compiled.loops(total)
        if loops is not None:
            rows, keys = loops.sift(self.keys, begins, ends, total, sieve.shift, sieve.mask, sieve.marks)
            return rows, keys
        rows, keys = self.expand(begins, ends)
        through = np.flatnonzero(sieve.marks.take((keys >> sieve.shift) & sieve.mask))
        return rows.take(through), keys.take(through)

    def marks(self, layout: Packing, prefix: Sequence[int], wanted: Field) -> Marks:
        """Which values of a field stand in the column after these ones. Kept: a run never changes."""
        known = (layout, tuple(prefix), wanted)
        if self._marks is None or self._marks[0] != known:
            self._marks = (known, marked(self._after(layout, prefix), wanted))
        return self._marks[1]

    def _after(self, layout: Packing, prefix: Sequence[int]) -> Column:
        """The column after these values, of the rows that begin with them."""
        keys = self.keys
        if prefix:
            fields = (layout.fields[column] for column in layout.order)
            if not all(field.holds(value, value) for field, value in zip(fields, prefix, strict=False)):
                keys = keys[:0]
            else:
                low, high = layout.bounds([np.array([value]) for value in prefix], 1)
                keys = keys[int(keys.searchsorted(low)[0]) : int(keys.searchsorted(high, side="right")[0])]
        return layout.unpack(keys, layout.order[len(prefix)])
