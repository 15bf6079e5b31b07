"""From a rule to its plans: a greedy join order by bound columns and measured sizes.

After the pivot, whatever only filters comes first; then the atom expected to yield the fewest rows per row so far,
cross products last; operations that can fail (division, overflow) as late as possible, so that they see only rows
that everything else let through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sempre.analysis.model import Call, Compare, Const, Expr, Fold, Literal, Match, NormalRule, Not, Unpack, Var
from sempre.kernel.functors import can_fail
from sempre.plan.indexes import Orders
from sempre.plan.ops import Absent, Assign, Filter, Plan, Probe, Read, Reduce, Step, TakeApart

NOTHING: frozenset[str] = frozenset()


class Statistics(Protocol):
    """What the planner wants to know of the data."""

    def size(self, relation: str) -> int: ...

    def distinct(self, relation: str, column: int) -> int:
        """About how many different values a column has; at least 1."""
        ...


def reads_for(body: Sequence[Literal], pivot: int | None) -> tuple[Read, ...]:
    """The version each literal reads: both left of the pivot, here right of it; without a pivot all here."""
    if pivot is None:
        return (Read.HERE,) * len(body)
    return tuple(
        Read.BOTH if index < pivot else Read.ONLY if index == pivot else Read.HERE for index in range(len(body))
    )


def plan_rule(rule: NormalRule, pivot: int | None, statistics: Statistics, orders: Orders) -> Plan:
    """The plan of `rule` with this pivot."""
    reads = reads_for(rule.body, pivot)
    needed = frozenset(name for arg in rule.args for name in variables(arg))
    first = None if pivot is None else pivot
    steps = order_steps(rule.body, reads, NOTHING, needed, statistics, orders, first)
    return Plan(rule, pivot, steps)


def order_steps(
    body: Sequence[Literal],
    reads: Sequence[Read],
    bound: frozenset[str],
    needed: frozenset[str],
    statistics: Statistics,
    orders: Orders,
    first: int | None = None,
) -> tuple[Step, ...]:
    """Steps for a body in which `bound` is bound already and `needed` is read afterwards."""
    todo = list(range(len(body)))
    chosen: list[int] = []
    known = bound
    while todo:
        pick = first if first in todo else _next(body, todo, known, statistics)
        assert pick is not None
        todo.remove(pick)
        chosen.append(pick)
        known |= binding(body[pick])
    return _with_liveness(body, reads, chosen, bound, needed, statistics, orders)


def _next(body: Sequence[Literal], todo: list[int], known: frozenset[str], statistics: Statistics) -> int:
    """The literal to take next."""
    ready = [index for index in todo if not isinstance(body[index], Match) and _ready(body[index], known)]
    for index in ready:
        if _is_cheap(body[index]):
            return index
    atoms = [(_fanout(body[index], known, statistics), index) for index in todo if isinstance(body[index], Match)]
    best = min(atoms, default=None)
    late = [index for index in ready if not isinstance(body[index], Fold)] or ready
    if best is None:
        assert late, "a literal is never bound: the analysis let it pass"
        return late[0]
    # Rather compute a value that an atom can be looked up by than build a cross product.
    crosses = not any(_is_known(arg, known) for arg in _match(body[best[1]]).args)
    helps = [index for index in late if binding(body[index]) - known]
    if crosses and helps and _match(body[best[1]]).args:
        return helps[0]
    return best[1]


def _match(literal: Literal) -> Match:
    assert isinstance(literal, Match)
    return literal


def _ready(literal: Literal, known: frozenset[str]) -> bool:
    if isinstance(literal, Compare):
        return (not _free(literal.left, known) and not _free(literal.right, known)) or _assignment(
            literal, known
        ) is not None
    if isinstance(literal, Unpack):
        return literal.record.name in known
    if isinstance(literal, Not | Fold):
        return all(var.name in known for var in literal.shared)
    return True


def _is_cheap(literal: Literal) -> bool:
    """Filters that cannot fail: they are taken as soon as possible."""
    if isinstance(literal, Compare):
        return not _may_fail(literal.left) and not _may_fail(literal.right)
    return isinstance(literal, Unpack | Not) and not any(
        _may_fail(side)
        for inner in _nested(literal)
        if isinstance(inner, Compare)
        for side in (inner.left, inner.right)
    )


def _nested(literal: Literal) -> tuple[Literal, ...]:
    return literal.body if isinstance(literal, Not | Fold) else ()


def _may_fail(expr: Expr) -> bool:
    return isinstance(expr, Call) and (can_fail(expr.op) or any(_may_fail(arg) for arg in expr.args))


def _fanout(literal: Literal, known: frozenset[str], statistics: Statistics) -> float:
    """About how many rows of the atom join with one row so far."""
    match = _match(literal)
    size = float(statistics.size(match.relation))
    fanout, bound = size, 0
    for column, arg in enumerate(match.args):
        if _is_known(arg, known):
            bound += 1
            fanout /= statistics.distinct(match.relation, column)
    if bound == len(match.args):
        return 0.0
    # Never below what independent columns can promise; unbound atoms after everything bound.
    return max(fanout, 1e-3) if bound else 1e6 + size


def _is_known(arg: Expr, known: frozenset[str]) -> bool:
    return isinstance(arg, Const) or (isinstance(arg, Var) and arg.name in known)


def variables(expr: Expr) -> frozenset[str]:
    """The variables of an expression."""
    if isinstance(expr, Var):
        return frozenset((expr.name,))
    if isinstance(expr, Call):
        return NOTHING.union(*(variables(arg) for arg in expr.args))
    return NOTHING


def _free(expr: Expr, known: frozenset[str]) -> frozenset[str]:
    return variables(expr) - known


def _assignment(literal: Compare, known: frozenset[str]) -> tuple[Var, Expr] | None:
    """The variable that `=` binds and the expression it takes its value from, if it binds one."""
    if literal.op != "=":
        return None
    for var, expr in ((literal.left, literal.right), (literal.right, literal.left)):
        if isinstance(var, Var) and var.name not in known and not _free(expr, known):
            return var, expr
    return None


def binding(literal: Literal) -> frozenset[str]:
    """Every variable that is bound once this literal was taken."""
    if isinstance(literal, Match):
        return NOTHING.union(*(variables(arg) for arg in literal.args))
    if isinstance(literal, Compare):
        return variables(literal.left) | variables(literal.right)
    if isinstance(literal, Unpack):
        return NOTHING.union(*(variables(field) for field in literal.fields))
    if isinstance(literal, Fold):
        return frozenset((literal.result.name,))
    return NOTHING


def reading(literal: Literal) -> frozenset[str]:
    """Every variable of the enclosing body that this literal looks at."""
    if isinstance(literal, Not):
        return frozenset(var.name for var in literal.shared)
    if isinstance(literal, Fold):
        return frozenset(var.name for var in literal.shared) | {literal.result.name}
    if isinstance(literal, Unpack):
        return binding(literal) | {literal.record.name}
    return binding(literal)


# ---------------------------------------------------------------------------------------------- making steps


@dataclass(frozen=True, slots=True)
class _Context:
    read: Read
    known: frozenset[str]
    live: frozenset[str]
    statistics: Statistics
    orders: Orders


def _with_liveness(
    body: Sequence[Literal],
    reads: Sequence[Read],
    chosen: Sequence[int],
    bound: frozenset[str],
    needed: frozenset[str],
    statistics: Statistics,
    orders: Orders,
) -> tuple[Step, ...]:
    """The steps in the chosen order, each knowing which variables are still read after it."""
    lives = [needed]
    for index in reversed(chosen[1:]):
        lives.append(lives[-1] | reading(body[index]))
    lives.reverse()
    steps, known = [], bound
    for index, live in zip(chosen, lives, strict=True):
        steps.append(_step(body[index], _Context(reads[index], known, live, statistics, orders)))
        known |= binding(body[index])
    return tuple(steps)


def _step(literal: Literal, context: _Context) -> Step:
    if isinstance(literal, Match):
        return _probe(literal, context)
    if isinstance(literal, Compare):
        assignment = _assignment(literal, context.known)
        if assignment is not None:
            return Assign(*assignment, context.live)
        return Filter(literal, context.live)
    if isinstance(literal, Unpack):
        return TakeApart(literal, binding(literal) - context.known, context.live)
    if isinstance(literal, Not):
        return Absent(literal, _nested_steps(literal, NOTHING, context), context.live)
    needed = NOTHING if literal.expr is None else variables(literal.expr)
    steps = _nested_steps(literal, needed, context)
    return Reduce(literal, steps, literal.result.name in context.known, context.live)


def _nested_steps(literal: Not | Fold, needed: frozenset[str], context: _Context) -> tuple[Step, ...]:
    shared = frozenset(var.name for var in literal.shared)
    reads = (Read.HERE,) * len(literal.body)
    return order_steps(literal.body, reads, shared, needed, context.statistics, context.orders)


def _probe(match: Match, context: _Context) -> Probe:
    first: dict[str, int] = {}
    same: list[tuple[int, int]] = []
    bound: set[int] = set()
    for column, arg in enumerate(match.args):
        if _is_known(arg, context.known):
            bound.add(column)
        elif isinstance(arg, Var):
            if arg.name in first:
                same.append((first[arg.name], column))
            else:
                first[arg.name] = column
    order = context.orders.serving(match.relation, frozenset(bound))
    lookup = tuple(match.args[column] for column in order[: len(bound)])
    binds = tuple((column, Var(name)) for name, column in first.items() if name in context.live)
    return Probe(match.relation, context.read, order, lookup, binds, tuple(same), context.live)
