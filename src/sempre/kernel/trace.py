"""Sets of rows as sorted runs, and the versions of a relation that rules read.

A `Trace` holds a set of rows as a few runs of sorted keys, in the relation's own column order and in every other
order that some plan looks up by. It is never changed: `adding` and `removing` return a new trace that shares the runs,
so that an old version stays readable for as long as somebody holds it, and giving up an update is dropping a
reference. New rows form a new run; a run is merged into the one before it when that is not much larger, so a row is
rewritten a logarithmic number of times. Removed rows go to a trace of their own, `dead`, until it is worth rewriting
the runs without them: either way the cost is that of the change.

A `TraceView` is what a rule reads: some traces, each minus others. `old`, `new` and the intermediate states of an
update are views over the same runs.

Reference: [DD] on traces of sorted, merged batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from sempre.data import dataclass
from sempre.kernel import join
from sempre.kernel.layout import Column, Field, Keys, Packing, fields_covering, packing
from sempre.kernel.run import Run

Order = tuple[int, ...]

# Where all that the kernel has is: in this process, which drives the others where there are others.
PLACE = "driver"

# A run is merged into the one before it when that one is at most this many times larger, or small anyway.
MERGE_RATIO = 8
SMALL_RUN = 512
# Dead rows are purged when there are more than one for this many rows.
DEAD_SHARE = 8


def _push(runs: tuple[Run, ...], keys: Keys) -> tuple[Run, ...]:
    while runs and (runs[-1].size <= MERGE_RATIO * keys.size or runs[-1].size + keys.size <= SMALL_RUN):
        keys = join.merge(runs[-1].keys, keys)
        runs = runs[:-1]
    return (*runs, Run(keys))


class Trace:
    """An immutable set of rows of one relation, indexed by one or more column orders."""

    __slots__ = ("dead", "orders", "own", "packing", "size")

    place: ClassVar[str] = PLACE

    def __init__(
        self,
        packing: Packing,
        orders: dict[Order, tuple[Run, ...]],
        size: int,
        dead: Trace | None = None,
    ) -> None:
        self.packing = packing
        self.own: Order = packing.order
        self.orders = orders
        self.size = size
        self.dead = dead

    @staticmethod
    def empty(fields: tuple[Field, ...], orders: Iterable[Order] = ()) -> Trace:
        own = tuple(range(len(fields)))
        return Trace(packing(fields, own), dict.fromkeys((own, *orders), ()), 0)

    @staticmethod
    def of(rows: RowSet, orders: Iterable[Order] = ()) -> Trace:
        """A trace of these rows, indexed by `orders` as well."""
        plain = Trace(rows.packing, {rows.packing.order: (Run(rows.keys),)}, len(rows))
        return plain.indexed(orders)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.packing.fields

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        own = sum(int(run.keys.nbytes) for runs in self.orders.values() for run in runs)
        return own if self.dead is None else own + self.dead.nbytes

    def rows(self) -> RowSet:
        """All rows, sorted."""
        keys = merged(self.orders[self.own], self.packing)
        if self.dead is not None:
            keys = _without(keys, self.dead.orders[self.own])
        return RowSet(self.packing, keys)

    # ------------------------------------------------------------------------------------------- new versions

    def indexed(self, orders: Iterable[Order]) -> Trace:
        """This trace with the given orders too."""
        missing = [order for order in orders if order not in self.orders]
        if not missing:
            return self
        runs = dict(self.orders)
        for order in missing:
            target = self.packing.reordered(order)
            runs[order] = tuple(Run(_reordered(run.keys, self.packing, target)) for run in self.orders[self.own])
        dead = None if self.dead is None else self.dead.indexed(missing)
        return Trace(self.packing, runs, self.size, dead)

    def adding(self, rows: RowSet) -> Trace:
        """This trace with `rows`, none of which it holds."""
        if not rows.keys.size:
            return self
        if rows.packing is not self.packing:
            return self._adding_repacked(rows)
        if self.dead is not None:
            return self._reviving(rows)
        return self._pushed(rows.keys)

    def removing(self, rows: RowSet) -> Trace:
        """This trace without `rows`, all of which it holds."""
        if not rows.keys.size:
            return self
        rows = rows.repacked(self.packing)
        dead = self.dead or Trace.empty(self.fields, self.orders)
        dead = dead.adding(rows)
        left = Trace(self.packing, self.orders, self.size - rows.keys.size, dead)
        return left.purged() if dead.size * DEAD_SHARE > self.size else left

    def widened(self, fields: tuple[Field, ...]) -> Trace:
        """The same rows under wider fields; every packing sorts rows alike, so the runs stay sorted."""
        if fields == self.fields:
            return self
        orders = {}
        for order, runs in self.orders.items():
            source, target = self.packing.reordered(order), packing(fields, order)
            orders[order] = tuple(Run(target.pack(source.columns(run.keys), run.size)) for run in runs)
        dead = None if self.dead is None else self.dead.widened(fields)
        return Trace(packing(fields, self.own), orders, self.size, dead)

    def _pushed(self, keys: Keys) -> Trace:
        orders = {}
        for order, runs in self.orders.items():
            run = keys if order == self.own else _reordered(keys, self.packing, self.packing.reordered(order))
            orders[order] = _push(runs, run)
        return Trace(self.packing, orders, self.size + keys.size, self.dead)

    def _adding_repacked(self, rows: RowSet) -> Trace:
        fields = fields_covering(rows.packing.columns(rows.keys), self.fields)
        return self.widened(fields).adding(rows.repacked(packing(fields, self.own)))

    def _reviving(self, rows: RowSet) -> Trace:
        """Rows that are dead come back by leaving `dead`; the others are pushed as usual."""
        assert self.dead is not None
        again = self.dead.contains(rows)
        if not again.any():
            return self._pushed(rows.keys)
        dead = self.dead.removing(RowSet(rows.packing, rows.keys[again])).purged()
        fresh = rows.keys[~again]
        alive = Trace(self.packing, self.orders, self.size + int(again.sum()), dead if dead.size else None)
        return alive._pushed(fresh) if fresh.size else alive

    def purged(self) -> Trace:
        """The same rows as one run per order, none dead."""
        if self.dead is None:
            return self
        orders: dict[Order, tuple[Run, ...]] = {}
        for order, runs in self.orders.items():
            layout = self.packing.reordered(order)
            orders[order] = (Run(_without(merged(runs, layout), self.dead.orders[order])),)
        return Trace(self.packing, orders, self.size)

    # ------------------------------------------------------------------------------------------------ reading

    def contains(self, rows: RowSet) -> join.Mask:
        """Which of the sorted `rows` this trace holds."""
        keys = rows.keys
        if rows.packing is not self.packing:
            columns = rows.packing.columns(keys)
            fits = within(columns, self.fields)
            found = np.zeros(keys.size, np.bool_)
            if fits.any():
                inside = self.packing.pack([column[fits] for column in columns], int(fits.sum()))
                found[fits] = self.holds(inside)
            return found
        return self.holds(keys)

    def holds(self, keys: Keys) -> join.Mask:
        """Which of some sorted keys, packed as its own are, this trace holds."""
        found: join.Mask | None = None
        for run in self.orders[self.own]:
            hit = run.among(keys)
            found = hit if found is None else found | hit
        if found is None:
            return np.zeros(keys.size, np.bool_)
        if self.dead is not None:
            found &= ~self.dead.holds(keys)
        return found

    def count(self, order: Order, low: Keys, high: Keys, exact: bool) -> Column:
        """How many rows lie within each pair of bounds; `exact` when the bounds are equal."""
        total: Column | None = None
        for run in self.orders[order]:
            if exact:
                hits = run.member(low).view(np.int8)
            else:
                starts, stops = run.ranges(low, high)
                hits = stops - starts
            total = hits.astype(np.int64) if total is None else total + hits
        if total is None:
            return np.zeros(low.size, np.int64)
        if self.dead is not None:
            total -= self.dead.count(order, low, high, exact)
        return total


def merged(runs: Sequence[Run], layout: Packing) -> Keys:
    """The runs as one sorted array."""
    if not runs:
        return np.empty(0, layout.dtype)
    keys = runs[-1].keys
    for run in reversed(runs[:-1]):
        keys = join.merge(run.keys, keys)
    return keys


def _without(keys: Keys, runs: Sequence[Run]) -> Keys:
    """The keys that occur in none of the runs."""
    for run in runs:
        keys = run.left_of(keys)
    return keys


def _reordered(keys: Keys, source: Packing, target: Packing) -> Keys:
    return join.ordered(target.pack(source.columns(keys), keys.size))


def within(columns: Sequence[Column], fields: Sequence[Field]) -> join.Mask:
    """Which rows have every column inside its field."""
    fits: join.Mask = np.ones(columns[0].size if columns else 0, np.bool_)
    for column, field in zip(columns, fields, strict=True):
        fits &= (column >= field.lo) & (column <= field.hi)
    return fits


class Decoding(Protocol):
    """Knows what codes stand for."""

    def decoded(self, columns: Sequence[Column], size: int) -> Any: ...

    def streamed(self, columns: Callable[[int, int], Sequence[Column]], size: int) -> Any: ...


class Framing(Decoding, Protocol):
    """Knows how a DataFrame is made, too."""

    def framed(self, table: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class RowSet:
    """Distinct rows of a relation as sorted keys, in the relation's own column order."""

    packing: Packing
    keys: Keys
    place: ClassVar[str] = PLACE

    def __len__(self) -> int:
        return int(self.keys.size)

    def repacked(self, target: Packing) -> RowSet:
        """The same rows under a packing that has room for them."""
        if target is self.packing:
            return self
        return RowSet(target, target.pack(self.packing.columns(self.keys), self.keys.size))

    def columns(self) -> list[Column]:
        return self.packing.columns(self.keys)

    def to_arrow(self, shape: Decoding) -> Any:
        """An Arrow table of what the codes stand for."""
        return shape.decoded(self.columns(), len(self))

    def to_stream(self, shape: Decoding) -> Any:
        """The same, decoded some rows at a time."""
        packing, keys = self.packing, self.keys
        return shape.streamed(lambda begin, end: packing.columns(keys[begin:end]), len(self))

    def to_frame(self, shape: Framing) -> Any:
        """A DataFrame of what the codes stand for."""
        return shape.framed(self.to_arrow(shape))


