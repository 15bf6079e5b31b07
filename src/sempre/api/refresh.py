"""Brings a database to what its sources have now, as one epoch: what `sempre init` reads first, and `refresh` later.

A store knows which version of each source its facts are of, and how often rows of the sources stand for a fact
(`storage/followed.py`). So rows that came and went decide which facts do, and nothing else has to be read:

- a fact stays while any row stands for it, or while the program states it;
- where nobody can tell what changed, all rows are read and compared with the facts that are there.

The versions are committed with the epoch: a run that was cut short reads neither twice nor never.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sempre.analysis.model import CheckedProgram, Relation
from sempre.api.keyed import KeyedRows, facts_that_go
from sempre.api.stores import keeper_of
from sempre.backends.local import LocalBackend
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic, Findings, ProgramError, SempreError
from sempre.engine import Snapshot
from sempre.files.directive_options import check_directives, input_endpoint
from sempre.files.locations import is_url
from sempre.files.sources.reading import SparkSources, is_followable, sources_of, whole
from sempre.files.sources.source import FactSource, RowChanges
from sempre.kernel.tally import Counted, Tally
from sempre.plan.backend import DRIVER, Rows, Version, sealed
from sempre.storage.followed import Followed, FollowedRelation
from sempre.storage.parquet_blocks import Block, joined
from sempre.storage.pieces import sorted_block

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from sempre.api.changes import ChangeSet
    from sempre.api.database import Database
    from sempre.api.intake import Encoded
    from sempre.storage.keeper import Keeper

logger = logging.getLogger("sempre.refresh")


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did: the changes, None if nothing is new; and of every source, how it was read."""

    changes: ChangeSet | None
    read: Mapping[str, str]


@dataclass(slots=True)
class Coming:
    """The epoch that brings a state to its sources."""

    base: Snapshot
    followed: Followed
    insert: dict[str, Rows] = field(default_factory=dict)
    delete: dict[str, Rows] = field(default_factory=dict)
    copies: dict[str, Block] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)


# ------------------------------------------------------------------------------------------------- the first epoch


def beginning(
    checked: CheckedProgram,
    folder: str,
    outputs: str,
    versions: Mapping[str, tuple[Mapping[str, Any], ...]],
    spark: SparkSession | None = None,
) -> Followed:
    """What a store knows of its sources when their first facts are read; versions that were not seen are not known."""
    relations = {}
    for relation in checked.relations.values():
        if relation.inputs and is_followable(relation, spark=spark is not None) and not is_url(folder):
            sources = sources_of(checked, relation, Path(folder), _spark_sources(spark))
            places = tuple(source.place for source in sources)
            relations[relation.name] = FollowedRelation(places, versions.get(relation.name, (None,) * len(places)))
    shown = folder if is_url(folder) else str(Path(folder).absolute())
    return Followed(shown, outputs, uuid.uuid4().hex, relations)


def _spark_sources(spark: SparkSession | None) -> SparkSources:
    """How sources are made that Spark reads."""
    if spark is None:
        return None
    from sempre.spark.table_reader import spark_source

    return partial(spark_source, spark)


def first_epoch(database: Database, tables: Mapping[str, Any], followed: Followed) -> ChangeSet:
    """Epoch 0 of a store that follows sources: what was read of them."""
    keeper = keeper_of(database)
    read = [name for name, each in followed.relations.items() if None not in each.versions]

    def copies(codes: Mapping[str, Encoded]) -> dict[str, Block]:
        facts = database._intake.program_facts()
        return {name: copies_of(database._backend, name, codes[name], facts.get(name)) for name in read}

    return database._materialise(
        tables, around=lambda codes: keeper.following(partial(lambda copies: (followed, copies), copies(codes)))
    )


def copies_of(backend: LocalBackend, name: str, rows: Encoded, stated: Encoded | None) -> Block:
    """How often rows stand for a fact, less one, where that is not zero; `stated` are the facts of the program."""
    columns, size = rows
    distinct = backend.rows(name, columns, size)
    parts = []
    if len(distinct) < size and columns:
        counted = sorted_block(columns, np.ones(size, np.int64), size)
        parts.append(_chosen(counted, counted.numbers() > 1, counted.numbers() - 1))
    if stated is not None:
        alone = backend.difference(backend.rows(name, *stated), backend.version(distinct))
        parts.append(Block(alone.columns(), np.full(len(alone), -1, np.int64), len(alone)))
    return _summed(parts, len(columns))


