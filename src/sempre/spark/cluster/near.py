"""The algebra over versions of which only what is looked up comes to the driver.

A change of a few rows is followed here, in arrays of the kernel's, while the relations stay where they are, in files. A
`Near` is such a version: what the cluster has of it (`Far`), and the few rows that were added and taken out since. A
plan is taken step by step. Before a step looks something up, the rows that the bindings ask for are fetched
(`pages.py`), and the step then runs on those alone, by the kernel's own code. So the result is that of the driver, and
what it costs is what is looked up: no step reads a relation, and none starts a job.

Whatever would read a whole relation, or too much of one, raises `Abandoned`: that is for the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from sempre.analysis.model import CheckedProgram
from sempre.backends.bindings import Bindings, compute
from sempre.backends.local import LocalBackend
from sempre.backends.pipeline import Pipeline, once_each
from sempre.data import dataclass
from sempre.kernel import join
from sempre.kernel.layout import EMPTY, Column, Packing, fields_covering, packing
from sempre.kernel.tally import Counted, Tally
from sempre.kernel.trace import Order, RowSet, Trace, TraceView, within
from sempre.limits import Limits
from sempre.maintain.strategy import Abandoned
from sempre.plan.backend import CLUSTER, Algebra, CountedOf, Executable, Look, Rows, TallyOf, VersionOf, ViewOf
from sempre.plan.faults import located
from sempre.plan.ops import Absent, Neighbors, Plan, Probe, Read, Reduce, Step, decided_plan, probes
from sempre.spark.cluster.codes import Coder, left_of, rows_of
from sempre.spark.cluster.column_types import names_of
from sempre.spark.cluster.pages import Wanted
from sempre.spark.cluster.tables import Version


def beginning(columns: Order, arity: int) -> Order:
    """An order of all columns that begins with some."""
    return (*columns, *(at for at in range(arity) if at not in columns))


def selected(trace: Trace, columns: Order, keys: Sequence[Column]) -> RowSet:
    """The rows of a trace whose values in some columns are those of one of the keys, which are distinct.

    The trace has the order that begins with these columns.
    """
    if not columns or not trace.size:
        return trace.rows()
    order = beginning(columns, len(trace.fields))
    fits = within(keys, [trace.fields[at] for at in columns])
    layout = trace.packing.reordered(order)
    low, high = layout.bounds([values[fits] for values in keys], int(fits.sum()))
    found = [run.expand(*run.ranges(low, high))[1] for run in trace.orders[order] if run.size]
    rows = np.concatenate(found) if found else np.empty(0, layout.dtype)
    if trace.dead is not None and rows.size:
        rows = rows[trace.dead.count(order, rows, rows, exact=True) == 0]
    packed = trace.packing.pack(layout.columns(rows), rows.size)
    return RowSet(trace.packing, np.sort(packed))


class Far:
    """A version of the cluster's, of which what was looked up is here."""

    def __init__(self, backend: NearBackend, relation: str, version: Version) -> None:
        self._backend = backend
        self._relation = relation
        self.version = version
        self._arity = backend.program.relations[relation].arity
        nothing = (EMPTY,) * self._arity
        # By the columns that were looked up: the keys that were asked for, and all rows that have one of these.
        self._asked: dict[Order, Trace] = {}
        self._found: dict[Order, Trace] = {}
        self._empty = Trace.empty(nothing)

    def __len__(self) -> int:
        return len(self.version)

    def matching(self, columns: Order, keys: Sequence[Column], size: int) -> RowSet:
        """The rows with one of these keys in these columns, which are in ascending order."""
        keys, size = _distinct(keys, size)
        if len(self) <= self._backend.limits.fetched_whole or not columns:
            at: Order = ()
            if at not in self._found:
                self._found[at] = Trace.of(self._whole())
        else:
            at = columns
            wanted, asked = rows_of(keys, size), self._asked.get(at, Trace.empty((EMPTY,) * len(at)))
            new = RowSet(wanted.packing, wanted.keys[~asked.contains(wanted)])
            if len(new):
                self._found[at] = self._found.get(at, self._empty).adding(self._fetched(at, new))
                self._asked[at] = asked.adding(new)
        self._found[at] = self._found[at].indexed((beginning(columns, self._arity),))
        return selected(self._found[at], columns, keys)

    def _whole(self) -> RowSet:
        if len(self) > self._backend.limits.fetched_whole:
            raise Abandoned(f"all {len(self):,} rows of `{self._relation}` would be read")
        return self._read({})

    def _fetched(self, columns: Order, keys: RowSet) -> RowSet:
        coder, kinds = self._backend.coder, self.version.like.kinds
        names = names_of(kinds)
        values = keys.columns()
        wanted = {names[at]: Wanted(coder.plain(values[n], kinds, at)) for n, at in enumerate(columns)}
        rows = self._read(wanted)
        found = rows.columns()
        # Values that are wanted column by column need not be wanted together.
        mine = among([found[at] for at in columns], len(rows), keys)
        return RowSet(rows.packing, rows.keys[mine])

    def _read(self, wanted: Mapping[str, Wanted]) -> RowSet:
        backend, like = self._backend, self.version.like
        tables = self.version.tables()
        like.store.settle(tables)
        backend.charge(self._relation, sum(table.reading(wanted) for table in tables))
        coder, rows = backend.coder, []
        for part, gone in self.version.parts:
            some = coder.rows(part.matching(wanted, backend.look), like.kinds, like.arity)
            for other in gone if len(some) else ():
                some = left_of(some, coder.rows(other.matching(wanted, backend.look), like.kinds, like.arity))
            rows.append(some)
            backend.fetched(self._relation, len(some))
        return backend.local.union(rows) if rows else self._empty.rows()


