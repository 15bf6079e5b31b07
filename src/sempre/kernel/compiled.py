"""When to use the compiled loops.

Compiling takes seconds the first time and importing the compiler half a second every time; a small program must not
wait for either. So nothing is imported up front: once enough rows went through the NumPy code to show that there is
real work, a thread loads the loops in the background (from the disk cache, after the first time), and the callers
switch over when it is done. The walker and the settler follow when somebody asks for them: what is compiled for nobody
is lost when the process ends before it is done, and begins anew with the next one.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

# Below this many rows a call, NumPy wins or ties.
WORTH_ROWS = 1 << 11
# This many rows in calls that would have been worth it start the loading.
LOAD_ROWS = 1 << 24
# A round too small to be worth it counts as this many: long chains are real work too.
ROUND_ROWS = 1 << 16
# How many seconds the first who asks for walker or settler waits for it: enough if it was compiled before.
PATIENCE = 0.5

LOOPS, WALKER, SETTLER = "loops", "walker", "settler"

# What is loaded, and what is being loaded, by module of the kernel.
_loaded: dict[str, Any] = {}
_loading: dict[str, threading.Thread] = {}
_lock = threading.Lock()
_seen = 0


def loops(size: int) -> Any:
    """The compiled loops if they are loaded and worth calling on `size` rows, else None."""
    if size < WORTH_ROWS:
        return None
    found = _loaded.get(LOOPS)
    if found is None:
        _notice(size)
    return found


def walker() -> Any:
    """The compiled walker if it is loaded, else None; asking for it often starts the loading."""
    return _follower(WALKER)


def settler() -> Any:
    """The compiled settler if it is loaded, else None; asking for it often starts the loading."""
    return _follower(SETTLER)


def _follower(name: str) -> Any:
    if LOOPS not in _loaded:
        _notice(ROUND_ROWS)
    elif name not in _loading:
        _start(name).join(PATIENCE)
    return _loaded.get(name)


def _notice(size: int) -> None:
    global _seen
    _seen += size
    if _seen > LOAD_ROWS:
        _start(LOOPS)


def load(*names: str, wait: bool = False) -> None:
    """Start loading these, or everything, in the background unless `wait`."""
    threads = [_start(name) for name in names or (LOOPS, WALKER, SETTLER)]
    if wait:
        for thread in threads:
            thread.join()


def _start(name: str) -> threading.Thread:
    with _lock:
        if name not in _loading:
            _loading[name] = threading.Thread(target=_load, args=(name,), name=f"sempre-compile-{name}", daemon=True)
            _loading[name].start()
        return _loading[name]


def _load(name: str) -> None:
    try:
        module = import_module(f"sempre.kernel.{name}")
        module.warm()
    except (ImportError, RuntimeError):  # a worker without the compiler, or without a place for what it makes
        return
    _loaded[name] = module
