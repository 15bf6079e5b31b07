"""The files of one epoch: written, then named by its manifest; or removed again."""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from sempre.diagnostics import Diagnostic, StateError
from sempre.storage.disk import checksum
from sempre.storage.manifest import Manifest, StoredFile, StoredTable, to_bytes
from sempre.storage.object_disk import UnknownOutcome
from sempre.storage.parquet_blocks import Content, is_shared, log, segment

if TYPE_CHECKING:
    from sempre.storage.store import Store

_drafts = itertools.count()


class EpochDraft:
    """The files of an epoch that is being committed."""

    def __init__(self, store: Store, epoch: int) -> None:
        self._store = store
        self._epoch = epoch
        self._written: list[PurePath] = []
        self._folders: set[PurePath] = set()
        self._number = store.next_number(epoch)
        self._staged = store.path / "epochs" / f".{epoch:010d}.{os.getpid()}.{next(_drafts)}.tmp"
        self._content = b""

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
            disk.take(file, path)
            files.append(StoredFile(f"{name}/{file.name}", disk.size(path), disk.digest(path)))
        if not files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        disk.sync_folder(folder)
        self._folders.add(folder.parent)
        return name, StoredTable(rows, tuple(files))

    def program(self, text: str) -> StoredFile:
        name = f"{self._epoch:010d}"
        disk = self._store.disk
        if disk.is_shared or disk.exists(self._store.path / "programs" / f"{name}.dl"):
            name = self._name()  # that one is another's, was left behind, or is of the epoch that is replaced
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

    def stage(self, manifest: Manifest) -> None:
        """Write the manifest where nobody reads it, under a name that only this draft has."""
        self._content = to_bytes(manifest)
        self._written.append(self._staged)
        self._store.disk.stage(self._staged, self._content)

    def publish(self, epoch: int) -> None:
        """The commit itself."""
        disk, path = self._store.disk, self._store.manifest_path(epoch)
        if disk.is_shared:
            self._put(path, epoch)
            return
        replaces = disk.exists(path)
        disk.commit(self._staged, path, self._content)
        self._written.remove(self._staged)
        if replaces:
            # Old and new are the same state; whichever a crash leaves, what it names is there.
            self._written.clear()
        else:
            self._written.append(path)
        disk.sync_folder(path.parent)

    def _put(self, path: PurePath, epoch: int) -> None:
        """Take the name of an epoch, where others may want it too."""
        store = self._store
        try:
            store.disk.commit(self._staged, path, self._content)
        except FileExistsError:
            raise store.superseded(epoch) from None
        except UnknownOutcome as error:
            # The put may still arrive: then what it names has to be there.
            self._written.clear()
            store.broken()
            message = f"nobody can tell whether epoch {epoch} of `{store.name}` was committed: {error.strerror}"
            hint = (
                "Open the store again: it has the epoch or has it not, and then apply the changes if they are missing."
            )
            raise StateError(Diagnostic("E606", message, hint=hint)) from error
        if store.is_beyond(epoch):
            # Others have gone on without it, and vacuumed the epoch whose name this was.
            self._written.append(path)
            raise store.superseded(epoch)
        self._written.clear()

    def give_up(self) -> None:
        """Remove what was written, the manifest first; but only the writer may: another has cleared up already."""
        if not self._store.is_locked:
            return
        try:
            for path in reversed(self._written):
                self._store.disk.remove(path)
        except OSError:
            self._store.broken()
