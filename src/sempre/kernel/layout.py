"""How rows become sortable keys, and back.

A `Field` says which integers a column may hold; a `Packing` lays the fields of a row side by side, in some order of
the columns, into one key. Keys of one packing sort like the rows they stand for, so that a run of sorted keys is an
index on every prefix of that order.

- Narrow: all fields together need at most 63 bits; a key is one non-negative `int64`. Most relations.
- Wide: anything else; a key is a fixed-width byte string (big-endian words), which NumPy sorts, compares and searches
  with the same functions. Nothing outside this file knows the difference, except the compiled loops, which take
  narrow keys only.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from sempre.data import dataclass

Column: TypeAlias = NDArray[np.int64]
Keys: TypeAlias = NDArray[Any]

NARROW_BITS = 63
WORD_BITS = 64
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Field:
    """Integers `lo <= value < lo + 2**bits`; with 64 bits, every `int64`; with none, no value at all."""

    lo: int
    bits: int

    @staticmethod
    def covering(lo: int, hi: int) -> Field:
        """A field for `lo..hi`; starts at zero where that is as cheap, so that packing need not subtract."""
        bits = max((hi - lo).bit_length(), 1)
        if lo >= 0 and hi.bit_length() <= bits + 1:
            return Field(0, max(hi.bit_length(), 1))
        return EVERYTHING if bits >= NARROW_BITS else Field(lo, bits)

    def contains(self, other: Field) -> bool:
        return not other.bits or (self.lo <= other.lo and other.hi <= self.hi)

    def holds(self, lo: int, hi: int) -> bool:
        return self.lo <= lo and hi <= self.hi

    @property
    def hi(self) -> int:
        if not self.bits:
            return self.lo - 1
        return min(INT64_MAX, self.lo + (1 << self.bits) - 1)

    def grown(self, slack: int) -> Field:
        """The same field with room for `2**slack` times as many values."""
        if self.bits + slack >= NARROW_BITS:
            return self
        return Field(self.lo, self.bits + slack)


EVERYTHING = Field(INT64_MIN, WORD_BITS)
EMPTY = Field(0, 0)
GROWTH_BITS = 2


def span_of(column: Column) -> tuple[int, int]:
    """The least and greatest value of a column that is not empty."""
    return int(column.min()), int(column.max())


def fields_covering(columns: Sequence[Column], fields: Sequence[Field]) -> tuple[Field, ...]:
    """`fields`, each widened where its column does not fit; with spare bits where they are free."""
    tight, roomy = [], []
    for column, field in zip(columns, fields, strict=True):
        grown = field
        if column.size:
            lo, hi = span_of(column)
            if not field.holds(lo, hi):
                if field.bits:
                    lo, hi = min(lo, field.lo), max(hi, field.hi)
                field = Field.covering(lo, hi)
                grown = field.grown(GROWTH_BITS)
        tight.append(field)
        roomy.append(grown)
    fits = sum(field.bits for field in roomy) <= NARROW_BITS
    return tuple(roomy if fits else tight)


class Packing:
    """The key layout of rows with `fields`, columns taken in `order`."""

    __slots__ = (
        "__weakref__", "_places", "_reordered", "_words", "bits", "dtype", "fields", "narrow", "order", "shifts",
    )  # fmt: skip

    def __init__(self, fields: tuple[Field, ...], order: tuple[int, ...]) -> None:
        self.fields = fields
        self.order = order
        self._reordered: dict[tuple[int, ...], Packing] = {}
        self.bits = sum(field.bits for field in fields)
        self.narrow = self.bits <= NARROW_BITS
        # shifts[k] is where the k-th column of the order starts in its word.
        self._words: list[list[tuple[int, int]]] = []
        shifts = [0] * len(order)
        if self.narrow:
            left = self.bits
            for position, column in enumerate(order):
                left -= fields[column].bits
                shifts[position] = left
            self._words = [list(enumerate(order))]
            self.dtype: Any = np.dtype(np.int64)
        else:
            left = 0
            for position, column in enumerate(order):
                if not self._words or fields[column].bits > left:
                    self._words.append([])
                    left = WORD_BITS
                left -= fields[column].bits
                shifts[position] = left
                self._words[-1].append((position, column))
            self.dtype = np.dtype(f"S{8 * len(self._words)}")
        self.shifts = tuple(shifts)
        # Where a column stands: its shift, the mask that cuts what lies above it (0: nothing does), its word.
        self._places: dict[int, tuple[int, int, int]] = {
            column: (shifts[position], (1 << fields[column].bits) - 1 if position else 0, index)
            for index, word in enumerate(self._words)
            for position, column in word
        }

    def reordered(self, order: tuple[int, ...]) -> Packing:
        """The packing of the same fields in another order."""
        found = self._reordered.get(order)
        if found is None:
            found = self._reordered[order] = packing(self.fields, order)
        return found

    def place(self, column: int) -> tuple[int, int]:
        """How far a column of a narrow key is from its end, and a mask of its bits when it has been moved there."""
        shift, mask, _ = self._places[column]
        return shift, mask or -1

    def pack(self, columns: Sequence[Column], size: int) -> Keys:
        """Keys of `size` rows; `columns` in the relation's own order, each within its field."""
        if self.narrow:
            return self._pack_prefix_narrow([columns[c] for c in self.order], size)
        return self._words_to_keys(
            [self._pack_word(word, [columns[c] for _, c in word], size) for word in self._words], size
        )

    def unpack(self, keys: Keys, column: int) -> Column:
        """One column of the rows that `keys` stand for."""
        field = self.fields[column]
        if not field.bits:
            return np.empty(0, np.int64)
        shift, mask, word = self._places[column]
        if self.narrow:
            values = keys >> shift if shift else keys
            if mask:
                values = values & mask
            return values + field.lo if field.lo else values
        raw = keys.view(">u8").reshape(keys.size, len(self._words))[:, word].astype(np.uint64)
        if field.bits < WORD_BITS:
            raw = (raw >> np.uint64(shift)) & np.uint64((1 << field.bits) - 1)
            return raw.view(np.int64) + field.lo
        return _unbias(raw)

    def columns(self, keys: Keys) -> list[Column]:
        """All columns, in the relation's own order."""
        return [self.unpack(keys, column) for column in range(len(self.order))]

    def bounds(self, prefix: Sequence[Column], size: int) -> tuple[Keys, Keys]:
        """The least and the greatest key whose first columns (in the order) are `prefix`."""
        if self.narrow:
            low = self._pack_prefix_narrow(prefix, size)
            rest = self.shifts[len(prefix) - 1] if prefix else self.bits
            return low, low | ((1 << rest) - 1)
        lows, highs = [], []
        for word in self._words:
            known = [prefix[p] for p, _ in word if p < len(prefix)]
            low = self._pack_word(word, known, size)
            # A word that is known in full has one value: its unused bits must not let later words run free.
            free = self.shifts[word[len(known) - 1][0]] if known else WORD_BITS
            free = 0 if len(known) == len(word) else free
            lows.append(low)
            highs.append(low | np.uint64((1 << free) - 1))
        return self._words_to_keys(lows, size), self._words_to_keys(highs, size)

    def _pack_prefix_narrow(self, prefix: Sequence[Column], size: int) -> Keys:
        keys: Keys | None = None
        for position, values in enumerate(prefix):
            field = self.fields[self.order[position]]
            if field.lo:
                values = values - field.lo
            shift = self.shifts[position]
            if shift:
                values = values << shift
            keys = values if keys is None else keys | values
        return np.zeros(size, np.int64) if keys is None else keys

    def _pack_word(self, word: list[tuple[int, int]], values: Sequence[Column], size: int) -> NDArray[np.uint64]:
        packed = np.zeros(size, np.uint64)
        for (position, column), value in zip(word, values, strict=False):
            field = self.fields[column]
            if field.bits == WORD_BITS:
                packed |= _bias(value)
            else:
                packed |= (value - field.lo).view(np.uint64) << np.uint64(self.shifts[position])
        return packed

    def _words_to_keys(self, words: Sequence[NDArray[np.uint64]], size: int) -> Keys:
        table = np.empty((size, len(self._words)), ">u8")
        for index, word in enumerate(words):
            table[:, index] = word
        return np.asarray(table.view(self.dtype).reshape(size))


