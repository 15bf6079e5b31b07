"""What a store reads and writes where places are named by URLs: S3 and what is like it, through fsspec.

Nothing can be renamed there at once, no lock ends with the process that holds it, and an answer may be lost after the
work was done. So **the name of a manifest is the lock**: an epoch is committed by a put that fails if the name exists.
Of two writers one gets the name, and the other an error. `docs/format.md` has what follows from that.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar

import pyarrow.parquet as pq

from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, StateError
from sempre.storage.disk import Disk, HeldFiles, checksum
from sempre.storage.writer_lock import WriterLock

Value = TypeVar("Value")

# How often a put is asked for again that met another one of the same name, and the first pause in seconds.
CONFLICT_TRIES = 6
CONFLICT_PAUSE = 0.05
# What the object has that is put to try out whether puts can fail.
_TRIED = b"the name of a manifest is the lock\n"
# The file systems in memory have threads for other writers.
_one_at_a_time = threading.Lock()
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/{1,2}(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class System:
    """How a scheme is reached from Python, and with what."""

    protocol: str  # as fsspec calls it
    module: str
    install: str
    creates: bool  # whether a put can be made to fail where the name exists; else names are given by renaming


_S3 = System("s3", "s3fs", "sempre[s3]", True)
_GS = System("gcs", "gcsfs", "gcsfs", True)
_AZURE = System("abfs", "adlfs", "adlfs", True)
SYSTEMS = {
    "s3": _S3, "s3a": _S3, "s3n": _S3, "gs": _GS, "gcs": _GS, "abfs": _AZURE, "abfss": _AZURE, "az": _AZURE,
    "hdfs": System("hdfs", "pyarrow.fs", "Hadoop's libhdfs", False),
    "memory": System("memory", "fsspec", "fsspec", True),
}  # fmt: skip


def remote_disk(place: str) -> tuple[str, PurePosixPath, ObjectDisk]:
    """The name, the root and the disk of a place that a URL names; raises `StateError` if nothing here reaches it."""
    found = _URL.fullmatch(place)
    system = SYSTEMS.get(found[1].lower()) if found else None
    if found is None or system is None:
        known = ", ".join(f"{name}://" for name in SYSTEMS)
        raise _unreachable(
            place, f"Known are directories, and {known}; with a classic Spark session, what its Java knows."
        )
    try:
        importlib.import_module(system.module)
        files = importlib.import_module("fsspec").filesystem(system.protocol, use_listings_cache=False)
    except (ImportError, OSError) as error:
        hint = f"It takes {system.install}: " + (f"pip install '{system.install}'." if system.creates else str(error))
        raise _unreachable(place, hint) from None
    disk = RenamingDisk(files, system.protocol) if not system.creates else ObjectDisk(files, system.protocol)
    return place.rstrip("/"), PurePosixPath(disk.path_of(place)), disk


def is_reached(place: str) -> bool:
    """Whether there is a client in Python for what a URL names."""
    found = _URL.fullmatch(place)
    system = SYSTEMS.get(found[1].lower()) if found else None
    return system is not None and importlib.util.find_spec(system.module) is not None and system.creates


def _unreachable(place: str, hint: str) -> StateError:
    return StateError(Diagnostic("E608", f"a store cannot be kept at `{place}`", hint=hint))


class ObjectDisk(Disk):
    """Objects behind an fsspec file system that can put what must not exist yet."""

    is_shared = True

    def __init__(self, files: Any, protocol: str) -> None:
        self.files = files
        self._protocol = protocol

    def url(self, path: PurePath) -> str:
        """A path of this disk as others name it."""
        return f"{self._protocol}://{path}"

    def path_of(self, place: str) -> str:
        """What a URL names, as this disk has it."""
        found = _URL.fullmatch(place)
        assert found is not None, "a URL was asked for"
        return str(self.files._strip_protocol(f"{self._protocol}://{found[2]}")).rstrip("/")

    # ------------------------------------------------------------------------------------------------ reading

    def names(self, folder: PurePath) -> list[str]:
        prefix = str(folder)
        try:
            found = self._asked(folder, lambda: self.files.ls(prefix, detail=False, refresh=True))
        except (FileNotFoundError, NotADirectoryError):
            return []
        inside = (str(each).rstrip("/") for each in found)
        return [PurePosixPath(each).name for each in inside if each.strip("/") != prefix.strip("/")]

    def exists(self, path: PurePath) -> bool:
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def is_folder(self, path: PurePath) -> bool:
        return bool(self.names(path))

    def is_link(self, path: PurePath) -> bool:
        return False

    def read(self, path: PurePath) -> Any:
        return self._asked(path, lambda: self.files.cat_file(str(path)))

    def size(self, path: PurePath) -> int:
        info = self._asked(path, lambda: self.files.info(str(path)))
        if info["type"] != "file":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return int(info["size"])

    def digest(self, path: PurePath) -> str:
        return checksum(self.read(path))

    def used_bytes(self, folder: PurePath) -> int:
        found = self._asked(folder, lambda: self.files.find(str(folder), detail=True))
        return sum(int(info["size"]) for info in found.values())

    def hold(self, paths: Iterable[PurePath]) -> HeldFiles:
        return _NamedFiles(self)

    def table(self, folder: PurePath, columns: list[str]) -> Any:
        return self._asked(
            folder, lambda: pq.read_table(str(folder), columns=columns, partitioning=None, filesystem=self.files)
        )

    # ------------------------------------------------------------------------------------------------ writing

    def lock(self, path: PurePath) -> WriterLock:
        """Nothing is locked; but what the commit rests on is tried out: a service may not know it, and say nothing."""
        try:
            for _ in range(2):
                self.create(path, _TRIED)
        except FileExistsError:
            return _NoLock()
        hint = "The service ignores `If-None-Match`, on which commits rest: use another, or a later version of it."
        raise StateError(Diagnostic("E608", f"`{self.url(path.parent)}` puts objects that exist already", hint=hint))

    def create(self, path: PurePath, data: bytes) -> None:
        """Put an object that must not exist; raises `FileExistsError`.

        It may be our own, by a put whose answer was lost.
        """
        for attempt in range(CONFLICT_TRIES):
            self.step("create", path)
            try:
                with _one_at_a_time if self._protocol == "memory" else contextlib.nullcontext():
                    self._asked(path, lambda: self.files.pipe_file(str(path), data, mode="create"))
                return
            except OSError as error:
                # Two puts at a time: S3 wants one of them to ask again.
                if _code(error) != "ConditionalRequestConflict" or attempt + 1 == CONFLICT_TRIES:
                    raise
            time.sleep(CONFLICT_PAUSE * 2**attempt)

    def write(self, path: PurePath, data: Any, fresh: bool = False) -> None:
        """Put an object. Those that are `fresh` have a name that nobody else makes."""
        self.step("create", path)
        self._asked(path, lambda: self.files.pipe_file(str(path), bytes(data)))

    def note(self, path: PurePath, data: bytes) -> None:
        self.step("note", path)
        self._asked(path, lambda: self.files.pipe_file(str(path), data))

    def take(self, old: Path, new: PurePath) -> None:
        self.step("create", new)
        self._asked(new, lambda: self.files.put_file(str(old), str(new)))

    def stage(self, path: PurePath, data: bytes) -> None:
        """Nothing: what is committed has its own name from the beginning."""

    def commit(self, staged: PurePath, path: PurePath, data: bytes) -> None:
        """Put the manifest; raises `FileExistsError` if another writer has, `UnknownOutcome` if nobody can tell."""
        try:
            self.create(path, data)
            return
        except PermissionError:
            raise
        except OSError as error:
            failed = error
        try:
            there = self.read(path)
        except FileNotFoundError:
            raise UnknownOutcome(failed.errno or errno.EIO, failed.strerror or str(failed), str(path)) from failed
        except OSError as error:
            raise UnknownOutcome(error.errno or errno.EIO, error.strerror or str(error), str(path)) from failed
        if there != data:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None

    def rename(self, old: PurePath, new: PurePath) -> None:
        self.step("rename", new)
        self._asked(new, lambda: self.files.mv(str(old), str(new)))

    def remove(self, path: PurePath) -> None:
        self.step("remove", path)
        with contextlib.suppress(FileNotFoundError):
            self._asked(path, lambda: self.files.rm_file(str(path)))

    def make_folder(self, path: PurePath) -> None:
        """Nothing: folders are what names have in common."""

    def sync_folder(self, path: PurePath) -> None:
        """Nothing: a put that was answered lasts."""

    def _asked(self, path: PurePath, work: Callable[[], Value]) -> Value:
        """What a request gives; what a client raises becomes an `OSError` that names the object."""
        with _translated(path):
            return work()


class RenamingDisk(ObjectDisk):
    """A file system whose files can be renamed, and not made to fail where the name exists: HDFS.

    A manifest is whole or not there. That there is one writer at a time is not seen to.
    """

    def lock(self, path: PurePath) -> WriterLock:
        return _NoLock()

    def make_folder(self, path: PurePath) -> None:
        self.step("folder", path)
        self._asked(path, lambda: self.files.makedirs(str(path), exist_ok=True))

    def stage(self, path: PurePath, data: bytes) -> None:
        self.write(path, data, fresh=True)

    def commit(self, staged: PurePath, path: PurePath, data: bytes) -> None:
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self.rename(staged, path)


class UnknownOutcome(OSError):
    """A put that was not answered, and has not happened so far."""


class _NoLock:
    """Being the writer where nobody can be kept out: the commit says who was first."""

    def is_current(self) -> bool:
        return True

    def release(self) -> None:
        pass

    def close(self) -> None:
        pass


class _NamedFiles:
    """Files that are read by their names when they are needed."""

    def __init__(self, disk: ObjectDisk) -> None:
        self._disk = disk

    def read(self, path: PurePath) -> Any:
        return self._disk.read(path)

    def close(self) -> None:
        pass


@contextmanager
def _translated(path: PurePath) -> Iterator[None]:
    """What clients raise as the `OSError` of a file system, naming the object."""
    try:
        yield
    except (TypeError, AttributeError, AssertionError, KeyError):  # our fault
        raise
    except Exception as error:  # each client has errors of its own
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
        if isinstance(error, FileExistsError) or _code(error) in ("PreconditionFailed", "412"):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        number = (isinstance(error, OSError) and error.errno) or errno.EIO
        said = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        if _code(error):
            said = f"{said} ({_code(error)})"
        kind = PermissionError if isinstance(error, PermissionError) else OSError
        raise kind(number, said, str(path)) from error


def _code(error: BaseException | None) -> str:
    """What S3 calls an error, empty if it did not come from there."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
        error = error.__cause__
    return ""
