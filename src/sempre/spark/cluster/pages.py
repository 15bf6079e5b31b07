"""Few rows out of many, read from files by the driver itself: no job is started.

A folder of Parquet files is a list of row groups. Their statistics say which values a group can have; a group that
cannot have what is looked for is not read. Of the others, the columns that are looked up are read first, and the rest
only where something was found. What is read leaves a *sketch* behind: a few bits per row that say which numbers a
group has, wrong only in that it may say yes too often. So a column in which the files are not sorted is read whole
once, and then only where it matters. Sketches are small and bounded; without them groups are read again.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

# About how many bits a sketch has per row. A number that is not there passes for one that is in one of about 20 groups.
SKETCH_BITS = 8
# Two multipliers that spread the bits of numbers.
SPREAD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
READERS = min(4, os.cpu_count() or 1)

Bits: TypeAlias = NDArray[np.uint8]
Mask: TypeAlias = NDArray[np.bool_]


def places(numbers: NDArray[np.int64], bits: int) -> list[NDArray[np.uint64]]:
    """Where numbers stand in a sketch of `2**bits` bits."""
    raw = numbers.view(np.uint64)
    return [(raw * np.uint64(factor)) >> np.uint64(64 - bits) for factor in SPREAD]


def sketch_bits(rows: int) -> int:
    """The size of the sketch of so many rows, as a power of two."""
    return max(3, (SKETCH_BITS * rows - 1).bit_length())


def sketch(numbers: NDArray[np.int64]) -> Bits:
    """Which numbers there are, in a few bits each."""
    bits = sketch_bits(numbers.size)
    marked = np.zeros(1 << bits, np.bool_)
    for at in places(numbers, bits):
        marked[at] = True
    return np.packbits(marked)


def may_have(sketched: Bits, numbers: NDArray[np.int64]) -> bool:
    """Whether some of the numbers may be among those that were sketched."""
    bits = (sketched.size * 8).bit_length() - 1
    passed: Mask = np.ones(numbers.size, np.bool_)
    for at in places(numbers, bits):
        passed &= (sketched[at >> np.uint64(3)] >> (7 - (at & np.uint64(7))).astype(np.uint8)) & 1 == 1
    return bool(passed.any())


class SketchBudget:
    """The memory that sketches may still take."""

    def __init__(self, size: int) -> None:
        self.left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Whether there is room for so many bytes; they are taken then."""
        with self._lock:
            if size > self.left:
                return False
            self.left -= size
            return True

    def give(self, size: int) -> None:
        """What nobody needs any more."""
        with self._lock:
            self.left += size


class Wanted:
    """The values to look for in one column."""

    def __init__(self, values: pa.Array) -> None:
        self.values = values.unique()
        self.numbers: NDArray[np.int64] | None = None
        self._sorted: list[Any] = []
        if pa.types.is_int64(values.type):
            self.numbers = np.sort(self.values.to_numpy(zero_copy_only=False))
        elif pa.types.is_string(values.type):
            self._sorted = sorted(self.values.to_pylist())

    def within(self, lows: Any, highs: Any) -> Mask:
        """Which of some ranges a value lies in; a range that nobody knows may have all."""
        if self.numbers is not None and isinstance(lows, np.ndarray):
            return np.asarray(self.numbers.searchsorted(lows) < self.numbers.searchsorted(highs, side="right"))
        found: Mask = np.ones(len(lows), np.bool_)
        if self._sorted:
            for at, (low, high) in enumerate(zip(lows, highs, strict=True)):
                if isinstance(low, str) and isinstance(high, str):
                    found[at] = bisect_left(self._sorted, low) < bisect_right(self._sorted, high)
        return found


def filtered(table: pa.Table, wanted: Mapping[str, Wanted]) -> pa.Table:
    """The rows whose value in each of these columns is one that is wanted there."""
    for name, values in wanted.items():
        table = table.filter(pc.is_in(table.column(name), value_set=values.values))
    return table


