"""Random cases by processor time: how long a search takes is known beforehand, on any machine.

SEMPRE_BUDGET multiplies what the slow tests may spend: 0.02 tries all of them in a few minutes, 10 is for a night.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

SCALE = float(os.environ.get("SEMPRE_BUDGET", "1"))


def seeds(first: int, seconds: float) -> Iterator[int]:
    """Seeds from `first` on, until this process has used so many seconds; one at least.

    Each is printed, and pytest shows what was printed by a test that fails: the last one is the one that failed.
    """
    end, seed = time.process_time() + seconds * SCALE, first
    while True:
        print("seed", seed)
        yield seed
        seed += 1
        if time.process_time() > end:
            return


def scaled(count: int) -> int:
    """A number of cases, where time cannot be told."""
    return max(1, round(count * SCALE))
