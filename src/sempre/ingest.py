"""Rows in: whatever people hold them in, as encoded columns.

Accepted: iterables of tuples (or scalars, for one column) or dicts, Arrow tables and batches, pandas and polars
frames. Columns are found by name, see `sempre.files.matching`; tuples go by position. Values are checked against the
declared types; what does not fit is a `DataError` that names relation, column and value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from sempre.analysis.model import Kind, Relation, Type
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic
from sempre.files.arrays import numbers_of
from sempre.files.columns import is_by_position
from sempre.files.instants import Unsuited, whole_numbers
from sempre.files.matching import BY_NAME, ColumnChoice, matched
from sempre.files.record_codes import codes_of
from sempre.files.records import RecordError, parse_record
from sempre.kernel.layout import Column
from sempre.kernel.values import Values, float_codes
from sempre.plan.backend import Rows

# Beyond this a record is taken to contain itself.
DEEPEST_RECORD = 1_000_000
LONGEST_SHOWN = 200
# Fewer texts than this are numbered column by column.
FEW_TEXTS = 1 << 16

Coded: TypeAlias = "dict[int, Column]"

INTEGER_RANGES = {Kind.NUMBER: (-(1 << 63), (1 << 63) - 1), Kind.UNSIGNED: (0, (1 << 64) - 1)}


@dataclass(frozen=True, slots=True)
class Parts:
    """Rows of one relation, some of them in the driver, as a table, and some on the cluster; either may be missing.

    `by_position`: the columns of what is on the cluster were taken by position.
    """

    in_driver: Any = None
    on_cluster: Rows | None = None
    by_position: bool = False


# How the two requests are said in Python, for hints.
IN_PYTHON = ("sempre.by_position(...)", 'sempre.by_name(..., extra="ignore")')


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows, and how their columns are to be found."""

    rows: Any
    taking: ColumnChoice


def by_position(rows: Any) -> GivenRows:
    """Rows whose columns are taken in the order they have, whatever their names are.

    Parameters
    ----------
    rows
        Anything that `Database.apply` takes: Arrow, pandas, polars or Spark DataFrames, dicts.

    >>> import pyarrow as pa
    >>> by_position(pa.table({"from": ["a"], "to": ["b"]})).taking.by_position
    True
    """
    return GivenRows(rows, ColumnChoice(by_position=True, requests=IN_PYTHON))


def by_name(rows: Any, *, extra: str = "error") -> GivenRows:
    """Rows whose columns are taken by name, as they always are; `extra="ignore"` leaves out those of other names.

    Parameters
    ----------
    rows
        Anything that `Database.apply` takes and that has names.
    extra
        `error` or `ignore`: what to do with columns that the relation does not have.
    """
    if extra not in ("error", "ignore"):
        raise DataError(f"`extra` is error or ignore, not {extra!r}")
    return GivenRows(rows, ColumnChoice(extra=extra == "ignore", requests=IN_PYTHON))


def split_given(rows: Any) -> tuple[Any, ColumnChoice]:
    """Rows, and how their columns are to be found."""
    return (rows.rows, rows.taking) if isinstance(rows, GivenRows) else (rows, ColumnChoice(requests=IN_PYTHON))


def encode_texts(given: Sequence[tuple[Relation, Any]], values: Values) -> list[Coded]:
    """The codes of the texts in tables, of all of them together; what is not here is for `encode_rows` to look at."""
    wanted: list[tuple[Coded, int, Any]] = []
    found: list[Coded] = []
    for relation, rows in given:
        found.append({})
        table, taking = split_given(rows)
        if type(table).__name__ not in ("Table", "RecordBatch") or Kind.SYMBOL not in relation.kinds:
            continue
        table = _as_arrow(table)
        if table is None:
            continue
        try:
            places = matched(relation, table.column_names, "the table", taking).places
        except DataError:
            continue
        for index, place in enumerate(places):
            column = table.column(place)
            if relation.kinds[index] is Kind.SYMBOL and _is_text(column.type) and not column.null_count:
                wanted.append((found[-1], index, column))
    if sum(len(column) for _, _, column in wanted) < FEW_TEXTS:
        return found
    from sempre.files.symbols import encode_columns

    codes = encode_columns(values.symbols, [column for _, _, column in wanted])
    for (coded, index, _), column in zip(wanted, codes or [], strict=codes is not None):
        coded[index] = column
    return found


