"""Reads what the `.input` directives of a program name."""

from __future__ import annotations

import codecs
import difflib
import gzip
import io
import os
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from sempre.analysis.model import CheckedProgram, Relation, Type
from sempre.diagnostics import DataError, Diagnostic, Findings, ProgramError, SempreError, Span
from sempre.files.columns import concat
from sempre.files.directive_options import LAKE, Endpoint, TextFormat, check_directives, input_endpoint
from sempre.files.foreign import read_json, read_parquet
from sempre.files.locations import path_inside, reachable
from sempre.files.numbered import NumberedTexts
from sempre.files.text import GZIP_MAGIC, read_plain_file, read_text
from sempre.sizes import parse_size

# How much a gzip file may hold: so many times its size, or this much if that is more; the variable says otherwise.
MOST_RATIO = 100
SMALL_ENOUGH = 256 << 20
MOST_UNPACKED = "SEMPRE_MOST_UNPACKED"


def read_inputs(checked: CheckedProgram, facts_dir: str | Path) -> dict[str, pa.Table]:
    """One table per relation with an `.input`; raises once, with what is wrong in every file.

    File names are relative to `facts_dir`.
    """
    bad_options = [finding for finding in check_directives(checked, spark=False) if finding.severity == "error"]
    if bad_options:
        raise ProgramError(bad_options, checked.sources)
    findings = Findings()
    folder = reachable(facts_dir)
    stdin = Stdin()
    texts = TextTable()
    parts: dict[str, list[pa.Table]] = {relation.name: [] for relation in checked.relations.values() if relation.inputs}
    for name, found in parts.items():
        relation = checked.relations[name]
        for directive in relation.inputs:
            endpoint = input_endpoint(relation, directive)
            with findings.gathered(SempreError):
                found.append(read_endpoint(endpoint, relation, folder, checked.types, stdin, texts))
    findings.check()
    return texts.joined(parts, checked.relations)


class TextTable:
    """The texts of large files, in one dictionary: it is made when the first such file is read."""

    def __init__(self) -> None:
        self._texts: NumberedTexts | None = None
        self._asked = False

    def open(self) -> NumberedTexts | None:
        """None where there is nothing to number texts with."""
        if not self._asked:
            self._asked, self._texts = True, NumberedTexts.ready()
        return self._texts

    def joined(self, parts: Mapping[str, list[pa.Table]], relations: Mapping[str, Relation]) -> dict[str, pa.Table]:
        """The rows of all parts of each relation, once every file is read."""
        texts = self._texts
        if texts is not None and len(texts):
            # With those of small files all texts are in one dictionary.
            found = {name: [texts.numbered(part, relations[name]) for part in some] for name, some in parts.items()}
            parts = {name: [texts.closed(part, relations[name]) for part in some] for name, some in found.items()}
        return {name: concat(relations[name], some) for name, some in parts.items()}


class Stdin:
    """Standard input, which can be read for one relation only."""

    def __init__(self) -> None:
        self.reader = ""

    def read(self, relation: Relation) -> bytes:
        if self.reader:
            message = f"`{relation.name}` and `{self.reader}` are both read from standard input"
            raise DataError(Diagnostic("E506", message, hint="Give one of them a file."))
        self.reader = relation.name
        return sys.stdin.buffer.read()


def read_endpoint(
    endpoint: Endpoint,
    relation: Relation,
    folder: Path,
    types: Mapping[str, Type],
    stdin: Stdin | None = None,
    texts: TextTable | None = None,
) -> pa.Table:
    """The facts at one place. With a table of `texts`, columns of symbols may be dictionaries or codes of it, and the
    caller has it join what was read.
    """
    if endpoint.io == "stdin":
        data = (stdin or Stdin()).read(relation)
        return read_text(unpacked(data, "<stdin>"), relation, endpoint.text, "<stdin>", types)
    if endpoint.io in LAKE:
        from sempre.files.sources import source_of

        source = source_of(endpoint, relation, types, folder)
        return source.rows(source.version(None))
    path = path_inside(folder, endpoint.filename)
    if endpoint.io == "parquet":
        found = existing(path, relation)
        return read_parquet(
            found, relation, types, values=endpoint.values, taking=endpoint.taking, coded=texts is not None
        )
    if endpoint.io == "sqlite":
        from sempre.files.sqlite_tables import read_sqlite

        return read_sqlite(existing(path, relation), relation, endpoint, types)
    if texts is not None and endpoint.io != "json" and path.is_file():
        table = _read_plain_file(path, relation, endpoint.text, texts)
        if table is not None:
            return table
    data = read_bytes(path, relation)
    if endpoint.io == "json":
        return read_json(
            data, relation, str(path), types,
            layout=endpoint.layout, values=endpoint.values, taking=endpoint.taking,
        )  # fmt: skip
    return read_text(data, relation, endpoint.text, str(path), types)


def _read_plain_file(path: Path, relation: Relation, layout: TextFormat, texts: TextTable) -> pa.Table | None:
    try:
        return read_plain_file(path, relation, layout, texts.open)
    except OSError as error:
        raise _unreadable(str(path), error) from None


def read_bytes(path: Path, relation: Relation | None = None) -> bytes:
    """The whole file, decompressed if it is gzip."""
    path = existing(path, relation)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(str(path), error) from None
    return unpacked(data, str(path))


def unpacked(data: bytes, name: str) -> bytes:
    """The text of a file: decompressed if it is gzip, without a byte order mark."""
    try:
        text = _decompress(data, name) if data.startswith(GZIP_MAGIC) else data
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(name, error) from None
    return text.removeprefix(codecs.BOM_UTF8)


def _decompress(data: bytes, name: str) -> bytes:
    """What gzip holds, as long as that is in proportion: a small file may hold more than there is memory for."""
    most = parse_size(os.environ.get(MOST_UNPACKED)) or max(SMALL_ENOUGH, MOST_RATIO * len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        text = file.read(most + 1)
    if len(text) <= most:
        return text
    message = f"`{name}` unpacks to more than {most:,} bytes, from {len(data):,}"
    hint = f"If it is what you expect, allow more: {MOST_UNPACKED}=8G in the environment."
    raise DataError(Diagnostic("E520", message, Span(name, 0, 0, 0, 0), hint=hint))


def _unreadable(name: str, error: Exception) -> DataError:
    reason = getattr(error, "strerror", None) or str(error)
    return DataError(Diagnostic("E506", f"cannot read `{name}`: {reason.lower()}", Span(name, 0, 0, 0, 0)))


def missing_file(path: Path, relation: Relation | None = None) -> DataError:
    """The error for a file that is not there, naming those that are."""
    whose = f" for relation `{relation.name}`" if relation else ""
    return DataError(Diagnostic("E501", f"file `{path}`{whose} does not exist", hint=_similar(path)))


def existing(path: Path, relation: Relation | None) -> Path:
    """`path`, or the compressed file beside it; raises if neither is there."""
    packed = path.with_name(path.name + ".gz")
    if not path.exists() and packed.exists():
        return packed
    if not path.exists():
        raise missing_file(path, relation)
    return path


def _similar(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder `{folder}`."
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
    if near:
        return f"`{folder}` has {', '.join(f'`{name}`' for name in near)}."
    if not names:
        return f"`{folder}` is empty."
    shown = ", ".join(f"`{name}`" for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"`{folder}` has {shown}{more}."
