"""When to use the compiled loops.

A small program must not wait for a compiler. So nothing is imported up front: once enough rows went through the NumPy
code to show that there is real work, a thread opens the loops in the background, as they were compiled before, and the
callers switch over when it is done. After more work they are compiled, which takes seconds, if nobody did it before.
Then the walker, the settler and the grower are loaded as well, which need the compiler itself, half a second and 100
MiB: unless `after_requests` was called, because no update is expected. Who asks for one of them gets it in any case.
"""

from __future__ import annotations

import threading
import time
from importlib import import_module
from typing import Any

# Below this many rows a call, NumPy wins or ties.
WORTH_ROWS = 1 << 11
# This many rows in calls that would have been worth it start the opening of what is there already.
OPEN_ROWS = 1 << 22
# This many start the compiling, or the loading of what needs the compiler.
LOAD_ROWS = 1 << 24
# A round too small to be worth it counts as this many: long chains are real work too.
ROUND_ROWS = 1 << 16
# How many seconds the first who asks for walker or settler waits for it: enough if it was compiled before.
PATIENCE = 0.5

KEPT_LOOPS, LOOPS, WALKER, SETTLER, GROWER = "kept loops", "loops", "walker", "settler", "grower"

# What is loaded, and what is being loaded.
_loaded: dict[str, Any] = {}
_loading: dict[str, threading.Thread] = {}
# The processor seconds that each took to load, and when it began and ended.
_took: dict[str, float] = {}
_when: dict[str, tuple[float, float]] = {}
_lock = threading.Lock()
_seen = 0
_is_eager = True


def loops(size: int) -> Any:
    """The compiled loops if they are loaded and worth calling on `size` rows, else None."""
    if size < WORTH_ROWS:
        return None
    if _seen <= LOAD_ROWS:
        _notice(size)
    return _loaded.get(LOOPS)


def walker() -> Any:
    """The compiled walker if it is loaded, else None; asking for it often starts the loading."""
    return _follower(WALKER)


def settler() -> Any:
    """The compiled settler if it is loaded, else None; asking for it often starts the loading."""
    return _follower(SETTLER)


def grower() -> Any:
    """The compiled grower if it is loaded, else None; asking for it often starts the loading."""
    return _follower(GROWER)


def after_requests() -> None:
    """Load walker, settler and grower for those alone who ask for them."""
    global _is_eager
    _is_eager = False


def _follower(name: str) -> Any:
    if _seen <= LOAD_ROWS:
        _notice(ROUND_ROWS)
    elif name not in _loading:
        _start(name).join(PATIENCE)
    return _loaded.get(name)


def _notice(size: int) -> None:
    global _seen
    _seen += size
    if _seen > LOAD_ROWS:
        for name in (LOOPS, WALKER, SETTLER, GROWER) if _is_eager else (LOOPS,):
            _start(name)
    elif _seen > OPEN_ROWS:
        _start(KEPT_LOOPS)


def load(*names: str, wait: bool = False) -> None:
    """Start loading these, or everything, in the background unless `wait`."""
    threads = [_start(name) for name in names or (LOOPS, WALKER, SETTLER, GROWER)]
    if wait:
        for thread in threads:
            thread.join()


def kept() -> Any:
    """The compiled loops if they are loaded or were compiled before, at once; else None."""
    _start(KEPT_LOOPS).join()
    return _loaded.get(LOOPS)


def loading_seconds(since: float) -> float:
    """The processor seconds that loading has taken since some moment (of `time.perf_counter`), as far as it has ended.

    They belong to no work in particular.
    """
    found = 0.0
    for name, took in list(_took.items()):
        began, ended = _when[name]
        found += took * max(0.0, ended - max(began, since)) / max(ended - began, 1e-9)
    return found


def _start(name: str) -> threading.Thread:
    found = _loading.get(name)
    if found is not None:
        return found
    with _lock:
        if name not in _loading:
            _loading[name] = threading.Thread(target=_load, args=(name,), name=f"sempre-compile-{name}", daemon=True)
            _loading[name].start()
        return _loading[name]


def _load(name: str) -> None:
    began = time.perf_counter()
    try:
        if name in (LOOPS, KEPT_LOOPS):
            _load_loops(may_compile=name == LOOPS)
        else:
            module = import_module(f"sempre.kernel.{name}")
            module.warm()
            _loaded[name] = module
    except (ImportError, RuntimeError, OSError):
        return  # a worker without the compiler, or without a place for what it makes
    finally:
        _when[name] = began, time.perf_counter()
        _took[name] = time.thread_time()


def _load_loops(may_compile: bool) -> None:
    from sempre.kernel.compiled_loops import CompiledLoops

    found = _loaded.get(LOOPS) or CompiledLoops.kept()
    if found is None and may_compile:
        found = CompiledLoops.made()
    if found is not None:
        _loaded[LOOPS] = found
