"""What strategies remember, as sets, and back.

A memory is taken apart into runs of rows with numbers. Memories are immutable and share their runs from epoch to epoch,
so the runs that only one of two memories has are the change, and finding them costs what the change does.

Memories of a kind that is not known here are not stored: what they hold is made again from the facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sempre.analysis.model import Stratum
from sempre.engine import STRATEGIES, Engine, Snapshot, standing_at
from sempre.kernel.join import Weights
from sempre.kernel.layout import Column, Field, Keys, Packing, fields_covering, packing
from sempre.kernel.tally import Counted, Tally
from sempre.kernel.trace import RowSet
from sempre.maintain.auto import Auto, Chosen
from sempre.maintain.dredc import Counters, DRedC
from sempre.maintain.iterations import Level, Levels
from sempre.maintain.ranked import Ranks
from sempre.plan import backend
from sempre.plan.backend import Backend, Rows
from sempre.storage.blocks import Block
from sempre.storage.pieces import Reader, sorted_block

Meta = dict[str, Any]
# Strategies that make their memory themselves when they have none.
SELF_STARTING = ("recompute", "dred", "dredc", "bf", "bfc")


@dataclass(frozen=True, slots=True)
class Numbered:
    """Rows with numbers: an array of them, or one for all. `iteration`, if there is one, is put before the columns."""

    packing: Packing
    keys: Keys
    weights: Weights | int
    iteration: int | None = None

    @property
    def identity(self) -> tuple[int, int, int | None]:
        """The same for the same arrays, as long as they live."""
        number = self.weights if isinstance(self.weights, int) else id(self.weights)
        return id(self.keys), number, self.iteration

    def columns(self) -> list[Column]:
        lead = [] if self.iteration is None else [np.full(self.keys.size, self.iteration, np.int64)]
        return [*lead, *self.packing.columns(self.keys)]

    def numbers(self, sign: int) -> Weights:
        if isinstance(self.weights, int):
            return np.full(self.keys.size, sign * self.weights, np.int64)
        return sign * self.weights.astype(np.int64)


Parts = dict[str, list[Numbered]]


# ------------------------------------------------------------------------------------------------- writing


def describe(memory: Any, strategy: str) -> Meta | None:
    """What a manifest says of a memory; None if it cannot be stored."""
    if memory is None:
        return {"kind": "nothing", "strategy": strategy}
    if isinstance(memory, Counters):
        return {"kind": "counters", "strategy": strategy, "rec": memory.rec is not None}
    if isinstance(memory, Ranks):
        return {"kind": "ranks", "strategy": strategy, "top": memory.top}
    if isinstance(memory, Levels):
        levels, seconds = len(memory.levels), memory.bootstrap_seconds
        return {"kind": "levels", "strategy": strategy, "levels": levels, "seconds": seconds}
    if isinstance(memory, Chosen):
        inner = describe(memory.memory, memory.strategy.name)
        if inner is not None:
            seconds, affects = memory.full_seconds, memory.affects
            return {"kind": "chosen", "strategy": strategy, "seconds": seconds, "affects": affects, "memory": inner}
    return None


def parts(memory: Any) -> Parts:
    """The sets of a memory that can be described."""
    found: Parts = {}
    if isinstance(memory, Chosen):
        return parts(memory.memory)
    if isinstance(memory, Counters):
        _add_tallies(found, "nonrec", memory.nonrec)
        _add_tallies(found, "rec", memory.rec or {})
    elif isinstance(memory, Ranks):
        _add_tallies(found, "rank", memory.settled)
        for name, rounds in memory.found.items():
            ranked = [(rank, _own(rows)) for rank, rows in rounds]
            found.setdefault(f"rank/{name}", []).extend(Numbered(r.packing, r.keys, rank) for rank, r in ranked)
    elif isinstance(memory, Levels):
        for number, level in enumerate(memory.levels, 1):
            for name, counted in level.counts.items():
                assert isinstance(counted, Counted)
                part = Numbered(counted.packing, counted.keys, counted.weights, number)
                found.setdefault(f"count/{name}", []).append(part)
            for name, rows in ((name, _own(rows)) for name, rows in level.facts.items()):
                found.setdefault(f"new/{name}", []).append(Numbered(rows.packing, rows.keys, 1, number))
    return found


def _add_tallies(found: Parts, kind: str, tallies: Mapping[str, backend.Tally]) -> None:
    for name, held in tallies.items():
        tally = _own_tally(held)
        found[f"{kind}/{name}"] = [Numbered(tally.packing, keys, weights) for keys, weights in tally.runs()]


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

    def __init__(self, reader: Reader, backend: Backend, fields: Mapping[str, tuple[Field, ...]]) -> None:
        self._reader = reader
        self._backend = backend
        self._fields = fields

    def memory(self, meta: Meta, stratum: Stratum) -> Any:
        """The memory that was described by `meta`."""
        match meta["kind"]:
            case "counters":
                rec = self._tallies("rec", stratum) if meta["rec"] else None
                return Counters(self._tallies("nonrec", stratum), rec)
            case "ranks":
                return Ranks(self._tallies("rank", stratum), dict.fromkeys(stratum.relations, ()), meta["top"])
            case "levels":
                return Levels(tuple(self._levels(stratum, meta["levels"])), meta["seconds"])
            case "chosen":
                inner = meta["memory"]
                memory = self.memory(inner, stratum)
                return Chosen(STRATEGIES[inner["strategy"]], memory, meta["seconds"], meta["affects"])
        return None

    def _tallies(self, kind: str, stratum: Stratum) -> dict[str, backend.Tally]:
        return {name: self._tally(kind, name) for name in stratum.relations}

    def _tally(self, kind: str, name: str) -> backend.Tally:
        tally = self._backend.tally(name)
        for block in self._reader.blocks(f"{kind}/{name}"):
            tally = tally.adding(_counted(block.columns, block.numbers(), self._fields[name]))
        return tally

    def _levels(self, stratum: Stratum, size: int) -> Iterator[Level]:
        counts = {name: self._split(f"count/{name}", name, size) for name in stratum.relations}
        facts = {name: self._split(f"new/{name}", name, size) for name in stratum.relations}
        for number in range(size):
            yield Level(
                {name: split[number].rows() for name, split in facts.items()},
                {name: split[number] for name, split in counts.items()},
            )

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


def _own(rows: Rows) -> RowSet:
    """Rows in the driver, as what they are."""
    assert isinstance(rows, RowSet)
    return rows


def _own_tally(tally: object) -> Tally:
    """A tally in the driver, as what it is."""
    assert isinstance(tally, Tally)
    return tally


def fresh(engine: Engine, snapshot: Snapshot, stratum: Stratum) -> Any:
    """A memory for a stratum whose own was not stored, or is another strategy's."""
    if not (stratum.nonrecursive or stratum.recursive):
        return None
    place = snapshot.versions[stratum.relations[0]].place
    strategy = engine.strategy_of(stratum, place)
    if strategy.name in SELF_STARTING:
        return None
    if isinstance(strategy, Auto):
        return Chosen(DRedC(), None, 0.0)
    return strategy.bootstrap(standing_at(engine, engine.fitted(snapshot), stratum), stratum).memory
