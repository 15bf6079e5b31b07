"""The change feed of a stream: a folder of Parquet files per epoch.

`FEED/12/reach.parquet` has what epoch 12 added to and removed from `reach`, and `FEED/12/_epoch.json` which batch it
came from. A folder appears whole, by one rename, before the epoch it tells of can be seen; one that is there already
from the same batch is left as it is, so that a batch that comes again after a crash changes nothing.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sempre.analysis.model import CheckedProgram
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic, StateError
from sempre.files.changes_table import changes_table
from sempre.files.locations import is_url
from sempre.files.write import Changes

MANIFEST = "_epoch.json"


@dataclass(frozen=True, slots=True)
class Feed:
    """Writes the changes of epochs to a folder of this machine."""

    folder: Path
    checked: CheckedProgram

    @staticmethod
    def at(folder: str | Path, checked: CheckedProgram) -> Feed:
        """A feed in this folder, which is made if it is not there."""
        if is_url(str(folder)):
            message = f"the change feed is written to a folder of this machine, and `{folder}` is none"
            raise DataError(Diagnostic("E512", message, hint="Write with on_changes= and ChangeSet.to_spark."))
        feed = Feed(Path(folder), checked)
        with feed._writing():
            feed.folder.mkdir(parents=True, exist_ok=True)
        return feed

    def write(self, epoch: int, batch: tuple[str, int], changes: Changes) -> None:
        """Write an epoch, or see that it is there already; raises `StateError` if another batch has made it."""
        tables = {name: changes_table(relation, epoch, changes) for name, relation in self.checked.relations.items()}
        tables = {
            name: table for name, table in tables.items() if table.num_rows and self.checked.relations[name].arity
        }
        rows = {name: table.num_rows for name, table in tables.items()}
        manifest = {"epoch": epoch, "stream": batch[0], "batch": batch[1], "rows": rows}
        target = self.folder / str(epoch)
        with self._writing():
            if target.exists():
                self._check(target, manifest)
                return
            staged = self.folder / f".{epoch}.{os.getpid()}.tmp"
            shutil.rmtree(staged, ignore_errors=True)
            staged.mkdir()
            for name, table in tables.items():
                with (staged / f"{name}.parquet").open("wb") as file:
                    pq.write_table(table, file)
                    os.fsync(file.fileno())
            with (staged / MANIFEST).open("w", encoding="utf-8") as file:
                file.write(json.dumps(manifest) + "\n")
                file.flush()
                os.fsync(file.fileno())
            _sync(staged)
            staged.rename(target)
            _sync(self.folder)

    def _check(self, target: Path, manifest: dict[str, Any]) -> None:
        try:
            found = json.loads((target / MANIFEST).read_text("utf-8"))
        except (OSError, ValueError):
            found = None
        if found != manifest:
            raise StateError(
                Diagnostic(
                    "E651",
                    f"`{target}` is of another history: epoch {manifest['epoch']} was written there by another batch",
                    detail=f"there: {json.dumps(found)}; now: {json.dumps(manifest)}",
                    hint="Give this stream a feed of its own, or remove the old one.",
                )
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"cannot write `{self.folder}`: {(error.strerror or str(error)).lower()}"
            raise DataError(Diagnostic("E512", message)) from None


def _sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
