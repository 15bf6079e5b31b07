"""Values that are not integers, as integer codes.

Every column of the kernel is `int64`. `number` columns hold the value itself, `unsigned` and `float` columns its bit
pattern, `symbol` and record columns a code from the tables here. Codes are handed out in order of first use and never
change, so equality of codes is equality of values; order comparisons on symbols go through the text.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sempre.kernel import join
from sempre.kernel.layout import EMPTY, Column, fields_covering, packing
from sempre.kernel.trace import RowSet, Trace


class Symbols:
    """The symbol table: text to code and back."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._texts)

    def code(self, text: str) -> int:
        """The code of `text`, a new one if it has none."""
        found = self._codes.get(text)
        if found is not None:
            return found
        with self._lock:
            found = self._codes.setdefault(text, len(self._texts))
            if found == len(self._texts):
                self._texts.append(text)
        return found

    def known(self, text: str) -> int | None:
        """The code of `text` if it has one."""
        return self._codes.get(text)

    def encode(self, texts: Iterable[str]) -> Column:
        code = self.code
        return np.fromiter((code(text) for text in texts), np.int64)

    def text(self, code: int) -> str:
        return self._texts[code]

    def decode(self, codes: Column) -> list[str]:
        texts = self._texts
        return [texts[code] for code in codes.tolist()]

    def texts(self) -> Sequence[str]:
        """All texts, by code. The list grows; nobody else may change it."""
        return self._texts

    def restore(self, texts: list[str]) -> None:
        """Fill an empty table; the texts get the codes 0, 1, ..."""
        assert not self._texts, "codes that were handed out must not change"
        self._texts = texts
        self._codes = dict(zip(texts, range(len(texts)), strict=True))


class Records:
    """Records of one arity: tuples of codes to a code and back. Code 0 is `nil`."""

    def __init__(self, arity: int) -> None:
        self._arity = arity
        self._size = 0
        self._fields: list[Column] = [np.empty(16, np.int64) for _ in range(arity)]
        self._index = Trace.empty((EMPTY,) * (arity + 1))
        self._lock = threading.Lock()

    def encode(self, columns: Sequence[Column], size: int) -> Column:
        """Codes of `size` records given by their field columns; new records get new codes."""
        with self._lock:
            return self._encode(columns, size)

    def _encode(self, columns: Sequence[Column], size: int) -> Column:
        fields = fields_covering(columns, (EMPTY,) * self._arity)
        own = packing(fields, tuple(range(self._arity)))
        keys = own.pack(columns, size)
        unique = join.distinct(keys.copy())
        parts = own.columns(unique)
        codes = self._find(parts, unique.size)
        fresh = np.flatnonzero(codes < 0)
        if fresh.size:
            codes[fresh] = self._append([part[fresh] for part in parts], fresh.size)
        return codes[unique.searchsorted(keys)]

    def _find(self, columns: Sequence[Column], size: int) -> Column:
        """Codes of records that exist, -1 for the others."""
        codes = np.full(size, -1, np.int64)
        index = self._index
        inside = np.ones(size, np.bool_)
        for column, field in zip(columns, index.fields, strict=False):
            inside &= (column >= field.lo) & (column <= field.hi)
        rows = np.flatnonzero(inside)
        if not rows.size:
            return codes
        low, high = index.packing.bounds([column[rows] for column in columns], rows.size)
        for run in index.orders[index.own]:
            starts, stops = run.ranges(low, high)
            hit = np.flatnonzero(stops > starts)
            codes[rows[hit]] = index.packing.unpack(run.keys[starts[hit]], self._arity)
        return codes

    def _append(self, columns: Sequence[Column], size: int) -> Column:
        first = self._size
        self._size += size
        for at, column in enumerate(columns):
            if self._size > self._fields[at].size:
                grown = np.empty(max(self._size, 2 * self._fields[at].size), np.int64)
                grown[:first] = self._fields[at][:first]
                self._fields[at] = grown
            self._fields[at][first : self._size] = column
        codes = np.arange(first + 1, self._size + 1)
        rows = [*columns, codes]
        fields = fields_covering(rows, self._index.fields)
        layout = packing(fields, tuple(range(self._arity + 1)))
        keys = layout.pack(rows, size)
        keys.sort()
        self._index = self._index.widened(fields).adding(RowSet(layout, keys))
        return codes

    def field(self, codes: Column, at: int) -> Column:
        """One field of records that are not nil."""
        return self._fields[at].take(codes - 1)

    def __len__(self) -> int:
        return self._size

    def columns(self, first: int, last: int) -> list[Column]:
        """The fields of the records after the first `first` and up to the `last`, in the order of their codes."""
        return [column[first:last].copy() for column in self._fields]

    def restore(self, columns: Sequence[Column], size: int) -> None:
        """Fill an empty table; the records get the codes 1, 2, ..."""
        assert not self._size, "codes that were handed out must not change"
        self._append(columns, size)


class Values:
    """All tables of one database."""

    def __init__(self) -> None:
        self.symbols = Symbols()
        self._records: dict[int, Records] = {}

    def records(self, arity: int) -> Records:
        found = self._records.get(arity)
        return found if found is not None else self._records.setdefault(arity, Records(arity))

    def record_tables(self) -> dict[int, Records]:
        """The tables of records there are, by the number of fields."""
        return dict(self._records)


NAN_BITS = int(np.array([np.nan]).view(np.int64)[0])


def float_codes(values: NDArray[np.float64]) -> Column:
    """Floats as their bit patterns, with one NaN and one zero, so that equal values have equal codes."""
    clean = values + 0.0  # turns -0.0 into 0.0, and copies
    codes: Column = clean.view(np.int64)
    missing = np.isnan(clean)
    if missing.any():
        codes[missing] = NAN_BITS
    return codes


def floats_of(codes: Column) -> NDArray[np.float64]:
    return np.ascontiguousarray(codes).view(np.float64)
