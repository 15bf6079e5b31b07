"""Every functor against Python's integers, which have no edges."""

from __future__ import annotations

import math
import operator
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sempre.kernel import functors, patterns
from sempre.kernel.functors import Fault
from sempre.kernel.layout import Column
from sempre.kernel.values import Values, float_codes, floats_of
from tests.unit.kernel.rows import ANY, HIGH, LOW

U64 = (1 << 64) - 1
UNSIGNED = st.one_of(
    st.integers(0, 9), st.sampled_from([U64, U64 - 1, 1 << 63, (1 << 63) - 1, 1 << 32]), st.integers(0, U64)
)


def column(values: list[int]) -> Column:
    return np.array([v - (1 << 64) if v > HIGH else v for v in values], np.int64)


def unsigned(codes: Column) -> list[int]:
    return [int(v) for v in codes.view(np.uint64)]


def call(op: str, kind: str, *args: Column, values: Values | None = None) -> Column:
    return functors.call(values or Values(), op, kind, args, args[0].size)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a - b * truncated(a, b)


def power(a: int, b: int) -> int:
    if b < 0:
        return truncated(1, a) if b % 2 else truncated(1, a) ** 2
    return a**b if b <= 70 else a ** (70 + b % 2) if abs(a) > 1 or a == -1 else a


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": truncated, "%": remainder, "^": power,
    "min": min, "max": max,
}  # fmt: skip


def expected(op: str, a: int, b: int, low: int, high: int) -> int | None:
    try:
        value = ARITHMETIC[op](a, b)
    except ZeroDivisionError:
        return None
    return value if low <= value <= high else None


@pytest.mark.parametrize("op", ARITHMETIC)
@given(a=ANY, b=ANY)
def test_numbers_are_exact_or_refused(op: str, a: int, b: int) -> None:
    wanted = expected(op, a, b, LOW, HIGH)
    # A harmless row before it: one bad row among good ones is found.
    left, right = column([1, a]), column([1, b])
    if wanted is None:
        with pytest.raises(Fault):
            call(op, "number", left, right)
    else:
        assert call(op, "number", left, right).tolist() == [expected(op, 1, 1, LOW, HIGH), wanted]


@pytest.mark.parametrize("op", ARITHMETIC)
@given(a=UNSIGNED, b=UNSIGNED)
def test_unsigned_numbers_are_exact_or_refused(op: str, a: int, b: int) -> None:
    wanted = expected(op, a, b, 0, U64)
    if wanted is None:
        with pytest.raises(Fault):
            call(op, "unsigned", column([1, a]), column([1, b]))
    else:
        assert unsigned(call(op, "unsigned", column([1, a]), column([1, b])))[1] == wanted


@pytest.mark.parametrize(
    ("op", "kind", "a", "b", "message"),
    [
        ("+", "number", HIGH, 1, "9223372036854775807 + 1 does not fit in 64 bits"),
        ("-", "number", LOW, 1, "-9223372036854775808 - 1 does not fit in 64 bits"),
        ("*", "number", 1 << 62, 2, "4611686018427387904 * 2 does not fit in 64 bits"),
        ("/", "number", LOW, -1, "-9223372036854775808 / -1 does not fit in 64 bits"),
        ("/", "number", 7, 0, "7 / 0 has no value"),
        ("%", "number", 7, 0, "7 % 0 has no value"),
        ("^", "number", 2, 63, "2 ^ 63 does not fit in 64 bits"),
        ("^", "number", 0, -1, "0 ^ -1 has no value"),
        ("-", "unsigned", 1, 2, "1 - 2 is negative, and the type is unsigned"),
        ("+", "unsigned", U64, 1, "18446744073709551615 + 1 does not fit in 64 bits"),
        ("/", "unsigned", U64, 0, "18446744073709551615 / 0 has no value"),
        ("%", "unsigned", U64, 0, "18446744073709551615 % 0 has no value"),
    ],
)  # fmt: skip
def test_a_fault_shows_the_operands(op: str, kind: str, a: int, b: int, message: str) -> None:
    with pytest.raises(Fault) as fault:
        call(op, kind, column([a]), column([b]))
    assert str(fault.value) == message


def test_negation() -> None:
    assert call("neg", "number", column([5, -5, HIGH])).tolist() == [-5, 5, -HIGH]
    with pytest.raises(Fault):
        call("neg", "number", column([LOW]))
    assert call("neg", "unsigned", column([0])).tolist() == [0]
    with pytest.raises(Fault):
        call("neg", "unsigned", column([U64]))


