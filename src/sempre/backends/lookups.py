"""Lookups in one version of a relation: bindings, joined with what they find through an index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from sempre.analysis.model import Const, Var
from sempre.backends.bindings import Bindings, Views, concatenated, encode, view_of
from sempre.backends.sieves import Sieving
from sempre.kernel import gather, join
from sempre.kernel.layout import Column, Field, Keys, Packing
from sempre.kernel.run import Run
from sempre.kernel.sieve import Sieve
from sempre.kernel.trace import ExcludedRows, Trace, TraceView
from sempre.kernel.values import Values
from sempre.plan.ops import Probe, Step

# For each run of an index that has something, where the keys that each row finds in it begin and end.
Spans: TypeAlias = list[tuple[Run, join.Rows, join.Rows]]


class ProbeRunner:
    """Join with one version of a relation through an index."""

    def __init__(
        self, step: Probe, values: Values, piece_rows: int, live: frozenset[str], following: Sequence[Step] = ()
    ) -> None:
        self._piece_rows = piece_rows
        self._sieving = Sieving(step, following, values)
        self._key = (step.relation, step.read)
        self._codes = values
        self._order = step.order
        self._lookup = step.lookup
        self._constants = [encode(values, a) if isinstance(a, Const) else 0 for a in step.lookup]
        self._prefix = step.prefix
        self._binds = step.binds
        self._same = step.same
        self._live = live
        self._exact = len(step.lookup) == len(step.order)

    def __call__(self, rows: Bindings, views: Views) -> Bindings | list[Bindings]:
        view = view_of(views, self._key)
        prefix = self._values(rows)
        if not self._binds and not self._same:
            return self._restrict(rows, view, prefix)
        found: list[Bindings] = []
        for part, excluded in view.parts:
            if part.size:
                some = self._join(rows, views, (part, excluded), prefix)
                if isinstance(some, list):
                    return some
                if some is not None:
                    found.append(some)
        return concatenated(found)

    @property
    def looked_up(self) -> list[str]:
        """The variables that are looked up, in the order of the index."""
        return [arg.name for arg in self._lookup if isinstance(arg, Var)]

    def _values(self, rows: Bindings) -> list[Column]:
        """What is looked up for every row, column by column."""
        return [
            rows.columns[arg.name] if isinstance(arg, Var) else np.full(rows.size, constant)
            for arg, constant in zip(self._lookup, self._constants, strict=True)
        ]

    def found(self, rows: Bindings, views: Views) -> Column:
        """For every row, about how many rows the lookup will find: what is excluded counts too."""
        prefix, total = self._values(rows), np.zeros(rows.size, np.int64)
        for part, _ in view_of(views, self._key).parts:
            if part.size:
                total += self._count(rows, part, prefix)
        return total

    def _restrict(self, rows: Bindings, view: TraceView, prefix: list[Column]) -> Bindings:
        """A probe that binds nothing only counts what it finds."""
        hits = self.hits(rows, view, prefix)
        kept = rows.keep(hits > 0, self._live)
        if rows.weights is not None and not self._exact and kept.size:
            weights = join.multiplied(rows.weights, hits)
            kept = Bindings(kept.size, kept.columns, kept.fields, weights[hits > 0])
        return kept

    def hits(self, rows: Bindings, view: TraceView, prefix: list[Column]) -> Column:
        """For every row, how many rows of the view it joins with."""
        total: Column = np.zeros(rows.size, np.int64)
        for part, excluded in view.parts:
            if part.size:
                total += self._count(rows, part, prefix)
                for other in excluded:
                    if other.size:
                        total -= self._count(rows, other, prefix)
        return total

    def _count(self, rows: Bindings, trace: ExcludedRows, prefix: list[Column]) -> Column:
        inside = self._inside(rows, trace.fields, prefix)
        if inside is not None:
            counts: Column = np.zeros(rows.size, np.int64)
            at = np.flatnonzero(inside)
            if at.size:
                low, high = trace.packing.reordered(self._order).bounds([c.take(at) for c in prefix], at.size)
                counts[at] = trace.count(self._order, low, high, self._exact)
            return counts
        low, high = trace.packing.reordered(self._order).bounds(prefix, rows.size)
        return trace.count(self._order, low, high, self._exact)

    def _inside(self, rows: Bindings, fields: tuple[Field, ...], prefix: list[Column]) -> join.Mask | None:
        """Which rows have lookup values that the relation can hold at all; None when all do."""
        inside: join.Mask | None = None
        for arg, column, values in zip(self._lookup, self._prefix, prefix, strict=True):
            field = fields[column]
            if isinstance(arg, Var):
                known = rows.fields.get(arg.name)
                if known is field or (known is not None and field.contains(known)):
                    continue
            fits = (values >= field.lo) & (values <= field.hi)
            if not fits.all():
                inside = fits if inside is None else inside & fits
        return inside

    def _join(
        self, rows: Bindings, views: Views, part: tuple[Trace, tuple[ExcludedRows, ...]], prefix: list[Column]
    ) -> Bindings | list[Bindings] | None:
        trace, excluded = part
        at, spans = self._spans(rows, trace, prefix)
        total = _total(spans)
        if not total:
            return None
        if total > self._piece_rows and rows.size > 1:
            return list(_pieces(rows, at, spans, self._piece_rows))
        layout = trace.packing.reordered(self._order)
        sieve = self._sieving.sieve(views, layout, total)
        found_rows, found_keys = _expand(spans, sieve)
        if sieve is not None:
            self._sieving.saw(total, found_keys.size)
        if trace.dead is not None:
            excluded = (*excluded, trace.dead)
        for other in excluded:
            if other.size:
                gone = _member_of(other, self._order, found_keys, layout)
                found_rows, found_keys = found_rows[~gone], found_keys[~gone]
        return self.bind(rows, found_rows if at is None else at.take(found_rows), found_keys, layout)

    def _spans(self, rows: Bindings, trace: Trace, prefix: list[Column]) -> tuple[join.Rows | None, Spans]:
        """Which rows may find something, if not all, and what they find in every run."""
        at: join.Rows | None = None
        inside = self._inside(rows, trace.fields, prefix)
        if inside is not None:
            at = np.flatnonzero(inside)
            if not at.size:
                return at, []
            prefix = [column.take(at) for column in prefix]
        low, high = trace.packing.reordered(self._order).bounds(prefix, rows.size if at is None else at.size)
        spans: Spans = []
        for run in trace.orders[self._order]:
            starts, stops = run.ranges(low, high)
            if (starts != stops).any():
                spans.append((run, starts, stops))
        return at, spans

    def gathered(
        self, rows: Bindings, views: Views, args: Sequence[Var | Const], target: Packing
    ) -> tuple[Any, list[gather.Join]] | None:
        """The compiled loops, and joins that make keys of `args`; None where only bindings will do."""
        if self._same or not self._binds or not target.narrow:
            return None
        parts = [part for part in view_of(views, self._key).parts if part[0].size]
        if any(trace.dead is not None or excluded or not trace.packing.narrow for trace, excluded in parts):
            return None
        prefix, total = self._values(rows), 0
        found: list[gather.Join] = []
        for trace, _ in parts:
            at, spans = self._spans(rows, trace, prefix)
            recipe = self._recipe(rows, args, target, trace.packing.reordered(self._order))
            if recipe is None:
                return None
            total += _total(spans)
            weights = rows.weights
            if at is not None:
                recipe, weights = recipe.taken(at), None if weights is None else weights.take(at)
            found += [gather.Join(recipe, weights, run.keys, begins, ends) for run, begins, ends in spans]
        loops = gather.gathering(total, rows.weights)
        return None if loops is None else (loops, found)

    def _recipe(
        self, rows: Bindings, args: Sequence[Var | Const], target: Packing, layout: Packing
    ) -> gather.Recipe | None:
        """How keys of `args` are made of rows and what they find, if they fit."""
        bound = {var.name: column for column, var in self._binds}
        mixing = gather.Mixing(target, rows.size)
        for at, arg in enumerate(args):
            if isinstance(arg, Const):
                fits = mixing.constant(at, encode(self._codes, arg))
            elif arg.name in bound:
                fits = mixing.moved(at, layout, bound[arg.name])
            else:
                fits = mixing.column(at, rows.columns[arg.name], rows.fields.get(arg.name))
            if not fits:
                return None
        return mixing.recipe()

    def bind(self, rows: Bindings, at: join.Rows, keys: Keys, layout: Packing) -> Bindings | None:
        """The rows at `at`, each extended by what the key beside it binds."""
        for left, right in self._same:
            equal = layout.unpack(keys, left) == layout.unpack(keys, right)
            at, keys = at[equal], keys[equal]
        if not keys.size:
            return None
        joined = rows.take(at, self._live)
        if self._binds:
            joined.fields = dict(rows.fields)
            for column, var in self._binds:
                joined.columns[var.name] = layout.unpack(keys, column)
                joined.fields[var.name] = layout.fields[column]
        return joined


class Scan:
    """The first step of a plan when it reads a whole version: everything in it, slice by slice."""

    def __init__(self, step: Probe, values: Values, piece_rows: int) -> None:
        self.key = (step.relation, step.read)
        self._order = step.order
        self._join = ProbeRunner(step, values, piece_rows, step.live)

    def slices(self, view: TraceView, slice_rows: int, counted: bool) -> Iterator[Bindings]:
        """Bindings of at most `slice_rows` rows each."""
        unit = Bindings.unit(counted)
        for part, excluded in view.parts:
            gone = excluded if part.dead is None else (*excluded, part.dead)
            layout = part.packing.reordered(self._order)
            for run in part.orders[self._order]:
                for start in range(0, run.size, slice_rows):
                    keys = run.keys[start : start + slice_rows]
                    for other in gone:
                        if other.size:
                            keys = keys[~_member_of(other, self._order, keys, layout)]
                    bound = self._join.bind(unit, np.zeros(keys.size, np.intp), keys, layout)
                    if bound is not None:
                        yield bound


def _member_of(trace: ExcludedRows, order: tuple[int, ...], keys: Keys, layout: Packing) -> join.Mask:
    """Which keys, given in `layout`, stand for rows of `trace`."""
    own = trace.packing.reordered(order)
    if own is not layout:
        columns = layout.columns(keys)
        fits: join.Mask = np.ones(keys.size, np.bool_)
        for column, field in zip(columns, trace.fields, strict=True):
            fits &= (column >= field.lo) & (column <= field.hi)
        found = np.zeros(keys.size, np.bool_)
        inside = own.pack([column[fits] for column in columns], int(fits.sum()))
        found[fits] = trace.count(order, inside, inside, exact=True) > 0
        return found
    return trace.count(order, keys, keys, exact=True) > 0


def _total(spans: Spans) -> int:
    return sum(int(stops.sum()) - int(starts.sum()) for _, starts, stops in spans)


def _expand(spans: Spans, sieve: Sieve | None) -> tuple[join.Rows, Keys]:
    found = [
        run.expand(starts, stops) if sieve is None else run.sift(starts, stops, sieve) for run, starts, stops in spans
    ]
    if len(found) == 1:
        return found[0]
    rows_of, keys_of = zip(*found, strict=True)
    return np.concatenate(rows_of), np.concatenate(keys_of)


def _pieces(rows: Bindings, at: join.Rows | None, spans: Spans, piece_rows: int) -> Iterator[Bindings]:
    """The rows in stretches that each join to about `piece_rows` rows."""
    hits = np.zeros(rows.size, np.int64)
    for _, starts, stops in spans:
        if at is None:
            hits += stops - starts
        else:
            hits[at] += stops - starts
    return (rows.piece(start, stop) for start, stop in stretches(hits, piece_rows))


def stretches(hits: Column, piece_rows: int) -> Iterator[tuple[int, int]]:
    """Stretches of rows that come to about so many hits each."""
    ends = hits.cumsum()
    start = 0
    while start < hits.size:
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(ends.searchsorted(before + piece_rows, side="right")))
        yield start, stop
        start = stop