def _distinct(keys: Sequence[Column], size: int) -> tuple[list[Column], int]:
    """Each key once."""
    if not keys:
        return [], min(size, 1)
    rows = rows_of(keys, size)
    return rows.columns(), len(rows)


def among(columns: Sequence[Column], size: int, keys: RowSet) -> join.Mask:
    """For rows in any order, which of them are among some keys."""
    trace = Trace.of(keys)
    inside = np.flatnonzero(within(columns, trace.fields))
    found: join.Mask = np.zeros(size, np.bool_)
    packed = trace.packing.pack([column[inside] for column in columns], inside.size)
    found[inside] = trace.count(trace.own, packed, packed, exact=True) > 0
    return found


class Near:
    """An immutable set of rows: those of a version of the cluster's without some, and some that are here."""

    place: ClassVar[str] = CLUSTER
    __slots__ = ("far", "gone", "here")

    def __init__(self, here: Trace, far: Far | None = None, gone: Trace | None = None) -> None:
        self.here = here
        self.far = far
        self.gone = gone or Trace.empty((EMPTY,) * len(here.fields))

    def __len__(self) -> int:
        return len(self.here) + (0 if self.far is None else len(self.far) - len(self.gone))

    def rows(self) -> RowSet:
        """All rows; only of what is here or small."""
        return self.matching((), [], 1)

    def indexed(self, orders: Iterable[Order]) -> Near:
        """Itself: what is looked up is put in order when it comes."""
        return self

    def adding(self, rows: RowSet) -> Near:
        return Near(self.here.adding(rows), self.far, self.gone) if len(rows) else self

    def removing(self, rows: RowSet) -> Near:
        if not len(rows):
            return self
        mine = self.here.contains(rows)
        here = self.here.removing(RowSet(rows.packing, rows.keys[mine]))
        return Near(here, self.far, self.gone.adding(RowSet(rows.packing, rows.keys[~mine])))

    def matching(self, columns: Order, keys: Sequence[Column], size: int) -> RowSet:
        """The rows with one of these keys in these columns, which are in ascending order."""
        keys, size = _distinct(keys, size)
        self.here = self.here.indexed((beginning(columns, len(self.here.fields)),))  # kept for the next lookup
        mine = selected(self.here, columns, keys)
        if self.far is None or not len(self.far):
            return mine
        theirs = self.far.matching(columns, keys, size)
        if len(self.gone):
            theirs = RowSet(theirs.packing, theirs.keys[~self.gone.contains(theirs)])
        return union((mine, theirs))

    def contains(self, rows: RowSet) -> join.Mask:
        """Which of the rows it has."""
        found = self.here.contains(rows)
        if self.far is not None and len(self.far) and not found.all():
            every = tuple(range(len(self.here.fields)))
            there = Trace.of(self.far.matching(every, rows.columns(), len(rows))).contains(rows)
            found |= there & ~self.gone.contains(rows)
        return found