def encode_rows(
    relation: Relation,
    rows: Any,
    values: Values,
    types: Mapping[str, Type],
    noted: set[str] | None = None,
    coded: Coded | None = None,
) -> tuple[list[Column], int]:
    """The columns of `rows` as codes, and how many rows there are. Those that are `coded` are not looked at again.

    The relation is `noted` if the rows have named columns that were taken by position.
    """
    rows, taking = split_given(rows)
    encoder = _Encoder(relation, values, types, taking, set() if noted is None else noted, coded)
    table = _as_arrow(rows)
    if table is not None:
        return encoder.table(table)
    return encoder.python(rows)


def _as_arrow(rows: Any) -> Any:
    """The rows as an Arrow table if they are a frame of some kind, else None."""
    module = type(rows).__module__.partition(".")[0]
    if module == "pyarrow":
        import pyarrow as pa

        if isinstance(rows, pa.RecordBatchReader):
            return rows.read_all()
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        return table if isinstance(table, pa.Table) else None
    if module == "pandas" and hasattr(rows, "columns"):
        import pyarrow as pa

        try:
            return pa.Table.from_pandas(rows, preserve_index=False)
        except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
            raise DataError(f"the frame cannot be read: {error}", hint="Give each column one type.") from None
    if module == "polars" and hasattr(rows, "get_columns"):
        return rows.to_arrow()
    return None


def is_spark_frame(rows: Any) -> bool:
    """Whether `rows` is a Spark DataFrame, found out without loading Spark. See `sempre.spark.frames` for these."""
    return type(rows).__module__.startswith("pyspark.")


