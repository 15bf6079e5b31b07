"""Sums of floats as they are by definition: the exact sum, rounded once. No order of the terms matters.

NaN among the terms, or infinities of both signs, make the sum NaN; what no float is large enough for is infinite.

`float_sums` cuts every value into slices of the same few binary digits, so that slices add up without rounding, one
pass over the column for each slice; two slices are what most columns need. Few values, and huge ones, are added by
Python, which is exact too.

Reference: [Rump08] for the slices.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sempre.kernel import join

Floats = NDArray[np.float64]

# 2^-1074 is the least float: every finite one is a whole number of these.
_UNIT_BITS = 1074
_LARGEST = sys.float_info.max
# Beyond this, the sum of a long column could leave the range of floats on the way.
_HUGE = 2.0**900


def float_sum(values: Sequence[float]) -> float:
    """The sum of plain floats; NaN is `math.nan` itself."""
    try:
        total = math.fsum(values) + 0.0
    except (OverflowError, ValueError):
        return _odd_sum(values)
    return total if total == total else math.nan


def float_parts(values: Sequence[float]) -> tuple[float, ...]:
    """Floats, as few as can be, whose exact sum is that of `values`: adding them to others loses nothing."""
    first = float_sum(values)
    if not all(map(math.isfinite, values)):
        return (first,)
    rest, parts = list(values), []
    while first:
        parts.append(max(-_LARGEST, min(_LARGEST, first)))
        rest.append(-parts[-1])
        first = float_sum(rest)
    return tuple(parts)


def _odd_sum(values: Iterable[float]) -> float:
    """As `float_sum`, where the sum or one on the way to it is not finite."""
    terms = list(values)
    odd = [value for value in terms if not math.isfinite(value)]
    if odd:
        return odd[0] if all(value == odd[0] for value in odd) else math.nan
    units = sum(_units(value) for value in terms)
    try:
        return units / (1 << _UNIT_BITS)
    except OverflowError:
        return math.inf if units > 0 else -math.inf


def _units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * ((1 << _UNIT_BITS) // denominator)


def float_sums(values: Floats, starts: join.Rows, counts: NDArray[np.int64]) -> Floats:
    """The sum of every stretch of `values`; stretch i has `counts[i]` values from `starts[i]` on, at least one."""
    with np.errstate(all="ignore"):
        magnitudes = np.abs(values)
        largest = np.maximum.reduceat(magnitudes, starts)
        plain = largest < _HUGE  # and not NaN
        if plain.all():
            return _sliced(values, starts, counts, float(largest.max()))
        sums = np.empty(starts.size)
        for at in np.flatnonzero(~plain).tolist():
            sums[at] = float_sum(values[starts[at] : starts[at] + counts[at]].tolist())
        if plain.any():
            rest, few = values[plain.repeat(counts)], counts[plain]
            sums[plain] = _sliced(rest, few.cumsum() - few, few, float(largest[plain].max()))
    return sums


def _sliced(values: Floats, starts: join.Rows, counts: NDArray[np.int64], largest: float) -> Floats:
    """As `float_sums`, for values below `_HUGE`."""
    room = int(counts.max()).bit_length() + 1
    top = math.frexp(largest)[1]
    slices: list[Floats] = []
    while True:
        # What is added to a value and taken away again leaves its digits above a fixed place. Sums of so many of these
        # have few enough digits to be exact.
        ruler = math.ldexp(1.0, top + room) if top + room >= -_UNIT_BITS else 0.0
        high = (values + ruler) - ruler if ruler else values
        slices.append(np.add.reduceat(high, starts))
        values = values - high
        if not values.any():
            return _rounded(slices)
        top += room - 53


def _rounded(slices: list[Floats]) -> Floats:
    """The sums of exact parts: two are added with one rounding, more by Python."""
    total = slices[0] + 0.0
    for part in slices[1:]:
        total += part
    if len(slices) > 2:
        parts = np.array(slices)
        many = np.flatnonzero(np.count_nonzero(parts, axis=0) > 2)
        for at in many.tolist():
            total[at] = math.fsum(parts[:, at].tolist())
    return total
