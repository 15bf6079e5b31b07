"""DataFrames of the user's, as those of the cluster, and back: no row passes through the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sempre.analysis.model import Kind, Relation
from sempre.diagnostics import NOWHERE, DataError, Span
from sempre.spark.cluster.values import names_of
from sempre.spark.frames import UNSIGNED, not_text, nulls, out_of_range, unfit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LIMIT = 1 << 64
# A type with room for every unsigned number, and one more digit.
WIDE = "decimal(21,0)"


def _wide(number: int) -> Column:
    """A number that may be too large for a bigint."""
    from pyspark.sql import functions as fn

    return fn.lit(str(number)).cast(WIDE)


def checked(chosen: DataFrame, relation: Relation, span: Span = NOWHERE) -> tuple[DataFrame, int]:
    """The columns as plain values, and how many rows there are, by one job that gives nothing but numbers.

    Raises `DataError` for every column with nulls or with values that no relation can hold.
    """
    from pyspark.sql import functions as fn

    columns = list(zip(names_of(relation.kinds), relation.columns, relation.kinds, strict=True))
    tests = [test for name, _, kind in columns for test in (fn.col(name).isNull(), _is_odd(name, kind))]
    counts = [fn.count(fn.when(test, 1)).alias(f"t{at}") for at, test in enumerate(tests)]
    row = chosen.agg(fn.count(fn.lit(1)).alias("rows"), *counts).toArrow().to_pylist()[0]
    found = []
    for at, (_, column, kind) in enumerate(columns):
        empty, odd = row[f"t{2 * at}"], row[f"t{2 * at + 1}"]
        if empty or odd:
            error = nulls(empty) if empty else out_of_range() if kind is Kind.UNSIGNED else not_text()
            found.append(unfit(relation, column, error, span))
    if found:
        raise DataError(found)
    # It is read again to be taken, and may be another by then.
    changed = fn.raise_error(fn.lit(f"the source of relation `{relation.name}` has changed while it was read"))
    sound = chosen.select(*(fn.coalesce(fn.col(name), changed).alias(name) for name, _, _ in columns))
    return plain(sound, relation), int(row["rows"])


def plain(df: DataFrame, relation: Relation) -> DataFrame:
    """The columns of a relation, in order, as plain values; they are known to be such."""
    named_df = df.toDF(*names_of(relation.kinds))
    types = dict(named_df.dtypes)
    columns = zip(names_of(relation.kinds), relation.kinds, strict=True)
    return named_df.select(*(_plain(name, kind, types[name]).alias(name) for name, kind in columns))


def _is_odd(name: str, kind: Kind) -> Column:
    """Whether a value is one that no relation can hold."""
    from pyspark.sql import functions as fn

    col = fn.col(name)
    if kind in (Kind.SYMBOL, Kind.RECORD):
        return ~fn.is_valid_utf8(col)
    if kind is Kind.UNSIGNED:
        return (col < 0) | (col.cast(WIDE) >= _wide(LIMIT))
    return fn.lit(False)


def _plain(name: str, kind: Kind, given: str) -> Column:
    from pyspark.sql import functions as fn

    col = fn.col(name)
    if kind is Kind.FLOAT:
        return col.cast("double") + fn.lit(0.0)  # one zero
    if kind is Kind.UNSIGNED and given.startswith("decimal"):
        wide = col.cast(WIDE)
        return fn.when(wide >= _wide(LIMIT // 2), wide - _wide(LIMIT)).otherwise(wide).cast("bigint")
    return col


def named(df: DataFrame, relation: Relation) -> DataFrame:
    """The rows with the names of the relation's columns; unsigned numbers as what Spark has for them."""
    from pyspark.sql import functions as fn

    if not relation.arity:
        return df.select()
    columns = []
    for name, kind, shown in zip(names_of(relation.kinds), relation.kinds, relation.columns, strict=True):
        col = fn.col(name)
        if kind is Kind.UNSIGNED:
            wide = col.cast(WIDE)
            col = fn.when(col < 0, wide + _wide(LIMIT)).otherwise(wide).cast(UNSIGNED)
        columns.append(col.alias(shown))
    return df.select(*columns)
