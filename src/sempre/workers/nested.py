"""Negations and aggregates whose bodies are looked up at several places."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sempre.analysis.model import Fold
from sempre.backends.bindings import Bindings, compute
from sempre.backends.pipeline import once_each
from sempre.data import dataclass
from sempre.kernel import join, reduce
from sempre.kernel.layout import Column
from sempre.kernel.values import Values
from sempre.plan.conjuncts import variables
from sempre.plan.ops import Absent, Read, Reduce, Step, probes
from sempre.workers.stages import Route, Sending, ShardViews

if TYPE_CHECKING:
    from sempre.workers.flow import Flow

_ORIGIN, _ROW = "#origin", "#row"


@dataclass(frozen=True, slots=True)
class Body:
    """A body within a plan: the variables it shares, the tags it carries, and where what it finds goes with which."""

    steps: tuple[Step, ...]
    shared: tuple[str, ...]
    tags: frozenset[str]
    back: tuple[Route, frozenset[str]]


class Nested:
    """A negation or an aggregate whose body is looked up at several places.

    The rows stay where they are. Their shared variables travel, with the worker and the number of the row they are of;
    what the body finds for them comes back to that worker.
    """

    def __init__(
        self, step: Absent | Reduce, values: Values, me: int, carried: frozenset[str], make: Callable[[Body], Flow]
    ) -> None:
        """`make` makes stages of a body; `carried` are the tags of the bodies around this one."""
        self._step = step
        self._values = values
        self._me = me
        self._outer = carried
        # A body within a body carries the tags of both.
        depth = sum(name.startswith(_ORIGIN) for name in carried)
        self._origin, self._row = f"{_ORIGIN}{depth}", f"{_ROW}{depth}"
        self._shared = tuple(sorted(var.name for var in step.literal.shared))
        back = (Route(self._origin, direct=True), self._results())
        tags = frozenset((self._origin, self._row))
        self._here = make(Body(step.steps, self._shared, tags, back))
        self._there = make(Body(step.steps_there, self._shared, tags, back)) if step.steps_there else None

    def _results(self) -> frozenset[str]:
        literal = self._step.literal
        return variables(literal.expr) if isinstance(literal, Fold) and literal.expr is not None else frozenset()

    def apply(self, rows: Bindings, views: ShardViews) -> Sending[Bindings]:
        """The rows for which the negation holds, or with the result of the aggregate."""
        step = self._step
        return self._absent(rows, views, step) if isinstance(step, Absent) else self._reduce(rows, views, step)

    def _start(self, rows: Bindings, weights: bool) -> Bindings:
        columns = {name: rows.columns[name] for name in self._shared} if rows.size else {}
        columns[self._row] = np.arange(rows.size)
        columns[self._origin] = np.full(rows.size, self._me)
        return Bindings(rows.size, columns, {}, np.ones(rows.size, np.int64) if weights else None)

    def _unchanged(self, views: ShardViews) -> bool:
        return all(
            views[p.relation, Read.THERE] is views[p.relation, Read.HERE] for p in probes(self._step.steps_there)
        )

    def _found(self, flow: Flow, rows: Bindings, views: ShardViews) -> Sending[join.Mask]:
        mask = np.zeros(rows.size, np.bool_)

        def mark(found: Bindings) -> None:
            mask[found.columns[self._row]] = True

        yield from flow.run([self._start(rows, weights=False)], views, mark, counted=False)
        return mask

    def _absent(self, rows: Bindings, views: ShardViews, step: Absent) -> Sending[Bindings]:
        live = step.live | self._outer
        if self._there is None or self._unchanged(views):
            if step.flips:
                return Bindings(0, {}, {}, rows.weights)
            found = yield from self._found(self._here, rows, views)
            return rows.keep(~found, live)
        found = yield from self._found(self._here, rows, views)
        rows = rows.keep(~found, frozenset(rows.columns))
        found_there = yield from self._found(self._there, rows, views)
        return rows.keep(found_there if step.flips else ~found_there, live)

    def _results_of(
        self, flow: Flow, rows: Bindings, views: ShardViews, literal: Fold
    ) -> Sending[tuple[join.Mask, Column]]:
        groups: list[Column] = []
        terms: list[Column] = []

        def collect(found: Bindings) -> None:
            assert found.weights is not None
            row = found.columns[self._row]
            term = row if literal.expr is None else compute(self._values, literal.expr, found)
            groups.append(row.repeat(found.weights))
            terms.append(term.repeat(found.weights))

        # Rows that share all values ask once; a worker without rows takes part all the same.
        once, places = once_each(rows, self._shared)
        yield from flow.run([self._start(once, weights=True)], views, collect, counted=True)
        result, column = reduce.by_group(literal.kind, literal.operand.value, groups, terms, once.size, self._values)
        return result[places], column[places]

    def _reduce(self, rows: Bindings, views: ShardViews, step: Reduce) -> Sending[Bindings]:
        literal, live = step.literal, step.live | self._outer
        result = literal.result.name
        found, column = yield from self._results_of(self._here, rows, views, literal)
        if self._there is not None and not self._unchanged(views):
            found_there, column_there = yield from self._results_of(self._there, rows, views, literal)
            same = found_there & (column == column_there)
            found &= ~same if step.flips else same
        elif step.flips:
            return Bindings(0, {}, {}, rows.weights)
        if step.test:
            if rows.size:
                found &= column == rows.columns[result]
            return rows.keep(found, live)
        return Bindings(rows.size, {**rows.columns, result: column}, {}, rows.weights).keep(found, live)
