"""A snapshot as sets, and back: what an epoch adds to a store, and relations read from it when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sempre.active.active_engine import TIMELINE, ActiveEngine
from sempre.active.timeline import Timeline
from sempre.backends.local import LocalBackend
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, InternalError, StateError
from sempre.engine import Engine, EpochResult, Snapshot
from sempre.kernel.layout import Column, Field, fields_covering, packing
from sempre.kernel.select import Selection
from sempre.kernel.trace import RowSet, Trace, within
from sempre.kernel.values import Values
from sempre.maintain.recompute import materialize
from sempre.maintain.strategy import Change, DeferredMemory, Outcome, Work
from sempre.plan.backend import CLUSTER, DRIVER, sealed
from sempre.plan.ops import relations_of
from sempre.rewrites.successors import is_neighbors
from sempre.storage import memories
from sempre.storage.digests import KeptEngine, stratum_key
from sempre.storage.followed import COPIES
from sempre.storage.manifest import Manifest
from sempre.storage.ondemand import OnDemand
from sempre.storage.parquet_blocks import Block, Content, Texts, joined
from sempre.storage.pieces import LISTS, PieceReader, sorted_block


def derived_relations(engine: KeptEngine) -> set[str]:
    """The relations that rules derive into: only they have explicit facts apart from their facts.

    Those of active rules are the facts at cycle 0, which their chains tell.
    """
    if isinstance(engine, ActiveEngine):
        return set()
    return {rule.relation for rule in engine.program.rules} | {*engine.deferred}


def kept_relations(engine: KeptEngine) -> list[str]:
    """The relations whose facts are stored.

    Neighbors are not part of the program, whoever evaluates it, and what is evaluated on demand is not there.
    """
    return [name for name in engine.program.relations if not is_neighbors(name) and name not in engine.deferred]


# ------------------------------------------------------------------------------------------------- writing


def stored_sets(engine: KeptEngine, snapshot: Snapshot) -> dict[str, Any]:
    """The versions that a store has of a snapshot, by the names of their sets."""
    found = {f"facts/{name}": snapshot.versions[name] for name in kept_relations(engine)}
    return found | {f"explicit/{name}": snapshot.explicit[name] for name in sorted(derived_relations(engine))}


def epoch_sets(
    engine: KeptEngine,
    before: Snapshot,
    after: Snapshot,
    result: EpochResult,
    tabled: Collection[str],
    stray: StraySets,
) -> dict[str, Content]:
    """How an epoch changed the sets that pieces have: all but those on the cluster, which are tables.

    `tabled` are the sets that were tables before. Sets that are `stray` become what they are after the epoch.
    """
    changes = {f"facts/{name}": change for name, change in result.changes.items()}
    changes |= {f"explicit/{name}": change for name, change in result.explicit.items()}
    old = stored_sets(engine, before)
    found: dict[str, Content] = {}
    for name, version in stored_sets(engine, after).items():
        is_tabled = version.place == CLUSTER
        if name in stray:
            if not is_tabled and len(version):
                found[name] = version_block(_here(engine, name, version))
            continue
        if name in tabled:
            if not is_tabled and len(version):
                found[name] = version_block(_here(engine, name, version))
        elif is_tabled and len(old[name]):
            found[name] = version_block(_here(engine, name, old[name]), gone=True)
        elif not is_tabled and name in changes:
            found[name] = _change_block(engine.places.bring_change(_relation(name), changes[name], DRIVER))
    return found


def _relation(set_: str) -> str:
    return set_.partition("/")[2]


def _here(engine: KeptEngine, set_: str, version: Any) -> Any:
    """A version in this process: what workers have is stored like the driver's own."""
    return engine.places.bring(_relation(set_), version, DRIVER)


def _change_block(change: Change) -> Block:
    plus, minus = change.plus, change.minus
    if not len(minus):
        return Block(plus.columns(), None, len(plus))
    if not len(plus):
        return Block(minus.columns(), np.full(len(minus), -1, np.int64), len(minus))
    columns = [np.concatenate(pair) for pair in zip(plus.columns(), minus.columns(), strict=True)]
    weights = np.ones(len(plus) + len(minus), np.int64)
    weights[len(plus) :] = -1
    return sorted_block(columns, weights, weights.size)