@given(a=ANY, b=ANY)
def test_bits(a: int, b: int) -> None:
    left, right = column([a]), column([b])

    def signed(value: int) -> int:
        value &= U64
        return value - (1 << 64) if value > HIGH else value

    cases = {
        "band": a & b, "bor": a | b, "bxor": a ^ b, "bshl": signed(a << (b & 63)), "bshr": a >> (b & 63),
        "bshru": signed((a & U64) >> (b & 63)), "land": int(bool(a and b)), "lor": int(bool(a or b)),
        "lxor": int(bool(a) != bool(b)),
    }  # fmt: skip
    for op, wanted in cases.items():
        assert call(op, "number", left, right).tolist() == [wanted], op
    assert call("bnot", "number", left).tolist() == [~a]
    assert call("lnot", "number", left).tolist() == [int(not a)]
    assert unsigned(call("bshr", "unsigned", left, right)) == [(a & U64) >> (b & 63)]


FLOATS = st.floats()


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@given(a=FLOATS, b=FLOATS)
def test_floats(a: float, b: float) -> None:
    left, right = float_codes(np.array([a])), float_codes(np.array([b]))
    with np.errstate(all="ignore"):
        cases: dict[str, Any] = {"+": np.add(a, b), "-": np.subtract(a, b), "*": np.multiply(a, b)}
    for op, wanted in cases.items():
        assert same(floats_of(call(op, "float", left, right))[0], wanted), op
    assert same(floats_of(call("neg", "float", left))[0], -a)
    if b == 0:
        for op in "/%":
            with pytest.raises(Fault):
                call(op, "float", left, right)


CONVERSIONS: list[tuple[str, str, Any, Any]] = [
    ("to_number", "symbol", " -12 ", -12),
    ("to_number", "symbol", "0x1F", 31),
    ("to_number", "symbol", "-0b101", -5),
    ("to_number", "symbol", "-9223372036854775808", LOW),
    ("to_number", "symbol", "9223372036854775808", None),
    ("to_number", "symbol", "1.5", None),
    ("to_number", "symbol", "", None),
    ("to_number", "symbol", "x", None),
    ("to_unsigned", "symbol", "18446744073709551615", U64),
    ("to_unsigned", "symbol", "-1", None),
    ("to_float", "symbol", "1e3", 1000.0),
    ("to_float", "symbol", "one", None),
    ("to_string", "number", LOW, str(LOW)),
    ("to_string", "unsigned", U64, str(U64)),
    ("to_string", "float", 0.1, "0.1"),
    ("to_string", "float", math.nan, "nan"),
    ("to_string", "symbol", "a", "a"),
    ("itof", "number", 3, 3.0),
    ("itou", "number", -1, None),
    ("itou", "number", 7, 7),
    ("utoi", "unsigned", U64, None),
    ("utoi", "unsigned", 7, 7),
    ("utof", "unsigned", 1 << 63, float(1 << 63)),
    ("ftoi", "float", -2.9, -2),
    ("ftoi", "float", float(LOW), LOW),
    ("ftoi", "float", float(1 << 63), None),
    ("ftoi", "float", math.nan, None),
    ("ftoi", "float", -math.inf, None),
    ("ftou", "float", 0.9, 0),
    ("ftou", "float", -0.5, 0),
    ("ftou", "float", -1.0, None),
    ("ftou", "float", float(1 << 63), 1 << 63),
    ("ftou", "float", float(1 << 64), None),
]


def encode(values: Values, kind: str, value: Any) -> Column:
    if kind == "symbol":
        return values.symbols.encode([value])
    return float_codes(np.array([value])) if kind == "float" else column([value])


@pytest.mark.parametrize(("op", "source", "given_", "wanted"), CONVERSIONS)
def test_conversions(op: str, source: str, given_: Any, wanted: Any) -> None:
    values = Values()
    argument = encode(values, source, given_)
    if wanted is None:
        with pytest.raises(Fault):
            call(op, source, argument, values=values)
        return
    target = {"i": "number", "u": "unsigned", "f": "float", "s": "symbol", "n": "number"}
    letter = op.partition("_")[2][:1] or op[-1]
    assert call(op, source, argument, values=values).tolist() == encode(values, target[letter], wanted).tolist()


def test_text() -> None:
    values = Values()
    code = values.symbols.encode
    assert values.symbols.decode(call("cat", "symbol", code(["a", "ż"]), code(["b", ""]), values=values)) == ["ab", "ż"]
    assert call("strlen", "symbol", code(["", "żółw", "🦉"]), values=values).tolist() == [0, 4, 1]
    parts = [("hello", 1, 3), ("hello", 4, 9), ("hello", 9, 1), ("hello", -1, 2), ("hello", 0, -1), ("żółw", 1, 2)]
    texts, starts, lengths = (list(side) for side in zip(*parts, strict=True))
    found = call("substr", "symbol", code(texts), column(starts), column(lengths), values=values)
    assert values.symbols.decode(found) == ["ell", "o", "", "", "", "ół"]


