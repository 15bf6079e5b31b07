"""Values that are not integers, as integer codes.

Every column of the kernel is `int64`. `number` columns hold the value itself, `unsigned` and `float` columns its bit
pattern, `symbol` and record columns a code from the tables here. Codes are handed out in order of first use and never
change, so equality of codes is equality of values; order comparisons on symbols go through the text.

Codes belong to the state that uses them. An epoch that commits `keep`s those that were handed out for it; one that does
not has them taken back by `forget`. Questions (queries, what-ifs) hand out codes in a `branch`, which shares what is
kept and nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sempre.kernel import join
from sempre.kernel.layout import EMPTY, Column, fields_covering, packing
from sempre.kernel.texts import NO_TEXTS, Pool
from sempre.kernel.trace import RowSet, Trace

# More texts than this are not looked for one by one in a pool.
MOST_LOOKUPS = 32


class Symbols:
    """The symbol table: text to code and back.

    The first codes may be a `Pool`: their texts are bytes side by side, as they came from files, and no object of
    Python each. Looking a text up there is a pass over all of them; so when that happens often, they are taken out of
    the pool, into a dictionary, once.
    """

    def __init__(self) -> None:
        self._pool = NO_TEXTS
        self._lookups = 0
        # The texts that are not in the pool, in the order of their codes, and the codes of these.
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._lock = threading.Lock()
        self._kept = 0
        # How often codes were taken back: what somebody derived from a longer table is out of date then.
        self.forgotten = 0

    takes_pools = True

    def __len__(self) -> int:
        with self._lock:
            return self._size

    @property
    def _size(self) -> int:
        return len(self._pool) + len(self._texts)

    def keep(self) -> None:
        """The codes that there are stay for good."""
        self._kept = len(self)

    @property
    def is_kept(self) -> bool:
        """Whether no code can be taken back."""
        return self._kept == len(self)

    def forget(self) -> None:
        """Take back the codes since `keep`. The caller knows that nobody holds one of them."""
        with self._lock:
            left = max(0, self._kept - len(self._pool))
            for text in self._texts[left:]:
                self._codes.pop(text, None)
            del self._texts[left:]
            self._pool = self._pool.first(self._kept)
            self.forgotten += 1

    def branch(self) -> Symbols:
        """A table with the codes that are kept; codes that it hands out are its own."""
        return _Branch(self, self._kept)

    def code(self, text: str) -> int:
        """The code of `text`, a new one if it has none."""
        found = self._codes.get(text)
        if found is not None:
            return found
        with self._lock:
            found = self._find(text)
            if found is None:
                # In this order: an interrupt between the two leaves a code without a text nowhere.
                self._texts.append(text)
                found = self._codes[text] = self._size - 1
        return found

    def known(self, text: str) -> int | None:
        """The code of `text` if it has one."""
        found = self._codes.get(text)
        if found is not None or not len(self._pool):
            return found
        with self._lock:
            return self._find(text)

    def _find(self, text: str) -> int | None:
        """As `known`, for who holds the lock."""
        found = self._codes.get(text)
        if found is not None or not len(self._pool):
            return found
        self._lookups += 1
        if self._lookups > MOST_LOOKUPS:
            self._take_out()
            return self._codes.get(text)
        return self._pool.find(text.encode("utf-8", "surrogatepass"))

    def _take_out(self) -> None:
        """Make objects of the texts in the pool, which is empty then."""
        texts = [*self._pool.texts(), *self._texts]
        codes = dict(zip(texts, range(len(texts)), strict=True))
        self._texts, self._codes, self._pool, self._lookups = texts, codes, NO_TEXTS, 0

    def encode(self, texts: Iterable[str]) -> Column:
        code = self.code
        return np.fromiter((code(text) for text in texts), np.int64)

    def text(self, code: int) -> str:
        with self._lock:
            return self._text(code)

    def _text(self, code: int) -> str:
        inside = len(self._pool)
        return self._pool.text(code) if code < inside else self._texts[code - inside]

    def decode(self, codes: Column) -> list[str]:
        with self._lock:
            if not len(self._pool):
                texts = self._texts
                return [texts[code] for code in codes.tolist()]
            # Each different text is made once.
            different, where = np.unique(codes, return_inverse=True)
            made = [self._text(code) for code in different.tolist()]
        return [made[at] for at in where.tolist()]

    def utf8(self, first: int = 0, last: int | None = None) -> Pool:
        """The texts of the codes from `first` up to `last`, as bytes."""
        with self._lock:
            inside = len(self._pool)
            last = self._size if last is None else last
            pooled = self._pool.first(min(last, inside)).after(min(first, inside))
            others = self._texts[max(first - inside, 0) : max(last - inside, 0)]
        if not others:
            return pooled
        made = Pool.of([text.encode("utf-8", "surrogatepass") for text in others])
        return pooled.joined(made) if len(pooled) else made

    def pools(self) -> tuple[Pool, Pool]:
        """The texts of the first codes, as they lie there, and those of the codes after them."""
        with self._lock:
            pool, others = self._pool, self._texts[:]
        return pool, Pool.of([text.encode("utf-8", "surrogatepass") for text in others]) if others else NO_TEXTS

    def pool(self, texts: Pool, before: int) -> bool:
        """Take `texts` for the table, which has the codes that it had when there were `before` and goes on from there.

        No two are equal, and all are UTF-8: the caller made sure. False if the table has grown meanwhile.
        """
        with self._lock:
            if self._size != before:
                return False
            self._pool, self._texts, self._codes, self._lookups = texts, [], {}, 0
        return True

    def restore(self, texts: list[str]) -> None:
        """Fill an empty table; the texts get the codes 0, 1, ..."""
        assert not len(self), "codes that were handed out must not change"
        self._texts = texts
        self._codes = dict(zip(texts, range(len(texts)), strict=True))
        self.keep()


class _Branch(Symbols):
    """A symbol table that begins as the first `base` symbols of another, which goes on growing meanwhile.

    Making one costs nothing, however large the other is.
    """

    takes_pools = False

    def __init__(self, trunk: Symbols, base: int) -> None:
        super().__init__()
        self._trunk = trunk
        self._base = base

    def __len__(self) -> int:
        return self._base + len(self._texts)

    def code(self, text: str) -> int:
        shared = self._shared(text)
        return self._base + super().code(text) if shared is None else shared

    def known(self, text: str) -> int | None:
        shared = self._shared(text)
        own = self._codes.get(text) if shared is None else None
        return shared if own is None else self._base + own

    def _shared(self, text: str) -> int | None:
        code = self._trunk.known(text)
        return code if code is not None and code < self._base else None

    def text(self, code: int) -> str:
        return self._trunk.text(code) if code < self._base else self._texts[code - self._base]

    def decode(self, codes: Column) -> list[str]:
        return [self.text(code) for code in codes.tolist()]

    def utf8(self, first: int = 0, last: int | None = None) -> Pool:
        last = len(self) if last is None else last
        shared = self._trunk.utf8(min(first, self._base), min(last, self._base))
        own = super().utf8(max(first - self._base, 0), max(last - self._base, 0))
        return shared.joined(own)


class Records:
    """Records of one arity: tuples of codes to a code and back. Code 0 is `nil`."""

    def __init__(self, arity: int) -> None:
        self._arity = arity
        self._size = 0
        self._fields: list[Column] = [np.empty(16, np.int64) for _ in range(arity)]
        self._index = Trace.empty((EMPTY,) * (arity + 1))
        self._kept = (0, self._index)
        self._lock = threading.Lock()

    def keep(self) -> None:
        """The codes that there are stay for good."""
        self._kept = (self._size, self._index)

    @property
    def is_kept(self) -> bool:
        """Whether no code can be taken back."""
        return self._kept[0] == self._size

    def forget(self) -> None:
        """Take back the codes since `keep`. The caller knows that nobody holds one of them."""
        with self._lock:
            self._size, self._index = self._kept

    def branch(self) -> Records:
        """A table with the codes that are kept; codes that it hands out are its own."""
        branch = Records(self._arity)
        branch._size, branch._index = branch._kept = self._kept
        # No room behind them: the first record that is added copies the columns.
        branch._fields = [column[: branch._size] for column in self._fields]
        return branch

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
        self.keep()


class Values:
    """All tables of one database."""

    def __init__(self) -> None:
        self.symbols = Symbols()
        self._records: dict[int, Records] = {}

    def keep(self) -> None:
        """The codes that there are belong to a state: they stay for good."""
        for table in self._tables():
            table.keep()

    @property
    def is_kept(self) -> bool:
        """Whether every code stays for good."""
        return all(table.is_kept for table in self._tables())

    def forget(self) -> None:
        """Take back the codes since `keep`. The caller knows that nobody holds one of them."""
        for table in self._tables():
            table.forget()

    def branch(self) -> Values:
        """Tables with the codes that are kept, for a question: what is numbered there is of no consequence here."""
        branch = Values()
        branch.symbols = self.symbols.branch()
        branch._records = {arity: table.branch() for arity, table in self.record_tables().items()}
        return branch

    def _tables(self) -> tuple[Symbols | Records, ...]:
        return (self.symbols, *self.record_tables().values())

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
