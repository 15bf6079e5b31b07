"""What a column of a relation is in a DataFrame: plain values, so that nothing has to be interned in one place.

A number is a bigint, an unsigned number the bigint with the same bits (Spark has no unsigned integers), a float a
double (one NaN, one zero), a symbol a string. Column `i` is called `ci`. A relation without columns has one column of
zeros: a file has to have some.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sempre.analysis.model import Const, Kind, Relation
from sempre.kernel.layout import Column
from sempre.kernel.values import Values, float_codes, floats_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Kinds = tuple[Kind, ...]
# Beside rows, how many instances each stands for.
WEIGHT = "n"
ARROW = {Kind.NUMBER: pa.int64(), Kind.UNSIGNED: pa.int64(), Kind.FLOAT: pa.float64(), Kind.SYMBOL: pa.string()}


def kinds_of(relation: Relation) -> Kinds:
    """The kinds of the columns that stand for a relation."""
    return relation.kinds or (Kind.NUMBER,)


def names_of(kinds: Kinds) -> list[str]:
    return [f"c{at}" for at in range(len(kinds))]


def spark_type(kind: Kind) -> DataType:
    from pyspark.sql import types

    if kind is Kind.SYMBOL:
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
    fields = [pa.field(name, ARROW[kind]) for name, kind in zip(names_of(kinds), kinds, strict=True)]
    return pa.schema([*fields, pa.field(WEIGHT, pa.int64())] if weighted else fields)


def plain(const: Const) -> int | float | str:
    """The value of a constant as a DataFrame holds it."""
    value = const.value
    if const.kind is Kind.FLOAT:
        assert isinstance(value, int | float)
        return float(value) + 0.0
    if isinstance(value, int) and value >= 1 << 63:
        return value - (1 << 64)
    assert value is not None
    return value


def to_arrow(values: Values, column: Column, kind: Kind) -> pa.Array:
    """Codes as plain values."""
    if kind is Kind.FLOAT:
        return pa.array(floats_of(column), pa.float64())
    if kind is Kind.SYMBOL:
        unique, where = np.unique(column, return_inverse=True)
        return pa.array(values.symbols.decode(unique), pa.string()).take(pa.array(where))
    return pa.array(column, pa.int64())


def from_arrow(values: Values, column: pa.Array | pa.ChunkedArray, kind: Kind) -> Column:
    """Plain values as codes."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # no chunks at all
        return np.empty(0, np.int64)
    if kind is Kind.FLOAT:
        return float_codes(np.asarray(column.to_numpy(zero_copy_only=False), np.float64))
    if kind is Kind.SYMBOL:
        encoded = column.dictionary_encode()
        codes = values.symbols.encode(encoded.dictionary.to_pylist())
        return np.asarray(codes.take(encoded.indices.to_numpy()))
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def table_of(values: Values, columns: Sequence[Column], size: int, kinds: Kinds, arity: int) -> pa.Table:
    """The columns of a relation as an Arrow table for a DataFrame."""
    if not arity:
        columns = [np.zeros(size, np.int64)]
    arrays = [to_arrow(values, column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.Table.from_arrays(arrays, names_of(kinds))
