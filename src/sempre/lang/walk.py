"""Walks over trees of nodes that need not know every kind of node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from sempre.lang.syntax import Aggregate, Rule, Term, Variable, is_plain_fact

# Deeper trees would exhaust the stack of the passes that walk them.
DEEPEST_TERM = 100

N = TypeVar("N")


_NAMES: dict[type, tuple[str, ...]] = {}


def _names(node: Any) -> tuple[str, ...]:
    """The fields of a node that may hold other nodes."""
    names = _NAMES.get(type(node))
    if names is None:
        names = _NAMES[type(node)] = tuple(field.name for field in fields(node) if field.name != "span")
    return names


def children(node: object) -> Iterator[object]:
    """The nodes directly below `node`, those inside tuples included."""
    if isinstance(node, tuple):
        for child in node:
            if isinstance(child, tuple):
                yield from children(child)
            elif is_dataclass(child):
                yield child
    elif is_dataclass(node):
        yield from children(tuple(getattr(node, name) for name in _names(node)))


def descend(node: object, into: Callable[[object], bool] = lambda node: True) -> Iterator[object]:
    """`node` and all nodes below it, outermost and leftmost first; what is below a node only where `into` allows."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        if into(top):
            stack.extend(reversed(list(children(top))))


def map_children(node: N, change: Callable[[Any], Any]) -> N:
    """`node` with `change` applied to the nodes directly below it; `node` itself when none changed."""
    changes = {}
    for name in _names(node):
        old = getattr(node, name)
        new = _map_value(old, change)
        if new is not old:
            changes[name] = new
    return replace(cast("Any", node), **changes) if changes else node


def _map_value(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple):
        mapped = tuple(_map_value(part, change) for part in value)
        return mapped if any(new is not old for new, old in zip(mapped, value, strict=True)) else value
    return change(value) if is_dataclass(value) else value


def variables(node: object) -> list[Variable]:
    """Every occurrence of a variable in `node`, in order."""
    return [found for found in descend(node) if isinstance(found, Variable)]


def outside_aggregates(node: object) -> bool:
    """For `descend`: whether to look below `node` without entering the scope of an aggregate."""
    return not isinstance(node, Aggregate)


def direct_variables(node: object) -> list[Variable]:
    """Occurrences of variables in `node` that are not inside an aggregate."""
    return [found for found in descend(node, outside_aggregates) if isinstance(found, Variable)]


def direct_aggregates(term: Term | tuple[Term, ...]) -> list[Aggregate]:
    """The aggregates in `term` that are not inside another."""
    return [found for found in descend(term, outside_aggregates) if isinstance(found, Aggregate)]


def is_too_deep(node: object) -> bool:
    """Whether a tree of nodes is deeper than the passes can walk."""
    if isinstance(node, Rule) and is_plain_fact(node):
        return False
    level: list[object] = [node]
    for _ in range(DEEPEST_TERM):
        level = [child for parent in level for child in children(parent)]
        if not level:
            return False
    return True
