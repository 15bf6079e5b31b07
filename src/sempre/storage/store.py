"""The directory: its epochs, the writer's lock, commit and recovery."""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from sempre.diagnostics import Diagnostic, StateError
from sempre.files.locations import local_path
from sempre.limits import DEFAULTS, Limits
from sempre.storage.disk import Disk, checksum
from sempre.storage.epoch_files import EpochDraft
from sempre.storage.manifest import FORMAT, Manifest, Piece, StoredFile, damaged, from_bytes, unknown_format, unreadable
from sempre.storage.object_disk import ObjectDisk, remote_disk
from sempre.storage.parquet_blocks import Content
from sempre.storage.pieces import NewPiece, merged, pieces_due
from sempre.storage.writer_lock import AlreadyWritten, WriterLock
from sempre.unsplit import unsplit

FOLDERS = ("programs", "log", "segments", "tables", "epochs")
_MANIFEST = re.compile(r"(\d{10})\.manifest")
_NUMBERED = re.compile(r"(\d{10})\..*")
_TEMPORARY = re.compile(r"\.\d{10}(\.\d+)*\.tmp")
_HEAD = re.compile(rb"sempre head (\d{1,10})\n")
_PUBLISHED = re.compile(r"sempre published (\d{1,10}) (.*)\n")
_FORMAT = re.compile(rb"sempre store (\d{1,9})\n")

logger = logging.getLogger(__name__)


def located(place: object, disk: Disk | None = None) -> tuple[str, PurePath, Disk]:
    """What `place` is called, its root, and what reads and writes there: a path, or a URL; raises `StateError`."""
    path = local_path(place)
    if path is not None:  # the process may go elsewhere, and the store does not
        return str(path), path.absolute(), disk or Disk()
    if isinstance(disk, ObjectDisk):
        return str(place).rstrip("/"), PurePosixPath(disk.path_of(str(place))), disk
    return remote_disk(str(place))


