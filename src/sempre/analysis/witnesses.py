"""Witnesses: variables that only the body of a `min` or a `max` binds, and that are used outside of it.

In `top(x, m) :- m = max y : { a(x, y) }`, `x` is that of each row that has the best value. So the body is written once
more beside the aggregate, whose own variables then have other names:

    top(x, m) :- m = max y : { a(x', y) }, a(x, y'), y' = m.

Only where nothing else binds such a variable, and the best value is what one side of an equation is. A `count`, a
`sum` or a `mean` is of no row in particular; there, and where two aggregates bind one variable, it stays an error.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TypeVar

from sempre.analysis.alternatives import literals_of
from sempre.analysis.binding import bind, unbound
from sempre.analysis.draft import Clause
from sempre.analysis.scopes import Names, aggregates_of, clause_scope, deep_names
from sempre.lang.syntax import Aggregate, Comparison, Disjunction, Formula, Term, Variable
from sempre.lang.walk import descend, map_children

N = TypeVar("N")
BEST = ("min", "max")


def with_witnesses(clause: Clause) -> Clause:
    """The clause with the rows of its aggregates beside them, where witnesses are used."""
    body, head = clause.body, clause.head.atom
    if not any(isinstance(node, Aggregate) and node.kind in BEST for node in descend(body)):
        return clause
    scope = clause_scope((head, body))
    missing = unbound(body, frozenset(), scope)
    if not missing:
        return clause
    given = bind(body, frozenset(), scope).names
    mentioned = Counter(
        name for aggregate in aggregates_of(body, head.args) for name in deep_names(aggregate.body) & missing
    )
    found: list[Formula] = []
    for at, literal in enumerate(body):
        equation = _equation(literal)
        names: Names = frozenset()
        if equation is not None:
            inner = bind(literals_of(equation[1].body), given, scope).names
            names = frozenset(name for name in inner & missing if mentioned[name] == 1)
        if equation is None or not names:
            found.append(literal)
            continue
        value, aggregate = equation
        found.append(Comparison("=", value, _renamed(aggregate, names, f"#own{at}"), literal.span))
        own = frozenset(name for name in deep_names((aggregate.term, aggregate.body)) if "#" in name) - scope
        found += [_renamed(each, own, f"#row{at}") for each in literals_of(aggregate.body)]
        assert aggregate.term is not None
        found.append(Comparison("=", _renamed(aggregate.term, own, f"#row{at}"), value, aggregate.span))
    return replace(clause, body=tuple(found))


def _equation(literal: Formula) -> tuple[Term, Aggregate] | None:
    """The value and the aggregate of `value = max y : { ... }`, whose body has no alternatives."""
    if not isinstance(literal, Comparison) or literal.op != "=":
        return None
    for value, aggregate in ((literal.left, literal.right), (literal.right, literal.left)):
        if isinstance(aggregate, Aggregate) and aggregate.kind in BEST and not isinstance(value, Aggregate):
            alternatives = any(isinstance(node, Disjunction) for node in descend(aggregate.body))
            return None if alternatives else (value, aggregate)
    return None


def _renamed(node: N, names: Names, suffix: str) -> N:
    """`node` with other names for some variables."""
    if isinstance(node, Variable):
        return replace(node, name=node.name + suffix) if node.name in names else node
    return map_children(node, lambda part: _renamed(part, names, suffix))
