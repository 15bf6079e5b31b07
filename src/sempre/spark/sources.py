"""Reads what the `.input` directives of a program name, through Spark's readers."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sempre.analysis.model import CheckedProgram, Kind, Relation
from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.columns import concat
from sempre.files.foreign import read_json
from sempre.files.options import Endpoint, input_endpoint
from sempre.files.read import Stdin, missing_file, read_endpoint
from sempre.files.text import read_text
from sempre.spark.failures import reading
from sempre.spark.frames import UNSIGNED, Crossing, from_frame
from sempre.spark.lines import read_delimited, read_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Each source is a job of its own, and a small job is mostly waiting.
AT_ONCE = 4
JSON_TYPES = {Kind.NUMBER: "bigint", Kind.UNSIGNED: UNSIGNED, Kind.FLOAT: "double", Kind.SYMBOL: "string"}

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_GLOB = re.compile(r"[*?\[\]{}\\]")


@dataclass(frozen=True, slots=True)
class Inputs:
    """The facts of a program by relation, and a note on each source for the report."""

    tables: dict[str, pa.Table]
    notes: dict[str, list[dict[str, Any]]]


@dataclass(slots=True)
class _Reader:
    """Reads the sources of one program."""

    spark: SparkSession
    checked: CheckedProgram
    folder: str
    stdin: Stdin = field(default_factory=Stdin)

    def read(self, relation: Relation, endpoint: Endpoint) -> tuple[pa.Table, dict[str, Any]]:
        """The facts at one place, and the note on it."""
        if endpoint.io == "stdin":
            table = read_endpoint(endpoint, relation, Path(), self.checked.types, self.stdin)
            return table, {"source": "standard input", "rows": table.num_rows}
        if endpoint.io in ("spark", "jdbc"):
            return self._table(relation, endpoint)
        path, shown = located(self.folder, endpoint.filename)
        with reading(f"`{shown}`", Span(shown, 0, 0, 0, 0), _missing(shown, relation)):
            if endpoint.io == "parquet":
                return self._frame(relation, endpoint, self.spark.read.parquet(path), f"`{shown}`", shown)
            table = self._text(relation, endpoint, path, shown)
        return table, {"source": shown, "rows": table.num_rows}

    def _table(self, relation: Relation, endpoint: Endpoint) -> tuple[pa.Table, dict[str, Any]]:
        options = dict(endpoint.jdbc)
        what = "the query" if "query" in options else f"table `{endpoint.table}`"
        with reading(what, Span(endpoint.table, 0, 0, 0, 0)):
            if endpoint.io == "spark":
                df = self.spark.table(endpoint.table)
            else:
                options |= {} if "query" in options else {"dbtable": endpoint.table}
                df = self.spark.read.format("jdbc").options(**options).load()
        return self._frame(relation, endpoint, df, what, endpoint.table)

    def _frame(
        self, relation: Relation, endpoint: Endpoint, df: DataFrame, what: str, shown: str
    ) -> tuple[pa.Table, dict[str, Any]]:
        span = Span(shown, 0, 0, 0, 0)
        crossing = from_frame(df, relation, drop_nulls=endpoint.drop_nulls, origin=what, span=span)
        return crossing.table, {"source": shown, **note_of(crossing)}

    def _text(self, relation: Relation, endpoint: Endpoint, path: str, shown: str) -> pa.Table:
        types = self.checked.types

        def parse(data: bytes, name: str) -> pa.Table:
            if endpoint.io == "json":
                return read_json(data, relation, name, types, layout=endpoint.layout, drop=endpoint.drop_nulls)
            return read_text(data, relation, endpoint.text, name, types)

        if _is_hidden(path):
            # Spark passes over files whose names begin with a dot or an underscore, without a word.
            return read_endpoint(endpoint, relation, Path(self.folder), types)
        if endpoint.io == "json":
            return self._json(relation, endpoint, path, shown, parse)
        return read_delimited(self.spark, path, shown, relation, endpoint.text, parse)

    def _json(
        self, relation: Relation, endpoint: Endpoint, path: str, shown: str, parse: Callable[[bytes, str], pa.Table]
    ) -> pa.Table:
        """JSON lines by Spark's reader if every value is of the declared type, else by ours, which says what is not."""
        if endpoint.layout == "lines" and relation.arity and Kind.RECORD not in relation.kinds:
            columns = zip(relation.columns, relation.kinds, strict=True)
            schema = ", ".join(f"`{name}` {JSON_TYPES[kind]}" for name, kind in columns)
            span = Span(shown, 0, 0, 0, 0)
            df = self.spark.read.schema(schema).json(path)
            try:
                return from_frame(df, relation, origin=f"`{shown}`", span=span).table
            except DataError as error:
                if {finding.code for finding in error.diagnostics} != {"E508"}:
                    raise
        return read_whole(self.spark, path, shown, relation, parse)


