"""Parquet and JSON to the columns of a relation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sempre.analysis.model import Kind, Relation, Type
from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.columns import CODED, RANGES, marked_by_position, schema_of, table_of, unit_table
from sempre.files.instants import Unsuited, whole_numbers
from sempre.files.matching import BY_NAME, ColumnChoice, matched
from sempre.files.records import Value, format_record, parse_record
from sempre.files.value_choice import AS_THEY_ARE, ValueChoice, filled, scaled, unscaled

# ------------------------------------------------------------------------------------------------- Parquet


def read_parquet(
    path: Path,
    relation: Relation,
    types: Mapping[str, Type],
    *,
    values: ValueChoice = AS_THEY_ARE,
    taking: ColumnChoice = BY_NAME,
    coded: bool = False,
) -> pa.Table:
    """The facts of a Parquet file, or of a folder of them; with `coded`, columns of symbols may be dictionaries."""
    import pyarrow.parquet as pq

    try:
        # A dictionary in the file is the one that is handed on: the texts are not written out for every row.
        texts = [each.name for each in pq.read_schema(path) if each.type == pa.string()] if path.is_file() else []
        table = pq.read_table(path, read_dictionary=texts if coded else None)
    except (OSError, pa.ArrowInvalid) as error:
        reason = str(error).splitlines()[0]
        raise _error("E506", f"cannot read `{path}` as Parquet: {reason}", str(path)) from None
    return conform(table, relation, str(path), types, values=values, taking=taking, coded=coded)


def conform(
    table: pa.Table,
    relation: Relation,
    origin: str,
    types: Mapping[str, Type],
    *,
    values: ValueChoice = AS_THEY_ARE,
    taking: ColumnChoice = BY_NAME,
    coded: bool = False,
) -> pa.Table:
    """`table` with the columns and types of `relation`, found as `matched` finds them.

    Raises `DataError` naming each column that does not fit.
    """
    places = matched(relation, table.column_names, f"`{origin}`", taking, span=Span(origin, 0, 0, 0, 0))
    if relation.arity == 0:
        return unit_table(table.num_rows > 0)
    table = table.select(list(places.places))
    table = table.drop_null() if values.drop_nulls else table
    found: list[Diagnostic] = []
    columns = []
    for column, name, type_ in zip(table.columns, relation.columns, relation.types, strict=True):
        try:
            columns.append(_conform_column(column, type_, types, coded, name, values))
        except _Unfit as error:
            message = f"column `{name}` of relation `{relation.name}`: {error}"
            found.append(Diagnostic(error.code, message, Span(origin, 0, 0, 0, 0), hint=error.hint))
    if found:
        raise DataError(found)
    fields = [each.with_type(column.type) for each, column in zip(schema_of(relation), columns, strict=True)]
    made = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    return made if places.by_name else marked_by_position(made)


class _Unfit(ValueError):
    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def _conform_column(
    column: pa.ChunkedArray,
    type_: Type,
    types: Mapping[str, Type],
    coded: bool = False,
    name: str = "",
    values: ValueChoice = AS_THEY_ARE,
) -> pa.ChunkedArray:
    fill = values.fill(name)
    if column.null_count and fill is None:
        noun = "null" if column.null_count == 1 else "nulls"
        raise _Unfit("E508", f"{column.null_count:,} {noun}", "Remove the rows, or fill in a value.")
    given = column.type
    if coded and given == CODED and type_.kind is Kind.SYMBOL and not column.null_count:
        return column
    if pa.types.is_dictionary(given):
        column = column.cast(given.value_type)
        given = given.value_type
    match type_.kind:
        case Kind.NUMBER | Kind.UNSIGNED:
            if values.takes_decimals(name):
                return filled(_conform_decimals(column, type_.kind, values.scale(name) or 0), type_.kind, fill)
            return filled(_conform_integers(column, type_, types), type_.kind, fill)
        case Kind.FLOAT:
            is_number = pa.types.is_floating(given) or pa.types.is_integer(given)
            if not (is_number or (pa.types.is_decimal(given) and values.takes_decimals(name))):
                raise _wrong_type(given, "double", "decimals=float in .input takes the nearest float.")
            return filled(column.cast(pa.float64(), safe=False), type_.kind, fill)
        case Kind.SYMBOL:
            if not (pa.types.is_string(given) or pa.types.is_large_string(given)):
                raise _wrong_type(given, "string")
            return filled(column.cast(pa.string()), type_.kind, fill)
        case Kind.RECORD:
            if not (pa.types.is_string(given) or pa.types.is_large_string(given)):
                raise _wrong_type(given, "string with text such as [1, nil]")
            texts = [_record_text(text, type_, types) for text in filled(column, type_.kind, fill).to_pylist()]
            return pa.chunked_array([pa.array(texts, pa.string())])


def _conform_integers(column: pa.ChunkedArray, type_: Type, types: Mapping[str, Type]) -> pa.ChunkedArray:
    kind = type_.kind
    try:
        whole = whole_numbers(column, type_, types)
    except Unsuited as error:
        raise _Unfit("E509", str(error), error.hint) from None
    if whole is None:
        raise _wrong_type(column.type, "bigint", f'decimals="NAME={getattr(column.type, "scale", 0)}" takes units.')
    try:
        return whole.cast(pa.int64() if kind is Kind.NUMBER else pa.uint64())
    except pa.ArrowInvalid:
        low, high = RANGES[kind]
        raise _Unfit("E504", "a value is out of range", f"Use a value from {low} to {high}.") from None


def _conform_decimals(column: pa.ChunkedArray, kind: Kind, scale: int) -> pa.ChunkedArray:
    if not pa.types.is_decimal(column.type):
        hint = "Leave its scale out of `decimals`, if it holds what the numbers stood for."
        raise _Unfit("E509", f"a column of type {column.type} has no decimals", hint)
    try:
        return scaled(column, kind, scale)
    except pa.ArrowInvalid:
        raise _Unfit(*unscaled(scale)) from None


def _wrong_type(given: pa.DataType, wanted: str, decimals: str = "") -> _Unfit:
    hint = f"Cast it to {wanted} where the file is written."
    if decimals and pa.types.is_decimal(given):
        hint = f"Cast it to {wanted} where the file is written; or {decimals}"
    return _Unfit("E509", f"a column of type {given} cannot be read", hint)


def _record_text(text: str, type_: Type, types: Mapping[str, Type]) -> str:
    try:
        return format_record(parse_record(text, type_, types), type_, types)
    except ValueError as error:
        raise _Unfit("E507", f"`{text}`: {error}", "Write records as [1, [2, nil]].") from None


# ---------------------------------------------------------------------------------------------------- JSON


def read_json(
    data: bytes,
    relation: Relation,
    origin: str,
    types: Mapping[str, Type],
    *,
    layout: str = "list",
    values: ValueChoice = AS_THEY_ARE,
    taking: ColumnChoice = BY_NAME,
) -> pa.Table:
    """The facts of a JSON file: a list of rows or, with the layout `lines`, a row per line.

    A row is a list or an object by column name. `values` says what becomes of nulls.
    """
    rows = _json_lines(data, origin) if layout == "lines" else _json(data, origin, 1)
    if not isinstance(rows, list):
        raise _error("E506", f"`{origin}` must hold a list of rows", origin)
    if relation.arity == 0:
        return unit_table(bool(rows))
    columns: list[list[object]] = [[] for _ in relation.columns]
    names = _Keys(relation, taking)
    found: list[Diagnostic] = []
    for number, row in enumerate(rows, 1):
        try:
            read = _json_row(names.ordered(row), relation, types, values)
        except _Unfit as error:
            message = f"row {number} of `{origin}`: {error}"
            found.append(Diagnostic(error.code, message, Span(origin, 0, 0, 0, 0), hint=error.hint))
            continue
        if read is None:
            continue
        for value, target in zip(read, columns, strict=True):
            target.append(value)
    if found:
        raise DataError(found[:20])
    return table_of(relation, columns)


def _json(text: bytes, origin: str, first: int) -> Any:
    """The value of a JSON text that begins on line `first`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line, column = getattr(error, "lineno", 0), getattr(error, "colno", 0)
        line += first - 1 if line else 0
        span = Span(origin, line, column, line, column + 1)
        reason = getattr(error, "msg", str(error)).lower()
        raise DataError(Diagnostic("E506", f"`{origin}` is not JSON: {reason}", span)) from None


