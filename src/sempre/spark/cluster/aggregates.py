"""Aggregates in heads: one row per group, the best or the total of what was derived for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sempre.analysis.model import Kind, Relation
from sempre.data import dataclass
from sempre.kernel.functors import Fault
from sempre.kernel.reduce import Groups, weighted_sums
from sempre.kernel.values import Values
from sempre.spark.cluster.column_types import WEIGHT, from_arrow, names_of, to_arrow
from sempre.spark.cluster.compute import arrow_schema, spark_schema
from sempre.spark.cluster.scratch import Scratch
from sempre.spark.failures import fault_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BEST = "best"


def _parts(relation: Relation) -> tuple[str, int, str, list[str]]:
    """What is aggregated: the kind, the column's number and name, and the names of the others."""
    assert relation.aggregate is not None
    kind, column = relation.aggregate
    names = names_of(relation.kinds)
    return kind, column, names[column], [name for name in names if name != names[column]]


def _order(column: Column, kind: Kind) -> Column:
    """A column that orders like the values; applied twice, it gives them back."""
    from pyspark.sql import functions as fn

    return column.bitwiseXOR(fn.lit(-(1 << 63))) if kind is Kind.UNSIGNED else column


def best(df: DataFrame, relation: Relation) -> DataFrame:
    """The row with the least or greatest value of each group."""
    from pyspark.sql import functions as fn

    kind, column, name, others = _parts(relation)
    pick = fn.min if kind == "min" else fn.max
    operand = relation.kinds[column]
    found = df.groupBy(*others).agg(pick(_order(fn.col(name), operand)).alias(name))
    found = found.withColumn(name, _order(fn.col(name), operand))
    return found.filter(fn.col(name).isNotNull()).select(*names_of(relation.kinds))


def groups(df: DataFrame, relation: Relation) -> DataFrame:
    """One row of each group."""
    from pyspark.sql import functions as fn

    _, _, name, others = _parts(relation)
    found = df.groupBy(*others).agg(fn.min(name).alias(name))
    return found.filter(fn.col(name).isNotNull()).select(*names_of(relation.kinds))


def in_groups(df: DataFrame, given: DataFrame, relation: Relation) -> DataFrame:
    """The rows of `df` in the groups of `given`."""
    from pyspark.sql import functions as fn

    _, _, _, others = _parts(relation)
    if not others:
        return df.join(given.select(fn.lit(0).alias("two")).limit(1), fn.lit(True), "left_semi")
    return df.join(given.select(*others), on=others, how="left_semi")


def beaten_rows(held: DataFrame, offered: DataFrame, relation: Relation, better: bool) -> DataFrame:
    """The held rows whose group has an offer that is better, or one that is not."""
    from pyspark.sql import functions as fn

    kind, column, name, others = _parts(relation)
    offers = offered.select(*others, fn.col(name).alias(BEST))
    joined = held.join(offers, on=others) if others else held.crossJoin(offers)
    operand = relation.kinds[column]
    mine, theirs = _order(fn.col(name), operand), _order(fn.col(BEST), operand)
    wins = theirs < mine if kind == "min" else theirs > mine
    return joined.filter(wins if better else ~wins).select(*names_of(relation.kinds))


def totals(scratch: Scratch, df: DataFrame, relation: Relation) -> DataFrame:
    """`sum` or `count` per group of rows with weights."""
    from pyspark.sql import functions as fn

    kind, column, name, others = _parts(relation)
    names = names_of(relation.kinds)
    if kind == "count":
        found = df.groupBy(*others).agg(fn.sum(WEIGHT).alias(name))
        return found.filter(fn.col(name).isNotNull()).select(*names)
    # One row per group: all its terms, for the kernel to add.
    grouped = df.groupBy(*others).agg(fn.collect_list(name).alias(name), fn.collect_list(WEIGHT).alias(WEIGHT))
    run = KernelTotals(relation.name, column, relation.kinds)
    columns = list(zip(names, relation.kinds, strict=True))
    return scratch.mapped(grouped.filter(fn.size(name) > 0), run, spark_schema(columns))


@dataclass(frozen=True, slots=True)
class KernelTotals:
    """The sum of every list with weights, by the kernel: a function for `mapInArrow`."""

    relation: str
    column: int
    kinds: tuple[Kind, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names, kind = names_of(self.kinds), self.kinds[self.column]
        for batch in batches:
            values = Values()
            if not batch.num_rows:
                continue
            terms, weights = (batch.column(batch.schema.names.index(n)) for n in (names[self.column], WEIGHT))
            try:
                offsets = terms.offsets.to_numpy()
                column = from_arrow(values, terms.flatten(), kind)
                groups = Groups(column, np.asarray(offsets[:-1], np.intp), np.diff(offsets))
                sums = weighted_sums(kind.value, groups, from_arrow(values, weights.flatten(), Kind.NUMBER))
            except Fault as fault:
                raise RuntimeError(fault_text(-1, fault)) from None
            arrays = [
                to_arrow(values, sums, kind) if at == self.column else batch.column(batch.schema.names.index(name))
                for at, name in enumerate(names)
            ]
            schema = arrow_schema(list(zip(names, self.kinds, strict=True)))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
