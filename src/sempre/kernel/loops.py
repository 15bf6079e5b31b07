"""The compiled loops themselves. Imported by `compiled` only, and only when worth it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

_Ints = NDArray[np.int64]


def _loop(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_loop
def member(probes: _Ints, run: _Ints) -> NDArray[np.bool_]:
    """Which probes occur in `run`; gallops, so that sorted probes cost a pass and unsorted ones a search each."""
    found = np.zeros(probes.size, np.bool_)
    at = 0
    last = -1
    size = run.size
    for i in range(probes.size):
        key = probes[i]
        if key < last:
            at = 0
        last = key
        step = 1
        low = at
        while at < size and run[at] < key:
            low = at + 1
            at += step
            step *= 2
        high = min(at, size)
        while low < high:
            middle = (low + high) >> 1
            if run[middle] < key:
                low = middle + 1
            else:
                high = middle
        at = low
        found[i] = at < size and run[at] == key
    return found


@_loop
def merge(left: _Ints, right: _Ints) -> _Ints:
    out = np.empty(left.size + right.size, np.int64)
    i = 0
    j = 0
    n = 0
    while i < left.size and j < right.size:
        if left[i] <= right[j]:
            out[n] = left[i]
            i += 1
        else:
            out[n] = right[j]
            j += 1
        n += 1
    while i < left.size:
        out[n] = left[i]
        i += 1
        n += 1
    while j < right.size:
        out[n] = right[j]
        j += 1
        n += 1
    return out


@_loop
def expand(starts: _Ints, stops: _Ints, total: int) -> tuple[_Ints, _Ints]:
    rows = np.empty(total, np.int64)
    positions = np.empty(total, np.int64)
    n = 0
    for i in range(starts.size):
        for position in range(starts[i], stops[i]):
            rows[n] = i
            positions[n] = position
            n += 1
    return rows, positions


def warm() -> None:
    """Compile or load every loop for the types it is called with."""
    one = np.ones(1, np.int64)
    member(one, one)
    merge(one, one)
    expand(one, one, 0)
