"""Compiled versions of the few loops that NumPy cannot express as one pass.

Compiling takes seconds the first time and importing the compiler half a second every time; a small program must not
wait for either. So nothing here is imported up front: once an operation is large enough to profit, a thread loads
the loops in the background (from the disk cache, after the first time), and `worth` answers yes from then on.
Until then the caller's NumPy code does the work.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Below this, NumPy wins or ties; a first call this large starts the loading.
WORTH = 1 << 16
LOAD_AT = 1 << 20

_loops: Any = None
_loading: threading.Thread | None = None
_lock = threading.Lock()


def worth(size: int, other: int) -> bool:
    """Whether to call a compiled loop on arrays of these sizes; starts loading them when it would pay."""
    if size < WORTH and other < WORTH:
        return False
    if _loops is not None:
        # A few probes into a large run are cheaper searched than merged.
        return size * 64 > other
    if size >= LOAD_AT:
        load()
    return False


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
    global _loops
    from sempre.kernel import loops

    loops.warm()
    _loops = loops


def member(probes: NDArray[np.int64], run: NDArray[np.int64]) -> NDArray[np.bool_]:
    return _loops.member(probes, run)  # type: ignore[no-any-return]


def merge(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    return _loops.merge(left, right)  # type: ignore[no-any-return]


def expand(starts: NDArray[np.intp], stops: NDArray[np.intp], total: int) -> tuple[Any, Any]:
    return _loops.expand(starts, stops, total)  # type: ignore[no-any-return]