@dataclass(frozen=True, slots=True)
class StraySets:
    """Sets of a store that are not what the program and the options of today make of the state.

    Another partition into modules, another strategy, or an earlier version made them. They are never read as if they
    were: the next epoch writes what they should be, and takes out what they are.
    """

    names: frozenset[str] = frozenset()
    reader: PieceReader | None = None

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def put_right(self, contents: dict[str, Content]) -> None:
        """Take what the sets are out of what they are to be."""
        there = {*self.reader.names()} if self.reader is not None else set()
        for name in self.names & there:
            assert self.reader is not None
            gone = self.reader.total(name)
            assert isinstance(gone, Block)
            parts = [Block(gone.columns, -gone.numbers(), len(gone))]
            if isinstance(wanted := contents.pop(name, None), Block):
                parts.append(wanted)
            whole = joined(parts)
            block = sorted_block(whole.columns, whole.numbers(), len(whole))
            if len(block):
                contents[name] = block


def version_block(version: Any, gone: bool = False) -> Block:
    """All rows of a relation, that came or went."""
    rows = version.rows()
    return Block(rows.columns(), np.full(len(rows), -1, np.int64) if gone else None, len(rows))


def new_values(values: Values, known: Mapping[str, int]) -> tuple[dict[str, Content], dict[str, int]]:
    """The symbols and records beyond the first `known` ones, and how many there are now."""
    sizes = {"symbols": len(values.symbols)}
    found: dict[str, Content] = {}
    texts = values.symbols.utf8(known.get("symbols", 0), sizes["symbols"])
    if len(texts):
        found["symbols"] = Texts(texts.encoded())
    for arity, table in values.record_tables().items():
        name = f"records/{arity}"
        sizes[name] = len(table)
        first = known.get(name, 0)
        if sizes[name] > first:
            found[name] = Block(table.columns(first, sizes[name]), None, sizes[name] - first)
    return found, sizes


# ------------------------------------------------------------------------------------------------- reading


def restore_values(values: Values, reader: PieceReader) -> None:
    """Fill empty tables of symbols and records."""
    for name in reader.names():
        if name == "symbols":
            texts = [text for part in reader.contents(name) if isinstance(part, Texts) for text in part.texts]
            values.symbols.restore([text.decode("utf-8", "surrogatepass") for text in texts])
        elif name.startswith("records/"):
            total = reader.total(name)
            assert isinstance(total, Block)
            values.records(int(name.partition("/")[2])).restore(total.columns, len(total))


@dataclass(frozen=True, slots=True)
class RestoredState:
    """The snapshot of a stored epoch, the memories that are in the store, by the keys of their strata, and the rest."""

    snapshot: Snapshot
    memories: dict[str, DeferredMemory]
    stray: StraySets