def union(sets: Sequence[RowSet]) -> RowSet:
    """The distinct rows of some sets."""
    some = [rows for rows in sets if len(rows)]
    if len(some) < 2:
        return some[0] if some else sets[0]
    columns = [np.concatenate(parts) for parts in zip(*(rows.columns() for rows in some), strict=True)]
    return rows_of(columns, sum(map(len, some)))


@dataclass(frozen=True, slots=True)
class NearView:
    """What a plan reads of a relation: disjoint versions, each without some of its rows."""

    parts: tuple[tuple[Near, tuple[Near, ...]], ...]

    def __len__(self) -> int:
        return sum(len(version) - sum(map(len, gone)) for version, gone in self.parts)

    def plus(self, *versions: Near) -> NearView:
        return NearView((*self.parts, *((version, ()) for version in versions)))

    def matching(self, columns: Order, keys: Sequence[Column], size: int) -> RowSet:
        """The rows with one of these keys in these columns, which are in ascending order."""
        found = []
        for version, excluded in self.parts:
            rows = version.matching(columns, keys, size)
            for other in excluded if len(rows) else ():
                rows = RowSet(rows.packing, rows.keys[~other.contains(rows)])
            found.append(rows)
        return union(found)

    def contains(self, rows: RowSet) -> join.Mask:
        found: join.Mask = np.zeros(len(rows), np.bool_)
        for version, excluded in self.parts:
            hit = version.contains(rows)
            for other in excluded:
                hit &= ~other.contains(rows)
            found |= hit
        return found


Views: TypeAlias = Mapping[tuple[str, Read], "NearView | Tally"]
# What a step reads, fetched: rows, and the orders in which they are looked up.
Slices: TypeAlias = dict[tuple[str, Read], tuple[list[RowSet], set[Order]]]


class NearPlan:
    """A plan, and its steps one by one."""

    def __init__(self, backend: NearBackend, plan: Plan) -> None:
        self.plan = plan
        self._values = backend.coder.values
        self._piece_rows = backend.limits.piece_rows
        self._pipelines: dict[int, Pipeline] = {}  # by the identity of steps, which the plan holds

    def pipeline(self, step: Step) -> Pipeline:
        """One step by itself."""
        found = self._pipelines.get(id(step))
        if found is None:
            found = self._pipelines[id(step)] = Pipeline((step,), self._values, self._piece_rows)
        return found


class NearSizes:
    """Sizes, and numbers of distinct values as far as the cluster's files say."""

    def __init__(self, state: Mapping[str, Near], limits: Limits) -> None:
        self.limits = limits
        self._state = state

    def size(self, relation: str) -> int:
        return len(self._state[relation])

    def distinct(self, relation: str, column: int) -> int:
        near = self._state[relation]
        largest = None if near.far is None else near.far.version.largest
        found = None if largest is None else largest.distinct(column)
        return found or max(1, int(len(near) ** 0.8))

    def crowd(self, relation: str, column: int) -> float:
        return 0.0  # rows are not asked which lookup finds less: each would fetch something

    def matching(self, relation: str, columns: tuple[int, ...]) -> None:
        return None


