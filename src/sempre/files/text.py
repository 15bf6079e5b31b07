"""Delimited text to Arrow, by columns. What the fast reader refuses goes to scan.py, which knows the exact lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sempre.analysis.model import Kind, Relation, Type
from sempre.diagnostics import Span
from sempre.files.columns import CODED, empty_table, marked_by_position, schema_of, unit_table
from sempre.files.directive_options import TextFormat
from sempre.files.matching import IN_DIRECTIVE, ColumnChoice, matched
from sempre.files.numbered import NumberedTexts, has_empty
from sempre.files.records import RecordError, format_record, parse_record
from sempre.files.scan import header_of, scan_text, scan_unit
from sempre.kernel.numbering import TooManyTexts

BOM = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"
ONE_THREAD_BYTES = 1 << 20
BLOCK_BYTES = 1 << 20
# Files from this size on are read by `read_plain_file` where they can be.
LARGE_BYTES = 1 << 23
# Where the first line is longer, it is looked at more closely.
LONGEST_LINE = 1 << 20


def read_text(data: bytes, relation: Relation, layout: TextFormat, name: str, types: Mapping[str, Type]) -> pa.Table:
    """The facts that `data` spells; raises `DataError` with every bad line. `name` is the file, for messages.

    Linear, without a Python loop over rows unless the text is unusual or wrong.
    """
    start = len(BOM) if data.startswith(BOM) else 0
    by_name = True
    if layout.headers and start < len(data):
        header, start = header_of(data, start, layout)
        if relation.arity:
            layout, by_name = _by_header(header, relation, layout, name)
    if relation.arity == 0:
        return unit_table(scan_unit(data, start, name, relation))
    table = _rows(data, start, relation, layout, name, types) if start < len(data) else empty_table(relation)
    return table if by_name else marked_by_position(table)


def _by_header(header: list[str], relation: Relation, layout: TextFormat, name: str) -> tuple[TextFormat, bool]:
    """The layout with the places that the first line tells, and whether its names decided."""
    taking = ColumnChoice(layout.columns, extra=layout.extra, requests=IN_DIRECTIVE)
    found = matched(relation, header, f"the first line of `{name}`", taking, span=Span(name, 1, 1, 1, 2), made_up=False)
    if not found.by_name:
        return layout, False
    return replace(layout, columns=found.places, width=len(header)), True


def _rows(
    data: bytes, start: int, relation: Relation, layout: TextFormat, name: str, types: Mapping[str, Type]
) -> pa.Table:
    table = _read_fast(data, start, relation, layout)
    if table is not None:
        table = _canonical_records(table, relation, types)
    if table is None:
        table = scan_text(data, start, relation, layout, name, types)
    return table


def _read_fast(data: bytes, start: int, relation: Relation, layout: TextFormat) -> pa.Table | None:
    """The table, or None when the text needs a closer look."""
    if _is_unusual(data, start, relation, layout):
        return None
    delimiter = layout.delimiter.encode()
    if len(delimiter) > 1:
        if b"\x1f" in data:
            return None
        data, delimiter = data[start:].replace(delimiter, b"\x1f"), b"\x1f"
        start = 0
    schema = schema_of(relation)
    end = data.find(b"\n", start)
    first_line = data[start : end if end >= 0 else len(data)]
    source = pa.BufferReader(pa.py_buffer(data).slice(start))
    table = _parsed(source, first_line, schema, layout, delimiter, len(data) > ONE_THREAD_BYTES)
    if table is None or ((b"x" in data or b"X" in data) and _may_have_wrapped(table, relation)):
        return None
    return table


def read_plain_file(
    path: Path, relation: Relation, layout: TextFormat, open_texts: Callable[[], NumberedTexts | None]
) -> pa.Table | None:
    """The table in a large file without anything unusual; None if it needs a closer look.

    Its symbols are codes of the texts that are opened, which the caller closes, or dictionaries where there are none.
    The file is never in memory as a whole.
    """
    usual = relation.arity and not layout.headers and not layout.rfc4180 and len(layout.delimiter.encode()) == 1
    if not usual or path.stat().st_size < LARGE_BYTES or Kind.RECORD in relation.kinds:
        return None
    with path.open("rb") as file:
        first_line = file.readline(LONGEST_LINE)
        if first_line.startswith((BOM, GZIP_MAGIC, b"\n")) or not first_line.endswith(b"\n"):
            return None
        file.seek(0)
        watched = _Watched(file, Kind.NUMBER in relation.kinds)
        source, delimiter = pa.PythonFile(watched, "r"), layout.delimiter.encode()
        texts = open_texts() if Kind.SYMBOL in relation.kinds else None
        if texts is not None:
            before = len(texts)
            table = _numbered(source, first_line, relation, layout, texts)
        else:
            schema = pa.schema([
                each.with_type(CODED) if each.type == pa.string() else each
                for each in schema_of(relation)
            ])  # fmt: skip
            table = _parsed(source, first_line, schema, layout, delimiter, True)
            if table is not None and _may_have_empty_lines(table, relation, layout):
                return None
    if table is None or watched.has_returns or (watched.has_hex and _may_have_wrapped(table, relation)):
        if texts is not None:
            texts.back_to(before)
        return None
    return table


def _numbered(
    source: Any, first_line: bytes, relation: Relation, layout: TextFormat, texts: NumberedTexts
) -> pa.Table | None:
    """The table with codes where it has texts, block by block; None if Arrow cannot read it, or not as it is meant."""
    import pyarrow.csv as csv

    schema = schema_of(relation)
    symbols = [index for index, kind in enumerate(relation.kinds) if kind is Kind.SYMBOL]
    # Arrow fills an empty line up with empty texts; no number is one.
    may_be_filled = len(symbols) == relation.arity and (relation.arity > 1 or layout.columns is not None)
    batches = []
    try:
        for batch in csv.open_csv(source, *_parsing(first_line, schema, layout, layout.delimiter.encode(), True)):
            columns = list(batch.columns)
            if may_be_filled and has_empty(columns[0]):
                return None
            for index in symbols:
                columns[index] = texts.codes(columns[index])
            batches.append(columns)
    except (pa.ArrowInvalid, TooManyTexts):
        return None
    made = pa.schema([field.with_type(pa.int32()) if i in symbols else field for i, field in enumerate(schema)])
    columns = [pa.chunked_array([batch[index] for batch in batches], field.type) for index, field in enumerate(made)]
    return pa.Table.from_arrays(columns, schema=made)


class _Watched:
    """A file, and whether what was read of it has a carriage return, or may have hexadecimal `numbers`."""

    def __init__(self, file: BinaryIO, numbers: bool) -> None:
        self._file = file
        self._numbers = numbers
        self.has_returns = False
        self.has_hex = False
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.has_returns = self.has_returns or b"\r" in data
        self.has_hex = self.has_hex or (self._numbers and (b"x" in data or b"X" in data))
        return data

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _parsed(
    source: Any, first_line: bytes, schema: pa.Schema, layout: TextFormat, delimiter: bytes, threads: bool
) -> pa.Table | None:
    """What Arrow reads, or None if it cannot."""
    import pyarrow.csv as csv

    try:
        table = csv.read_csv(source, *_parsing(first_line, schema, layout, delimiter, threads))
    except pa.ArrowInvalid:
        return None
    return pa.Table.from_arrays(table.columns, schema=schema)


def _parsing(
    first_line: bytes, schema: pa.Schema, layout: TextFormat, delimiter: bytes, threads: bool
) -> tuple[Any, Any, Any]:
    """What Arrow's readers want to know."""
    import pyarrow.csv as csv

    width = len(schema)
    places = layout.columns
    if places is not None:
        width = layout.width or max(max(places), first_line.count(delimiter)) + 1
    places = places or tuple(range(width))
    return (
        csv.ReadOptions(column_names=[str(at) for at in range(width)], block_size=BLOCK_BYTES, use_threads=threads),
        csv.ParseOptions(
            delimiter=delimiter.decode(),
            quote_char='"' if layout.rfc4180 else False,
            double_quote=layout.rfc4180,
            newlines_in_values=layout.rfc4180,
            ignore_empty_lines=False,
        ),
        csv.ConvertOptions(
            column_types={str(place): field.type for place, field in zip(places, schema, strict=True)},
            include_columns=[str(place) for place in places],
            null_values=[],
            strings_can_be_null=False,
        ),
    )


