"""DataFrames of the user's, as those of the cluster, and back: no row passes through the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sempre.analysis.model import Kind, Relation, Type
from sempre.diagnostics import DataError, Diagnostic
from sempre.files.records import RecordError, format_record, parse_record
from sempre.spark.cluster.scratch import Scratch
from sempre.spark.cluster.values import Kinds, Shape, kinds_of, names_of
from sempre.spark.frames import UNSIGNED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LIMIT = 1 << 64
# A type with room for every unsigned number, and one more digit.
WIDE = "decimal(21,0)"
RECORD_HINT = "a record is a string such as [1, [2, nil]]"


def _wide(number: int) -> Column:
    """A number that may be too large for a bigint."""
    from pyspark.sql import functions as fn

    return fn.lit(str(number)).cast(WIDE)


def checked(scratch: Scratch, chosen: DataFrame, relation: Relation, types: Mapping[str, Type]) -> DataFrame:
    """The columns as plain values; raises `DataError` for nulls and for values that no relation can hold."""
    from pyspark.sql import functions as fn

    names = names_of(relation.kinds)
    given = dict(chosen.dtypes)
    for name, kind in zip(names, relation.kinds, strict=True):
        if given[name] == "timestamp_ntz":
            _fail(relation, name, "E509", "timestamp_ntz cannot stay on the cluster", "cast it to a timestamp")
        if kind is Kind.SYMBOL and given[name] != "string":
            chosen = chosen.withColumn(name, fn.col(name).cast("string"))
    tests = [(name, *test) for name, kind in zip(names, relation.kinds, strict=True) for test in _tests(name, kind)]
    counts = chosen.agg(*(fn.count(fn.when(test, 1)).alias(f"t{at}") for at, (_, _, _, _, test) in enumerate(tests)))
    found = counts.toArrow().to_pylist()[0]
    for at, (name, code, message, hint, _) in enumerate(tests):
        if found[f"t{at}"]:
            _fail(relation, name, code, f"{found[f't{at}']:,} {message}", hint)
    if Kind.RECORD in relation.kinds:
        chosen = _with_records(scratch, chosen, relation, types)
    return plain(chosen, relation)


def _with_records(scratch: Scratch, chosen: DataFrame, relation: Relation, types: Mapping[str, Type]) -> DataFrame:
    """With every record written in the one way that counts; raises `DataError` for texts that are no records."""
    from pyspark.sql import functions as fn
    from pyspark.sql.types import StringType, StructField, StructType

    run = OneText(kinds_of(relation, types))
    schema = StructType([*chosen.schema.fields, *(StructField(why, StringType()) for _, why, _ in run.records)])
    written = scratch.mapped(chosen, run, schema)
    tests = [test for _, why, _ in run.records for test in (fn.count(why).alias(f"n{why}"), fn.min(why).alias(why))]
    found = written.agg(*tests).toArrow().to_pylist()[0]
    for name, why, _ in run.records:
        if found[why] is not None:
            noun = "text is" if found[f"n{why}"] == 1 else "texts are"
            _fail(relation, name, "E507", f"{found[f'n{why}']:,} {noun} not of its type: {found[why]}", RECORD_HINT)
    return written.select(*names_of(relation.kinds))


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
    if kind in (Kind.SYMBOL, Kind.RECORD):
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


@dataclass(frozen=True, slots=True)
class OneText:
    """Records as the text that equal ones share, null where a text is none: a function for `mapInArrow`.

    After the columns there is one per column of records, with what is wrong where something is.
    """

    kinds: Kinds

    @property
    def records(self) -> list[tuple[str, str, Shape]]:
        """The columns of records, those for what is wrong with them, and their shapes."""
        columns = zip(names_of(self.kinds), self.kinds, strict=True)
        return [(name, f"why_{name}", form) for name, form in columns if isinstance(form, Shape)]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name, why, shape in self.records:
                encoded = columns[name].dictionary_encode()
                pairs = [_one_text(text, shape) for text in encoded.dictionary.to_pylist()]
                for at, column in enumerate((name, why)):
                    columns[column] = pa.array([pair[at] for pair in pairs], pa.string()).take(encoded.indices)
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _one_text(text: str, shape: Shape) -> tuple[str | None, str | None]:
    try:
        return format_record(parse_record(text, shape.type, shape.types), shape.type, shape.types), None
    except RecordError as error:
        return None, f"{error}"
