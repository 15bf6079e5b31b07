"""Keys that are counted while they are made: what a join finds goes into a small table at once, not into an array.

Joins of recursive rules find most facts many times. A table that fits the cache adds the repetitions up before anything
is sorted or compared with what is known. When it is full it is emptied, and starts again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sempre.data import dataclass
from sempre.kernel import compiled
from sempre.kernel.join import Rows, Weights, distinct, magnitude, totals
from sempre.kernel.layout import INT64_MAX, Column, Field, Keys, Packing

# Places of a table, of which half are used at most: two words each, which together fit the cache of a core.
SUM_TABLE_BITS = 15
# Keys that are made before somebody may look at the clock.
GATHERED_KEYS = 1 << 21
# Keys that are sorted together: the more, the fewer have to be compared with what is known and brought together in the
# end. And how many bits a number may have beside its key.
BUCKET_WORDS = 1 << 20
COUNT_BITS = 20
# Closed buckets whose arrays are kept.
IDLE_BUCKETS = 4
ONE: Weights = np.ones(1, np.int64)
NO_WEIGHTS: Weights = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How keys of a packing are made of rows and of the keys that a run has for each row.

    A key is the row's `base`, and some stretches of bits of the run's key, each moved to another place.
    """

    base: Keys
    shifts: Column
    masks: Column
    places: Column

    def taken(self, rows: Rows) -> Recipe:
        """The recipe for some of the rows."""
        return Recipe(self.base.take(rows), self.shifts, self.masks, self.places)


class Mixing:
    """Makes a recipe, column by column."""

    def __init__(self, target: Packing, size: int) -> None:
        self._target = target
        self._base: Keys = np.zeros(size, np.int64)
        self._moves: list[tuple[int, int, int]] = []

    def column(self, at: int, values: Column, known: Field | None) -> bool:
        """Column `at` is what the rows have; False where that does not fit."""
        field, place = self._target.fields[at], self._target.place(at)[0]
        certain = known is field or (known is not None and field.contains(known))
        if not certain and values.size and not field.holds(int(values.min()), int(values.max())):
            return False
        if field.lo:
            values = values - field.lo
        self._base += values << place
        return True

    def constant(self, at: int, value: int) -> bool:
        """Column `at` has the same value everywhere."""
        field, place = self._target.fields[at], self._target.place(at)[0]
        self._base += (value - field.lo) << place if (fits := field.holds(value, value)) else 0
        return fits

    def moved(self, at: int, source: Packing, column: int) -> bool:
        """Column `at` is a column of the run's keys."""
        field, have = self._target.fields[at], source.fields[column]
        if not field.contains(have):
            return False
        place = self._target.place(at)[0]
        self._moves.append((*source.place(column), place))
        self._base += (have.lo - field.lo) << place
        return True

    def recipe(self) -> Recipe:
        moves = self._moves or [(0, 0, 0)]  # the loops make at least one
        shifts, masks, places = (np.array([move[i] for move in moves], np.int64) for i in range(3))
        return Recipe(self._base, shifts, masks, places)


class SumTable(threading.local):
    """The table of a thread; empty whenever nobody gathers."""

    def __init__(self) -> None:
        self.slots: Keys = np.full(1 << SUM_TABLE_BITS, -1, np.int64)
        self.counts: Weights = np.empty(1 << SUM_TABLE_BITS, np.int64)
        self.used: Rows = np.empty(1 << (SUM_TABLE_BITS - 1), np.int64)
        self.state: Column = np.zeros(3, np.int64)


_table: list[SumTable] = []


def gathering(total: int, weights: Weights | None) -> Any:
    """The compiled loops, if they are worth it for so many keys and their numbers cannot overflow."""
    if weights is not None and weights.size and magnitude(weights) * total > INT64_MAX:
        return None
    return compiled.loops(total)