def _chosen(block: Block, mask: Any, weights: Any) -> Block:
    return Block([column[mask] for column in block.columns], weights[mask], int(mask.sum()))


def _summed(parts: list[Block], width: int) -> Block:
    parts = [part for part in parts if len(part)]
    if not parts:
        return Block([np.empty(0, np.int64)] * width, np.empty(0, np.int64), 0)
    block = joined(parts)
    return sorted_block(block.columns, block.numbers(), len(block))


# ------------------------------------------------------------------------------------------------- later epochs


def refresh(
    database: Database, folder: str | None, *, outputs: str | None = None, overwrite: bool, maintain_only: bool
) -> Refreshed:
    """Bring a database in a store to what its sources have now, as one epoch; see `Database.refresh`."""
    engine, keeper = database._stratified("refresh()"), keeper_of(database)
    if keeper.is_past:
        keeper.begin(engine.snapshot)  # raises
    with database._turn(), database._numbered():
        coming = _coming(database, keeper, (folder, outputs), overwrite)
        for name, how in coming.read.items():
            logger.info("%s: %s", name, how, extra={"store": keeper.store.place, "relation": name, "read": how})
        if coming.followed == keeper.followed and not (coming.insert or coming.delete):
            return Refreshed(None, coming.read)

        def rows() -> tuple[Mapping[str, Rows], Mapping[str, Rows]]:
            nonlocal coming
            if engine.snapshot is not coming.base:  # `progress` has changed the database meanwhile
                coming = _coming(database, keeper, (folder, outputs), overwrite)
            return coming.insert, coming.delete

        with keeper.named("refresh"), keeper.following(lambda: (coming.followed, coming.copies)):
            engine.maintain_only = maintain_only
            try:
                return Refreshed(database._epoch(rows), coming.read)
            finally:
                engine.maintain_only = False


def _coming(database: Database, keeper: Keeper, given: tuple[str | None, str | None], overwrite: bool) -> Coming:
    """What the sources have that the state has not; raises once, with what is wrong with any of them."""
    checked = database.program.checked
    wrong = [each for each in check_directives(checked, spark=database._spark is not None) if each.severity == "error"]
    if wrong:
        raise ProgramError(wrong, checked.sources)
    known = keeper.followed or Followed(str(Path().absolute()), "", uuid.uuid4().hex)
    folder, outputs = (None if each is None else each if is_url(each) else str(Path(each).absolute()) for each in given)
    known = replace(known, folder=folder or known.folder, outputs=outputs or known.outputs)
    coming = Coming(database._engine.snapshot, known)
    relations: dict[str, FollowedRelation] = {}
    findings = Findings()
    for relation in checked.relations.values():
        if relation.inputs:
            with findings.gathered(SempreError):
                relations[relation.name] = _one(database, keeper, coming, relation, overwrite)
    findings.check()
    coming.followed = replace(known, relations=relations)
    return coming


def _one(database: Database, keeper: Keeper, coming: Coming, relation: Relation, overwrite: bool) -> FollowedRelation:
    """What the sources of one relation have that the state has not, noted in `coming`."""
    name = relation.name
    folder, make = Path(coming.followed.folder), _spark_sources(database._spark)
    sources = sources_of(database.program.checked, relation, folder, make)
    places = tuple(source.place for source in sources)
    known = coming.followed.relations.get(name)
    if not overwrite:
        _check_own(database, coming, name, known)
    if known is None or known.places != places or known.by_hand:
        known = FollowedRelation(places, (None,) * len(places))
    versions = tuple(source.version(each) for source, each in zip(sources, known.versions, strict=True))
    if versions == known.versions and not overwrite:
        coming.read[name] = "nothing new"
        return known
    changes = None if overwrite else _changes(sources, known, versions)
    endpoints = [input_endpoint(relation, each) for each in relation.inputs]
    key = next((each.key for each in endpoints if each.key), ())
    if key and len(endpoints) > 1:
        hint = "Give each source a relation of its own, and a rule that takes it in."
        raise DataError(Diagnostic("E661", f"relation `{name}` has a source with a key, and others", hint=hint))
    if changes is not None and relation.arity:
        _follow_changes(database, keeper, coming, relation, changes, key)
        if any(each.follow for each in endpoints):
            coming.read[name] += "; rows that are deleted there are not seen"
    else:
        found = whole(relation, sources, versions)
        versions = found.versions
        _check_keys(name, found.table, key)
        _follow_whole(database, keeper, coming, relation, found.table)
        if why := "; ".join(source.why for source in sources if source.why):
            coming.read[name] += f": {why}"
    return FollowedRelation(places, versions)


