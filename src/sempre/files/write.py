"""Writes what the `.output` and `.printsize` directives of a program ask for: all files, or none."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import field, replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol

import pyarrow as pa

from sempre.analysis.model import CheckedProgram, Relation, Type
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.directive_options import Endpoint, TextFormat, output_endpoint
from sempre.files.encode import Rows, row_count, write_json, write_parquet, write_text
from sempre.files.locations import path_inside, reachable
from sempre.unsplit import unsplit

STREAMS = {"/dev/stdout": 1, "/dev/fd/1": 1, "/dev/stderr": 2, "/dev/fd/2": 2}
RULE = b"===============\n"


class Changes(Protocol):
    """What writing a set of changes needs of it."""

    @property
    def added(self) -> Mapping[str, pa.Table]: ...

    @property
    def removed(self) -> Mapping[str, pa.Table]: ...


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files that were replaced, and what the user should know about them."""

    files: tuple[Path, ...]
    warnings: tuple[Diagnostic, ...]


def write_outputs(
    checked: CheckedProgram,
    get_table: Callable[[str], Rows],
    out_dir: str | Path,
    *,
    count: Callable[[str], int] | None = None,
    stdout: BinaryIO | None = None,
    elsewhere: Callable[[Endpoint], bool] = lambda _: False,
) -> WrittenFiles:
    """Write every output; with `out_dir` "-", print them instead.

    `get_table` gives a table or a stream of batches; `count` the number of facts for `.printsize`, where that is
    cheaper. Files are complete under temporary names before the first is renamed into place, so a failure leaves the
    folder as it was. Sizes and tables for standard output come after that. What is written `elsewhere` is left out.
    """
    to_stdout = str(out_dir) == "-"
    printed: list[tuple[Relation, Endpoint]] = []
    with Staging() as staging:
        for relation in checked.relations.values():
            for directive in relation.outputs:
                endpoint = output_endpoint(relation, directive)
                if elsewhere(endpoint):
                    continue
                if to_stdout or endpoint.io.startswith("stdout"):
                    printed.append((relation, endpoint))
                else:
                    path = path_inside(out_dir, endpoint.filename)
                    staging.write(path, relation, get_table(relation.name), endpoint, checked.types)
        written = staging.commit()
    sink = stdout or sys.stdout.buffer
    for relation, endpoint in printed:
        if endpoint.io == "stdoutprintsize":
            _print_size(sink, relation, get_table, count)
        elif endpoint.io == "stdoutjson" and not to_stdout:
            write_json(get_table(relation.name), sink, relation, checked.types, layout=endpoint.layout)
        else:
            # As in Soufflé, `-D -` names the columns; `IO=stdout` does where headers are asked for.
            layout = replace(endpoint.text, headers=True) if to_stdout else endpoint.text
            _print_table(sink, relation, layout, get_table(relation.name))
    for relation in checked.relations.values():
        if relation.printsize:
            _print_size(sink, relation, get_table, count)
    sink.flush()
    return written


def write_changes(checked: CheckedProgram, changes: Changes, folder: str | Path) -> WrittenFiles:
    """Write `R.added.csv` and `R.removed.csv` for every relation with an `.output` (for all, if none has one)."""
    relations = [relation for relation in checked.relations.values() if relation.outputs]
    folder = reachable(folder)
    with Staging() as staging:
        for relation in relations or list(checked.relations.values()):
            for word, tables in (("added", changes.added), ("removed", changes.removed)):
                path = folder / f"{relation.name}.{word}.csv"
                staging.write(path, relation, tables[relation.name], Endpoint("file", path.name), checked.types)
        return staging.commit()


def _print_table(sink: BinaryIO, relation: Relation, layout: TextFormat, rows: Rows) -> None:
    sink.write(b"---------------\n" + relation.name.encode() + b"\n")
    if layout.headers and relation.columns:
        sink.write(layout.delimiter.join(relation.columns).encode() + b"\n")
    sink.write(RULE)
    write_text(rows, sink, relation, TextFormat(layout.delimiter, layout.rfc4180))
    sink.write(RULE)


