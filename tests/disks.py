"""Disks that fail: by killing the process, or by having no room left."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import PurePath

from sempre.storage.disk import Disk

# A file system in memory where there is one: what a process has written is there when it has died, and syncing costs
# nothing. `None` is the usual folder for temporary files.
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class KillingDisk(Disk):
    """Kills the process before the effect number `last`; a write is torn: half of it happens."""

    def __init__(self, last: int, torn: bool, tell: Callable[[str], None]) -> None:
        self.left = last
        self.torn = torn
        self.tell = tell

    def step(self, what: str, path: PurePath) -> None:
        if self.left == 0 and not (what == "write" and self.torn):
            self._die(what, path)
        self.left -= 1

    def write_some(self, handle: int, path: PurePath, data: memoryview) -> int:
        self.step("write", path)
        if self.left == -1:
            os.write(handle, data[: len(data) // 2])
            self._die("torn", path)
        return os.write(handle, data)

    def _die(self, what: str, path: PurePath) -> None:
        is_file = self.exists(path) and not self.is_folder(path)
        self.tell(f"{what} {path.parent.name if is_file or path.suffix else path.name}")
        os.kill(os.getpid(), signal.SIGKILL)


class FullDisk(Disk):
    """Has no room after `room` effects, until it is `cleared`. Removing is always possible, unless it is `dead`."""

    def __init__(self, room: int, dead: bool = False) -> None:
        self.room = room
        self.dead = dead
        self.steps = 0

    def step(self, what: str, path: PurePath) -> None:
        if self.steps >= self.room and (what != "remove" or self.dead):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if what != "remove":
            self.steps += 1

    def cleared(self) -> None:
        self.room = 1 << 60
