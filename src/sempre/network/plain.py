"""Addresses and rows as plain lists, which JSON can write, and back; and addresses as users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sempre.analysis.model import Kind, Relation, Type
from sempre.network.node import Address
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


# ------------------------------------------------------------------------------------------- as users see them


def may_be(value: Any, kind: Kind) -> bool:
    """Whether something that a user wrote may be an address of a kind."""
    if kind is Kind.RECORD:
        waiting = [value]
        while waiting:
            part = waiting.pop()
            if isinstance(part, list | tuple):
                waiting += part
            elif part is not None and (part is value or not isinstance(part, int | float | str)):
                return False
        return True
    allowed = {Kind.SYMBOL: str, Kind.FLOAT: float | int}.get(kind, int)
    return isinstance(value, allowed) and not isinstance(value, bool)


def held(value: Any, type_: Type, types: Mapping[str, Type]) -> Address:
    """An address as nodes have it: a value of an algebraic type is the number of its branch, and a record."""
    if type_.kind is not Kind.RECORD or not isinstance(value, list | tuple):
        return value_of(value)
    if not type_.branches:
        return _fields(value, type_, types, held)
    names = [name for name, _ in type_.branches]
    if not value or value[0] not in names:
        return None  # there is no such node
    number = names.index(value[0])
    inner = types[type_.branches[number][1]]
    return number, _fields(value[1:], inner, types, held) if inner.fields else None


def shown(address: Address, type_: Type, types: Mapping[str, Type]) -> Any:
    """An address as users see it: a value of an algebraic type begins with the name of its branch."""
    if type_.kind is not Kind.RECORD or not isinstance(address, tuple):
        return address
    if not type_.branches:
        return _fields(address, type_, types, shown)
    number, record = address
    name, inner = type_.branches[number]
    return name, *(() if record is None else _fields(record, types[inner], types, shown))


def _fields(values: Iterable[Any], type_: Type, types: Mapping[str, Type], each: Callable[..., Any]) -> tuple[Any, ...]:
    return tuple(each(value, types[inner], types) for value, (_, inner) in zip(values, type_.fields, strict=False))
