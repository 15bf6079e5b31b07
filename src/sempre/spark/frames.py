"""DataFrames to the Arrow tables of relations, and back.

What a value becomes is decided here and on the Spark side of the border, by expressions that no setting of the session
changes: columns are renamed by place before they are named, so that neither case nor dots matter; instants cross as
microseconds since 1970 in UTC and dates as days, so that no time zone matters; no cast is made that could fail. Columns
are found by name, see `sempre.files.matching`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sempre.analysis.model import Kind, Relation, Type
from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, DataError, Diagnostic, Span
from sempre.files.columns import RANGES, marked_by_position, unit_table
from sempre.files.instants import CLOCK, DATE, INSTANT, RESTORED, Unsuited, check_suited, restored_type
from sempre.files.matching import BY_NAME, ColumnChoice, ColumnMatch, matched
from sempre.files.value_choice import AS_THEY_ARE, Value, ValueChoice, filled, scaled, unscaled
from sempre.spark.failures import reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

INTEGERS = ("tinyint", "smallint", "int", "bigint", "boolean")
FLOATS = ("float", "double")
# The type that holds every `unsigned`: Spark has no unsigned integers.
UNSIGNED = "decimal(20,0)"
DAYS = (-719_162, 2_932_896)  # 0001-01-01 to 9999-12-31: what Spark promises to handle
MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
# Small results are one file instead of one per core.
ONE_PART_ROWS = 200_000

CASTS = {Kind.NUMBER: "bigint", Kind.UNSIGNED: UNSIGNED, Kind.FLOAT: "double", Kind.SYMBOL: "string"}


@dataclass(frozen=True, slots=True)
class Crossing:
    """The rows of a frame as an Arrow table of the relation, and how its columns were found."""

    table: pa.Table
    source_columns: tuple[str, ...]
    by_name: bool


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """What a frame should give: the columns of a relation, among the `types` of its program, found as in `taking`.

    `what` and `span` are for messages.
    """

    relation: Relation
    types: Mapping[str, Type]
    taking: ColumnChoice = BY_NAME
    what: str = "the DataFrame"
    span: Span = NOWHERE
    values: ValueChoice = AS_THEY_ARE


class Unfit(ValueError):
    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


# --------------------------------------------------------------------------------------------------------- in


def from_frame(df: DataFrame, wanted: WantedColumns) -> Crossing:
    """The rows of `df`, in one Spark job.

    Raises `DataError` naming every column whose type has no place in a relation, or that has nulls.
    """
    relation = wanted.relation
    if not relation.arity:
        with reading(wanted.what, wanted.span):
            names = tuple(df.columns)
            matched(relation, names, wanted.what, wanted.taking, span=wanted.span)
            return Crossing(unit_table(not df.isEmpty()), (), True)
    chosen, names, found = chosen_columns(df, wanted)
    with reading(wanted.what, wanted.span):
        if wanted.values.drop_nulls:
            chosen = without_nulls(chosen)
        table = chosen.toArrow()
    table = finished(table, relation, wanted.span, wanted.values)
    return Crossing(table if found.by_name else marked_by_position(table), names, found.by_name)


def chosen_columns(df: DataFrame, wanted: WantedColumns) -> tuple[DataFrame, tuple[str, ...], ColumnMatch]:
    """The columns of a relation as `c0`, `c1` and so on, the names they had, and how they were found."""
    relation, what, span = wanted.relation, wanted.what, wanted.span
    with reading(what, span):
        fields = list(df.schema.fields)
    names = tuple(field.name for field in fields)
    found = matched(relation, names, what, wanted.taking, span=span)
    placed = df.toDF(*(f"c{place}" for place in range(len(names))))
    columns = _expressions(wanted, fields, found.places)
    with reading(what, span):
        return placed.select(*(column.alias(f"c{at}") for at, column in enumerate(columns))), names, found


def _expressions(wanted: WantedColumns, fields: list[Any], places: Sequence[int]) -> list[Column]:
    """One expression per column of the relation, over columns named by their place; raises for all that do not fit."""
    relation = wanted.relation
    columns: list[Column] = []
    found: list[Diagnostic] = []
    for name, type_, place in zip(relation.columns, relation.types, places, strict=True):
        field = fields[place]
        try:
            given = field.dataType.simpleString()
            check_instants(given, type_, wanted.types, field.name)
            mended = Mended(wanted.values.fill(name), wanted.values.takes_decimals(name))
            columns.append(column_expression(f"c{place}", given, type_.kind, field.name, mended))
        except Unfit as error:
            found.append(unfit(relation, name, error, wanted.span))
    if found:
        raise DataError(found)
    return columns


def check_instants(given: str, type_: Type, types: Mapping[str, Type], name: str) -> None:
    """Raise if a date comes where the declared type says an instant, or the other way round."""
    if given not in RESTORED:
        return
    quoted = _quoted(name)
    casts = {DATE: f"to_date({quoted})", INSTANT: f"cast({quoted} as timestamp)"}
    casts[CLOCK] = f"cast({quoted} as timestamp_ntz)"
    try:
        check_suited(given, type_, types, casts)
    except Unsuited as error:
        raise Unfit("E509", str(error), error.hint) from None


@dataclass(frozen=True, slots=True)
class Mended:
    """What was asked for of one column: a value in the place of nulls, and that decimals are taken."""

    fill: Value | None = None
    decimals: bool = False


PLAIN = Mended()


def column_expression(column: str, given: str, kind: Kind, name: str, mended: Mended = PLAIN) -> Column:
    """The column as Spark should send it; decimals with a declared scale come as they are."""
    from pyspark.sql import functions as fn

    if mended.decimals and kind is not Kind.FLOAT and not given.startswith("decimal("):
        hint = "Leave its scale out of `decimals`, if it holds what the numbers stood for."
        raise Unfit("E509", f"a column of type {given} has no decimals", hint)
    if mended.decimals and given.startswith("decimal("):
        col = fn.col(column)
        return _or_else(col.cast("double"), kind, mended) if kind is Kind.FLOAT else col
    return _or_else(_expression(column, given, kind, name), kind, mended)


def _or_else(col: Column, kind: Kind, mended: Mended) -> Column:
    """With a value in the place of nulls."""
    from pyspark.sql import functions as fn

    if mended.fill is None:
        return col
    fill = fn.lit(str(mended.fill)).cast(UNSIGNED) if kind is Kind.UNSIGNED else fn.lit(mended.fill)
    return fn.coalesce(col, fill if kind is Kind.UNSIGNED else fill.cast(CASTS.get(kind, "string")))


def _expression(column: str, given: str, kind: Kind, name: str) -> Column:
    from pyspark.sql import functions as fn

    col = fn.col(column)
    is_text = given == "string" or given.startswith(("string ", "varchar(", "char("))
    if kind in (Kind.SYMBOL, Kind.RECORD):
        if is_text:
            return col.cast("string")
    elif kind is Kind.FLOAT:
        if given in FLOATS + INTEGERS[:-1]:
            return col.cast("double")
    elif given in INTEGERS:
        return col.cast("bigint")
    elif given == "date":
        return fn.unix_date(col).cast("bigint")
    elif given == "timestamp":
        return fn.unix_micros(col)
    elif given == "timestamp_ntz":
        return _micros_of_ntz(col)
    elif given == UNSIGNED and kind is Kind.UNSIGNED:
        return col
    raise Unfit("E509", f"a column of type {given} cannot be read", _cast(given, kind, name))


def crossing_type(given: str, kind: Kind, mended: Mended = PLAIN) -> str:
    """The type of the column as Spark sends it, where `column_expression` finds one."""
    if mended.decimals and given.startswith("decimal(") and kind is not Kind.FLOAT:
        return given
    if mended.fill is not None and kind is Kind.UNSIGNED:
        return UNSIGNED
    if kind in (Kind.SYMBOL, Kind.RECORD):
        return "string"
    if kind is Kind.FLOAT:
        return "double"
    return UNSIGNED if given == UNSIGNED else "bigint"


def _micros_of_ntz(col: Column) -> Column:
    """Microseconds since 1970, as the clock shows; casts to a timestamp would be read in the session's time zone."""
    from pyspark.sql import functions as fn

    seconds = fn.extract(fn.lit("SECOND"), col)  # a decimal with all six digits
    minutes = (fn.unix_date(col.cast("date")).cast("bigint") * 24 + fn.hour(col)) * 60 + fn.minute(col)
    return minutes * 60_000_000 + (seconds * 1_000_000).cast("bigint")