class ExcludedRows(Protocol):
    """Rows that a view leaves out: a trace, or a test that a trace's rows are put to.

    `size` is zero when there are none for certain; `len` is how many there are at least.
    """

    @property
    def size(self) -> int: ...

    @property
    def packing(self) -> Packing: ...

    @property
    def fields(self) -> tuple[Field, ...]: ...

    def __len__(self) -> int: ...

    def contains(self, rows: RowSet) -> join.Mask: ...

    def count(self, order: Order, low: Keys, high: Keys, exact: bool) -> Column: ...


@dataclass(frozen=True, slots=True)
class TraceView:
    """A version of a relation: the union of disjoint parts, each a trace without some of its rows."""

    parts: tuple[tuple[Trace, tuple[ExcludedRows, ...]], ...]

    @staticmethod
    def of(*traces: Trace) -> TraceView:
        return TraceView(tuple((trace, ()) for trace in traces))

    def without(self, *excluded: ExcludedRows) -> TraceView:
        """This view minus traces whose rows all lie in its first part."""
        (trace, already), *rest = self.parts
        return TraceView(((trace, (*already, *excluded)), *rest))

    def plus(self, *traces: Trace) -> TraceView:
        """This view with traces it is disjoint from."""
        return TraceView((*self.parts, *((trace, ()) for trace in traces)))

    def __len__(self) -> int:
        """How many rows; at most how many, if something is excluded that only a look at a row can tell."""
        return sum(trace.size - sum(len(x) for x in excluded) for trace, excluded in self.parts)

    def contains(self, rows: RowSet) -> join.Mask:
        found = np.zeros(len(rows), np.bool_)
        for trace, excluded in self.parts:
            hit = trace.contains(rows)
            for other in excluded:
                hit &= ~other.contains(rows)
            found |= hit
        return found
