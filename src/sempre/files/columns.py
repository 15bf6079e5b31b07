"""What the facts of a relation look like as an Arrow table."""

from __future__ import annotations

import pyarrow as pa

from sempre.analysis.model import Kind, Relation

# Records cross the border as their text (see records.py): Arrow has no recursive types.
ARROW_TYPES: dict[Kind, pa.DataType] = {
    Kind.NUMBER: pa.int64(),
    Kind.UNSIGNED: pa.uint64(),
    Kind.FLOAT: pa.float64(),
    Kind.SYMBOL: pa.string(),
    Kind.RECORD: pa.string(),
}

# Symbols as they may come from files: each text once.
CODED = pa.dictionary(pa.int32(), pa.string())

RANGES: dict[Kind, tuple[int, int]] = {
    Kind.NUMBER: (-(2**63), 2**63 - 1),
    Kind.UNSIGNED: (0, 2**64 - 1),
}


def schema_of(relation: Relation) -> pa.Schema:
    """One field per column, in order and never null."""
    return pa.schema(
        [
            pa.field(name, ARROW_TYPES[kind], nullable=False)
            for name, kind in zip(relation.columns, relation.kinds, strict=True)
        ]
    )


def unit_table(holds: bool) -> pa.Table:
    """The table of a relation without columns: one row when it holds, else none."""
    return pa.table({"": pa.nulls(int(holds))}).select([])


def empty_table(relation: Relation) -> pa.Table:
    if not relation.arity:
        return unit_table(False)
    schema = schema_of(relation)  # whose `empty_table` imports pandas where it is installed
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def table_of(relation: Relation, columns: list[list[object]]) -> pa.Table:
    """A table from Python values that are known to fit."""
    schema = schema_of(relation)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def concat(relation: Relation, tables: list[pa.Table]) -> pa.Table:
    """The rows of all `tables`; by position if one of them is."""
    if relation.arity == 0:
        return unit_table(any(table.num_rows for table in tables))
    if not tables:
        return empty_table(relation)
    plain = [table.replace_schema_metadata() for table in tables]
    if len({table.schema for table in plain}) > 1:  # some have dictionaries
        plain = [table.cast(schema_of(relation)) for table in plain]
    found = pa.concat_tables(plain)
    return marked_by_position(found) if any(map(is_by_position, tables)) else found


# Says of a table that has the names of its relation that its columns had others, and were taken by position.
_MARK = {b"sempre.columns": b"by position"}


def marked_by_position(table: pa.Table) -> pa.Table:
    """The table, which remembers on its way to the report that its columns were taken by position."""
    return table.replace_schema_metadata(_MARK)


def is_by_position(table: pa.Table) -> bool:
    """Whether the columns of a table were taken by position when it was read."""
    return (table.schema.metadata or {}).items() >= _MARK.items()
