"""Values of the oracle and what the functors compute with them.

A `number` or `unsigned` is an int, a `float` a float, a `symbol` a str, a record a tuple, `nil` is None. A kind is the
name of the primitive type, or the name of the record type.

Where Soufflé leaves room, this is what holds here:

- integer arithmetic is exact and must fit 64 bits (signed or unsigned), else `OracleError`; the same for division or
  remainder by zero; `/` cuts toward zero, `%` has the sign of the dividend;
- `x ^ n` on integers with n < 0 is the power cut toward zero (so 0 unless x is 1 or -1; x = 0 is an error);
- shifts look at the lowest six bits of the amount; `bshl` drops the bits that leave the word, `bshr` keeps the sign of
  a `number`, `bshru` fills with zeros;
- float arithmetic follows IEEE 754, but for division by zero, which is an `OracleError`; every result is canonical (one
  NaN, which equals itself, and no negative zero); order comparisons with NaN are false;
- for `min` and `max`, functors as aggregates, values are in one order: NaN comes after every other float;
- a sum of floats is the exact sum, rounded once: no order of the terms matters; it is NaN with a NaN among them or with
  infinities of both signs, and infinite where no float is large enough; `mean` is the sum, as a float, by the count;
- conversions between numbers must fit (`itou(-1)` does not), `ftoi` and `ftou` cut toward zero;
- symbols are compared by code point, which is the order of their UTF-8 bytes; `strlen` and `substr` count code points;
  `substr` outside of the text gives what there is, a negative start or length gives the empty symbol;
- `match(pattern, text)` must match the whole text; `contains(part, text)`;
- `to_number` and its like on a text that is no such value: `OracleError`. Whole numbers may have a sign, be written in
  hexadecimal (`0x1F`) or in binary (`0b11`) and have white space around them; digits are those of ASCII, and nothing
  stands between them;
- `ord` shows how an implementation numbers its symbols, so it has no value here: `OracleError`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, TypeAlias

Value: TypeAlias = Any  # int | float | str | None | tuple of the same; Any, because functors are typed by kind
Row: TypeAlias = tuple[Value, ...]

NAN = math.nan
RANGES = {"number": (-(2**63), 2**63 - 1), "unsigned": (0, 2**64 - 1)}
MASK = 2**64 - 1

_BITWISE = frozenset({"band", "bor", "bxor", "bnot"})
_SHIFTS = frozenset({"bshl", "bshr", "bshru"})
_LOGICAL = frozenset({"land", "lor", "lxor", "lnot"})
POLYMORPHIC = frozenset({"range", "+", "-", "*", "/", "%", "^", "neg", "min", "max"}) | _BITWISE | _SHIFTS | _LOGICAL
SIGNATURES: dict[str, tuple[tuple[str | None, ...], str]] = {  # None: any kind
    "cat": (("symbol",), "symbol"),  # the last kind repeats
    "strlen": (("symbol",), "number"),
    "substr": (("symbol", "number"), "symbol"),
    "ord": (("symbol",), "number"),
    "to_number": ((None,), "number"),
    "to_unsigned": ((None,), "unsigned"),
    "to_float": ((None,), "float"),
    "to_string": ((None,), "symbol"),
    "itof": (("number",), "float"),
    "itou": (("number",), "unsigned"),
    "utoi": (("unsigned",), "number"),
    "utof": (("unsigned",), "float"),
    "ftoi": (("float",), "number"),
    "ftou": (("float",), "unsigned"),
    "f_member": ((None,), "number"),  # a list is a record of an element and the rest, or nil
    "f_inPath": ((None,), "number"),
    "f_size": ((None,), "number"),
    "f_first": ((None,), ""),  # the kind of its elements
    "f_last": ((None,), ""),
}


class OracleError(Exception):
    """The program has no result: overflow, division by zero, or something that the oracle refuses."""


def canonical(value: Value) -> Value:
    """`value` with one NaN and one zero, also inside of records, so that equal values are equal in Python."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    return tuple(map(canonical, value)) if isinstance(value, tuple) else value


