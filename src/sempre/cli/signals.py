"""Ctrl-C and SIGTERM: what they mean to a command, wherever they arrive; `unsplit` is for what they must not split."""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
import time
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# `timeout` and process managers send a signal to a process and to its group: the second is no second request.
SAME_REQUEST_SECONDS = 1.0
# An interrupt that arrived where Python passes over exceptions is raised again after so long.
REPEAT_SECONDS = 0.02


class Terminated(KeyboardInterrupt):
    """SIGTERM: all that tidies up after Ctrl-C does so after this, too."""


class SignalExit:
    """How a signal ends a command: as an exception in the main thread, and as the exit code of the process.

    An interrupt that nothing heeded, because it arrived in a finalizer or in a callback, is raised again. One that
    arrives when the command is done, while the process ends, changes the exit code alone.
    """

    def __init__(self) -> None:
        self.received = 0
        self._at = 0.0
        self._done = False
        self._before: dict[int, Any] = {}
        self._unraisable: Any = None

    @property
    def code(self) -> int:
        """The exit code for the signal that was received, as a shell has it; 0 if there was none."""
        return 128 + self.received if self.received else 0

    def __enter__(self) -> SignalExit:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in SIGNALS:
            handler = signal.getsignal(number)
            # A signal that is ignored, as in the background of a shell script, stays so.
            if handler in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = handler
                signal.signal(number, self._on_signal)
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._on_unraisable
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        self._done = True
        if self._unraisable is not None:
            sys.unraisablehook = self._unraisable
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def until_the_end(self) -> None:
        """Have the last word on the exit code: the process ends now, and does nothing more that could be given up."""
        self._done = True

    def at_exit(self) -> None:
        """To be called before anything else is registered to happen at the end, so that this happens last."""
        atexit.register(self._leave)

    def _leave(self) -> None:
        if self.received:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError):  # nobody reads any more
                    continue
            os._exit(self.code)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        again = bool(self.received) and now - self._at < SAME_REQUEST_SECONDS
        if not again:
            self.received, self._at = self.received or number, now
        if not (self._done or again):
            self._raise(number)

    def _raise(self, number: int) -> None:
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def _on_unraisable(self, unraisable: Any) -> None:
        if self._done or not isinstance(unraisable.exc_value, KeyboardInterrupt):
            self._unraisable(unraisable)
            return
        self._at = -SAME_REQUEST_SECONDS  # it has not been heeded: the next is a request again
        timer = threading.Timer(REPEAT_SECONDS, _thread.interrupt_main, (self.received,))
        timer.daemon = True
        timer.start()
