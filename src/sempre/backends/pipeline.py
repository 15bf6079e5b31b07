"""Plan steps as functions over columns: what the local backend runs.

Each step of a plan is compiled to a function from bindings (`backends/bindings.py`) to bindings; `Pipeline.run` chains
them, splitting a table whose join would get too large, so that memory stays bounded and a piece stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sempre.analysis.model import Expr, Fold, Match, Not, Var
from sempre.backends.bindings import Bindings, Gather, Runner, Sink, Views, compute, encode, view_of
from sempre.backends.lookups import ProbeRunner, stretches
from sempre.backends.merging import Merger
from sempre.backends.tails import Ending, EndingPlace, Ends, TailRunner, ending_of
from sempre.kernel import functors, join, reduce
from sempre.kernel.layout import Column
from sempre.kernel.tally import Tally
from sempre.kernel.values import Values
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

# A column for the number of a group, which no variable is called.
_GROUP = "#group"
# From so many rows on, joins are shared, if so many rows do so on average.
SHARING_ROWS = 64
SHARERS = 64


class Pipeline:
    """The compiled steps of a plan, or of a nested body; a join that would give more than `piece_rows` is split.

    `following` are the steps that whatever comes out goes through.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        values: Values,
        piece_rows: int,
        carried: frozenset[str] = frozenset(),
        on_piece: Callable[[], None] | None = None,
        shares: bool = True,
        following: Sequence[Step] = (),
        merging_rows: int = 0,
        merges_first: bool = False,
        ends: Ends | None = None,
    ) -> None:
        self._on_piece = on_piece
        self._merges_first = merges_first
        self._runners: list[Runner | _Choice | _Shared | Ending] = []
        found = ending_of(steps, ends) if ends is not None and merging_rows else None
        end = len(steps) if found is None else found.place
        at = 0
        while at < end:
            step, together = steps[at], _together(steps[at:end]) if shares else []
            after = (*steps[at + max(1, len(together)) :], *following)
            if len(together) > 1:
                self._runners.append(_Shared(together, values, piece_rows, carried, on_piece, after, merging_rows))
            elif isinstance(step, Either):
                self._runners.append(_Choice(step, values, piece_rows, carried, on_piece, after, merging_rows))
            else:
                self._runners.append(step_runner(step, values, piece_rows, carried, after))
            at += max(1, len(together))
        if found is not None:
            self._runners.append(self._ending(steps[end:], found, values, piece_rows, carried, merging_rows))
        merges = merging_rows > 0 and not any(isinstance(step, Distinct) for step in steps)
        self._mergings = [_merging(runner, merging_rows) if merges else None for runner in self._runners]

    def _ending(
        self,
        steps: Sequence[Step],
        found: EndingPlace,
        values: Values,
        piece_rows: int,
        carried: frozenset[str],
        merging_rows: int,
    ) -> Ending:
        def pipeline(some: Sequence[Step], extra: frozenset[str], ends: Ends) -> Pipeline:
            carries = extra or carried
            on_piece = self._on_piece
            return Pipeline(some, values, piece_rows, carries, on_piece, merging_rows=merging_rows, ends=ends)

        def nested(some: Sequence[Step], extra: frozenset[str], bound: frozenset[str]) -> Pipeline:
            return pipeline(some, extra, Ends(bound, frozenset(), 1))

        runners = []
        for tail in found.tails:
            first = tail.steps[0]
            assert isinstance(first, Probe)
            runners.append(TailRunner(tail, ProbeRunner(first, values, piece_rows, carried), nested, merging_rows))
        return Ending(steps, runners, lambda left: pipeline(left, frozenset(), replace(found.ends, first=1)))

    def forget(self) -> None:
        """Give up what was remembered for other rows of the same run."""
        for runner in self._runners:
            if isinstance(runner, Ending):
                runner.forget()

    def run(self, rows: Bindings, views: Views, sink: Sink, start: int = 0, counts: bool | None = None) -> None:
        """Send what the steps make of `rows` to `sink`, from step `start` on.

        `counts` is whether rows without weights stand for an instance each, and the sink wants to know how many; None
        where it is not known.
        """
        self._go_on(rows, views, sink, start, counts, self._merges_first and start == 0)

    def _go_on(
        self, rows: Bindings, views: Views, sink: Sink, start: int, counts: bool | None, dropped: bool = False
    ) -> None:
        """The same; `dropped` is whether rows may have become alike."""
        for index in range(start, len(self._runners)):
            if not rows.size:
                return
            runner = self._runners[index]
            is_last = index + 1 == len(self._runners)
            if dropped and (merging := self._mergings[index]) is not None:
                rows, dropped = merging.merged(rows, counts), False
            if isinstance(runner, Ending):
                runner.run(rows, views, sink, counts)
                return
            if isinstance(runner, _Choice | _Shared):
                onward = sink if is_last else partial(self.run, views=views, sink=sink, start=index + 1, counts=counts)
                runner.run(rows, views, onward, counts)
                return
            if is_last and isinstance(sink, Gather) and self._gather(runner, rows, views, sink):
                return
            result = runner(rows, views)
            if isinstance(result, list):
                for piece in result:
                    if self._on_piece is not None:
                        self._on_piece()
                    self._go_on(piece, views, sink, index, counts)
                return
            dropped = dropped or not rows.columns.keys() <= result.columns.keys()
            rows = result
        if rows.size:
            sink(rows)

    def _gather(self, runner: Runner, rows: Bindings, views: Views, sink: Gather) -> bool:
        """Whether the last step could hand over keys of facts at once."""
        if sink.heads is None or not isinstance(runner, ProbeRunner):
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
        following: Sequence[Step],
        merging_rows: int,
    ) -> None:
        firsts = [steps[0] for steps in step.options]
        self._firsts = [ProbeRunner(first, values, piece_rows, carried) for first in firsts if isinstance(first, Probe)]
        self._options = [
            Pipeline(steps, values, piece_rows, carried, on_piece, following=following, merging_rows=merging_rows)
            for steps in step.options
        ]

    def run(self, rows: Bindings, views: Views, sink: Sink, counts: bool | None) -> None:
        """Send what the ways make of `rows` to `sink`."""
        best = np.argmin([first.found(rows, views) for first in self._firsts], axis=0)
        every = frozenset(rows.columns)
        for number, option in enumerate(self._options):
            option.run(rows.keep(best == number, every), views, sink, counts=counts)


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
        following: Sequence[Step],
        merging_rows: int,
    ) -> None:
        self._piece_rows = piece_rows
        self._seen = sorted({arg.name for arg in steps[0].lookup if isinstance(arg, Var)})
        self._live = steps[-1].live | carried
        self._each = Pipeline(steps, values, piece_rows, carried, on_piece, False, following, merging_rows)
        self._once = Pipeline(steps, values, piece_rows, frozenset((_GROUP,)), on_piece, False, following)

    def run(self, rows: Bindings, views: Views, sink: Sink, counts: bool | None) -> None:
        """Send what the joins make of `rows` to `sink`."""
        starts = self._groups(rows)
        if starts is None:
            self._each.run(rows, views, sink, counts=counts)
            return
        sizes = np.diff(starts, append=rows.size)
        once = rows.take(starts, frozenset(self._seen))
        once.columns[_GROUP] = np.arange(starts.size)
        if once.weights is not None:
            once.weights = np.ones(starts.size, np.int64)

        def spread(found: Bindings) -> None:
            hits = sizes.take(found.columns[_GROUP])
            for first, last in stretches(hits, self._piece_rows):
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


def _merging(runner: Runner | _Choice | _Shared | Ending, least_rows: int) -> Merger | None:
    """Before joins, it pays to have fewer rows."""
    if isinstance(runner, ProbeRunner):
        return Merger(least_rows, runner.looked_up)
    return Merger(least_rows, ()) if isinstance(runner, _Choice | _Shared | Ending) else None


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


def step_runner(
    step: Step, values: Values, piece_rows: int, carried: frozenset[str], following: Sequence[Step] = ()
) -> Runner:
    live = step.live | carried
    if isinstance(step, Probe):
        return ProbeRunner(step, values, piece_rows, live, following)
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
        return distinct_bindings
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
        self._runner: ProbeRunner | None = None
        if len(steps) == 1 and isinstance(steps[0], Probe) and not steps[0].same:
            # One atom: counting what an index has is enough.
            self._probe = steps[0]
            self._runner = ProbeRunner(self._probe, values, piece_rows, carried)
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
        found, column = reduce.by_group(literal.kind, literal.operand.value, groups, terms, once.size, values)
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


def distinct_bindings(rows: Bindings, views: Views) -> Bindings:
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