def coerce(value: Value, kind: str) -> Value:
    """A value as a column of `kind` holds it; integer literals become floats where a float is due."""
    if kind == "float" and isinstance(value, int):
        return float(value)
    return fit(value, kind) if kind in RANGES else canonical(value)


def fit(value: int, kind: str) -> int:
    low, high = RANGES[kind]
    if not low <= value <= high:
        raise OracleError(f"{value} does not fit {kind}")
    return value


def function(functor: str, kind: str) -> Callable[..., Value]:
    """The functor for operands of `kind`."""
    if functor in ("min", "max"):
        return lambda *args: extreme(functor, args)
    if functor in SIGNATURES:
        return _conversion(functor, kind) if functor.startswith("to_") else _FIXED[functor]
    if kind == "float":
        return _FLOAT[functor]
    if kind == "symbol" and functor == "+":
        return _FIXED["cat"]
    if kind not in RANGES:
        raise OracleError(f"{functor} has no meaning for {kind}")
    operation = _INTEGER[functor]
    if functor in _BITWISE:
        return lambda *args: _wrap(operation(*args), kind)
    if functor in _SHIFTS:
        return lambda word, amount: _wrap(_shift(functor, word, amount & 63), kind)
    return lambda *args: fit(operation(*args), kind)


def _wrap(bits: int, kind: str) -> int:
    bits &= MASK
    return bits - 2**64 if kind == "number" and bits >= 2**63 else bits


def _shift(functor: str, word: int, amount: int) -> int:
    if functor == "bshl":
        return word << amount
    return (word if functor == "bshr" else word & MASK) >> amount


def _divide(dividend: int, divisor: int) -> int:
    if divisor == 0:
        raise OracleError("division by zero")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _power(base: int, exponent: int) -> int:
    if exponent < 0:
        return _divide(1, base) if abs(base) == 1 and exponent % 2 else _divide(1, base * base)
    if abs(base) > 1 and exponent > 64:
        raise OracleError(f"{base} ^ {exponent} does not fit")
    return int(base**exponent)


def _float_divide(dividend: float, divisor: float) -> float:
    if divisor == 0.0:
        raise OracleError("division by zero")
    return float(canonical(dividend / divisor))


def _float_power(base: float, exponent: float) -> float:
    try:
        return float(canonical(math.pow(base, exponent)))
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.inf if base == 0.0 else NAN


