"""What the options of `.input` and `.output` mean: Soufflé's, plus `IO=parquet|csv|json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sempre.analysis.model import CheckedProgram, Relation
from sempre.diagnostics import Diagnostic, ProgramError
from sempre.lang.syntax import Directive

TEXT = ("file", "csv", "stdin", "stdout")
KNOWN_IO = {
    "input": ("file", "csv", "stdin", "parquet", "json"),
    "output": ("file", "csv", "stdout", "stdoutprintsize", "parquet", "json"),
}
LATER_IO = ("sqlite", "spark", "jdbc")
KNOWN_OPTIONS = ("IO", "filename", "delimiter", "rfc4180", "headers", "columns", "compress", "format")
# Written by Soufflé's own tools into directives; they change nothing here.
IGNORED_OPTIONS = ("attributeNames", "name", "operation", "fact-dir", "output-dir")


@dataclass(frozen=True, slots=True)
class TextFormat:
    """Delimited text. `columns[i]` is the place in the file of the relation's column i; None: as declared."""

    delimiter: str = "\t"
    rfc4180: bool = False
    headers: bool = False
    columns: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the facts of one directive are. `io` is one of file, stdin, stdout, stdoutprintsize, parquet, json."""

    io: str
    filename: str
    text: TextFormat = TextFormat()
    compress: bool = False
    objects: bool = False


class _BadOption(ValueError):
    pass


def input_endpoint(relation: Relation, directive: Directive) -> Endpoint:
    return _endpoint(relation, directive, "input")


def output_endpoint(relation: Relation, directive: Directive) -> Endpoint:
    return _endpoint(relation, directive, "output")


def check_directives(checked: CheckedProgram) -> list[Diagnostic]:
    """Every directive option that cannot be honored."""
    found: list[Diagnostic] = []
    for relation in checked.relations.values():
        for directive in relation.inputs + relation.outputs:
            try:
                _endpoint(relation, directive, "input" if directive in relation.inputs else "output")
            except ProgramError as error:
                found += error.diagnostics
    return list(dict.fromkeys(found))


def _endpoint(relation: Relation, directive: Directive, direction: str) -> Endpoint:
    options = dict(directive.options)
    try:
        return _build(relation, options, direction)
    except _BadOption as error:
        message, _, hint = str(error).partition("\n")
        raise ProgramError(Diagnostic("E511", message, directive.span, hint=hint)) from None


def _build(relation: Relation, options: Mapping[str, str], direction: str) -> Endpoint:
    for key in options:
        if key not in KNOWN_OPTIONS + IGNORED_OPTIONS:
            raise _BadOption(f"unknown option `{key}`\nthe options are {', '.join(KNOWN_OPTIONS)}")
    io = options.get("IO", "file")
    if io in LATER_IO:
        raise _BadOption(f"`IO={io}` is not supported yet\nuse one of {', '.join(KNOWN_IO[direction])}")
    if io not in KNOWN_IO[direction]:
        raise _BadOption(f"`IO={io}` is unknown for .{direction}\nuse one of {', '.join(KNOWN_IO[direction])}")
    compress = _flag(options, "compress")
    text = _text_format(relation, options, io) if io in TEXT else TextFormat()
    filename = options.get("filename") or _default_name(relation.name, io, direction, compress)
    compress = compress or (direction == "output" and filename.endswith(".gz"))
    objects = _layout(options)
    return Endpoint("file" if io == "csv" else io, filename, text, compress, objects)


def _default_name(name: str, io: str, direction: str, compress: bool) -> str:
    if io in ("parquet", "json"):
        return f"{name}.{io}"
    extension = "facts" if direction == "input" and io == "file" else "csv"
    return f"{name}.{extension}" + (".gz" if compress else "")


def _layout(options: Mapping[str, str]) -> bool:
    layout = options.get("format", "list")
    if layout not in ("list", "object"):
        raise _BadOption(f"`format={layout}` is unknown\nuse list or object")
    return layout == "object"


def _text_format(relation: Relation, options: Mapping[str, str], io: str) -> TextFormat:
    rfc4180 = _flag(options, "rfc4180", default=io == "csv")
    delimiter = options.get("delimiter", "," if rfc4180 else "\t").replace("\\t", "\t")
    if not delimiter or "\n" in delimiter or "\r" in delimiter:
        raise _BadOption('the delimiter is empty or a line break\ngive one character or more, such as delimiter=","')
    if rfc4180 and (len(delimiter.encode()) != 1 or delimiter == '"'):
        raise _BadOption("with rfc4180=true the delimiter is one ASCII character other than a quote")
    return TextFormat(delimiter, rfc4180, _flag(options, "headers"), _columns(relation, options))


def _flag(options: Mapping[str, str], key: str, default: bool = False) -> bool:
    value = options.get(key, str(default)).lower()
    if value not in ("true", "false"):
        raise _BadOption(f"option `{key}` is true or false, not `{options[key]}`")
    return value == "true"


def _columns(relation: Relation, options: Mapping[str, str]) -> tuple[int, ...] | None:
    text = options.get("columns")
    if text is None:
        return None
    parts = text.split(":")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise _BadOption(f"`columns={text}` is not a list of places\nwrite the places in the file, from 0, as 2:0:1")
    places = tuple(map(int, parts))
    if len(places) != relation.arity or len(set(places)) != len(places):
        raise _BadOption(f"`columns={text}` must name {relation.arity} different places, one per column")
    return places
