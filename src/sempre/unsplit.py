"""Steps that no signal splits.

Python raises what a signal handler raises (KeyboardInterrupt, most of all) in the main thread, between any two
operations. A step that has to happen whole therefore happens in another thread, and the main thread waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class _Step:
    """A call in a thread of its own; it is not begun once somebody has given it up."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._claim = threading.Lock()
        self._done = threading.Event()
        self.error: BaseException | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="sempre-commit").start()

    def _run(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001  # whatever it is, it is raised where somebody waits
            self.error = error
        finally:
            self._done.set()

    def wait(self) -> None:
        self._done.wait()

    def end(self) -> None:
        """Return when the step is over or can never begin, whatever is raised here meanwhile."""
        if self._claim.acquire(blocking=False):
            return
        while not self._done.is_set():
            try:
                self._done.wait()
            except BaseException:  # noqa: BLE001  # one is raised already
                continue


def unsplit(call: Callable[[], None]) -> None:
    """Call, wholly or not at all. An interrupt that arrives meanwhile is raised when it is over."""
    if threading.current_thread() is not threading.main_thread():
        call()  # nothing is raised here from outside
        return
    step = _Step(call)
    try:
        step.start()
        step.wait()
    except BaseException:
        step.end()
        raise
    if step.error is not None:
        raise step.error