class NearBackend:
    """Runs plans in this process, over versions that are elsewhere. For one update of one stratum."""

    place = CLUSTER

    def __init__(self, program: CheckedProgram, limits: Limits) -> None:
        self.program = program
        self.limits = limits
        self.local = LocalBackend(program, threads=1, limits=limits)
        self.coder = Coder(self.local.values)
        self.instances = 0
        # What lookups have read of every relation, and what they found.
        self.read: dict[str, int] = {}
        self.found: dict[str, int] = {}
        self._watcher: Look | None = None

    # ------------------------------------------------------------------------------------------------- the guard

    def watch(self, look: Look | None) -> None:
        self._watcher = look

    def look(self) -> None:
        """Raises when it has been enough."""
        if self._watcher is not None:
            self._watcher()

    def charge(self, relation: str, rows: int) -> None:
        """So many rows are about to be read."""
        self.look()
        self.read[relation] = self.read.get(relation, 0) + rows
        if sum(self.read.values()) > self.limits.searched_rows:
            raise Abandoned(f"{sum(self.read.values()):,} rows would be read to look up a few")

    def fetched(self, relation: str, rows: int) -> None:
        """So many rows have been found."""
        self.found[relation] = self.found.get(relation, 0) + rows
        if self.found[relation] > self.limits.found_rows:
            raise Abandoned(f"lookups in `{relation}` find more than {self.limits.found_rows:,} rows")

    # ------------------------------------------------------------------------------------------------- relations

    def far(self, relation: str, version: Version) -> Near:
        """A version of the cluster's."""
        return Near(self.empty(relation).here, Far(self, relation, version))

    def settle(self, rows: Iterable[RowSet | Counted]) -> None:
        """Nothing here is lazy."""

    def finish(self) -> None:
        """Nothing here is held beyond an update."""

    def keep(self) -> None:
        """Codes are of this update alone."""

    def forget(self) -> None:
        """As `keep`."""

    def for_modules(self) -> None:
        """None: modules have a relation in memory."""

    def for_paths(self) -> None:
        """None: as above."""

    def receive(self, relation: str, columns: Sequence[Column], size: int) -> RowSet:
        return rows_of(columns, size)

    def statistics(self, state: Mapping[str, Near]) -> NearSizes:
        return NearSizes(state, self.limits)

    def empty(self, relation: str) -> Near:
        return Near(Trace.empty((EMPTY,) * self.program.relations[relation].arity))

    def fitted(self, relation: str, version: Near) -> Near:
        return version

    def version(self, rows: RowSet, orders: Iterable[Order] = ()) -> Near:
        return Near(Trace.of(rows))

    def view(self, *versions: Near, without: Near | None = None) -> NearView:
        (first, *others) = versions
        gone = (without,) if without is not None and len(without) else ()
        return NearView(((first, gone), *((version, ()) for version in others)))

    # ----------------------------------------------------------------------------------------------------- plans

    def prepare(self, plan: Plan) -> NearPlan:
        return NearPlan(self, decided_plan(plan))

    def derive(self, relation: str, plans: Sequence[NearPlan], views: Views, known: Near | NearView) -> RowSet:
        found = [self._rows(self._heads(prepared, views, counted=False)) for prepared in plans]
        return self.difference(self.local.union([self.empty(relation).rows(), *found]), known)

    def count(self, relation: str, plans: Sequence[NearPlan], views: Views) -> Counted:
        return self.total(relation, [_summed(*self._heads(prepared, views, counted=True)) for prepared in plans])

    def supports(self, relation: str, plans: Sequence[NearPlan], views: Views, known: Near | NearView) -> Counted:
        return self.excluded(self.count(relation, plans, views), known)

    def column_values(self, version: Near, column: int) -> None:
        """None: no atom is narrowed here."""

    def walk(
        self,
        front: Mapping[str, RowSet],
        plans: Sequence[NearPlan],
        views: Views,
        present: Mapping[str, NearView],
        deleting: Mapping[str, Tally] | None,
    ) -> None:
        """None: a walk has its relations in memory."""

    def grow(
        self,
        front: Mapping[str, RowSet],
        plans: Sequence[NearPlan],
        views: Views,
        present: Mapping[str, NearView],
    ) -> None:
        """None, as for `walk`."""

    def rerank(
        self,
        front: Mapping[str, RowSet],
        forward: tuple[Sequence[NearPlan], Views],
        backward: tuple[Sequence[NearPlan], Views],
        grounding: tuple[Sequence[NearPlan], Views],
        present: Mapping[str, Near],
        explicit: Mapping[str, Near],
        ranks: Mapping[str, Tally],
        tight: Mapping[str, Tally],
    ) -> None:
        """None, as `walk`."""

    def _rows(self, heads: tuple[list[Column], Bindings]) -> RowSet:
        columns, rows = heads
        return rows_of(columns, rows.size)

    def _heads(self, prepared: NearPlan, views: Views, counted: bool) -> tuple[list[Column], Bindings]:
        """The columns of the facts that full bindings stand for, and these."""
        plan = prepared.plan
        with located(self.program, (plan.rule,)):
            rows = Bindings.unit(counted)
            for step in plan.steps:
                if rows.size:
                    rows = self._step(prepared, step, rows, views)
            self.instances += rows.size
            if not rows.size:
                return [np.empty(0, np.int64) for _ in plan.head], rows
            return [compute(self.coder.values, arg, rows) for arg in plan.head], rows

    def _step(self, prepared: NearPlan, step: Step, rows: Bindings, views: Views) -> Bindings:
        """What a step makes of the bindings."""
        self.look()
        slices: Slices = {}
        self._fetch(prepared, step, rows, views, slices)
        found: list[Bindings] = []
        prepared.pipeline(step).run(rows, _local(slices), found.append)
        result = _concatenated(found)
        if result.size > self.limits.bound_rows:
            raise Abandoned(
                f"a rule of `{prepared.plan.rule.relation}` has more than {self.limits.bound_rows:,} instances"
            )
        return result

    def _fetch(self, prepared: NearPlan, step: Step, rows: Bindings, views: Views, slices: Slices) -> None:
        """Fetch whatever a step looks up for these bindings."""
        if isinstance(step, Probe):
            view = views[step.relation, step.read]
            assert isinstance(view, NearView)
            lookup = dict(zip(step.prefix, step.lookup, strict=True))
            columns = tuple(sorted(lookup))
            keys = [compute(self.coder.values, lookup[at], rows) for at in columns]
            parts, orders = slices.setdefault((step.relation, step.read), ([], set()))
            parts.append(view.matching(columns, keys, rows.size))
            orders.add(step.order)
        elif isinstance(step, Absent | Reduce):
            for probe in probes((step,)):
                # What no binding comes to is not fetched, but asked for: it has nothing to say.
                arity = self.program.relations[probe.relation].arity
                for read in (probe.read, Read.HERE, Read.THERE):
                    parts, orders = slices.setdefault((probe.relation, read), ([], set()))
                    parts.append(Trace.empty((EMPTY,) * arity).rows())
                    orders.add(probe.order)
            shared = {var.name: rows.columns[var.name] for var in step.literal.shared}
            once, _ = once_each(Bindings(rows.size, shared, rows.fields), list(shared))
            for steps in (step.steps, step.steps_there):
                self._fetch_nested(prepared, steps, once, views, slices)

    def _fetch_nested(
        self, prepared: NearPlan, steps: tuple[Step, ...], rows: Bindings, views: Views, slices: Slices
    ) -> None:
        """Fetch whatever the steps of a nested body look up: they are taken to see what that is."""
        for step in steps:
            if not rows.size:
                return
            self._fetch(prepared, step, rows, views, slices)
            found: list[Bindings] = []
            prepared.pipeline(step).run(rows, _local(slices), found.append)
            rows = _concatenated(found)

    # ------------------------------------------------------------------------------------------------------ sets

    def union(self, sets: Sequence[RowSet]) -> RowSet:
        return self.local.union(sets)

    def difference(self, rows: RowSet, version: Near | NearView) -> RowSet:
        if not len(rows) or not len(version):
            return rows
        return RowSet(rows.packing, rows.keys[~version.contains(rows)])

    def intersection(self, rows: RowSet, version: Near | NearView) -> RowSet:
        return RowSet(rows.packing, rows.keys[version.contains(rows)]) if len(rows) else rows

    # ---------------------------------------------------------------------------------------------------- counts

    def total(self, relation: str, parts: Sequence[Counted]) -> Counted:
        return self.local.total(relation, parts)

    def restricted(self, counted: Counted, rows: RowSet) -> Counted:
        return self.local.restricted(counted, rows)

    def excluded(self, counted: Counted, view: Near | NearView) -> Counted:
        if not len(counted) or not len(view):
            return counted
        keep = ~view.contains(counted.rows())
        return Counted(counted.packing, counted.keys[keep], counted.weights[keep])

    def tally(self, relation: str) -> Tally:
        return self.local.tally(relation)

    def numbered(self, relation: str, parts: Sequence[Counted], version: Near) -> Tally:
        return self.local.tally(relation).adding(self.total(relation, parts))

    def positive(self, tally: Tally, rows: RowSet) -> RowSet:
        return self.local.positive(tally, rows)

    def zero(self, tally: Tally, rows: RowSet) -> RowSet:
        return self.local.zero(tally, rows)

    def lookup(self, tally: Tally, rows: RowSet) -> Counted:
        return self.local.lookup(tally, rows)

    def times(self, rows: RowSet, number: int) -> Counted:
        return self.local.times(rows, number)

    def once(self, rows: RowSet) -> Counted:
        return self.local.once(rows)

    # --------------------------------------------------------------------------------------- aggregates in heads

    def improvement(self, relation: str, rows: RowSet, version: Near) -> tuple[RowSet, RowSet]:
        return self.local.improvement(relation, rows, self._groups_of(relation, rows, version))

    def groups(self, relation: str, rows: RowSet) -> RowSet:
        return self.local.groups(relation, rows)

    def group_rows(self, relation: str, groups: RowSet, version: Near) -> RowSet:
        if self.program.relations[relation].aggregate is None:
            return self.intersection(groups, version)
        return self.local.group_rows(relation, groups, self._groups_of(relation, groups, version))

    def totals(self, relation: str, counted: Counted) -> RowSet:
        return self.local.totals(relation, counted)

    def neighbors(self, order: Neighbors, rows: RowSet) -> RowSet:
        return self.local.neighbors(order, rows)

    def _groups_of(self, relation: str, rows: RowSet, version: Near) -> Trace:
        """What a version has for the groups of some rows."""
        aggregate = self.program.relations[relation].aggregate
        assert aggregate is not None
        if not len(rows):
            return self.empty(relation).here
        values = rows.columns()
        columns = tuple(at for at in range(len(values)) if at != aggregate[1])
        return Trace.of(version.matching(columns, [values[at] for at in columns], len(rows)))


