"""Fixpoints inside of tasks: a recursive stratum in one `mapInArrow` pass, by the kernel and the ordinary evaluation.

A round over DataFrames costs about as much as a small fixpoint altogether. Where a stratum splits (`shares.decide`),
every task closes its share alone. Values cross as Arrow; codes exist only inside of a task.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sempre.analysis.model import CheckedProgram, Kind, Relation, Stratum
from sempre.backends.local import LocalBackend
from sempre.ingest import encode_rows
from sempre.kernel import join
from sempre.kernel.trace import RowSet
from sempre.kernel.values import Symbols
from sempre.maintain.planning import Plans
from sempre.maintain.seminaive import Fixpoint, first_facts
from sempre.results import Decoder
from sempre.spark import ship
from sempre.spark.failures import told
from sempre.spark.frames import CASTS, finished, from_frame
from sempre.spark.shares import Split, decide, why_not

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Rows per batch on the way back to Spark.
BATCH_ROWS = 1 << 16
SPARK_TYPES = {**CASTS, Kind.RECORD: "string"}

Shares = NDArray[np.int64]


def close(
    spark: SparkSession,
    program: CheckedProgram,
    stratum: Stratum,
    split: Split,
    inputs: Mapping[str, DataFrame | pa.Table],
) -> dict[str, DataFrame]:
    """The relations of a stratum as frames of plain values, distinct; lazy but for fetching what tasks get copies of.

    `inputs` has the relations that the stratum reads, and the explicit facts of its own; if the split is `seeded`, its
    own are all first facts, those that nonrecursive rules derive included. Each relation is a pass of its own.
    """
    ship.ensure(spark)
    copies = packed({name: _table(inputs[name], program.relations[name]) for name in split.copied if name in inputs})
    if split.seeded:
        (name,) = stratum.relations
        seeds_df = inputs[name]
        names = seeds_df.columns
        shared_df = seeds_df.repartition(split.parts, *(names[at] for at in dict.fromkeys(split.keys[name])))
    else:
        shared_df = spark.range(0, split.parts, 1, split.parts)
    return {
        name: shared_df.mapInArrow(_task(split, copies, name), schema_of(program.relations[name]))
        for name in stratum.relations
    }


def schema_of(relation: Relation) -> str:
    """The columns of a relation as Spark has them."""
    return ", ".join(
        f"`{name}` {SPARK_TYPES[kind]}" for name, kind in zip(relation.columns, relation.kinds, strict=True)
    )


def packed(tables: Mapping[str, pa.Table]) -> dict[str, bytes]:
    """Tables as they travel with a task."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    found = {}
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        found[name] = sink.getvalue().to_pybytes()
    return found


def _table(rows: DataFrame | pa.Table, relation: Relation) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else from_frame(rows, relation).table


# --------------------------------------------------------------------------------------------------- in a task


