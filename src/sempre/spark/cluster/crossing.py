"""DataFrames of the user's, as those of the cluster, and back: no row passes through the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from sempre.analysis.model import Kind, Relation, Type
from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, DataError, Span
from sempre.files.records import RecordError, format_record, parse_record
from sempre.spark.cluster.column_types import Kinds, RecordShape, kinds_of, names_of
from sempre.spark.cluster.scratch import Scratch
from sempre.spark.frames import UNSIGNED, Unfit, not_text, nulls, out_of_range, unfit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

UNSIGNED_END = 1 << 64
# A type with room for every unsigned number, and one more digit.
WIDE = "decimal(21,0)"
RECORD_HINT = "Write records as strings such as [1, [2, nil]]."
# Makes the error for texts that are no records.
NoRecords: TypeAlias = "Callable[[Relation, Sequence[BadTexts], Span], DataError]"


def _wide(number: int) -> Column:
    """A number that may be too large for a bigint."""
    from pyspark.sql import functions as fn

    return fn.lit(str(number)).cast(WIDE)


@dataclass(frozen=True, slots=True)
class BadTexts:
    """How many texts of a column are no records, and what is wrong with one of them."""

    column: str
    count: int
    why: str


def not_records(relation: Relation, bad: Sequence[BadTexts], span: Span) -> DataError:
    """The error for texts that are no records."""
    found = []
    for texts in bad:
        noun = "text is" if texts.count == 1 else "texts are"
        error = Unfit("E507", f"{texts.count:,} {noun} not of its type: {texts.why}", RECORD_HINT)
        found.append(unfit(relation, texts.column, error, span))
    return DataError(found)


def checked(
    scratch: Scratch,
    chosen: DataFrame,
    relation: Relation,
    types: Mapping[str, Type],
    span: Span = NOWHERE,
    carried: Sequence[str] = (),
    no_records: NoRecords = not_records,
) -> tuple[DataFrame, int]:
    """The columns as plain values, and how many rows there are, by one job that gives nothing but numbers.

    Columns that are `carried` come along as they are. Raises `DataError` for every column with nulls or with values
    that no relation can hold; `no_records` makes that for texts.
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
    sound = chosen.select(*(fn.coalesce(fn.col(name), changed).alias(name) for name, _, _ in columns), *carried)
    if Kind.RECORD in relation.kinds:
        sound, bad = _with_records(scratch, sound, relation, types)
        if bad:
            raise no_records(relation, bad, span)
    return plain(sound, relation, carried), int(row["rows"])


def _with_records(
    scratch: Scratch, chosen: DataFrame, relation: Relation, types: Mapping[str, Type]
) -> tuple[DataFrame, list[BadTexts]]:
    """With every record written in the one way that counts, and what is wrong with texts that are none."""
    from pyspark.sql import functions as fn
    from pyspark.sql.types import StringType, StructField, StructType

    run = OneText(kinds_of(relation, types))
    schema = StructType([*chosen.schema.fields, *(StructField(why, StringType()) for _, why, _ in run.records)])
    written = scratch.mapped(chosen, run, schema)
    tests = [test for _, why, _ in run.records for test in (fn.count(why).alias(f"n{why}"), fn.min(why).alias(why))]
    found = written.agg(*tests).toArrow().to_pylist()[0]
    columns = zip(run.records, _record_columns(relation), strict=True)
    bad = [BadTexts(column, found[f"n{why}"], found[why]) for (_, why, _), column in columns if found[why] is not None]
    return written.select(*chosen.columns), bad


def _record_columns(relation: Relation) -> list[str]:
    pairs = zip(relation.columns, relation.kinds, strict=True)
    return [column for column, kind in pairs if kind is Kind.RECORD]


def plain(df: DataFrame, relation: Relation, carried: Sequence[str] = ()) -> DataFrame:
    """The columns of a relation, in order, as plain values; they are known to be such. Those `carried` come after."""
    from pyspark.sql import functions as fn

    named_df = df.toDF(*names_of(relation.kinds), *carried)
    types = dict(named_df.dtypes)
    columns = zip(names_of(relation.kinds), relation.kinds, strict=True)
    values = [_plain(name, kind, types[name]).alias(name) for name, kind in columns]
    return named_df.select(*(values or [fn.lit(0).cast("bigint").alias("c0")]), *carried)


def _is_odd(name: str, kind: Kind) -> Column:
    """Whether a value is one that no relation can hold."""
    from pyspark.sql import functions as fn

    col = fn.col(name)
    if kind in (Kind.SYMBOL, Kind.RECORD):
        return ~fn.is_valid_utf8(col)
    if kind is Kind.UNSIGNED:
        return (col < 0) | (col.cast(WIDE) >= _wide(UNSIGNED_END))
    return fn.lit(False)


def _plain(name: str, kind: Kind, given: str) -> Column:
    from pyspark.sql import functions as fn

    col = fn.col(name)
    if kind is Kind.FLOAT:
        return col.cast("double") + fn.lit(0.0)  # one zero
    if kind is Kind.UNSIGNED and given.startswith("decimal"):
        wide = col.cast(WIDE)
        return fn.when(wide >= _wide(UNSIGNED_END // 2), wide - _wide(UNSIGNED_END)).otherwise(wide).cast("bigint")
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
            col = fn.when(col < 0, wide + _wide(UNSIGNED_END)).otherwise(wide).cast(UNSIGNED)
        columns.append(col.alias(shown))
    return df.select(*columns)


@dataclass(frozen=True, slots=True)
class OneText:
    """Records as the text that equal ones share, null where a text is none: a function for `mapInArrow`.

    After the columns there is one per column of records, with what is wrong where something is.
    """

    kinds: Kinds

    @property
    def records(self) -> list[tuple[str, str, RecordShape]]:
        """The columns of records, those for what is wrong with them, and their shapes."""
        columns = zip(names_of(self.kinds), self.kinds, strict=True)
        return [(name, f"why_{name}", form) for name, form in columns if isinstance(form, RecordShape)]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name, why, shape in self.records:
                encoded = columns[name].dictionary_encode()
                pairs = [_one_text(text, shape) for text in encoded.dictionary.to_pylist()]
                for at, column in enumerate((name, why)):
                    columns[column] = pa.array([pair[at] for pair in pairs], pa.string()).take(encoded.indices)
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _one_text(text: str, shape: RecordShape) -> tuple[str | None, str | None]:
    try:
        return format_record(parse_record(text, shape.type, shape.types), shape.type, shape.types), None
    except RecordError as error:
        return None, f"{error}"
