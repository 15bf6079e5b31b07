"""Rows of the cluster's as Arrow of the relation: part by part, and without codes of the driver's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sempre.analysis.model import Relation
from sempre.files.columns import schema_of, unit_table
from sempre.kernel.select import Selection
from sempre.spark.cluster.column_types import to_arrow
from sempre.spark.cluster.tables import Table, Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def reader_of(rows: Table, relation: Relation) -> pa.RecordBatchReader:
    """All rows, of which one batch at a time is in memory; for relations with columns."""
    rows.store.settle([rows])
    schema = schema_of(relation)
    return pa.RecordBatchReader.from_batches(schema, (_shown(batch, schema) for batch in _batches(rows)))


def table_of(rows: Table, relation: Relation) -> pa.Table:
    """All rows."""
    return reader_of(rows, relation).read_all() if relation.arity else unit_table(len(rows) > 0)


def selected(version: Version, selection: Selection) -> Table:
    """The rows that are selected; `selection` has codes of the driver's."""
    from pyspark.sql import functions as fn

    like, store = version.like, version.like.store
    names = like.names
    wanted = [(names[at], to_arrow(store.values, np.array([code]), like.kinds[at])) for at, code in selection.values]

    def make() -> DataFrame:
        df = version.frame()
        for name, value in wanted:
            df = df.filter(fn.col(name) == fn.lit(value[0].as_py()))
        for left, right in selection.same:
            df = df.filter(fn.col(names[left]) == fn.col(names[right]))
        return df

    return store.lazy(like, make, version.tables(), weighted=False)


def _batches(rows: Table) -> Iterator[pa.RecordBatch]:
    """The rows as they are kept; holds them, and so their files, until it has come to its end."""
    if rows.known_empty:
        return
    if rows.here is not None:
        yield from rows.here.select(rows.names).to_batches()
        return
    if not rows.store.scratch.is_here:
        yield from rows.arrow().select(rows.names).to_batches()
        return
    for file in sorted(Path(rows.path).glob("*.parquet")):
        yield from pq.ParquetFile(file).iter_batches(columns=rows.names)


def _shown(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the names and types that the relation has in Arrow; unsigned numbers have the same bits."""
    arrays = [
        column.view(field.type)
        if column.type == pa.int64() and field.type == pa.uint64()
        else column.cast(field.type)  # nothing is copied if that is what it has
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