def test_the_least_of_many() -> None:
    assert call("min", "number", column([3]), column([-1]), column([2])).tolist() == [-1]
    assert unsigned(call("max", "unsigned", column([3]), column([U64]))) == [U64]


@given(a=ANY, b=ANY)
def test_order_of_numbers(a: int, b: int) -> None:
    values, left, right = Values(), column([a]), column([b])
    tests = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "=": a == b, "!=": a != b}
    for op, wanted in tests.items():
        assert functors.compare(values, op, "number", left, right).tolist() == [wanted]
    assert functors.compare(values, "<", "unsigned", left, right).tolist() == [(a & U64) < (b & U64)]


@given(a=FLOATS, b=FLOATS)
def test_order_of_floats(a: float, b: float) -> None:
    left, right = float_codes(np.array([a])), float_codes(np.array([b]))
    for op, test in {"<": operator.lt, "<=": operator.le, ">": operator.gt}.items():
        assert functors.compare(Values(), op, "float", left, right).tolist() == [test(a, b)]
    assert functors.compare(Values(), "=", "float", left, right).tolist() == [same(a, b)]  # NaN equals itself


@given(a=st.text(max_size=3), b=st.text(max_size=3))
def test_symbols_are_ordered_by_their_text(a: str, b: str) -> None:
    values = Values()
    left, right = values.symbols.encode([a]), values.symbols.encode([b])
    assert functors.compare(values, "<", "symbol", left, right).tolist() == [a < b]
    assert functors.compare(values, "contains", "symbol", left, right).tolist() == [a in b]


def test_matching() -> None:
    values = Values()
    code = values.symbols.encode
    texts = code(["abc", "xabc", "a\nc"])
    found = functors.compare(values, "match", "symbol", code(["a.c"] * 3), texts)
    assert found.tolist() == [True, False, True]
    for op in ("match", "not_match"):  # as in Soufflé, what is no pattern makes both false
        with pytest.warns(UserWarning, match="is no regular expression, and matches nothing"):
            assert functors.compare(values, op, "symbol", code(["(", "a"]), code(["a", "("])).tolist()[0] is False


def test_patterns_mean_what_they_mean_in_python() -> None:
    """Where both have a syntax; the engine is another one, so that no pattern takes for ever."""
    rng = random.Random(7)
    pieces = (
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        "a*",
        "b+?",
        "(ab|b)",
        "(?:a|)",
        "x{1,2}",
        "\\.",
        "ä",
        "\\w",
        "^",
        "\n",
    )
    for _ in range(300):
        pattern = "".join(rng.choice(pieces) for _ in range(rng.randint(0, 4)))
        texts = ["".join(rng.choice("abx.ä\n") for _ in range(rng.randint(0, 4))) for _ in range(20)]
        expected = [re.fullmatch(pattern, text, re.DOTALL | re.ASCII) is not None for text in texts]
        assert patterns.full_matches(pattern, texts).tolist() == expected, (pattern, texts)


@pytest.mark.parametrize("pattern", ["(", "a)(b", "a\\", "*", "[a"])
def test_what_is_no_pattern_matches_nothing(pattern: str) -> None:
    with pytest.warns(UserWarning, match="is no regular expression, and matches nothing"):
        assert functors.full_matches(pattern, ["a", pattern]).tolist() == [False, False]


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "(?<!b)a"])
def test_a_pattern_of_other_engines_is_a_fault(pattern: str) -> None:
    with pytest.raises(Fault, match="a regular expression that sempre does not have"):
        functors.full_matches(pattern, ["a"])


def test_classes_of_characters() -> None:
    assert functors.full_matches("[[:digit:]]+", ["12", "1a"]).tolist() == [True, False]
    assert functors.full_matches("[[:alpha:][:space:]]*", ["a b", "1"]).tolist() == [True, False]


def test_thousands_of_digits_are_read() -> None:
    assert functors.parse_integer("-" + "0" * 6000 + "12", -20, 20) == -12
    with pytest.raises(Fault, match="does not fit"):
        functors.parse_integer("9" * 6000, -20, 20)


def test_a_power_does_not_depend_on_how_it_is_asked_for() -> None:
    """One row or all, an exponent that is a constant for all rows or one for each: the same to the last bit."""
    base = np.random.default_rng(5).uniform(0, 3, 999)
    a, two = float_codes(base), float_codes(np.full(base.size, 2.0))
    whole = functors.call(Values(), "^", "float", [a, two], a.size).tolist()
    assert whole == float_codes(np.array([math.pow(value, 2.0) for value in base])).tolist()
    assert functors.call(Values(), "^", "float", [a, np.broadcast_to(two[:1], a.size)], a.size).tolist() == whole
    assert functors.call(Values(), "^", "float", [a[:1], two[:1]], 1).tolist() == whole[:1]