def read_inputs(spark: SparkSession, checked: CheckedProgram, folder: str) -> Inputs:
    """One table per relation with an `.input`; raises once, with what is wrong in every source.

    File names are relative to `folder`; they may be folders, globs and URLs.
    """
    reader = _Reader(spark, checked, folder)
    work = [
        (relation, input_endpoint(relation, directive))
        for relation in checked.relations.values()
        for directive in relation.inputs
    ]
    found: list[Diagnostic] = []
    sources: dict[str, str] = {}
    parts: dict[str, list[pa.Table]] = {relation.name: [] for relation, _ in work}
    notes: dict[str, list[dict[str, Any]]] = {relation.name: [] for relation, _ in work}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="source") as pool:
        futures = [(relation.name, pool.submit(reader.read, relation, endpoint)) for relation, endpoint in work]
        for name, future in futures:
            try:
                table, note = future.result()
            except DataError as error:
                found += error.diagnostics
                sources |= error.sources
                continue
            parts[name].append(table)
            notes[name].append(note)
    if found:
        raise DataError(found, sources)
    tables = {name: concat(checked.relations[name], tables) for name, tables in parts.items()}
    return Inputs(tables, notes)


def note_of(crossing: Crossing) -> dict[str, Any]:
    """What the report says of a frame."""
    how = "by name" if crossing.by_name else "by position"
    note: dict[str, Any] = {"rows": crossing.table.num_rows, "columns": how}
    if not crossing.by_name:
        note["source_columns"] = list(crossing.source_columns)
    return note


def is_url(path: str) -> bool:
    """Whether a file or folder is somewhere that only Spark can reach."""
    return _SCHEME.match(path) is not None


def located(folder: str, filename: str) -> tuple[str, str]:
    """Where Spark finds a file, and its name in messages.

    Special characters are taken as they are if such a file is here, and else as a glob. A file that is not here may be
    where Spark is.
    """
    if is_url(filename) or is_url(folder):
        path = filename if is_url(filename) else f"{folder.rstrip('/')}/{filename}"
        return path, path
    shown = Path(folder) / filename
    for candidate in (shown, shown.with_name(shown.name + ".gz")):
        if candidate.exists():
            return _literal(str(candidate.absolute())), str(candidate)
    if Path(filename).is_absolute():
        return filename, filename
    return f"{_literal(str(Path(folder).absolute()))}/{filename}", str(shown)


def _missing(shown: str, relation: Relation) -> Callable[[], DataError] | None:
    """The error for a file that Spark does not find, naming its neighbors if the folder is here."""
    return None if is_url(shown) else lambda: missing_file(Path(shown), relation)


def _literal(path: str) -> str:
    return _GLOB.sub(lambda match: "\\" + match[0], path)


def _is_hidden(path: str) -> bool:
    return not is_url(path) and Path(path).name.startswith(("_", ".")) and Path(path).is_file()
