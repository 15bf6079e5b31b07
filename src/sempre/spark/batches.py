"""The batches of a stream: which rows come to the driver, and how those that stay on the cluster are taken there.

Spark may compute a batch anew for every action on it. So a batch is settled once: its rows are fetched if they are few,
else they are written to scratch, and everything after that reads those. The files are gone when the batch is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sempre.analysis.model import Kind, Relation
from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, DataError, Diagnostic, Span
from sempre.plan.backend import Rows
from sempre.spark.cluster.crossing import BadTexts, checked
from sempre.spark.cluster.tables import Table
from sempre.spark.failures import reading
from sempre.spark.operations import DELETES, INSERTS, SHOWN_WORDS, Operations, StreamReader, words_in
from sempre.spark.rejects import FILE, ROW
from sempre.spark.residency import Residency

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Beside the columns of a relation, the place of an operation in the order, and whether it inserts.
RANK, SIGN = "rank", "sign"
# How many operations of a relation insert, and how many delete.
Signs: TypeAlias = tuple[int, int]
Sides: TypeAlias = Mapping[str, Rows]


@dataclass(frozen=True, slots=True)
class Batch:
    """The operations of a batch by relation: those that are here, and what is inserted and deleted on the cluster.

    `rows` is how many there were of both. Of what is on the cluster, only the last operation on a fact is left.
    """

    rows: int
    here: Mapping[str, Operations]
    plus: Mapping[str, Rows] = field(default_factory=dict)
    minus: Mapping[str, Rows] = field(default_factory=dict)
    rejected: pa.Table | None = None


class Batches:
    """Reads the batches of one stream; `staying` says who decides what stays on the cluster, if anything can."""

    def __init__(self, reader: StreamReader, staying: Callable[[], Residency | None] = lambda: None) -> None:
        self._reader = reader
        self._staying = staying
        self._guess = 0  # how many rows the next batch will have: as many as the last

    def read(self, df: DataFrame, what: str, *, kept: bool = False) -> Batch:
        """The operations of a batch; raises naming every kind of row that is wrong.

        One that is `kept` is in files already, and can be read any number of times.
        """
        staying = self._staying()
        if self._reader.rules.in_driver:
            with reading(what, NOWHERE):
                return self._looked_through(df, kept)
        if staying is None or not self._reader.schema:
            return _here(self._reader.read(df, what))
        with reading(what, NOWHERE), self._settled(staying, self._reader.chosen(df), kept) as found:
            batch = _Settled(self._reader, staying, found).batch()
        self._guess = batch.rows
        return batch

    def _looked_through(self, df: DataFrame, kept: bool) -> Batch:
        """A batch whose rows are all looked at here; a second time, with all that they have, if some are wrong."""
        reader = self._reader
        table = reader.chosen(df).toArrow() if reader.schema else None
        if table is None:
            return _here(reader.read(df, "the batch"))
        try:
            return _here(reader.operations(table))
        except DataError:
            if not reader.rules.rejects:
                raise
        from pyspark.sql import functions as fn

        whole = fn.to_json(fn.struct("*"), {"ignoreNullFields": "false"})
        file = fn.lit("") if kept else fn.input_file_name()
        again = reader.chosen(df, {ROW: whole, FILE: file}).toArrow()
        beside = again.select([ROW, FILE])
        found, rejected = reader.sorted_out(again.drop_columns([ROW, FILE]), beside)
        return replace(_here(found), rejected=rejected)

    @contextmanager
    def _settled(self, staying: Residency, chosen: DataFrame, kept: bool) -> Iterator[pa.Table | DataFrame]:
        """The rows where they can be read again."""
        scratch, jobs = staying.cluster.scratch, staying.jobs
        few = self._guess <= scratch.limits.fetched_rows
        table = jobs.one(lambda: scratch.fetched(lambda: chosen)) if few else None
        if table is not None:
            yield table
        elif kept:
            yield chosen
        else:
            written = jobs.one(lambda: scratch.write(lambda: chosen))
            try:
                yield scratch.spark.read.schema(self._reader.schema).parquet(scratch.shelf.uri(written.path))
            finally:
                scratch.discard(written.path)


def _here(operations: dict[str, Operations]) -> Batch:
    return Batch(sum(given.inserts.size for given in operations.values()), operations)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A column that is about the rows: what it may say, if that is limited, and what to do with everything else."""

    name: str
    words: Sequence[str] = ()
    check: Callable[[Sequence[str]], None] = lambda words: None
    any_case: bool = False

    def is_word(self, col: Column) -> Column:
        """Whether a column has one of the words."""
        return _in_any_case(col, self.words) if self.any_case else col.isin(*self.words)


def _in_any_case(col: Column, words: Sequence[str]) -> Column:
    from pyspark.sql import functions as fn

    return fn.lower(col).isin(*words)


