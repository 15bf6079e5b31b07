"""Folders of Parquet files: a version is the list of the files, each with its content.

Files that were added are read, and nothing else. What was in a file that is gone, or was written again, nobody knows:
then all rows are read. A file that looks as it did is not opened.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sempre.analysis.model import Relation, Type
from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.directive_options import Endpoint
from sempre.files.foreign import conform, read_parquet
from sempre.files.locations import path_inside
from sempre.files.sources.file_source import UNSURE_NS, files_of, signs_of
from sempre.files.sources.source import RowChanges, SourceVersion

PARTS = "parts"


class FolderSource:
    """A folder that one directive names."""

    def __init__(self, endpoint: Endpoint, relation: Relation, types: Mapping[str, Type], folder: Path) -> None:
        self.why = ""
        self._endpoint = endpoint
        self._relation = relation
        self._types = types
        self._path = path_inside(folder, endpoint.filename)

    @property
    def place(self) -> str:
        return f"{self._path.absolute()} {self._endpoint}"

    def version(self, known: SourceVersion | None) -> SourceVersion:
        before = known[PARTS] if known is not None and PARTS in known else {}
        unsure = (known["seen"] if known is not None and before else 0) - UNSURE_NS
        seen = time.time_ns()
        try:
            parts = {}
            for file in files_of(self._path):
                name, signs = str(file.relative_to(self._path)), list(signs_of(file))
                there = before.get(name)
                is_same = there is not None and there[0] == signs and signs[-1] < unsure
                parts[name] = there if is_same and there is not None else [signs, _digest(file)]
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"cannot read `{self._path}`: {reason}"
            raise DataError(Diagnostic("E506", message, Span(str(self._path), 0, 0, 0, 0))) from None
        if known is not None and PARTS in known and _contents(parts) == _contents(before):
            return known
        return {PARTS: parts, "seen": seen}

    def rows(self, version: SourceVersion) -> pa.Table:
        endpoint = self._endpoint
        table = read_parquet(self._path, self._relation, self._types, values=endpoint.values, taking=endpoint.taking)
        self._check(version)
        return table

    def changes(self, since: SourceVersion, until: SourceVersion) -> RowChanges | None:
        before, after = (_contents(each.get(PARTS) or {}) for each in (since, until))
        if not before or any(after.get(name) != digest for name, digest in before.items()):
            self.why = "files are gone, or were written again"
            return None
        added = sorted(after.keys() - before.keys())
        try:
            table = self._read([self._path / name for name in added])
        except (DataError, OSError, pa.ArrowInvalid, pa.ArrowTypeError):
            return None  # said, if it is wrong, when all rows are read
        self._check(until)
        return RowChanges(table, table.slice(0, 0))

    def _read(self, files: list[Path]) -> pa.Table:
        from pyarrow import dataset

        found = dataset.dataset(
            [str(file) for file in files],
            format="parquet",
            partitioning="hive",
            partition_base_dir=str(self._path),
        )
        endpoint = self._endpoint
        return conform(
            found.to_table(), self._relation, str(self._path), self._types,
            values=endpoint.values, taking=endpoint.taking,
        )  # fmt: skip

    def _check(self, version: SourceVersion) -> None:
        """Raise if the folder has changed while it was read."""
        if _contents(self.version(version)[PARTS]) != _contents(version[PARTS]):
            hint = "Let the writer finish, and refresh again; a writer that renames whole files into place avoids this."
            span = Span(str(self._path), 0, 0, 0, 0)
            raise DataError(Diagnostic("E662", f"`{self._path}` changed while it was read", span, hint=hint))


def _contents(parts: Mapping[str, Any]) -> dict[str, str]:
    """The digest of every file."""
    return {name: digest for name, (_, digest) in parts.items()}


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
