"""Lists over columns: a list is a record of an element and the rest, or nil."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sempre.kernel.layout import Column
from sempre.kernel.values import Values


def walk(values: Values, items: Column) -> Iterator[tuple[NDArray[np.intp], Column]]:
    """The elements of lists, position by position: the rows whose list is that long, and their elements."""
    table = values.records(2)
    rows = np.flatnonzero(items)
    rest = items[rows]
    while rows.size:
        yield rows, table.field(rest, 0)
        rest = table.field(rest, 1)
        more = np.flatnonzero(rest)
        rows, rest = rows[more], rest[more]


def member(values: Values, items: Column, wanted: Column) -> Column:
    """1 where the list has the element, else 0."""
    found = np.zeros(items.size, np.int64)
    for rows, elements in walk(values, items):
        found[rows] |= elements == wanted[rows]
    return found


def size(values: Values, items: Column) -> Column:
    """How many elements each list has."""
    count = np.zeros(items.size, np.int64)
    for rows, _ in walk(values, items):
        count[rows] += 1
    return count


def first(values: Values, items: Column) -> Column:
    """The first elements of lists that are not empty."""
    return values.records(2).field(items, 0) if items.size else items


def last(values: Values, items: Column) -> Column:
    """The last elements of lists that are not empty."""
    out = np.zeros(items.size, np.int64)
    for rows, elements in walk(values, items):
        out[rows] = elements
    return out
