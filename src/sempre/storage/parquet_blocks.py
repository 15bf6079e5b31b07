"""Rows and texts as Parquet, and back.

A `Block` is part of a set: columns of integers, sorted as rows, with a weight each; or texts. Files hold one block
(segments) or several (logs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from sempre.data import dataclass
from sempre.files.arrays import bytes_to_arrow, to_arrow, to_numpy
from sempre.kernel.join import Weights
from sempre.kernel.layout import Column
from sempre.limits import Limits


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of integers; `weights` is None where all are 1."""

    columns: Sequence[Column]
    weights: Weights | None
    size: int

    def __len__(self) -> int:
        return self.size

    def numbers(self) -> Weights:
        """The weights, written out."""
        return np.ones(self.size, np.int64) if self.weights is None else self.weights


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts in the order of their codes."""

    texts: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.texts)


Content = Block | Texts


def is_shared(content: Content, limits: Limits) -> bool:
    """Whether a set is written into a log, with others."""
    return len(content) < limits.shared_rows or (isinstance(content, Block) and not content.columns)


def _write(table: Any, integers: Sequence[str], limits: Limits) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    encodings: Any = dict.fromkeys(integers, "DELTA_BINARY_PACKED") | {
        name: "DELTA_LENGTH_BYTE_ARRAY" for name in table.column_names if name not in integers and name != "set"
    }
    parquet.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=["set"] if "set" in table.column_names else False,
        column_encoding=encodings,
        write_statistics=["c0"] if "set" not in table.column_names and "c0" in table.column_names else False,
        row_group_size=limits.group_rows,
    )
    return sink.getvalue()


def segment(content: Content, limits: Limits) -> Any:
    """One set as the bytes of a file."""
    import pyarrow as pa

    if isinstance(content, Texts):
        return _write(pa.Table.from_arrays([bytes_to_arrow(content.texts, pa.large_binary())], ["text"]), (), limits)
    data = {f"c{at}": column for at, column in enumerate(content.columns)}
    if content.weights is not None:
        data["weight"] = content.weights
    arrays = [to_arrow(column, pa.int64()) for column in data.values()]
    return _write(pa.Table.from_arrays(arrays, list(data)), list(data), limits)


def log(contents: Mapping[str, Content], limits: Limits) -> Any:
    """Several sets as the bytes of a file."""
    import pyarrow as pa

    width = max((len(block.columns) for block in contents.values() if isinstance(block, Block)), default=0)
    integers = ["weight", *(f"c{at}" for at in range(width))]
    schema = pa.schema(
        [("set", pa.large_string()), ("text", pa.large_binary()), *((name, pa.int64()) for name in integers)]
    )
    parts = []
    for name, content in contents.items():
        size = len(content)
        arrays: dict[str, Any] = {"set": bytes_to_arrow([name.encode()] * size, pa.large_string())}
        if isinstance(content, Texts):
            arrays["text"] = bytes_to_arrow(content.texts, pa.large_binary())
        else:
            arrays["weight"] = to_arrow(content.numbers(), pa.int64())
            arrays |= {f"c{at}": to_arrow(column, pa.int64()) for at, column in enumerate(content.columns)}
        columns = [arrays[field.name] if field.name in arrays else pa.nulls(size, field.type) for field in schema]
        parts.append(pa.Table.from_arrays(columns, schema=schema))
    return _write(pa.concat_tables(parts), integers, limits)


class SegmentFile:
    """A segment that is read: all of it, or a stretch of rows after the other."""

    def __init__(self, data: Any) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._file = parquet.ParquetFile(pa.BufferReader(data))
        self._names: list[str] = self._file.schema_arrow.names
        self.size: int = self._file.metadata.num_rows
        self.is_weighted = "weight" in self._names

    def _groups(self, first: int | None) -> list[int]:
        """The row groups that can have rows whose first column is `first`."""
        groups = range(self._file.metadata.num_row_groups)
        if first is None:
            return list(groups)
        spans = [self._file.metadata.row_group(group).column(0).statistics for group in groups]
        return [group for group in groups if spans[group] is None or spans[group].min <= first <= spans[group].max]

    def stretches(self, first: int | None = None) -> Iterator[Block]:
        """The rows in blocks as they were written: small enough to stay in the processor's cache.

        If `first` is given, those whose first column has that value are among them.
        """
        groups = self._groups(first)
        if not groups:
            return
        rows = max(self._file.metadata.row_group(group).num_rows for group in groups)
        for batch in self._file.iter_batches(max(1, rows), row_groups=groups, use_threads=True):
            arrays = {name: to_numpy(column) for name, column in zip(self._names, batch.columns, strict=True)}
            weights = arrays.pop("weight", None)
            yield Block(list(arrays.values()), weights, batch.num_rows)

    def content(self) -> Content:
        """All of it."""
        if self._names == ["text"]:
            return Texts(self._file.read().column(0).to_pylist())
        return joined(list(self.stretches()))


def joined(blocks: Sequence[Block]) -> Block:
    """Stretches of one set, in their order."""
    if len(blocks) == 1:
        return blocks[0]
    weighted = any(block.weights is not None for block in blocks)
    weights = np.concatenate([block.numbers() for block in blocks]) if weighted else None
    columns = [np.concatenate(column) for column in zip(*(block.columns for block in blocks), strict=True)]
    return Block(columns, weights, sum(map(len, blocks)))


def read_log(data: Any) -> dict[str, Content]:
    """The sets in a log."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    names = table.column("set").to_pylist()
    starts = [at for at, name in enumerate(names) if at == 0 or name != names[at - 1]] + [len(names)]
    found: dict[str, Content] = {}
    for start, stop in pairwise(starts):
        part = table.slice(start, stop - start)
        found[names[start]] = _content(part, stop - start)
    return found


def _content(part: Any, size: int) -> Content:
    if part.column("weight").null_count == size:
        return Texts(part.column("text").to_pylist())
    columns = [part.column(name) for name in part.column_names if name.startswith("c")]
    arrays = [to_numpy(column) for column in columns if column.null_count == 0]
    return Block(arrays, to_numpy(part.column("weight")), size)
