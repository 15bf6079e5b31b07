"""Built-in operations over columns: checked 64-bit arithmetic, bits, text, conversions, comparisons.

Every function takes columns of codes and returns one. A result that does not exist (an overflow, a division by zero,
text that is no number) raises `Fault`; the caller knows which rule it was working for and says so.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sempre.kernel import lists, patterns
from sempre.kernel.layout import INT64_MAX, INT64_MIN, Column
from sempre.kernel.values import Values, float_codes, floats_of

Columns = Sequence[Column]
UINT64_MAX = (1 << 64) - 1


class Fault(Exception):
    """An operation has no result for some row; the message says why, with the operands."""


def _first(mask: NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(mask)[0])


# ------------------------------------------------------------------------------------------------- numbers


def _overflow(symbol: str, a: int, b: int) -> Fault:
    return Fault(f"{a} {symbol} {b} does not fit in 64 bits")


def _add(a: Column, b: Column) -> Column:
    out = a + b
    bad = ((a ^ out) & (b ^ out)) < 0
    if bad.any():
        raise _overflow("+", int(a[_first(bad)]), int(b[_first(bad)]))
    return out


def _subtract(a: Column, b: Column) -> Column:
    out = a - b
    bad = ((a ^ b) & (a ^ out)) < 0
    if bad.any():
        raise _overflow("-", int(a[_first(bad)]), int(b[_first(bad)]))
    return out


def _bounds(column: Column) -> int:
    """The largest magnitude in a column."""
    return max(abs(int(column.min())), abs(int(column.max()))) if column.size else 0


def _multiply(a: Column, b: Column) -> Column:
    if _bounds(a) * _bounds(b) <= INT64_MAX:
        return a * b
    exact = a.astype(object) * b.astype(object)
    return _checked(exact, "*", a, b, INT64_MIN, INT64_MAX)


def _checked(exact: NDArray[np.object_], symbol: str, a: Column, b: Column, low: int, high: int) -> Column:
    """Python integers back as codes; slow and exact, for the few columns with huge values."""
    bad = np.array([not low <= value <= high for value in exact], np.bool_)
    if bad.any():
        at = _first(bad)
        raise _overflow(symbol, int(a[at]), int(b[at]))
    return _to_codes(exact)


def _to_codes(exact: NDArray[np.object_]) -> Column:
    return np.array([value - (1 << 64) if value > INT64_MAX else value for value in exact], np.int64)


def _divide(a: Column, b: Column) -> Column:
    """Truncates toward zero."""
    _no_zero(b, "/", a)
    bad = (a == INT64_MIN) & (b == -1)
    if bad.any():
        raise _overflow("/", INT64_MIN, -1)
    quotient = a // b
    quotient += (quotient < 0) & (quotient * b != a)
    return quotient


def _modulo(a: Column, b: Column) -> Column:
    """Has the sign of the dividend."""
    _no_zero(b, "%", a)
    return np.where(b == -1, 0, np.fmod(a, np.where(b == -1, 1, b)))


def _no_zero(b: Column, symbol: str, a: NDArray[np.integer]) -> None:
    zero = b == 0
    if zero.any():
        raise Fault(f"{int(a[_first(zero)])} {symbol} 0 has no value")


def _power(a: Column, b: Column) -> Column:
    undefined = (b < 0) & (a == 0)
    if undefined.any():
        raise Fault(f"0 ^ {int(b[_first(undefined)])} has no value")
    exact = np.array([bounded_power(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], object)
    return _checked(exact, "^", a, b, INT64_MIN, INT64_MAX)


def bounded_power(base: int, exponent: int) -> int:
    """`base ** exponent` cut toward zero, or something too large when it would be huge."""
    if exponent < 0 and base not in (1, -1):
        return 0
    if base in (0, 1, -1):
        return int(base ** (exponent % 2 + 2) if base == -1 else base ** min(exponent, 1))
    return base**exponent if exponent <= 64 else 1 << 70


def _negate(a: Column) -> Column:
    bad = a == INT64_MIN
    if bad.any():
        raise Fault(f"-({INT64_MIN}) does not fit in 64 bits")
    return -a


# ------------------------------------------------------------------------------------------------- unsigned


def _unsigned(a: Column) -> NDArray[np.uint64]:
    return a.view(np.uint64)


def _u_add(a: Column, b: Column) -> Column:
    out = _unsigned(a) + _unsigned(b)
    bad = out < _unsigned(a)
    if bad.any():
        raise _overflow("+", int(_unsigned(a)[_first(bad)]), int(_unsigned(b)[_first(bad)]))
    return out.view(np.int64)


def _u_subtract(a: Column, b: Column) -> Column:
    bad = _unsigned(a) < _unsigned(b)
    if bad.any():
        at = _first(bad)
        raise Fault(f"{int(_unsigned(a)[at])} - {int(_unsigned(b)[at])} is negative, and the type is unsigned")
    return (_unsigned(a) - _unsigned(b)).view(np.int64)


def _u_exact(symbol: str, operation: Callable[[int, int], int]) -> Callable[[Column, Column], Column]:
    def apply(a: Column, b: Column) -> Column:
        left, right = _unsigned(a).tolist(), _unsigned(b).tolist()
        exact = np.array([operation(x, y) for x, y in zip(left, right, strict=True)], object)
        bad = np.array([value > UINT64_MAX for value in exact], np.bool_)
        if bad.any():
            raise _overflow(symbol, left[_first(bad)], right[_first(bad)])
        return _to_codes(exact)

    return apply


def _u_multiply(a: Column, b: Column) -> Column:
    if a.size and int(_unsigned(a).max()) * int(_unsigned(b).max()) <= UINT64_MAX:
        return (_unsigned(a) * _unsigned(b)).view(np.int64)
    return _u_exact("*", lambda x, y: x * y)(a, b)


def _u_divide(a: Column, b: Column) -> Column:
    _no_zero(b, "/", _unsigned(a))
    return (_unsigned(a) // _unsigned(b)).view(np.int64)


def _u_modulo(a: Column, b: Column) -> Column:
    _no_zero(b, "%", _unsigned(a))
    return (_unsigned(a) % _unsigned(b)).view(np.int64)


def _u_negate(a: Column) -> Column:
    if a.any():
        raise Fault(f"-{int(_unsigned(a)[_first(a != 0)])} is negative, and the type is unsigned")
    return a


# --------------------------------------------------------------------------------------------------- floats


def _float2(function: Callable[..., NDArray[np.float64]], symbol: str = "") -> Callable[[Column, Column], Column]:
    def apply(a: Column, b: Column) -> Column:
        with np.errstate(all="ignore"):
            if symbol and (floats_of(b) == 0).any():
                raise Fault(f"division by zero in a float `{symbol}`")
            return float_codes(function(floats_of(a), floats_of(b)))

    return apply


def _float1(function: Callable[..., NDArray[np.float64]]) -> Callable[[Column], Column]:
    return lambda a: float_codes(function(floats_of(a)))


def float_power(base: float, exponent: float) -> float:
    """`base ^ exponent`, as the C library has it."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def _float_power(a: Column, b: Column) -> Column:
    """Value by value: the last bit of NumPy's powers depends on the processor, and on whether all have one exponent."""
    pairs = zip(floats_of(a).tolist(), floats_of(b).tolist(), strict=True)
    return float_codes(np.fromiter((float_power(*pair) for pair in pairs), np.float64, a.size))


