"""Rows that have keys: the last one with a key takes the place of the facts that have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sempre.backends.local import LocalBackend
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic

if TYPE_CHECKING:
    from sempre.api.intake import Encoded
    from sempre.spark.operations import Operations

Column = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """The rows of a relation that take the place of others: `at` are the columns of the key, `keys` all that are met.

    A key that no row has is one whose facts go.
    """

    at: tuple[int, ...]
    keys: list[Column]
    columns: list[Column]
    size: int


def last_with_keys(name: str, given: Operations, columns: list[Column], at: tuple[int, ...]) -> KeyedRows:
    """What the operations of a batch come to: of each key the last one; raises where nothing says which that is."""
    from sempre.spark.operations import last_operations

    own = [columns[each] for each in at]
    plus, minus = last_operations(own, given.inserts, given.ranks)
    _check(name, given, columns, own, plus)
    met = np.concatenate([plus, minus])
    return KeyedRows(at, [column[met] for column in own], [column[plus] for column in columns], plus.size)


def _check(name: str, given: Operations, columns: list[Column], own: list[Column], plus: Any) -> None:
    """Raise if two rows with one key are inserted last, at the same place in the order."""
    order = np.lexsort((given.inserts, given.ranks, *own))
    same = np.ones(max(order.size - 1, 0), np.bool_)
    for column in (*own, given.ranks):
        same &= column[order[1:]] == column[order[:-1]]
    same &= given.inserts[order[1:]] & given.inserts[order[:-1]]
    differs = np.zeros(same.size, np.bool_)
    for column in columns:
        differs |= column[order[1:]] != column[order[:-1]]
    odd = np.flatnonzero(same & differs)
    # Later operations on the key make it certain again.
    last_rank = dict(zip(zip(*(column[plus] for column in own), strict=True), given.ranks[plus], strict=True))
    for at in odd:
        row = order[at]
        if last_rank.get(tuple(column[row] for column in own)) == given.ranks[row]:
            message = f"a batch has several rows of `{name}` with one key, at the same place in the order"
            hint = "Name the column that orders them with order=, or more columns in keys=."
            raise DataError(Diagnostic("E667", message, hint=hint))


def facts_that_go(backend: LocalBackend, name: str, there: Sequence[Column], rows: KeyedRows) -> Encoded:
    """The facts of a relation that have one of the keys, and are not among the rows."""
    if not len(rows.keys) or not rows.keys[0].size or not len(there) or not there[0].size:
        return [np.empty(0, np.int64)] * len(there), 0
    names = [f"c{number}" for number in range(len(there))]
    own = [names[each] for each in rows.at]
    met = pa.table(dict(zip(own, rows.keys, strict=True)))
    old = pa.table(dict(zip(names, there, strict=True))).join(met, own, join_type="left semi").select(names)
    columns = [np.ascontiguousarray(column.to_numpy()) for column in old.columns]
    new = backend.version(backend.rows(name, rows.columns, rows.size))
    gone = backend.difference(backend.rows(name, columns, old.num_rows), new)
    return gone.columns(), len(gone)
