"""The rows of a stream as insertions and deletions by relation.

A row names its operation, and its relation unless the stream carries a single one; the columns of a relation are found
by name, as everywhere, and a stream may have more of them. What is wrong with the columns is known before the stream
starts, what is wrong with rows when they come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sempre.analysis.model import CheckedProgram, Kind, Relation
from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, DataError, Diagnostic
from sempre.files.matching import found_places
from sempre.spark.failures import reading
from sempre.spark.frames import (
    PLAIN,
    Mended,
    Unfit,
    check_instants,
    column_expression,
    crossing_type,
    finished,
    not_text,
)
from sempre.spark.rejects import SCHEMA, check_records, faults
from sempre.spark.row_rules import NO_RULES, RowRules

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# The words of an operation, in any case: with those of Delta Lake's change data feed, and of Debezium's events.
INSERTS = ("insert", "+", "update_postimage", "c", "r")
DELETES = ("delete", "-", "update_preimage", "d")
# What is no operation on a row, as nothing says which row was there before.
UPDATES = ("u", "update", "upsert")
# The columns that are taken when nobody names others.
RELATION, OPERATION, DELTA_OPERATION, DELTA_ORDER = "relation", "operation", "_change_type", "_commit_version"
SHOWN_WORDS = 3

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Operations:
    """Insertions and deletions of one relation: its rows, whether each is inserted, and its place in the order.

    With a `key`, a row is about all facts with the same key; of a deletion, the other columns say nothing.
    """

    table: pa.Table
    inserts: NDArray[np.bool_]
    ranks: Codes
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a stream say what; `None` where the stream has none, or where the defaults are meant."""

    relation: str | None = None
    relation_column: str = RELATION
    operation: str | None = None
    order: str | None = None

    def settled(self, names: Sequence[str]) -> Columns:
        """With the defaults filled in for a stream of columns with these names."""
        operation, order = self.operation, self.order
        if operation is None:
            operation = next((name for name in (DELTA_OPERATION, OPERATION) if name in names), None)
        if order is None and operation == DELTA_OPERATION and DELTA_ORDER in names:
            order = DELTA_ORDER
        return Columns(self.relation, self.relation_column, operation, order)


