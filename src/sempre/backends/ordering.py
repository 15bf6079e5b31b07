"""Rows kept sorted by one column within groups, to tell what stands next to what."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sempre.analysis.model import Kind
from sempre.kernel.blocks import Blocks
from sempre.kernel.join import Mask
from sempre.kernel.layout import EMPTY, INT64_MAX, INT64_MIN, Column, Keys, Packing, fields_covering, packing
from sempre.kernel.trace import RowSet, within
from sempre.kernel.values import NAN_BITS
from sempre.plan.ops import Neighbors

Make = Callable[[str, Sequence[Column], int], RowSet]


class Ordering:
    """Rows of one relation, sorted by groups, then by the value of a column, then by the rest. Immutable.

    Values are kept as integers that sort like them: the codes of unsigned and float columns do not. A NaN is neither
    less nor greater than anything, so that it is nobody's neighbor and is left out.
    """

    __slots__ = ("_blocks", "_make", "_order", "_packing")

    def __init__(self, order: Neighbors, make: Make, layout: Packing, blocks: Blocks) -> None:
        self._order = order
        self._make = make
        self._packing = layout
        self._blocks = blocks

    @staticmethod
    def of(order: Neighbors, rows: RowSet, make: Make) -> Ordering:
        """An ordering of these rows; `make` turns columns into rows of a relation."""
        columns = _sortable(rows.columns(), order)
        known = [EMPTY if index == order.column else field for index, field in enumerate(rows.packing.fields)]
        fields = fields_covering(columns, known)
        layout = packing(fields, _sorted_by(order, len(columns)))
        keys = layout.pack(columns, columns[0].size)
        return Ordering(order, make, layout, Blocks.of(np.sort(keys)))

    def changed(self, plus: RowSet, minus: RowSet) -> Ordering:
        """The ordering with and without some rows."""
        coming, going = (_sortable(rows.columns(), self._order) for rows in (plus, minus))
        fitting = self._fitting(coming)
        keys = [np.sort(fitting._packing.pack(columns, columns[0].size)) for columns in (coming, going)]
        return Ordering(self._order, self._make, fitting._packing, fitting._blocks.changed(keys[0], keys[1]))

    def neighbors(self) -> RowSet:
        """All neighbors."""
        keys = self._blocks.flat()
        columns = self._values(keys)
        fresh = _differs(columns, keys.size)
        columns = [column[fresh] for column in columns]
        alike = ~_differs(columns[:-1], columns[-1].size)[1:]
        low, high = columns[-1][:-1][alike], columns[-1][1:][alike]
        return self._rows([column[1:][alike] for column in columns[:-1]], low, high)

    def around(self, rows: RowSet) -> RowSet:
        """Neighbors of which one has the group and value of some row, or between which it would stand."""
        columns = _sortable(rows.columns(), self._order)
        leading = (*self._order.groups, self._order.column)
        # Beyond the fields there are no values: whatever stands there has nobody on one side of it. The other columns
        # say nothing about where a row stands, so they may hold what this ordering has no room for.
        fits = within([columns[at] for at in leading], [self._packing.fields[at] for at in leading])
        prefix = [columns[at][fits] for at in leading]
        lows, highs = (np.unique(keys) for keys in self._packing.bounds(prefix, prefix[-1].size))
        own = self._values(lows)
        has_same, same = self._blocks.after(lows, inclusive=True)
        has_same &= same <= highs
        (has_before, before), (has_after, after) = (
            (has & _alike(values[:-1], own[:-1], lows.size), values)
            for has, keys in (self._blocks.before(lows), self._blocks.after(highs))
            for values in (self._values(keys),)
        )
        pairs = (
            (has_before & has_same, before[-1], own[-1]),
            (has_same & has_after, own[-1], after[-1]),
            (has_before & has_after & ~has_same, before[-1], after[-1]),
        )
        groups = [np.concatenate([column[keep] for keep, _, _ in pairs]) for column in own[:-1]]
        low, high = (np.concatenate([pair[side][pair[0]] for pair in pairs]) for side in (1, 2))
        return self._rows(groups, low, high)

    def _rows(self, groups: list[Column], low: Column, high: Column) -> RowSet:
        pair = [_turned(side, self._order.kind) for side in (low, high)]
        return self._make(self._order.relation, [*groups, *pair], low.size)

    def _values(self, keys: Keys) -> list[Column]:
        return [self._packing.unpack(keys, column) for column in (*self._order.groups, self._order.column)]

    def _fitting(self, columns: Sequence[Column]) -> Ordering:
        """This ordering with room for some rows."""
        fields = fields_covering(columns, self._packing.fields)
        if fields == self._packing.fields:
            return self
        layout = packing(fields, self._packing.order)
        old = self._blocks.flat()
        keys = layout.pack(self._packing.columns(old), old.size)
        return Ordering(self._order, self._make, layout, Blocks.of(keys))


def _sorted_by(order: Neighbors, arity: int) -> tuple[int, ...]:
    leading = (*order.groups, order.column)
    return (*leading, *(column for column in range(arity) if column not in leading))


def _sortable(columns: Sequence[Column], order: Neighbors) -> list[Column]:
    """The columns with values that sort like what they stand for, without rows that have no place in the order."""
    values = columns[order.column]
    if order.kind is Kind.FLOAT:
        keep = values != NAN_BITS
        if not keep.all():
            columns = [column[keep] for column in columns]
            values = columns[order.column]
    turned = _turned(values, order.kind)
    return [turned if index == order.column else column for index, column in enumerate(columns)]


def _turned(values: Column, kind: Kind) -> Column:
    """Codes as integers in the order of their values; doing it twice gives the codes back."""
    if kind is Kind.UNSIGNED:
        return values ^ INT64_MIN
    if kind is Kind.FLOAT:
        # The bits of negative floats grow with their magnitude.
        return np.where(values < 0, values ^ INT64_MAX, values)
    return values


def _differs(columns: Sequence[Column], size: int) -> Mask:
    """Which rows differ from the row before; the first one does."""
    fresh = np.zeros(size, np.bool_)
    fresh[:1] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return fresh


def _alike(one: Sequence[Column], other: Sequence[Column], size: int) -> Mask:
    """Which rows are equal."""
    alike = np.ones(size, np.bool_)
    for a, b in zip(one, other, strict=True):
        alike &= a == b
    return alike
