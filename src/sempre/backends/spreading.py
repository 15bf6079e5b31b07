"""`x = range(a, b, s)` as a step of a plan: rows for every number, or those rows whose number is one of them.

Strata have relations in the place of ranges (`rewrites.ranges`), and never come here. Questions and explanations do:
they evaluate rules as they are written, in one state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sempre.analysis.model import Call, Expr, Kind
from sempre.backends.bindings import Bindings, Runner, Views, compute
from sempre.kernel.functors import Fault
from sempre.kernel.layout import Column
from sempre.kernel.values import Values, float_codes, floats_of
from sempre.plan.ops import Assign, Filter

RANGE = "range"
# Of more numbers than these, all ranges of a step together, nobody waits for the end.
MOST_NUMBERS = 1 << 26


def is_range(expr: Expr) -> bool:
    """Whether an expression stands for several numbers."""
    return isinstance(expr, Call) and expr.op == RANGE


def spread(step: Assign, values: Values) -> Runner:
    """Binds a variable to all numbers of a range, in a row each."""

    def run(rows: Bindings, views: Views) -> Bindings:
        at, numbers = _numbers(step.expr, values, rows)
        found = rows.take(at, frozenset(rows.columns))
        return Bindings(found.size, {**found.columns, step.var.name: numbers}, found.fields, found.weights)

    return run


def within(step: Filter, values: Values, live: frozenset[str]) -> Runner:
    """Keeps the rows whose value is among the numbers of a range."""
    sides = (step.test.left, step.test.right)
    (expr,), (other,) = ([side for side in sides if is_range(side) == wanted] for wanted in (True, False))

    def run(rows: Bindings, views: Views) -> Bindings:
        at, numbers = _numbers(expr, values, rows)
        mask = np.zeros(rows.size, np.bool_)
        mask[at[compute(values, other, rows)[at] == numbers]] = True
        return rows.keep(mask, live)

    return run


def _numbers(expr: Expr, values: Values, rows: Bindings) -> tuple[Column, Column]:
    """The codes of all numbers, and beside each the row that it is for; the rows are in order."""
    assert isinstance(expr, Call)
    bounds = np.column_stack([compute(values, arg, rows) for arg in expr.args])
    known: dict[tuple[int, ...], Column] = {}
    found: list[Column] = []
    total = 0
    for row in map(tuple, bounds.tolist()):
        if row not in known:
            known[row] = _of(row, expr.kind)
        found.append(known[row])
        total += known[row].size
        if total > MOST_NUMBERS:
            raise Fault(f"there are more than {MOST_NUMBERS:,} numbers in these ranges")
    sizes = np.fromiter(map(len, found), np.int64, len(found))
    return np.repeat(np.arange(rows.size), sizes), np.concatenate([np.empty(0, np.int64), *found])


def _of(bounds: Sequence[int], kind: Kind) -> Column:
    """The codes of the numbers between bounds that are given as codes."""
    if kind is Kind.FLOAT:
        return _floats(floats_of(np.array(bounds, np.int64)).tolist())
    if kind is Kind.UNSIGNED:
        bounds = [code + (1 << 64) if code < 0 else code for code in bounds]
    first, end, *rest = bounds
    step = rest[0] if rest else 1 if first <= end or kind is Kind.UNSIGNED else -1
    if not step:
        numbers = range(first, first + (first != end))
    else:
        numbers = range(first, end, step)
    # A range of more than 64 bits has no length in Python.
    if numbers and abs(numbers[-1] - first) // max(abs(step), 1) > MOST_NUMBERS:
        raise Fault(f"range({', '.join(map(str, bounds))}) has more than {MOST_NUMBERS:,} numbers")
    return np.array(numbers, np.uint64 if kind is Kind.UNSIGNED else np.int64).view(np.int64)


def _floats(bounds: Sequence[float]) -> Column:
    """Floats are added up one by one, as strata do it, up to one that stays as it is."""
    first, end, *rest = bounds
    step = rest[0] if rest else 1.0 if first <= end else -1.0
    found: list[float] = [first] if step == 0.0 and first != end else []
    at = first
    while (step > 0 and at < end) or (step < 0 and at > end):
        found.append(at)
        if len(found) > MOST_NUMBERS:
            raise Fault(f"range({', '.join(map(str, bounds))}) has more than {MOST_NUMBERS:,} numbers")
        if at + step == at:
            break
        at += step
    return float_codes(np.array(found, np.float64))
