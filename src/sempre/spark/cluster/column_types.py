"""What a column of a relation is in a DataFrame: plain values, so that nothing has to be interned in one place.

A number is a bigint, an unsigned number the bigint with the same bits (Spark has no unsigned integers), a float a
double (one NaN, one zero), a symbol a string, a record its text as files have it, which is the same for equal records.
Column `i` is called `ci`. A relation without columns has one column of zeros: a file has to have some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from sempre.analysis.model import Const, Kind, NormalRule, Relation, Type
from sempre.data import dataclass
from sempre.files.record_codes import codes_of, texts_of
from sempre.kernel.layout import Column
from sempre.kernel.values import Values, float_codes, floats_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


@dataclass(frozen=True, slots=True)
class RecordShape:
    """What tells the text of a record from its code: its type, and those inside of it."""

    type: Type
    types: Mapping[str, Type] = field(compare=False)


# What a column has to say for its values to become codes, and for codes to become values.
Form: TypeAlias = Kind | RecordShape
Kinds = tuple[Form, ...]
# Beside rows, how many instances each stands for.
WEIGHT = "n"
ARROW = {
    Kind.NUMBER: pa.int64(),
    Kind.UNSIGNED: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.SYMBOL: pa.string(),
    Kind.RECORD: pa.string(),
}
NIL = "nil"
# The type of what can only be nil.
_NO_RECORD = Type(NIL, Kind.RECORD)


def form_of(type_: Type, types: Mapping[str, Type]) -> Form:
    """The form of the values of a type; `types` are those of the program."""
    return RecordShape(type_, types) if type_.kind is Kind.RECORD else type_.kind


def kinds_of(relation: Relation, types: Mapping[str, Type]) -> Kinds:
    """The forms of the columns that stand for a relation."""
    return tuple(form_of(type_, types) for type_ in relation.types) or (Kind.NUMBER,)


def kinds_in(rule: NormalRule, types: Mapping[str, Type]) -> dict[str, Form]:
    """The forms of the variables of a rule."""
    shapes = {var: RecordShape(types.get(name, _NO_RECORD), types) for var, name in rule.records.items()}
    return {**rule.kinds, **shapes}


def kind_in(form: Form) -> Kind:
    """The kind of the values of a form."""
    return Kind.RECORD if isinstance(form, RecordShape) else form


def names_of(kinds: Kinds) -> list[str]:
    return [f"c{at}" for at in range(len(kinds))]


def arrow_type(form: Form) -> pa.DataType:
    return ARROW[kind_in(form)]


def spark_type(form: Form) -> DataType:
    from pyspark.sql import types

    kind = kind_in(form)
    if kind in (Kind.SYMBOL, Kind.RECORD):
        return types.StringType()
    return types.DoubleType() if kind is Kind.FLOAT else types.LongType()


def schema_of(kinds: Kinds, weighted: bool = False) -> StructType:
    """The columns of rows, and the weight."""
    from pyspark.sql import types

    columns = zip(names_of(kinds), kinds, strict=True)
    fields = [types.StructField(name, spark_type(kind)) for name, kind in columns]
    return types.StructType([*fields, types.StructField(WEIGHT, types.LongType())] if weighted else fields)


def arrow_schema(kinds: Kinds, weighted: bool = False) -> pa.Schema:
    """The same, for Arrow."""
    fields = [pa.field(name, arrow_type(form)) for name, form in zip(names_of(kinds), kinds, strict=True)]
    return pa.schema([*fields, pa.field(WEIGHT, pa.int64())] if weighted else fields)


def plain(const: Const) -> int | float | str:
    """The value of a constant as a DataFrame holds it."""
    value = const.value
    if const.kind is Kind.FLOAT:
        assert isinstance(value, int | float)
        return float(value) + 0.0
    if isinstance(value, int) and value >= 1 << 63:
        return value - (1 << 64)
    return NIL if value is None else value


def to_arrow(values: Values, column: Column, form: Form) -> pa.Array:
    """Codes as plain values."""
    if form is Kind.FLOAT:
        return pa.array(floats_of(column), pa.float64())
    if isinstance(form, RecordShape):
        unique, where = np.unique(column, return_inverse=True)
        texts = texts_of(values, unique, form.type, form.types)
        return pa.array(texts, pa.string()).take(pa.array(where))
    if form is Kind.SYMBOL:
        unique, where = np.unique(column, return_inverse=True)
        return pa.array(values.symbols.decode(unique), pa.string()).take(pa.array(where))
    assert form is not Kind.RECORD, "codes of records need a shape"
    return pa.array(column, pa.int64())


def from_arrow(values: Values, column: pa.Array | pa.ChunkedArray, form: Form) -> Column:
    """Plain values as codes."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # no chunks at all
        return np.empty(0, np.int64)
    if form is Kind.FLOAT:
        return float_codes(np.asarray(column.to_numpy(zero_copy_only=False), np.float64))
    if form is Kind.SYMBOL or isinstance(form, RecordShape):
        encoded = column.dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        if isinstance(form, RecordShape):
            codes = codes_of(values, texts, form.type, form.types)
        else:
            codes = values.symbols.encode(texts)
        return np.asarray(codes.take(encoded.indices.to_numpy()))
    assert form is not Kind.RECORD, "codes of records need a shape"
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def table_of(values: Values, columns: Sequence[Column], size: int, kinds: Kinds, arity: int) -> pa.Table:
    """The columns of a relation as an Arrow table for a DataFrame."""
    if not arity:
        columns = [np.zeros(size, np.int64)]
    arrays = [to_arrow(values, column, form) for column, form in zip(columns, kinds, strict=True)]
    return pa.Table.from_arrays(arrays, names_of(kinds))
