"""What makes one process the writer of a store."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol


class AlreadyWritten(Exception):
    """Another has the lock; `holder` is what it wrote into the file."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class WriterLock(Protocol):
    """A lock that was taken."""

    def is_current(self) -> bool:
        """Whether others still meet it."""
        ...

    def release(self) -> None:
        """Let another have it, also where a process that was forked has a copy of it."""
        ...

    def close(self) -> None:
        """Forget it: a copy of it, in another process, stays what it is."""
        ...


class FileLock:
    """A file that is locked: the kernel gives the lock back when the process ends, however it does.

    It closes itself: an interrupt on the way leaves no lock that nobody knows of.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    @classmethod
    def taken(cls, path: Path) -> FileLock:
        """The lock, taken; raises `AlreadyWritten`."""
        while True:
            lock = cls(path)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.pread(lock.fileno(), 32, 0).decode("ascii", "replace").strip()
                lock.close()
                raise AlreadyWritten(holder) from None
            if lock.is_current():  # else somebody removed it in between
                return lock._signed()
            lock.close()

    def _signed(self) -> FileLock:
        """The lock, with the number of this process in its file."""
        try:
            os.ftruncate(self.fileno(), 0)
            os.pwrite(self.fileno(), str(os.getpid()).encode(), 0)
        except BaseException:
            self.close()
            raise
        return self

    def fileno(self) -> int:
        assert self._handle is not None, "the file is open"
        return self._handle

    def is_current(self) -> bool:
        """Whether the file that is locked is the one that others would lock."""
        try:
            return os.path.samestat(os.fstat(self.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        fcntl.flock(self, fcntl.LOCK_UN)  # also for whoever has a copy of the handle
        self.close()

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    __del__ = close