_INTEGER: dict[str, Callable[..., int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
    "^": _power,
    "neg": lambda a: -a,
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "bnot": lambda a: ~a,
    "bshl": _shift,
    "bshr": _shift,
    "bshru": _shift,
    "land": lambda a, b: int(a != 0 and b != 0),
    "lor": lambda a, b: int(a != 0 or b != 0),
    "lxor": lambda a, b: int((a != 0) != (b != 0)),
    "lnot": lambda a: int(a == 0),
}
_FLOAT: dict[str, Callable[..., float]] = {
    "+": lambda a, b: canonical(a + b),
    "-": lambda a, b: canonical(a - b),
    "*": lambda a, b: canonical(a * b),
    "/": _float_divide,
    "^": _float_power,
    "neg": lambda a: canonical(-a),
}


def _substring(text: str, start: int, length: int) -> str:
    return text[start : start + length] if start >= 0 and length >= 0 else ""


def _unordered(_: str) -> int:
    raise OracleError("ord depends on the implementation")


def _truncate(value: float, kind: str) -> int:
    if not math.isfinite(value):
        raise OracleError(f"{value} does not fit {kind}")
    return fit(int(value), kind)


def _items(items: Value) -> list[Value]:
    return [] if items is None else [items[0], *_items(items[1])]


def _end(items: Value, at: int) -> Value:
    if items is None:
        raise OracleError("the empty list has no first and no last element")
    return _items(items)[at]


_FIXED: dict[str, Callable[..., Value]] = {
    "f_member": lambda items, item: int(item in _items(items)),
    "f_inPath": lambda items, item: int(item in _items(items)),
    "f_size": lambda items: len(_items(items)),
    "f_first": lambda items: _end(items, 0),
    "f_last": lambda items: _end(items, -1),
    "cat": lambda *texts: "".join(texts),
    "strlen": len,
    "substr": _substring,
    "ord": _unordered,
    "itof": float,
    "utof": float,
    "itou": lambda n: fit(n, "unsigned"),
    "utoi": lambda n: fit(n, "number"),
    "ftoi": lambda x: _truncate(x, "number"),
    "ftou": lambda x: _truncate(x, "unsigned"),
}


def _conversion(functor: str, kind: str) -> Callable[[Value], Value]:
    if functor == "to_string":
        return str
    if functor == "to_float":
        return lambda value: canonical(_read(float, value) if kind == "symbol" else float(value))
    target = functor.removeprefix("to_")
    if kind == "symbol":
        return lambda text: fit(_read(_whole, text), target)
    return (lambda x: _truncate(x, target)) if kind == "float" else (lambda n: fit(n, target))


def _read(reader: Callable[[str], Value], text: str) -> Value:
    try:
        if "_" in text or not text.strip().isascii():
            raise ValueError
        return reader(text)
    except ValueError:
        raise OracleError(f"{text!r} is not a value") from None


def _whole(text: str) -> int:
    prefix = text.strip().lstrip("+-")[:2].lower()
    return int(text, {"0x": 16, "0b": 2}.get(prefix, 10))


def compare(op: str, left: Value, right: Value) -> bool:
    """Whether `left op right` holds; both are canonical and of one kind."""
    return _COMPARE[op](left, right)


_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "=": lambda a, b: same(a, b),
    "!=": lambda a, b: not same(a, b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "match": lambda pattern, text: re.fullmatch(pattern, text) is not None,
    "contains": lambda part, text: part in text,
}


def spread(bounds: list[Value], kind: str) -> Iterator[Value]:
    """The numbers of `range`: from the first bound on, by steps, as long as they are before the second."""
    first, end = bounds[:2]
    step = bounds[2] if len(bounds) > 2 else 1 if first <= end or kind == "unsigned" else -1
    if step == 0 and first != end:
        yield first
    at = first
    while (step > 0 and at < end) or (step < 0 and at > end):
        yield at
        at = canonical(at + step)


def same(left: Value, right: Value) -> bool:
    """Equality with NaN equal to itself (tuples compare by identity first, and there is one NaN)."""
    return (left,) == (right,)


# Aggregates of the user's own, by their names with `@`: functions of the values of a group.
OWN: dict[str, Callable[[list[Value]], Value]] = {}


def fold(kind: str, values: list[Value], operand: str) -> Value:
    """The aggregate of `values`, one per assignment; None where it has no value (`min` of nothing)."""
    if kind in OWN:
        return OWN[kind](values)
    if kind == "count":
        return len(values)
    if kind == "sum":
        return total(values) if operand == "float" else fit(sum(values), operand)
    if not values:
        return None
    if kind == "mean":
        whole = total(values) if operand == "float" else float(sum(values))
        return canonical(whole / len(values))
    return extreme(kind, values)


def extreme(kind: str, values: Iterable[Value]) -> Value:
    """The least or greatest of values; NaN is the greatest float."""
    pick = min if kind == "min" else max
    return pick(values, key=lambda value: (value != value, value))


def total(values: Iterable[float]) -> float:
    """The exact sum of floats, rounded once."""
    terms = list(values)
    odd = {value for value in map(canonical, terms) if not math.isfinite(value)}
    if odd:
        return odd.pop() if len(odd) == 1 else NAN
    exact = sum(map(Fraction, terms), Fraction())
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