def restored(
    engine: KeptEngine,
    backend: LocalBackend,
    manifest: Manifest,
    reader: PieceReader,
    tabled: Callable[[str], Any],
    digests: Mapping[str, str],
) -> RestoredState:
    """The state of a stored epoch.

    The backend has the values of the store already. Relations and memories are read when they are needed; those that
    the store does not have are evaluated then. `tabled` gives the version of a set that is stored as tables. A memory
    whose digest is not the one in `digests` is as good as none.
    """
    program = engine.program
    backend.restore({name: tuple(Field(lo, bits) for lo, bits in row) for name, row in manifest.fields.items()})
    own = OwnSets(engine, manifest, digests)
    derived = derived_relations(engine)
    outcomes: OnDemand[Outcome] = OnDemand(program.relations, lambda name: _evaluated(engine, bare, name))

    def read(set_: str, name: str) -> Any:
        return tabled(set_) if set_ in manifest.parts else _trace(reader, set_, backend.fields[name])

    def version(name: str) -> Any:
        if name in engine.deferred:
            return explicits[name]
        return read(f"facts/{name}", name) if own.has_facts(name) else outcomes[name].versions[name]

    def explicit(name: str) -> Any:
        if isinstance(engine, ActiveEngine):
            return timeline().chains[name].at(0)
        return read(own.explicit(name), name) if name in derived else versions[name]

    def timeline() -> Timeline:
        made = DeferredMemory.settled(found[TIMELINE])
        assert isinstance(made, Timeline)
        return made

    versions: OnDemand[Any] = OnDemand(program.relations, version)
    explicits: OnDemand[Any] = OnDemand(program.relations, explicit)
    bare = Snapshot(manifest.epoch, False, versions, explicits, {}, manifest.batches)
    remembered = memories.MemoryReader(reader, sealed(backend), backend.fields, versions)
    found: dict[int, Any] = {}
    stored: dict[str, DeferredMemory] = {}
    for stratum in engine.memory_strata:
        key = stratum_key(stratum)
        if own.has_memory(key):
            stored[key] = found[stratum.index] = DeferredMemory(
                partial(remembered.memory, manifest.memories[key], stratum)
            )
        elif is_neighbors(key):
            found[stratum.index] = DeferredMemory(partial(_memory_of, outcomes, key))
        elif isinstance(engine, Engine):
            found[stratum.index] = DeferredMemory(partial(memories.fresh, engine, bare, stratum))
        else:
            raise InternalError("a store of active rules has no timeline")
    return RestoredState(replace(bare, memories=found), stored, StraySets(own.stray(reader.names()), reader))


class OwnSets:
    """Which sets of a stored epoch are what an engine would have stored, and where else to look."""

    def __init__(self, engine: KeptEngine, manifest: Manifest, digests: Mapping[str, str]) -> None:
        self._engine = engine
        # A store of format 1 or 2 has the explicit facts of what is evaluated on demand where facts are.
        self._unmarked = manifest.digest is None
        self._deferred = frozenset(manifest.deferred)
        self._kept = frozenset(kept_relations(engine))
        # A version of sempre that rewrites the program in another way has no facts of what only this one adds.
        added = (name for name in self._kept if "#" in name and not is_neighbors(name))
        self._unknown = frozenset(name for name in added if name not in manifest.fields)
        _check_evaluable(engine, self._unknown)
        self._derived = derived_relations(engine)
        self._memories = {k for k, meta in manifest.memories.items() if meta.get("digest", "") == digests.get(k)}
        self._remembered = {
            name for s in engine.memory_strata if stratum_key(s) in self._memories for name in s.relations
        }

    def has_facts(self, name: str) -> bool:
        """Whether the facts of a relation are in the store."""
        return name in self._kept and name not in self._deferred and name not in self._unknown

    def explicit(self, name: str) -> str:
        """The set with the explicit facts of a relation that rules derive into."""
        return f"{'facts' if self._unmarked and name in self._deferred else 'explicit'}/{name}"

    def has_memory(self, key: str) -> bool:
        """Whether what is stored of a stratum's memory can be used."""
        return key in self._memories

    def stray(self, names: Iterable[str]) -> frozenset[str]:
        """The sets that have to be written anew: some of those that are there, and those that are missing."""
        wrong = {name for name in names if not name.startswith(LISTS) and not self._is_own(name)}
        wrong |= {f"facts/{name}" for name in (self._deferred | self._unknown) & self._kept}
        if self._unmarked:
            wrong |= {f"explicit/{name}" for name in self._deferred}
        return frozenset(wrong)

    def _is_own(self, set_: str) -> bool:
        kind, _, name = set_.partition("/")
        if kind == "facts":
            return self.has_facts(name)
        if kind == "explicit":
            return name in self._derived
        return kind == COPIES or name in self._remembered


