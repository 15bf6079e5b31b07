"""Every effect on the file system that a store has, one method each.

Tests replace the disk with one that fails or dies at a chosen step, so nothing in this package writes around it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

# How much is written at once: between two writes a process may die or a disk may fill up.
CHUNK_BYTES = 1 << 20


def checksum(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def checksum_of(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


class Disk:
    """The file system of this machine."""

    def step(self, what: str, path: Path) -> None:
        """Called before every effect."""

    def write(self, path: Path, data: Any, fresh: bool = False) -> None:
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

    def note(self, path: Path, data: bytes) -> None:
        """Replace the content of a small file, in place and not synced: it may be lost, with nothing else."""
        self.step("note", path)
        handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        try:
            os.pwrite(handle, data, 0)
            os.ftruncate(handle, len(data))
        finally:
            os.close(handle)

    def write_some(self, handle: int, path: Path, data: memoryview) -> int:
        """Write the beginning of `data`; returns how much."""
        self.step("write", path)
        return os.write(handle, data)

    def link(self, old: Path, new: Path) -> None:
        """Give a file another name, synced; a copy of it where it cannot have one."""
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

    def rename(self, old: Path, new: Path) -> None:
        self.step("rename", new)
        old.replace(new)

    def remove(self, path: Path) -> None:
        """Remove a file, or a folder that is empty."""
        self.step("remove", path)
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)

    def make_folder(self, path: Path) -> None:
        self.step("folder", path)
        path.mkdir(parents=True, exist_ok=True)

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder last."""
        self.step("sync", path)
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
