"""Change scripts and change folders, as epochs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sempre.analysis.model import CheckedProgram, Kind, Relation, Type
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic, Findings, SempreError, Span
from sempre.files.columns import RANGES, concat, table_of, unit_table
from sempre.files.directive_options import Endpoint
from sempre.files.read import missing_file, read_bytes, read_endpoint
from sempre.files.records import Value, format_record
from sempre.lang import syntax

_CHANGE_FILE = re.compile(r"(?P<relation>.+)\.(?P<word>insert|delete)\.(?P<kind>facts|csv|parquet)(?:\.gz)?")


@dataclass(frozen=True, slots=True)
class Epoch:
    """One batch of changes; no fact is in both `insert` and `delete` when it came from a script."""

    insert: dict[str, Any]
    delete: dict[str, Any]
    origin: str = ""


def read_changes(checked: CheckedProgram, path: str | Path) -> Iterator[Epoch]:
    """The epochs of a change script, or the one epoch of a change folder.

    Everything is read and checked before the first epoch is given, so that a mistake applies nothing.
    """
    path = Path(path)
    if path.is_dir():
        return iter([_read_folder(checked, path)])
    return iter(_read_script(checked, path))


# ------------------------------------------------------------------------------------------------- folders


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A file of a change folder: `word` is insert or delete."""

    word: str
    relation: Relation
    endpoint: Endpoint


def change_files(checked: CheckedProgram, folder: Path) -> tuple[list[ChangeFile], list[Diagnostic]]:
    """The files of a change folder, and what is wrong with their names."""
    files: list[ChangeFile] = []
    found: list[Diagnostic] = []
    for path in sorted(entry for entry in folder.iterdir() if _is_data(entry) and not entry.name.startswith(".")):
        try:
            files.append(_change_file(checked, path))
        except SempreError as error:
            found += error.diagnostics
    return files, found


def _read_folder(checked: CheckedProgram, folder: Path) -> Epoch:
    files, found = change_files(checked, folder)
    parts: dict[str, dict[str, list[pa.Table]]] = {"insert": {}, "delete": {}}
    findings = Findings(found)
    for file in files:
        with findings.gathered(SempreError):
            table = read_endpoint(file.endpoint, file.relation, folder, checked.types)
            parts[file.word].setdefault(file.relation.name, []).append(table)
    findings.check()
    insert, delete = (
        {name: concat(checked.relations[name], tables) for name, tables in parts[word].items()}
        for word in ("insert", "delete")
    )
    return Epoch(insert, delete, str(folder))


def _is_data(entry: Path) -> bool:
    """Files; and folders of Parquet, as Spark writes them."""
    return entry.is_file() or entry.suffix == ".parquet"


def _change_file(checked: CheckedProgram, path: Path) -> ChangeFile:
    match = _CHANGE_FILE.fullmatch(path.name)
    if match is None:
        hint = "Call it R.insert.facts or R.delete.facts (or .csv, .parquet), or remove it."
        raise DataError(Diagnostic("E513", f"`{path}` is not a file of changes", hint=hint))
    relation = checked.relations.get(match["relation"])
    if relation is None:
        raise DataError(_unknown_relation(checked, match["relation"], Span(str(path), 0, 0, 0, 0)))
    return ChangeFile(match["word"], relation, Endpoint("parquet" if match["kind"] == "parquet" else "file", path.name))


def _unknown_relation(checked: CheckedProgram, name: str, span: Span) -> Diagnostic:
    import difflib

    near = difflib.get_close_matches(name, checked.relations, n=1)
    hint = f"Did you mean `{near[0]}`?" if near else f"Use one of: {', '.join(checked.relations)}."
    return Diagnostic("E514", f"relation `{name}` is not declared", span, hint=hint)


# ------------------------------------------------------------------------------------------------- scripts


def _read_script(checked: CheckedProgram, path: Path) -> list[Epoch]:
    # Runs without a script do not pay for loading the parser of scripts.
    from sempre.lang.parser import parse_changes

    if not path.exists():
        raise missing_file(path)
    text = _decode(read_bytes(path), path)
    found: list[Diagnostic] = []
    epochs = [_epoch(checked, changes, str(path), found) for changes in parse_changes(text, str(path))]
    if found:
        raise DataError(found, {str(path): text})
    return epochs


