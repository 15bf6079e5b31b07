"""Delimited text read row by row: slow, and exact about what is wrong and where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

import pyarrow as pa

from sempre.analysis.model import Kind, Relation, Type
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.columns import RANGES, table_of
from sempre.files.directive_options import TextFormat
from sempre.files.records import RecordError, format_record, parse_record

MOST_FAULTS = 20
# Lines beyond this are named, and not shown.
MOST_LINES = 10_000_000
LONGEST_EXCERPT = 200

_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|([0-9]+))")
_FLOAT = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE)
_UNDECODED = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Cell:
    """One value as text, and where it is; lines and columns count from 1. `broken`: its quotes are wrong."""

    text: str
    line: int
    column: int
    broken: bool = False

    def span(self, file: str) -> Span:
        return Span(file, self.line, self.column, self.line, self.column + max(1, len(self.text)))


Row = tuple[str, list[Cell]]
"""The line a row begins on, as text, and its cells."""


class CellFault(ValueError):
    """Why a cell is refused; `offset` says where in it."""

    def __init__(self, code: str, message: str, hint: str = "", offset: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.offset = offset


@dataclass(slots=True)
class Faults:
    """Collects what is wrong with one file: the first few in full, the rest as a number."""

    file: str
    found: list[Diagnostic] = field(default_factory=list)
    more: int = 0
    lines: dict[int, str] = field(default_factory=dict)

    def add(self, fault: CellFault, cell: Cell, line: str) -> None:
        if len(self.found) == MOST_FAULTS:
            self.more += 1
            return
        if fault.offset:
            cell = Cell(cell.text[fault.offset :], cell.line, cell.column + fault.offset)
        span = cell.span(self.file)
        if len(line) > LONGEST_EXCERPT:
            line = line[:LONGEST_EXCERPT] + "…"
            span = replace(span, end_column=max(span.column + 1, min(span.end_column, LONGEST_EXCERPT + 1)))
        self.found.append(Diagnostic(fault.code, str(fault), span, hint=fault.hint))
        self.lines[span.line] = _UNDECODED.sub("\N{REPLACEMENT CHARACTER}", line)

    def raise_any(self) -> None:
        """Raise one `DataError` for all that was found, if anything."""
        if not self.found:
            return
        if self.more:
            noun = "error" if self.more == 1 else "errors"
            self.found[-1] = replace(self.found[-1], detail=f"and {self.more:,} more {noun} in this file")
        raise DataError(self.found, {self.file: self._excerpts()})

    def _excerpts(self) -> str:
        """The source text with only the lines that are shown filled in."""
        near = {number: text for number, text in self.lines.items() if number <= MOST_LINES}
        lines = [""] * max(near, default=0)
        for number, text in near.items():
            lines[number - 1] = text
        return "\n".join(lines)


def scan_text(
    data: bytes, start: int, relation: Relation, layout: TextFormat, file: str, types: Mapping[str, Type]
) -> pa.Table:
    """The facts in `data[start:]`; raises `DataError` with the place of every bad row."""
    first = data.count(b"\n", 0, start) + 1
    rows = _quoted_rows(data[start:], layout, first) if layout.rfc4180 else _plain_rows(data, start, layout, relation)
    return _scanned(rows, relation, layout, file, types)


def scan_lines(
    lines: Iterable[tuple[int, bytes]], relation: Relation, layout: TextFormat, file: str, types: Mapping[str, Type]
) -> pa.Table:
    """The facts in some lines of a file without quoting, given with their numbers; raises like `scan_text`."""
    return _scanned((_plain_row(raw, at, layout, relation) for at, raw in lines), relation, layout, file, types)


def _scanned(
    rows: Iterable[Row], relation: Relation, layout: TextFormat, file: str, types: Mapping[str, Type]
) -> pa.Table:
    places = layout.columns or tuple(range(relation.arity))
    columns: list[list[object]] = [[] for _ in places]
    faults = Faults(file)
    for line, cells in rows:
        try:
            _check_quotes(cells, layout)
            _check_width(cells, relation, layout)
        except CellFault as fault:
            faults.add(fault, Cell(line, cells[0].line, 1), line)
            continue
        for place, type_, column in zip(places, relation.types, columns, strict=True):
            try:
                column.append(_value(cells[place].text, type_, types))
            except CellFault as fault:
                faults.add(fault, cells[place], line)
    faults.raise_any()
    return table_of(relation, columns)


def header_of(data: bytes, start: int, layout: TextFormat) -> tuple[list[str], int]:
    """The names in the first line, and where the next one begins; names in quotes may span several lines."""
    end = data.find(b"\n", start)
    while layout.rfc4180 and end >= 0 and data.count(b'"', start, end) % 2:
        end = data.find(b"\n", end + 1)
    end = len(data) if end < 0 else end + 1
    if layout.rfc4180:
        _, cells = next(_quoted_rows(data[start:end], layout, 1))
        names = [cell.text for cell in cells]
    else:
        line = data[start:end].decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")
        names = line.split(layout.delimiter)
    return [_UNDECODED.sub("\N{REPLACEMENT CHARACTER}", name).strip() for name in names], end


def scan_unit(data: bytes, start: int, file: str, relation: Relation) -> bool:
    """Whether a relation without columns holds: its file has a line `()`, or only an empty one, or nothing at all."""
    faults = Faults(file)
    rows = list(_plain_rows(data, start, TextFormat(), relation))
    for line, cells in rows:
        if line.strip() not in ("()", ""):
            message = f"relation `{relation.name}` has no columns"
            faults.add(CellFault("E502", message, hint="Write the line `()` when it holds."), cells[0], line)
    faults.raise_any()
    return bool(rows)


# ---------------------------------------------------------------------------------------------------- rows


def _plain_rows(data: bytes, start: int, layout: TextFormat, relation: Relation) -> Iterator[Row]:
    """Rows of text without quoting: one per line, a final line break ends the last."""
    first = data.count(b"\n", 0, start) + 1
    lines = data[start:].split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, raw in enumerate(lines, first):
        yield _plain_row(raw, number, layout, relation)


def _plain_row(raw: bytes, number: int, layout: TextFormat, relation: Relation) -> Row:
    line = raw.removesuffix(b"\r").decode("utf-8", "surrogateescape")
    has_records = Kind.RECORD in relation.kinds
    pieces = _split_outside_brackets(line, layout.delimiter) if has_records else line.split(layout.delimiter)
    return line, _cells(pieces, number, len(layout.delimiter))


def _cells(pieces: list[str], number: int, gap: int) -> list[Cell]:
    cells, column = [], 1
    for piece in pieces:
        cells.append(Cell(piece, number, column))
        column += len(piece) + gap
    return cells


def _split_outside_brackets(line: str, delimiter: str) -> list[str]:
    """Split at the delimiters that are not inside a record."""
    pieces: list[str] = []
    for piece in line.split(delimiter):
        if pieces and _is_open(pieces[-1]):
            pieces[-1] += delimiter + piece
        else:
            pieces.append(piece)
    return pieces


def _is_open(piece: str) -> bool:
    """Whether a record or a branch begins here and does not end here."""
    if piece.startswith("["):
        return piece.count("[") > piece.count("]")
    return piece.startswith("$") and piece.count("(") > piece.count(")")


def _quoted_rows(data: bytes, layout: TextFormat, first: int) -> Iterator[Row]:
    """Rows as RFC 4180 has them: a cell in quotes may hold delimiters, line breaks and doubled quotes."""
    text = data.decode("utf-8", "surrogateescape")
    mark = re.escape(layout.delimiter)
    cell_at = re.compile(rf'"((?:[^"]|"")*)"(?={mark}|\r?\n|\r?\Z)|((?:(?!\r?\n|\r\Z)[^{mark}\n])*)')
    at, number = 0, first
    while at < len(text):
        row_start = at - (text.rfind("\n", 0, at) + 1)
        line = text[at - row_start :].split("\n", 1)[0].removesuffix("\r")
        cells: list[Cell] = []
        while True:
            match = cell_at.match(text, at)
            assert match is not None  # the second branch matches the empty text
            column = at - text.rfind("\n", 0, at)
            body = match[2] if match[1] is None else match[1].replace('""', '"')
            cells.append(Cell(body, number, column, broken=match[0].startswith('"') and match[1] is None))
            number += match[0].count("\n")
            at = match.end()
            if not text.startswith(layout.delimiter, at):
                break
            at += 1
        at += text.startswith("\r", at)
        at += text.startswith("\n", at)
        number += 1
        yield line, cells


def _check_quotes(cells: list[Cell], layout: TextFormat) -> None:
    if layout.rfc4180 and any(cell.broken for cell in cells):
        raise CellFault(
            "E502", "a quote is not closed, or text follows the closing quote", 'Write a quote inside as "".'
        )


def _check_width(cells: list[Cell], relation: Relation, layout: TextFormat) -> None:
    exact = layout.width or (relation.arity if layout.columns is None else None)
    if len(cells) == exact or (exact is None and layout.columns is not None and len(cells) > max(layout.columns)):
        return
    wanted = exact or max(layout.columns or (0,)) + 1
    least = "at least " if exact is None else ""
    noun = "column" if wanted == 1 else "columns"
    message = f"expected {least}{wanted} {noun}, found {len(cells)}"
    hint = f"`{relation.name}` has the columns {', '.join(relation.columns)}."
    if len(cells) == 1 and not cells[0].text:
        message, hint = f"the line is empty: {message}", "Remove it."
    elif len(cells) == 1 and layout.delimiter == "\t" and wanted > 1:
        hint += ' Separate them by tabs, or name another character with delimiter=",".'
    elif len(cells) > wanted and not layout.rfc4180 and any(cell.text.startswith('"') for cell in cells):
        hint += " If quotes keep a cell together, say rfc4180=true."
    raise CellFault("E502", message, hint)


# -------------------------------------------------------------------------------------------------- values


def _value(text: str, type_: Type, types: Mapping[str, Type]) -> object:
    """The value of type `type_` that a cell spells; raises `CellFault`."""
    bad = _UNDECODED.search(text)
    if bad:
        byte = ord(bad[0]) - 0xDC00
        raise CellFault("E505", f"byte 0x{byte:02x} is not UTF-8", "Convert the file to UTF-8.", bad.start())
    match type_.kind:
        case Kind.SYMBOL:
            return text
        case Kind.NUMBER | Kind.UNSIGNED:
            return _integer(text, type_.kind)
        case Kind.FLOAT:
            if not _FLOAT.fullmatch(text.strip()):
                raise CellFault("E503", f"`{text}` is not a float")
            return float(text)
        case Kind.RECORD:
            try:
                return format_record(parse_record(text, type_, types), type_, types)
            except RecordError as error:
                raise CellFault("E507", str(error), "Write records as [1, [2, nil]].", error.position) from None


def _integer(text: str, kind: Kind) -> int:
    article = "an unsigned" if kind is Kind.UNSIGNED else "a number"
    match = _INTEGER.fullmatch(text.strip(" \t"))
    if match is None:
        raise CellFault("E503", f"`{text}` is not {article}" + (" number" if kind is Kind.UNSIGNED else ""))
    sign, hexadecimal, binary, decimal = match.groups()
    digits = hexadecimal or binary or decimal
    # Python refuses to convert very long decimals; anything that long is out of range anyway.
    value = int(digits, 16 if hexadecimal else 2 if binary else 10) if len(digits.lstrip("0")) <= 64 else 2**65
    value = -value if sign == "-" else value
    low, high = RANGES[kind]
    if not low <= value <= high:
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise CellFault("E504", f"`{shown}` is out of range", f"Use a value from {low} to {high}.")
    return value