def _summed(columns: Sequence[Column], rows: Bindings) -> Counted:
    """Facts with the instances that derive each."""
    fields = fields_covering(columns, (EMPTY,) * len(columns))
    layout: Packing = packing(fields, tuple(range(len(fields))))
    weights = np.empty(0, np.int64) if rows.weights is None or not rows.size else rows.weights
    return Counted(layout, *join.consolidate(layout.pack(columns, rows.size).copy(), weights))


def _local(slices: Slices) -> dict[tuple[str, Read], TraceView | Tally]:
    """What was fetched, as views of the kernel's."""
    return {key: TraceView.of(Trace.of(union(parts), orders)) for key, (parts, orders) in slices.items()}


def _concatenated(found: Sequence[Bindings]) -> Bindings:
    if len(found) < 2:
        return found[0] if found else Bindings(0, {}, {})
    shared = [name for name in found[0].columns if all(name in rows.columns for rows in found)]
    columns = {name: np.concatenate([rows.columns[name] for rows in found]) for name in shared}
    weights = [rows.weights for rows in found if rows.weights is not None]
    return Bindings(sum(rows.size for rows in found), columns, {}, np.concatenate(weights) if weights else None)


if TYPE_CHECKING:
    NearAlgebra = Algebra[RowSet, Near, NearView, Counted, Tally, NearPlan]
    _backend: type[NearAlgebra] = NearBackend
    _rows: type[Rows] = RowSet
    _version: type[VersionOf[RowSet]] = Near
    _view: type[ViewOf[Near]] = NearView
    _counted: type[CountedOf[RowSet]] = Counted
    _tally: type[TallyOf[Counted]] = Tally
    _executable: type[Executable] = NearPlan