@dataclass(frozen=True, slots=True)
class Join:
    """Keys that a join makes: by a recipe, of rows with weights, and for each the keys of a run from begin to end."""

    recipe: Recipe
    weights: Weights | None
    keys: Keys
    begins: Rows
    ends: Rows

    def arguments(self) -> tuple[Any, ...]:
        recipe, weights = self.recipe, ONE if self.weights is None else self.weights
        return (recipe.base, weights, self.keys, self.begins, self.ends, recipe.shifts, recipe.masks, recipe.places)


def gathered(loops: Any, join: Join) -> Iterator[tuple[Keys, Weights]]:
    """The keys of a join with the sums of their weights, in no order; parts in which each occurs once, some empty."""
    if not _table:
        _table.append(SumTable())
    table = _table[0]
    state, used = table.state, table.used
    state[:] = (0, 0, -1)
    try:
        while True:
            done = loops.gather(*join.arguments(), table.slots, table.counts, used, state, GATHERED_KEYS)
            count = int(state[0])
            if done or count >= used.size:
                yield _emptied(table, count)
            else:
                yield table.slots[:0], table.counts[:0]
            if done:
                return
    finally:
        _emptied(table, int(state[0]))


def _emptied(table: SumTable, count: int) -> tuple[Keys, Weights]:
    at = table.used[:count]
    keys, counts = table.slots[at], table.counts[at]
    table.slots[at] = -1
    table.state[0] = 0
    return keys, counts


class Bucket:
    """Keys of at most `bits` bits with their numbers, until there are enough of them to be sorted together.

    A number is kept in the bits that the key leaves free. What does not fit is handed on at once. What is handed on is
    the bucket's own: who wants to keep it copies it.
    """

    def __init__(self, bits: int, counts: bool, hand_on: Callable[[Keys, Weights], None]) -> None:
        self.spare = min(63 - bits, COUNT_BITS) if counts else 0
        self._counts = counts
        self._words, self._scratch = _arrays()
        self._size = 0
        self._hand_on = hand_on

    def holds(self, weights: Weights | None) -> bool:
        """Whether numbers fit behind the keys."""
        most = 1 if weights is None else magnitude(weights)
        return not self._counts or most < 1 << self.spare

    def pour(self, loops: Any, join: Join) -> None:
        """Take the keys of a join as they come."""
        state = np.array([self._size, 0, -1])
        while not loops.pour(*join.arguments(), self.spare, self._words, state):
            self._size = int(state[0])
            self.empty()
            state[0] = 0
        self._size = int(state[0])

    def add(self, keys: Keys, counts: Weights) -> None:
        """Take distinct keys with their numbers."""
        if not self.holds(counts):
            order = np.argsort(keys)
            self._hand_on(keys[order], counts[order])
            return
        if self._size + keys.size > self._words.size:
            self.empty()
        words = self._words[self._size : self._size + keys.size]
        np.left_shift(keys, self.spare, out=words)
        if self._counts:
            words |= counts
        self._size += keys.size

    def empty(self) -> None:
        """Hand on what there is, sorted and added up."""
        words, self._size = self._words[: self._size], 0
        if not words.size:
            return
        if self._counts:
            self._hand_on(*totals(words, self.spare, self._scratch))
        else:
            self._hand_on(distinct(words, self._scratch), NO_WEIGHTS)

    def close(self) -> None:
        """Hand on what there is, and give the arrays to the next bucket; this one can take nothing more."""
        self.empty()
        if len(_idle) < IDLE_BUCKETS:
            _idle.append((self._words, self._scratch))
        self._words = self._scratch = NO_WEIGHTS


# The arrays of buckets that are closed: fresh memory is slow to touch.
_idle: list[tuple[Keys, Keys]] = []


def forget_idle() -> None:
    """Give up the arrays of buckets that are closed."""
    _idle.clear()


def _arrays() -> tuple[Keys, Keys]:
    try:
        return _idle.pop()
    except IndexError:
        return np.empty(BUCKET_WORDS, np.int64), np.empty(BUCKET_WORDS, np.int64)