class _Encoder:
    """Encodes the rows of one relation."""

    def __init__(
        self,
        relation: Relation,
        values: Values,
        types: Mapping[str, Type],
        taking: ColumnChoice = BY_NAME,
        noted: set[str] | None = None,
        coded: Coded | None = None,
    ) -> None:
        self._relation = relation
        self._coded = coded or {}
        self._values = values
        self._types = types
        self._taking = taking
        self._noted = set() if noted is None else noted
        # Most rows have the names of the row before: they are looked at once.
        self._orders: dict[tuple[object, ...], tuple[object, ...]] = {}

    def _fail(self, message: str, hint: str = "") -> DataError:
        return DataError(f"relation `{self._relation.name}`: {message}", hint=hint)

    def _fail_value(self, column: int, value: object) -> DataError:
        name, type_ = self._relation.columns[column], self._relation.types[column]
        kind = type_.kind
        if kind in INTEGER_RANGES and isinstance(value, int):
            low, high = INTEGER_RANGES[kind]
            return self._fail(f"column `{name}`: {shown(value)} does not fit: it must lie between {low} and {high}")
        return self._fail(f"column `{name}` is {kind.value}, and {shown(value)} ({type(value).__name__}) is not")

    def _symbol(self, column: int, value: str) -> int:
        if not is_text(value):
            name = self._relation.columns[column]
            hint = "Half of a surrogate pair is no character: replace it before inserting."
            raise self._fail(f"column `{name}`: {shown(value)} is no text that can be stored or written", hint=hint)
        return self._values.symbols.code(value)

    def _float(self, column: int, value: float) -> int:
        try:
            return int(float_codes(np.array([float(value)]))[0])
        except OverflowError:
            name = self._relation.columns[column]
            raise self._fail(f"column `{name}`: {shown(value)} does not fit in a float") from None

    # ------------------------------------------------------------------------------------------ python values

    def python(self, rows: Any) -> tuple[list[Column], int]:
        try:
            rows = list(rows)
        except TypeError:
            raise self._fail(f"rows must be a sequence of tuples, not {type(rows).__name__}") from None
        tuples = [self._row(row) for row in rows]
        if not self._relation.arity:
            return [], len(tuples)
        columns: Iterable[tuple[object, ...]] = zip(*tuples, strict=True) if tuples else [()] * self._relation.arity
        return [self.column(index, column) for index, column in enumerate(columns)], len(tuples)

    def _row(self, row: Any) -> tuple[object, ...]:
        arity = self._relation.arity
        if isinstance(row, Mapping):
            return self._mapping(row)
        if arity == 1 and not isinstance(row, tuple | list):
            return (row,)
        if not isinstance(row, tuple | list):
            raise self._fail(f"a row must be a tuple of {arity} values, not {row!r}")
        if len(row) != arity:
            raise self._fail(f"a row has {len(row)} values and the relation {arity} columns: {tuple(row)!r}")
        return tuple(row)

    def _mapping(self, row: Mapping[Any, object]) -> tuple[object, ...]:
        keys = tuple(row)
        order = self._orders.get(keys)
        if order is None:
            found = matched(self._relation, [str(key) for key in keys], "a row", self._taking, made_up=False)
            order = self._orders[keys] = tuple(keys[place] for place in found.places)
            self._note(found.by_name)
        return tuple(row[key] for key in order)

    def _note(self, by_name: bool) -> None:
        if not by_name:
            self._noted.add(self._relation.name)

    def column(self, index: int, column: Sequence[object]) -> Column:
        """Codes of one column of Python values."""
        kind = self._relation.kinds[index]
        nulls = sum(value is None for value in column) if kind is not Kind.RECORD else 0
        if nulls:
            raise self._fail_null(index, nulls)
        one = self._scalar(index, self._relation.types[index])
        return np.array([one(value) for value in column], np.int64) if column else np.empty(0, np.int64)

    def _fail_null(self, column: int, nulls: int) -> DataError:
        name = self._relation.columns[column]
        return self._fail(
            f"column `{name}` has {nulls} null value{'s' if nulls > 1 else ''}",
            hint="Facts have no nulls: drop these rows or fill them before inserting.",
        )

    def _scalar(self, column: int, type_: Type) -> Callable[[Any], int]:
        """The function from a Python value of this type to its code."""
        kind = type_.kind
        if kind is Kind.SYMBOL:
            return self._typed(column, str, partial(self._symbol, column))
        if kind is Kind.FLOAT:
            return self._typed(column, (int, float, np.floating), partial(self._float, column))
        if kind is Kind.RECORD:
            return self._record(column, type_)
        low, high = INTEGER_RANGES[kind]

        def integer(value: int) -> int:
            if not low <= value <= high:
                raise self._fail_value(column, value)
            return int(value) - (1 << 64) if value >= 1 << 63 else int(value)

        return self._typed(column, (int, np.integer), integer)

    def _typed(self, column: int, wanted: Any, encode: Callable[[Any], int]) -> Callable[[Any], int]:
        def checked(value: Any) -> int:
            if not isinstance(value, wanted):
                raise self._fail_value(column, value)
            return encode(value)

        return checked

    def _record(self, column: int, type_: Type) -> Callable[[Any], int]:
        """From a record to its code, from the inside out and without recursion: lists may be long."""
        scalars: dict[str, Callable[[Any], int]] = {}

        def read(type_: Type, value: Any) -> Any:
            if not isinstance(value, str):
                return value
            try:
                return parse_record(value, type_, self._types)
            except RecordError as error:
                raise self._fail(f"column `{self._relation.columns[column]}`: {error}") from None

        def parts_of(type_: Type, value: Any) -> Iterator[tuple[Type, Any]]:
            if type_.branches:
                return self._branch(column, type_, value)
            if not isinstance(value, tuple | list) or len(value) != len(type_.fields):
                raise self._fail_value(column, value)
            return zip([self._types[name] for _, name in type_.fields], value, strict=True)

        def scalar(type_: Type, value: Any) -> int:
            if type_.name not in scalars:
                scalars[type_.name] = self._scalar(column, type_)
            return scalars[type_.name](value)

        def encode(value: Any) -> int:
            open_records: list[tuple[Iterator[tuple[Type, Any]], list[int]]] = []
            part: tuple[Type, Any] | None = (type_, value)
            while True:
                if part is not None and part[0].kind is Kind.RECORD:
                    part = (part[0], read(*part))
                if part is not None and part[0].kind is Kind.RECORD and (part[1] is not None or part[0].branches):
                    if len(open_records) == DEEPEST_RECORD:
                        name = self._relation.columns[column]
                        raise self._fail(f"column `{name}`: a record of more than {DEEPEST_RECORD:,} in each other")
                    open_records.append((parts_of(*part), []))
                else:
                    if part is not None:
                        code = 0 if part[0].kind is Kind.RECORD else scalar(*part)
                    else:
                        _, codes = open_records.pop()
                        columns = [np.array([code], np.int64) for code in codes]
                        code = int(self._values.records(len(codes)).encode(columns, 1)[0])
                    if not open_records:
                        return code
                    open_records[-1][1].append(code)
                part = next(open_records[-1][0], None)

        return encode

    def _branch(self, column: int, type_: Type, value: Any) -> Iterator[tuple[Type, Any]]:
        """The number of a branch and what it holds, of a tuple that begins with its name."""
        names = [name for name, _ in type_.branches]
        if not isinstance(value, tuple | list) or not value or value[0] not in names:
            raise self._fail_value(column, value)
        number = names.index(value[0])
        held = self._types[type_.branches[number][1]]
        if len(value) != len(held.fields) + 1:
            raise self._fail_value(column, value)
        return iter([(self._types["number"], number), (held, tuple(value[1:]) if held.fields else None)])

    # ---------------------------------------------------------------------------------------------- arrow

    def table(self, table: Any) -> tuple[list[Column], int]:
        """Columns as `matched` finds them."""
        found = matched(self._relation, table.column_names, "the table", self._taking)
        self._note(found.by_name and not is_by_position(table))
        chosen = [table.column(place) for place in found.places]
        columns = [
            self._coded[index] if index in self._coded else self.arrow(index, column)
            for index, column in enumerate(chosen)
        ]
        return columns, table.num_rows

    def arrow(self, index: int, column: Any) -> Column:
        """Codes of one Arrow column."""
        import pyarrow as pa

        kind = self._relation.kinds[index]
        data = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_dictionary(data.type) and data.dictionary.null_count:
            data = data.dictionary_decode()  # the rows that have it are null, and are not counted as such
        if data.null_count and kind is not Kind.RECORD:
            raise self._fail_null(index, data.null_count)
        type_ = data.type
        if pa.types.is_null(type_) and not len(data):
            return np.empty(0, np.int64)
        if kind is Kind.SYMBOL and _is_text(type_):
            try:
                return self._text(data)
            except UnicodeDecodeError:
                name = self._relation.columns[index]
                hint = "Text in Arrow is UTF-8: decode it before inserting."
                raise self._fail(f"column `{name}` has bytes that are not UTF-8", hint=hint) from None
        if kind is Kind.RECORD:
            is_text = _is_text(type_) and not data.null_count
            return self._record_texts(index, data) if is_text else self.column(index, data.to_pylist())
        if kind is Kind.FLOAT and pa.types.is_floating(type_):
            return float_codes(numbers_of(data.cast(pa.float64())))
        if kind in INTEGER_RANGES:
            return self._integers(index, data, kind)
        raise self._fail_arrow(index, type_)

    def _integers(self, index: int, data: Any, kind: Kind) -> Column:
        try:
            whole = whole_numbers(data, self._relation.types[index], self._types)
        except Unsuited as error:
            message = f"column `{self._relation.columns[index]}` of relation `{self._relation.name}`: {error}"
            raise DataError(Diagnostic("E509", message, hint=error.hint)) from None
        if whole is None:
            raise self._fail_arrow(index, data.type)
        numbers = numbers_of(whole)
        if not numbers.size:
            return np.empty(0, np.int64)
        low, high = INTEGER_RANGES[kind]
        for value in (int(numbers.min()), int(numbers.max())):
            if not low <= value <= high:
                raise self._fail_value(index, value)
        return np.asarray(numbers.astype(np.uint64 if kind is Kind.UNSIGNED else np.int64).view(np.int64))

    def _text(self, data: Any) -> Column:
        """Each different text is interned once, however many rows have it."""
        import pyarrow as pa

        if pa.types.is_dictionary(data.type) and len(data.dictionary) > len(data):
            data = data.dictionary_decode()  # many texts that none of the rows has
        encoded = data if pa.types.is_dictionary(data.type) else data.dictionary_encode()
        codes = self._values.symbols.encode(encoded.dictionary.to_pylist())
        return np.asarray(codes.take(numbers_of(encoded.indices)))

    def _record_texts(self, index: int, data: Any) -> Column:
        import pyarrow as pa

        encoded = data if pa.types.is_dictionary(data.type) else data.dictionary_encode()
        try:
            codes = codes_of(self._values, encoded.dictionary.to_pylist(), self._relation.types[index], self._types)
        except RecordError as error:
            raise self._fail(f"column `{self._relation.columns[index]}`: {error}") from None
        return np.asarray(codes.take(numbers_of(encoded.indices)))

    def _fail_arrow(self, index: int, type_: Any) -> DataError:
        name, kind = self._relation.columns[index], self._relation.kinds[index]
        return self._fail(
            f"column `{name}` is {kind.value}, and the table has {type_}",
            hint=f"Cast it before inserting, for example to {_CASTS[kind]}.",
        )


def is_text(value: str) -> bool:
    """Whether a text can be written as UTF-8; half of a surrogate pair cannot."""
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def shown(value: object) -> str:
    """A value for a message, however large or deep it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or of lists in each other
        return "this value"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


_CASTS = {
    Kind.NUMBER: "int64",
    Kind.UNSIGNED: "uint64",
    Kind.FLOAT: "double",
    Kind.SYMBOL: "string",
    Kind.RECORD: "string",
}


def _is_text(type_: Any) -> bool:
    import pyarrow as pa

    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value))


def encode_value(relation: Relation, column: int, value: Any, values: Values, types: Mapping[str, Type]) -> int:
    """The code of one value of a column."""
    return int(_Encoder(relation, values, types).column(column, [value])[0])
