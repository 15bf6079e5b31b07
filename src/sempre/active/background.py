"""Inference in the background, and updates that arrive while it runs.

One thread drives the epoch. Between two cycles it takes what has arrived and absorbs it; what arrives after the last
cycle makes it go on. Nothing is committed before somebody waits for the end, so readers see the last epoch until then.

Reference: [Wolfson91] section 3, the check for an interrupt after every cycle.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from sempre.active.active_engine import ActiveEngine, ActiveEpoch, Watch
from sempre.diagnostics import StateError
from sempre.engine import EpochResult
from sempre.plan.backend import Rows

# Rows to insert and to delete, and the cycle that they are for.
Update = tuple[Mapping[str, Rows], Mapping[str, Rows], int]


class Session:
    """At most one epoch at a time, driven by a thread."""

    def __init__(self, engine: ActiveEngine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._arrived: list[Update] = []
        self._epoch: ActiveEpoch | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._stopping = False

    @property
    def is_open(self) -> bool:
        """Whether an epoch was started and nobody has waited for its end."""
        return self._epoch is not None

    @property
    def cycle(self) -> int:
        """How many cycles the run has done."""
        epoch = self._epoch
        return (self._engine.timeline if epoch is None else epoch.inference.timeline).cycles

    def start(self, insert: Mapping[str, Rows], delete: Mapping[str, Rows], watch: Watch | None = None) -> None:
        """Begin an epoch with these changes, and return."""
        if self._epoch is not None:
            raise StateError("inference is running already", hint="Use interrupt() for changes, wait() for its end.")
        self._epoch = self._engine.begin(watch)
        self._arrived = [(insert, delete, 0)]
        self._stopping = False
        self._go_on(self._epoch)

    def interrupt(self, insert: Mapping[str, Rows], delete: Mapping[str, Rows], cycle: int = 0) -> None:
        """Have changes of a cycle absorbed at the next cycle boundary."""
        epoch = self._epoch
        if epoch is None:
            raise StateError("no inference is running", hint="Use start() to begin one, or apply().")
        with self._lock:
            self._arrived.append((insert, delete, cycle))
            if self._thread is None and self._error is None:
                self._go_on(epoch)

    def wait(self) -> EpochResult:
        """The end of the epoch, committed; an error that ended it is raised here, and the epoch is gone."""
        epoch = self._epoch
        if epoch is None:
            raise StateError("no inference is running", hint="Use start() to begin one.")
        try:
            while (thread := self._thread) is not None:
                thread.join()
        except BaseException:
            self.cancel()
            raise
        error = self._error
        self._epoch = self._error = None
        if error is not None:
            raise error
        return self._engine.commit(epoch)

    def cancel(self) -> None:
        """Give the epoch up, if there is one: it ends with the cycle it is in, and leaves nothing behind."""
        self._stopping = True
        while (thread := self._thread) is not None:
            thread.join()
        self._epoch = self._error = None

    def _go_on(self, epoch: ActiveEpoch) -> None:
        # A daemon: a program that ends without waiting must not hang on a run.
        self._thread = threading.Thread(target=self._drive, args=(epoch,), name="sempre-inference", daemon=True)
        self._thread.start()

    def _drive(self, epoch: ActiveEpoch) -> None:
        try:
            while not self._stopping:
                with self._lock:
                    arrived, self._arrived = self._arrived, []
                for update in arrived:
                    epoch.absorb(*update)
                if not epoch.advance() and self._is_done():
                    return
        except BaseException as error:  # noqa: BLE001  # whatever it is, wait() raises it where somebody looks
            self._error = error
        with self._lock:
            self._thread = None

    def _is_done(self) -> bool:
        """Whether nothing has arrived since; then the thread is over for everybody else."""
        with self._lock:
            if self._arrived:
                return False
            self._thread = None
            return True
