"""The directory: its epochs, the writer's lock, commit and recovery."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import logging
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sempre.diagnostics import Diagnostic, StateError
from sempre.files.locations import local_path
from sempre.limits import DEFAULTS, Limits
from sempre.storage.disk import Disk, checksum, checksum_of
from sempre.storage.manifest import (
    FORMAT,
    Manifest,
    Piece,
    StoredFile,
    StoredTable,
    damaged,
    from_bytes,
    to_bytes,
    unknown_format,
)  # fmt: skip
from sempre.storage.parquet_blocks import Content, is_shared, log, segment
from sempre.storage.pieces import NewPiece, merged, pieces_due
from sempre.unsplit import unsplit

FOLDERS = ("programs", "log", "segments", "tables", "epochs")
_MANIFEST = re.compile(r"(\d{10})\.manifest")
_NUMBERED = re.compile(r"(\d{10})\..*")
_TEMPORARY = re.compile(r"\.\d{10}(\.\d+)*\.tmp")
_HEAD = re.compile(rb"sempre head (\d{1,10})\n")
_PUBLISHED = re.compile(r"sempre published (\d{1,10}) (.*)\n")
_FORMAT = re.compile(rb"sempre store (\d{1,9})\n")

logger = logging.getLogger(__name__)


def _names(folder: Path) -> list[str]:
    """What is in a folder, which a store need not have."""
    return [entry.name for entry in os.scandir(folder)] if folder.exists() else []


def store_path(place: object) -> Path:
    """The directory that `place` names: a path, or a `file:` URL."""
    path = local_path(place)
    if path is not None:
        return path
    raise StateError(
        Diagnostic(
            "E608",
            f"a store cannot be kept at `{place}`",
            hint="Stores are directories of a local file system, where renaming and syncing mean what they say.",
        )
    )


class _Handle:
    """An open file that closes itself: an interrupt on the way leaves no lock that nobody knows of."""

    def __init__(self, path: Path) -> None:
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def fileno(self) -> int:
        assert self._handle is not None, "the file is open"
        return self._handle

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    __del__ = close


class Store:
    """A store in a directory. Reading takes no lock; writing takes the one there is.

    Parameters
    ----------
    place
        The directory. It need not be there yet.
    disk
        What writes; tests replace it.
    limits
        When sets share a file, and when pieces become one.
    """

    def __init__(self, place: object, disk: Disk | None = None, limits: Limits = DEFAULTS) -> None:
        self.limits = limits
        given = store_path(place)
        self.name = str(given)  # as messages say it
        self.path = given.absolute()  # the process may go elsewhere, and the store does not
        self.disk = disk or Disk()
        self._lock: _Handle | None = None
        # Taken for a commit's last step, and to give the lock back: the writer is still the writer when it commits.
        self._last_step = threading.RLock()
        self._broken = False
        self._drafted = -1  # the newest epoch that this writer began to write

    def shown(self, file: str | Path) -> str:
        """A file of the store as messages say it."""
        return str(Path(self.name) / (self.path / file).relative_to(self.path))

    # ------------------------------------------------------------------------------------------------ reading

    def epochs(self) -> list[int]:
        """The epochs that can be read, in order."""
        try:
            names = _names(self.path / "epochs")
        except NotADirectoryError:
            return []
        return sorted(int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name)))

    @property
    def exists(self) -> bool:
        """Whether there is a store with at least one epoch. Raises if its format is another, or all are missing."""
        epochs = self.epochs()
        if epochs:
            self._check_format()
        else:
            self._check_newest(-1)
        return bool(epochs)

    def require(self) -> None:
        """Raise unless there is a store."""
        if not self.exists:
            what = "has no store in it" if self.path.is_dir() else "is not there"
            hint = "Make one with `sempre init STORE PROGRAM.dl`."
            raise StateError(Diagnostic("E601", f"`{self.name}` {what}", hint=hint))

    def _check_format(self) -> None:
        path = self.path / "FORMAT"
        match = _FORMAT.fullmatch(self._bytes(path))
        if match is None:
            raise damaged(self.shown(path), "it does not name a format")
        if int(match[1]) != FORMAT:
            raise unknown_format(self.shown(path), match[1].decode())

    def _bytes(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise damaged(self.shown(path), "it is missing") from None
        except OSError as error:
            raise damaged(self.shown(path), (error.strerror or str(error)).lower()) from None

    def manifest(self, epoch: int | None = None) -> Manifest:
        """The manifest of an epoch, of the current one if none is named."""
        epochs = self.epochs()
        if epoch is None:
            self._check_newest(epochs[-1])
        wanted = epochs[-1] if epoch is None else epoch
        path = self._manifest_path(wanted)
        # One that is gone since we looked was vacuumed, unless it is the last that there is.
        epochs = epochs if wanted not in epochs or path.exists() else self.epochs() or epochs
        if wanted not in epochs:
            kept = f"{epochs[0]} to {epochs[-1]}" if len(epochs) > 1 else f"only {epochs[0]}"
            raise StateError(Diagnostic("E607", f"`{self.name}` does not have epoch {wanted}", hint=f"It has {kept}."))
        found = from_bytes(self._bytes(path), self.shown(path))
        if found.epoch != wanted:
            raise damaged(self.shown(path), f"it is the manifest of epoch {found.epoch}")
        return found

    def manifests(self) -> Iterator[Manifest]:
        """Those of all epochs, in order, but for what a vacuum takes away meanwhile."""
        for epoch in self.epochs():
            try:
                yield self.manifest(epoch)
            except StateError:
                if epoch in self.epochs():
                    raise

    def still_has(self, epoch: int, manifest: Manifest | None) -> bool:
        """Whether an epoch has the same manifest as before; None if it could not be read."""
        try:
            return self.manifest(epoch) == manifest
        except StateError:
            return manifest is None and epoch in self.epochs()

    def _check_newest(self, newest: int) -> None:
        """Raise if an epoch was committed that is not there any more; `HEAD` says how far the writer had come."""
        path = self.path / "HEAD"
        match = _HEAD.fullmatch(self._bytes(path)) if path.exists() else None
        if match is None or int(match[1]) <= max([newest, *self.epochs()]):
            return
        missing = self.shown(self._manifest_path(int(match[1])))
        lost = f"go on from epoch {newest} and lose what came after it" if newest >= 0 else "begin again and lose all"
        hint = f"Restore the file from a backup. To {lost}, delete `{self.shown(path)}`."
        raise StateError(Diagnostic("E602", f"`{missing}` is damaged: it is missing", hint=hint))

    def read(self, file: StoredFile) -> Any:
        """The content of a file, after comparing it with what it must be."""
        return self.checked(file, self._bytes(self.path / file.path))

    def checked(self, file: StoredFile, data: Any) -> Any:
        """`data`, if it is what the file must have."""
        if len(data) != file.bytes:
            raise damaged(self.shown(file.path), f"it has {len(data):,} bytes and should have {file.bytes:,}")
        if checksum(data) != file.checksum:
            raise damaged(self.shown(file.path), "its checksum does not match")
        return data

    def check_size(self, file: StoredFile) -> None:
        """Raise if a file is not as long as it must be; `FileNotFoundError` if it is not there."""
        path = self.path / file.path
        size = path.stat().st_size
        if size != file.bytes:
            raise damaged(self.shown(path), f"it has {size:,} bytes and should have {file.bytes:,}")

    def check_content(self, file: StoredFile) -> None:
        """Raise if a file does not hold what it must."""
        path = self.path / file.path
        if checksum_of(path) != file.checksum:
            raise damaged(self.shown(path), "its checksum does not match")

    def check_there(self, file: StoredFile) -> None:
        """Raise if a file is missing."""
        path = self.path / file.path
        if not path.exists():
            raise damaged(self.shown(path), "it is missing")

    def program_text(self, manifest: Manifest) -> str:
        return str(self.read(manifest.program), "utf-8")

    def _manifest_path(self, epoch: int) -> Path:
        return self.path / "epochs" / f"{epoch:010d}.manifest"

    # ---------------------------------------------------------------------------------------------- the writer

    @property
    def is_locked(self) -> bool:
        """Whether this object is the writer."""
        return self._lock is not None

    def lock(self) -> None:
        """Become the writer, and clear up after one that died. Raises when there is another."""
        self._check_sound()
        if self._lock is not None:
            return
        with self._failures(self.path):
            if self.path.is_dir() and not self.epochs():
                self._check_empty()
            for folder in (self.path, *(self.path / name for name in FOLDERS)):
                if not folder.is_dir():
                    self.disk.make_folder(folder)
            self._check_folders()
            handle = _Handle(self.path / "lock")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            refused = self._is_written(handle)
            handle.close()
            raise refused from None
        if not self._is_named(handle):  # somebody removed it in between
            handle.close()
            self.lock()
            return
        self._lock = handle
        _writers.add(self)
        try:
            with self._failures(self.path / "lock"):
                os.ftruncate(handle.fileno(), 0)
                os.pwrite(handle.fileno(), str(os.getpid()).encode(), 0)
            self._recover()
        except BaseException:
            self.unlock()
            raise

    def _check_sound(self) -> None:
        if self._broken:
            raise StateError(
                Diagnostic("E606", f"`{self.name}` could not be written to before", hint="Open the store again.")
            )

    def check_lock(self) -> None:
        """Raise unless this object is still the only writer.

        The database may have been closed by another thread, and somebody may have removed the lock's file.
        """
        self._check_sound()
        if self._lock is None:
            hint = "Nothing was committed: open the store again, and apply the changes there."
            raise StateError(Diagnostic("E603", f"`{self.name}` was closed before the epoch was committed", hint=hint))
        if not self._is_named(self._lock):
            self.broken()
            hint = "The file `lock` keeps a second writer out: leave it in its place, and open the store again."
            raise StateError(Diagnostic("E603", f"`{self.name}` is no longer locked: `lock` was removed", hint=hint))

    def _is_named(self, handle: _Handle) -> bool:
        """Whether the file that is locked is the one that others would lock."""
        try:
            return os.path.samestat(os.fstat(handle.fileno()), (self.path / "lock").stat())
        except FileNotFoundError:
            return False

    def _is_written(self, handle: _Handle) -> StateError:
        holder = os.pread(handle.fileno(), 32, 0).decode("ascii", "replace").strip()
        who = f"process {holder}" if holder.isdigit() else "another process"
        if holder == str(os.getpid()):
            who = f"another database of this process ({holder})"
        hint = "A store has one writer at a time: close that one first. Reading is possible meanwhile."
        return StateError(Diagnostic("E603", f"`{self.name}` is being written by {who}", hint=hint))

    def unlock(self) -> None:
        """Stop being the writer."""
        with self._last_step:
            if self._lock is not None:
                fcntl.flock(self._lock, fcntl.LOCK_UN)  # also for whoever has a copy of the handle
                self.let_go()

    def let_go(self) -> None:
        """Close the handle; the lock stays while another process has a copy of it."""
        handle, self._lock = self._lock, None  # first: after an interrupt this is called again
        if handle is not None:
            handle.close()
            _writers.discard(self)

    def _check_folders(self) -> None:
        """Refuse to clear up in folders that are elsewhere."""
        for name in FOLDERS:
            if (self.path / name).is_symlink():
                hint = "Put the folder itself there; the store as a whole may be behind a link."
                raise StateError(Diagnostic("E602", f"`{self.shown(name)}` is damaged: it is a link", hint=hint))

    def _recover(self) -> None:
        """Write what a new store needs; remove what a writer that died left behind."""
        with self._failures(self.path):
            epochs = self.epochs()
            if epochs:
                self._check_format()
            else:
                self.disk.write(self.path / "FORMAT", f"sempre store {FORMAT}\n".encode())
                self.disk.sync_folder(self.path)
                self.disk.sync_folder(self.path.absolute().parent)
            current = epochs[-1] if epochs else -1
            for path in self._leftovers(current):
                logger.info("removing %s, which a writer left behind", path, extra={"store": str(self.path)})
                self.disk.remove(path)

    def _check_empty(self) -> None:
        """Refuse to make a store among other things, or of one that a later version has begun."""
        others = sorted(set(_names(self.path)) - {"FORMAT", "HEAD", "PUBLISHED", "lock", *FOLDERS})
        if others:
            hint = "Give a directory that is empty or not there yet."
            message = f"`{self.name}` is no store, and has other things in it: `{others[0]}`"
            raise StateError(Diagnostic("E612", message, hint=hint))
        path = self.path / "FORMAT"
        match = _FORMAT.fullmatch(path.read_bytes()) if path.exists() else None
        if match and int(match[1]) != FORMAT:
            raise unknown_format(self.shown(path), match[1].decode())

    def _leftovers(self, current: int) -> Iterator[Path]:
        for folder in FOLDERS:
            for name in _names(self.path / folder):
                match = _NUMBERED.fullmatch(name)
                if _TEMPORARY.fullmatch(name) or (match and int(match[1]) > current):
                    yield from _whole(self.path / folder / name)

    @contextmanager
    def _failures(self, path: Path) -> Iterator[None]:
        """Turn what the file system says into an error of ours."""
        try:
            yield
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            where = error.filename or path
            hint = "The last epoch is intact. Make room, or repair what is wrong there, and apply the changes again."
            raise StateError(Diagnostic("E606", f"cannot write `{where}`: {reason}", hint=hint)) from error

    # ------------------------------------------------------------------------------------------------- commit

    def commit(
        self,
        manifest: Manifest,
        program: str | None,
        contents: Mapping[str, Content],
        tables: Callable[[EpochDraft, Manifest], Manifest] = lambda _, manifest: manifest,
        committed: Callable[[Manifest], None] = lambda _: None,
    ) -> None:
        """Make an epoch durable, all of it or nothing.

        `manifest` has the pieces before it, `contents` what it adds, `program` is its text if that is new. `tables`
        names the tables in the manifest, and puts those into the draft that the store has not got yet. `committed` is
        told the manifest: the epoch is durable and `committed` has returned, or neither has happened, whatever signals
        arrive.
        """
        self.check_lock()
        draft, begun = EpochDraft(self, manifest.epoch), False

        def publish(done: Manifest) -> None:
            nonlocal begun
            begun = True
            try:
                with self._failures(self.path):
                    temporary = draft.manifest(done)
                    with self._last_step:
                        self.check_lock()
                        draft.publish(temporary, done.epoch)
                        committed(done)
                        self._note_newest(done.epoch)
            except BaseException:
                draft.give_up()
                raise

        try:
            with self._failures(self.path):
                manifest = tables(draft, manifest)
                stored = manifest.program if program is None else draft.program(program)
                pieces, piece = self._merged(manifest, contents)
                if files := draft.files(piece.contents):
                    pieces = (*pieces, Piece(piece.first, manifest.epoch, files))
                draft.sync()
            unsplit(partial(publish, replace(manifest, program=stored, pieces=pieces)))
        except BaseException:
            if not begun:  # an interrupt may come after the files and before the manifest
                draft.give_up()
            raise

    def _note_newest(self, epoch: int) -> None:
        """Write down how far the store has come; for those who look for what is missing, so not synced."""
        try:
            self.disk.note(self.path / "HEAD", f"sempre head {epoch}\n".encode())
        except OSError as error:
            logger.warning("cannot write %s: %s", self.shown("HEAD"), error, extra={"store": str(self.path)})

    def note_published(self, epoch: int, folder: str) -> None:
        """Write down what was published where; it may be lost, and then that is published again."""
        with self._failures(self.path):
            self.disk.note(self.path / "PUBLISHED", f"sempre published {epoch} {json.dumps(folder)}\n".encode())

    def published(self) -> tuple[int, str] | None:
        """The last epoch that was published, and the folder; None if that is not known."""
        try:
            match = _PUBLISHED.fullmatch((self.path / "PUBLISHED").read_text("utf-8"))
            return (int(match[1]), json.loads(match[2])) if match else None
        except (OSError, ValueError):
            return None

    def _merged(self, manifest: Manifest, contents: Mapping[str, Content]) -> tuple[tuple[Piece, ...], NewPiece]:
        """The pieces that stay as they are, and the one to write: what is new, with pieces that are to be merged."""
        pieces, new = manifest.pieces, NewPiece(manifest.epoch, contents)
        while (count := pieces_due([*(piece.rows for piece in pieces), new.rows], self.limits)) > 1:
            tail = pieces[1 - count :]
            new = NewPiece(tail[0].first, merged(tail, new.contents, self.read))
            pieces = pieces[: 1 - count]
        return pieces, new

    def drop_epoch(self, epoch: int) -> None:
        """Forget an epoch; its files stay."""
        with self._failures(self.path):
            self.disk.remove(self._manifest_path(epoch))

    def drop_files(self, named: set[str]) -> None:
        """Remove the files that nothing names."""
        with self._failures(self.path):
            self.disk.sync_folder(self.path / "epochs")
            # A table is a folder of files.
            named = {"/".join(name.split("/")[:2]) for name in named}
            for folder in ("programs", "log", "segments", "tables"):
                for name in _names(self.path / folder):
                    if f"{folder}/{name}" not in named:
                        for path in _whole(self.path / folder / name):
                            self.disk.remove(path)

    def next_number(self, epoch: int) -> int:
        """The first number that no file of an epoch has: files of a manifest that is replaced keep their names.

        An epoch that is new has none, since taking the lock removed what others left; so an epoch costs no listing of
        the files of all epochs.
        """
        begun, self._drafted = self._drafted >= epoch, max(self._drafted, epoch)
        if not begun and not self._manifest_path(epoch).exists():
            return 0
        taken = [name for folder in ("log", "segments", "tables") for name in _names(self.path / folder)]
        return max((int(name.split(".")[1]) for name in taken if name.startswith(f"{epoch:010d}.")), default=-1) + 1

    def broken(self) -> None:
        """Nobody knows what is on the disk: refuse to write until the store was opened again."""
        self._broken = True
        self.unlock()


def _whole(path: Path) -> Iterator[Path]:
    """Everything to remove so that a path is gone, in that order."""
    if path.is_dir() and not path.is_symlink():
        yield from path.iterdir()
    yield path


_drafts = itertools.count()

# Those that are writers in this process. A process that is forked has a copy of each, and must not hold their locks.
_writers: weakref.WeakSet[Store] = weakref.WeakSet()


def _let_go() -> None:
    for store in list(_writers):
        store.let_go()


os.register_at_fork(after_in_child=_let_go)


class EpochDraft:
    """The files of an epoch that is being committed."""

    def __init__(self, store: Store, epoch: int) -> None:
        self._store = store
        self._epoch = epoch
        self._written: list[Path] = []
        self._folders: set[Path] = set()
        self._number = store.next_number(epoch)

    def files(self, contents: Mapping[str, Content]) -> tuple[StoredFile, ...]:
        """Write sets; those that are small together, the others one by one."""
        limits = self._store.limits
        small = {name: content for name, content in contents.items() if len(content) and is_shared(content, limits)}
        large = {name: content for name, content in contents.items() if not is_shared(content, limits)}
        files = []
        if small:
            holds = {name: len(content) for name, content in small.items()}
            files.append(self._write(f"log/{self._name()}.parquet", log(small, limits), holds))
        for name, content in large.items():
            slug = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60]
            data = segment(content, limits)
            files.append(self._write(f"segments/{self._name()}.{slug}.parquet", data, {name: len(content)}))
        return tuple(files)

    def table(self, source: Path, rows: int) -> tuple[str, StoredTable]:
        """Take over a folder of Parquet files that is written; returns its name in the store."""
        disk, name = self._store.disk, f"tables/{self._name()}"
        folder = self._store.path / name
        self._written.append(folder)
        disk.make_folder(folder)
        files = []
        for file in sorted(source.glob("[!_.]*.parquet")):
            path = folder / file.name
            self._written.append(path)
            disk.link(file, path)
            files.append(StoredFile(f"{name}/{file.name}", path.stat().st_size, checksum_of(path)))
        if not files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        disk.sync_folder(folder)
        self._folders.add(folder.parent)
        return name, StoredTable(rows, tuple(files))

    def program(self, text: str) -> StoredFile:
        name = f"{self._epoch:010d}"
        if (self._store.path / "programs" / f"{name}.dl").exists():  # left behind, or of the epoch that is replaced
            name = self._name()
        return self._write(f"programs/{name}.dl", text.encode("utf-8"), {})

    def _name(self) -> str:
        number, self._number = self._number, self._number + 1
        return f"{self._epoch:010d}.{number}"

    def _write(self, name: str, data: Any, holds: Mapping[str, int]) -> StoredFile:
        path = self._store.path / name
        self._written.append(path)
        self._folders.add(path.parent)
        self._store.disk.write(path, data, fresh=True)
        return StoredFile(name, len(memoryview(data)), checksum(data), holds)

    def sync(self) -> None:
        """Make the names of what was written last."""
        for folder in sorted(self._folders):
            self._store.disk.sync_folder(folder)

    def manifest(self, manifest: Manifest) -> Path:
        """Write the manifest under a name that only this draft has."""
        folder = self._store.path / "epochs"
        temporary = folder / f".{manifest.epoch:010d}.{os.getpid()}.{next(_drafts)}.tmp"
        self._written.append(temporary)
        self._store.disk.write(temporary, to_bytes(manifest), fresh=True)
        return temporary

    def publish(self, temporary: Path, epoch: int) -> None:
        """The commit itself."""
        disk, path = self._store.disk, self._store._manifest_path(epoch)
        replaces = path.exists()
        disk.rename(temporary, path)
        self._written.remove(temporary)
        if replaces:
            # Old and new are the same state; whichever a crash leaves, what it names is there.
            self._written.clear()
        else:
            self._written.append(path)
        disk.sync_folder(path.parent)

    def give_up(self) -> None:
        """Remove what was written, the manifest first; but only the writer may: another has cleared up already."""
        if not self._store.is_locked:
            return
        try:
            for path in reversed(self._written):
                self._store.disk.remove(path)
        except OSError:
            self._store.broken()
