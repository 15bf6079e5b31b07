"""A line on standard error for every file that is done, while the lanes of `make` keep their reports for the end.

    python -m pytest -p tests.progress ...

A test that fails has a line at once. Seconds are those of the clock, and of processors, of ended children too.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator

import pytest

# Before pytest takes standard error for what tests write.
ERRORS = os.dup(2)


class Tally:
    """How the tests of one file went."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.clock, self.processor = time.monotonic(), sum(os.times()[:4])

    def said(self, path: str) -> str:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))
        seconds, used = time.monotonic() - self.clock, sum(os.times()[:4]) - self.processor
        return f"{path}: {counts} in {seconds:.0f} s ({used:.0f} s of processor time)"


_tally = Tally()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _tally.outcomes[report.outcome] += 1
    if report.failed:
        _say(f"FAILED {report.nodeid}")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    global _tally  # pytest has one session in a process
    done = yield
    if nextitem is None or nextitem.path != item.path:
        _say(_tally.said(item.nodeid.partition("::")[0]))
        _tally = Tally()
    return done


def _say(line: str) -> None:
    os.write(ERRORS, f"{line}\n".encode())