@dataclass(frozen=True, slots=True)
class _Settled:
    """One batch: a table of its rows, which the driver can judge, or a DataFrame that can be read again."""

    reader: StreamReader
    staying: Residency
    found: pa.Table | DataFrame

    def batch(self) -> Batch:
        """Everything in it."""
        found, wrong = self.found, dict[str, list[Diagnostic]]()
        if isinstance(found, pa.Table):
            operations = self.reader.operations(found)
            signs = {name: _signs(given) for name, given in operations.items()}
            there = self._there(signs)
            if not there:
                return _here(operations)
            here: Mapping[str, Operations] = {name: operations[name] for name in signs if name not in there}
            df = self.staying.cluster.scratch.spark.createDataFrame(found.combine_chunks(), self.reader.schema)
        else:
            df, signs = found, self._looked_at(found)
            there = self._there(signs)
            wrong |= {name: self.reader.unfit(name) for name in signs}
            here = self._fetched(df, [name for name in signs if name not in there], wrong)
        fit = self._checked(df, [relation for name, relation in there.items() if not wrong.get(name)], wrong)
        if any(wrong.values()):
            raise DataError([finding for findings in wrong.values() for finding in findings])
        return Batch(sum(map(sum, signs.values())), here, *self._taken(fit, signs))

    def _there(self, signs: Mapping[str, Signs]) -> dict[str, Relation]:
        """The relations that have changes and stay on the cluster."""
        changed = [relation for relation in self.reader.relations if relation.name in signs]
        staying = [relation for relation in changed if self.staying.stays(relation, partial(_size, signs, relation))]
        return {relation.name: relation for relation in staying}

    def _table(self, df: DataFrame) -> pa.Table:
        """A few rows, by one job."""
        self.staying.jobs.count()
        return self.staying.jobs.one(df.toArrow)

    # ------------------------------------------------------------------------------------------------- looking

    def _marks(self) -> list[_Mark]:
        """The columns that are about the rows, in the order in which they are judged."""
        reader, columns = self.reader, self.reader.columns
        found = []
        if columns.operation is not None:
            found.append(_Mark(columns.operation, INSERTS + DELETES, reader.check_operations, any_case=True))
        if columns.order is not None:
            found.append(_Mark(columns.order))
        if columns.relation is None:
            names = [relation.name for relation in reader.relations]
            found.append(_Mark(columns.relation_column, names, reader.check_relations))
        return found

    def _looked_at(self, df: DataFrame) -> dict[str, Signs]:
        """How many operations there are of each relation, by one job; raises if rows do not say what they are."""
        from pyspark.sql import functions as fn

        marks = self._marks()
        counts = [fn.count(fn.lit(1)).alias("rows")]
        for at, mark in enumerate(marks):
            col = fn.col(self.reader.mark(mark.name))
            counts.append(fn.count(fn.when(col.isNull(), 1)).alias(f"nulls{at}"))
            counts.append(fn.count(fn.when(~mark.is_word(col), 1) if mark.words else fn.lit(None)).alias(f"odd{at}"))
        by = df.groupBy(self._name().alias("name"), self._sign().alias("sign"))
        groups: list[dict[str, Any]] = self._table(by.agg(*counts)).to_pylist()
        for at, mark in enumerate(marks):
            self.reader.check_nulls(mark.name, sum(group[f"nulls{at}"] for group in groups))
            if any(group[f"odd{at}"] for group in groups):
                mark.check(self._others(df, mark))
        found = {relation.name: [0, 0] for relation in self.reader.relations}
        for group in groups:
            found[group["name"]][0 if group["sign"] else 1] += group["rows"]
        return {name: (plus, minus) for name, (plus, minus) in found.items() if plus or minus}

    def _name(self) -> Column:
        """The relation of a row; null if it is none."""
        from pyspark.sql import functions as fn

        columns = self.reader.columns
        if columns.relation is not None:
            return fn.lit(columns.relation)
        col = fn.col(self.reader.mark(columns.relation_column))
        return fn.when(col.isin(*(relation.name for relation in self.reader.relations)), col)

    def _sign(self) -> Column:
        """Whether a row is inserted."""
        from pyspark.sql import functions as fn

        operation = self.reader.columns.operation
        return fn.lit(True) if operation is None else _in_any_case(fn.col(self.reader.mark(operation)), INSERTS)

    def _others(self, df: DataFrame, mark: _Mark) -> list[str]:
        """The first few words that a column should not have."""
        from pyspark.sql import functions as fn

        col = fn.col(self.reader.mark(mark.name))
        words = df.filter(~mark.is_word(col)).select(col.alias("word")).distinct()
        return words_in(self._table(words.orderBy("word").limit(SHOWN_WORDS)).column("word"), mark.name)

    # ------------------------------------------------------------------------------------------------- taking

    def _of(self, df: DataFrame, names: Sequence[str]) -> DataFrame:
        """The rows of some relations."""
        from pyspark.sql import functions as fn

        columns = self.reader.columns
        if columns.relation is not None:
            return df
        return df.filter(fn.col(self.reader.mark(columns.relation_column)).isin(*names))

    def _fetched(
        self, df: DataFrame, names: Sequence[str], wrong: dict[str, list[Diagnostic]]
    ) -> Mapping[str, Operations]:
        """The operations of the relations that the driver has; what is wrong with them is noted."""
        if not names:
            return {}
        self.staying.jobs.count()
        found, more = self.reader.judged(self.staying.jobs.one(self._of(df, names).toArrow))
        wrong.update(more)
        return found

    def _checked(
        self, df: DataFrame, relations: Sequence[Relation], wrong: dict[str, list[Diagnostic]]
    ) -> dict[str, DataFrame]:
        """The rows of relations that stay, as plain values; what is wrong with them is noted."""
        odd: dict[str, DataError] = {}
        fit: dict[str, DataFrame] = {}

        def check(relation: Relation) -> None:
            try:
                fit[relation.name] = self._plain(df, relation)
            except _NoRecords as error:
                odd[relation.name] = error
            except DataError as error:
                wrong[relation.name] = list(error.diagnostics)

        self.staying.jobs.run([partial(check, relation) for relation in relations])
        # As in the driver, which looks into texts when all else is well.
        if odd and not any(wrong.values()):
            raise next(odd[relation.name] for relation in relations if relation.name in odd)
        return fit

    def _plain(self, df: DataFrame, relation: Relation) -> DataFrame:
        """The rows of a relation as plain values, each with its place in the order, and whether it is inserted."""
        from pyspark.sql import functions as fn

        reader, cluster = self.reader, self.staying.cluster
        order = reader.columns.order
        rank = fn.lit(0) if order is None else fn.col(reader.mark(order))
        values = [fn.col(name).alias(f"c{at}") for at, name in enumerate(reader.values(relation.name))]
        chosen = self._of(df, [relation.name]).select(*values, rank.alias(RANK), self._sign().alias(SIGN))
        self.staying.jobs.count()
        carried, types = (RANK, SIGN), cluster.program.types
        return checked(cluster.scratch, chosen, relation, types, carried=carried, no_records=_no_records)[0]

    def _taken(self, fit: Mapping[str, DataFrame], signs: Mapping[str, Signs]) -> tuple[Sides, Sides]:
        """What is inserted and what is deleted, settled: of each fact its last operation."""
        plus: dict[str, Table] = {}
        minus: dict[str, Table] = {}
        both: dict[str, Table] = {}
        cluster = self.staying.cluster
        for name, df in fit.items():
            empty = cluster.empty(name).rows()
            inserts, deletes = signs[name]
            if inserts and deletes:
                kinds = (*empty.kinds, Kind.NUMBER)
                make = partial(by_last_operation, df, empty.names)
                both[name] = Table(empty.store, kinds, len(kinds), make=make, guess=inserts + deletes)
            else:
                side, facts = plus if inserts else minus, df.select(*empty.names)
                side[name] = empty.store.lazy(empty, facts.distinct, (), shared=True, guess=inserts + deletes)
        cluster.settle([*plus.values(), *minus.values(), *both.values()])
        for name, table in both.items():
            plus[name], minus[name] = _sides(table, cluster.empty(name).rows())
        cluster.settle([*plus.values(), *minus.values()])
        return plus, minus


