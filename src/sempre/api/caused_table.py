"""The causes of the changes of one relation in one epoch, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sempre.analysis.model import Kind, Relation
from sempre.api.causes import Caused, CauseFinder, EffectFact, InputChange, causes_of_all
from sempre.api.changes import ChangeSet
from sempre.api.intake import unknown
from sempre.diagnostics import Diagnostic, StateError
from sempre.engine import EpochResult
from sempre.files.records import format_record, parse_record

if TYPE_CHECKING:
    import pyarrow as pa

    from sempre.api.database import Database

Row = tuple[Any, ...]


def caused_table(database: Database, changes: ChangeSet, result: EpochResult, epoch: int, name: str) -> pa.Table:
    """A row for every changed row of a relation and every input change in its cause."""
    import pyarrow as pa

    relation = database.program.relations.get(name)
    if relation is None:
        raise unknown(database.program, name)
    if database.epoch != epoch:
        message = f"these are the changes of epoch {epoch}, and epoch {database.epoch} has come since"
        hint = "Ask for causes before the next epoch, or `sempre explain STORE FACT --between N M`."
        raise StateError(Diagnostic("E643", message, hint=hint))
    found = found_causes(database, changes, result, relation)
    columns: list[list[Any]] = [[] for _ in range(relation.arity + 4)]
    for number, caused in enumerate(found):
        for cause in caused.causes:
            how = "added" if caused.fact.present else "removed"
            for column, value in zip(columns, (*caused.fact.row, how, number, cause.text, cause.how), strict=True):
                column.append(value)
    names = (*relation.columns, "_change", "_together", "_cause", "_cause_change")
    shape = changes.added[name].schema
    types = [*(field.type for field in shape), pa.string(), pa.int64(), pa.string(), pa.string()]
    for at, type_ in enumerate(relation.types):
        if type_.kind is Kind.RECORD:
            columns[at] = [format_record(value, type_, database.program.checked.types) for value in columns[at]]
    return pa.table([pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)], list(names))


def found_causes(database: Database, changes: ChangeSet, result: EpochResult, relation: Relation) -> list[Caused]:
    """The causes of the changes of a relation in the last epoch."""
    facts = [
        EffectFact(relation, row, present)
        for side, present in ((changes.added, True), (changes.removed, False))
        for row in rows_of(database, relation, side[relation.name])
    ]
    return causes_of_all(CauseFinder(database, _inputs(database, result)), relation, facts)


def rows_of(database: Database, relation: Relation, table: Any) -> list[Row]:
    """The rows of an Arrow table as plain values; records cross as their text."""
    types = database.program.checked.types
    columns = [
        [parse_record(text, type_, types) for text in column] if type_.kind is Kind.RECORD else column
        for type_, column in zip(relation.types, table.to_pydict().values(), strict=True)
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _inputs(database: Database, result: EpochResult) -> list[InputChange]:
    """The explicit facts that an epoch inserted or deleted."""
    found: list[InputChange] = []
    for name, change in result.explicit.items():
        relation = database.program.relations.get(name)
        if relation is not None:
            for rows, inserted in ((change.plus, True), (change.minus, False)):
                decoded = database._decoder.tuples(relation, rows.columns(), len(rows))
                found += [InputChange(name, row, inserted) for row in decoded]
    return found
