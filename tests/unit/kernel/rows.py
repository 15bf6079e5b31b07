"""Rows for the tests of the kernel: plain tuples on one side, packed keys on the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from hypothesis import strategies as st

from sempre.kernel import join
from sempre.kernel.layout import Column, Field, Keys, fields_covering, packing
from sempre.kernel.trace import RowSet

Row = tuple[int, ...]

LOW, HIGH = -(1 << 63), (1 << 63) - 1
# Values around everything that decides a layout: zero, the sign, the width of a word.
EDGES = (0, 1, -1, 2, 7, 8, 255, -256, 1 << 31, (1 << 62) - 1, 1 << 62, -(1 << 62), HIGH - 1, HIGH, LOW, LOW + 1)
SMALL = st.integers(0, 6)
ANY = st.one_of(SMALL, st.sampled_from(EDGES), st.integers(LOW, HIGH))


def columns_of(rows: Sequence[Row], arity: int) -> list[Column]:
    return [np.array([row[c] for row in rows], np.int64) for c in range(arity)]


def row_set(rows: Iterable[Row], fields: tuple[Field, ...]) -> RowSet:
    """The distinct rows, packed with `fields` widened as needed."""
    listed = list(rows)
    columns = columns_of(listed, len(fields))
    layout = packing(fields_covering(columns, fields), tuple(range(len(fields))))
    return RowSet(layout, join.distinct(layout.pack(columns, len(listed)).copy()))


def tuples(columns: Sequence[Column]) -> list[Row]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def keys(values: Iterable[int]) -> Keys:
    return np.array(list(values), np.int64)
