"""Estimates of how large relations are and what lookups find, for the planner."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sempre.kernel import join
from sempre.kernel.layout import Keys
from sempre.kernel.trace import Trace
from sempre.limits import Limits
from sempre.plan.estimates import Matching

# An odd number with bits all over, to mix columns with.
_MIXING = np.int64(0x2545F4914F6CDD1D)


class TraceStatistics:
    """Sizes, and numbers of distinct values estimated from a sample."""

    def __init__(self, state: Mapping[str, Trace], limits: Limits) -> None:
        self.limits = limits
        self._state = state
        self._distinct: dict[tuple[str, int], int] = {}
        self._crowds: dict[tuple[str, int], float] = {}
        self._matching: dict[tuple[str, tuple[int, ...]], Matching] = {}

    def size(self, relation: str) -> int:
        return len(self._state[relation])

    def distinct(self, relation: str, column: int) -> int:
        key = (relation, column)
        if key not in self._distinct:
            self._distinct[key] = _distinct_values(self._state[relation], column, self.limits.sample_rows)
        return self._distinct[key]

    def crowd(self, relation: str, column: int) -> float:
        key = (relation, column)
        if key not in self._crowds:
            self._crowds[key] = _crowd(self._state[relation], column, self.limits.sample_rows)
        return self._crowds[key]

    def matching(self, relation: str, columns: tuple[int, ...]) -> Matching:
        key = (relation, columns)
        if key not in self._matching:
            self._matching[key] = _matching(self._state[relation], columns, self.limits.sample_rows)
        return self._matching[key]


def _largest(trace: Trace) -> Keys:
    runs = trace.orders[trace.own]
    return max(runs, key=lambda run: run.size).keys if runs else np.empty(0, trace.packing.dtype)


def _distinct_values(trace: Trace, column: int, sample_rows: int) -> int:
    """Distinct values of a column: exact for small traces, else the GEE estimate from a sample."""
    keys = _largest(trace)
    if not keys.size:
        return 1
    step = max(1, keys.size // sample_rows)
    sample = trace.packing.unpack(np.ascontiguousarray(keys[::step]), column)
    _, counts = join.tally(sample.copy())
    once = int((counts == 1).sum())
    return max(1, int((keys.size / sample.size) ** 0.5 * once) + counts.size - once)


def _matching(trace: Trace, columns: tuple[int, ...], sample_rows: int) -> Matching:
    """What a lookup by these columns finds, as a sample has it."""
    keys = _sampled(trace, sample_rows)
    if not keys.size:
        return Matching(1.0, 1.0)
    mixed = np.zeros(keys.size, np.int64)
    for column in columns:
        mixed = (mixed ^ (mixed >> 29)) * _MIXING + trace.packing.unpack(keys, column)
    _, counts = join.tally(mixed)
    scale = len(trace) / keys.size
    once = int((counts == 1).sum())
    values = max(1.0, scale**0.5 * once + counts.size - once)
    alike = float((counts * (counts - 1)).sum()) / keys.size
    # Never is the average over the rows less than that over the values.
    crowd = 1.0 + alike * scale
    return Matching(min(len(trace) / values, crowd), crowd)


def _sampled(trace: Trace, sample_rows: int) -> Keys:
    """At random: a sample at even distances would miss rows that are alike, in sorted rows."""
    keys = _largest(trace)
    if keys.size > sample_rows:
        return keys[np.random.default_rng(0).choice(keys.size, sample_rows, replace=False, shuffle=False)]
    return keys


def _crowd(trace: Trace, column: int, sample_rows: int) -> float:
    """How many rows share the value that a row has in a column, on average over the rows.

    By the pairs of rows of a sample that are alike.
    """
    keys = _sampled(trace, sample_rows)
    _, counts = join.tally(trace.packing.unpack(keys, column).copy())
    alike = float((counts * (counts - 1)).sum()) / max(keys.size, 1)
    return 1.0 + alike * (len(trace) / max(keys.size, 1))
