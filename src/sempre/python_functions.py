"""Python functions that programs call as `@f(x)`, by name.

A function is registered by decorating it with `@sempre.functor`, before a database that uses it is made. Programs
declare its types: `.functor f(x: number, y: symbol): symbol`. It must give the same result for the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from sempre.data import dataclass

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function; with `columns` it is given whole columns, else the values of one row."""

    function: Callable[..., Any]
    columns: bool


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
        REGISTERED[name or given.__name__] = PythonFunction(given, columns)
        return given

    return register if function is None else register(function)


def spelled(name: str, parameters: Iterable[str], result: str) -> str:
    """The operation that calls a function: its name, the kinds of the arguments and that of the result."""
    return f"@{name}:{','.join(parameters)}:{result}"


def name_of(op: str) -> str:
    """The name of the function that an operation calls; empty if it calls none."""
    return op[1:].split(":")[0] if op.startswith("@") else ""
