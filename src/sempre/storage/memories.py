"""What strategies remember, as sets, and back.

A memory is taken apart into runs of rows with numbers. Memories are immutable and share their runs from epoch to epoch,
so the runs that only one of two memories has are the change, and finding them costs what the change does.

What a memory consists of it says itself (`sempre.maintain.memory`). One that is not stored is made again from facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from sempre.active.timeline import Timeline
from sempre.analysis.model import Stratum
from sempre.data import dataclass
from sempre.engine import Engine, Snapshot, standing_work_at
from sempre.kernel.chains import ADDED, DELETED, POINTS, Chain, StoredRecords
from sempre.kernel.join import Weights
from sempre.kernel.layout import Column, Field, Keys, Packing, fields_covering, packing
from sempre.kernel.tally import Counted, Tally
from sempre.kernel.trace import RowSet, Trace
from sempre.maintain.memory import Memory, Meta
from sempre.maintain.registry import MEMORIES, STRATEGIES
from sempre.maintain.strategy import Strategy
from sempre.plan import backend
from sempre.plan.backend import Backend, Rows
from sempre.storage.parquet_blocks import Block
from sempre.storage.pieces import PieceReader, sorted_block

# All kinds of memories, and how many columns come before those of the relation, by the kind of a set.
KINDS: dict[str, type[Memory]] = {**MEMORIES, Timeline.kind: Timeline}
LEADING: dict[str, int] = {kind: columns for memory in KINDS.values() for kind, columns in memory.sets.items()}


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """Rows with numbers: an array of them, or one for all. `iteration`, if there is one, is put before the columns.

    Of rows that are `stamped` the last column is one of cycles, and comes first here.
    """

    packing: Packing
    keys: Keys
    weights: Weights | int
    iteration: int | None = None
    stamped: bool = False

    @property
    def identity(self) -> tuple[int, int, int | None]:
        """The same for the same arrays, as long as they live."""
        number = self.weights if isinstance(self.weights, int) else id(self.weights)
        return id(self.keys), number, self.iteration

    def columns(self) -> list[Column]:
        columns = self.packing.columns(self.keys)
        if self.stamped:
            return [columns[-1], *columns[:-1]]
        lead = [] if self.iteration is None else [np.full(self.keys.size, self.iteration, np.int64)]
        return [*lead, *columns]

    def numbers(self, sign: int) -> Weights:
        if isinstance(self.weights, int):
            return np.full(self.keys.size, sign * self.weights, np.int64)
        return sign * self.weights.astype(np.int64)


Parts = dict[str, list[NumberedRows]]


# ------------------------------------------------------------------------------------------------- writing


class Shelf:
    """Takes the sets of memories, as runs of rows with numbers."""

    def __init__(self) -> None:
        self.parts: Parts = {}

    def _add(self, kind: str, relation: str, *runs: NumberedRows) -> None:
        self.parts.setdefault(f"{kind}/{relation}", []).extend(runs)

    def tally(self, kind: str, relation: str, tally: backend.Tally) -> None:
        held = _own_tally(tally)
        self._add(kind, relation, *(NumberedRows(held.packing, keys, weights) for keys, weights in held.runs()))

    def rows(self, kind: str, relation: str, rows: Rows, number: int, iteration: int | None = None) -> None:
        held = _own_rows(rows)
        self._add(kind, relation, NumberedRows(held.packing, held.keys, number, iteration))

    def counted(self, kind: str, relation: str, counted: backend.Counted, iteration: int | None = None) -> None:
        held = _own_counted(counted)
        self._add(kind, relation, NumberedRows(held.packing, held.keys, held.weights, iteration))

    def chain(self, relation: str, chain: backend.Chain) -> None:
        held = _own_chain(chain)
        for kind in (POINTS, ADDED, DELETED):
            runs = (NumberedRows(*run, stamped=True) for run in held.runs(kind))
            self._add(kind, relation, *runs)


def parts(memory: Memory | None) -> Parts:
    """The sets of a memory."""
    shelf = Shelf()
    if memory is not None:
        memory.write(shelf)
    return shelf.parts


def change(before: Parts, after: Parts) -> Iterator[tuple[str, Block]]:
    """How the sets of two memories differ."""
    for name in {**before, **after}:
        old = {part.identity: part for part in before.get(name, ())}
        new = {part.identity: part for part in after.get(name, ())}
        signed = [(1, part) for key, part in new.items() if key not in old and part.keys.size]
        signed += [(-1, part) for key, part in old.items() if key not in new and part.keys.size]
        if signed:
            columns = [np.concatenate(column) for column in zip(*(part.columns() for _, part in signed), strict=True)]
            weights = np.concatenate([part.numbers(sign) for sign, part in signed])
            block = sorted_block(columns, weights, weights.size)
            if len(block):
                yield name, block


# ------------------------------------------------------------------------------------------------- reading


class MemoryReader:
    """The memories of a stored epoch."""

    def __init__(
        self,
        reader: PieceReader,
        backend: Backend,
        fields: Mapping[str, tuple[Field, ...]],
        versions: Mapping[str, Any],
    ) -> None:
        self._reader = reader
        self._backend = backend
        self._fields = fields
        self._versions = versions

    def memory(self, meta: Meta, stratum: Stratum) -> Memory | None:
        """The memory that was described by `meta`."""
        kind = KINDS.get(meta["kind"])
        return None if kind is None else kind.read(meta, stratum, self)

    def strategy(self, name: str) -> Strategy:
        return STRATEGIES[name]

    def tallies(self, kind: str, stratum: Stratum) -> dict[str, backend.Tally]:
        """The numbers of one kind, for every relation of the stratum."""
        return {name: self._tally(kind, name) for name in stratum.relations}

    def _tally(self, kind: str, name: str) -> backend.Tally:
        tally = self._backend.tally(name)
        for block in self._reader.blocks(f"{kind}/{name}"):
            tally = tally.adding(_counted(block.columns, block.numbers(), self._fields[name]))
        return tally

    def chain(self, relation: str) -> backend.Chain:
        """The chains of a relation."""
        now = self._versions[relation]
        assert isinstance(now, Trace)
        chain: Any = Chain.restored(now, *(self._records(kind, relation) for kind in (POINTS, ADDED, DELETED)))
        found: backend.Chain = chain
        return found

    def _records(self, kind: str, relation: str) -> StoredRecords:
        set_ = f"{kind}/{relation}"
        total = self._reader.total(set_) if set_ in self._reader.names() else None
        if not isinstance(total, Block):
            nothing = np.empty(0, np.int64)
            return StoredRecords(nothing, [nothing] * len(self._fields[relation]), nothing)
        cycles, *columns = total.columns
        return StoredRecords(cycles, columns, total.numbers())

    def rows(self, kind: str, relation: str) -> dict[int, Rows]:
        """The rows of one kind, by their iterations."""
        found = self._records(kind, relation)
        fields = self._fields[relation]
        return {
            int(at): _counted([column[found.cycles == at] for column in found.columns], here, fields).rows()
            for at in np.unique(found.cycles)
            for here in [found.numbers[found.cycles == at]]
        }

    def iterations(self, kind: str, stratum: Stratum, size: int) -> list[dict[str, backend.Counted]]:
        """For each of so many iterations, the numbers of one kind, for every relation of the stratum."""
        found = {name: self._split(f"{kind}/{name}", name, size) for name in stratum.relations}
        return [{name: split[number] for name, split in found.items()} for number in range(size)]

    def _split(self, set_: str, name: str, size: int) -> list[Counted]:
        """The rows of each iteration."""
        fields = self._fields[name]
        total = self._reader.total(set_) if set_ in self._reader.names() else None
        if not isinstance(total, Block):
            nothing = [np.empty(0, np.int64)] * len(fields)
            return [_counted(nothing, np.empty(0, np.int64), fields)] * size
        iteration, *columns = total.columns
        weights = total.numbers()
        bounds = np.searchsorted(iteration, np.arange(1, size + 2))
        return [
            _counted([column[start:stop] for column in columns], weights[start:stop], fields)
            for start, stop in pairwise(bounds.tolist())
        ]


def _counted(columns: Any, weights: Weights, fields: tuple[Field, ...]) -> Counted:
    """Sorted rows with their numbers."""
    layout = packing(fields_covering(columns, fields), tuple(range(len(fields))))
    return Counted(layout, RowSet(layout, layout.pack(columns, weights.size)).keys, weights)


def _own_rows(rows: object) -> RowSet:
    """Rows in the driver, as what they are: memories of strata on the cluster are not stored."""
    assert isinstance(rows, RowSet)
    return rows


def _own_counted(counted: object) -> Counted:
    assert isinstance(counted, Counted)
    return counted


def _own_chain(chain: object) -> Chain:
    assert isinstance(chain, Chain)
    return chain


def _own_tally(tally: object) -> Tally:
    assert isinstance(tally, Tally)
    return tally


def fresh(engine: Engine, snapshot: Snapshot, stratum: Stratum) -> Memory | None:
    """A memory for a stratum whose own was not stored, or is another strategy's."""
    if not (stratum.nonrecursive or stratum.recursive):
        return None
    strategy = engine.strategy_of(stratum, snapshot.versions[stratum.relations[0]].place)
    return strategy.recall(lambda: standing_work_at(engine, engine.fitted(snapshot), stratum), stratum)
