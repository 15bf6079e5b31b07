"""A plan as stages between which bindings travel.

The steps of a plan are taken where the rows that they look up are. Between two steps that need different places, every
binding goes to the worker that has what its next lookup finds. So each binding, and with it each rule instance, is
found by one worker.

All workers go through the same stages in the same order. A stage sends what it has found in rounds of a bounded size,
and the stages after it take in each round before the next one is sent: memory is bounded, however much a join finds. A
worker that has nothing to send takes part all the same. When no worker has anything, all of them skip the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from sempre.analysis.model import Const, Var
from sempre.backends.bindings import Bindings, Sink, concatenated, encode
from sempre.backends.lookups import Scan
from sempre.backends.pipeline import Pipeline, distinct_bindings, step_runner
from sempre.kernel.layout import Column
from sempre.kernel.tally import Tally
from sempre.kernel.trace import TraceView
from sempre.kernel.values import Values
from sempre.limits import Limits
from sempre.plan.ops import Absent, Assign, Distinct, LowerRank, Probe, RankOf, Read, Reduce, Step, TakeApart, probes
from sempre.workers.mesh import Mesh, Parcel
from sempre.workers.nested import Body, Nested
from sempre.workers.placing import EVERYWHERE, owner, owners, split
from sempre.workers.shards import ShardView
from sempre.workers.stages import (
    Copied,
    Homes,
    Local,
    Lookup,
    Route,
    Sending,
    ShardViews,
    Splits,
    Stage,
    Stretch,
)


class Flow:
    """A plan, or a nested body, as stages."""

    def __init__(
        self,
        steps: Sequence[Step],
        values: Values,
        homes: Homes,
        mesh: Mesh,
        limits: Limits,
        shared: Iterable[str] = (),
        carried: frozenset[str] = frozenset(),
        last: tuple[Route, frozenset[str]] | None = None,
        copied: Copied = frozenset(),
        splits: Splits = frozenset(),
    ) -> None:
        self._copied = copied
        self._splits = splits
        self._values = values
        self._homes = homes
        self._mesh = mesh
        self._limits = limits
        self._carried = carried
        self._bound = set(shared)
        self._live = frozenset(self._bound)  # what the steps to come need, as far as it is bound
        self._placed: str | int | None = None  # the variable, or the worker, that says where bindings are
        self.stages = [Stage()]
        self._begin = Route()
        self._is_fresh = not self._bound and not carried
        self._scan: tuple[Scan, int | None] | None = None
        for index, step in enumerate(steps):
            if index == 0 and self._scans(step, steps[1:2]):
                assert isinstance(step, Probe)
                self._scan = Scan(step, values, limits.piece_rows), self._reach_probe(step)[2]
                self._after(step)
            else:
                self._add(step)
        if last is not None:
            self._go(*last)
        self._last = self._stretches(self.stages[-1].steps)

    @property
    def scanned(self) -> str | None:
        """The relation whose rows the plan begins with, each at the worker where it is."""
        return None if self._scan is None else self._scan[0].key[0]

    @property
    def placed(self) -> str | int | None:
        """The variable, or the worker, that says where the bindings of the last stage are; None if nothing does."""
        return self._placed

    # ------------------------------------------------------------------------------------------------ compiling

    def _scans(self, step: Step, following: Sequence[Step]) -> bool:
        """Whether a plan begins with a whole version, which is read slice by slice."""
        if not isinstance(step, Probe) or step.lookup or not step.order or self._bound or self._carried:
            return False
        return not (following and isinstance(following[0], Distinct))

    def _go(self, route: Route, names: Iterable[str] | None = None, is_distinct: bool = False) -> None:
        if self._is_fresh and not is_distinct:
            self._begin = route  # there is one row yet, which binds nothing: it may be anywhere
            return
        travelling = self._live & self._bound if names is None else frozenset(names)
        self.stages.append(Stage(route, tuple(sorted(travelling | self._carried)), is_distinct=is_distinct))

    def _place(self, arg: Var | Const | None, lookup: Lookup | None = None) -> None:
        """Have the bindings where the value of `arg` places them; without one, at the first worker."""
        if arg is None:
            self._place_at(0)
        elif isinstance(arg, Const):
            self._place_at(owner(encode(self._values, arg), self._mesh.size))
        elif self._placed != arg.name:
            self._go(Route(arg.name))
            self._placed = arg.name

    def _is_split(self, step: Probe) -> bool:
        return (step.relation, step.read, step.order[0]) in self._splits

    def _place_split(self, arg: Var | Const, lookup: Lookup) -> None:
        """Have the bindings where rows with the value of `arg` are; nothing says where that is afterwards."""
        self._go(Route(everywhere=True) if isinstance(arg, Const) else Route(arg.name, split=lookup))
        self._placed = None

    def _place_at(self, worker: int) -> None:
        if self._placed != worker:
            self._go(Route(worker=worker))
            self._placed = worker

    def _add(self, step: Step) -> None:
        if isinstance(step, Distinct):
            self._gather(step.live & self._bound)
        elif isinstance(step, Absent | Reduce) and not self._is_here(step) and self._single(step) is None:
            nested = Nested(step, self._values, self._mesh.me, self._carried, self._of_body)
            self.stages.append(Stage(nested=nested))
        else:
            reads = self._reach(step)
            self.stages[-1].steps.append(
                Local(step, step_runner(step, self._values, self._limits.piece_rows, self._carried), reads)
            )
        self._after(step)

    def _of_body(self, body: Body) -> Flow:
        """The stages of a body within this plan."""
        return Flow(
            body.steps,
            self._values,
            self._homes,
            self._mesh,
            self._limits,
            body.shared,
            body.tags,
            body.back,
            self._copied,
            self._splits,
        )

    def _stretches(self, steps: Sequence[Local]) -> list[Stretch]:
        """Some steps, of which those in one stretch read each version where one column places it."""
        stretches: list[tuple[list[Step], dict[tuple[str, Read], int | None]]] = [([], {})]
        for local in steps:
            reads = {(name, read): column for name, read, column in local.reads}
            if any(stretches[-1][1].get(key, column) != column for key, column in reads.items()):
                stretches.append(([], {}))
            stretches[-1][0].append(local.step)
            stretches[-1][1].update(reads)
        return [
            Stretch(
                Pipeline(some, self._values, self._limits.piece_rows, self._carried),
                tuple((*key, column) for key, column in reads.items()),
            )
            for some, reads in stretches
        ]

    def _after(self, step: Step) -> None:
        self._is_fresh = False
        self._bound |= _binds(step)
        self._live = step.live
        if isinstance(self._placed, str) and self._placed not in step.live | self._carried:
            self._placed = None

    def _reach(self, step: Step) -> tuple[tuple[str, Read, int | None], ...]:
        """Have the bindings where the step is to be taken; what it reads there."""
        if isinstance(step, Probe):
            return (self._reach_probe(step),)
        if isinstance(step, RankOf | LowerRank):
            home = self._homes[step.atom.relation]
            self._place(None if home is None else step.atom.args[home])
            return ((step.atom.relation, Read.RANK, None),)
        if isinstance(step, Absent | Reduce) and self._is_here(step):
            return tuple((p.relation, p.read, EVERYWHERE) for p in probes((*step.steps, *step.steps_there)))
        if isinstance(step, Absent | Reduce):
            single = self._single(step)
            assert single is not None
            self._place(None if self._homes[single.relation] is None else single.lookup[0])
            return tuple((p.relation, p.read, p.order[0]) for p in probes((*step.steps, *step.steps_there)))
        return ()

    def _reach_probe(self, step: Probe) -> tuple[str, Read, int | None]:
        is_copied = (step.relation, step.read) in self._copied
        if is_copied and (step.lookup or not self._is_fresh):
            if self._is_fresh:
                self._placed = 0
            return step.relation, step.read, EVERYWHERE
        home = self._homes[step.relation]
        if home is None:
            self._place(None)
            return step.relation, step.read, None
        if step.lookup:
            place = self._place_split if self._is_split(step) else self._place
            place(step.lookup[0], (step.relation, step.read, step.order[0]))
            return step.relation, step.read, step.order[0]
        # What is read whole is read where it is: each row at one worker.
        self._go(Route(everywhere=True))
        read = home if is_copied else step.order[0]
        by_value = (var.name for column, var in step.binds if column == read)
        self._placed = None if self._is_split(step) else next(by_value, None)  # rows of one value may be anywhere
        return step.relation, step.read, None if is_copied else read

    def _gather(self, live: frozenset[str]) -> None:
        """Have equal bindings at one place, and each of them once."""
        var = self._placed if isinstance(self._placed, str) and self._placed in live else min(live, default=None)
        self._go(Route(var), live, is_distinct=True)
        self._placed = 0 if var is None else var

    def _is_here(self, step: Absent | Reduce) -> bool:
        """Whether all that a nested body reads is at every worker."""
        return all((p.relation, p.read) in self._copied for p in probes((*step.steps, *step.steps_there)))

    def _single(self, step: Absent | Reduce) -> Probe | None:
        """The one lookup of a nested body that can be taken where that is."""
        if len(step.steps) != 1:
            return None
        found = probes((*step.steps, *step.steps_there))
        if not found or not isinstance(step.steps[0], Probe) or not found[0].lookup:
            return None
        first = found[0]
        outer = {var.name for var in step.literal.shared}
        if isinstance(first.lookup[0], Var) and first.lookup[0].name not in outer:
            return None
        if any(map(self._is_split, found)):
            return None  # no worker sees all of what matches
        same = all(p.order[:1] == first.order[:1] and p.lookup[:1] == first.lookup[:1] for p in found)
        return first if same else None

    # -------------------------------------------------------------------------------------------------- running

    def start(self, views: ShardViews, counted: bool) -> Iterable[Bindings]:
        """The bindings that a plan begins with here."""
        if self._scan is not None and (self._begin.everywhere or self._mesh.me == self._begin.worker):
            scan, column = self._scan
            view = _seen(views[scan.key], column)
            assert isinstance(view, TraceView)
            return scan.slices(view, self._limits.slice_rows, counted)
        here = self._scan is None and (self._begin.everywhere or self._mesh.me == self._begin.worker)
        return [Bindings.unit(counted)] if here else []

    def run(
        self, source: Iterable[Bindings], views: ShardViews, sink: Sink, counted: bool, at: int = 0
    ) -> Sending[None]:
        """Send what the stages make of the bindings of all workers to the sinks of all workers."""
        if at + 1 == len(self.stages):
            self._finish(source, views, sink)
            return
        found = self._local(source, self.stages[at].steps, views)
        stage = self.stages[at + 1]
        if stage.is_distinct:
            rows = yield from self._all_distinct(found, stage, counted, views)
            yield from self.run([rows], views, sink, counted, at + 1)
            return
        more = True
        while more:
            rows, more = _some(found, self._limits.round_rows)
            if stage.nested is not None:
                # One row without a column of its own says nothing but how many there are.
                said = yield Parcel([[np.full(1, rows.size)] for _ in range(self._mesh.size)], more)
                size, more = sum(int(part[0][0]) for part in said.parts), said.more
                if size:
                    rows = yield from stage.nested.apply(rows, views)
            else:
                size, more, rows = yield from self._travel(rows, stage, more, counted, views)
            if size:
                yield from self.run([rows], views, sink, counted, at + 1)

    def _all_distinct(
        self, found: Iterator[Bindings], stage: Stage, counted: bool, views: ShardViews
    ) -> Sending[Bindings]:
        parts: list[Bindings] = []
        more = True
        while more:
            rows, more = _some(found, self._limits.round_rows)
            if rows.size:
                rows = distinct_bindings(_only(rows, stage.names), {})
            _, more, rows = yield from self._travel(rows, stage, more, counted, views)
            if rows.size:
                parts.append(rows)
        rows = concatenated(parts)
        return distinct_bindings(rows, {}) if rows.size else rows

    def _finish(self, source: Iterable[Bindings], views: ShardViews, sink: Sink) -> None:
        """Take the steps of the last stage."""
        onward = sink
        for stretch in reversed(self._last):
            seen = {(name, read): _seen(views[name, read], column) for name, read, column in stretch.reads}
            onward = partial(stretch.steps.run, views=seen, sink=onward)
        for rows in source:
            onward(rows)

    def _local(self, source: Iterable[Bindings], steps: list[Local], views: ShardViews) -> Iterator[Bindings]:
        seen = [{(name, read): _seen(views[name, read], column) for name, read, column in s.reads} for s in steps]

        def rest(rows: Bindings, first: int) -> Iterator[Bindings]:
            for index in range(first, len(steps)):
                if not rows.size:
                    return
                result = steps[index].run(rows, seen[index])
                if isinstance(result, list):
                    for piece in result:
                        yield from rest(piece, index)
                    return
                rows = result
            if rows.size:
                yield rows

        for rows in source:
            yield from rest(rows, 0)

    def _travel(
        self, rows: Bindings, stage: Stage, more: bool, counted: bool, views: ShardViews
    ) -> Sending[tuple[int, bool, Bindings]]:
        """How many bindings went anywhere, whether there are more, and those that came here."""
        assert stage.route is not None
        parts: list[list[Column]] = [[] for _ in range(self._mesh.size)]
        if rows.size:
            columns = [rows.columns[name] for name in stage.names]
            if counted:
                assert rows.weights is not None
                columns.append(rows.weights)
            if not columns:  # there is still how many rows there are
                columns = [np.zeros(rows.size, np.int64)]
            parts = self._split(rows, columns, stage.route, views)
        gathered = yield Parcel(parts, more)
        if not gathered.parts:
            return gathered.rows, gathered.more, Bindings(0, {}, {}, _NOTHING if counted else None)
        came = [np.concatenate(some) if len(some) > 1 else some[0] for some in zip(*gathered.parts, strict=True)]
        weights = came[len(stage.names)] if counted else None
        columns_by_name = dict(zip(stage.names, came, strict=False))
        return gathered.rows, gathered.more, Bindings(int(came[0].size), columns_by_name, {}, weights)

    def _split(self, rows: Bindings, columns: list[Column], route: Route, views: ShardViews) -> list[list[Column]]:
        workers = self._mesh.size
        if route.everywhere:
            return [columns] * workers
        if route.var is not None and route.direct:
            return split(columns, rows.columns[route.var], workers)
        if route.var is not None:
            values = rows.columns[route.var]
            if route.split is not None:
                return _shared(columns, values, _common(views, route.split), workers)
            return split(columns, owners(values, workers), workers)
        parts = [[column[:0] for column in columns] for _ in range(workers)]
        parts[route.worker] = columns
        return parts


_NOTHING = np.empty(0, np.int64)


def _common(views: ShardViews, lookup: Lookup) -> Column:
    relation, read, column = lookup
    view = views[relation, read]
    assert isinstance(view, ShardView)
    return view.common(column)


def _shared(columns: list[Column], values: Column, common: Column, workers: int) -> list[list[Column]]:
    """The bindings for each worker: those of common values for all, others for the owner of theirs."""
    among = np.isin(values, common)
    rest = split([column[~among] for column in columns], owners(values[~among], workers), workers)
    if not among.any():
        return rest
    return [[np.concatenate((own, each[among])) for own, each in zip(part, columns, strict=True)] for part in rest]


def _only(rows: Bindings, names: Iterable[str]) -> Bindings:
    return Bindings(rows.size, {name: rows.columns[name] for name in names}, rows.fields, rows.weights)


def _binds(step: Step) -> set[str]:
    if isinstance(step, Probe):
        return {var.name for _, var in step.binds}
    if isinstance(step, Assign | RankOf):
        return {step.var.name}
    if isinstance(step, TakeApart):
        return set(step.binds)
    return {step.literal.result.name} if isinstance(step, Reduce) else set()


def _seen(found: ShardView | Tally, column: int | None) -> TraceView | Tally:
    return found if isinstance(found, Tally) else found.at(column)


def _some(found: Iterator[Bindings], most: int) -> tuple[Bindings, bool]:
    """About `most` bindings, and whether there may be more."""
    parts: list[Bindings] = []
    size = 0
    for rows in found:
        parts.append(rows)
        size += rows.size
        if size >= most:
            return concatenated(parts), True
    return concatenated(parts), False