def _check_own(database: Database, coming: Coming, name: str, known: FollowedRelation | None) -> None:
    """Raise where a relation has facts that no source gave it: nobody but its user knows what is to become of them."""
    if known is not None and not known.by_hand:
        return
    if known is None:
        stated = _stated(database, name)
        own = 0 if stated is None else len(database._backend.rows(name, *stated))
        if len(coming.base.explicit[name]) == own:
            return
    what = "was changed by hand since its source was read" if known else "has facts that are not from its source"
    hint = "With --overwrite it becomes what its source says; a relation without .input keeps what you apply."
    raise DataError(Diagnostic("E660", f"relation `{name}` {what}", hint=hint))


def _changes(sources: list[FactSource], known: FollowedRelation, versions: tuple[Any, ...]) -> RowChanges | None:
    """What lies between the versions that are known and those of now, if every source can tell."""
    import pyarrow as pa

    found: list[RowChanges] = []
    for source, before, after in zip(sources, known.versions, versions, strict=True):
        if before == after:
            continue
        changes = None if before is None else source.changes(before, after)
        if changes is None:
            return None
        found.append(changes)
    plus, minus = ([getattr(each, side).replace_schema_metadata() for each in found] for side in ("plus", "minus"))
    return RowChanges(pa.concat_tables(plus), pa.concat_tables(minus))


def _follow_changes(
    database: Database,
    keeper: Keeper,
    coming: Coming,
    relation: Relation,
    changes: RowChanges,
    key: tuple[str, ...] = (),
) -> None:
    """Facts come with the first row that stands for them, and go with the last.

    With a `key`, a row takes the place of the fact with the same one, and is there once.
    """
    name, backend = relation.name, database._backend
    coming.read[name] = f"{changes.plus.num_rows:,} rows came and {changes.minus.num_rows:,} went"
    (came, more), (gone, less) = (_encoded(database, name, table) for table in (changes.plus, changes.minus))
    if key:
        gone, less = _replaced(database, coming, relation, (came, more), key)
    net = _summed(
        [Block(came, np.ones(more, np.int64), more), Block(gone, np.full(less, -1, np.int64), less)], len(came)
    )
    if not len(net):
        return
    rows = backend.rows(name, net.columns, len(net))
    assert len(rows) == len(net), "a sum of rows has each once"
    is_there = _is_there(database, name, rows, coming.base.explicit[name])
    copies = _numbers(database, keeper, name, rows)
    before = np.where(is_there, copies + 1, 0)
    after = before + net.numbers()
    if key:
        after = np.clip(after, 0, 1)
    if (after < 0).any():
        hint = "The table does not fit what was read of it before: --overwrite reads all of it."
        raise DataError(Diagnostic("E664", f"the source of `{name}` removes rows that it never had", hint=hint))
    stated = _stated(database, name)
    is_stated = np.zeros(len(rows), np.bool_)
    if stated is not None:
        is_stated = backend.version(backend.rows(name, *stated)).contains(rows)
    stays = (after > 0) | is_stated
    if (arriving := stays & ~is_there).any():
        coming.insert[name] = backend.chosen(rows, arriving)
    if (leaving := is_there & ~stays).any():
        coming.delete[name] = backend.chosen(rows, leaving)
    moved = np.where(stays, after - 1, 0) - np.where(is_there, copies, 0)
    coming.copies[name] = _chosen(net, moved != 0, moved)


