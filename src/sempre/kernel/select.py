"""Rows by the values of their columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sempre.data import dataclass
from sempre.kernel.join import Mask
from sempre.kernel.layout import Column, Keys
from sempre.kernel.trace import RowSet

# Rows that are compared at once.
STRETCH = 1 << 18


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows are wanted: some columns have a value, some pairs of columns are equal."""

    values: tuple[tuple[int, int], ...] = ()
    same: tuple[tuple[int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.values or self.same)

    @property
    def lead(self) -> tuple[int, ...]:
        """The values of the first columns, as far as they are given."""
        given = dict(self.values)
        count = next(at for at in range(len(given) + 1) if at not in given)
        return tuple(given[at] for at in range(count))

    def mask(self, column: Callable[[int], Column], size: int) -> Mask:
        """Which of `size` rows, given by their columns, are wanted."""
        keep: Mask = np.ones(size, np.bool_)
        for at, value in self.values:
            keep &= column(at) == value
        for left, right in self.same:
            keep &= column(left) == column(right)
        return keep

    def of(self, rows: RowSet) -> RowSet:
        """The wanted rows: the first columns are looked up, the others compared, a stretch of rows at a time."""
        packing, keys, lead = rows.packing, rows.keys, self.lead
        if any(not packing.fields[at].holds(value, value) for at, value in self.values):
            return RowSet(packing, keys[:0])
        if lead:
            low, high = packing.bounds([np.array([value]) for value in lead], 1)
            keys = keys[keys.searchsorted(low[0]) : keys.searchsorted(high[0], side="right")]
        rest = Selection(tuple(each for each in self.values if each[0] >= len(lead)), self.same)
        if rest:
            parts = [keys[at : at + STRETCH] for at in range(0, keys.size, STRETCH)]
            found = [part[rest.mask(_unpacking(rows, part), part.size)] for part in parts]
            keys = np.concatenate(found) if found else keys
        return RowSet(packing, keys)


def _unpacking(rows: RowSet, keys: Keys) -> Callable[[int], Column]:
    return lambda at: rows.packing.unpack(keys, at)