# ----------------------------------------------------------------------------------------------------- bits


def _shift_left(a: Column, b: Column) -> Column:
    return a << (b & 63)


def _shift_right(a: Column, b: Column) -> Column:
    return a >> (b & 63)


def _shift_right_unsigned(a: Column, b: Column) -> Column:
    return (_unsigned(a) >> _unsigned(b & 63)).view(np.int64)


_BITS: dict[str, Callable[..., Column]] = {
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
    "bnot": np.bitwise_not,
    "bshl": _shift_left,
    "bshr": _shift_right,
    "bshru": _shift_right_unsigned,
    "land": lambda a, b: ((a != 0) & (b != 0)).astype(np.int64),
    "lor": lambda a, b: ((a != 0) | (b != 0)).astype(np.int64),
    "lxor": lambda a, b: ((a != 0) ^ (b != 0)).astype(np.int64),
    "lnot": lambda a: (a == 0).astype(np.int64),
}

NUMERIC: dict[tuple[str, str], Callable[..., Column]] = {
    ("number", "+"): _add,
    ("number", "-"): _subtract,
    ("number", "*"): _multiply,
    ("number", "/"): _divide,
    ("number", "%"): _modulo,
    ("number", "^"): _power,
    ("number", "neg"): _negate,
    ("number", "min"): np.minimum,
    ("number", "max"): np.maximum,
    ("unsigned", "+"): _u_add,
    ("unsigned", "-"): _u_subtract,
    ("unsigned", "*"): _u_multiply,
    ("unsigned", "/"): _u_divide,
    ("unsigned", "%"): _u_modulo,
    ("unsigned", "^"): _u_exact("^", bounded_power),
    ("unsigned", "neg"): _u_negate,
    ("unsigned", "min"): lambda a, b: np.minimum(_unsigned(a), _unsigned(b)).view(np.int64),
    ("unsigned", "max"): lambda a, b: np.maximum(_unsigned(a), _unsigned(b)).view(np.int64),
    ("unsigned", "bshr"): _shift_right_unsigned,
    ("float", "+"): _float2(np.add),
    ("float", "-"): _float2(np.subtract),
    ("float", "*"): _float2(np.multiply),
    ("float", "/"): _float2(np.divide, "/"),
    ("float", "%"): _float2(np.fmod, "%"),
    ("float", "^"): _float_power,
    ("float", "neg"): _float1(np.negative),
    ("float", "min"): _float2(np.fmin),  # NaN is the greatest float, as in `reduce`
    ("float", "max"): _float2(np.maximum),
}


