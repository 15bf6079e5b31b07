"""Fixpoints inside of tasks: a recursive stratum in one `mapInArrow` pass, by the kernel and the ordinary evaluation.

A round over DataFrames costs about as much as a small fixpoint altogether. Where a stratum splits (`shares.decide`),
every task closes its share alone. Tasks read what they need copies of from files, and write what they find to files:
neither passes through the driver or the JVM. Codes exist only inside of a task; files have plain values.

A task that has all of a stratum watches how large that grows, and gives up before it takes more memory than it has.

A task writes under a name that Spark does not read, and reports it. Only what tasks reported that have succeeded is
given its final name, so a task that ran twice, or half, leaves nothing.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sempre.analysis.model import Kind, Stratum
from sempre.backends.local import LocalBackend
from sempre.data import dataclass
from sempre.kernel import compiled, join
from sempre.kernel.trace import RowSet
from sempre.kernel.values import Symbols
from sempre.limits import DEFAULTS
from sempre.maintain.decide import VALUE_BYTES, needed_bytes
from sempre.maintain.planning import Plans
from sempre.maintain.recompute import closed_relations
from sempre.maintain.seminaive import first_facts
from sempre.maintain.strategy import Abandoned, Work
from sempre.modules.find import partition
from sempre.modules.graph import Paths
from sempre.modules.spec import Module
from sempre.plan.backend import Rows, Version, sealed
from sempre.plan.faults import limit_errors
from sempre.spark.cluster.column_types import from_arrow, kinds_of, names_of, table_of
from sempre.spark.cluster.shares import Split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Rows that are decoded and written at a time.
WRITE_ROWS = 1 << 20
# With this many rows to start from, compiled loops pay for being loaded.
COMPILED_ROWS = 1 << 17
# What tasks report: a file that they wrote, and its rows; or, of no relation, why they gave up.
REPORT = "relation string, file string, rows bigint"
UNFINISHED = "_"

Shares = NDArray[np.int64]
Found = Iterator[tuple[str, pa.Table]]


def tasks(
    spark: SparkSession, split: Split, copies: Mapping[str, Path], targets: Mapping[str, Path], seeds: DataFrame | None
) -> DataFrame:
    """A frame of what tasks report that close a stratum: one row per file; `adopt` is for those.

    `copies` are folders with the rows of `split.copied`, `targets` those to write relations of the stratum to; all as
    plain values. If the split is `seeded`, `seeds` are all first facts, those that nonrecursive rules derive included.
    """
    run = Pass(split, {name: str(path) for name, path in copies.items()}, {n: str(p) for n, p in targets.items()})
    if seeds is None:
        return spark.range(0, split.parts, 1, split.parts).mapInArrow(run, REPORT)
    (name,) = split.stratum.relations
    keys = [seeds.columns[at] for at in dict.fromkeys(split.keys[name])]
    return seeds.repartition(split.parts, *keys).mapInArrow(run, REPORT)


def adopt(reported: pa.Table, targets: Mapping[str, Path]) -> dict[str, int]:
    """Keep the files that were reported, and no others; returns how many rows each relation has.

    Raises `Abandoned` if a task gave up.
    """
    for report in reported.to_pylist():
        if not report["relation"]:
            raise Abandoned(report["file"])
    sizes = {}
    for name, folder in targets.items():
        mine = [report for report in reported.to_pylist() if report["relation"] == name]
        sizes[name] = finish(folder, (report["file"] for report in mine), (report["rows"] for report in mine))
    return sizes


def finish(folder: Path, files: Iterable[str], rows: Iterable[int]) -> int:
    """Give the files of a folder that were reported their final names, and remove the others; returns all rows."""
    for file in files:
        (folder / file).rename(folder / file.removeprefix(UNFINISHED))
    for left in folder.glob(f"{UNFINISHED}*"):
        left.unlink(missing_ok=True)
    return sum(rows)


# --------------------------------------------------------------------------------------------------- in a task


@dataclass(frozen=True, slots=True)
class Pass:
    """What every task of a pass does: a function for `mapInArrow`.

    `token` is of this pass alone: it tells a worker that is used again what belongs to another one.
    """

    split: Split
    copies: Mapping[str, str]
    targets: Mapping[str, str]
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        closer = closer_for(self)
        if self.split.seeded:
            tables = [pa.Table.from_batches([batch]) for batch in batches]
            if tables:
                yield from self._written(closer.from_seeds(pa.concat_tables(tables)))
            return
        for batch in batches:
            for share in batch.column(0).to_pylist():
                try:
                    yield from self._written(closer.share(share))
                except Abandoned as reason:
                    yield pa.RecordBatch.from_pydict({"relation": [""], "file": [str(reason)], "rows": [0]})

    def _written(self, found: Found) -> Iterator[pa.RecordBatch]:
        with ShareFiles(self.targets) as files:
            for name, table in found:
                files.write(name, table)
        yield from files.report()


class ShareFiles:
    """The files of one share, one per relation."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        self._targets = targets
        self._files: dict[str, str] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._rows: dict[str, int] = {}

    def __enter__(self) -> ShareFiles:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        for writer in self._writers.values():
            writer.close()
        if failed is not None:
            for name, file in self._files.items():
                Path(self._targets[name], file).unlink(missing_ok=True)

    def write(self, name: str, table: pa.Table) -> None:
        if name not in self._writers:
            self._files[name] = f"{UNFINISHED}{uuid.uuid4().hex}.parquet"
            path = Path(self._targets[name], self._files[name])
            self._writers[name] = pq.ParquetWriter(path, table.schema, compression="lz4", use_dictionary=False)
        self._writers[name].write_table(table, row_group_size=DEFAULTS.page_rows)
        self._rows[name] = self._rows.get(name, 0) + table.num_rows

    def report(self) -> Iterator[pa.RecordBatch]:
        names = list(self._files)
        columns = {"relation": names, "file": [self._files[n] for n in names], "rows": [self._rows[n] for n in names]}
        if names:
            yield pa.RecordBatch.from_pydict(columns)