def _check_evaluable(engine: KeptEngine, unknown: frozenset[str]) -> None:
    """Relations that the store does not have are evaluated one by one, from those that their rules read."""
    for stratum in engine.program.strata:
        if not unknown.isdisjoint(stratum.relations) and (stratum.recursive or len(stratum.relations) > 1):
            message = "the store was written by a version of sempre that evaluates this program in another way"
            raise StateError(Diagnostic("E604", message, hint="Make a new store of the facts: `sempre init`."))


def _memory_of(outcomes: Mapping[str, Outcome], name: str) -> Any:
    return outcomes[name].memory


def _evaluated(engine: KeptEngine, snapshot: Snapshot, name: str) -> Outcome:
    """A relation that the store does not have, from those that its rules read: neighbors, or what is not put off now.

    Neither is in a stratum with others, nor reads itself.
    """
    assert isinstance(engine, Engine), "active rules put nothing off"
    (stratum,) = (stratum for stratum in engine.program.strata if name in stratum.relations)
    places, versions = engine.places, snapshot.versions
    reads = sorted(set[str]().union(*(relations_of(rule.body) for rule in stratum.nonrecursive)))
    place = next((p for read in reads if (p := versions[read].place) != DRIVER), places.main)
    backend = places.backends[place]
    known = {read: backend.fitted(read, places.bring(read, versions[read], place)) for read in reads}
    explicit = {name: places.bring(name, snapshot.explicit[name], place)}
    work = Work(engine.program, backend, places.plans[place], {}, explicit, explicit, {}, _no_round, known)
    if is_neighbors(name):
        return engine.strategy_of(stratum, place).bootstrap(work, stratum)
    return materialize(work, stratum)


def _no_round(round_: int, facts: int) -> None:
    """Nobody watches."""


def _trace(reader: PieceReader, name: str, fields: tuple[Field, ...]) -> Trace:
    """The rows of a set of weight one."""
    trace = Trace.empty(fields)
    for size, weighted, stretches in reader.stretches(name):
        if not weighted:
            rows = _packed(stretches, size, trace.fields)
            trace = trace.adding(rows) if len(trace) else Trace.of(rows)
            continue
        block = joined(list(stretches))
        weights = block.numbers()
        for gone in (True, False):
            at = np.flatnonzero(weights < 0 if gone else weights > 0)
            if at.size:
                rows = _rows([column[at] for column in block.columns], at.size, trace.fields)
                trace = trace.removing(rows) if gone else trace.adding(rows)
    return trace


def search(reader: PieceReader, name: str, fields: tuple[Field, ...], selection: Selection) -> RowSet:
    """The selected rows of a set of weight one, without reading all of it into memory."""
    lead = selection.lead
    parts = []
    for _, _, stretches in reader.stretches(name, lead[0] if lead else None):
        for block in stretches:
            at = np.flatnonzero(selection.mask(block.columns.__getitem__, len(block)))
            if at.size:
                parts.append(Block([column[at] for column in block.columns], block.numbers()[at], at.size))
    if not parts:
        return Trace.empty(fields).rows()
    whole = joined(parts)
    total = sorted_block(whole.columns, whole.numbers(), len(whole))
    return _rows(total.columns, len(total), fields)


def _packed(stretches: Iterator[Block], size: int, fields: tuple[Field, ...]) -> RowSet:
    """Sorted rows as keys, made stretch by stretch: memory that is touched for the first time is what costs most."""
    layout = packing(fields, tuple(range(len(fields))))
    keys = np.empty(size, layout.dtype)
    at = 0
    for block in stretches:
        if not within(block.columns, fields).all():
            done = Block(layout.columns(keys[:at]), None, at)
            whole = joined([done, block, *stretches])
            return _rows(whole.columns, len(whole), fields)
        keys[at : at + len(block)] = layout.pack(block.columns, len(block))
        at += len(block)
    return RowSet(layout, keys)


def _rows(columns: Sequence[Column], size: int, fields: tuple[Field, ...]) -> RowSet:
    """Rows that are sorted already."""
    layout = packing(fields_covering(columns, fields), tuple(range(len(fields))))
    return RowSet(layout, layout.pack(columns, size))
