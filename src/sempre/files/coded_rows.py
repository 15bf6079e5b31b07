"""Rows that are still codes when they are written: their texts go from the table of texts to the file.

No row becomes an object of Python, and no column of texts is made, as it would be for an Arrow table: only so many rows
are decoded at a time as are written at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sempre.analysis.model import Kind, Relation
from sempre.data import dataclass
from sempre.kernel import compiled
from sempre.kernel.layout import Column
from sempre.kernel.texts import Pool
from sempre.kernel.values import Symbols

if TYPE_CHECKING:
    import pyarrow as pa

# Rows that are decoded at a time, and room for their lines at first.
SLICE_ROWS = 1 << 15
ROOM = 1 << 22
LINE_BREAK = ord("\n")
# How the loop writes values of a kind. It writes no others.
WRITTEN = {Kind.NUMBER: 0, Kind.UNSIGNED: 1, Kind.SYMBOL: 2}


@dataclass(frozen=True, slots=True, eq=False)
class CodedRows:
    """`columns(begin, end)` are the codes of some rows, `decoded` makes a table of them."""

    relation: Relation
    num_rows: int
    columns: Callable[[int, int], Sequence[Column]]
    decoded: Callable[[Sequence[Column], int], pa.Table]
    symbols: Symbols

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, decoded some at a time."""
        for begin, end in self._slices():
            yield from self.table(begin, end).to_batches()

    def table(self, begin: int, end: int) -> pa.Table:
        """Some rows, decoded."""
        return self.decoded(self.columns(begin, end), end - begin)

    def _slices(self) -> Iterator[tuple[int, int]]:
        for begin in range(0, self.num_rows, SLICE_ROWS):
            yield begin, min(begin + SLICE_ROWS, self.num_rows)

    def lines(self, delimiter: bytes) -> Iterator[Lines] | None:
        """The rows as lines of text with a delimiter between values; None where that is better done otherwise."""
        if not all(kind in WRITTEN for kind in self.relation.kinds):
            return None
        loops = compiled.loops(self.num_rows * self.relation.arity)
        return None if loops is None else self._lines(loops, delimiter)

    def _lines(self, loops: Any, delimiter: bytes) -> Iterator[Lines]:
        kinds = np.array([WRITTEN[kind] for kind in self.relation.kinds])
        pools = self.symbols.pools() if Kind.SYMBOL in self.relation.kinds else _NO_POOLS
        texts = tuple(each for pool in pools for each in _arrays(pool))
        out = np.empty(ROOM, np.uint8)
        for begin, end in self._slices():
            codes, state = np.ascontiguousarray(np.stack(self.columns(begin, end)), np.int64), np.zeros(1, np.int64)
            while (first := int(state[0])) < end - begin:
                size = loops.lines(codes, kinds, *texts, delimiter, out, state)
                done = int(state[0])
                if done == first:  # not even one row fits
                    out = np.empty(2 * out.size, np.uint8)
                    continue
                yield Lines(out[:size], begin + first, begin + done)


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """The lines of some rows, until the next are asked for."""

    data: NDArray[np.uint8]
    begin: int
    end: int

    def are_whole(self, arity: int, delimiter: bytes) -> bool:
        """Whether no text has a line break or the delimiter in it, which is one byte."""
        rows = self.end - self.begin
        breaks, between = (int(np.count_nonzero(self.data == byte)) for byte in (LINE_BREAK, delimiter[0]))
        return breaks == rows and between == rows * (arity - 1)


_NO_POOLS = (Pool.of([]), Pool.of([]))


def _arrays(pool: Pool) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    return np.ascontiguousarray(pool.data), np.ascontiguousarray(pool.starts)
