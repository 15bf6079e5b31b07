"""Reads what the `.input` directives of a program name, through Spark's readers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sempre.analysis.model import CheckedProgram, Kind, Relation
from sempre.data import dataclass
from sempre.diagnostics import DataError, Findings, Span
from sempre.files.change_scripts import Epoch, change_files
from sempre.files.columns import concat
from sempre.files.directive_options import LAKE, Endpoint, input_endpoint
from sempre.files.foreign import read_json
from sempre.files.locations import is_url
from sempre.files.read import Stdin, missing_file, read_endpoint
from sempre.files.text import read_text
from sempre.ingest import Parts
from sempre.plan.backend import CLUSTER, sealed
from sempre.spark.failures import reading
from sempre.spark.frames import UNSIGNED, WantedColumns, chosen_columns, finished, from_frame, without_nulls
from sempre.spark.jdbc import with_driver
from sempre.spark.jobs import Jobs
from sempre.spark.lines import cells_of, read_delimited, read_whole
from sempre.spark.odd_lines import TextSource
from sempre.spark.residency import ArrivingFrame, Residency, values_in_parquet, values_in_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JSON_TYPES = {Kind.NUMBER: "bigint", Kind.UNSIGNED: UNSIGNED, Kind.FLOAT: "double", Kind.SYMBOL: "string"}

_GLOB = re.compile(r"[*?\[\]{}\\]")


@dataclass(frozen=True, slots=True)
class Inputs:
    """The facts of a program by relation, and a note on each source for the report."""

    tables: dict[str, pa.Table | Parts]
    notes: dict[str, list[dict[str, Any]]]


@dataclass(slots=True)
class SourceReader:
    """Reads the sources of one program; with `staying`, leaves on the cluster what should stay there."""

    spark: SparkSession
    checked: CheckedProgram
    folder: str
    staying: Residency | None = None
    stdin: Stdin = field(default_factory=Stdin)

    def read(self, relation: Relation, endpoint: Endpoint) -> tuple[Parts, dict[str, Any]]:
        """The facts at one place, and the note on it."""
        if endpoint.io == "stdin" or endpoint.io in LAKE:
            folder = Path() if is_url(self.folder) else Path(self.folder)
            table = read_endpoint(endpoint, relation, folder, self.checked.types, self.stdin)
            shown = "standard input" if endpoint.io == "stdin" else endpoint.table
            return Parts(table), {"source": shown, "rows": table.num_rows}
        if endpoint.io == "sqlite":
            table = read_endpoint(endpoint, relation, Path(self.folder), self.checked.types)
            return Parts(table), {"source": endpoint.filename, "rows": table.num_rows}
        if endpoint.io in ("spark", "jdbc"):
            return self._table(relation, endpoint)
        path, shown = located(self.folder, endpoint.filename)
        with reading(f"`{shown}`", Span(shown, 0, 0, 0, 0), _missing(shown, relation)):
            if endpoint.io == "parquet":
                df = self.spark.read.parquet(path)
                return self._frame(relation, endpoint, df, f"`{shown}`", shown)
            return self._text(relation, endpoint, path, shown)

    def _table(self, relation: Relation, endpoint: Endpoint) -> tuple[Parts, dict[str, Any]]:
        options = dict(endpoint.jdbc)
        what = "the query" if "query" in options else f"table `{endpoint.table}`"
        with reading(what, Span(endpoint.table, 0, 0, 0, 0)):
            df = without_followed(table_frame(self.spark, endpoint), relation, endpoint)
        return self._frame(relation, endpoint, df, what, endpoint.table)

    def _frame(
        self, relation: Relation, endpoint: Endpoint, df: DataFrame, what: str, shown: str
    ) -> tuple[Parts, dict[str, Any]]:
        span = Span(shown, 0, 0, 0, 0)
        wanted = WantedColumns(relation, self.checked.types, endpoint.taking, what, span, endpoint.values)
        if self.staying is not None and relation.arity and not endpoint.values.scales:
            chosen, names, found = chosen_columns(df, wanted)
            chosen = without_nulls(chosen) if endpoint.values.drop_nulls else chosen
            stayed = self._stayed(
                ArrivingFrame(relation, chosen, what, span, partial(_values, endpoint, shown, relation))
            )
            if stayed is not None:
                parts = replace(stayed[0], by_position=not found.by_name)
                return parts, {"source": shown, **stayed[1], **note_of(names, found.by_name)}
        crossing = from_frame(df, wanted)
        note = note_of(crossing.source_columns, crossing.by_name)
        return Parts(crossing.table), {"source": shown, "rows": crossing.table.num_rows, **note}

    def _stayed(self, arriving: ArrivingFrame) -> tuple[Parts, dict[str, Any]] | None:
        """What stays on the cluster, if it does, and what the report says of that."""
        taken = None if self.staying is None else self.staying.take(arriving)
        return None if taken is None else (Parts(on_cluster=taken[0]), {"rows": taken[1], "place": CLUSTER})

    def _text(self, relation: Relation, endpoint: Endpoint, path: str, shown: str) -> tuple[Parts, dict[str, Any]]:
        types = self.checked.types

        def parse(data: bytes, name: str) -> pa.Table:
            if endpoint.io == "json":
                return read_json(
                    data, relation, name, types,
                    layout=endpoint.layout, values=endpoint.values, taking=endpoint.taking,
                )  # fmt: skip
            return read_text(data, relation, endpoint.text, name, types)

        if _is_hidden(path):
            # Spark passes over files whose names begin with a dot or an underscore, without a word.
            table = read_endpoint(endpoint, relation, Path(self.folder), types)
            return Parts(table), {"source": shown, "rows": table.num_rows}
        is_json = endpoint.io == "json"
        df = self._objects(relation, endpoint, path) if is_json else cells_of(self.spark, path, relation, endpoint.text)
        if df is not None:
            text = None if is_json else TextSource(self.spark, path, shown, relation, endpoint.text, types)
            stayed = self._lines_that_stay(relation, df, shown, text)
            if stayed is not None:
                return stayed[0], {"source": shown, **stayed[1]}
        if is_json:
            table = self._json(relation, df, path, shown, parse)
        else:
            table = read_delimited(self.spark, path, shown, relation, df, parse)
        return Parts(table), {"source": shown, "rows": table.num_rows}

    def _lines_that_stay(
        self, relation: Relation, df: DataFrame, shown: str, text: TextSource | None
    ) -> tuple[Parts, dict[str, Any]] | None:
        """The facts of lines that stay on the cluster; of `text`, those that take a closer look come here."""
        arriving = ArrivingFrame(relation, df, f"`{shown}`", Span(shown, 0, 0, 0, 0), partial(values_in_text, shown))
        try:
            return self._stayed(arriving)
        except DataError as error:
            if {finding.code for finding in error.diagnostics} != {"E508"}:
                raise
        if text is None:
            return None
        regular_df, odd = text.read()
        stayed = self._stayed(replace(arriving, chosen=regular_df, most=lambda: None))
        if stayed is None:
            return None
        return Parts(odd, stayed[0].on_cluster), {**stayed[1], "rows": stayed[1]["rows"] + odd.num_rows}

    def _objects(self, relation: Relation, endpoint: Endpoint, path: str) -> DataFrame | None:
        """The columns of JSON lines, with nulls where a value is not as it should be; lazy."""
        if endpoint.layout != "lines" or not relation.arity or Kind.RECORD in relation.kinds:
            return None
        from pyspark.sql import functions as fn

        columns = list(enumerate(zip(relation.columns, relation.kinds, strict=True)))
        schema = ", ".join(f"`{name}` {JSON_TYPES[kind]}" for _, (name, kind) in columns)
        lines = self.spark.read.text(path, lineSep="\n").filter(fn.trim("value") != "")
        row = fn.from_json("value", schema)
        if not endpoint.taking.extra:  # a reader with a schema passes over all other keys without a word
            row = fn.when(fn.size(fn.json_object_keys("value")) == relation.arity, row)
        return lines.select(row.alias("row")).select(
            *(fn.col("row").getField(name).alias(f"c{at}") for at, (name, _) in columns)
        )

    def _json(
        self, relation: Relation, df: DataFrame | None, path: str, shown: str, parse: Callable[[bytes, str], pa.Table]
    ) -> pa.Table:
        """JSON lines by Spark's reader if every value is of the declared type, else by ours, which says what is not."""
        if df is not None:
            try:
                return finished(df.toArrow(), relation, Span(shown, 0, 0, 0, 0))
            except DataError as error:
                if {finding.code for finding in error.diagnostics} != {"E508"}:
                    raise
        return read_whole(self.spark, path, shown, relation, parse)


