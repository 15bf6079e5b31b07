"""The local backend: plans over the kernel's traces, in this process, on a few threads.

Rows of a relation live in a `Trace`, what rules derive comes back as a `RowSet` or `Counted`, and a rule reads a
`TraceView`. Large inputs are cut into slices that run on the thread pool; the kernel's array operations release
the interpreter.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from sempre.analysis.head_aggregates import names_in
from sempre.analysis.model import CheckedProgram, Expr, Fact, Var
from sempre.backends import head_groups
from sempre.backends.bindings import Bindings, Gather, Views, compute, view_of
from sempre.backends.column_values import ColumnValues
from sempre.backends.growing import Grown, grow
from sempre.backends.lookups import Scan
from sempre.backends.new_facts import NewFacts, summed
from sempre.backends.ordering import Ordering
from sempre.backends.pipeline import Pipeline
from sempre.backends.rerank import BACKWARD, FORWARD, GROUNDING, Reranked, is_rerankable, rerank
from sempre.backends.tails import Ends
from sempre.backends.trace_statistics import TraceStatistics
from sempre.backends.walk_code import WalkResult, is_walkable, walk
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic
from sempre.kernel import compiled, gather, join
from sempre.kernel.chains import Chain, digest
from sempre.kernel.functors import Fault
from sempre.kernel.gather import NO_WEIGHTS
from sempre.kernel.layout import (
    EMPTY,
    GROWTH_BITS,
    NARROW_BITS,
    Column,
    Field,
    Keys,
    Packing,
    common_packing,
    fields_covering,
    packing,
    span_of,
)  # fmt: skip
from sempre.kernel.tally import Counted, Tally
from sempre.kernel.trace import ExcludedRows, Order, RowSet, Trace, TraceView
from sempre.kernel.values import Values
from sempre.limits import DEFAULTS, Limits
from sempre.plan.backend import (
    DRIVER,
    ChainOf,
    CountedOf,
    CycleAlgebra,
    Executable,
    GrownOf,
    Look,
    ModuleAlgebra,
    OrderingOf,
    RerankedOf,
    Rows,
    TallyOf,
    VersionOf,
    ViewOf,
    WalkOf,
)  # fmt: skip
from sempre.plan.domains import domains
from sempre.plan.faults import located
from sempre.plan.meter import Meter
from sempre.plan.ops import Distinct, Either, Neighbors, Plan, Probe, Step

# Where facts are found this many times on average, repetitions are added up before anything is sorted; where they are
# not, that is tried again after so many times.
REPEATING = 3
REPEAT_AGAIN = 16


@dataclass(slots=True)
class CompiledPlan:
    """A plan compiled for this backend."""

    plan: Plan
    scan: Scan | None
    pipeline: Pipeline
    multiplies: bool  # whether a row may stand for several instances, so that it needs a weight to count them
    repeats: Repeats = field(default_factory=lambda: Repeats())
    _walkable: tuple[frozenset[str], bool] | None = None
    _rerankable: bool | None = None

    def rerankable(self) -> bool:
        """Whether the plan can be followed fact by fact in a stratum where nothing is added."""
        if self._rerankable is None:
            self._rerankable = is_rerankable(self.plan)
        return self._rerankable

    def walkable(self, own: frozenset[str]) -> bool:
        """Whether the plan can be walked in a stratum of these relations."""
        if self._walkable is None or self._walkable[0] != own:
            self._walkable = (own, is_walkable(self.plan, own))
        return self._walkable[1]


class LocalBackend:
    """Runs plans in this process."""

    place = DRIVER

    def __init__(self, program: CheckedProgram, threads: int | None = None, limits: Limits = DEFAULTS) -> None:
        self.program = program
        self.limits = limits
        self.values = Values()
        self.threads = threads or os.cpu_count() or 1
        self._pool: ThreadPoolExecutor | None = None
        # How many instances plans have found so far; threads add to it one after the other.
        self.instances = 0
        self._counting = threading.Lock()
        self._watcher: Look | None = None
        self.meter: Meter | None = None
        self._domains = domains(program)
        self._fields: dict[str, tuple[Field, ...]] = {
            name: (EMPTY,) * relation.arity for name, relation in program.relations.items()
        }

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    # ---------------------------------------------------------------------------------------------- relations

    @property
    def fields(self) -> Mapping[str, tuple[Field, ...]]:
        """How rows of every relation are laid out at present."""
        return self._fields

    def restore(self, fields: Mapping[str, tuple[Field, ...]]) -> None:
        """Lay rows out as an earlier backend did, of this program or of one with other modules.

        Columns that share a domain are laid out alike, also where they did not share it, or were not there.
        """
        wide: dict[int, Field] = {}
        for (name, index), domain in self._domains.items():
            known = fields[name][index] if name in fields else EMPTY
            have = wide.get(domain, EMPTY)
            if known.bits and have.bits and known != have:
                known = Field.covering(min(known.lo, have.lo), max(known.hi, have.hi))
            wide[domain] = known if known.bits else have
        self._fields = {
            name: tuple(wide[self._domains[name, index]] for index in range(len(row)))
            for name, row in self._fields.items()
        }

    def fit(self, columns: Mapping[str, Sequence[Column]]) -> None:
        """Make room for these columns, in their relations and in all that share a domain with them.

        Spare bits are left as far as every relation that fits one word still does.
        """
        spans: dict[int, tuple[int, int]] = {}
        for name, relation_columns in columns.items():
            for index, column in enumerate(relation_columns):
                if column.size:
                    lo, hi = span_of(column)
                    domain = self._domains[name, index]
                    known = spans.get(domain, (lo, hi))
                    spans[domain] = (min(lo, known[0]), max(hi, known[1]))
        grown: dict[int, Field] = {}
        for (name, index), domain in self._domains.items():
            field = grown.get(domain, self._fields[name][index])
            if domain in spans and not field.holds(*spans[domain]):
                lo, hi = spans[domain]
                grown[domain] = (
                    Field.covering(min(lo, field.lo), max(hi, field.hi)) if field.bits else Field.covering(lo, hi)
                )
        if grown:
            self._fields = self._with_slack(grown)

    def _with_slack(self, grown: dict[int, Field]) -> dict[str, tuple[Field, ...]]:
        for slack in range(GROWTH_BITS, -1, -1):
            roomy = {domain: field.grown(slack) for domain, field in grown.items()}
            fields = {
                name: tuple(roomy.get(self._domains[name, i], field) for i, field in enumerate(old))
                for name, old in self._fields.items()
            }
            bits = [sum(field.bits for field in row) for row in fields.values()]
            if slack == 0 or not any(NARROW_BITS < b <= NARROW_BITS + slack * len(grown) * 4 for b in bits):
                break
        return fields

    def fitted(self, relation: str, version: Trace) -> Trace:
        """The version with room for what `fit` announced."""
        fields = self._fields[relation]
        if all(own.contains(wanted) for own, wanted in zip(version.fields, fields, strict=True)):
            return version
        return version.widened(
            tuple(
                wanted
                if wanted.contains(own)
                else own
                if own.contains(wanted)
                else Field.covering(min(own.lo, wanted.lo), max(own.hi, wanted.hi))
                for own, wanted in zip(version.fields, fields, strict=True)
            )
        )

    def constants(self, facts: Sequence[Fact]) -> list[Column]:
        """The columns of facts of one relation that a program states."""
        rows: list[list[Column]] = []
        for fact in facts:
            try:
                rows.append([compute(self.values, arg, Bindings.unit(counted=False)) for arg in fact.args])
            except Fault as fault:
                raise DataError(
                    Diagnostic("E510", f"{fault}", fact.span, detail=f"in the fact: {fact.text}"), self.program.sources
                ) from None
        return [np.concatenate(column) for column in zip(*rows, strict=True)]

    def empty(self, relation: str, orders: Iterable[Order] = ()) -> Trace:
        return Trace.empty(self._fields[relation], (*orders, *self._group_orders(relation)))

    def _group_orders(self, relation: str) -> tuple[Order, ...]:
        """The order that rounds look up what a relation has for its groups by: it is kept from the first row on."""
        aggregate = self.program.relations[relation].aggregate
        if aggregate is None:
            return ()
        return (head_groups.group_order(self.program.relations[relation].arity, aggregate[1]),)

    def rows(self, relation: str, columns: Sequence[Column], size: int) -> RowSet:
        """Distinct rows from encoded columns."""
        fields = fields_covering(columns, self._fields[relation])
        layout = packing(fields, tuple(range(len(fields))))
        return RowSet(layout, join.distinct(layout.pack(columns, size).copy()))

    def receive(self, relation: str, columns: Sequence[Column], size: int) -> RowSet:
        """Rows that another backend has."""
        self.fit({relation: columns})
        return self.rows(relation, columns, size)

    def settle(self, rows: Iterable[RowSet | Counted]) -> None:
        """Nothing here is lazy."""

    def finish(self) -> None:
        """Nothing here has to be put in order."""

    def keep(self) -> None:
        self.values.keep()

    def forget(self) -> None:
        if not self.values.is_kept:
            self.values.forget()

    def branch(self) -> LocalBackend:
        """A backend for questions: it begins with the layouts and the values of this one, and changes neither."""
        branch = copy.copy(self)
        branch.values = self.values.branch()
        branch._pool = None
        branch._counting = threading.Lock()
        branch.instances = 0
        return branch

    def no_rows(self, relation: str) -> RowSet:
        trace = self.empty(relation)
        return RowSet(trace.packing, np.empty(0, trace.packing.dtype))

    def union(self, sets: Sequence[RowSet]) -> RowSet:
        """The distinct rows of all the sets."""
        sets = [rows for rows in sets if len(rows)] or list(sets[:1])
        if len(sets) == 1:
            return sets[0]
        layout = common_packing([rows.packing for rows in sets])
        return RowSet(layout, join.distinct(np.concatenate([rows.repacked(layout).keys for rows in sets])))

    def difference(self, rows: RowSet, version: TraceView | Trace) -> RowSet:
        """The rows that are not in a version or view."""
        if not len(rows) or not len(version):
            return rows
        found = version.contains(rows)
        return RowSet(rows.packing, rows.keys[~found]) if found.any() else rows

    def intersection(self, rows: RowSet, version: TraceView | Trace) -> RowSet:
        """The rows that are in a version or view."""
        return RowSet(rows.packing, rows.keys[version.contains(rows)])

    def version(self, rows: RowSet, orders: Iterable[Order] = ()) -> Trace:
        return Trace.of(rows, orders)

    def view(self, *versions: Trace, without: Trace | None = None) -> TraceView:
        view = TraceView.of(*versions)
        return view if without is None or not len(without) else view.without(without)

    def statistics(self, state: Mapping[str, Trace]) -> TraceStatistics:
        return TraceStatistics(state, self.limits)

    # -------------------------------------------------------------------------------------------------- plans

    def prepare(self, plan: Plan) -> CompiledPlan:
        """Compile a plan; do it once and keep the result."""
        scans = bool(plan.steps) and isinstance(plan.steps[0], Probe) and not plan.steps[0].lookup
        if len(plan.steps) > 1 and isinstance(plan.steps[1], Distinct):
            scans = False  # it has to see all of the first step at once
        if not scans:
            return CompiledPlan(
                plan,
                None,
                self._pipeline(plan.steps, plan),
                multiplies(plan.steps),
            )
        first = plan.steps[0]
        assert isinstance(first, Probe)
        rest = plan.steps[1:]
        pipeline = self._pipeline(rest, plan, first.binds, merges_first=len(first.binds) < len(first.order))
        return CompiledPlan(plan, Scan(first, self.values, self.limits.piece_rows), pipeline, multiplies(rest))

    def _pipeline(
        self, steps: Sequence[Step], plan: Plan, binds: Sequence[tuple[int, Var]] = (), merges_first: bool = False
    ) -> Pipeline:
        limits = self.limits
        needed = frozenset(name for arg in plan.head for name in names_in(arg))
        return Pipeline(
            steps,
            self.values,
            limits.piece_rows,
            on_piece=self._look,
            merging_rows=limits.merging_rows,
            merges_first=merges_first,
            ends=Ends(frozenset(var.name for _, var in binds), needed, first=0 if binds else 1),
        )

    def watch(self, look: Look | None) -> None:
        """Have `look` called between the slices of what plans read, and the pieces of large joins."""
        self._watcher = look

    def _look(self, rest: float | None = None) -> None:
        if self._watcher is not None:
            self._watcher(rest)

    def derive(self, relation: str, plans: Sequence[CompiledPlan], views: Views, known: TraceView | Trace) -> RowSet:
        """The distinct facts that the plans derive and that are not known yet."""
        found = NewFacts(self._target(relation, known), known, counts=False)
        for prepared in plans:
            heads = Heads(self, prepared.plan, prepared.repeats, found)
            self._run(prepared, views, heads, counted=False, counts=False)
        parts = found.finished()
        if not parts:
            return RowSet(found.target, np.empty(0, found.target.dtype))
        return self.union([part.rows() for part in parts])

    def supports(self, relation: str, plans: Sequence[CompiledPlan], views: Views, known: TraceView | Trace) -> Counted:
        """The facts that the plans derive and that are not known yet, with how many instances derive each."""
        found = NewFacts(self._target(relation, known), known, counts=True)
        for prepared in plans:
            self._run(prepared, views, Heads(self, prepared.plan, prepared.repeats, found), counted=prepared.multiplies)
        parts = found.finished()
        if not parts:
            return Counted(found.target, np.empty(0, found.target.dtype), np.empty(0, np.int64))
        layout = common_packing([part.packing for part in parts])
        if len(parts) == 1:
            return parts[0].narrowed()
        return Counted(layout, *summed(parts, layout)).narrowed()

    def count(self, relation: str, plans: Sequence[CompiledPlan], views: Views) -> Counted:
        """The facts that the plans derive, with the number of instances that derive each."""
        target = self.empty(relation).packing
        parts: list[Counted] = []

        def sink_for(plan: Plan) -> Callable[[Bindings], None]:
            def sink(rows: Bindings) -> None:
                layout, keys = self._head(plan, rows, target)
                assert rows.weights is not None
                parts.append(Counted(layout, *join.consolidate(keys, rows.weights)))

            return sink

        for prepared in plans:
            self._run(prepared, views, sink_for(prepared.plan), counted=True)
        return self.total(relation, parts)

    def total(self, relation: str, parts: Sequence[Counted]) -> Counted:
        """The sums of the numbers of instances."""
        if not parts:
            target = self.empty(relation).packing
            return Counted(target, np.empty(0, target.dtype), np.empty(0, np.int64))
        if len(parts) == 1:
            return parts[0]
        layout = common_packing([part.packing for part in parts])
        keys = np.concatenate([RowSet(part.packing, part.keys).repacked(layout).keys for part in parts])
        return Counted(layout, *join.consolidate(keys, np.concatenate([part.weights for part in parts])))

    def restricted(self, counted: Counted, rows: RowSet) -> Counted:
        """What is counted of these rows."""
        keep = Trace.of(rows).contains(counted.rows())
        return Counted(counted.packing, counted.keys[keep], counted.weights[keep])

    def excluded(self, counted: Counted, view: TraceView | Trace) -> Counted:
        """What is counted of rows outside the view."""
        if not len(counted) or not len(view):
            return counted
        keep = ~view.contains(counted.rows())
        return Counted(counted.packing, counted.keys[keep], counted.weights[keep])

    def tally(self, relation: str) -> Tally:
        """A map from facts to numbers, all zero."""
        return Tally(self.empty(relation).packing)

    def numbered(self, relation: str, parts: Sequence[Counted], version: Trace) -> Tally:
        """A map with these numbers, on the keys that the version has anyway."""
        return Tally.over(version, parts)

    def chain(self, relation: str, rows: RowSet) -> Chain:
        """The chains of a relation before the first cycle, when it has these rows."""
        return Chain.starting(rows)

    def digest(self, relation: str, rows: RowSet) -> int:
        """A number that tells sets of facts apart: that of a symmetric difference is the exclusive or of the two."""
        return digest(relation, rows)

    def positive(self, tally: Tally, rows: RowSet) -> RowSet:
        """The rows whose number is above zero."""
        return RowSet(rows.packing, rows.keys[tally.get(rows) > 0]) if len(rows) else rows

    def zero(self, tally: Tally, rows: RowSet) -> RowSet:
        """The rows whose number is zero."""
        return RowSet(rows.packing, rows.keys[tally.get(rows) == 0]) if len(rows) else rows

    def lookup(self, tally: Tally, rows: RowSet) -> Counted:
        """The rows with their numbers; those whose number is zero are left out."""
        numbers = tally.get(rows)
        keep = numbers != 0
        return Counted(rows.packing, rows.keys[keep], numbers[keep])

    def times(self, rows: RowSet, number: int) -> Counted:
        """Rows with the same number each."""
        return Counted(rows.packing, rows.keys, np.full(len(rows), number))

    def once(self, rows: RowSet) -> Counted:
        """Rows that count one each."""
        return Counted(rows.packing, rows.keys, np.ones(len(rows), np.int64))

    def column_values(self, version: Trace, column: int) -> ColumnValues:
        """The values of a column, to look for them in others."""
        return ColumnValues.of(version, column)

    def walk(
        self,
        front: Mapping[str, RowSet],
        plans: Sequence[CompiledPlan],
        views: Views,
        present: Mapping[str, TraceView],
        deleting: Mapping[str, Tally] | None,
    ) -> WalkResult | None:
        """Follow delta plans from a small front, row by row, or None where arrays have to do it."""
        own = frozenset(present)
        if not all(prepared.walkable(own) for prepared in plans):
            return None
        walked = walk(front, [prepared.plan for prepared in plans], views, present, deleting, self.values)
        if walked is not None:
            self.instances += sum(int(counted.weights.sum()) for counted in walked.counts.values())
        return walked

    def grow(
        self,
        front: Mapping[str, RowSet],
        plans: Sequence[CompiledPlan],
        views: Views,
        present: Mapping[str, TraceView],
    ) -> Grown | None:
        """Follow what is new fact by fact, or None where arrays have to do it."""
        if not all(prepared.rerankable() for prepared in plans):
            return None
        grown = grow(front, [prepared.plan for prepared in plans], views, present, self.values, self._look)
        if grown is None:
            return None
        self.saw(grown[1])
        return grown[0]

    def rerank(
        self,
        front: Mapping[str, RowSet],
        forward: tuple[Sequence[CompiledPlan], Views],
        backward: tuple[Sequence[CompiledPlan], Views],
        grounding: tuple[Sequence[CompiledPlan], Views],
        present: Mapping[str, Trace],
        explicit: Mapping[str, Trace],
        ranks: Mapping[str, Tally],
        tight: Mapping[str, Tally],
    ) -> Reranked | None:
        """Settle facts that lost support, fact by fact, or None where arrays have to do it."""
        tasks = ((forward, FORWARD), (backward, BACKWARD), (grounding, GROUNDING))
        if not all(prepared.rerankable() for (plans, _), _ in tasks for prepared in plans):
            return None
        code = [(prepared.plan, views, task) for (plans, views), task in tasks for prepared in plans]
        own, given = ({name: self.view(trace) for name, trace in some.items()} for some in (present, explicit))
        return rerank(front, code, own, given, (ranks, tight), self.values, self._look)

    # ----------------------------------------------------------------------------------------------- for modules

    def for_modules(self) -> LocalBackend:
        """Modules work in this process."""
        return self

    def for_paths(self) -> None:
        """None: `for_modules` is what there is."""

    def columns(self, rows: RowSet) -> list[Column]:
        return rows.columns()

    def collect(self, relation: str, blocks: Iterable[Sequence[Column]], size: int | None) -> RowSet:
        """The distinct rows of blocks of encoded columns; quick when they come in order and their size is known."""
        layout = self.empty(relation).packing
        keys = np.empty(size or 0, layout.dtype)
        parts: list[RowSet] = []
        at = 0
        for block in blocks:
            rows = block[0].size
            fields = fields_covering(block, layout.fields)
            if size is None or fields != layout.fields:
                own = packing(fields, layout.order)
                parts.append(RowSet(own, join.distinct(own.pack(block, rows))))
                continue
            keys[at : at + rows] = layout.pack(block, rows)
            at += rows
        keys = keys[:at]
        compiled.loops(at)  # a closure is made without the loops, but whatever follows will want them
        if keys.dtype != np.int64 or not (keys[1:] > keys[:-1]).all():
            keys = join.distinct(keys)
        return self.union([RowSet(layout, keys), *parts])

    def chosen(self, rows: RowSet, mask: join.Mask) -> RowSet:
        return RowSet(rows.packing, rows.keys[mask])

    def standing(self, view: TraceView) -> Trace:
        """The rows of a view as a version of their own."""
        parts = [self._left(trace, excluded) for trace, excluded in view.parts]
        return Trace.of(self.union(parts))

    def _left(self, trace: Trace, excluded: Iterable[ExcludedRows]) -> RowSet:
        rows = trace.rows()
        for other in excluded:
            rows = RowSet(rows.packing, rows.keys[~other.contains(rows)])
        return rows

    def ordering(self, order: Neighbors, rows: RowSet) -> Ordering:
        """Rows of `order.source`, kept sorted."""
        return Ordering.of(order, rows, self.rows)

    def neighbors(self, order: Neighbors, rows: RowSet) -> RowSet:
        """All neighbors of rows of `order.source`."""
        return self.ordering(order, rows).neighbors()

    # -------------------------------------------------------------------------------------- aggregates in heads

    def improvement(self, relation: str, rows: RowSet, version: Trace) -> tuple[RowSet, RowSet]:
        """The best rows that beat what `version` has for their groups, and the rows they replace."""
        kind, column, operand = self._aggregate(relation)
        return head_groups.improvement(self.values, rows, version, kind, operand, column)

    def groups(self, relation: str, rows: RowSet) -> RowSet:
        """One row for each group of a relation with an aggregate; every row, of any other relation."""
        declared = self.program.relations[relation]
        if declared.aggregate is None:
            return rows
        return head_groups.first_per_group(rows, declared.aggregate[1])

    def group_rows(self, relation: str, groups: RowSet, version: Trace) -> RowSet:
        """The rows of `version` in these groups; without an aggregate, those that are among them."""
        declared = self.program.relations[relation]
        if declared.aggregate is None:
            return self.intersection(groups, version)
        return head_groups.group_rows(groups, version, declared.aggregate[1])

    def totals(self, relation: str, counted: Counted) -> RowSet:
        """One row per group of a relation that keeps the `sum` or `count`."""
        kind, column, operand = self._aggregate(relation)
        with located(self.program, [rule for rule in self.program.rules if rule.relation == relation]):
            return head_groups.totals(counted.packing, counted.keys, counted.weights, kind, operand, column)

    def _aggregate(self, relation: str) -> tuple[str, int, str]:
        declared = self.program.relations[relation]
        assert declared.aggregate is not None
        kind, column = declared.aggregate
        return kind, column, declared.kinds[column].value

    def _target(self, relation: str, known: TraceView | Trace) -> Packing:
        trace = known.parts[0][0] if isinstance(known, TraceView) else known
        return trace.packing if trace.size else self.empty(relation).packing

    def _run(
        self,
        prepared: CompiledPlan,
        views: Views,
        sink: Callable[[Bindings], None],
        counted: bool,
        counts: bool = True,
    ) -> None:
        """Run a plan, with weights from the start if `counted`; `counts` is whether the sink counts instances."""
        meter = self.meter
        if meter is None:
            self._run_plan(prepared, views, sink, counted, counts)
            return
        began, before = time.perf_counter(), self.instances
        self._run_plan(prepared, views, sink, counted, counts)
        meter.ran(prepared.plan.rule, time.perf_counter() - began, self.instances - before)

    def _run_plan(
        self, prepared: CompiledPlan, views: Views, sink: Callable[[Bindings], None], counted: bool, counts: bool
    ) -> None:
        with located(self.program, (prepared.plan.rule,)):
            try:
                if prepared.scan is None:
                    prepared.pipeline.run(Bindings.unit(counted), views, sink, counts=counts)
                else:
                    self._run_slices(prepared, views, sink, counted, counts)
            finally:
                prepared.pipeline.forget()

    def _run_slices(
        self, prepared: CompiledPlan, views: Views, sink: Callable[[Bindings], None], counted: bool, counts: bool
    ) -> None:
        assert prepared.scan is not None
        view = view_of(views, prepared.scan.key)
        slices = prepared.scan.slices(view, self.limits.slice_rows, counted)
        if self.threads == 1 or len(view) < self.limits.parallel_rows:
            for rows in slices:
                self._look()
                prepared.pipeline.run(rows, views, sink, counts=counts)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, "sempre")
        for _ in self._pool.map(lambda rows: prepared.pipeline.run(rows, views, sink, counts=counts), slices):
            self._look()

    def saw(self, instances: int) -> None:
        """Count instances that plans found."""
        with self._counting:
            self.instances += instances

    def _head(self, plan: Plan, rows: Bindings, target: Packing) -> tuple[Packing, Keys]:
        """The keys of the facts that full rows stand for, in `target` if they fit, else in a wider packing."""
        self.saw(rows.size)
        columns = [compute(self.values, arg, rows) for arg in plan.head]
        if not all(
            _fits(arg, rows, field, column)
            for arg, field, column in zip(plan.head, target.fields, columns, strict=True)
        ):
            target = packing(fields_covering(columns, target.fields), target.order)
        keys = target.pack(columns, rows.size)
        # A relation with one column packs to the column itself, which others may hold.
        return target, keys.copy() if any(keys is column for column in columns) else keys


class Heads(Gather):
    """Collects what one plan finds."""

    def __init__(self, backend: LocalBackend, plan: Plan, repeats: Repeats, found: NewFacts) -> None:
        super().__init__(plan.head, found.target)
        self._backend = backend
        self._plan = plan
        self._repeats = repeats
        self._found = found

    def __call__(self, rows: Bindings) -> None:
        layout, keys = self._backend._head(self._plan, rows, self.target)
        if not self._found.counts:
            self._found.add(layout, join.distinct(keys), NO_WEIGHTS)
        elif rows.weights is None:
            self._found.add(layout, *join.tally(keys))
        else:
            self._found.add(layout, *join.consolidate(keys, rows.weights))

    def keep(self, loops: Any, found: gather.Join) -> Iterator[None]:
        total = int(found.ends.sum()) - int(found.begins.sum())
        self._backend.saw(total)
        bucket = self._found.bucket()
        if not self._repeats.likely() and bucket.holds(found.weights):
            bucket.pour(loops, found)
            yield
            return
        kept = 0
        for keys, counts in gather.gathered(loops, found):
            bucket.add(keys, counts)
            kept += keys.size
            yield
        self._repeats.saw(total, kept)


@dataclass(slots=True)
class Repeats:
    """Whether what a plan finds repeats so much that it pays to look for repetitions before anything else."""

    found: int = 0
    kept: int = 0
    left_out: int = 0

    def saw(self, found: int, kept: int) -> None:
        self.found, self.kept = self.found // 2 + found, self.kept // 2 + kept

    def likely(self) -> bool:
        if self.kept * REPEATING < self.found or self.left_out == REPEAT_AGAIN or not self.found:
            self.left_out = 0
            return True
        self.left_out += 1
        return False


def unsealed(backend: object) -> LocalBackend:
    """A backend that is known to be the local one, as what it is."""
    assert isinstance(backend, LocalBackend)
    return backend


def multiplies(steps: Sequence[Step]) -> bool:
    """Whether some probe binds nothing and may still find several rows."""
    return any(
        (isinstance(step, Probe) and not step.binds and not step.same and len(step.lookup) < len(step.order))
        or (isinstance(step, Either) and any(map(multiplies, step.options)))
        for step in steps
    )


def _fits(arg: Expr, rows: Bindings, field: Field, column: Column) -> bool:
    if isinstance(arg, Var):
        known = rows.fields.get(arg.name)
        if known is field or (known is not None and field.contains(known)):
            return True
    return not column.size or field.holds(int(column.min()), int(column.max()))


if TYPE_CHECKING:
    # What this backend can do, and that its types are of one family.
    LocalModules = ModuleAlgebra[RowSet, Trace, TraceView, Counted, Tally, CompiledPlan]
    LocalCycles = CycleAlgebra[RowSet, Trace, TraceView, Counted, Tally, CompiledPlan]
    _modules: type[LocalModules] = LocalBackend
    _cycles: type[LocalCycles] = LocalBackend
    _rows: type[Rows] = RowSet
    _version: type[VersionOf[RowSet]] = Trace
    _view: type[ViewOf[Trace]] = TraceView
    _counted: type[CountedOf[RowSet]] = Counted
    _tally: type[TallyOf[Counted]] = Tally
    _executable: type[Executable] = CompiledPlan
    _walk: type[WalkOf[RowSet, Counted]] = WalkResult
    _reranked: type[RerankedOf[RowSet, Counted]] = Reranked
    _grown: type[GrownOf[RowSet, Counted]] = Grown
    _ordering: type[OrderingOf[RowSet]] = Ordering
    _chain: type[ChainOf[RowSet, Trace, TraceView, Counted]] = Chain
