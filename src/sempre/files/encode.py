"""Arrow tables to bytes: delimited text, Parquet, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa

from sempre.analysis.model import Kind, Relation, Type
from sempre.files.coded_rows import CodedRows
from sempre.files.columns import schema_of
from sempre.files.directive_options import TextFormat
from sempre.files.records import Value, parse_record

Rows: TypeAlias = "pa.Table | pa.RecordBatchReader | CodedRows"
BATCH_ROWS = 1 << 17
# Loading pyarrow.compute takes longer than looking at this many rows.
ONE_BY_ONE_ROWS = 1000


def batches(rows: Rows) -> Iterator[pa.RecordBatch]:
    if isinstance(rows, CodedRows):
        return rows.batches()
    return iter(rows.to_batches(max_chunksize=BATCH_ROWS)) if isinstance(rows, pa.Table) else iter(rows)


def write_text(rows: Rows, sink: BinaryIO, relation: Relation, layout: TextFormat) -> int:
    """Write one line per fact; returns how many values will be misread because they hold the delimiter or a line break.

    Values are written as they are, without quotes, unless `layout` is RFC 4180. Floats are the shortest text that reads
    back as the same value.
    """
    if layout.headers and relation.arity:
        sink.write(layout.delimiter.join(relation.columns).encode() + b"\n")
    if relation.arity == 0:
        sink.write(b"()\n" if row_count(rows) else b"")
        return 0
    writer = _TextWriter(sink, relation, layout)
    if isinstance(rows, CodedRows) and writer.write_coded(rows):
        return writer.broken
    for batch in batches(rows):
        writer.write(batch)
    return writer.broken


def row_count(rows: Rows) -> int:
    """How many rows there are; a stream is read for it."""
    return sum(batch.num_rows for batch in rows) if isinstance(rows, pa.RecordBatchReader) else rows.num_rows


class _TextWriter:
    """Writes batches by Arrow's own writer where it can, else by joining columns of text."""

    def __init__(self, sink: BinaryIO, relation: Relation, layout: TextFormat) -> None:
        import pyarrow.csv as csv

        self.sink = sink
        self.layout = layout
        self.broken = 0
        self.schema = schema_of(relation)
        self.texts = [index for index, field in enumerate(self.schema) if pa.types.is_string(field.type)]
        self.breaking = rf"{re.escape(layout.delimiter)}|\n"
        self.special = (layout.delimiter.encode(), b"\n", b'"', b"\r")
        self.simple = len(layout.delimiter.encode()) == 1
        self.options = csv.WriteOptions(
            include_header=False,
            delimiter=layout.delimiter if self.simple else "\t",
            quoting_style="needed" if layout.rfc4180 else "none",
            batch_size=BATCH_ROWS,
        )

    def write_coded(self, rows: CodedRows) -> bool:
        """Write rows as the lines that they make by themselves; False, and nothing written, where they do not."""
        delimiter = self.layout.delimiter.encode()
        found = rows.lines(delimiter) if not self.layout.rfc4180 else None
        if found is None:
            return False
        for lines in found:
            self.sink.write(lines.data.data)
            if self.texts and not (self.simple and lines.are_whole(len(self.schema), delimiter)):
                self.broken += self._count_breaking(rows.table(lines.begin, lines.end).combine_chunks().columns)
        return True

    def write(self, batch: pa.RecordBatch) -> None:
        import pyarrow.csv as csv

        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, self.schema, strict=True)
        ]
        special = set() if self.layout.rfc4180 else self._special_in(columns)
        if self.layout.rfc4180 or (self.simple and not special):
            # Into memory first: if Arrow refuses a text after all, nothing of the batch is in the file.
            lines = pa.BufferOutputStream()
            try:
                csv.write_csv(pa.RecordBatch.from_arrays(columns, schema=self.schema), lines, self.options)
            except pa.ArrowInvalid:
                if self.layout.rfc4180:
                    raise
            else:
                self.sink.write(lines.getvalue())
                return
        if special & set(self.special[:2]):
            self.broken += self._count_breaking(columns)
        self.sink.write(_joined(columns, self.layout.delimiter))

    def _special_in(self, columns: list[pa.Array]) -> set[bytes]:
        """What Arrow's writer refuses without quotes, of that what is in the texts: one look at all bytes for each."""
        found: set[bytes] = set()
        for index in self.texts:
            data = _bytes_of(columns[index])
            found |= {each for each in self.special if each in data}
        return found

    def _count_breaking(self, columns: list[pa.Array]) -> int:
        """How many texts contain the delimiter or a line break."""
        if columns and len(columns[0]) <= ONE_BY_ONE_ROWS:
            found = re.compile(self.breaking).search
            return sum(found(text) is not None for i in self.texts for text in columns[i].to_pylist())
        import pyarrow.compute as pc

        return sum(pc.sum(pc.match_substring_regex(columns[i], self.breaking)).as_py() or 0 for i in self.texts)


def _bytes_of(texts: pa.Array) -> bytes:
    """All texts of an Arrow array of strings, one behind the other."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return b""
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset)
    return bytes(data.slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes())


def _joined(columns: list[pa.Array], delimiter: str) -> memoryview:
    """The lines of a batch as bytes, each value as it is."""
    import pyarrow.compute as pc

    texts = [column.cast(pa.large_string()) for column in columns]
    separator = pa.scalar(delimiter, pa.large_string())
    line_break = pa.scalar("\n", pa.large_string())
    lines = pc.binary_join_element_wise(*texts, separator)
    lines = pc.binary_join_element_wise(lines, pa.scalar("", pa.large_string()), line_break)
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(data)[ends[0] : ends[-1]] if len(lines) else memoryview(b"")


def write_parquet(rows: Rows, sink: BinaryIO, relation: Relation) -> None:
    import pyarrow.parquet as pq

    schema = schema_of(relation)
    with pq.ParquetWriter(sink, schema) as writer:
        for batch in batches(rows):
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, names=schema.names).cast(schema))


def write_json(
    rows: Rows, sink: BinaryIO, relation: Relation, types: Mapping[str, Type], *, layout: str = "list"
) -> None:
    """Write a list of rows: lists or, with the layout `object`, objects; with `lines`, an object per line.

    A record is what a row is.
    """
    lines = layout == "lines"
    lead, gap, end = (b"", b"\n", b"\n") if lines else (b"[", b",\n", b"]\n")
    first = lead
    for batch in batches(rows):
        columns = [
            _json_column(column, type_, types, layout == "object")
            for column, type_ in zip(batch.columns, relation.types, strict=True)
        ]
        lists: Iterator[tuple[object, ...]] = zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)
        for row in lists:
            value: object = row if layout == "list" else dict(zip(relation.columns, row, strict=True))
            sink.write(lead + json.dumps(value, ensure_ascii=False).encode())
            lead = gap
    if lead == first:
        end = b"" if lines else b"[]\n"
    sink.write(end)


def _json_column(column: pa.Array, type_: Type, types: Mapping[str, Type], named: bool) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if type_.kind is not Kind.RECORD:
        return values
    seen: dict[str, Any] = {text: parse_record(text, type_, types) for text in set(values)}
    if named:
        seen = {text: _named(value, type_, types) for text, value in seen.items()}
    return [seen[text] for text in values]


def _named(value: Value, type_: Type, types: Mapping[str, Type]) -> Any:
    """A record as an object, and the records in it."""
    if not isinstance(value, tuple):
        return value
    return {name: _named(part, types[kind], types) for part, (name, kind) in zip(value, type_.fields, strict=True)}