def _check_keys(name: str, rows: pa.Table, key: tuple[str, ...]) -> None:
    """Raise if several rows have one key: which of them counts would depend on when they were read."""
    if not key:
        return
    rows = rows.group_by(rows.column_names).aggregate([])
    if rows.group_by(list(key)).aggregate([]).num_rows < rows.num_rows:
        message = f"the source of `{name}` has several rows with one key ({', '.join(key)})"
        hint = "Name columns in key= by which each row is the only one; or refresh again, if rows changed meanwhile."
        raise DataError(Diagnostic("E667", message, hint=hint))


def _replaced(database: Database, coming: Coming, relation: Relation, came: Encoded, key: tuple[str, ...]) -> Encoded:
    """The facts that have the key of a row that came, and are not that row."""
    import pyarrow as pa

    name, (columns, size) = relation.name, came
    at = [relation.columns.index(each) for each in key]
    names = [f"c{number}" for number in range(relation.arity)]
    backend = database._backend
    new = backend.rows(name, columns, size)
    fresh = pa.table(dict(zip(names, new.columns(), strict=True)))
    _check_keys(name, fresh.rename_columns(list(relation.columns)), key)
    there = _brought(database, name, coming.base.explicit[name].rows())
    fresh_columns = new.columns()
    rows = KeyedRows(tuple(at), [fresh_columns[each] for each in at], fresh_columns, len(new))
    return facts_that_go(backend, name, there.columns(), rows)


def _brought(database: Database, name: str, rows: Any) -> Any:
    """Rows, wherever they are, in the driver."""
    places = database._stratified("refresh()").places
    return places.bring_rows(name, rows, DRIVER) if rows.place != DRIVER else rows


def _follow_whole(database: Database, keeper: Keeper, coming: Coming, relation: Relation, table: pa.Table) -> None:
    """Facts are those of all rows, and those that the program states."""
    name, backend = relation.name, database._backend
    coming.read[name] = f"all {table.num_rows:,} rows compared"
    columns, size = _encoded(database, name, table)
    rows = backend.rows(name, columns, size)
    stated = _stated(database, name)
    right = rows if stated is None else backend.union([rows, backend.rows(name, *stated)])
    plus, minus = _difference(database, name, right, coming.base.explicit[name])
    if len(plus):
        coming.insert[name] = plus
    if len(minus):
        coming.delete[name] = minus
    if not relation.arity:
        return
    wanted, kept = copies_of(backend, name, (columns, size), stated), keeper.copies(name)
    gone = [] if kept is None else [Block(kept.columns, -kept.numbers(), len(kept))]
    coming.copies[name] = _summed([wanted, *gone], relation.arity)


def _stated(database: Database, name: str) -> Encoded | None:
    """The facts of a relation that the program states."""
    return database._intake.program_facts().get(name)


def _encoded(database: Database, name: str, table: pa.Table) -> Encoded:
    coming = database._intake.take({name: table})
    database._intake.fit(coming)
    return coming.codes[name]


def _difference(database: Database, name: str, right: Any, version: Version) -> tuple[Rows, Rows]:
    """What `right`, which is here, has more than a version, wherever that is, and what less."""
    places = database._stratified("refresh()").places
    backend = places.backends[version.place]
    there = places.bring_rows(name, right, version.place)
    return backend.difference(there, version), backend.difference(version.rows(), backend.version(there))


def _is_there(database: Database, name: str, rows: Any, version: Version) -> Any:
    """Which rows, that are here, a version has, wherever that is."""
    places, local = database._stratified("refresh()").places, sealed(database._backend)
    backend = places.backends[version.place]
    found = backend.intersection(places.bring_rows(name, rows, version.place), version)
    here = places.bring_rows(name, found, DRIVER) if DRIVER in places.backends else found
    if here.place != DRIVER:
        here = local.receive(name, found.columns(), len(found))
    return database._backend.version(here).contains(rows)  # type: ignore[arg-type]  # rows of the driver are its own


def _numbers(database: Database, keeper: Keeper, name: str, rows: Any) -> Any:
    """What the set of copies says of each row."""
    kept = keeper.copies(name)
    if kept is None:
        return np.zeros(len(rows), np.int64)
    held = database._backend.rows(name, kept.columns, len(kept))
    return Tally(held.packing).adding(Counted(held.packing, held.keys, kept.numbers())).get(rows)