def _cast(given: str, kind: Kind, name: str) -> str:
    """What to write so that a column of type `given` fits."""
    quoted = _quoted(name)
    if kind is Kind.RECORD:
        return "Write records as strings such as [1, [2, nil]]."
    if given.startswith(("struct<", "array<", "map<")):
        advice = f"to_json({quoted})" if kind is Kind.SYMBOL else f"{quoted}.FIELD or explode({quoted})"
        return f"Write {advice} in the query that makes the table."
    if given == "binary":
        return f"Write hex({quoted}) or cast({quoted} as string), and declare the column as a symbol."
    return f"Write cast({quoted} as {CASTS[kind]}) in the query that makes the table."


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


def without_nulls(df: DataFrame) -> DataFrame:
    """The rows without a null; `DataFrame.dropna` would drop NaN too."""
    from pyspark.sql import functions as fn

    for name in df.columns:
        df = df.filter(fn.col(name).isNotNull())
    return df


def finished(table: pa.Table, relation: Relation, span: Span, values: ValueChoice = AS_THEY_ARE) -> pa.Table:
    """What Spark sent, with the names and types of the relation; raises for every column with nulls or bad values."""
    found: list[Diagnostic] = []
    arrays = []
    for name, kind, column in zip(relation.columns, relation.kinds, table.columns, strict=True):
        try:
            arrays.append(_finish(column, kind, values, name))
        except Unfit as error:
            found.append(unfit(relation, name, error, span))
    if found:
        raise DataError(found)
    return pa.Table.from_arrays(arrays, names=list(relation.columns))


