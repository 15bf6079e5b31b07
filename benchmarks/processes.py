"""What a process and those below it take: Spark works in several."""

from __future__ import annotations

import os
import threading
from pathlib import Path


class Memory:
    """Watches how much memory this process and its descendants hold together."""

    def __init__(self) -> None:
        self.peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(1):
            self.peak = max(self.peak, sum(map(resident, family(os.getpid()))))


def family(root: int) -> list[int]:
    """A process and all below it."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo += parents.get(found[-1], [])
    return found


def resident(process: int) -> int:
    """The memory of a process that is its share of what it holds, in bytes."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


def cpu_seconds() -> float:
    """Processor time of this process and those below it, which a busy machine does not change much."""
    return sum(map(_ticks, family(os.getpid()))) / os.sysconf("SC_CLK_TCK")


def _ticks(process: int) -> int:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])
