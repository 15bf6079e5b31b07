"""Addresses and rows as plain lists, which JSON can write, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sempre.analysis.model import Kind, Relation
from sempre.network.node_tables import Row
from sempre.network.python_functors import canonical

_AS_THEY_ARE = {Kind.NUMBER, Kind.UNSIGNED, Kind.SYMBOL}


def value_of(plain: Any) -> Any:
    """What became a list, or a number, as nodes have it: records are tuples, and there is one NaN."""
    if isinstance(plain, list):
        for part in plain:
            if isinstance(part, list | float):
                return tuple(map(value_of, plain))
        return tuple(plain)
    return canonical(plain) if isinstance(plain, float) else plain


def row_reader(relation: Relation) -> Callable[[list[Any]], Row]:
    """A function from a list to a row of a relation."""
    if _AS_THEY_ARE.issuperset(relation.kinds):
        return tuple
    return value_of


def rows_from(relation: Relation, lists: Iterable[list[Any]]) -> list[Row]:
    """The rows of a relation that lists stand for."""
    return list(map(row_reader(relation), lists))