def _finish(column: pa.ChunkedArray, kind: Kind, values: ValueChoice, name: str) -> pa.ChunkedArray:
    scale = values.scale(name)
    if scale is not None:
        try:
            column = filled(scaled(column, kind, scale), kind, values.fill(name))
        except pa.ArrowInvalid:
            raise Unfit(*unscaled(scale)) from None
    if column.null_count:
        raise nulls(column.null_count)
    given = column.type
    if pa.types.is_decimal(given):
        return _unsigned(column)
    if kind is Kind.UNSIGNED and pa.types.is_integer(given):
        return _unsigned(column)
    if kind in (Kind.SYMBOL, Kind.RECORD):
        _check_text(column)
    return column


def _unsigned(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.uint64())
    except pa.ArrowInvalid:
        raise out_of_range() from None


def _check_text(column: pa.ChunkedArray) -> None:
    """Spark's strings may hold any bytes."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raise not_text() from None


def nulls(count: int) -> Unfit:
    hint = "Remove the rows, or fill in a value; nulls=drop in .input leaves them out."
    return Unfit("E508", f"{count:,} {'null' if count == 1 else 'nulls'}", hint)


def out_of_range() -> Unfit:
    low, high = RANGES[Kind.UNSIGNED]
    return Unfit("E504", "a value is out of range", f"Use a value from {low} to {high}.")


def not_text() -> Unfit:
    return Unfit("E505", "a value is not UTF-8", "Repair it with make_valid_utf8(...).")


def unfit(relation: Relation, column: str, error: Unfit, span: Span) -> Diagnostic:
    """What is wrong with a column of a relation."""
    return Diagnostic(error.code, f"column `{column}` of relation `{relation.name}`: {error}", span, hint=error.hint)


# -------------------------------------------------------------------------------------------------------- out


def to_frame(spark: SparkSession, table: pa.Table, relation: Relation, types: Mapping[str, Type]) -> DataFrame:
    """A DataFrame of `table`, which has the columns of `relation` first and perhaps others after them.

    Dates and timestamps are restored where the declared type says so. Lazy, but for shipping the rows.
    """
    if not table.num_columns:
        return spark.range(table.num_rows).select()
    restored = [restored_type(type_, types) for type_ in relation.types]
    names = table.column_names
    for name, type_, column in zip(names, restored, table.columns, strict=False):
        _check_range(relation, name, type_, column)
    shipped = _shippable(table)
    # One chunk: Spark loses rows of tables that begin with several empty ones.
    df = spark.createDataFrame(shipped.combine_chunks(), _schema(shipped))
    columns = [_restored(f"c{at}", restored[at] if at < len(restored) else "") for at in range(len(names))]
    df = df.select(*(column.alias(name) for column, name in zip(columns, names, strict=True)))
    return df.coalesce(1 if table.num_rows <= ONE_PART_ROWS else _parts(table.num_rows))


def restored(df: DataFrame, relation: Relation, types: Mapping[str, Type]) -> DataFrame:
    """A DataFrame with the columns of a relation first, dates and timestamps restored where the declared type says so.

    That there are none beyond what Spark can handle is asked for by a job, if there are such columns at all.
    """
    from pyspark.sql import functions as fn

    wanted = [restored_type(type_, types) for type_ in relation.types]
    if not any(wanted):
        return df
    names = df.columns
    placed = df.toDF(*(f"c{at}" for at in range(len(names))))
    ends = [pick(f"c{at}").alias(f"{at}") for at, type_ in enumerate(wanted) if type_ for pick in (fn.min, fn.max)]
    found = placed.agg(*(end.alias(f"e{at}") for at, end in enumerate(ends))).toArrow()
    asked = [at for at, type_ in enumerate(wanted) if type_]
    for at, place in enumerate(asked):
        column = pa.chunked_array([[found.column(2 * at)[0].as_py(), found.column(2 * at + 1)[0].as_py()]], pa.int64())
        _check_range(relation, relation.columns[place], wanted[place], column.drop_null())
    columns = [_restored(f"c{at}", wanted[at] if at < len(wanted) else "") for at in range(len(names))]
    return placed.select(*(column.alias(name) for column, name in zip(columns, names, strict=True)))


def _parts(rows: int) -> int:
    """How many parts to write: Spark would make one of every ten thousand rows."""
    return max(2, min(200, rows // 1_000_000))


def _shippable(table: pa.Table) -> pa.Table:
    arrays = [
        column.cast(pa.decimal128(20, 0)) if pa.types.is_uint64(column.type) else column for column in table.columns
    ]
    fields = [
        pa.field(f"c{at}", array.type, field.nullable)
        for at, (array, field) in enumerate(zip(arrays, table.schema, strict=True))
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _schema(table: pa.Table) -> StructType:
    """The schema of `table`, said rather than found out: an empty table has one too."""
    from pyspark.sql import types

    names = {pa.int64(): types.LongType(), pa.float64(): types.DoubleType(), pa.string(): types.StringType()}
    names[pa.decimal128(20, 0)] = types.DecimalType(20, 0)
    return types.StructType([types.StructField(f.name, names[f.type], f.nullable) for f in table.schema])


def _restored(column: str, type_: str) -> Column:
    from pyspark.sql import functions as fn

    col = fn.col(column)
    if type_ == DATE:
        return fn.date_from_unix_date(col.cast("int"))
    if type_ == INSTANT:
        return fn.timestamp_micros(col)
    if type_ == CLOCK:  # by way of a timestamp, the session's time zone would have a say
        return fn.expr(f"timestampadd(MICROSECOND, {column}, TIMESTAMP_NTZ '1970-01-01 00:00:00')")
    return col


def _check_range(relation: Relation, name: str, type_: str, column: pa.ChunkedArray) -> None:
    """A number that is no date cannot become one."""
    if not type_ or not len(column):
        return
    import pyarrow.compute as pc

    low, high = DAYS if type_ == DATE else MICROSECONDS
    ends = pc.min_max(column).as_py()
    for value in (ends["min"], ends["max"]):
        if not low <= value <= high:
            message = f"column `{name}` of relation `{relation.name}`: {value} is no {type_}"
            hint = f"Declare the column as a number: a {type_} lies between the years 1 and 9999."
            raise DataError(Diagnostic("E504", message, hint=hint))
