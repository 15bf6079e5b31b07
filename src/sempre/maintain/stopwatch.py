"""How long something takes, whatever else the machine does.

A guard that goes by the clock alone gives good updates up on a busy machine, and lets bad ones go on if the run that it
compares with met a busy one. One that goes by processor time alone takes two threads for twice the work, and what other
threads of the process do for its own. The less of the two is closest to what the work itself takes. The compiled
loops, which load beside the first run, are not part of it.
"""

from __future__ import annotations

import time

from sempre.kernel.compiled import loading_seconds


class Stopwatch:
    """Starts when it is made."""

    def __init__(self) -> None:
        self._clock = time.perf_counter()
        self._processor = time.process_time()

    @property
    def seconds(self) -> float:
        """The less of the seconds that went by and those that processors have spent on this process."""
        worked = time.process_time() - self._processor - loading_seconds(self._clock)
        return min(self.passed, max(worked, 0.0))

    @property
    def passed(self) -> float:
        """The seconds that went by. To ask for those of processors takes a call of the system."""
        return time.perf_counter() - self._clock
