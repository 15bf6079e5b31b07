"""DataFrames of the user's, as those of the cluster, and back: no row passes through the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sempre.analysis.model import Kind, Relation
from sempre.diagnostics import DataError, Diagnostic
from sempre.spark.cluster.values import names_of
from sempre.spark.frames import UNSIGNED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LIMIT = 1 << 64
# A type with room for every unsigned number, and one more digit.
WIDE = "decimal(21,0)"


def _wide(number: int) -> Column:
    """A number that may be too large for a bigint."""
    from pyspark.sql import functions as fn

    return fn.lit(str(number)).cast(WIDE)


def checked(chosen: DataFrame, relation: Relation) -> DataFrame:
    """The columns as plain values; raises `DataError` for nulls and for values that no relation can hold."""
    from pyspark.sql import functions as fn

    names = names_of(relation.kinds)
    types = dict(chosen.dtypes)
    for name, kind in zip(names, relation.kinds, strict=True):
        if types[name] == "timestamp_ntz":
            _fail(relation, name, "E509", "timestamp_ntz cannot stay on the cluster", "cast it to a timestamp")
        if kind is Kind.SYMBOL and types[name] != "string":
            chosen = chosen.withColumn(name, fn.col(name).cast("string"))
    tests = [(name, *test) for name, kind in zip(names, relation.kinds, strict=True) for test in _tests(name, kind)]
    counts = chosen.agg(*(fn.count(fn.when(test, 1)).alias(f"t{at}") for at, (_, _, _, _, test) in enumerate(tests)))
    found = counts.toArrow().to_pylist()[0]
    for at, (name, code, message, hint, _) in enumerate(tests):
        if found[f"t{at}"]:
            _fail(relation, name, code, f"{found[f't{at}']:,} {message}", hint)
    return plain(chosen, relation)


def plain(df: DataFrame, relation: Relation) -> DataFrame:
    """The columns of a relation, in order, as plain values; they are known to be such."""
    named_df = df.toDF(*names_of(relation.kinds))
    types = dict(named_df.dtypes)
    columns = zip(names_of(relation.kinds), relation.kinds, strict=True)
    return named_df.select(*(_plain(name, kind, types[name]).alias(name) for name, kind in columns))


def _tests(name: str, kind: Kind) -> list[tuple[str, str, str, Column]]:
    """What must not be in a column: code, message, hint, and how it is recognized."""
    from pyspark.sql import functions as fn

    col = fn.col(name)
    found = [("E508", "nulls", "remove the rows or fill in a value", col.isNull())]
    if kind is Kind.SYMBOL:
        found.append(("E505", "values are not UTF-8", "make_valid_utf8(...) repairs them", ~fn.is_valid_utf8(col)))
    if kind is Kind.UNSIGNED:
        hint = f"a value of `unsigned` is from 0 to {LIMIT - 1}"
        found.append(("E504", "values are out of range", hint, (col < 0) | (col.cast(WIDE) >= _wide(LIMIT))))
    return found


def _fail(relation: Relation, name: str, code: str, message: str, hint: str) -> None:
    column = relation.columns[names_of(relation.kinds).index(name)]
    message = f"column `{column}` of relation `{relation.name}`: {message}"
    raise DataError(Diagnostic(code, message, hint=hint))


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