class Pages:
    """The row groups of a folder, and what is known of them."""

    def __init__(self, path: Path, names: Sequence[str], budget: SketchBudget) -> None:
        self._names = list(names)
        self._budget = budget
        self._files = sorted(path.glob("*.parquet"))
        self._footers = [pq.read_metadata(file) for file in self._files]
        self._where = [(at, group) for at, footer in enumerate(self._footers) for group in range(footer.num_row_groups)]
        self.rows = np.array([self._footers[at].row_group(group).num_rows for at, group in self._where], np.int64)
        self._ranges: dict[str, tuple[Any, Any]] = {}
        self._sketches: dict[tuple[str, int], Bits] = {}

    def __del__(self) -> None:
        self._budget.give(sum(bits.size for bits in self._sketches.values()))

    def candidates(self, wanted: Mapping[str, Wanted]) -> list[int]:
        """The groups that may have rows with such values in all of these columns."""
        passed: Mask = self.rows > 0
        for name, values in wanted.items():
            passed &= values.within(*self._range(name))
        return [int(at) for at in np.flatnonzero(passed) if self._sketched(int(at), wanted)]

    def _sketched(self, at: int, wanted: Mapping[str, Wanted]) -> bool:
        for name, values in wanted.items():
            bits = self._sketches.get((name, at))
            if bits is not None and values.numbers is not None and not may_have(bits, values.numbers):
                return False
        return True

    def matching(self, wanted: Mapping[str, Wanted], groups: Sequence[int], look: Callable[[], None]) -> pa.Table:
        """The rows of some groups whose value in each of these columns is one that is wanted there."""
        by_file: dict[int, list[int]] = {}
        for at in groups:
            by_file.setdefault(self._where[at][0], []).append(at)
        found: list[pa.Table] = []

        def read(file: int) -> list[pa.Table]:
            opened = pq.ParquetFile(self._files[file], metadata=self._footers[file])
            with opened:
                return [table for at in by_file[file] if (table := self._read(opened, at, wanted)) is not None]

        if len(groups) < 2 * READERS:
            for file in by_file:
                look()
                found += read(file)
        else:
            with ThreadPoolExecutor(READERS, "sempre-page") as pool:
                try:
                    for tables in pool.map(read, by_file):
                        look()
                        found += tables
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
        return pa.concat_tables(found) if found else self._empty()

    def _read(self, opened: pq.ParquetFile, at: int, wanted: Mapping[str, Wanted]) -> pa.Table | None:
        """The rows of one group; None if there are none."""
        group = self._where[at][1]
        hits: pa.Array | None = None
        columns: dict[str, pa.ChunkedArray] = {}
        for name, values in wanted.items():
            column = columns[name] = opened.read_row_group(group, columns=[name], use_threads=False).column(0)
            if values.numbers is not None:
                self._sketch(name, at, column)
            mask = pc.is_in(column, value_set=values.values)
            hits = mask if hits is None else pc.and_(hits, mask)
            if not pc.any(hits).as_py():
                return None
        others = [name for name in self._names if name not in columns]
        if others:
            rest = opened.read_row_group(group, columns=others, use_threads=False)
            columns |= {name: rest.column(name) for name in others}
        table = pa.table({name: columns[name] for name in self._names})
        return table if hits is None else table.filter(hits)

    def _sketch(self, name: str, at: int, column: pa.ChunkedArray) -> None:
        if (name, at) not in self._sketches and self._budget.take((1 << sketch_bits(len(column))) // 8):
            self._sketches[name, at] = sketch(np.ascontiguousarray(column.to_numpy(), np.int64))

    def _range(self, name: str) -> tuple[Any, Any]:
        """The least and the greatest value of a column in every group, None where nobody says."""
        if name not in self._ranges:
            lows: list[Any] = []
            highs: list[Any] = []
            for footer in self._footers:
                column = footer.schema.to_arrow_schema().get_field_index(name)
                for group in range(footer.num_row_groups):
                    found = footer.row_group(group).column(column).statistics
                    known = found is not None and found.has_min_max
                    lows.append(found.min if known else None)
                    highs.append(found.max if known else None)
            numbers = all(isinstance(value, int) for value in (*lows, *highs))
            self._ranges[name] = (np.array(lows, np.int64), np.array(highs, np.int64)) if numbers else (lows, highs)
        return self._ranges[name]

    def _empty(self) -> pa.Table:
        schema = self._footers[0].schema.to_arrow_schema()
        return pa.schema([schema.field(name) for name in self._names]).empty_table()
