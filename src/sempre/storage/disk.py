"""Everything that a store reads and writes, one method each: the file system of this machine.

`object_disk.py` has the same for what is named by a URL. Tests replace a disk with one that fails or dies at a chosen
step, so nothing in this package reads or writes around it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any, Protocol

import pyarrow.parquet as pq

from sempre.storage.writer_lock import FileLock, WriterLock

# How much is written at once: between two writes a process may die or a disk may fill up.
CHUNK_BYTES = 1 << 20


def checksum(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


class HeldFiles(Protocol):
    """Files that can be read; where the system allows it, also when they have been removed meanwhile."""

    def read(self, path: PurePath) -> Any: ...

    def close(self) -> None: ...


class Disk:
    """The file system of this machine."""

    # Whether several may write at once. Then nothing is removed that another may be about to name, and the name of a
    # manifest is what only one of them gets.
    is_shared = False

    def step(self, what: str, path: PurePath) -> None:
        """Called before every effect."""

    # ------------------------------------------------------------------------------------------------ reading

    def names(self, folder: PurePath) -> list[str]:
        """What is in a folder; nothing if it is not there."""
        return [entry.name for entry in os.scandir(folder)] if Path(folder).exists() else []

    def exists(self, path: PurePath) -> bool:
        return Path(path).exists()

    def is_folder(self, path: PurePath) -> bool:
        return Path(path).is_dir()

    def is_link(self, path: PurePath) -> bool:
        return Path(path).is_symlink()

    def read(self, path: PurePath) -> Any:
        """The content of a file; `FileNotFoundError` if there is none."""
        return Path(path).read_bytes()

    def size(self, path: PurePath) -> int:
        """The length of a file; `FileNotFoundError` if there is none."""
        return Path(path).stat().st_size

    def digest(self, path: PurePath) -> str:
        """The checksum of a file, which may be longer than memory."""
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:32]

    def used_bytes(self, folder: PurePath) -> int:
        """The size of all files in a folder and in those below it."""
        return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())

    def hold(self, paths: Iterable[PurePath]) -> HeldFiles:
        """Opens files, all of them at once."""
        return _OpenFiles(paths)

    def table(self, folder: PurePath, columns: list[str]) -> Any:
        """The rows of the Parquet files in a folder."""
        return pq.read_table(folder, columns=columns, partitioning=None)

    # ------------------------------------------------------------------------------------------------ writing

    def lock(self, path: PurePath) -> WriterLock:
        """What makes a writer; `AlreadyWritten` if there is another."""
        return FileLock.taken(Path(path))

    def write(self, path: PurePath, data: Any, fresh: bool = False) -> None:
        """Make a file with this content, synced. What was there is replaced or, for a `fresh` file, an error."""
        self.step("create", path)
        flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | (os.O_EXCL if fresh else os.O_TRUNC)
        handle = os.open(path, flags, 0o666)
        try:
            view = memoryview(data).cast("B")
            while view:
                view = view[self.write_some(handle, path, view[:CHUNK_BYTES]) :]
            self.step("sync", path)
            os.fsync(handle)
        finally:
            os.close(handle)

    def note(self, path: PurePath, data: bytes) -> None:
        """Replace the content of a small file, in place and not synced: it may be lost, with nothing else."""
        self.step("note", path)
        handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        try:
            os.pwrite(handle, data, 0)
            os.ftruncate(handle, len(data))
        finally:
            os.close(handle)

    def write_some(self, handle: int, path: PurePath, data: memoryview) -> int:
        """Write the beginning of `data`; returns how much."""
        self.step("write", path)
        return os.write(handle, data)

    def take(self, old: Path, new: PurePath) -> None:
        """Give a file of this machine another name, synced; a copy of it where it cannot have one."""
        self.step("create", new)
        try:
            os.link(old, new)
        except OSError:  # another file system, or one without links
            shutil.copyfile(old, new)
        self.step("sync", new)
        handle = os.open(new, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def stage(self, path: PurePath, data: bytes) -> None:
        """Prepare a commit: write what is to be committed under a name that nobody reads."""
        self.write(path, data, fresh=True)

    def commit(self, staged: PurePath, path: PurePath, data: bytes) -> None:
        """Give what was staged its own name, at once; `data` is its content. `sync_folder` makes it last."""
        self.rename(staged, path)

    def rename(self, old: PurePath, new: PurePath) -> None:
        self.step("rename", new)
        Path(old).replace(new)

    def remove(self, path: PurePath) -> None:
        """Remove a file, or a folder that is empty."""
        self.step("remove", path)
        local = Path(path)
        if local.is_dir() and not local.is_symlink():
            local.rmdir()
        else:
            local.unlink(missing_ok=True)

    def make_folder(self, path: PurePath) -> None:
        self.step("folder", path)
        Path(path).mkdir(parents=True, exist_ok=True)

    def sync_folder(self, path: PurePath) -> None:
        """Make the names in a folder last."""
        self.step("sync", path)
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _OpenFiles:
    """Files of this machine that are open: they stay readable whatever a vacuum removes."""

    def __init__(self, paths: Iterable[PurePath]) -> None:
        self._handles: dict[PurePath, int] = {}
        try:
            for path in paths:
                if path not in self._handles:
                    self._handles[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.close()
            raise

    def read(self, path: PurePath) -> Any:
        handle = self._handles[path]
        data = bytearray(os.fstat(handle).st_size)
        view, at = memoryview(data), 0
        while at < len(data):
            got = os.preadv(handle, [view[at:]], at)
            if not got:
                break
            at += got
        return data[:at] if at < len(data) else data

    def close(self) -> None:
        while self._handles:
            # Forgotten first: after an interrupt in between, its number may be that of somebody else's file.
            os.close(self._handles.popitem()[1])
