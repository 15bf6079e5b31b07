"""Calls of Python functions on columns: codes become values, and what comes back is checked and becomes codes.

An operation is spelled `@name:number,symbol:float`: the name, the kinds of the arguments and that of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sempre.kernel.functors import Fault
from sempre.kernel.layout import Column
from sempre.kernel.values import Values, float_codes, floats_of
from sempre.python_functions import REGISTERED, PythonFunction

RANGES = {"number": (-(1 << 63), (1 << 63) - 1), "unsigned": (0, (1 << 64) - 1)}


def call_python(values: Values, op: str, args: Sequence[Column], size: int) -> Column:
    """The codes of the results, one for each row."""
    name, parameters, kind = op[1:].split(":")
    found = REGISTERED.get(name)
    if found is None:
        raise Fault(f"no Python function is registered for `@{name}`")
    kinds = parameters.split(",") if parameters else []
    columns = [_values(values, column, each) for column, each in zip(args, kinds, strict=True)]
    return _codes(values, name, _results(found, name, columns, size), kind)


def _values(values: Values, column: Column, kind: str) -> Any:
    if kind == "symbol":
        return values.symbols.decode(column)
    if kind == "float":
        return floats_of(column).copy()
    return column.view(np.uint64).copy() if kind == "unsigned" else column.copy()


def _results(found: PythonFunction, name: str, columns: list[Any], size: int) -> list[Any]:
    """What the function gives for every row, as Python values."""
    try:
        if found.columns:
            try:
                given = found.function(*columns) if columns else [found.function()] * size
                results = given.tolist() if isinstance(given, np.ndarray) else list(given)
            except NotImplementedError:
                results = _by_row(found, columns, size)
        else:
            results = _by_row(found, columns, size)
    except Exception as error:
        raise Fault(f"`@{name}` raised {type(error).__name__}: {error}") from error
    if len(results) != size:
        raise Fault(f"`@{name}` gave {len(results):,} values for {size:,} rows")
    return results


def _by_row(found: PythonFunction, columns: list[Any], size: int) -> list[Any]:
    if not columns:
        return [found.function()] * size
    plain = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
    return [found.function(*row) for row in zip(*plain, strict=True)]


def _codes(values: Values, name: str, results: list[Any], kind: str) -> Column:
    """Codes of results; raises for one that is not of the declared kind."""
    for result in results:
        if not _fits(result, kind):
            shown = repr(result)
            shown = shown if len(shown) <= 60 else shown[:57] + "..."
            raise Fault(f"`@{name}` gave {shown}, which is no {kind}")
    if kind == "symbol":
        return values.symbols.encode(results)
    if kind == "float":
        return float_codes(np.array(results, np.float64))
    return np.array([int(result) for result in results], np.uint64 if kind == "unsigned" else np.int64).view(np.int64)


def _fits(result: Any, kind: str) -> bool:
    if kind == "symbol":
        return isinstance(result, str) and not any("\ud800" <= char <= "\udfff" for char in result)
    if kind == "float":
        return isinstance(result, int | float | np.floating | np.integer) and not isinstance(result, bool)
    if not isinstance(result, int | np.integer):
        return False
    low, high = RANGES[kind]
    return low <= int(result) <= high