def table_frame(spark: SparkSession, endpoint: Endpoint) -> DataFrame:
    """A table of the session or of a database, or a query to it."""
    options = dict(endpoint.jdbc)
    if endpoint.io == "spark":
        return spark.sql(options["query"]) if options else spark.table(endpoint.table)
    options |= {} if "query" in options else {"dbtable": endpoint.table}
    return spark.read.format("jdbc").options(**with_driver(options)).load()


def without_followed(df: DataFrame, relation: Relation, endpoint: Endpoint) -> DataFrame:
    """Without the column that says what is new, where the relation lacks it, and columns do not go by places."""
    own = set(map(str.lower, relation.columns))
    if not endpoint.follow or endpoint.follow.lower() in own or endpoint.taking.places is not None:
        return df
    return df.drop(*(name for name in df.columns if name.lower() == endpoint.follow.lower()))


def read_inputs(spark: SparkSession, checked: CheckedProgram, folder: str, staying: Residency | None = None) -> Inputs:
    """What every relation with an `.input` has there; raises once, with what is wrong in every source.

    File names are relative to `folder`; they may be folders, globs and URLs. Without `staying`, all is tables.
    """
    reader = SourceReader(spark, checked, folder, staying)
    work = [
        (relation, input_endpoint(relation, directive))
        for relation in checked.relations.values()
        for directive in relation.inputs
    ]
    found = read_all(reader, work)
    tables: dict[str, pa.Table | Parts] = {}
    notes: dict[str, list[dict[str, Any]]] = {}
    for name in dict.fromkeys(relation.name for relation, _ in work):
        mine = [source for (relation, _), source in zip(work, found, strict=True) if relation.name == name]
        tables[name] = joined_parts(checked.relations[name], [parts for parts, _ in mine], staying)
        notes[name] = [note for _, note in mine]
    return Inputs(tables, notes)