class StreamReader:
    """Reads the batches of one stream; raises `DataError` at once when the stream lacks a column."""

    rules = NO_RULES

    def __init__(self, checked: CheckedProgram, schema: Any, columns: Columns, rules: RowRules = NO_RULES) -> None:
        self.rules = rules
        self._relations = checked.relations
        self._types_of_program = checked.types
        self._names = [field.name for field in schema.fields]
        self._fields = {field.name: (at, field) for at, field in enumerate(schema.fields)}
        self._width = len(schema.fields)
        self.columns = columns.settled(tuple(self._fields))
        self._expressions: list[Column] = []
        self._types: list[str] = []
        self._places: dict[tuple[int, Kind, Mended], int] = {}
        self._marks = {name: self._mark(name) for name in self._mark_names()}
        self._values: dict[str, list[int]] = {}
        self._unfit: dict[str, list[Diagnostic]] = {}
        for name in [columns.relation] if columns.relation is not None else list(self._relations):
            self._find(self._relations[name])
        if columns.relation is not None and self._unfit:
            raise DataError(self._unfit[columns.relation])

    def _mark_names(self) -> list[str]:
        """The columns that are about the rows."""
        columns = self.columns
        wanted = [] if columns.relation is not None else [columns.relation_column]
        wanted += [name for name in (columns.operation, columns.order) if name is not None]
        if columns.operation is None and columns.relation is None:
            wanted.append(OPERATION)
        missing = [name for name in wanted if name not in self._fields]
        if missing:
            has = ", ".join(self._fields)
            hint = "Say where the stream has these: relation=, relation_column=, operation= and order=."
            raise DataError(
                [Diagnostic("E518", f"the stream has no column `{m}`: it has {has}", hint=hint) for m in missing]
            )
        return wanted

    def _mark(self, name: str) -> int:
        """The place of a column that is about the rows, among the expressions."""
        given = self._fields[name][1].dataType.simpleString()
        kind = Kind.NUMBER if name == self.columns.order and not given.startswith("string") else Kind.SYMBOL
        try:
            return self._place(name, kind)
        except Unfit as error:
            raise DataError(
                Diagnostic(error.code, f"column `{name}` of the stream: {error}", hint=error.hint)
            ) from None

    def _find(self, relation: Relation) -> None:
        """Find the columns of a relation, or keep what is wrong with them until a row needs them."""
        places, found = [], []
        there = {name: self._names[at] for name, at in found_places(relation.columns, self._names).items()}
        for name, type_ in zip(relation.columns, relation.types, strict=True):
            what = f"column `{name}` of relation `{relation.name}`"
            source = there.get(name)
            if source is None or (source != name and source in self._marks):
                times = self._names.count(name)
                why = f"is in the stream {times} times" if times > 1 else "is not in the stream"
                hint = f"Rename the columns of the stream with toDF or withColumnRenamed: {', '.join(self._names)}."
                found.append(Diagnostic("E518", f"{what} {why}", hint=hint))
                continue
            try:
                given = self._fields[source][1].dataType.simpleString()
                check_instants(given, type_, self._types_of_program, source)
                values = self.rules.of_values(relation.name)
                mended = Mended(values.fill(name), values.takes_decimals(name))
                places.append(self._place(source, type_.kind, mended))
            except Unfit as error:
                found.append(Diagnostic(error.code, f"{what}: {error}", hint=error.hint))
        if found:
            self._unfit[relation.name] = found
        self._values[relation.name] = places

    def _place(self, name: str, kind: Kind, mended: Mended = PLAIN) -> int:
        """Where among the expressions the column is, as it crosses for this kind."""
        at, field = self._fields[name]
        if (at, kind, mended) not in self._places:
            given = field.dataType.simpleString()
            self._expressions.append(column_expression(f"c{at}", given, kind, name, mended))
            self._types.append(crossing_type(given, kind, mended))
            self._places[at, kind, mended] = len(self._expressions) - 1
        return self._places[at, kind, mended]

    # ------------------------------------------------------------------------------------------------ batches

    @property
    def schema(self) -> str:
        """The columns that a batch has for us, `e0` and so on; empty if it has none."""
        return ", ".join(f"e{at} {type_}" for at, type_ in enumerate(self._types))

    @property
    def relations(self) -> list[Relation]:
        """The relations that rows may change."""
        return [self._relations[name] for name in self._values]

    def chosen(self, df: DataFrame, beside: Mapping[str, Column] | None = None) -> DataFrame:
        """The columns of a batch as Spark should send them, and others `beside` them."""
        more = [column.alias(f"beside{at}") for at, column in enumerate((beside or {}).values())]
        placed = df.select("*", *more).toDF(*(f"c{at}" for at in range(self._width + len(more))))
        own = [column.alias(f"e{at}") for at, column in enumerate(self._expressions)]
        from pyspark.sql import functions as fn

        told = [fn.col(f"c{self._width + at}").alias(name) for at, name in enumerate(beside or {})]
        return placed.select(*own, *told)

    def read(self, df: DataFrame, what: str) -> dict[str, Operations]:
        """The operations of a batch by relation, in one Spark job; raises naming every kind of row that is wrong."""
        with reading(what, NOWHERE):
            table = self.chosen(df).toArrow() if self._expressions else _rows_without_columns(df.count())
        return self.operations(table)

    def operations(self, table: pa.Table) -> dict[str, Operations]:
        """The operations in the rows that Spark sent."""
        found, wrong = self.judged(table)
        if wrong:
            raise DataError([finding for findings in wrong.values() for finding in findings])
        return found

    def sorted_out(self, table: pa.Table, beside: pa.Table) -> tuple[dict[str, Operations], pa.Table]:
        """The operations in the rows that can be taken, and the others with what is wrong with them.

        `beside` has what is told of every row that is not taken.
        """
        reasons: dict[int, tuple[str, str]] = {}
        size = table.num_rows
        columns = self.columns
        inserts = np.ones(size, np.bool_)
        names = [columns.relation or ""] * size if columns.relation else self._words(table, columns.relation_column)
        words = ["+"] * size if columns.operation is None else self._words(table, columns.operation)
        orders = None if columns.order is None else table.column(self._marks[columns.order])
        for at, (name, word) in enumerate(zip(names, words, strict=True)):
            lower = (word or "").lower()
            inserts[at] = lower not in DELETES
            if name is None or word is None or (orders is not None and not orders[at].is_valid):
                empty = (
                    columns.relation_column if name is None else columns.operation if word is None else columns.order
                )
                reasons[at] = (name or "", f"column `{empty}` of the stream: a null")
            elif name not in self._values:
                reasons[at] = (name, f"relation `{name}` is not declared")
            elif lower not in INSERTS + DELETES + (UPDATES if name in self.rules.keys else ()):
                reasons[at] = (name, f"column `{columns.operation}` of the stream has `{word}`")
            elif name in self._unfit:
                reasons[at] = (name, "; ".join(each.message for each in self._unfit[name]))
        self._judge_values(table, names, inserts, reasons)
        good = np.array([at not in reasons for at in range(size)], np.bool_)
        bad = sorted(reasons)
        told = beside.take(pa.array(bad, pa.int64()))
        for name, side in (("_reason", 1), ("_relation", 0)):
            told = told.append_column(SCHEMA.field(name), pa.array([reasons[at][side] for at in bad], pa.string()))
        return self.operations(table.filter(pa.array(good))), told

    def _judge_values(
        self,
        table: pa.Table,
        names: Sequence[str | None],
        inserts: NDArray[np.bool_],
        reasons: dict[int, tuple[str, str]],
    ) -> None:
        """Find the rows whose values are no facts."""
        for name in self._values:
            relation, values = self._relations[name], self.rules.of_values(name)
            mine = [at for at, each in enumerate(names) if each == name and at not in reasons]
            if mine and relation.arity:
                rows = np.array(mine, np.int64)
                spelled = self.spelled(table, relation, rows, inserts)
                found = faults(spelled, relation, values, self._types_of_program)
                reasons.update({mine[at]: (name, why) for at, why in found.items()})

    def _words(self, table: pa.Table, name: str) -> list[str | None]:
        """The texts of a column that is about the rows; what is no text is shown as far as it goes."""
        column = table.column(self._marks[name])
        try:
            found: list[str | None] = column.to_pylist()
        except UnicodeDecodeError:
            raw = column.cast(pa.binary()).to_pylist()
            found = [None if each is None else each.decode("utf-8", "replace") for each in raw]
        return found

    def judged(self, table: pa.Table) -> tuple[dict[str, Operations], dict[str, list[Diagnostic]]]:
        """The operations by relation, and what is wrong with the rows of a relation."""
        inserts = self._inserts(table)
        ranks = self._ranks(table)
        found: dict[str, Operations] = {}
        wrong: dict[str, list[Diagnostic]] = {}
        for name, rows in self._by_relation(table).items():
            relation = self._relations[name]
            if name in self._unfit:
                wrong[name] = self._unfit[name]
                continue
            picked = _rows_without_columns(rows.size)
            if relation.arity:
                try:
                    picked, rows = self._picked(table, relation, rows, inserts)
                except DataError as error:
                    wrong[name] = list(error.diagnostics)
                    continue
            found[name] = Operations(picked, inserts[rows], ranks[rows], self.rules.keys.get(name, ()))
        return found, wrong

    def _picked(
        self, table: pa.Table, relation: Relation, rows: Codes, inserts: NDArray[np.bool_]
    ) -> tuple[pa.Table, Codes]:
        """The rows of a relation as its columns, and which rows of the batch these are: not those that are dropped."""
        values = self.rules.of_values(relation.name)
        chosen = self.spelled(table, relation, rows, inserts)
        if values.drop_nulls:
            keep = np.ones(rows.size, np.bool_)
            for column in chosen.columns:
                keep &= np.asarray(pc.is_valid(column))
            chosen, rows = chosen.filter(pa.array(keep)), rows[keep]
        picked = finished(chosen, relation, NOWHERE, values)
        for column, type_ in zip(chosen.columns, relation.types, strict=True):
            if self.rules.rejects and type_.kind is Kind.RECORD:
                check_records(column, relation, type_, self._types_of_program)
        return picked, rows

    def spelled(self, table: pa.Table, relation: Relation, rows: Codes, inserts: NDArray[np.bool_]) -> pa.Table:
        """The columns of rows; where a key says which facts go, the others hold nothing."""
        chosen = table.select(self._values[relation.name]).take(pa.array(rows))
        key = self.rules.keys.get(relation.name, ())
        if not key:
            return chosen
        gone = pa.array(~inserts[rows])
        for at, (name, kind) in enumerate(zip(relation.columns, relation.kinds, strict=True)):
            column = chosen.column(at)
            if name not in key and kind is not Kind.RECORD:
                nothing = _nothing(column.type)
                chosen = chosen.set_column(at, chosen.field(at), pc.if_else(gone, nothing, column))
        return chosen

    def _by_relation(self, table: pa.Table) -> dict[str, Codes]:
        """The rows of each relation, in the order in which relations are declared."""
        if self.columns.relation is not None:
            return {self.columns.relation: np.arange(table.num_rows)} if table.num_rows else {}
        names = self._texts(table, self.columns.relation_column)
        self.check_relations(names.words)
        places = {name: at for at, name in enumerate(names.words)}
        return {name: np.flatnonzero(names.indices == places[name]) for name in self._relations if name in places}

    def _inserts(self, table: pa.Table) -> NDArray[np.bool_]:
        """Whether each row is inserted."""
        if self.columns.operation is None:
            return np.ones(table.num_rows, np.bool_)
        words = self._texts(table, self.columns.operation)
        self.check_operations(words.words)
        self._check_updates(table, words)
        return np.array([word.lower() in INSERTS + UPDATES for word in words.words], np.bool_)[words.indices]

    def _check_updates(self, table: pa.Table, words: _Words) -> None:
        """Raise if a row of a relation without a key is updated: nothing says which row was there before."""
        updates = np.array([word.lower() in UPDATES for word in words.words], np.bool_)[words.indices]
        if updates.any():
            shown = sorted(word for word in words.words if word.lower() in UPDATES)
            for name, rows in self._by_relation(table).items():
                if name not in self.rules.keys and updates[rows].any():
                    raise self._no_operation(shown)

    def check_operations(self, words: Sequence[str]) -> None:
        """Raise if some of the words are no operations."""
        known = INSERTS + DELETES + (UPDATES if self.rules.keys else ())
        unknown = sorted(word for word in words if word.lower() not in known)
        if unknown:
            raise self._no_operation(unknown)

    def _no_operation(self, words: Sequence[str]) -> DataError:
        shown = ", ".join(f"`{word}`" for word in words[:SHOWN_WORDS])
        hint = f"Use one of: {', '.join(INSERTS + DELETES)}."
        if any(word.lower() in UPDATES for word in words):
            hint += " An update is the row that was there, deleted, and the row that is, inserted;"
            hint += ' or keys={"RELATION": ["COLUMN"]} say which row it replaces.'
        return DataError(Diagnostic("E517", f"column `{self.columns.operation}` of the stream has {shown}", hint=hint))

    def check_relations(self, names: Sequence[str]) -> None:
        """Raise if some of the names are those of no relation."""
        unknown = sorted(name for name in names if name not in self._relations)
        if unknown:
            raise DataError([_unknown(name, self._relations) for name in unknown[:SHOWN_WORDS]])

    def check_nulls(self, name: str, count: int) -> None:
        """Raise if there are nulls in a column that is about the rows."""
        if count:
            noun = "null" if count == 1 else "nulls"
            raise DataError(Diagnostic("E508", f"column `{name}` of the stream: {count:,} {noun}"))

    def unfit(self, name: str) -> list[Diagnostic]:
        """What is wrong with the columns of a relation, if anything is."""
        return self._unfit.get(name, [])

    def mark(self, name: str) -> str:
        """The column of `chosen` that is about the rows and has this name in the stream."""
        return f"e{self._marks[name]}"

    def values(self, name: str) -> list[str]:
        """The columns of `chosen` that are those of a relation."""
        return [f"e{at}" for at in self._values[name]]

    def _ranks(self, table: pa.Table) -> Codes:
        """The place of each row in the order; the same for all without one."""
        if self.columns.order is None:
            return np.zeros(table.num_rows, np.int64)
        column = self._marked(table, self.columns.order)
        return np.asarray(pc.rank(column.combine_chunks(), tiebreaker="dense").to_numpy().astype(np.int64))

    def _texts(self, table: pa.Table, name: str) -> _Words:
        encoded = self._marked(table, name).combine_chunks().dictionary_encode()
        return _Words(words_in(encoded.dictionary, name), encoded.indices.to_numpy())

    def _marked(self, table: pa.Table, name: str) -> pa.ChunkedArray:
        column = table.column(self._marks[name])
        self.check_nulls(name, column.null_count)
        return column


