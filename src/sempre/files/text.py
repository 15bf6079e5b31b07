"""Delimited text to Arrow, by columns. What the fast reader refuses goes to scan.py, which knows the exact lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from sempre.analysis.model import Kind, Relation, Type
from sempre.diagnostics import Span
from sempre.files.columns import empty_table, marked_by_position, schema_of, unit_table
from sempre.files.directive_options import TextFormat
from sempre.files.matching import IN_DIRECTIVE, ColumnChoice, matched
from sempre.files.records import RecordError, format_record, parse_record
from sempre.files.scan import header_of, scan_text, scan_unit

BOM = b"\xef\xbb\xbf"
ONE_THREAD_BYTES = 1 << 20
BLOCK_BYTES = 1 << 22


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
    import pyarrow.csv as csv

    if _is_unusual(data, start, relation, layout):
        return None
    delimiter = layout.delimiter.encode()
    if len(delimiter) > 1:
        if b"\x1f" in data:
            return None
        data, delimiter = data[start:].replace(delimiter, b"\x1f"), b"\x1f"
        start = 0
    schema = schema_of(relation)
    width = relation.arity
    places = layout.columns
    if places is not None:
        width = layout.width or max(max(places), data[start:].split(b"\n", 1)[0].count(delimiter)) + 1
    places = places or tuple(range(width))
    names = [str(place) for place in range(width)]
    quote = '"' if layout.rfc4180 else False
    try:
        table = csv.read_csv(
            pa.BufferReader(pa.py_buffer(data).slice(start)),
            csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES, use_threads=len(data) > ONE_THREAD_BYTES),
            csv.ParseOptions(
                delimiter=delimiter.decode(),
                quote_char=quote,
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
    except pa.ArrowInvalid:
        return None
    if (b"x" in data or b"X" in data) and _may_have_wrapped(table, relation):
        return None
    return pa.Table.from_arrays(table.columns, schema=schema)


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
