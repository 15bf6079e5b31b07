"""The built-in functors on Python values, with the results and the faults of the kernel's columns.

A `number` or `unsigned` is an int, a `float` a float, a `symbol` a str, a record a tuple, `nil` is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from sempre.analysis.model import Const, Kind
from sempre.kernel.calling import called
from sempre.kernel.functors import (
    UINT64_MAX,
    Fault,
    bounded_power,
    float_power,
    format_float,
    full_matches,
    parse_float,
    parse_integer,
)
from sempre.kernel.layout import INT64_MAX, INT64_MIN
from sempre.kernel.reduce import AGGREGATES, RANGES
from sempre.python_functions import name_of

Value = Any  # int | float | str | None | tuple of the same; functors are typed by kind, which the analysis has checked
Operation = Callable[..., Value]

NAN = math.nan


def canonical(value: float) -> float:
    """The one NaN, the one zero."""
    return NAN if value != value else value + 0.0


def record_of(parts: Iterable[Value]) -> tuple[Value, ...]:
    """A record as nodes hold it: equal ones have equal floats in them, down to the bits, and the very same NaN."""
    return tuple(canonical(part) if isinstance(part, float) else part for part in parts)


def constant(expr: Const) -> Value:
    """The value of a constant; a whole number may stand for a float."""
    return canonical(float(expr.value)) if expr.kind is Kind.FLOAT and expr.value is not None else expr.value


# ------------------------------------------------------------------------------------------------ integers


def _add(a: int, b: int) -> int:
    out = a + b
    if INT64_MIN <= out <= INT64_MAX:
        return out
    raise Fault(f"{a} + {b} does not fit in 64 bits")


def _checked(kind: str, symbol: str, operation: Callable[[int, int], int]) -> Operation:
    low, high = RANGES[kind]

    def apply(a: int, b: int) -> int:
        out = operation(a, b)
        if low <= out <= high:
            return out
        if out < 0 and kind == "unsigned":
            raise Fault(f"{a} {symbol} {b} is negative, and the type is unsigned")
        raise Fault(f"{a} {symbol} {b} does not fit in 64 bits")

    return apply


def _divide(a: int, b: int) -> int:
    """Truncates toward zero."""
    if b == 0:
        raise Fault(f"{a} / 0 has no value")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _modulo(a: int, b: int) -> int:
    """Has the sign of the dividend."""
    if b == 0:
        raise Fault(f"{a} % 0 has no value")
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def _power(a: int, b: int) -> int:
    if b < 0 and a == 0:
        raise Fault(f"0 ^ {b} has no value")
    return bounded_power(a, b)


def _negate(a: int) -> int:
    if a == INT64_MIN:
        raise Fault(f"-({INT64_MIN}) does not fit in 64 bits")
    return -a


def _negate_unsigned(a: int) -> int:
    if a:
        raise Fault(f"-{a} is negative, and the type is unsigned")
    return a


def _wrapped(kind: str, operation: Callable[..., int]) -> Operation:
    def apply(*args: int) -> int:
        bits = operation(*args) & UINT64_MAX
        return bits - (1 << 64) if kind == "number" and bits > INT64_MAX else bits

    return apply


_BITS: dict[str, Callable[..., int]] = {
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "bnot": lambda a: ~a,
    "bshl": lambda a, b: a << (b & 63),
    "bshr": lambda a, b: a >> (b & 63),
    "bshru": lambda a, b: (a & UINT64_MAX) >> (b & 63),
}

_LOGIC: dict[str, Operation] = {
    "land": lambda a, b: int(a != 0 and b != 0),
    "lor": lambda a, b: int(a != 0 or b != 0),
    "lxor": lambda a, b: int((a != 0) != (b != 0)),
    "lnot": lambda a: int(a == 0),
}

_INTEGER: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": _modulo,
    "^": _power,
}

# -------------------------------------------------------------------------------------------------- floats


def _float_divide(symbol: str, operation: Callable[[float, float], float]) -> Operation:
    def apply(a: float, b: float) -> float:
        if b == 0:
            raise Fault(f"division by zero in a float `{symbol}`")
        return _float(operation)(a, b)

    return apply


def _float(operation: Callable[..., float]) -> Callable[..., float]:
    """`operation` by IEEE 754: what Python refuses is infinite or not a number."""

    def apply(*args: float) -> float:
        try:
            return canonical(operation(*args))
        except ValueError:
            return NAN

    return apply


_FLOAT: dict[str, Operation] = {
    "+": _float(lambda a, b: a + b),
    "-": _float(lambda a, b: a - b),
    "*": _float(lambda a, b: a * b),
    "/": _float_divide("/", lambda a, b: a / b),
    "%": _float_divide("%", math.fmod),
    "^": _float(float_power),
    "neg": _float(lambda a: -a),
}

# ---------------------------------------------------------------------------------------- text, conversions


def _substr(text: str, start: int, length: int) -> str:
    return text[start : start + length] if start >= 0 and length > 0 else ""


def _to_integer(value: Value, kind: str) -> int:
    low, high = RANGES[kind]
    if isinstance(value, str):
        return parse_integer(value, low, high)
    if isinstance(value, float):
        if not math.isfinite(value) or not low <= int(value) <= high:
            raise Fault(f"{value} does not fit in a 64-bit integer")
        return int(value)
    if value < 0 and kind == "unsigned":
        raise Fault(f"{value} is negative, and the type is unsigned")
    if value > high:
        raise Fault(f"{value} does not fit in a number")
    return int(value)


def _to_float(value: Value) -> float:
    return canonical(parse_float(value) if isinstance(value, str) else float(value))


def _to_string(value: Value) -> str:
    return format_float(value) if isinstance(value, float) else str(value)


def _no_order(_: Value) -> Value:
    raise Fault("`ord` depends on how one process numbers its symbols, so nodes cannot agree on it")


def elements(items: Value) -> list[Value]:
    """The elements of a list, which is nil or a pair of its first element and the rest."""
    found = []
    while items is not None:
        found.append(items[0])
        items = items[1]
    return found


def _first(items: Value) -> Value:
    if items is None:
        raise Fault("`f_first` of the empty list has no value")
    return items[0]


def _last(items: Value) -> Value:
    if items is None:
        raise Fault("`f_last` of the empty list has no value")
    return elements(items)[-1]


_FIXED: dict[str, Operation] = {
    "record": lambda *args: args,
    "as": lambda value: value,
    "cat": lambda *args: "".join(args),
    "strlen": len,
    "substr": _substr,
    "ord": _no_order,
    "f_member": lambda items, item: int(item in elements(items)),
    "f_inPath": lambda items, item: int(item in elements(items)),
    "f_size": lambda items: len(elements(items)),
    "f_first": _first,
    "f_last": _last,
    **dict.fromkeys(("to_number", "ftoi", "utoi"), lambda value: _to_integer(value, "number")),
    **dict.fromkeys(("to_unsigned", "itou", "ftou"), lambda value: _to_integer(value, "unsigned")),
    **dict.fromkeys(("to_float", "itof", "utof"), _to_float),
    "to_string": _to_string,
}


def function(op: str, operand: str) -> Operation:
    """What `op` does with values of the kind `operand`."""
    if op in _FIXED:
        return _FIXED[op]
    if name_of(op):
        return lambda *args: called(op, args)
    if op in ("min", "max"):
        extreme = AGGREGATES[op].plain
        return lambda *args: extreme(args, operand)
    if op in _LOGIC:
        return _LOGIC[op]
    if op in _BITS:
        return _wrapped(operand, _BITS[op])
    if operand == "float":
        return _FLOAT[op]
    if op == "neg":
        return _negate if operand == "number" else _negate_unsigned
    if (op, operand) == ("+", "number"):
        return _add
    return _checked(operand, op, _INTEGER[op])


# --------------------------------------------------------------------------------------------------- tests


@lru_cache(maxsize=1 << 16)
def matches(pattern: str, text: str, otherwise: bool = False) -> bool:
    """Whether the pattern matches the whole text; `otherwise` if it is none."""
    return bool(full_matches(pattern, [text], otherwise)[0])


def equal_floats(a: float, b: float) -> bool:
    """NaN equals itself, as every value does."""
    return a == b or (a != a and b != b)
