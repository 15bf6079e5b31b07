"""The functors of nodes give what those of the kernel give."""

from __future__ import annotations

import math
import random
import time
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from sempre.analysis.functor_signatures import FUNCTORS
from sempre.kernel import functors as kernel
from sempre.kernel.reduce import aggregate, by_group
from sempre.kernel.values import Values, float_codes, floats_of
from sempre.network import python_functors

# Where something changes: around powers of two, the ends of each kind, and what is no value of the kind any more.
NUMBERS = (0, 1, -1, 2, 7, -7, 63, 64, 2**31, 2**62, 2**63 - 1, -(2**63))
UNSIGNED = (0, 1, 2, 7, 63, 64, 2**62, 2**63, 2**64 - 1)
FLOATS = (
    *(0.0, 1.0, -1.5, 2.0, 3.0, -0.5, 0.5, -0.9999999999999999, 5e-324, 1e300, -1e300, math.inf, -math.inf, math.nan),
    *(sign * near for sign in (1, -1) for exact in (2.0**53, 2.0**63, 2.0**64)
      for near in (math.nextafter(exact, 0), exact, math.nextafter(exact, math.inf))),
)  # fmt: skip
SYMBOLS = (
    *("", "a", "b", "12", "-3", "2.5", "äß", " 7 ", "+7", "0x1F", "-0b11", "1e400", "nan", "-inf", "1_0", "x" * 40),
    *(str(edge) for edge in (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64)), "0" * 5000 + "1", "9" * 5000,
)  # fmt: skip
SAMPLES: dict[str, tuple[Any, ...]] = {"number": NUMBERS, "unsigned": UNSIGNED, "float": FLOATS, "symbol": SYMBOLS}


def code(values: Values, kind: str, value: Any) -> np.ndarray:
    if kind == "symbol":
        return values.symbols.encode([value])
    if kind == "float":
        return float_codes(np.array([value]))
    return np.array([value], np.uint64).view(np.int64) if kind == "unsigned" else np.array([value], np.int64)


def back(values: Values, kind: str, column: np.ndarray) -> Any:
    if kind == "symbol":
        return values.symbols.decode(column)[0]
    if kind == "float":
        return float(floats_of(column)[0])
    return int(column.view(np.uint64)[0]) if kind == "unsigned" else int(column[0])


def outcome(run: Any) -> Any:
    try:
        result = run()
    except kernel.Fault:
        return "fault"
    return "nan" if isinstance(result, float) and math.isnan(result) else result


# What codes and records are in, and `range`, which is rewritten before anybody calls it.
SKIPPED = ("ord", "range", "f_init", "f_concat", "f_member", "f_inPath", "f_size", "f_first", "f_last")


def first_kinds(op: str) -> list[str]:
    """What the first argument of a functor may be. The `+` of symbols is `cat` before anybody calls it."""
    functor = FUNCTORS[op]
    found = {kind.value for kind in (functor.same or functor.parameter(0))}
    return sorted(found - {"symbol"} if op == "+" else found)


def kinds_of(op: str, kind: str) -> list[str]:
    """The kinds of the arguments of a functor whose first one is of `kind`."""
    functor = FUNCTORS[op]
    if functor.same:
        return [kind] * functor.least
    others = [min(other.value for other in functor.parameter(at)) for at in range(1, functor.least)]
    return [kind, *others]


def by_kernel(op: str, kinds: list[str], result: str, args: tuple[Any, ...]) -> Any:
    values = Values()
    columns = [code(values, kind, arg) for kind, arg in zip(kinds, args, strict=True)]
    return back(values, result, kernel.call(values, op, kinds[0], columns, 1))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", [name for name in FUNCTORS if name not in SKIPPED])
def test_equals_the_kernel(op: str) -> None:
    functor = FUNCTORS[op]
    for kind in first_kinds(op):
        kinds = kinds_of(op, kind)
        result = kind if functor.result is None else functor.result.value
        mine = python_functors.function(op, kind)
        for args in product(*(SAMPLES[each] for each in kinds)):
            theirs = outcome(partial(by_kernel, op, kinds, result, args))
            assert outcome(partial(mine, *args)) == theirs, (op, kind, args)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", [name for name in FUNCTORS if name not in SKIPPED])
def test_equals_the_kernel_near_the_edges(op: str) -> None:
    """Random values next to the edges: what a sample forgets."""
    rng = random.Random(op)
    functor = FUNCTORS[op]
    for _ in range(300):
        kind = rng.choice(first_kinds(op))
        kinds = kinds_of(op, kind)
        args = tuple(near(rng, each) for each in kinds)
        result = kind if functor.result is None else functor.result.value
        theirs = outcome(partial(by_kernel, op, kinds, result, args))
        assert outcome(partial(python_functors.function(op, kind), *args)) == theirs, (op, kind, args)


def near(rng: random.Random, kind: str) -> Any:
    """A value that is an edge, or next to one."""
    if kind == "symbol":
        texts = [repr(near(rng, rng.choice(("number", "unsigned", "float")))), rng.choice(SYMBOLS)]
        return rng.choice([*texts, " ".join(texts)])
    if kind == "float":
        value = rng.choice(FLOATS) * rng.choice((1.0, 1.0, -1.0, 0.5, 3.0))
        return value + 0.0 if rng.random() < 0.5 else math.nextafter(value, rng.choice((0.0, math.inf))) + 0.0
    low, high = (-(2**63), 2**63 - 1) if kind == "number" else (0, 2**64 - 1)
    edge = rng.choice((low, high, 0, 2 ** rng.randrange(64), -(2 ** rng.randrange(64)), rng.randrange(70)))
    return min(max(edge + rng.randint(-2, 2), low), high)


@pytest.mark.parametrize("kind", ["sum", "min", "max", "mean", "count"])
@pytest.mark.parametrize("operand", ["number", "unsigned", "float"])
def test_aggregates_equal_those_of_the_kernel(kind: str, operand: str) -> None:
    rng = random.Random(f"{kind} {operand}")
    for _ in range(200):
        args = [near(rng, operand) for _ in range(rng.randrange(5))]
        theirs = outcome(partial(aggregate_by_kernel, kind, operand, args))
        assert outcome(partial(aggregate, kind, args, operand)) == theirs, (kind, operand, args)


def aggregate_by_kernel(kind: str, operand: str, args: list[Any]) -> Any:
    columns = [code(Values(), operand, arg) for arg in args]
    found, results = by_group(
        kind, operand, [np.zeros(len(args), np.int64)], [np.concatenate([*columns, NO_CODES])], 1, Values()
    )
    result = "number" if kind == "count" else "float" if kind == "mean" else operand
    return back(Values(), result, results) if found[0] else None


NO_CODES = np.empty(0, np.int64)


def test_patterns_take_time_in_proportion_to_the_text() -> None:
    started = time.process_time()
    assert not python_functors.matches("(a+)+", "a" * 5_000 + "!")
    assert python_functors.matches("(a+)+", "a" * 5_000)
    assert time.process_time() - started < 5


def test_lists() -> None:
    items = ("a", ("b", ("c", None)))
    assert python_functors.function("f_member", "record")(items, "b") == 1
    assert python_functors.function("f_inPath", "record")(items, "d") == 0
    assert python_functors.function("f_size", "record")(items) == 3
    assert python_functors.function("f_size", "record")(None) == 0
    assert python_functors.function("f_first", "record")(items) == "a"
    assert python_functors.function("f_last", "record")(items) == "c"
    with pytest.raises(kernel.Fault):
        python_functors.function("f_first", "record")(None)
