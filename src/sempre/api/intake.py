"""Rows on their way in: which become codes in the driver, and which stay on the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sempre.analysis.model import Relation
from sempre.api.keyed import KeyedRows, last_with_keys
from sempre.api.program import Program
from sempre.backends.local import LocalBackend
from sempre.data import dataclass
from sempre.diagnostics import DataError
from sempre.engine import Engine
from sempre.ingest import Coded, Parts, encode_rows, encode_texts, is_spark_frame, split_given
from sempre.kernel.values import Values
from sempre.plan.backend import CLUSTER, Rows, sealed

if TYPE_CHECKING:
    from sempre.spark.batches import Batch
    from sempre.spark.border import Border
    from sempre.spark.cluster.spark_backend import SparkBackend
    from sempre.spark.residency import Residency

# Columns of codes, and how many rows they have.
Encoded: TypeAlias = "tuple[list[np.ndarray[Any, Any]], int]"
# A relation, whether rows are inserted, and the rows.
Operation: TypeAlias = "tuple[str, bool, list[np.ndarray[Any, Any]], int]"


@dataclass(frozen=True, slots=True)
class IncomingRows:
    """Rows by relation: codes for the driver, and rows that are on the cluster. A relation may have both.

    `by_position` are the relations whose rows had columns with names that were not asked for them.
    """

    codes: dict[str, Encoded] = field(default_factory=dict)
    on_cluster: dict[str, Rows] = field(default_factory=dict)
    by_position: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Intake:
    """Takes rows of any kind for one database; `border` gives its border to Spark when there is need of one."""

    program: Program
    backend: LocalBackend
    border: Callable[[], Border]
    cluster: SparkBackend | None = None
    engine: Engine | None = None

    def staying(self) -> Residency | None:
        """Who decides what stays on the cluster, if anything can."""
        if self.cluster is None or self.engine is None:
            return None
        from sempre.spark.residency import Residency

        engine = self.engine
        return Residency(self.cluster, engine.places, lambda name: engine.snapshot.explicit[name])

    def take(self, tables: Mapping[str, Any], known: bool = False) -> IncomingRows:
        """The rows of all tables; what stays on the cluster is written there, several relations at a time.

        With `known`, values that have no code get none: the rows are to be looked for, not to be kept.
        """
        if not isinstance(tables, Mapping):
            raise DataError(
                f"what changes is given by relation, and this is {type(tables).__name__}",
                hint='Name the relation: `{"edge": rows}`.',
            )
        coming = IncomingRows()
        # A branch begins with what is kept, and so do the facts that there are.
        values = self.backend.values.branch() if known else self.backend.values
        given = [
            (self.relation(name), rows.in_driver if isinstance(rows, Parts) else rows) for name, rows in tables.items()
        ]
        coded = encode_texts(given, values)
        for (relation, _), rows, texts in zip(given, tables.values(), coded, strict=True):
            self._take(relation, rows, coming, values, texts)
        if self.cluster is not None:
            sealed(self.cluster).settle(coming.on_cluster.values())
        return coming

    def _take(self, relation: Relation, rows: Any, coming: IncomingRows, values: Values, coded: Coded) -> None:
        given, taking = split_given(rows)
        if is_spark_frame(given):
            rows = self.border().given(relation, given, self.staying(), taking)
        # Parts are what was read for this database, and has been looked at already.
        parts = rows if isinstance(rows, Parts) else Parts(rows)
        if parts.by_position:
            coming.by_position.add(relation.name)
        if parts.on_cluster is not None:
            coming.on_cluster[relation.name] = parts.on_cluster
        if parts.in_driver is not None:
            noted = coming.by_position
            coming.codes[relation.name] = encode_rows(
                relation, parts.in_driver, values, self.program.checked.types, noted, coded
            )

    def batch(self, batch: Batch) -> tuple[IncomingRows, IncomingRows, dict[str, KeyedRows]]:
        """What a batch of a stream inserts, and what it deletes: of each fact its last operation.

        Of relations with keys, the last row of each key, which is inserted; what it replaces is found later.
        """
        from sempre.spark.operations import last_operations

        insert, delete = IncomingRows(on_cluster=dict(batch.plus)), IncomingRows(on_cluster=dict(batch.minus))
        keyed: dict[str, KeyedRows] = {}
        for name, given in batch.here.items():
            columns, _ = self.encode(name, given.table, set())
            if given.key:
                names = self.relation(name).columns
                keyed[name] = last_with_keys(name, given, columns, tuple(names.index(each) for each in given.key))
                if keyed[name].size:
                    insert.codes[name] = (keyed[name].columns, keyed[name].size)
                continue
            lasts = last_operations(columns, given.inserts, given.ranks)
            for rows, side in zip(lasts, (insert, delete), strict=True):
                if rows.size:
                    side.codes[name] = ([column[rows] for column in columns], rows.size)
        return insert, delete, keyed

    def encode(self, name: str, rows: Any, by_position: set[str]) -> Encoded:
        """Rows as codes, wherever they are; notes the relation if columns with other names were taken `by_position`."""
        relation = self.relation(name)
        given, taking = split_given(rows)
        here = self.border().take(relation, given, taking) if is_spark_frame(given) else rows
        return encode_rows(relation, here, self.backend.values, self.program.checked.types, by_position)

    def relation(self, name: str) -> Relation:
        relation = self.program.relations.get(name)
        if relation is None:
            raise unknown(self.program, name)
        return relation

    def with_program_facts(self, coming: IncomingRows) -> IncomingRows:
        """Also the facts that the program has itself."""
        codes = dict(coming.codes)
        for name, (columns, size) in self.program_facts().items():
            mine = codes.get(name)
            if mine is None:
                codes[name] = (columns, size)
            else:
                codes[name] = ([np.concatenate(pair) for pair in zip(mine[0], columns, strict=True)], mine[1] + size)
        return IncomingRows(codes, coming.on_cluster, coming.by_position)

    def program_facts(self) -> dict[str, Encoded]:
        """The facts that the program has itself."""
        by_relation: dict[str, list[Any]] = {}
        for fact in self.program.checked.facts:
            by_relation.setdefault(fact.relation, []).append(fact)
        return {name: (self.backend.constants(facts), len(facts)) for name, facts in by_relation.items()}

    def fit(self, coming: IncomingRows) -> None:
        """Make room for the values of rows to insert."""
        self.backend.fit({name: columns for name, (columns, _) in coming.codes.items()})

    def rows(self, coming: IncomingRows) -> dict[str, Rows]:
        """One set of rows per relation, on the cluster if any of them is there."""
        found: dict[str, Rows] = {name: self.backend.rows(name, *encoded) for name, encoded in coming.codes.items()}
        for name, there in coming.on_cluster.items():
            mine = found.get(name)
            if mine is not None and self.engine is not None:
                brought = self.engine.places.bring_rows(name, mine, CLUSTER)
                there = self.engine.places.backends[CLUSTER].union([there, brought])
            found[name] = there
        return found

    def last_wins(self, operations: Sequence[Operation]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Rows to insert and to delete, when the last operation on each row decides."""
        backend = self.backend
        backend.fit({name: columns for name, _, columns, _ in operations})
        insert: dict[str, Any] = {}
        delete: dict[str, Any] = {}
        for name, is_insert, columns, size in operations:
            rows = backend.rows(name, columns, size)
            target, other = (insert, delete) if is_insert else (delete, insert)
            target[name] = backend.union([target[name], rows]) if name in target else rows
            if name in other:
                other[name] = backend.difference(other[name], backend.version(rows))
        return insert, delete


def unknown(program: Program, name: str) -> DataError:
    """The error for a relation that is not there."""
    import difflib

    close = difflib.get_close_matches(str(name), program.relations, 1)
    return DataError(f"no relation is called `{name}`", hint=f"Did you mean `{close[0]}`?" if close else "")
