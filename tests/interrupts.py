"""Ctrl-C at a chosen moment: a real signal, sent where the interpreter looks for signals.

Python runs the handler of a signal when a function begins and when a call of compiled code has returned; the same
events reach a profiler. `interrupted` counts them and sends SIGINT at the one that was chosen, so that a moment can be
chosen again, which a timer cannot do.
"""

from __future__ import annotations

import signal
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any

# Where a commit spends its time, and where the engine learns of it.
COMMITTING = (
    "/sempre/storage/",
    "/sempre/api/",
    "/sempre/engine.py",
    "/sempre/unsplit.py",
    "/pathlib.py",
    "/contextlib.py",
)
# A signal in a finalizer is printed and forgotten by the interpreter, whoever wrote the finalizer.
FINALIZERS = ("__del__", "_removeHandlerRef")


@dataclass
class Sent:
    """Whether the signal was sent, how many moments there were until then, or until the end, and where it was.

    `ended` if the work came to its end; then `result` is what it gave.
    """

    moments: int = 0
    sent: bool = False
    where: str = ""
    ended: bool = False
    result: Any = field(default=None, repr=False)


def interrupted(work: Callable[[], Any], moment: int, files: tuple[str, ...] = ()) -> Sent:
    """Do something, with SIGINT at a moment, counted from 0; `files`: only moments in paths with one of these count."""
    state = Sent()

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "c_return") or state.sent:
            return
        code = frame.f_code
        if code.co_name in FINALIZERS or code.co_filename in (__file__, weakref.__file__):
            return
        if event == "call" and code.co_flags & CO_GENERATOR:  # it may be the end of one that nobody needs any more
            return
        if files and not any(part in code.co_filename for part in files):
            return
        if state.moments == moment:
            state.sent, state.where = True, f"{event} in {code.co_qualname}, line {frame.f_lineno}"
            signal.raise_signal(signal.SIGINT)
        state.moments += 1

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        sys.setprofile(look)
        try:
            state.result = work()
            state.ended = True
        finally:
            sys.setprofile(None)
    except KeyboardInterrupt:
        if not state.sent:
            raise
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "the handler was not put back"
    return state
