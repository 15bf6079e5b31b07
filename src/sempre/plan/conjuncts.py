"""Goals: what the planner puts in order, and what each of them binds, reads and waits for."""

from __future__ import annotations

from typing import TypeAlias

from sempre.analysis.model import Call, Compare, Const, Expr, Fold, Literal, Match, Not, Unpack, Var
from sempre.kernel.functors import can_fail
from sempre.plan.ops import LowerRank, RankOf

NOTHING: frozenset[str] = frozenset()

# What the planner orders: literals of a rule, and what a kind of plan adds to them.
Goal: TypeAlias = Literal | RankOf | LowerRank


def match_of(literal: Goal) -> Match:
    """A goal that is an atom, as one."""
    assert isinstance(literal, Match)
    return literal


def can_be_looked_up(literal: Goal, known: frozenset[str]) -> bool:
    """Whether it is an atom with a value that is known."""
    return isinstance(literal, Match) and any(is_known(arg, known) for arg in literal.args)


def is_ready(literal: Goal, known: frozenset[str]) -> bool:
    """Whether enough variables are known to take it."""
    if isinstance(literal, Compare):
        return (not _free(literal.left, known) and not _free(literal.right, known)) or assignment_of(
            literal, known
        ) is not None
    if isinstance(literal, Unpack):
        return literal.record.name in known
    if isinstance(literal, Not | Fold):
        return all(var.name in known for var in literal.shared)
    if isinstance(literal, RankOf):
        return binding(literal.atom) <= known
    if isinstance(literal, LowerRank):
        return reading(literal) <= known
    return True


def is_cheap(literal: Goal) -> bool:
    """Filters that cannot fail: they are taken as soon as possible.

    A rank is looked up among all facts, which takes longer than most lookups that leave less to ask about: it is last.
    """
    if isinstance(literal, Compare):
        return not _may_fail(literal.left) and not _may_fail(literal.right)
    return isinstance(literal, Unpack | Not | RankOf) and not any(
        _may_fail(side)
        for inner in _nested(literal)
        if isinstance(inner, Compare)
        for side in (inner.left, inner.right)
    )


def _nested(literal: Goal) -> tuple[Literal, ...]:
    return literal.body if isinstance(literal, Not | Fold) else ()


def _may_fail(expr: Expr) -> bool:
    return isinstance(expr, Call) and (can_fail(expr.op) or any(_may_fail(arg) for arg in expr.args))


def is_known(arg: Expr, known: frozenset[str]) -> bool:
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


def assignment_of(literal: Compare, known: frozenset[str]) -> tuple[Var, Expr] | None:
    """The variable that `=` binds and the expression it takes its value from, if it binds one."""
    if literal.op != "=":
        return None
    for var, expr in ((literal.left, literal.right), (literal.right, literal.left)):
        if isinstance(var, Var) and var.name not in known and not _free(expr, known):
            return var, expr
    return None


def binding(literal: Goal) -> frozenset[str]:
    """Every variable that is bound once this literal was taken."""
    if isinstance(literal, Match):
        return frozenset([arg.name for arg in literal.args if isinstance(arg, Var)])
    if isinstance(literal, Compare):
        return variables(literal.left) | variables(literal.right)
    if isinstance(literal, Unpack):
        return NOTHING.union(*(variables(field) for field in literal.fields))
    if isinstance(literal, Fold):
        return frozenset((literal.result.name,))
    if isinstance(literal, RankOf):
        return frozenset((literal.var.name,))
    return NOTHING


def reading(literal: Goal) -> frozenset[str]:
    """Every variable of the enclosing body that this literal looks at."""
    if isinstance(literal, Not):
        return frozenset(var.name for var in literal.shared)
    if isinstance(literal, Fold):
        return frozenset(var.name for var in literal.shared) | {literal.result.name}
    if isinstance(literal, Unpack):
        return binding(literal) | {literal.record.name}
    if isinstance(literal, RankOf):
        return binding(literal.atom) | {literal.var.name}
    if isinstance(literal, LowerRank):
        return binding(literal.atom) | {literal.than.name}
    return binding(literal)
