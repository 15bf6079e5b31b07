"""What the state of an epoch consists of: as data, and as the text of a manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from typing import Any

from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, StateError
from sempre.storage.disk import checksum

# The formats that can be read. New manifests are of the last one; a vacuum leaves those of earlier ones what they are.
FORMATS = (1, 2, 3, 4)
FORMAT = 1
MAGIC = "sempre epoch"


def damaged(path: object, what: str) -> StateError:
    """The error for a file that is not what it should be."""
    hint = "Restore the file from a backup, or make the store again from its source with `sempre init`."
    return StateError(Diagnostic("E602", f"`{path}` is damaged: {what}", hint=hint))


def unreadable(path: object, error: OSError) -> StateError:
    """The error for a file that may be what it should be, and cannot be read."""
    reason = (error.strerror or str(error)).lower()
    hint = "Repair what is wrong there, and open the store again."
    return StateError(Diagnostic("E606", f"cannot read `{path}`: {reason}", hint=hint))


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file, and what it must be; `holds` has the number of rows of every set in it."""

    path: str
    bytes: int
    checksum: str
    holds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Piece:
    """The net change of the epochs `first` to `last`."""

    first: int
    last: int
    files: tuple[StoredFile, ...]

    @property
    def rows(self) -> int:
        return sum(rows for file in self.files for rows in file.holds.values())


@dataclass(frozen=True, slots=True)
class StoredTable:
    """Rows in a folder of Parquet files, as plain values."""

    rows: int
    files: tuple[StoredFile, ...]


@dataclass(frozen=True, slots=True)
class StoredParts:
    """A set as the rows of some tables, each without those of others, and how many those are.

    Tables go by their folders.
    """

    rows: int
    tables: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state of one epoch. See `docs/format.md` for the meaning of each field."""

    epoch: int
    written: str
    kind: str
    generation: int
    program: StoredFile
    fields: Mapping[str, tuple[tuple[int, int], ...]]
    sizes: Mapping[str, int]
    lists: Mapping[str, int]
    batches: Mapping[str, int]
    memories: Mapping[str, Any]
    pieces: tuple[Piece, ...]
    report: Mapping[str, Any]
    tables: Mapping[str, StoredTable] = field(default_factory=dict)
    parts: Mapping[str, StoredParts] = field(default_factory=dict)
    digest: str | None = None
    deferred: tuple[str, ...] = ()
    sources: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> Iterable[StoredFile]:
        """Every file that the epoch needs."""
        yield from self.piece_files
        for table in self.tables.values():
            yield from table.files

    @property
    def piece_files(self) -> Iterable[StoredFile]:
        """The program, and the files of pieces."""
        yield self.program
        for piece in self.pieces:
            yield from piece.files

    @property
    def format(self) -> int:
        if self.sources:
            return 4
        if self.digest is not None:
            return 3
        return 2 if self.parts else 1

    @property
    def bytes(self) -> int:
        """The size of all files that the epoch needs."""
        return sum(file.bytes for file in self.files)

    @property
    def line(self) -> str:
        """The epoch in one line."""
        added, removed = (sum(self.report[side].values()) for side in ("added", "removed"))
        return (
            f"{self.epoch}\t{self.written}\t{self.kind}\tfacts={sum(self.sizes.values())}\tadded={added}"
            f"\tremoved={removed}\tseconds={self.report['seconds']:.3f}\tbytes={self.bytes}"
            f"\tstrategy={self.report['strategy']}"
        )


def to_bytes(manifest: Manifest) -> bytes:
    """The manifest as its file has it."""
    raw = asdict(manifest)
    for number, names in ((2, ("tables", "parts")), (3, ("digest", "deferred")), (4, ("sources",))):
        if manifest.format < number:
            for name in names:
                del raw[name]
    body = json.dumps(raw, separators=(",", ":"), ensure_ascii=True).encode("ascii") + b"\n"
    return f"{MAGIC} {manifest.format} {checksum(body)}\n".encode("ascii") + body


def from_bytes(data: bytes, path: object) -> Manifest:
    """The manifest in a file; raises `StateError` naming it when it is damaged or of another format."""
    first, _, body = data.partition(b"\n")
    words = first.decode("ascii", "replace").split(" ")
    if len(words) != 4 or " ".join(words[:2]) != MAGIC:
        raise damaged(path, "its first line is not that of a manifest")
    if words[3] != checksum(body):
        raise damaged(path, "its checksum does not match")
    if words[2] not in map(str, FORMATS):
        raise unknown_format(path, words[2], FORMATS)
    raw = json.loads(body)
    pieces = tuple(Piece(p["first"], p["last"], tuple(StoredFile(**f) for f in p["files"])) for p in raw["pieces"])
    fields = {name: tuple((lo, bits) for lo, bits in row) for name, row in raw["fields"].items()}
    tables = {
        name: StoredTable(table["rows"], tuple(StoredFile(**f) for f in table["files"]))
        for name, table in raw.get("tables", {}).items()
    }
    parts = {
        name: StoredParts(p["rows"], tuple((table, tuple(gone)) for table, gone in p["tables"]))
        for name, p in raw.get("parts", {}).items()
    }
    read = {"program": StoredFile(**raw["program"]), "pieces": pieces, "fields": fields}
    return Manifest(**{**raw, **read, "tables": tables, "parts": parts, "deferred": tuple(raw.get("deferred", ()))})


def unknown_format(path: object, found: str, known: tuple[int, ...] = (FORMAT,)) -> StateError:
    return StateError(
        Diagnostic(
            "E605",
            f"`{path}` has format {found}, and this version of sempre reads format {' or '.join(map(str, known))}",
            hint="Use the version of sempre that wrote it, or a later one.",
        )
    )
