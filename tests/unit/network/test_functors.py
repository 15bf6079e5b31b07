"""The functors of nodes give what those of the kernel give."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from sempre.analysis.functors import FUNCTORS
from sempre.kernel import functors as kernel
from sempre.kernel.values import Values, float_codes, floats_of
from sempre.network import functors

NUMBERS = (0, 1, -1, 2, 7, -7, 63, 64, 2**31, 2**62, 2**63 - 1, -(2**63))
UNSIGNED = (0, 1, 2, 7, 63, 64, 2**62, 2**63, 2**64 - 1)
FLOATS = (0.0, 1.0, -1.5, 2.0, 1e300, -1e300, math.inf, math.nan)
SYMBOLS = ("", "a", "b", "12", "-3", "2.5", "äß")
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


SKIPPED = ("ord", "f_init", "f_concat", "f_member", "f_inPath", "f_size", "f_first", "f_last")


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
    for kind in sorted(kind.value for kind in (functor.same or functor.parameter(0))):
        if (op, kind) == ("^", "float"):
            continue  # powers of floats are the platform's
        kinds = kinds_of(op, kind)
        result = kind if functor.result is None else functor.result.value
        mine = functors.function(op, kind)
        for args in product(*(SAMPLES[each] for each in kinds)):
            theirs = outcome(partial(by_kernel, op, kinds, result, args))
            assert outcome(partial(mine, *args)) == theirs, (op, kind, args)


def test_lists() -> None:
    items = ("a", ("b", ("c", None)))
    assert functors.function("f_member", "record")(items, "b") == 1
    assert functors.function("f_inPath", "record")(items, "d") == 0
    assert functors.function("f_size", "record")(items) == 3
    assert functors.function("f_size", "record")(None) == 0
    assert functors.function("f_first", "record")(items) == "a"
    assert functors.function("f_last", "record")(items) == "c"
    with pytest.raises(kernel.Fault):
        functors.function("f_first", "record")(None)