def _may_have_empty_lines(table: pa.Table, relation: Relation, layout: TextFormat) -> bool:
    """Whether Arrow may have filled up an empty line: then every column has an empty text; no number is one."""
    if relation.arity == 1 and layout.columns is None:
        return False
    import pyarrow.compute as pc

    if any(kind is not Kind.SYMBOL for kind in relation.kinds):
        return False
    return any(pc.any(pc.equal(chunk.dictionary, "")).as_py() for chunk in table.column(0).chunks)


def _is_unusual(data: bytes, start: int, relation: Relation, layout: TextFormat) -> bool:
    """Whether Arrow would read the text otherwise than it is meant, without an error."""
    returns = data.count(b"\r")
    if returns and returns != data.count(b"\r\n"):
        return True  # Arrow ends a line at a lone \r; in fact files it is part of a symbol
    if layout.rfc4180 and data.count(b'"', start) % 2:
        return True  # a quote is not closed: Arrow takes the rest of the text
    # Arrow fills an empty line up with empty values.
    breaks = (b"\n\n", b"\n\r\n") if returns else (b"\n\n",)
    several = relation.arity > 1 or layout.columns is not None
    return several and (data.startswith((b"\n", b"\r\n"), start) or any(each in data for each in breaks))


def _may_have_wrapped(table: pa.Table, relation: Relation) -> bool:
    """Whether a negative number may be a hexadecimal one that Arrow let overflow."""
    import pyarrow.compute as pc

    numbers = [column for column, kind in zip(table.columns, relation.kinds, strict=True) if kind is Kind.NUMBER]
    return any((pc.min(column).as_py() or 0) < 0 for column in numbers)


def _canonical_records(table: pa.Table, relation: Relation, types: Mapping[str, Type]) -> pa.Table | None:
    """`table` with each record spelled in the one way, so that equal records are equal texts; None if one is wrong."""
    for index, type_ in enumerate(relation.types):
        if type_.kind is not Kind.RECORD:
            continue
        coded = table.column(index).combine_chunks().dictionary_encode()
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.unify_dictionaries().combine_chunks()
        try:
            texts = [format_record(parse_record(t, type_, types), type_, types) for t in coded.dictionary.to_pylist()]
        except RecordError:
            return None
        column = pa.array(texts, pa.string()).take(coded.indices)
        table = table.set_column(index, table.schema.field(index), column)
    return table