def _json_lines(data: bytes, origin: str) -> list[Any]:
    return [_json(line, origin, number) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]


class _Keys:
    """The values of objects in the order of the relation's columns; most have the keys of the one before."""

    def __init__(self, relation: Relation, taking: ColumnChoice) -> None:
        self._relation = relation
        self._taking = taking
        self._orders: dict[tuple[str, ...], list[str]] = {}

    def ordered(self, row: Any) -> Any:
        if not isinstance(row, dict):
            return row
        keys = tuple(row)
        order = self._orders.get(keys)
        if order is None:
            try:
                found = matched(self._relation, keys, "it", self._taking, made_up=False)
            except DataError as error:
                first = error.diagnostics[0]
                expected = ", ".join(self._relation.columns)
                message = f"expected the keys {expected}, found {', '.join(keys) or 'none'}"
                raise _Unfit("E502", message, first.hint) from None
            order = self._orders[keys] = [keys[place] for place in found.places]
        return [row[name] for name in order]


def _json_row(row: Any, relation: Relation, types: Mapping[str, Type], values: ValueChoice) -> list[object] | None:
    """The values of a row; None if it has a null, and such are to be dropped."""
    if not isinstance(row, list) or len(row) != relation.arity:
        count = len(row) if isinstance(row, list) else 1
        raise _Unfit("E502", f"expected {relation.arity} values, found {count}")
    if values.drop_nulls and None in row:
        return None
    if values.fills:
        row = [values.fill(name) if cell is None else cell for name, cell in zip(relation.columns, row, strict=True)]
    return [_json_value(value, type_, types) for value, type_ in zip(row, relation.types, strict=True)]


