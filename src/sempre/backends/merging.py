"""Bindings that became alike are merged, as soon as what told them apart is no longer read.

In `value_alias(x, y) :- memory_alias(z, w), value_flow(z, x), value_flow(w, y)` nothing reads `z` once `x` is bound.
Rows with the same `x` and `w` find the same, and one of them is enough, if it stands for as many instances as all.

A look at a few rows, chosen by chance, tells whether most rows are alike. Where they are not, it is some time before
they are looked at again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sempre.backends.bindings import Bindings
from sempre.kernel import join
from sempre.kernel.layout import Column, Field, Keys, Packing, packing, span_of

# So many rows are looked at, or one in so many; rows are merged where about so many stand for one.
LOOKED_AT = 1024
LEAST_SHARE = 8
SHARING = 4
# So often rows are taken as they come after a look in vain.
LEFT_OUT = 16

_CHANCES = np.random.default_rng(17).random(LOOKED_AT)


class Merger:
    """Merges rows before one step of a plan; remembers whether it paid."""

    def __init__(self, least_rows: int, looked_up: Sequence[str]) -> None:
        self._least_rows = least_rows
        # Rows come out in an order that the next step finds things by.
        self._looked_up = tuple(dict.fromkeys(looked_up))
        self._left_out = 0

    def merged(self, rows: Bindings, counts: bool | None) -> Bindings:
        """The rows, each once if many are alike.

        `counts` is whether rows without weights stand for an instance each, which has to be known afterwards. It is
        None where that is not known: then only rows with weights are merged.
        """
        if rows.size < self._least_rows or (counts is None and rows.weights is None):
            return rows
        if self._left_out:
            self._left_out -= 1
            return rows
        if not rows.columns:
            return _as_one(rows, bool(counts))
        columns = self._columns(rows)
        layout = _layout(rows, columns)
        if layout is None or not _are_alike(list(columns.values()), rows.size, layout):
            self._left_out = LEFT_OUT
            return rows
        keys, weights = _summed(rows, layout, layout.pack(list(columns.values()), rows.size), bool(counts))
        found = {name: layout.unpack(keys, at) for at, name in enumerate(columns)}
        return Bindings(int(keys.size), found, rows.fields, weights)

    def _columns(self, rows: Bindings) -> dict[str, Column]:
        first = {name: rows.columns[name] for name in self._looked_up if name in rows.columns}
        return first | {name: column for name, column in rows.columns.items() if name not in first}


def are_alike(column: Column, size: int) -> bool:
    """The same for a single column, whatever is in it."""
    if size < LOOKED_AT:
        return True
    values = np.sort(column.take((_CHANCES[: size // LEAST_SHARE] * size).astype(np.intp)))
    return _is_shared(int(np.count_nonzero(values[1:] == values[:-1])), values.size, size)


def _are_alike(columns: Sequence[Column], size: int, layout: Packing) -> bool:
    """Whether about `SHARING` rows stand for one."""
    if size < LOOKED_AT:
        return True
    at = (_CHANCES[: size // LEAST_SHARE] * size).astype(np.intp)
    keys = np.sort(layout.pack([column.take(at) for column in columns], at.size))
    alike = int(np.count_nonzero(keys[1:] == keys[:-1]))
    return _is_shared(alike, at.size, size)


def _is_shared(alike: int, looked_at: int, size: int) -> bool:
    """Whether so many equal neighbors among those that were looked at say that about `SHARING` rows stand for one."""
    # The same row may be looked at twice: half as often as each of two rows that are alike are both looked at.
    return alike * size * 2 >= looked_at * looked_at * (SHARING + 1)


def _layout(rows: Bindings, columns: Mapping[str, Column]) -> Packing | None:
    """Keys of all columns in one word; None where they do not fit."""
    fields = tuple(rows.fields.get(name) or Field.covering(*span_of(column)) for name, column in columns.items())
    layout = packing(fields, tuple(range(len(fields))))
    return layout if layout.narrow else None


def _as_one(rows: Bindings, counts: bool) -> Bindings:
    """Rows that nothing is read of any more."""
    if rows.weights is not None:
        return Bindings(1, {}, rows.fields, join.added(rows.weights, np.zeros(1, np.intp)))
    return Bindings(1, {}, rows.fields, np.array([rows.size]) if counts else None)


def _summed(rows: Bindings, layout: Packing, keys: Keys, counts: bool) -> tuple[Keys, join.Weights | None]:
    if rows.weights is not None:
        if int(rows.weights.min()) >= 0:
            return join.summed(keys, rows.weights, layout.bits)
        return join.consolidate(keys, rows.weights)
    keys = keys.copy() if any(keys is column for column in rows.columns.values()) else keys
    return join.tally(keys) if counts else (join.distinct(keys), None)
