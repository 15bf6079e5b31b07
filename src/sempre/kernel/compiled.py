"""When to use the compiled loops.

Compiling takes seconds the first time and importing the compiler half a second every time; a small program must not
wait for either. So nothing is imported up front: once enough rows went through the NumPy code to show that there is
real work, a thread loads the loops in the background (from the disk cache, after the first time), and the callers
switch over when it is done.
"""

from __future__ import annotations

import threading
from typing import Any

# Below this many rows a call, NumPy wins or ties.
WORTH_ROWS = 1 << 11
# This many rows in calls that would have been worth it start the loading.
LOAD_ROWS = 1 << 24
# A round too small to be worth it counts as this many: long chains are real work too.
ROUND_ROWS = 1 << 16

_loops: Any = None
_walker: Any = None
_settler: Any = None
_loading: threading.Thread | None = None
_lock = threading.Lock()
_seen = 0


def loops(size: int) -> Any:
    """The compiled loops if they are loaded and worth calling on `size` rows, else None."""
    if size < WORTH_ROWS:
        return None
    if _loops is None:
        _notice(size)
    return _loops


def walker() -> Any:
    """The compiled walker if it is loaded, else None; asking for it often starts the loading."""
    if _loops is None:
        _notice(ROUND_ROWS)
        return None
    return _walker


def settler() -> Any:
    """The compiled settler if it is loaded, else None; asking for it often starts the loading."""
    if _loops is None:
        _notice(ROUND_ROWS)
        return None
    return _settler


def _notice(size: int) -> None:
    global _seen
    _seen += size
    if _seen > LOAD_ROWS:
        load()


def load(wait: bool = False) -> None:
    """Start loading the loops, in the background unless `wait`."""
    global _loading
    with _lock:
        if _loading is None:
            _loading = threading.Thread(target=_load, name="sempre-compile", daemon=True)
            _loading.start()
    if wait:
        _loading.join()


def _load() -> None:
    global _loops, _walker, _settler
    try:
        from sempre.kernel import loops

        loops.warm()
    except (ImportError, RuntimeError):  # a worker without the compiler, or without a place for what it makes
        return
    _loops = loops
    from sempre.kernel import walker

    walker.warm()
    _walker = walker
    from sempre.kernel import settler

    settler.warm()
    _settler = settler