def _decode(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8")) + 1
        span = Span(str(path), line, column, line, column + 1)
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise DataError(Diagnostic("E505", message, span, hint="Convert the file to UTF-8.")) from None


def _epoch(
    checked: CheckedProgram, changes: list[syntax.ChangeStatement], origin: str, found: list[Diagnostic]
) -> Epoch:
    """The net effect of `changes`: the last operation on a fact wins."""
    last: dict[tuple[str, tuple[object, ...]], bool] = {}
    for change in changes:
        relation = checked.relations.get(change.fact.relation)
        if relation is None:
            found.append(_unknown_relation(checked, change.fact.relation, change.fact.span))
            continue
        try:
            last[relation.name, _fact(change.fact, relation, checked.types)] = change.insert
        except _BadTerm as error:
            found.append(Diagnostic(error.code, str(error), error.span, hint=error.hint))
    insert, delete = ({}, {}) if found else (_tables(checked, last, True), _tables(checked, last, False))
    return Epoch(insert, delete, origin)


def _tables(
    checked: CheckedProgram, last: Mapping[tuple[str, tuple[object, ...]], bool], insert: bool
) -> dict[str, pa.Table]:
    rows: dict[str, list[tuple[object, ...]]] = {}
    for (name, row), is_insert in last.items():
        if is_insert is insert:
            rows.setdefault(name, []).append(row)
    return {name: _table(checked.relations[name], facts) for name, facts in rows.items()}


def _table(relation: Relation, rows: list[tuple[object, ...]]) -> pa.Table:
    if relation.arity == 0:
        return unit_table(bool(rows))
    return table_of(relation, [list(column) for column in zip(*rows, strict=True)])


class _BadTerm(ValueError):
    def __init__(self, code: str, message: str, span: Span, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.span = span
        self.hint = hint


def _fact(atom: syntax.Atom, relation: Relation, types: Mapping[str, Type]) -> tuple[object, ...]:
    if len(atom.args) != relation.arity:
        noun = "argument" if relation.arity == 1 else "arguments"
        message = f"`{relation.name}` takes {relation.arity} {noun}, found {len(atom.args)}"
        raise _BadTerm("E502", message, atom.span, f"Its columns are {', '.join(relation.columns) or 'none'}.")
    values: list[object] = []
    for term, type_ in zip(atom.args, relation.types, strict=True):
        value = _constant(term, type_, types)
        values.append(format_record(value, type_, types) if type_.kind is Kind.RECORD else value)
    return tuple(values)


def _constant(term: syntax.Term, type_: Type, types: Mapping[str, Type]) -> Value:
    """The value of a constant term as one of `type_`."""
    kind = type_.kind
    match term:
        case syntax.Apply(functor="neg", args=(inner,)) if kind in (Kind.NUMBER, Kind.FLOAT):
            return _negated(inner, type_, types)
        case syntax.Number(value=value) | syntax.Unsigned(value=value) if kind in RANGES:
            return _in_range(value, kind, term.span)
        case syntax.Number(value=value) if kind is Kind.FLOAT:
            return float(value)
        case syntax.Float(value=real) if kind is Kind.FLOAT:
            return real
        case syntax.String(value=text) if kind is Kind.SYMBOL:
            return text
        case syntax.Nil() if kind is Kind.RECORD and not type_.branches:
            return None
        case syntax.Record(args=args) if kind is Kind.RECORD and not type_.branches and len(args) == len(type_.fields):
            fields = zip(args, type_.fields, strict=True)
            return tuple(_constant(arg, types[name], types) for arg, (_, name) in fields)
        case syntax.Branch(name=name, args=args) if name in (names := [branch for branch, _ in type_.branches]):
            held = types[type_.branches[names.index(name)][1]]
            if len(args) == len(held.fields):
                fields = zip(args, held.fields, strict=True)
                return (name, *(_constant(arg, types[inner], types) for arg, (_, inner) in fields))
    message = f"expected a constant of type `{type_.name}`"
    hint = 'Write symbols in quotes, as "a".' if kind is Kind.SYMBOL else ""
    raise _BadTerm("E503", message, term.span, hint)


def _negated(term: syntax.Term, type_: Type, types: Mapping[str, Type]) -> Value:
    match term:
        case syntax.Number(value=value):
            return _constant(syntax.Number(-value, term.span), type_, types)
        case syntax.Float(value=real):
            return _constant(syntax.Float(-real, term.span), type_, types)
    raise _BadTerm("E503", f"expected a constant of type `{type_.name}`", term.span)


def _in_range(value: int, kind: Kind, span: Span) -> int:
    low, high = RANGES[kind]
    if low <= value <= high:
        return value
    raise _BadTerm("E504", f"{value} is out of range", span, f"Use a value from {low} to {high}.")
