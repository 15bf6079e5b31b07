"""Texts in large numbers become codes while they are read: one table, and no object of Python for a text.

A table of hashes finds the code of a text; the texts themselves lie side by side, in the order of their codes, which is
that of their first appearance. Equal hashes are never taken for equal texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sempre.kernel import compiled
from sempre.kernel.texts import Pool

# What a table has room for at first: texts, and bytes. Memory that is not written to costs nothing.
TEXTS, BYTES = 1 << 16, 1 << 24
# There are so many slots for each text that there is room for.
SLOTS = 2
# Codes have 31 bits, since Arrow's dictionaries do.
MOST_TEXTS = (1 << 31) - 1


class TooManyTexts(Exception):
    """There are no codes left."""


class Numbering:
    """Numbers texts by compiled loops."""

    def __init__(self, loops: Any, texts: int = TEXTS, room: int = BYTES) -> None:
        self._loops = loops
        self._slots = np.zeros(_slots_for(texts), np.int64)
        self._hashes = np.empty(texts, np.int64)
        self._starts = np.zeros(texts + 1, np.int64)
        self._pool = np.empty(room, np.uint8)
        self._count = 0

    @staticmethod
    def ready() -> Numbering | None:
        """One, if the loops were compiled before."""
        loops = compiled.kept()
        return None if loops is None else Numbering(loops)

    def __len__(self) -> int:
        return self._count

    def codes(self, data: NDArray[np.uint8], ends: NDArray[np.uint32]) -> NDArray[np.int32]:
        """The code of each of the texts `data[ends[i]:ends[i + 1]]`."""
        found = np.empty(ends.size - 1, np.uint32)
        state = np.array([0, self._count])
        table = (self._slots, self._hashes, self._pool, self._starts)
        while not self._loops.intern(data, ends, *table, found, state):
            self._count = int(state[1])
            at = int(state[0])
            self._grow(int(ends[at + 1]) - int(ends[at]))
            table = (self._slots, self._hashes, self._pool, self._starts)
        self._count = int(state[1])
        return found.view(np.int32)

    def _grow(self, size: int) -> None:
        """Make room for one more text, of so many bytes."""
        if self._count == MOST_TEXTS:
            raise TooManyTexts
        if self._count == self._hashes.size:
            texts = min(2 * self._count, MOST_TEXTS)
            self._hashes = _longer(self._hashes, texts, self._count)
            self._starts = _longer(self._starts, texts + 1, self._count + 1)
            self._place(_slots_for(texts))
        used = int(self._starts[self._count])
        if used + size > self._pool.size:
            self._pool = _longer(self._pool, max(2 * self._pool.size, used + size), used)

    def _place(self, slots: int) -> None:
        self._slots = np.zeros(slots, np.int64)
        self._loops.placed(self._hashes, self._count, self._slots)

    def back_to(self, count: int) -> None:
        """Take back the codes from `count` on."""
        if count < self._count:
            self._count = count
            self._place(self._slots.size)

    def pool(self) -> Pool:
        """The texts of all codes; no code may be given after this."""
        starts = self._starts[: self._count + 1]
        return Pool(self._pool[: int(starts[-1])], starts)


def _slots_for(texts: int) -> int:
    return 1 << (SLOTS * texts - 1).bit_length()


def _longer(array: NDArray[Any], size: int, used: int) -> NDArray[Any]:
    made = np.empty(size, array.dtype)
    made[:used] = array[:used]
    return made