# ----------------------------------------------------------------------------------------- text, conversions


def _texts(values: Values, codes: Column) -> list[str]:
    return values.symbols.decode(codes)


def _cat(values: Values, *columns: Column) -> Column:
    parts = [_texts(values, column) for column in columns]
    return values.symbols.encode("".join(row) for row in zip(*parts, strict=True))


def _substr(values: Values, text: Column, start: Column, length: Column) -> Column:
    """The part of `text` from `start`; nothing when that lies outside."""
    rows = zip(_texts(values, text), start.tolist(), length.tolist(), strict=True)
    return values.symbols.encode(t[s : s + n] if s >= 0 and n > 0 else "" for t, s, n in rows)


def _strlen(values: Values, text: Column) -> Column:
    return np.array([len(t) for t in _texts(values, text)], np.int64)


_INTEGER = re.compile(r"\s*[+-]?(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)\s*\Z")


def parse_integer(text: str, low: int, high: int) -> int:
    """The integer that `text` stands for, between `low` and `high`."""
    if not _INTEGER.match(text):
        raise Fault(f'"{text}" is not a whole number')
    digits = text.strip().lower()
    base = 16 if "x" in digits else 2 if "b" in digits else 10
    # Python refuses to read thousands of decimal digits; leading zeros aside, 20 do not fit already.
    value = int(digits, base) if len(digits) < 1000 or base != 10 else _long_integer(digits)
    if not low <= value <= high:
        raise Fault(f'"{text}" does not fit: it must lie between {low} and {high}')
    return value


def _long_integer(digits: str) -> int:
    sign, digits = (digits[0], digits[1:]) if digits[0] in "+-" else ("", digits)
    return int(sign + (digits.lstrip("0")[:1000] or "0"))


