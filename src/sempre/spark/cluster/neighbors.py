"""Neighbors in a sorted column, range by range: each task sorts a range, and the driver joins what stands at the seams.

Reference: [Hu22] section 6.5. Differs: nothing is kept between epochs; a pass over a sorted column is one job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sempre.analysis.model import Kind
from sempre.data import dataclass
from sempre.kernel.values import Values
from sempre.plan.ops import Neighbors
from sempre.spark.cluster.column_types import Kinds, arrow_type, from_arrow, names_of, spark_type
from sempre.spark.cluster.scratch import Scratch
from sempre.spark.cluster.task_fixpoints import ShareFiles, finish

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FIRST, LAST, PART = "first", "last", "part"


def neighbors(scratch: Scratch, order: Neighbors, rows: DataFrame, kinds: Kinds) -> tuple[PurePath, int]:
    """The neighbors of all rows of `order.source`, written; returns where they are and how many."""
    columns = (*order.groups, order.column)
    if not scratch.is_here:
        written = scratch.write(lambda: _following(_keyed(rows, order, columns), order))
        return written.path, written.num_rows
    with scratch.folders_for_tasks([order.relation]) as targets:
        (target,) = targets.values()
        ranged = Ranges(tuple(kinds[column] for column in columns), str(target))
        reported = scratch.reported(lambda: _sorted(rows, order, columns).mapInArrow(ranged, ranged.report))
        scratch.check_seen(target / file for file in reported.column("file").to_pylist() if file is not None)
        return target, joined(reported, ranged)


def joined(reported: pa.Table, ranged: Ranges) -> int:
    """Keep what tasks wrote, with the neighbors across ranges; returns how many there are."""
    target = Path(ranged.target)
    size = finish(target, reported.column("file").drop_null().to_pylist(), reported.column("rows").to_pylist())
    seams = _seams(reported.sort_by(PART), ranged.kinds)
    if seams.num_rows:
        pq.write_table(seams, target / "seams.parquet")
    return int(size + seams.num_rows)


def _sorted(rows: DataFrame, order: Neighbors, columns: tuple[int, ...]) -> DataFrame:
    """Groups and values in ranges, each sorted; a NaN is nobody's neighbor."""
    chosen = _keyed(rows, order, columns)
    groups, value = _sorting(chosen, order)
    return chosen.repartitionByRange(*groups, *value).sortWithinPartitions(*groups, *value)


def _keyed(rows: DataFrame, order: Neighbors, columns: tuple[int, ...]) -> DataFrame:
    """The groups and the value of every row that can have a neighbor."""
    from pyspark.sql import functions as fn

    chosen = rows.select(*(fn.col(f"c{column}").alias(f"k{at}") for at, column in enumerate(columns)))
    return chosen.filter(~fn.isnan(chosen.columns[-1])) if order.kind is Kind.FLOAT else chosen


def _sorting(chosen: DataFrame, order: Neighbors) -> tuple[list[Column], list[Column]]:
    """The groups, and what values are sorted by: the bits of large unsigned numbers are those of negative ones."""
    from pyspark.sql import functions as fn

    *groups, value = (fn.col(name) for name in chosen.columns)
    return groups, [value < 0, value] if order.kind is Kind.UNSIGNED else [value]


def _following(chosen: DataFrame, order: Neighbors) -> DataFrame:
    """The same by Spark alone, where tasks of ours cannot write: a group is sorted by one task."""
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    groups, value = _sorting(chosen, order)
    *_, last = chosen.columns
    following = fn.lead(last).over(Window.partitionBy(*groups).orderBy(*value)).alias("following")
    pairs = chosen.distinct().select(*chosen.columns, following).filter(fn.col("following").isNotNull())
    return pairs.toDF(*(f"c{at}" for at in range(len(chosen.columns) + 1)))


@dataclass(frozen=True, slots=True)
class Ranges:
    """What a task does with a sorted range: a function for `mapInArrow`. It reports what stands first and last."""

    kinds: Kinds  # of the groups, and of the value
    target: str

    @property
    def report(self) -> Any:
        from pyspark.sql import types

        fields = [types.StructField(PART, types.LongType()), types.StructField("file", types.StringType())]
        fields.append(types.StructField("rows", types.LongType()))
        for side in (FIRST, LAST):
            fields += [types.StructField(f"{side}{at}", spark_type(kind)) for at, kind in enumerate(self.kinds)]
        return types.StructType(fields)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from self.written(context.partitionId(), batches)

    def written(self, part: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the neighbors of one range, and report."""
        first = last = None
        with ShareFiles({"": self.target}) as files:
            for batch in (batch for batch in batches if batch.num_rows):
                table = pa.Table.from_batches([batch])
                # The row before goes along, so that batches have no seams.
                table = table if last is None else pa.concat_tables([last, table])
                first = first or table.slice(0, 1)
                last = table.slice(table.num_rows - 1)
                pairs = _pairs(table, self.kinds)
                if pairs.num_rows:
                    files.write("", pairs)
        if first is None or last is None:
            return
        (written,) = [*files.report()] or [None]
        row: dict[str, Any] = {PART: pa.array([part], pa.int64())}
        row["file"] = written.column("file") if written else pa.array([None], pa.string())
        row["rows"] = written.column("rows") if written else pa.array([0], pa.int64())
        for side, table in ((FIRST, first), (LAST, last)):
            for at, kind in enumerate(self.kinds):
                row[f"{side}{at}"] = table.column(at).combine_chunks().cast(arrow_type(kind))
        yield pa.RecordBatch.from_pydict(row)


def _pairs(table: pa.Table, kinds: Kinds) -> pa.Table:
    """Rows that stand next to each other in one group and have different values."""
    values = Values()
    codes = [from_arrow(values, table.column(at), kind) for at, kind in enumerate(kinds)]
    mine = codes[-1][1:] != codes[-1][:-1]
    for column in codes[:-1]:
        mine &= column[1:] == column[:-1]
    at = np.flatnonzero(mine)
    return _paired(table.take(at), table.take(at + 1))


def _paired(low: pa.Table, high: pa.Table) -> pa.Table:
    columns = [*low.columns, high.columns[-1]]
    return pa.Table.from_arrays(columns, [f"c{at}" for at in range(len(columns))])


def _seams(reported: pa.Table, kinds: Kinds) -> pa.Table:
    """The last row of a range and the first of the next one that has rows, if they are of one group."""
    sides = [
        pa.Table.from_arrays([reported.column(f"{side}{at}") for at in range(len(kinds))], names_of(kinds))
        for side in (LAST, FIRST)
    ]
    before, after = sides[0].slice(0, max(0, len(reported) - 1)), sides[1].slice(1)
    values = Values()
    same = np.ones(before.num_rows, np.bool_)
    for at, kind in enumerate(kinds[:-1]):
        same &= from_arrow(values, before.column(at), kind) == from_arrow(values, after.column(at), kind)
    found = np.flatnonzero(same)
    return _paired(before.take(found), after.take(found))
