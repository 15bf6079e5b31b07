"""Walks over trees of nodes that need not know every kind of node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from sempre.lang.syntax import Aggregate, Rule, Term, Variable, is_plain_fact

# Deeper trees would exhaust the stack of the passes that walk them.
DEEPEST_TERM = 100

N = TypeVar("N")


# Per class of node, the fields that may hold other nodes; None for what is no node.
_NAMES: dict[type, tuple[str, ...] | None] = {}
# Fields with these annotations never hold nodes.
_PLAIN = frozenset({"str", "int", "float", "bool", "str | None", "int | None", "tuple[str, ...]", "Span"})


def _names(kind: type) -> tuple[str, ...] | None:
    """The fields of a class of nodes that may hold other nodes, in order; None if it is no such class."""
    try:
        return _NAMES[kind]
    except KeyError:
        names = None
        if is_dataclass(kind):
            names = tuple(each.name for each in fields(kind) if each.name != "span" and each.type not in _PLAIN)
        _NAMES[kind] = names
        return names


def children(node: object) -> list[object]:
    """The nodes directly below `node`, those inside tuples included."""
    found: list[object] = []
    if isinstance(node, tuple):
        _add(node, found)
        return found
    for name in _names(type(node)) or ():
        value = getattr(node, name)
        kind = type(value)
        if kind is tuple:
            _add(value, found)
        elif _names(kind) is not None:
            found.append(value)
    return found


def _add(values: tuple[object, ...], found: list[object]) -> None:
    for value in values:
        if isinstance(value, tuple):
            _add(value, found)
        elif _names(type(value)) is not None:
            found.append(value)


def descend(node: object, into: Callable[[object], bool] | None = None) -> Iterator[object]:
    """`node` and all nodes below it, outermost and leftmost first; what is below a node only where `into` allows."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        # Most nodes have nothing below them.
        if _NAMES.get(type(top)) != () and (into is None or into(top)):
            below = children(top)
            below.reverse()
            stack += below


def map_children(node: N, change: Callable[[Any], Any]) -> N:
    """`node` with `change` applied to the nodes directly below it; `node` itself when none changed."""
    changes = {}
    for name in _names(type(node)) or ():
        old = getattr(node, name)
        new = _map_value(old, change)
        if new is not old:
            changes[name] = new
    return replace(cast("Any", node), **changes) if changes else node


def _map_value(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple):
        mapped = tuple(_map_value(part, change) for part in value)
        return mapped if any(new is not old for new, old in zip(mapped, value, strict=True)) else value
    return value if _names(type(value)) is None else change(value)


def variables(node: object) -> list[Variable]:
    """Every occurrence of a variable in `node`, in order."""
    return [found for found in descend(node) if type(found) is Variable]


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
