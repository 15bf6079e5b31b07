"""Delta plans as code for the kernel's walker.

A plan can be walked when its only atom of the stratum is the pivot and everything else is a lookup, an absence, or a
comparison of plain values, on narrow keys. Whatever is not walkable is left to the array operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from sempre.analysis.model import Const, Expr, Kind, Var
from sempre.backends.bindings import Views, encode, view_of
from sempre.data import dataclass
from sempre.kernel import compiled, join
from sempre.kernel.layout import INT64_MAX, Packing
from sempre.kernel.tally import Counted, Tally
from sempre.kernel.trace import Order, RowSet, Trace, TraceView
from sempre.kernel.values import Values
from sempre.plan.ops import Absent, Assign, Filter, Plan, Probe, Read, Step

# Opcodes and operators of kernel/walker.py, which is imported only once it is loaded.
SCAN, PROBE, ABSENT, COMPARE, MOVE, EMIT = range(6)
OPERATORS = {"=": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
INSERT, DELETE = 0, 1
MORE, OVERFLOW = 1, 2
TABLE_BITS = 17
WALK_BUDGET = 1 << 15


class NotWalkable(Exception):
    """These plans or versions have to be evaluated otherwise."""


@dataclass(frozen=True, slots=True)
class WalkResult:
    """What a walk did: facts that joined and were followed, facts that joined and were not, and all counts."""

    followed: dict[str, RowSet]
    pending: dict[str, RowSet]
    counts: dict[str, Counted]


def is_walkable(plan: Plan, own: frozenset[str]) -> bool:
    """Whether the shape of a plan can be walked."""
    first, *rest = plan.steps
    plain = isinstance(first, Probe) and first.read is Read.ONLY and first.relation in own
    return plain and all(map(is_plain, plan.head)) and all(is_walkable_step(s, own) for s in rest)


def is_plain(expr: Expr) -> bool:
    """Whether an expression needs no computing."""
    return isinstance(expr, Var | Const)


def is_walkable_step(step: Step, own: frozenset[str]) -> bool:
    """Whether a step can be walked in a stratum of relations `own`."""
    if isinstance(step, Probe):
        return step.relation not in own
    if isinstance(step, Filter):
        test = step.test
        ordered = test.kind is Kind.NUMBER and test.op in OPERATORS
        return (test.op in ("=", "!=") or ordered) and is_plain(test.left) and is_plain(test.right)
    if isinstance(step, Assign):
        return is_plain(step.expr)
    if isinstance(step, Absent):
        nested = (*step.steps, *step.steps_there)
        one_each = len(step.steps) == 1 and len(step.steps_there) <= 1 and not step.flips
        return one_each and all(isinstance(s, Probe) and not s.same and s.relation not in own for s in nested)
    return False


@dataclass(slots=True)
class WalkWriter:
    """Collects code, sources and runs; keeps the arrays alive whose addresses it has taken."""

    values: Values
    views: Views
    code: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    sources: list[tuple[int, int]] = field(default_factory=list)
    parts: list[tuple[int, int, int, int]] = field(default_factory=list)
    runs: list[tuple[int, int, int, int]] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)
    most_slots: int = 0
    _known: dict[tuple[int, Order], tuple[int, Packing]] = field(default_factory=dict)

    def source(self, view: TraceView, order: Order) -> tuple[int, Packing]:
        """A view as a source of keys in one order, and their packing."""
        key = (id(view), order)
        if key not in self._known:
            self._known[key] = self._add_source(view, order)
        return self._known[key]

    def _add_source(self, view: TraceView, order: Order) -> tuple[int, Packing]:
        layout = view.parts[0][0].packing.reordered(order)
        if not layout.narrow:
            raise NotWalkable
        first = len(self.parts)
        for trace, excluded in view.parts:
            if trace.size:
                plus = self._add_runs(trace, order, layout)
                minus_start = len(self.runs)
                for other in (*excluded, *(() if trace.dead is None else (trace.dead,))):
                    if other.size:
                        if not isinstance(other, Trace):
                            raise NotWalkable
                        self._add_runs(other, order, layout)
                self.parts.append((*plus, minus_start, len(self.runs)))
        self.sources.append((first, len(self.parts)))
        return len(self.sources) - 1, layout

    def _add_runs(self, trace: Trace, order: Order, layout: Packing) -> tuple[int, int]:
        if (
            trace.packing.reordered(order) is not layout
            or order not in trace.orders
            or (trace.dead is not None and (trace.dead.dead is not None))
        ):
            raise NotWalkable
        first = len(self.runs)
        self.runs += [run.address() for run in trace.orders[order]]
        return first, len(self.runs)

    def slot(self, name: str) -> int:
        return self.slots.setdefault(name, len(self.slots))

    def operand(self, arg: Expr) -> tuple[int, int]:
        if isinstance(arg, Const):
            return 1, encode(self.values, arg)
        assert isinstance(arg, Var)
        return 0, self.slot(arg.name)

    def emit(self, *numbers: int) -> None:
        self.starts.append(len(self.code))
        self.code.extend(numbers)

    # --------------------------------------------------------------------------------------------- instructions

    def plan(self, plan: Plan, relations: Sequence[str], targets: Mapping[str, Packing]) -> tuple[int, int]:
        """Write one plan; returns its first and last instruction."""
        first = len(self.starts)
        self.slots = {}  # plans run one after the other: each has all slots to itself
        scan, *rest = plan.steps
        assert isinstance(scan, Probe)
        self.scan(scan, targets[scan.relation])
        for step in rest:
            self.step(step)
        self.result(plan, relations.index(plan.relation), targets[plan.relation])
        self.most_slots = max(self.most_slots, len(self.slots))
        return first, len(self.starts) - 1

    def result(self, plan: Plan, number: int, target: Packing) -> None:
        """The last instruction: what an instance derives."""
        columns = [self.placed(arg, target, column) for column, arg in enumerate(plan.head)]
        self.emit(EMIT, number, len(columns), *(n for column in columns for n in column))

    def scan(self, scan: Probe, layout: Packing) -> None:
        """The first instruction: the fact that a plan starts from."""
        checks: list[int] = []
        for column, arg in zip(scan.prefix, scan.lookup, strict=True):
            assert isinstance(arg, Const)
            checks += [*place_of(layout, column), encode(self.values, arg)]
        self.emit(SCAN, len(scan.lookup), *checks, *self.binds(scan, layout))

    def binds(self, step: Probe, layout: Packing) -> list[int]:
        """What a fact binds, and which of its columns must be equal."""
        numbers = [len(step.binds)]
        for column, var in step.binds:
            numbers += [self.slot(var.name), *place_of(layout, column)]
        numbers.append(len(step.same))
        for left, right in step.same:
            numbers += [*place_of(layout, left), *place_of(layout, right)]
        return numbers

    def step(self, step: Step) -> None:
        """Any instruction between the first and the last."""
        if isinstance(step, Probe):
            source, layout = self.source(view_of(self.views, (step.relation, step.read)), step.order)
            self.emit(PROBE, source, *self.prefix(step, layout), *self.binds(step, layout))
        elif isinstance(step, Filter):
            operator = OPERATORS[step.test.op]
            self.emit(COMPARE, operator, *self.operand(step.test.left), *self.operand(step.test.right))
        elif isinstance(step, Assign):
            self.emit(MOVE, self.slot(step.var.name), *self.operand(step.expr))
        else:
            assert isinstance(step, Absent)
            self._absent(step)

    def _absent(self, step: Absent) -> None:
        seen: set[int] = set()
        for probe in (*step.steps, *step.steps_there):
            assert isinstance(probe, Probe)
            view = view_of(self.views, (probe.relation, probe.read))
            if id(view) not in seen:
                seen.add(id(view))
                source, layout = self.source(view, probe.order)
                self.emit(ABSENT, source, *self.prefix(probe, layout))

    def prefix(self, step: Probe, layout: Packing) -> list[int]:
        """What a relation is looked up by: the bits that are free, and the value of each column."""
        rest = layout.shifts[len(step.lookup) - 1] if step.lookup else layout.bits
        numbers = [(1 << rest) - 1, len(step.lookup)]
        for column, arg in zip(step.prefix, step.lookup, strict=True):
            numbers += self.placed(arg, layout, column)
        return numbers

    def placed(self, arg: Expr, layout: Packing, column: int) -> list[int]:
        """A value, and where it stands in a key."""
        layout_field = layout.fields[column]
        shift = layout.shifts[layout.order.index(column)]
        return [*self.operand(arg), layout_field.lo, layout_field.hi, shift]


def place_of(layout: Packing, column: int) -> tuple[int, int, int]:
    """Where a column stands in a key: its shift, its mask, and what is added."""
    layout_field = layout.fields[column]
    shift = layout.shifts[layout.order.index(column)]
    return shift, (1 << layout_field.bits) - 1 if layout_field.bits < 63 else INT64_MAX, layout_field.lo


def walk(
    front: Mapping[str, RowSet],
    plans: Sequence[Plan],
    views: Views,
    present: Mapping[str, TraceView],
    deleting: Mapping[str, Tally] | None,
    values: Values,
) -> WalkResult | None:
    """Follow walkable plans from the front, or None where that cannot be done now."""
    walker = compiled.walker()
    if walker is None:
        return None
    relations = list(present)
    try:
        writer = WalkWriter(values, views)
        shown = [writer.source(view, view.parts[0][0].own) for view in present.values()]
        targets = {name: layout for name, (_, layout) in zip(relations, shown, strict=True)}
        rows = []
        for plan in plans:
            scan = plan.steps[0]
            assert isinstance(scan, Probe)
            rows.append((relations.index(scan.relation), *writer.plan(plan, relations, targets)))
        keys, owners = front_of(front, relations, targets)
        tallies, ranges = _tallies(relations, targets, deleting)
    except NotWalkable:
        return None
    result = walker.walk(
        keys, owners, table_of(rows, 3), np.array(writer.starts, np.int64), np.array(writer.code, np.int64),
        table_of(writer.sources, 2), table_of(writer.parts, 4), table_of(writer.runs, 4),
        np.array([source for source, _ in shown], np.int64), tallies, ranges,
        writer.most_slots, INSERT if deleting is None else DELETE, TABLE_BITS, WALK_BUDGET,
    )  # fmt: skip
    status, done, joined, joined_of, counted, counted_of, counts = result
    if status == OVERFLOW:
        return None
    followed, pending, totals = {}, {}, {}
    for index, name in enumerate(relations):
        layout = targets[name]
        mine = joined_of == index
        mine[: keys.size] = False  # the caller knows the front
        early = np.arange(joined.size) < done
        followed[name] = RowSet(layout, np.sort(joined[mine & early]))
        pending[name] = RowSet(layout, np.sort(joined[mine & ~early]))
        own = counted_of == index
        totals[name] = Counted(layout, *join.consolidate(counted[own], counts[own]))
    return WalkResult(followed, pending, totals)


def front_of(
    front: Mapping[str, RowSet], relations: Sequence[str], targets: Mapping[str, Packing]
) -> tuple[join.Weights, join.Weights]:
    """The keys of some facts, and beside each the number of its relation."""
    keys, owners = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for name, rows in front.items():
        if rows.packing is not targets[name]:
            raise NotWalkable
        keys.append(rows.keys)
        owners.append(np.full(len(rows), relations.index(name)))
    return np.concatenate(keys), np.concatenate(owners)


def _tallies(
    relations: Sequence[str], targets: Mapping[str, Packing], deleting: Mapping[str, Tally] | None
) -> tuple[join.Weights, join.Weights]:
    rows: list[tuple[int, int, int, int]] = []
    ranges: list[tuple[int, int]] = []
    for name in relations:
        first = len(rows)
        if deleting is not None and name in deleting:
            if deleting[name].packing is not targets[name]:
                raise NotWalkable
            rows += deleting[name].addresses()
        ranges.append((first, len(rows)))
    return table_of(rows, 4), table_of(ranges, 2)


def table_of(rows: Sequence[tuple[int, ...]], width: int) -> join.Weights:
    """Rows of so many integers as an array."""
    return np.array(rows, np.int64).reshape(len(rows), width)