def _bias(values: Column) -> NDArray[np.uint64]:
    """Signed values as unsigned ones in the same order."""
    return values.view(np.uint64) ^ np.uint64(1 << 63)


def _unbias(values: NDArray[np.uint64]) -> Column:
    return (values ^ np.uint64(1 << 63)).view(np.int64)


# As long as somebody holds a packing it is the only one of its kind: packings are compared by identity.
_packings: WeakValueDictionary[tuple[tuple[Field, ...], tuple[int, ...]], Packing] = WeakValueDictionary()
_lock = threading.Lock()


def packing(fields: tuple[Field, ...], order: tuple[int, ...]) -> Packing:
    """The packing of these fields in this order; equal arguments give the same object."""
    with _lock:
        found = _packings.get((fields, order))
        if found is None:
            found = _packings[fields, order] = Packing(fields, order)
        return found


def common_packing(layouts: Sequence[Packing]) -> Packing:
    """The first packing if all are the same, else one with room for the rows of all."""
    first = layouts[0]
    if all(layout is first for layout in layouts):
        return first
    fields = []
    for column in range(len(first.fields)):
        every = {layout.fields[column] for layout in layouts if layout.fields[column].bits} or {first.fields[column]}
        widest = max(every, key=lambda field: field.bits)
        has_room = all(widest.contains(other) for other in every)
        fields.append(widest if has_room else Field.covering(min(f.lo for f in every), max(f.hi for f in every)))
    return packing(tuple(fields), first.order)
