"""Calls of Python functions on columns: codes become values, and what comes back is checked and becomes codes.

An operation is spelled `@name:number,symbol:float`: the name, the kinds of the arguments and that of the result.
"""

from __future__ import annotations

import math
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
    found, name, kinds, kind = _function(op)
    columns = [_values(values, column, each) for column, each in zip(args, kinds, strict=True)]
    return _codes(values, name, _results(found, name, columns, size), kind)


def _function(op: str) -> tuple[PythonFunction, str, list[str], str]:
    """The function of an operation, its name, the kinds of its parameters and that of the result."""
    name, parameters, kind = op[1:].split(":")
    found = REGISTERED.get(name)
    if found is None:
        raise Fault(f"no Python function is registered for `@{name}`")
    return found, name, parameters.split(",") if parameters else [], kind


_TYPES = {"number": np.int64, "unsigned": np.uint64, "float": np.float64}


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
    found, name, kinds, kind = _function(op)
    columns = [
        [arg] if kind == "symbol" else np.array([arg], _TYPES[kind]) for arg, kind in zip(args, kinds, strict=True)
    ]
    (result,) = _checked(name, _results(found, name, columns, 1), kind)
    return result


def fitting(op: str, result: Any) -> Any:
    """A result as a value of the kind that is declared for an operation."""
    name, _, kind = op[1:].split(":")
    return _checked(name, [result], kind)[0]


def _codes(values: Values, name: str, results: list[Any], kind: str) -> Column:
    """Codes of results; raises for one that is not of the declared kind."""
    checked = _checked(name, results, kind)
    if kind == "symbol":
        return values.symbols.encode(checked)
    if kind == "float":
        return float_codes(np.array(checked, np.float64))
    return np.array(checked, _TYPES[kind]).view(np.int64)


def _checked(name: str, results: list[Any], kind: str) -> list[Any]:
    """Results as plain values, floats with one NaN and one zero; raises for one that is not of the declared kind."""
    for result in results:
        if not _fits(result, kind):
            shown = repr(result)
            shown = shown if len(shown) <= 60 else shown[:57] + "..."
            raise Fault(f"`@{name}` gave {shown}, which is no {kind}")
    if kind == "symbol":
        return [str(result) for result in results]
    if kind != "float":
        return [int(result) for result in results]
    try:
        return [math.nan if result != result else float(result) + 0.0 for result in results]
    except OverflowError:
        raise Fault(f"`@{name}` gave a whole number that no float is large enough for") from None


def _fits(result: Any, kind: str) -> bool:
    if kind == "symbol":
        return isinstance(result, str) and not any("\ud800" <= char <= "\udfff" for char in result)
    if kind == "float":
        return isinstance(result, int | float | np.floating | np.integer) and not isinstance(result, bool)
    if not isinstance(result, int | np.integer):
        return False
    low, high = RANGES[kind]
    return low <= int(result) <= high
