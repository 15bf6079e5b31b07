"""Plan steps as functions over columns: what the local backend runs.

`Bindings` is a table of variable bindings, a column per variable. Each step of a plan is compiled to a function from
bindings to bindings; `Pipeline.run` chains them, splitting a table whose join would get too large, so that memory
stays bounded and a piece stays in the cache. With `weights`, every row stands for that many instances (or, negative,
for instances lost); without, rows are a set and multiplicities do not matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from sempre.analysis.model import Const, Expr, Fold, Kind, Match, Not, Var
from sempre.kernel import functors, gather, join, reduce
from sempre.kernel.layout import Column, Field, Keys, Packing
from sempre.kernel.run import Run
from sempre.kernel.tally import Tally
from sempre.kernel.trace import ExcludedRows, Trace, TraceView
from sempre.kernel.values import Values, float_codes
from sempre.plan.ops import (
    Absent,
    Assign,
    Distinct,
    Either,
    Filter,
    LowerRank,
    Probe,
    RankOf,
    Read,
    Reduce,
    Step,
    TakeApart,
    probes,
)

Views: TypeAlias = Mapping[tuple[str, Read], TraceView | Tally]  # a tally for `Read.RANK`, a view for all else
# For each run of an index, where the keys that each row finds in it begin and end.
Spans: TypeAlias = list[tuple[Run, join.Rows, join.Rows]]

# A column for the number of a group, which no variable is called.
_GROUP = "#group"
# From so many rows on, joins are shared, if so many rows do so on average.
SHARING_ROWS = 64
SHARERS = 2


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


class Pipeline:
    """The compiled steps of a plan, or of a nested body; a join that would give more than `piece_rows` is split."""

    def __init__(
        self,
        steps: Sequence[Step],
        values: Values,
        piece_rows: int,
        carried: frozenset[str] = frozenset(),
        on_piece: Callable[[], None] | None = None,
        shares: bool = True,
    ) -> None:
        self._on_piece = on_piece
        self._runners: list[Runner | _Choice | _Shared] = []
        at = 0
        while at < len(steps):
            step, together = steps[at], _together(steps[at:]) if shares else []
            if len(together) > 1:
                self._runners.append(_Shared(together, values, piece_rows, carried, on_piece))
            elif isinstance(step, Either):
                self._runners.append(_Choice(step, values, piece_rows, carried, on_piece))
            else:
                self._runners.append(_compile(step, values, piece_rows, carried))
            at += max(1, len(together))

    def run(self, rows: Bindings, views: Views, sink: Sink, start: int = 0) -> None:
        """Send what the steps make of `rows` to `sink`, from step `start` on."""
        for index in range(start, len(self._runners)):
            if not rows.size:
                return
            runner = self._runners[index]
            is_last = index + 1 == len(self._runners)
            if isinstance(runner, _Choice | _Shared):
                onward = sink if is_last else partial(self.run, views=views, sink=sink, start=index + 1)
                runner.run(rows, views, onward)
                return
            if is_last and isinstance(sink, Gather) and self._gather(runner, rows, views, sink):
                return
            result = runner(rows, views)
            if isinstance(result, list):
                for piece in result:
                    if self._on_piece is not None:
                        self._on_piece()
                    self.run(piece, views, sink, index)
                return
            rows = result
        if rows.size:
            sink(rows)

    def _gather(self, runner: Runner, rows: Bindings, views: Views, sink: Gather) -> bool:
        """Whether the last step could hand over keys of facts at once."""
        if sink.heads is None or not isinstance(runner, _ProbeRunner):
            return False
        found = runner.gathered(rows, views, sink.heads, sink.target)
        if found is None:
            return False
        loops, joins = found
        for each in joins:
            for _ in sink.keep(loops, each):
                if self._on_piece is not None:
                    self._on_piece()
        return True


class _Choice:
    """Several ways to go on, of which every row takes the one whose first lookup finds least."""

    def __init__(
        self,
        step: Either,
        values: Values,
        piece_rows: int,
        carried: frozenset[str],
        on_piece: Callable[[], None] | None,
    ) -> None:
        firsts = [steps[0] for steps in step.options]
        self._firsts = [
            _ProbeRunner(first, values, piece_rows, carried) for first in firsts if isinstance(first, Probe)
        ]
        self._options = [Pipeline(steps, values, piece_rows, carried, on_piece) for steps in step.options]

    def run(self, rows: Bindings, views: Views, sink: Sink) -> None:
        """Send what the ways make of `rows` to `sink`."""
        best = np.argmin([first.found(rows, views) for first in self._firsts], axis=0)
        every = frozenset(rows.columns)
        for number, option in enumerate(self._options):
            option.run(rows.keep(best == number, every), views, sink)


class _Shared:
    """Joins that see only a part of what is bound: rows beside each other that agree on it take them together.

    Their results are spread over these rows afterwards. The first join may find much that the next ones drop.
    """

    def __init__(
        self,
        steps: Sequence[Probe],
        values: Values,
        piece_rows: int,
        carried: frozenset[str],
        on_piece: Callable[[], None] | None,
    ) -> None:
        self._piece_rows = piece_rows
        self._seen = sorted({arg.name for arg in steps[0].lookup if isinstance(arg, Var)})
        self._live = steps[-1].live | carried
        self._each = Pipeline(steps, values, piece_rows, carried, on_piece, shares=False)
        self._once = Pipeline(steps, values, piece_rows, frozenset((_GROUP,)), on_piece, shares=False)

    def run(self, rows: Bindings, views: Views, sink: Sink) -> None:
        """Send what the joins make of `rows` to `sink`."""
        starts = self._groups(rows)
        if starts is None:
            self._each.run(rows, views, sink)
            return
        sizes = np.diff(starts, append=rows.size)
        once = rows.take(starts, frozenset(self._seen))
        once.columns[_GROUP] = np.arange(starts.size)
        if once.weights is not None:
            once.weights = np.ones(starts.size, np.int64)

        def spread(found: Bindings) -> None:
            hits = sizes.take(found.columns[_GROUP])
            for first, last in _stretches(hits, self._piece_rows):
                sink(self._spread(rows, found.piece(first, last), starts, hits[first:last]))

        self._once.run(once, views, spread)

    def _groups(self, rows: Bindings) -> join.Rows | None:
        """Where rows begin that agree with the next ones on what the joins see; None if that spares little."""
        if rows.size < SHARING_ROWS or len(rows.columns) == len(self._seen):
            return None
        fresh = np.zeros(rows.size, np.bool_)
        fresh[0] = True
        for name in self._seen:
            column = rows.columns[name]
            fresh[1:] |= column[1:] != column[:-1]
        starts = np.flatnonzero(fresh)
        return starts if starts.size * SHARERS <= rows.size else None

    def _spread(self, rows: Bindings, found: Bindings, starts: join.Rows, hits: Column) -> Bindings:
        """What was found once, for each of the rows that share it."""
        at = np.arange(found.size).repeat(hits)
        within = np.arange(at.size) - (hits.cumsum() - hits).repeat(hits)
        mine = starts.take(found.columns[_GROUP]).repeat(hits) + within
        columns = {name: column.take(mine) for name, column in rows.columns.items() if name in self._live}
        columns |= {
            name: column.take(at)
            for name, column in found.columns.items()
            if name in self._live and name not in columns
        }
        weights = None
        if rows.weights is not None and found.weights is not None:
            weights = join.multiplied(rows.weights.take(mine), found.weights.take(at))
        return Bindings(at.size, columns, found.fields, weights)


def _together(steps: Sequence[Step]) -> list[Probe]:
    """The first steps, as far as they are joins that see no more than what the first looks up, and what they bind."""
    found: list[Probe] = []
    seen: set[str] = set()
    for step in steps:
        if not isinstance(step, Probe) or not step.lookup:
            break
        looked = {arg.name for arg in step.lookup if isinstance(arg, Var)}
        if found and not looked <= seen:
            break
        if not looked or not (found or step.binds):
            break
        found.append(step)
        seen |= looked | {var.name for _, var in step.binds}
    return found


def _stretches(hits: Column, piece_rows: int) -> Iterator[tuple[int, int]]:
    """Stretches of rows that come to about so many hits each."""
    ends = hits.cumsum()
    start = 0
    while start < hits.size:
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(ends.searchsorted(before + piece_rows, side="right")))
        yield start, stop
        start = stop


def _compile(step: Step, values: Values, piece_rows: int, carried: frozenset[str]) -> Runner:
    live = step.live | carried
    if isinstance(step, Probe):
        return _ProbeRunner(step, values, piece_rows, live)
    if isinstance(step, Filter):
        test = step.test

        def keep(rows: Bindings, views: Views) -> Bindings:
            left, right = compute(values, test.left, rows), compute(values, test.right, rows)
            return rows.keep(functors.compare(values, test.op, test.kind.value, left, right), live)

        return keep
    if isinstance(step, Assign):
        return _assign(step, values)
    if isinstance(step, TakeApart):
        return _take_apart(step, values, live)
    if isinstance(step, Absent):
        return _absent(step, values, piece_rows, carried)
    if isinstance(step, Distinct):
        return _distinct
    if isinstance(step, RankOf):
        return _rank_of(step, values)
    if isinstance(step, LowerRank):
        return _lower(step, values, live)
    assert isinstance(step, Reduce)
    return _reduce(step, values, piece_rows, carried)


def _assign(step: Assign, values: Values) -> Runner:
    name = step.var.name
    source = step.expr.name if isinstance(step.expr, Var) else None

    def assign(rows: Bindings, views: Views) -> Bindings:
        fields = rows.fields
        if source is not None and source in fields:
            fields = {**fields, name: fields[source]}
        columns = {**rows.columns, name: compute(values, step.expr, rows)}
        return Bindings(rows.size, columns, fields, rows.weights)

    return assign


def _take_apart(step: TakeApart, values: Values, live: frozenset[str]) -> Runner:
    record, fields = step.unpack.record.name, step.unpack.fields

    def take_apart(rows: Bindings, views: Views) -> Bindings:
        table = values.records(len(fields))
        rows = rows.keep(rows.columns[record] != 0, frozenset(rows.columns))
        if not rows.size:
            return rows
        columns, mask = dict(rows.columns), np.ones(rows.size, np.bool_)
        for at, arg in enumerate(fields):
            column = table.field(rows.columns[record], at)
            if isinstance(arg, Var) and arg.name in step.binds and arg.name not in columns:
                columns[arg.name] = column
            else:
                known = columns[arg.name] if isinstance(arg, Var) else encode(values, arg)
                mask &= column == known
        return Bindings(rows.size, columns, rows.fields, rows.weights).keep(mask, live)

    return take_apart


# --------------------------------------------------------------------------------------------------- probing


class _ProbeRunner:
    """Join with one version of a relation through an index."""

    def __init__(self, step: Probe, values: Values, piece_rows: int, live: frozenset[str]) -> None:
        self._piece_rows = piece_rows
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
                some = self._join(rows, part, excluded, prefix)
                if isinstance(some, list):
                    return some
                if some is not None:
                    found.append(some)
        return _concatenated(found)

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
        self, rows: Bindings, trace: Trace, excluded: tuple[ExcludedRows, ...], prefix: list[Column]
    ) -> Bindings | list[Bindings] | None:
        at, spans = self._spans(rows, trace, prefix)
        total = _total(spans)
        if not total:
            return None
        if total > self._piece_rows and rows.size > 1:
            return list(_pieces(rows, at, spans, self._piece_rows))
        layout = trace.packing.reordered(self._order)
        found_rows, found_keys = _expand(spans)
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
        return at, [(run, *run.ranges(low, high)) for run in trace.orders[self._order]]

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
        self._join = _ProbeRunner(step, values, piece_rows, step.live)

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


def _expand(spans: Spans) -> tuple[join.Rows, Keys]:
    rows_of, keys_of = [], []
    for run, starts, stops in spans:
        rows, keys = run.expand(starts, stops)
        if rows.size:
            rows_of.append(rows)
            keys_of.append(keys)
    if len(rows_of) == 1:
        return rows_of[0], keys_of[0]
    return np.concatenate(rows_of), np.concatenate(keys_of)


def _pieces(rows: Bindings, at: join.Rows | None, spans: Spans, piece_rows: int) -> Iterator[Bindings]:
    """The rows in stretches that each join to about `piece_rows` rows."""
    hits = np.zeros(rows.size, np.int64)
    for _, starts, stops in spans:
        if at is None:
            hits += stops - starts
        else:
            hits[at] += stops - starts
    return (rows.piece(start, stop) for start, stop in _stretches(hits, piece_rows))


def _concatenated(found: list[Bindings]) -> Bindings:
    if len(found) == 1:
        return found[0]
    if not found:
        return Bindings(0, {}, {})
    first = found[0]
    columns = {name: np.concatenate([b.columns[name] for b in found]) for name in first.columns}
    fields = {
        name: field for name, field in first.fields.items() if all(b.fields.get(name) == field for b in found[1:])
    }
    weights = None if first.weights is None else np.concatenate([b.weights for b in found if b.weights is not None])
    return Bindings(sum(b.size for b in found), columns, fields, weights)


# ---------------------------------------------------------------------------------------------- nested bodies


def _row_name(carried: frozenset[str]) -> str:
    """A column for row numbers that no variable and not the enclosing body uses."""
    return "#" if not carried else "#" + max(carried, key=len)


def _nested_rows(rows: Bindings, shared: Sequence[str], row_name: str) -> Bindings:
    """The bindings that a nested body starts from: the shared columns, and the number of each row."""
    columns = {name: rows.columns[name] for name in shared}
    columns[row_name] = np.arange(rows.size)
    return Bindings(rows.size, columns, rows.fields)


def _unchanged(steps: Sequence[Step], views: Views) -> bool:
    """Whether steps that read the state there would find what the same steps find here."""
    return all(views[p.relation, Read.THERE] is views[p.relation, Read.HERE] for p in probes(tuple(steps)))


class _Nested:
    """A nested body: which rows it finds something for."""

    def __init__(
        self, literal: Not | Fold, steps: tuple[Step, ...], values: Values, piece_rows: int, carried: frozenset[str]
    ) -> None:
        self._shared = [var.name for var in literal.shared]
        self._values = values
        self._row_name = _row_name(carried)
        self._probe: Probe | None = None
        self._runner: _ProbeRunner | None = None
        if len(steps) == 1 and isinstance(steps[0], Probe) and not steps[0].same:
            # One atom: counting what an index has is enough.
            self._probe = steps[0]
            self._runner = _ProbeRunner(self._probe, values, piece_rows, carried)
        self._pipeline = Pipeline(steps, values, piece_rows, frozenset((self._row_name,)))

    def found(self, rows: Bindings, views: Views) -> join.Mask:
        """For which rows the body has a solution."""
        if self._probe is not None and self._runner is not None:
            prefix = [compute(self._values, arg, rows) for arg in self._probe.lookup]
            return self._runner.hits(rows, view_of(views, (self._probe.relation, self._probe.read)), prefix) > 0
        mask = np.zeros(rows.size, np.bool_)

        def mark(found: Bindings) -> None:
            mask[found.columns[self._row_name]] = True

        self._pipeline.run(_nested_rows(rows, self._shared, self._row_name), views, mark)
        return mask

    def solutions(self, rows: Bindings, views: Views, expr: Expr | None) -> tuple[list[Column], list[Column]]:
        """Row numbers, and beside each the value of `expr` in one solution for that row."""
        groups: list[Column] = []
        terms: list[Column] = []

        def collect(found: Bindings) -> None:
            # A probe that binds nothing multiplies the weight instead of repeating the row.
            assert found.weights is not None
            row = found.columns[self._row_name]
            term = row if expr is None else compute(self._values, expr, found)
            groups.append(row.repeat(found.weights))
            terms.append(term.repeat(found.weights))

        nested = _nested_rows(rows, self._shared, self._row_name)
        nested.weights = np.ones(rows.size, np.int64)
        self._pipeline.run(nested, views, collect)
        return groups, terms


def _absent(step: Absent, values: Values, piece_rows: int, carried: frozenset[str]) -> Runner:
    live = step.live | carried
    here = _Nested(step.literal, step.steps, values, piece_rows, carried)
    there = _Nested(step.literal, step.steps_there, values, piece_rows, carried) if step.steps_there else None

    def absent(rows: Bindings, views: Views) -> Bindings:
        if there is None or _unchanged(step.steps_there, views):
            if step.flips:
                return Bindings(0, {}, {}, rows.weights)
            return rows.keep(~here.found(rows, views), live)
        rows = rows.keep(~here.found(rows, views), frozenset(rows.columns))
        if not rows.size:
            return rows
        found_there = there.found(rows, views)
        return rows.keep(found_there if step.flips else ~found_there, live)

    return absent


def _reduce(step: Reduce, values: Values, piece_rows: int, carried: frozenset[str]) -> Runner:
    literal = step.literal
    live, result = step.live | carried, literal.result.name
    shared = [var.name for var in literal.shared]
    here = _Nested(literal, step.steps, values, piece_rows, carried)
    there = _Nested(literal, step.steps_there, values, piece_rows, carried) if step.steps_there else None

    def results(nested: _Nested, rows: Bindings, views: Views) -> tuple[join.Mask, Column]:
        once, places = once_each(rows, shared)
        groups, terms = nested.solutions(once, views, literal.expr)
        found, column = reduce.by_group(values, literal.kind, literal.operand.value, groups, terms, once.size)
        return found[places], column[places]

    def fold(rows: Bindings, views: Views) -> Bindings:
        found, column = results(here, rows, views)
        if there is not None and not _unchanged(step.steps_there, views):
            found_there, column_there = results(there, rows, views)
            same = found_there & (column == column_there)
            found &= ~same if step.flips else same
        elif step.flips:
            return Bindings(0, {}, {}, rows.weights)
        if step.test:
            found &= column == rows.columns[result]
            return rows.keep(found, live)
        columns = {**rows.columns, result: column}
        fields = {name: field for name, field in rows.fields.items() if name != result}
        return Bindings(rows.size, columns, fields, rows.weights).keep(found, live)

    return fold


def _ranks(atom: Match, values: Values, rows: Bindings, views: Views) -> Column:
    columns = [compute(values, arg, rows) for arg in atom.args]
    tally = views[atom.relation, Read.RANK]
    assert isinstance(tally, Tally)
    return tally.of_columns(columns, rows.size)


def _rank_of(step: RankOf, values: Values) -> Runner:
    def rank_of(rows: Bindings, views: Views) -> Bindings:
        columns = {**rows.columns, step.var.name: _ranks(step.atom, values, rows, views)}
        return Bindings(rows.size, columns, rows.fields, rows.weights)

    return rank_of


def _lower(step: LowerRank, values: Values, live: frozenset[str]) -> Runner:
    def lower(rows: Bindings, views: Views) -> Bindings:
        return rows.keep(_ranks(step.atom, values, rows, views) < rows.columns[step.than.name], live)

    return lower


def once_each(rows: Bindings, names: Sequence[str]) -> tuple[Bindings, join.Rows]:
    """One row for every combination of these columns, and for each row which of them has its own."""
    places = np.zeros(rows.size, np.intp)
    if not rows.size:
        return rows, places
    if not names:
        return Bindings(1, {}, rows.fields), places
    columns = [rows.columns[name] for name in names]
    order = np.lexsort(columns)
    fresh = np.zeros(rows.size, np.bool_)
    for column in columns:
        ordered = column[order]
        fresh[1:] |= ordered[1:] != ordered[:-1]
    places[order] = fresh.cumsum()
    fresh[0] = True
    return rows.take(order[fresh], frozenset(names)), places


def _distinct(rows: Bindings, views: Views) -> Bindings:
    """Each binding once, whatever found it; the second step of plans that start from changed rows."""
    columns = list(rows.columns.values())
    kept: join.Rows = np.zeros(min(rows.size, 1), np.intp)
    if columns:
        order = np.lexsort(columns)
        fresh = np.zeros(rows.size, np.bool_)
        fresh[:1] = True
        for column in columns:
            ordered = column[order]
            fresh[1:] |= ordered[1:] != ordered[:-1]
        kept = order[fresh]
    once = rows.take(kept, frozenset(rows.columns))
    if once.weights is not None:
        once.weights = np.ones(once.size, np.int64)
    return once