class Store:
    """A store in a directory. Reading takes no lock; writing takes the one there is.

    Parameters
    ----------
    place
        The directory, or a URL. It need not be there yet.
    disk
        What writes; tests replace it.
    limits
        When sets share a file, and when pieces become one.
    """

    def __init__(self, place: object, disk: Disk | None = None, limits: Limits = DEFAULTS) -> None:
        self.limits = limits
        self.name, self.path, self.disk = located(place, disk)  # the name is what messages say
        self._lock: WriterLock | None = None
        # Taken for a commit's last step, and to give the lock back: the writer is still the writer when it commits.
        self._last_step = threading.RLock()
        self._broken = False
        self._drafted = -1  # the newest epoch that this writer began to write

    def again(self) -> Store:
        """Another object for the same store, which is no writer."""
        return Store(self.place, self.disk, self.limits)

    @property
    def place(self) -> str:
        """Where the store is, wherever this process goes."""
        return self.name if self.disk.is_shared else str(self.path)

    @property
    def identity(self) -> str:
        """The same text for the same store, by whatever links it is named."""
        return self.name if self.disk.is_shared else str(Path(self.path).resolve())

    def shown(self, file: str | PurePath) -> str:
        """A file of the store as messages say it."""
        inside = (self.path / file).relative_to(self.path)
        return f"{self.name}/{inside}" if self.disk.is_shared else str(Path(self.name) / inside)

    # ------------------------------------------------------------------------------------------------ reading

    def epochs(self) -> list[int]:
        """The epochs that can be read, in order."""
        try:
            names = self.disk.names(self.path / "epochs")
            found = sorted(int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name)))
            return [*found, *self._unlisted(found)] if self.disk.is_shared else found
        except NotADirectoryError:
            return []
        except OSError as error:
            raise unreadable(self.name, error) from None

    def _unlisted(self, listed: list[int]) -> Iterator[int]:
        """Epochs that are there and were not in a list, which may be older than what it lists."""
        noted = self._noted()
        epoch = noted if noted > max(listed, default=-1) else max(listed, default=-1) + 1
        while self.disk.exists(self.manifest_path(epoch)):
            yield epoch
            epoch += 1

    def _noted(self) -> int:
        """The epoch that `HEAD` names, -1 if there is none that can be read."""
        try:
            match = _HEAD.fullmatch(self.disk.read(self.path / "HEAD"))
        except FileNotFoundError:
            return -1
        except OSError as error:
            raise unreadable(self.shown("HEAD"), error) from None
        return int(match[1]) if match else -1

    def is_beyond(self, epoch: int) -> bool:
        """Whether a later epoch was committed, as far as a list and `HEAD` say."""
        names = self.disk.names(self.path / "epochs")
        return self._noted() > epoch or any(int(m[1]) > epoch for name in names if (m := _MANIFEST.fullmatch(name)))

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
            what = "has no store in it" if self.disk.is_folder(self.path) else "is not there"
            hint = "Make one with `sempre init STORE PROGRAM.dl`."
            raise StateError(Diagnostic("E601", f"`{self.name}` {what}", hint=hint))

    def _check_format(self) -> None:
        path = self.path / "FORMAT"
        match = _FORMAT.fullmatch(self._bytes(path))
        if match is None:
            raise damaged(self.shown(path), "it does not name a format")
        if int(match[1]) != FORMAT:
            raise unknown_format(self.shown(path), match[1].decode())

    def _bytes(self, path: PurePath) -> Any:
        try:
            return self.disk.read(path)
        except FileNotFoundError:
            raise damaged(self.shown(path), "it is missing") from None
        except OSError as error:
            if self.disk.is_shared:  # a request that failed says nothing of the file
                raise unreadable(self.shown(path), error) from None
            raise damaged(self.shown(path), (error.strerror or str(error)).lower()) from None

    def manifest(self, epoch: int | None = None) -> Manifest:
        """The manifest of an epoch, of the current one if none is named."""
        epochs = self.epochs()
        if epoch is None:
            self._check_newest(epochs[-1])
        wanted = epochs[-1] if epoch is None else epoch
        path = self.manifest_path(wanted)
        # One that is gone since we looked was vacuumed, unless it is the last that there is.
        epochs = epochs if wanted not in epochs or self.disk.exists(path) else self.epochs() or epochs
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
        noted = self._noted()
        if noted < 0 or noted <= max([newest, *self.epochs()]):
            return
        missing = self.shown(self.manifest_path(noted))
        lost = f"go on from epoch {newest} and lose what came after it" if newest >= 0 else "begin again and lose all"
        hint = f"Restore the file from a backup. To {lost}, delete `{self.shown('HEAD')}`."
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
        size = self.disk.size(path)
        if size != file.bytes:
            raise damaged(self.shown(path), f"it has {size:,} bytes and should have {file.bytes:,}")

    def check_content(self, file: StoredFile) -> None:
        """Raise if a file does not hold what it must."""
        path = self.path / file.path
        if self.disk.digest(path) != file.checksum:
            raise damaged(self.shown(path), "its checksum does not match")

    def check_there(self, file: StoredFile) -> None:
        """Raise if a file is missing."""
        path = self.path / file.path
        if not self.disk.exists(path):
            raise damaged(self.shown(path), "it is missing")

    def program_text(self, manifest: Manifest) -> str:
        return str(self.read(manifest.program), "utf-8")

    def manifest_path(self, epoch: int) -> PurePath:
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
        disk = self.disk
        with self._failures(self.path):
            if disk.is_folder(self.path) and not self.epochs():
                self._check_empty()
            for folder in (self.path, *(self.path / name for name in FOLDERS)):
                if not disk.is_folder(folder):
                    disk.make_folder(folder)
            self._check_folders()
            try:
                self._lock = disk.lock(self.path / "lock")
            except AlreadyWritten as other:
                raise self._is_written(other.holder) from None
        _writers.add(self)
        try:
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
        if not self._lock.is_current():
            self.broken()
            hint = "The file `lock` keeps a second writer out: leave it in its place, and open the store again."
            raise StateError(Diagnostic("E603", f"`{self.name}` is no longer locked: `lock` was removed", hint=hint))

    def _is_written(self, holder: str) -> StateError:
        who = f"process {holder}" if holder.isdigit() else "another process"
        if holder == str(os.getpid()):
            who = f"another database of this process ({holder})"
        hint = "A store has one writer at a time: close that one first. Reading is possible meanwhile."
        return StateError(Diagnostic("E603", f"`{self.name}` is being written by {who}", hint=hint))

    def unlock(self) -> None:
        """Stop being the writer."""
        with self._last_step:
            if self._lock is not None:
                lock, self._lock = self._lock, None  # first: after an interrupt this is called again
                _writers.discard(self)
                lock.release()

    def let_go(self) -> None:
        """Forget the lock, which stays while another process has a copy of it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()
            _writers.discard(self)

    def _check_folders(self) -> None:
        """Refuse to clear up in folders that are elsewhere."""
        for name in FOLDERS:
            if self.disk.is_link(self.path / name):
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
                self.disk.sync_folder(self.path.parent)
            current = epochs[-1] if epochs else -1
            # Where others may write at the same time, what looks left behind may be what they are writing.
            for path in () if self.disk.is_shared else self._leftovers(current):
                logger.info("removing %s, which a writer left behind", path, extra={"store": self.place})
                self.disk.remove(path)

    def _check_empty(self) -> None:
        """Refuse to make a store among other things, or of one that a later version has begun."""
        others = sorted(set(self.disk.names(self.path)) - {"FORMAT", "HEAD", "PUBLISHED", "lock", *FOLDERS})
        if others:
            hint = "Give a directory that is empty or not there yet."
            message = f"`{self.name}` is no store, and has other things in it: `{others[0]}`"
            raise StateError(Diagnostic("E612", message, hint=hint))
        path = self.path / "FORMAT"
        match = _FORMAT.fullmatch(self.disk.read(path)) if self.disk.exists(path) else None
        if match and int(match[1]) != FORMAT:
            raise unknown_format(self.shown(path), match[1].decode())

    def _leftovers(self, current: int) -> Iterator[PurePath]:
        for folder in FOLDERS:
            for name in self.disk.names(self.path / folder):
                match = _NUMBERED.fullmatch(name)
                if _TEMPORARY.fullmatch(name) or (match and int(match[1]) > current):
                    yield from self._whole(self.path / folder / name)

    @contextmanager
    def _failures(self, path: PurePath) -> Iterator[None]:
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
                    draft.stage(done)
                    with self._last_step:
                        self.check_lock()
                        draft.publish(done.epoch)
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
        except BaseException as error:
            if not begun:  # an interrupt may come after the files and before the manifest
                draft.give_up()
            if isinstance(error, StateError) and self.disk.is_shared and self.is_beyond(manifest.epoch - 1):
                raise self.superseded(manifest.epoch) from None
            raise

    def superseded(self, epoch: int) -> StateError:
        """The error for an epoch that another writer has committed first."""
        hint = "Nothing was committed: open the store again, and apply the changes there."
        return StateError(Diagnostic("E609", f"another writer has committed epoch {epoch} of `{self.name}`", hint=hint))

    def _note_newest(self, epoch: int) -> None:
        """Write down how far the store has come; for those who look for what is missing, so not synced."""
        try:
            self.disk.note(self.path / "HEAD", f"sempre head {epoch}\n".encode())
        except OSError as error:
            logger.warning("cannot write %s: %s", self.shown("HEAD"), error, extra={"store": self.place})

    def note_published(self, epoch: int, folder: str) -> None:
        """Write down what was published where; it may be lost, and then that is published again."""
        with self._failures(self.path):
            self.disk.note(self.path / "PUBLISHED", f"sempre published {epoch} {json.dumps(folder)}\n".encode())

    def published(self) -> tuple[int, str] | None:
        """The last epoch that was published, and the folder; None if that is not known."""
        try:
            match = _PUBLISHED.fullmatch(str(self.disk.read(self.path / "PUBLISHED"), "utf-8"))
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
            self.disk.remove(self.manifest_path(epoch))

    def drop_files(self, named: set[str], current: int) -> None:
        """Remove the files that nothing names, and nothing can name any more: those of epochs that are committed."""
        with self._failures(self.path):
            self.disk.sync_folder(self.path / "epochs")
            # A table is a folder of files.
            named = {"/".join(name.split("/")[:2]) for name in named}
            for folder in ("programs", "log", "segments", "tables"):
                for name in self.disk.names(self.path / folder):
                    match = _NUMBERED.fullmatch(name)
                    is_due = not self.disk.is_shared or (match is not None and int(match[1]) <= current)
                    if is_due and f"{folder}/{name}" not in named:
                        for path in self._whole(self.path / folder / name):
                            self.disk.remove(path)

    def _whole(self, path: PurePath) -> Iterator[PurePath]:
        """Everything to remove so that a path is gone, in that order."""
        if self.disk.is_folder(path) and not self.disk.is_link(path):
            yield from (path / name for name in self.disk.names(path))
        yield path

    def next_number(self, epoch: int) -> int:
        """The first number that no file of an epoch has: files of a manifest that is replaced keep their names.

        An epoch that is new has none, since taking the lock removed what others left; so an epoch costs no listing of
        the files of all epochs. Where others may write at the same time, numbers are drawn: no two have the same.
        """
        if self.disk.is_shared:
            return secrets.randbelow(1 << 60)
        begun, self._drafted = self._drafted >= epoch, max(self._drafted, epoch)
        if not begun and not self.disk.exists(self.manifest_path(epoch)):
            return 0
        taken = [name for folder in ("log", "segments", "tables") for name in self.disk.names(self.path / folder)]
        return max((int(name.split(".")[1]) for name in taken if name.startswith(f"{epoch:010d}.")), default=-1) + 1

    def broken(self) -> None:
        """Nobody knows what is on the disk: refuse to write until the store was opened again."""
        self._broken = True
        self.unlock()


# Those that are writers in this process. A process that is forked has a copy of each, and must not hold their locks.
_writers: weakref.WeakSet[Store] = weakref.WeakSet()


def _let_go() -> None:
    for store in list(_writers):
        store.let_go()


os.register_at_fork(after_in_child=_let_go)
