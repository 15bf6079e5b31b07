"""Files: a version is their content.

Nothing says what changed within a file. So a file whose content is new is read as a whole.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from sempre.analysis.model import Relation, Type
from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.directive_options import Endpoint
from sempre.files.locations import path_inside
from sempre.files.read import TextTable, existing, read_endpoint
from sempre.files.sources.source import RowChanges, SourceVersion

# A file that was written so shortly before it was looked at may be written again without a sign of it in its times.
UNSURE_NS = 2_000_000_000


class FileSource:
    """What one directive names in a folder."""

    def __init__(self, endpoint: Endpoint, relation: Relation, types: Mapping[str, Type], folder: Path) -> None:
        self.why = ""
        self._endpoint = endpoint
        self._relation = relation
        self._types = types
        self._folder = folder

    @property
    def place(self) -> str:
        return f"{path_inside(self._folder, self._endpoint.filename).absolute()} {self._endpoint}"

    @property
    def _path(self) -> Path:
        return existing(path_inside(self._folder, self._endpoint.filename), self._relation)

    def version(self, known: SourceVersion | None) -> SourceVersion:
        path = self._path
        try:
            seen = time.time_ns()
            signs = {str(file.relative_to(path)): signs_of(file) for file in files_of(path)}
            files = [[name, *each] for name, each in signs.items()]
            newest = max((each[-1] for each in signs.values()), default=0)
            if known is not None and known["files"] == files and newest < known["seen"] - UNSURE_NS:
                return known
            digest = hashlib.sha256()
            for file in files_of(path):
                digest.update(f"{file.relative_to(path)}\0".encode())
                with file.open("rb") as content:
                    digest.update(hashlib.file_digest(content, "sha256").digest())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise DataError(
                Diagnostic("E506", f"cannot read `{path}`: {reason}", Span(str(path), 0, 0, 0, 0))
            ) from None
        if known is not None and known["digest"] == digest.hexdigest():
            return known
        return {"digest": digest.hexdigest(), "files": files, "seen": seen}

    def rows(self, version: SourceVersion) -> pa.Table:
        texts = TextTable()
        table = read_endpoint(self._endpoint, self._relation, self._folder, self._types, texts=texts)
        if self.version(None)["digest"] != version["digest"]:
            hint = (
                "Let the writer finish, and refresh again; a writer that renames a whole file into place avoids this."
            )
            span = Span(str(self._path), 0, 0, 0, 0)
            raise DataError(Diagnostic("E662", f"`{self._path}` changed while it was read", span, hint=hint))
        name = self._relation.name
        return texts.joined({name: [table]}, {name: self._relation})[name]

    def changes(self, since: SourceVersion, until: SourceVersion) -> RowChanges | None:
        return None


def files_of(path: Path) -> list[Path]:
    """The files whose content counts, those of a folder as the reader of Parquet takes them."""
    if not path.is_dir():
        return [path]
    return sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
    )


def signs_of(file: Path) -> tuple[int, int, int, int]:
    """What changes when a file is written: its number, its size and its times; last the one that nobody can set."""
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
