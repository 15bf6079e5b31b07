"""Scopes: which variables a negation or an aggregate shares with what surrounds it.

A rule, every negation in it, and every aggregate is a scope. A variable belongs to the outermost scope that mentions
it directly, that is, outside the negations and aggregates in it. Two more cases belong to the surrounding scope, since
the writer plainly means one value: a variable in two negations side by side, and one in a negation and in an aggregate.
Aggregates side by side may use one name for different variables, as is usual.

What an aggregate ranges over is its own: a variable in its target expression that its body mentions too is not the one
outside of the same name, as in `y = max y : { a(x, y) }`. One that the body does not mention comes from outside.

`separate` gives the variables of inner scopes, and every `_`, a name with a `#` in it that no other scope has. So what
has no `#` belongs to the rule; the rest of the analysis relies on that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from sempre.lang.syntax import Aggregate, Atom, Comparison, Formula, Negation, Rule, Term, Variable, Wildcard
from sempre.lang.walk import descend, direct_aggregates, map_children, variables

Names = frozenset[str]
N = TypeVar("N")


def _in_scope(node: object) -> bool:
    return not isinstance(node, Negation | Aggregate)


def direct_names(node: object) -> Names:
    """The variables in `node` that are in no negation or aggregate below it."""
    return frozenset(found.name for found in descend(node, _in_scope) if isinstance(found, Variable))


def deep_names(node: object) -> Names:
    """All variables in `node`."""
    return frozenset(found.name for found in variables(node))


def clause_scope(node: object) -> Names:
    """The variables of a separated clause that do not belong to an inner scope."""
    deep = deep_names(node)
    if any("#" in name for name in deep):
        return direct_names(node) | {name for name in deep if "#" not in name}
    return deep


def target_names(aggregate: Aggregate) -> Names:
    """The variables that are an aggregate's own, whatever has their name outside: those that it ranges over."""
    if aggregate.term is None:
        return frozenset()
    term, body = aggregate.term, aggregate.body
    return (direct_names(term) & deep_names(body)) | (deep_names(term) & direct_names(body))


def free_names(node: object) -> Names:
    """The variables in `node` that may belong to a scope around it: all but the targets of aggregates."""
    if isinstance(node, Aggregate):
        return free_names((node.term, node.body)) - target_names(node)
    names: set[str] = set()
    for found in descend(node, _not_aggregate):
        if isinstance(found, Variable):
            names.add(found.name)
        elif isinstance(found, Aggregate):
            names |= free_names(found)
    return frozenset(names)


def aggregates_of(body: Iterable[Formula], terms: tuple[Term, ...]) -> list[Aggregate]:
    """The aggregates directly in a scope: not those inside its negations or inside other aggregates."""
    found = direct_aggregates(terms)
    for literal in body:
        if isinstance(literal, Atom):
            found += direct_aggregates(literal.args)
        elif isinstance(literal, Comparison):
            found += direct_aggregates((literal.left, literal.right))
    return found


def separate(rule: Rule) -> Rule:
    """`rule` with every variable of an inner scope, and every `_`, under a name of its own."""
    renamer = _Renamer()
    node = (*(head.atom for head in rule.heads), rule.body)
    names = {name: name for name in _owned(node, frozenset())}
    heads = tuple(replace(head, atom=renamer.rename(head.atom, names)) for head in rule.heads)
    return replace(rule, heads=heads, body=renamer.rename(rule.body, names))


def _owned(node: object, inherited: Names) -> Names:
    """The variables that belong to the scope `node`, whether it mentions them directly or not."""
    inner, direct = [], set()
    for found in descend(node, _in_scope):
        if isinstance(found, Variable):
            direct.add(found.name)
        elif isinstance(found, Negation | Aggregate):
            inner.append(found)
    if not inner:
        return frozenset(direct) - inherited
    negated: Counter[str] = Counter()
    for negation in inner:
        if isinstance(negation, Negation):
            negated.update(_negation_names(negation))
    aggregated = {name for scope in inner if isinstance(scope, Aggregate) for name in free_names(scope)}
    twice = {name for name, count in negated.items() if count > 1}
    return frozenset(direct | twice | (aggregated & negated.keys())) - inherited


def _negation_names(negation: Negation) -> Names:
    """The variables of a negation, also of those nested in it, but not of its aggregates."""
    into = _not_aggregate
    return frozenset(found.name for found in descend(negation, into) if isinstance(found, Variable))


def _not_aggregate(node: object) -> bool:
    return not isinstance(node, Aggregate)


class _Renamer:
    """Renames from the outermost scope inward; hands out names that nothing else has."""

    def __init__(self) -> None:
        self.counter = 0

    def fresh(self, name: str) -> str:
        self.counter += 1
        return f"{name}#{self.counter}"

    def rename(self, node: N, names: dict[str, str]) -> N:
        """`node` with the variables of its scope named by `names`."""
        if isinstance(node, Wildcard):
            return Variable(self.fresh("_"), node.span)  # type: ignore[return-value]
        if isinstance(node, Variable):
            name = names.get(node.name, node.name)
            return node if name == node.name else replace(node, name=name)
        if isinstance(node, Negation):
            inner = self.enter((node.body,), names)
            return replace(node, body=self.rename(node.body, inner))
        if isinstance(node, Aggregate):
            targets = target_names(node)
            outer = {name: new for name, new in names.items() if name not in targets}
            inner = self.enter((node.term, node.body), outer)
            return map_children(node, lambda part: self.rename(part, inner))
        return map_children(node, lambda part: self.rename(part, names))

    def enter(self, node: tuple[object, ...], outer: dict[str, str]) -> dict[str, str]:
        """The names inside a scope; one that it owns but never mentions directly keeps its name, and is reported."""
        direct = direct_names(node)
        own = {name: self.fresh(name) if name in direct else name for name in sorted(_owned(node, frozenset(outer)))}
        return {**outer, **own}