# By the token of a pass; one at a time.
_closers: dict[str, Closer] = {}


def closer_for(run: Pass) -> Closer:
    """The closer that this process has for a pass; the tasks of a pass that it runs one after the other share it."""
    if run.token not in _closers:
        _closers.clear()
        tables = {name: pq.read_table(path, partitioning=None) for name, path in run.copies.items()}
        _closers[run.token] = Closer(run.split, tables)
    return _closers[run.token]


@dataclass(frozen=True, slots=True)
class _First:
    """The first facts of a relation, and the share of each."""

    rows: RowSet
    shares: Shares


class Closer:
    """What the tasks of a pass have in common: the copies, the strata before, the first facts, the plans.

    `copies` are the rows of `split.copied`, as plain values.
    """

    def __init__(self, split: Split, copies: Mapping[str, pa.Table]) -> None:
        self._split = split
        self._program = program = split.program
        self._local = local = LocalBackend(program, threads=1)
        self._backend = backend = sealed(local)
        self._plans = Plans(program, backend)
        self._modules = partition(program)
        if sum(table.num_rows for table in copies.values()) >= COMPILED_ROWS:
            compiled.load(compiled.LOOPS, compiled.WALKER, wait=True)
        encoded = {
            target: self._encoded(target, table)
            for name, table in copies.items()
            for target in (split.explicit.get(name, name),)
        }
        local.fit({name: columns for name, (columns, _) in encoded.items()})
        self._explicit = {name: backend.empty(name) for name in program.relations}
        self._explicit |= {name: backend.version(local.rows(name, *given)) for name, given in encoded.items()}
        self._state: dict[str, Version] = {}
        for stratum in program.strata[:-1]:
            self._state |= self._close(stratum, self._first(stratum))
        self._seeds: dict[str, _First] | None = None
        self._paths: tuple[Paths, Shares] | None = None

    def _encoded(self, name: str, table: pa.Table) -> tuple[list[Any], int]:
        kinds = kinds_of(self._program.relations[name], self._program.types)
        names = names_of(kinds)
        columns = [
            from_arrow(self._local.values, table.column(at), kind) for at, kind in zip(names, kinds, strict=True)
        ]
        return columns, table.num_rows

    def share(self, share: int) -> Found:
        """The facts in one share, relation by relation."""
        if self._split.module is not None:
            return self._on_paths(self._split.module, share)
        if self._seeds is None:
            first = self._first(self._split.stratum)
            self._seeds = {name: _First(_own(rows), self._shares_of(name, rows)) for name, rows in first.items()}
        mine = {name: self._local.chosen(given.rows, given.shares == share) for name, given in self._seeds.items()}
        return self._closed(mine)

    def from_seeds(self, seeds: pa.Table) -> Found:
        """The facts that follow from these first facts."""
        (name,) = self._split.stratum.relations
        columns, size = self._encoded(name, seeds)
        self._local.fit({name: columns})
        self._state = {name: self._backend.fitted(name, version) for name, version in self._state.items()}
        return self._closed({name: self._local.rows(name, columns, size)})

    def _on_paths(self, module: Module, share: int) -> Found:
        """The facts whose first value is in one share."""
        if self._paths is None:
            first = self._first(self._split.stratum)
            facts = {letter: first[letter] for letter in module.letters if letter in first}
            facts |= {letter: self._state[letter].rows() for letter in module.letters if letter in self._state}
            pairs = {letter: rows.columns() for letter, rows in facts.items()}
            paths = Paths(module, {letter: (tails, heads) for letter, (tails, heads) in pairs.items()})
            self._paths = paths, self._shares([paths.values], [self._program.relations[module.heads[0]].kinds[0]])
        paths, shares = self._paths
        for head in module.heads:
            for block in paths.leading_from(head, shares == share):
                yield from self._tables(head, block)

    def _closed(self, mine: Mapping[str, Rows]) -> Found:
        for name, version in self._close(self._split.stratum, mine).items():
            rows = _own(version.rows())
            for start in range(0, len(rows), WRITE_ROWS):
                part = RowSet(rows.packing, rows.keys[start : start + WRITE_ROWS])
                yield from self._tables(name, part.columns())

    def _tables(self, name: str, columns: Sequence[Any]) -> Found:
        relation = self._program.relations[name]
        size = len(columns[0])
        if size:
            kinds = kinds_of(relation, self._program.types)
            yield name, table_of(self._local.values, columns, size, kinds, relation.arity)

    def _first(self, stratum: Stratum) -> dict[str, Rows]:
        return first_facts(self._backend, self._plans, self._program, stratum, self._state, self._explicit)

    def _close(self, stratum: Stratum, first: Mapping[str, Rows]) -> dict[str, Version]:
        explicit, state = self._explicit, self._state
        # Indexes that the rounds ask for stay in the state: they serve the next share too.
        watch = self._watch(stratum) if self._split.room and stratum == self._split.stratum else _no_round
        work = Work(self._program, self._backend, self._plans, {}, explicit, explicit, {}, watch, state)
        with limit_errors(self._program, (*stratum.nonrecursive, *stratum.recursive)):
            outcome, _ = closed_relations(work, stratum, dict(first), modules=self._modules.get(stratum.index, ()))
        return outcome.versions

    def _watch(self, stratum: Stratum) -> Callable[[int, int], None]:
        """Looks at what the rounds of a stratum find; raises `Abandoned` when that takes more room than there is."""
        widest = max(max(1, self._program.relations[name].arity) for name in stratum.relations)
        held = {**self._explicit, **self._state}
        taken = needed_bytes(self._program, stratum, lambda name: len(held[name]))

        def watch(round_: int, facts: int) -> None:
            nonlocal taken
            taken += facts * widest * VALUE_BYTES
            if taken > self._split.room:
                room = self._split.room
                raise Abandoned(f"about {taken:,} bytes in one task after {round_:,} rounds, and it has {room:,}")

        return watch

    def _shares_of(self, name: str, rows: Rows) -> Shares:
        columns, kinds = rows.columns(), self._program.relations[name].kinds
        keys = self._split.keys.get(name, ())
        return self._shares([columns[at] for at in keys], [kinds[at] for at in keys], len(rows))

    def _shares(self, columns: Sequence[Any], kinds: Sequence[Kind], size: int | None = None) -> Shares:
        """The share of every row, the same in all processes: codes of symbols are not, their texts are."""
        mixed = np.zeros(columns[0].size if size is None else size, np.uint64)
        for column, kind in zip(columns, kinds, strict=True):
            hashes = _text_hashes(column, self._local.values.symbols) if kind is Kind.SYMBOL else column
            mixed = _mixed(mixed ^ hashes.view(np.uint64))
        return (mixed % np.uint64(self._split.parts)).astype(np.int64)


def _text_hashes(codes: Any, symbols: Symbols) -> Any:
    known = join.distinct(codes.copy())
    hashes = np.fromiter((zlib.crc32(text.encode("utf-8")) for text in symbols.decode(known)), np.int64, known.size)
    return hashes[known.searchsorted(codes)]


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers with their bits spread, so that neighbors fall into different shares."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _own(rows: Rows) -> RowSet:
    """Rows of the backend that this task has."""
    assert isinstance(rows, RowSet)
    return rows


def _no_round(round_: int, facts: int) -> None:
    """Nobody watches."""