class _NoRecords(DataError):
    """Texts are no records; found after all else."""


def _no_records(relation: Relation, bad: Sequence[BadTexts], span: Span) -> DataError:
    """In the words that the driver has for it."""
    return _NoRecords(f"relation `{relation.name}`: column `{bad[0].column}`: {bad[0].why}")


def _signs(given: Operations) -> Signs:
    plus = int(given.inserts.sum())
    return plus, given.inserts.size - plus


def _size(signs: Mapping[str, Signs], relation: Relation) -> int:
    return sum(signs[relation.name])


def by_last_operation(df: DataFrame, names: Sequence[str]) -> DataFrame:
    """Each fact once, and after it 1 if its last operation inserts, else 0.

    That is so if its last insertion does not come before its last deletion.
    """
    from pyspark.sql import functions as fn

    lasts = [fn.max(fn.when(test, fn.col(RANK))) for test in (fn.col(SIGN), ~fn.col(SIGN))]
    found = df.groupBy(*names).agg(lasts[0].alias("plus"), lasts[1].alias("minus"))
    inserted = fn.col("plus").isNotNull() & (fn.col("minus").isNull() | (fn.col("plus") >= fn.col("minus")))
    return found.select(*names, inserted.cast("bigint").alias(f"c{len(names)}"))


def _sides(table: Table, empty: Table) -> tuple[Table, Table]:
    """The facts whose last operation inserts, and those whose last deletes."""
    names, sign = empty.names, table.names[-1]

    def facts(wanted: int) -> DataFrame:
        from pyspark.sql import functions as fn

        return table.frame().filter(fn.col(sign) == wanted).select(*names)

    def side(wanted: int) -> Table:
        here = table.here
        if here is None:
            return empty.store.lazy(empty, partial(facts, wanted), (table,), guess=len(table))
        chosen = here.filter(pc.equal(here.column(sign), wanted)).select(names)
        return empty.store.held(chosen, empty.kinds, empty.arity)

    return side(1), side(0)