def parse_float(text: str) -> float:
    """The float that `text` stands for: as Python reads it, with nothing between digits, and those of ASCII alone."""
    try:
        if "_" not in text and text.strip().isascii():
            return float(text)
    except ValueError:
        pass
    raise Fault(f'"{text}" is not a number')


def _text_to_number(values: Values, text: Column) -> Column:
    return np.array([parse_integer(t, INT64_MIN, INT64_MAX) for t in _texts(values, text)], np.int64)


def _text_to_unsigned(values: Values, text: Column) -> Column:
    return _to_codes(np.array([parse_integer(t, 0, UINT64_MAX) for t in _texts(values, text)], object))


def _text_to_float(values: Values, text: Column) -> Column:
    return float_codes(np.array([parse_float(t) for t in _texts(values, text)], np.float64))


def _float_to_integer(codes: Column, low: int, high: int) -> Column:
    values = floats_of(codes)
    whole = np.trunc(values)
    bad = ~((whole >= low) & (whole < high + 1.0))
    if bad.any():
        raise Fault(f"{values[_first(bad)]} does not fit in a 64-bit integer")
    return _to_codes(np.array([int(value) for value in whole.tolist()], object))


def _number_to_unsigned(codes: Column) -> Column:
    bad = codes < 0
    if bad.any():
        raise Fault(f"{int(codes[_first(bad)])} is negative, and the type is unsigned")
    return codes


def _unsigned_to_number(codes: Column) -> Column:
    bad = codes < 0
    if bad.any():
        raise Fault(f"{int(_unsigned(codes)[_first(bad)])} does not fit in a number")
    return codes


def format_float(value: float) -> str:
    """Shortest text that reads back as the same float."""
    return "nan" if value != value else repr(value)


def _float_texts(codes: Column) -> list[str]:
    return [format_float(value) for value in floats_of(codes).tolist()]


def _end(values: Values, name: str, items: Column) -> Column:
    if not items.all():
        raise Fault(f"`{name}` of the empty list has no value")
    return lists.first(values, items) if name == "f_first" else lists.last(values, items)


_LISTS: dict[str, Callable[..., Column]] = {
    "f_member": lists.member,
    "f_inPath": lists.member,
    "f_size": lists.size,
    "f_first": lambda values, items: _end(values, "f_first", items),
    "f_last": lambda values, items: _end(values, "f_last", items),
}


_CONVERSIONS: dict[tuple[str, str], Callable[[Values, Column], Column]] = {
    ("symbol", "number"): _text_to_number,
    ("symbol", "unsigned"): _text_to_unsigned,
    ("symbol", "float"): _text_to_float,
    ("number", "unsigned"): lambda _, a: _number_to_unsigned(a),
    ("number", "float"): lambda _, a: float_codes(a.astype(np.float64)),
    ("unsigned", "number"): lambda _, a: _unsigned_to_number(a),
    ("unsigned", "float"): lambda _, a: float_codes(_unsigned(a).astype(np.float64)),
    ("float", "number"): lambda _, a: _float_to_integer(a, INT64_MIN, INT64_MAX),
    ("float", "unsigned"): lambda _, a: _float_to_integer(a, 0, UINT64_MAX),
    ("number", "symbol"): lambda v, a: v.symbols.encode(map(str, a.tolist())),
    ("unsigned", "symbol"): lambda v, a: v.symbols.encode(map(str, _unsigned(a).tolist())),
    ("float", "symbol"): lambda v, a: v.symbols.encode(_float_texts(a)),
}

_CONVERTERS = {
    "to_number": "number", "ftoi": "number", "utoi": "number",
    "to_unsigned": "unsigned", "itou": "unsigned", "ftou": "unsigned",
    "to_float": "float", "itof": "float", "utof": "float",
    "to_string": "symbol",
}  # fmt: skip