def read_all(reader: SourceReader, work: Sequence[tuple[Relation, Endpoint]]) -> list[tuple[Parts, dict[str, Any]]]:
    """What is at all of these places, read several at a time; raises once, with what is wrong at any."""

    def read(relation: Relation, endpoint: Endpoint) -> tuple[Parts, dict[str, Any]] | DataError:
        try:
            return reader.read(relation, endpoint)
        except DataError as error:
            return error

    jobs = Jobs(reader.spark) if reader.staying is None else reader.staying.jobs
    try:
        told = [f"reading {relation.name}" for relation, _ in work]
        outcomes = jobs.run([partial(read, *each) for each in work], told)
    finally:
        if reader.staying is None:
            jobs.close()
    findings = Findings()
    for outcome in outcomes:
        if isinstance(outcome, DataError):
            findings.add(outcome)
    findings.check()
    return [outcome for outcome in outcomes if not isinstance(outcome, DataError)]


def read_change_folder(
    spark: SparkSession, checked: CheckedProgram, folder: Path, staying: Residency | None = None
) -> Epoch:
    """The epoch of a change folder, read by Spark; raises once, with what is wrong in every file."""
    files, found = change_files(checked, folder)
    findings = Findings(found)
    parts: list[tuple[Parts, dict[str, Any]]] = []
    with findings.gathered():
        reader = SourceReader(spark, checked, str(folder), staying)
        parts = read_all(reader, [(file.relation, file.endpoint) for file in files])
    findings.check()
    sides: dict[str, dict[str, list[Parts]]] = {"insert": {}, "delete": {}}
    for file, (part, _) in zip(files, parts, strict=True):
        sides[file.word].setdefault(file.relation.name, []).append(part)
    insert, delete = (
        {name: joined_parts(checked.relations[name], mine, staying) for name, mine in sides[word].items()}
        for word in ("insert", "delete")
    )
    return Epoch(insert, delete, str(folder))


def joined_parts(relation: Relation, parts: Sequence[Parts], staying: Residency | None) -> pa.Table | Parts:
    """The parts of a relation as one."""
    here = [part.in_driver for part in parts if part.in_driver is not None]
    there = [part.on_cluster for part in parts if part.on_cluster is not None]
    if not there or staying is None:
        return concat(relation, here)
    by_position = any(part.by_position for part in parts)
    return Parts(concat(relation, here) if here else None, sealed(staying.cluster).union(there), by_position)


def note_of(names: tuple[str, ...], by_name: bool) -> dict[str, Any]:
    """What the report says of how columns were found."""
    return {"columns": "by name"} if by_name else {"columns": "by position", "source_columns": list(names)}


def _values(endpoint: Endpoint, shown: str, relation: Relation) -> int | None:
    return values_in_parquet(shown, relation.arity) if endpoint.io == "parquet" else None


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
