"""A snapshot as sets, and back: what an epoch adds to a store, and relations read from it when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sempre.analysis.model import CheckedProgram
from sempre.backends.local import LocalBackend
from sempre.engine import Engine, EpochResult, Snapshot
from sempre.kernel.layout import Column, Field, fields_covering, packing
from sempre.kernel.select import Selection
from sempre.kernel.trace import RowSet, Trace, within
from sempre.kernel.values import Values
from sempre.maintain.strategy import Change, Deferred
from sempre.places import DRIVER, place_of
from sempre.storage import memories
from sempre.storage.blocks import Block, Content, Texts, joined
from sempre.storage.manifest import Manifest
from sempre.storage.ondemand import OnDemand
from sempre.storage.pieces import Reader, sorted_block


def derived_relations(program: CheckedProgram) -> set[str]:
    """The relations that rules derive into: only they have explicit facts apart from their facts."""
    return {rule.relation for rule in program.rules}


# ------------------------------------------------------------------------------------------------- writing


def stored_sets(program: CheckedProgram, snapshot: Snapshot) -> dict[str, Any]:
    """The versions that a store has of a snapshot, by the names of their sets."""
    found = {f"facts/{name}": version for name, version in snapshot.versions.items()}
    return found | {f"explicit/{name}": snapshot.explicit[name] for name in derived_relations(program)}


def epoch_sets(
    program: CheckedProgram, before: Snapshot, after: Snapshot, result: EpochResult, tabled: Collection[str]
) -> dict[str, Content]:
    """How an epoch changed the sets that pieces have: all but those on the cluster, which are tables.

    `tabled` are the sets that were tables before.
    """
    changes = {f"facts/{name}": change for name, change in result.changes.items()}
    changes |= {f"explicit/{name}": change for name, change in result.explicit.items()}
    old = stored_sets(program, before)
    found: dict[str, Content] = {}
    for name, version in stored_sets(program, after).items():
        is_tabled = place_of(version) != DRIVER
        if name in tabled:
            if not is_tabled and len(version):
                found[name] = version_block(version)
        elif is_tabled and len(old[name]):
            found[name] = version_block(old[name], gone=True)
        elif not is_tabled and name in changes:
            found[name] = _change_block(changes[name])
    return found


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


def version_block(version: Any, gone: bool = False) -> Block:
    """All rows of a relation, that came or went."""
    rows = version.rows()
    return Block(rows.columns(), np.full(len(rows), -1, np.int64) if gone else None, len(rows))


def new_values(values: Values, known: Mapping[str, int]) -> tuple[dict[str, Content], dict[str, int]]:
    """The symbols and records beyond the first `known` ones, and how many there are now."""
    sizes = {"symbols": len(values.symbols)}
    found: dict[str, Content] = {}
    texts = values.symbols.texts()[known.get("symbols", 0) : sizes["symbols"]]
    if texts:
        found["symbols"] = Texts([text.encode("utf-8", "surrogatepass") for text in texts])
    for arity, table in values.record_tables().items():
        name = f"records/{arity}"
        sizes[name] = len(table)
        first = known.get(name, 0)
        if sizes[name] > first:
            found[name] = Block(table.columns(first, sizes[name]), None, sizes[name] - first)
    return found, sizes


# ------------------------------------------------------------------------------------------------- reading


def restore_values(values: Values, reader: Reader) -> None:
    """Fill empty tables of symbols and records."""
    for name in reader.names():
        if name == "symbols":
            texts = [text for part in reader.contents(name) if isinstance(part, Texts) for text in part.texts]
            values.symbols.restore([text.decode("utf-8", "surrogatepass") for text in texts])
        elif name.startswith("records/"):
            total = reader.total(name)
            assert isinstance(total, Block)
            values.records(int(name.partition("/")[2])).restore(total.columns, len(total))


def restored(
    engine: Engine, backend: LocalBackend, manifest: Manifest, reader: Reader, tabled: Callable[[str], Any]
) -> tuple[Snapshot, dict[str, Deferred]]:
    """The snapshot of a stored epoch, and the memories that were stored with it, by the names of their strata.

    The backend has the values of the store already. Relations and memories are read when they are needed. A memory that
    the strategy of today cannot use is in the store all the same, until the stratum changes. `tabled` gives the version
    of a set that is stored as tables.
    """
    program = engine.program
    fields = {name: tuple(Field(lo, bits) for lo, bits in row) for name, row in manifest.fields.items()}
    backend.restore(fields)
    derived = derived_relations(program)

    def read(kind: str, name: str) -> Any:
        set_ = f"{kind}/{name}"
        return tabled(set_) if set_ in manifest.parts else _trace(reader, set_, backend.fields[name])

    versions: OnDemand[Any] = OnDemand(program.relations, partial(read, "facts"))

    def explicit(name: str) -> Any:
        return read("explicit", name) if name in derived else versions[name]

    bare = Snapshot(manifest.epoch, False, versions, OnDemand(program.relations, explicit), {}, manifest.batches)
    remembered = memories.MemoryReader(reader, backend.fields)
    found: dict[int, Any] = {}
    stored: dict[str, Deferred] = {}
    for stratum in program.strata:
        name, strategy = ",".join(stratum.relations), engine.strategy_of(stratum)
        if name in manifest.memories:
            stored[name] = Deferred(partial(remembered.memory, manifest.memories[name], stratum))
        if name in stored and manifest.memories[name]["strategy"] == strategy.name:
            found[stratum.index] = stored[name]
        else:
            found[stratum.index] = Deferred(partial(memories.fresh, engine, bare, stratum))
    return replace(bare, memories=found), stored


def _trace(reader: Reader, name: str, fields: tuple[Field, ...]) -> Trace:
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


def search(reader: Reader, name: str, fields: tuple[Field, ...], selection: Selection) -> RowSet:
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