def words_in(column: pa.Array | pa.ChunkedArray, name: str) -> list[str]:
    """The texts of a column that is about the rows."""
    try:
        found: list[str] = column.to_pylist()
    except UnicodeDecodeError:
        error = not_text()
        message = f"column `{name}` of the stream: {error}"
        raise DataError(Diagnostic(error.code, message, hint=error.hint)) from None
    return found


def _nothing(type_: pa.DataType) -> pa.Scalar:
    """A value for a cell that says nothing."""
    if pa.types.is_decimal(type_):
        return pa.scalar(Decimal(0), type_)
    return pa.scalar("" if pa.types.is_string(type_) else 0, type_)


@dataclass(frozen=True, slots=True)
class _Words:
    words: list[str]
    indices: Codes


def _rows_without_columns(size: int) -> pa.Table:
    return pa.table({"": pa.nulls(size)}).select([])


def _unknown(name: str, relations: Mapping[str, Relation]) -> Diagnostic:
    import difflib

    close = difflib.get_close_matches(name, relations, 1)
    hint = f"Did you mean `{close[0]}`?" if close else ""
    return Diagnostic("E514", f"the stream changes relation `{name}`, which is not declared", hint=hint)


def last_operations(columns: Sequence[Codes], inserts: NDArray[np.bool_], ranks: Codes) -> tuple[Codes, Codes]:
    """The rows to insert and the rows to delete: of each fact its last operation, and of equal ranks the insertion.

    Facts are given as encoded columns; the answer is row numbers.
    """
    size = inserts.size
    if not size:
        nothing = np.empty(0, np.int64)
        return nothing, nothing
    order = np.lexsort((inserts, ranks, *columns))
    is_last = np.zeros(size, np.bool_)
    is_last[-1] = True
    for column in columns:
        is_last[:-1] |= column[order[1:]] != column[order[:-1]]
    last = order[is_last]
    return last[inserts[last]], last[~inserts[last]]
