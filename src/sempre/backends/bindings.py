"""Rows of variable bindings, and what expressions are worth in them.

A table of bindings has a column per variable. With `weights`, every row stands for that many instances (or, negative,
for instances lost); without, rows are a set and multiplicities do not matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from sempre.analysis.model import Const, Expr, Kind, Var
from sempre.kernel import functors, gather, join
from sempre.kernel.layout import Column, Field, Packing
from sempre.kernel.tally import Tally
from sempre.kernel.trace import TraceView
from sempre.kernel.values import Values, float_codes
from sempre.plan.ops import Read

Views: TypeAlias = Mapping[tuple[str, Read], TraceView | Tally]  # a tally for `Read.RANK`, a view for all else


def view_of(views: Views, key: tuple[str, Read]) -> TraceView:
    """What is read by this name: all but ranks."""
    found = views[key]
    assert isinstance(found, TraceView)
    return found


class Bindings:
    """Rows of variable bindings. `fields` bounds the columns that came straight from a relation."""

    __slots__ = ("columns", "fields", "size", "weights")

    def __init__(
        self,
        size: int,
        columns: dict[str, Column],
        fields: dict[str, Field],
        weights: join.Weights | None = None,
    ) -> None:
        self.size = size
        self.columns = columns
        self.fields = fields
        self.weights = weights

    @staticmethod
    def unit(counted: bool) -> Bindings:
        """One row that binds nothing: where every plan starts."""
        return Bindings(1, {}, {}, np.ones(1, np.int64) if counted else None)

    def take(self, rows: join.Rows, live: frozenset[str]) -> Bindings:
        """These rows, in this order; only the live columns."""
        columns = {name: column.take(rows) for name, column in self.columns.items() if name in live}
        weights = None if self.weights is None else self.weights.take(rows)
        return Bindings(rows.size, columns, self.fields, weights)

    def keep(self, mask: join.Mask, live: frozenset[str]) -> Bindings:
        """The rows that the mask selects."""
        kept = int(np.count_nonzero(mask))
        if kept == self.size:
            return self
        return self.take(np.flatnonzero(mask), live) if kept else Bindings(0, {}, {}, self.weights)

    def piece(self, start: int, stop: int) -> Bindings:
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        weights = None if self.weights is None else self.weights[start:stop]
        return Bindings(stop - start, columns, self.fields, weights)


class Gather(ABC):
    """Where the facts of a plan go: as bindings of all variables, or at once as keys where the arguments are plain."""

    def __init__(self, heads: Sequence[Expr], target: Packing) -> None:
        plain = tuple(arg for arg in heads if isinstance(arg, Var | Const))
        self.heads = plain if len(plain) == len(heads) else None
        self.target = target

    @abstractmethod
    def __call__(self, rows: Bindings) -> None:
        """Take the facts that these rows stand for."""

    @abstractmethod
    def keep(self, loops: Any, found: gather.Join) -> Iterator[None]:
        """Take the facts whose keys a join makes; stops now and then for others to look at the clock."""


Runner: TypeAlias = Callable[[Bindings, Views], "Bindings | list[Bindings]"]
Sink: TypeAlias = Callable[[Bindings], None]


class Runnable(Protocol):
    """Steps that rows go through."""

    def run(self, rows: Bindings, views: Views, sink: Sink, start: int = 0, counts: bool | None = None) -> None:
        """Send what the steps make of `rows` to `sink`."""
        ...

    def forget(self) -> None:
        """Give up what was remembered for other rows of the same run."""
        ...


def encode(values: Values, const: Const) -> int:
    """The code of a constant."""
    value = const.value
    if const.kind is Kind.SYMBOL:
        return values.symbols.code(str(value))
    if const.kind is Kind.FLOAT:
        assert isinstance(value, int | float)
        return int(float_codes(np.array([float(value)]))[0])
    if value is None:
        return 0
    assert isinstance(value, int)
    return value - (1 << 64) if value >= 1 << 63 else value


def compute(values: Values, expr: Expr, rows: Bindings) -> Column:
    """The value of `expr` for every row."""
    if isinstance(expr, Var):
        return rows.columns[expr.name]
    if isinstance(expr, Const):
        return np.full(rows.size, encode(values, expr))
    args = [compute(values, arg, rows) for arg in expr.args]
    return functors.call(values, expr.op, expr.operand.value, args, rows.size)


def concatenated(found: list[Bindings]) -> Bindings:
    """The rows of all of them, with the columns that all have.

    Of a piece from which no row was dropped, columns are left that nothing reads any more.
    """
    if len(found) == 1:
        return found[0]
    if not found:
        return Bindings(0, {}, {})
    first = found[0]
    shared = [name for name in first.columns if all(name in b.columns for b in found)]
    columns = {name: np.concatenate([b.columns[name] for b in found]) for name in shared}
    fields = {
        name: field for name, field in first.fields.items() if all(b.fields.get(name) == field for b in found[1:])
    }
    weights = None if first.weights is None else np.concatenate([b.weights for b in found if b.weights is not None])
    return Bindings(sum(b.size for b in found), columns, fields, weights)