def _task(
    split: Split, copies: Mapping[str, bytes], relation: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    token = hashlib.sha256(b"".join(copies.values()) + repr((split.reason, split.parts)).encode()).hexdigest()

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        closer = closer_for(token, split, copies)
        if split.seeded:
            tables = [pa.Table.from_batches([batch]) for batch in batches]
            if tables:
                yield from closer.from_seeds(relation, pa.concat_tables(tables))
            return
        for batch in batches:
            for share in batch.column(0).to_pylist():
                yield from closer.share(relation, share)

    return run


_closers: dict[str, Closer] = {}


def closer_for(token: str, split: Split, copies: Mapping[str, bytes]) -> Closer:
    """The closer that this process has for a pass; the tasks of a pass that it runs one after the other share it."""
    if token not in _closers:
        _closers.clear()
        _closers[token] = Closer(split, copies)
    return _closers[token]


@dataclass(frozen=True, slots=True)
class _First:
    """The first facts of a relation, and the share of each."""

    rows: RowSet
    shares: Shares


class Closer:
    """What the tasks of a pass have in common: the copies, the strata before, the first facts, the plans."""

    def __init__(self, split: Split, copies: Mapping[str, bytes]) -> None:
        self._split = split
        self._program = program = split.program
        self._backend = backend = LocalBackend(program, threads=1)
        self._decoder = Decoder(backend.values, program.types)
        self._plans = Plans(program, backend)
        names = {split.explicit.get(name, name): data for name, data in copies.items()}
        tables = {name: pa.ipc.open_stream(data).read_all() for name, data in names.items()}
        encoded = {name: self._encoded(name, table) for name, table in tables.items()}
        backend.fit({name: columns for name, (columns, _) in encoded.items()})
        self._explicit = {name: backend.empty(name) for name in program.relations}
        self._explicit |= {name: backend.version(backend.rows(name, *given)) for name, given in encoded.items()}
        self._state: dict[str, Any] = {}
        for stratum in program.strata[:-1]:
            self._close(stratum, self._first(stratum), self._state)
        self._seeds: dict[str, _First] | None = None

    def _encoded(self, name: str, table: pa.Table) -> tuple[list[Any], int]:
        return encode_rows(self._program.relations[name], table, self._backend.values, self._program.types)

    def share(self, relation: str, share: int) -> Iterator[pa.RecordBatch]:
        """The facts of a relation in one share."""
        if self._seeds is None:
            first = self._first(self._split.stratum)
            self._seeds = {name: _First(rows, self._shares(name, rows)) for name, rows in first.items()}
        mine = {
            name: RowSet(given.rows.packing, given.rows.keys[given.shares == share])
            for name, given in self._seeds.items()
        }
        yield from self._closed(relation, mine)

    def from_seeds(self, relation: str, seeds: pa.Table) -> Iterator[pa.RecordBatch]:
        """The facts of a relation that follow from these first facts."""
        declared = self._program.relations[relation]
        columns, size = self._encoded(relation, finished(seeds, declared, declared.span))
        self._backend.fit({relation: columns})
        self._state = {name: self._backend.fitted(name, version) for name, version in self._state.items()}
        yield from self._closed(relation, {relation: self._backend.rows(relation, columns, size)})

    def _closed(self, relation: str, mine: dict[str, RowSet]) -> Iterator[pa.RecordBatch]:
        state = dict(self._state)
        self._close(self._split.stratum, mine, state)
        # Indexes that the rounds asked for serve the next share too.
        self._state = {name: state[name] for name in self._state}
        rows = state[relation].rows()
        declared = self._program.relations[relation]
        for start in range(0, len(rows), BATCH_ROWS):
            part = RowSet(rows.packing, rows.keys[start : start + BATCH_ROWS])
            table = self._decoder.table(declared, part.columns(), len(part))
            yield from _for_spark(table).to_batches()

    def _first(self, stratum: Stratum) -> dict[str, Any]:
        return first_facts(self._backend, self._plans, self._program, stratum, self._state, self._explicit)

    def _close(self, stratum: Stratum, first: dict[str, Any], state: dict[str, Any]) -> None:
        state.update({name: self._backend.empty(name) for name in stratum.relations})
        Fixpoint(self._backend, self._plans, self._program, stratum, _no_round).run(state, first)

    def _shares(self, name: str, rows: RowSet) -> Shares:
        """The share of every row, the same in all processes: codes of symbols are not, their texts are."""
        split = self._split
        if split.parts == 1:
            return np.zeros(len(rows), np.int64)
        columns, kinds = rows.columns(), self._program.relations[name].kinds
        mixed = np.zeros(len(rows), np.uint64)
        for at in split.keys[name]:
            column = columns[at]
            if kinds[at] is Kind.SYMBOL:
                column = _text_hashes(column, self._backend.values.symbols)
            mixed = _mixed(mixed ^ column.view(np.uint64))
        return (mixed % np.uint64(split.parts)).astype(np.int64)


def _text_hashes(codes: Any, symbols: Symbols) -> Any:
    known = join.distinct(codes.copy())
    hashes = np.fromiter((zlib.crc32(text.encode("utf-8")) for text in symbols.decode(known)), np.int64, known.size)
    return hashes[known.searchsorted(codes)]


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers with their bits spread, so that neighbors fall into different shares."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _for_spark(table: pa.Table) -> pa.Table:
    """The table with types that Spark has."""
    arrays = [
        column.cast(pa.decimal128(20, 0)) if pa.types.is_uint64(column.type) else column for column in table.columns
    ]
    return pa.Table.from_arrays(arrays, names=table.column_names)


def _no_round(round_: int, facts: int) -> None:
    """Nobody watches."""


__all__ = ["Split", "close", "decide", "schema_of", "told", "why_not"]
