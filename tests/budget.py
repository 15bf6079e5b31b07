"""Random cases by time: how long a search takes is known beforehand, on any machine.

SEMPRE_BUDGET multiplies what the slow tests may spend: 0.02 tries each of them for a moment, 10 is for a night.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

SCALE = float(os.environ.get("SEMPRE_BUDGET", "1"))
# Who waits for other processes spends no processor time: a search ends after so many times its seconds by the clock.
PATIENCE = 3

T = TypeVar("T")


def while_time(items: Iterable[T], seconds: float) -> Iterator[T]:
    """The items, until so many seconds of processor time are used, by this process and those that it waited for.

    There is always a first one. What is under way when time is up is not stopped.
    """
    end, late = _used() + seconds * SCALE, time.monotonic() + PATIENCE * seconds * SCALE
    for item in items:
        yield item
        if _used() > end or time.monotonic() > late:
            return


def seeds(first: int, seconds: float) -> Iterator[int]:
    """Seeds from `first` on, while there is time.

    Each is printed, and pytest shows what was printed by a test that fails: the last one is the one that failed.
    """
    for seed in while_time(itertools.count(first), seconds):
        print("seed", seed)
        yield seed


def scaled(count: int) -> int:
    """A number of cases, where time cannot be told."""
    return max(1, round(count * SCALE))


def _used() -> float:
    """Seconds of processor time, with those of processes that have ended."""
    return sum(os.times()[:4])