def _print_size(
    sink: BinaryIO, relation: Relation, get_table: Callable[[str], Rows], count: Callable[[str], int] | None
) -> None:
    if count is not None:
        size = count(relation.name)
    else:
        size = row_count(get_table(relation.name))
    sink.write(f"{relation.name}\t{size}\n".encode())


@dataclass(slots=True)
class Staging:
    """Files under temporary names beside their targets; `commit` renames them all, leaving without it removes them."""

    pending: dict[Path, Path] = field(default_factory=dict)
    warnings: list[Diagnostic] = field(default_factory=list)

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for temporary in self.pending.values():
            temporary.unlink(missing_ok=True)

    def write(self, path: Path, relation: Relation, rows: Rows, endpoint: Endpoint, types: Mapping[str, Type]) -> None:
        """Write one file under its temporary name."""
        try:
            # What a pipe's name leads to is no path.
            target = path if is_device(path) else path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            broken = self._write_file(target, relation, rows, endpoint, types)
        except OSError as error:
            raise _cannot_write(path, error) from None
        if broken:
            message = f"{broken:,} values of `{relation.name}` contain the delimiter or a line break"
            hint = "Quote such values with rfc4180=true, or the file cannot be read back as it is."
            span = Span(str(path), 0, 0, 0, 0)
            self.warnings.append(Diagnostic("W501", message, span, hint=hint, severity="warning"))

    def _write_file(
        self, target: Path, relation: Relation, rows: Rows, endpoint: Endpoint, types: Mapping[str, Type]
    ) -> int:
        if endpoint.io == "sqlite":
            from sempre.files.sqlite_tables import write_sqlite

            temporary = self.pending.setdefault(target, target.with_name(f".{target.name}.{os.getpid()}.tmp"))
            write_sqlite(target, temporary, rows, relation, endpoint)
            return 0
        with ExitStack() as stack:
            if is_device(target):
                sink: BinaryIO = stack.enter_context(open_device(target))
            else:
                temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
                self.pending[target] = temporary
                sink = stack.enter_context(temporary.open("wb"))
            if endpoint.compress:
                packed = gzip.GzipFile(filename="", mode="wb", fileobj=sink, compresslevel=6, mtime=0)
                sink = stack.enter_context(packed)  # type: ignore[assignment]  # a GzipFile is written like any file
            return _encode(rows, sink, relation, endpoint, types)

    def commit(self) -> WrittenFiles:
        """Rename every file into place."""
        files = tuple(self.pending)
        unsplit(self._rename)  # an interrupt comes before all of it, or after
        return WrittenFiles(files, tuple(self.warnings))

    def _rename(self) -> None:
        for target, temporary in list(self.pending.items()):
            try:
                temporary.replace(target)
            except OSError as error:
                raise _cannot_write(target, error) from None
            del self.pending[target]


def is_device(path: Path) -> bool:
    """Whether a path is one of a device or a pipe, which is written to and never replaced."""
    return str(path) in STREAMS or (path.exists() and not path.is_file())


def open_device(path: Path) -> BinaryIO:
    """A device or a pipe. The streams of this process go on where they are, also where they are files."""
    stream = STREAMS.get(str(path))
    if stream is None:
        return path.open("wb")
    for each in (sys.stdout, sys.stderr):
        each.flush()
    return os.fdopen(os.dup(stream), "wb")


def _encode(rows: Rows, sink: BinaryIO, relation: Relation, endpoint: Endpoint, types: Mapping[str, Type]) -> int:
    if endpoint.io == "parquet":
        write_parquet(rows, sink, relation)
        return 0
    if endpoint.io == "json":
        write_json(rows, sink, relation, types, layout=endpoint.layout)
        return 0
    return write_text(rows, sink, relation, endpoint.text)


def _cannot_write(path: Path, error: OSError) -> DataError:
    reason = (error.strerror or str(error)).lower()
    return DataError(Diagnostic("E512", f"cannot write `{path}`: {reason}", hint="Choose another folder with -D."))
