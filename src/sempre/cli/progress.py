"""How far long work is: a line on a terminal that is written over, or lines in a log.

It is shown once something has taken two seconds, on a terminal only, unless `--progress` or `--quiet` says otherwise.
Evaluation tells how far it is by itself. While something is waited for that does not (a session that starts, files that
are read and written), a thread counts the seconds.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from sempre.cli.terminal import is_terminal

QUIET_SECONDS = 2.0
REFRESH_SECONDS = 0.1
WAITING_SECONDS = 1.0
# Where lines stay, one is enough in so many seconds.
LINE_SECONDS = 10.0
CLEAR_LINE = "\r\x1b[K"


class ProgressState(Protocol):
    """How far a run is."""

    @property
    def stratum(self) -> int: ...
    @property
    def strata(self) -> int: ...
    @property
    def round(self) -> int: ...
    @property
    def facts(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class ProgressLine:
    """One line on a terminal that says how far a run is."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.started = self.shown = time.perf_counter()
        self.visible = False
        self._writing = threading.Lock()

    def __call__(self, progress: ProgressState) -> None:
        self._tell(progress_text(progress), REFRESH_SECONDS)

    def _tell(self, text: str, refresh: float) -> None:
        now = time.perf_counter()
        if now - self.started < QUIET_SECONDS or (self.visible and now - self.shown < refresh):
            return
        with self._writing:
            self.shown = now
            self.visible = True
            self._write(text)

    def _write(self, text: str) -> None:
        self.stream.write(CLEAR_LINE + text)
        self.stream.flush()

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Say for how long something has been waited for, until it is there."""
        ended, began = threading.Event(), time.perf_counter()

        def count() -> None:
            while not ended.wait(WAITING_SECONDS):
                self._tell(f"{what} · {time.perf_counter() - began:.0f} s", REFRESH_SECONDS)

        counting = threading.Thread(target=count, name="sempre-progress", daemon=True)
        counting.start()
        try:
            yield
        finally:
            ended.set()
            counting.join()
            self.clear()

    def clear(self) -> None:
        """Remove the line, if there is one."""
        with self._writing:
            if self.visible:
                self.stream.write(CLEAR_LINE)
                self.stream.flush()
                self.visible = False


class ProgressLines(ProgressLine):
    """The same for what is no terminal: a line every now and then, which stays."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.shown -= LINE_SECONDS

    def _tell(self, text: str, refresh: float) -> None:
        self.visible = time.perf_counter() - self.shown < LINE_SECONDS
        super()._tell(text, LINE_SECONDS)

    def _write(self, text: str) -> None:
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def clear(self) -> None:
        """Nothing: what was said stays."""


class Silent(ProgressLine):
    """Nobody is told anything."""

    def _tell(self, text: str, refresh: float) -> None:
        pass

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """As if nobody was waiting."""
        yield


def progress_of(options: argparse.Namespace) -> ProgressLine:
    """How a command tells how far it is."""
    quiet, wanted = getattr(options, "quiet", False), getattr(options, "progress", False)
    if quiet or not (wanted or is_terminal(sys.stderr)):
        return Silent(sys.stderr)
    return ProgressLine(sys.stderr) if is_terminal(sys.stderr) else ProgressLines(sys.stderr)


def told_by(line: ProgressLine) -> ProgressLine | None:
    """Who is told how far an epoch is; None where nobody is, so that nothing is counted for it."""
    return None if isinstance(line, Silent) else line


def progress_text(progress: ProgressState) -> str:
    rate = progress.facts / progress.seconds if progress.seconds > 0 else 0.0
    return (
        f"stratum {progress.stratum}/{progress.strata} · round {progress.round:,} · {progress.facts:,} facts"
        f" · {rate:,.0f} facts/s · {progress.seconds:.0f} s"
    )