def call(values: Values, op: str, operand: str, args: Columns, size: int) -> Column:
    """The result of `op` on columns of `size` rows; `operand` names the kind of the arguments."""
    if op == "record":
        return values.records(len(args)).encode(args, size)
    if op.startswith("@"):
        from sempre.kernel.calling import call_python

        return call_python(values, op, args, size)
    if op in _CONVERTERS:
        target = _CONVERTERS[op]
        return args[0] if operand == target else _CONVERSIONS[operand, target](values, args[0])
    if op == "cat":
        return _cat(values, *args)
    if op == "strlen":
        return _strlen(values, args[0])
    if op == "substr":
        return _substr(values, *args)
    if op in ("ord", "as"):
        return args[0]
    if op in ("min", "max") and operand == "symbol":
        pick = min if op == "min" else max
        return values.symbols.encode(map(pick, *(_texts(values, column) for column in args)))
    if op in _LISTS:
        return _LISTS[op](values, *args)
    function = NUMERIC.get((operand, op)) or _BITS[op]
    if op in ("min", "max"):
        out = args[0]
        for column in args[1:]:
            out = function(out, column)
        return out
    return function(*args)


def can_fail(op: str) -> bool:
    """Whether `op` may raise `Fault`: such calls are made as late as possible."""
    return (
        op not in _BITS
        and op not in ("f_member", "f_inPath", "f_size")
        and op not in ("record", "cat", "strlen", "substr", "ord", "as", "to_string", "min", "max")
    )


# --------------------------------------------------------------------------------------------- comparisons

_ORDER: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def compare(values: Values, op: str, kind: str, left: Column, right: Column) -> NDArray[np.bool_]:
    """Which rows satisfy `left op right`."""
    if op == "=":
        return np.asarray(left == right)
    if op == "!=":
        return np.asarray(left != right)
    if op in _ORDER:
        return _ordered(values, _ORDER[op], kind, left, right)
    negated = op.startswith("not_")
    found = _search(op.removeprefix("not_"), _texts(values, left), _texts(values, right), negated)
    return ~found if negated else found


def _ordered(
    values: Values, op: Callable[..., NDArray[np.bool_]], kind: str, left: Column, right: Column
) -> NDArray[np.bool_]:
    if kind == "unsigned":
        return op(_unsigned(left), _unsigned(right))
    if kind == "float":
        return op(floats_of(left), floats_of(right))
    if kind == "symbol":
        # UTF-8 text orders like its bytes, which is what a byte-wise comparison of symbols sees.
        texts = [np.array(_texts(values, side), object) for side in (left, right)]
        return op(texts[0], texts[1]).astype(np.bool_)
    return op(left, right)


def _search(op: str, wanted: list[str], texts: list[str], negated: bool) -> NDArray[np.bool_]:
    """`match`: the pattern matches the whole text; `contains`: the first occurs in the second.

    What is no pattern makes `match` and its negation false, as in Soufflé.
    """
    if op == "contains":
        return np.array([part in text for part, text in zip(wanted, texts, strict=True)], np.bool_)
    found = np.empty(len(texts), np.bool_)
    rows: dict[str, list[int]] = {}
    for row, pattern in enumerate(wanted):
        rows.setdefault(pattern, []).append(row)
    for pattern, chosen in rows.items():
        found[chosen] = full_matches(pattern, [texts[row] for row in chosen], negated)
    return found


def full_matches(pattern: str, texts: Sequence[str], otherwise: bool = False) -> NDArray[np.bool_]:
    """Which of `texts` the pattern of a `match` matches; for what is no pattern, a warning and `otherwise`."""
    try:
        return patterns.full_matches(pattern, texts)
    except patterns.BadPattern as error:
        if patterns.is_elsewhere(pattern):
            message = f"the pattern of `match` is a regular expression that sempre does not have: {error}"
            raise Fault(message) from None
        warnings.warn(f"`{pattern}` is no regular expression, and matches nothing: {error}", stacklevel=2)
        return np.full(len(texts), otherwise)
