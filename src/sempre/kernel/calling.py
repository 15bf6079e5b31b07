"""Calls of Python functions on columns: codes become values, and what comes back is checked and becomes codes.

An operation is spelled `@name:number,symbol:float`: the name, the kinds of the arguments and that of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sempre.kernel.functors import Fault
from sempre.kernel.join import Mask
from sempre.kernel.layout import Column
from sempre.kernel.values import Values, float_codes, floats_of
from sempre.python_functions import REGISTERED, PythonFunction, in_order

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


def aggregate_in_python(values: Values, op: str, terms: Column, counts: Column) -> tuple[Mask, Column]:
    """Whether groups have a result, and its code; `terms` has groups side by side, `counts` their sizes."""
    name, operand, kind = op[1:].split(":")
    given = _values(values, terms, operand)
    plain = given.tolist() if isinstance(given, np.ndarray) else list(given)
    ends = counts.cumsum()
    groups = [in_order(plain[end - count : end]) for end, count in zip(ends.tolist(), counts.tolist(), strict=True)]
    found, results = aggregated(name, groups)
    out = np.zeros(counts.size, np.int64)
    if found:
        out[found] = _codes(values, name, results, kind)
    return np.isin(np.arange(counts.size), found), out


def aggregated(name: str, groups: Sequence[list[Any]]) -> tuple[list[int], list[Any]]:
    """Which groups have a result by the function of a name, and the results; the values of a group are in order."""
    registered = REGISTERED.get(name)
    if registered is None or not registered.aggregates:
        raise Fault(f"no Python function is registered for the aggregate `@{name}`")
    found = [index for index, group in enumerate(groups) if group or registered.has_empty]
    try:
        return found, [registered.function(groups[index]) for index in found]
    except Exception as error:
        raise Fault(f"`@{name}` raised {type(error).__name__}: {error}") from error


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


def called(op: str, args: Sequence[Any]) -> Any:
    """The result for one row, as a value."""
    name = op[1:].split(":")[0]
    found = REGISTERED.get(name)
    if found is None:
        raise Fault(f"no Python function is registered for `@{name}`")
    columns = [[arg] if isinstance(arg, str) else np.array([arg]) for arg in args]
    return fitting(op, _results(found, name, columns, 1)[0])


def fitting(op: str, result: Any) -> Any:
    """A result as a value of the kind that is declared for an operation."""
    name, _, kind = op[1:].split(":")
    _check(name, [result], kind)
    return float(result) + 0.0 if kind == "float" else str(result) if kind == "symbol" else int(result)


def _check(name: str, results: list[Any], kind: str) -> None:
    """Raise for a result that is not of the declared kind."""
    for result in results:
        if not _fits(result, kind):
            shown = repr(result)
            shown = shown if len(shown) <= 60 else shown[:57] + "..."
            raise Fault(f"`@{name}` gave {shown}, which is no {kind}")


def _codes(values: Values, name: str, results: list[Any], kind: str) -> Column:
    """Codes of results; raises for one that is not of the declared kind."""
    _check(name, results, kind)
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
