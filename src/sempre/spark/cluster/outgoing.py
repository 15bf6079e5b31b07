"""Rows of the cluster's as Arrow of the relation: part by part, and without codes of the driver's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sempre.analysis.model import Relation
from sempre.files.columns import schema_of, unit_table
from sempre.kernel.select import Selection
from sempre.spark.cluster.tables import Table, Version
from sempre.spark.cluster.values import to_arrow

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame


def reader_of(rows: Table, relation: Relation) -> pa.RecordBatchReader:
    """All rows, of which one batch at a time is in memory; for relations with columns."""
    rows.store.settle([rows])
    files = sorted(rows.path.glob("*.parquet")) if len(rows) else []
    return pa.RecordBatchReader.from_batches(schema_of(relation), _batches(rows, files, relation))


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


def _batches(rows: Table, files: list[Path], relation: Relation) -> Iterator[pa.RecordBatch]:
    """The batches of all files; holds the rows, and so the files, until it has come to its end."""
    schema = schema_of(relation)
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(columns=rows.names):
            yield pa.RecordBatch.from_arrays(
                [_shown(column, field.type) for column, field in zip(batch.columns, schema, strict=True)],
                schema=schema,
            )


def _shown(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column with the type that the relation has in Arrow; unsigned numbers have the same bits."""
    if column.type == pa.int64() and wanted == pa.uint64():
        return column.view(wanted)
    return column if column.type == wanted else column.cast(wanted)
