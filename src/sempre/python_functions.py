"""Python functions that programs call as `@f(x)`, and aggregates that they take as `@f x : { ... }`, by name.

A function is registered by decorating it with `@sempre.functor` or `@sempre.aggregate`, before a database that uses it
is made. Programs declare its types: `.functor f(x: number, y: symbol): symbol`, `.aggregate f(x: number): float`. It
must give the same result for the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from sempre.data import dataclass

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function; with `columns` it is given whole columns, else the values of one row.

    One that `aggregates` is given the values of a group; with `has_empty`, also of one that has none.
    """

    function: Callable[..., Any]
    columns: bool = False
    aggregates: bool = False
    has_empty: bool = False


# Of this process, by name; a name that is registered again is the new function.
REGISTERED: dict[str, PythonFunction] = {}


@overload
def functor(function: F) -> F: ...
@overload
def functor(*, name: str = "", columns: bool = False) -> Callable[[F], F]: ...
def functor(function: Any = None, *, name: str = "", columns: bool = False) -> Any:
    """Register a Python function for `@f(...)` in programs; used as a decorator.

    The function is called for each row. With `columns=True` it is called with a NumPy array for each parameter (a list
    of str for symbols) and gives as many values; where that raises `NotImplementedError`, it is called row by row.
    """

    def register(given: Any) -> Any:
        _check(given, "functor")
        REGISTERED[name or given.__name__] = PythonFunction(given, columns)
        return given

    return register if function is None else register(function)


@overload
def aggregate(function: F) -> F: ...
@overload
def aggregate(*, name: str = "", merge: bool = False, empty: Any = None) -> Callable[[F], F]: ...
def aggregate(function: Any = None, *, name: str = "", merge: bool = False, empty: Any = None) -> Any:
    """Register a Python function for `@f x : { ... }` in programs; used as a decorator.

    The function is called with the values of each group as a list, the least first. With `merge=True` it is called with
    two values, or results for parts of a group, and gives what stands for both; the order must not matter. A group
    without values has no result, unless `empty` is one.
    """

    def register(given: Any) -> Any:
        _check(given, "aggregate")
        over_group = _merging(given) if merge else given
        whole = (lambda values: over_group(values) if values else empty) if empty is not None else over_group
        REGISTERED[name or given.__name__] = PythonFunction(whole, aggregates=True, has_empty=empty is not None)
        return given

    return register if function is None else register(function)


def _check(given: object, decorator: str) -> None:
    if not callable(given):
        raise TypeError(f"@sempre.{decorator} decorates a function, and this is {given!r}; a name is given by `name=`")


def _merging(merge: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    """The function of a group that merges its values in pairs, and what comes of that in pairs again."""

    def whole(values: list[Any]) -> Any:
        while len(values) > 1:
            odd = values[-1:] if len(values) % 2 else []
            values = [merge(one, other) for one, other in zip(values[::2], values[1::2], strict=False)] + odd
        return values[0]

    return whole


def in_order(values: Iterable[Any]) -> list[Any]:
    """Values as an aggregate is given them: the least first, and what is no number last."""
    return sorted(values, key=lambda value: (value != value, value))


def spelled(name: str, parameters: Iterable[str], result: str) -> str:
    """The operation that calls a function: its name, the kinds of the arguments and that of the result."""
    return f"@{name}:{','.join(parameters)}:{result}"


def shown_kind(kind: str) -> str:
    """An aggregate as the user writes it."""
    return f"@{name_of(kind)}" if name_of(kind) else kind


def name_of(op: str) -> str:
    """The name of the function that an operation calls; empty if it calls none."""
    return op[1:].split(":")[0] if op.startswith("@") else ""