def _json_value(value: Any, type_: Type, types: Mapping[str, Type]) -> object:
    if type_.kind is Kind.RECORD:
        try:
            return format_record(_json_record(value, type_, types), type_, types)
        except ValueError as error:
            raise _Unfit("E507", str(error)) from None
    return _json_scalar(value, type_.kind)


def _json_record(value: Any, type_: Type, types: Mapping[str, Type]) -> Value:
    if type_.kind is not Kind.RECORD:
        return _json_scalar(value, type_.kind)
    if type_.branches:
        return _json_branch(value, type_, types)
    if value is None:
        return None
    if isinstance(value, dict):
        value = [value.get(name) for name, _ in type_.fields]
    if not isinstance(value, list) or len(value) != len(type_.fields):
        raise ValueError(f"not a record of type `{type_.name}`: {json.dumps(value)}")
    return tuple(_json_record(part, types[name], types) for part, (_, name) in zip(value, type_.fields, strict=True))


def _json_branch(value: Any, type_: Type, types: Mapping[str, Type]) -> Value:
    """A branch as JSON has it: a list that begins with its name."""
    names = [name for name, _ in type_.branches]
    if isinstance(value, list) and value and value[0] in names:
        fields = types[type_.branches[names.index(value[0])][1]].fields
        if len(value) == len(fields) + 1:
            parts = zip(value[1:], fields, strict=True)
            return (value[0], *(_json_record(part, types[inner], types) for part, (_, inner) in parts))
    raise ValueError(f"not a value of type `{type_.name}`: {json.dumps(value)}")


def _json_scalar(value: Any, kind: Kind) -> int | float | str:
    if value is None:
        raise _Unfit("E508", "a null", "Remove the row, or fill in a value.")
    if kind is Kind.SYMBOL and isinstance(value, str):
        return value
    if kind is Kind.FLOAT and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind in RANGES and isinstance(value, int):
        low, high = RANGES[kind]
        if low <= value <= high:
            return int(value)
        raise _Unfit("E504", f"{value} is out of range", f"Use a value from {low} to {high}.")
    raise _Unfit("E503", f"{json.dumps(value)} is not of type {kind.value}")


def _error(code: str, message: str, origin: str) -> DataError:
    return DataError(Diagnostic(code, message, Span(origin, 0, 0, 0, 0)))
