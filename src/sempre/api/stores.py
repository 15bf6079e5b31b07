"""Databases in stores: opening one, checking and repairing it, bringing it over to another program."""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sempre.active.active_engine import ActiveEngine
from sempre.active.timeline import Given
from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram
from sempre.api.refusals import check_place
from sempre.diagnostics import Diagnostic, StateError
from sempre.engine import Engine
from sempre.files.locations import local_path
from sempre.lang.parser import parse
from sempre.limits import DEFAULTS, Limits
from sempre.maintain.strategy import difference
from sempre.plan.backend import Rows
from sempre.rewrites.demand import is_demand
from sempre.rewrites.passes import rewrite
from sempre.storage.differences import Differences, differences, stored_alike
from sempre.storage.digests import program_digest
from sempre.storage.keeper import Keeper
from sempre.storage.object_disk import is_reached
from sempre.storage.store import Store
from sempre.storage.stored_tables import LocalTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sempre.api.changes import ChangeSet
    from sempre.api.database import Database
    from sempre.api.intake import Operation
    from sempre.api.program import Program


def as_store(place: Any, limits: Limits = DEFAULTS, spark: SparkSession | None = None) -> Store:
    """The store at a place, or the one that was given; where Python has no client for it, a session reaches it."""
    if isinstance(place, Store):
        return place
    check_place(place, "a store")
    if spark is None or is_reached_here(place):
        return Store(place, limits=limits)
    from sempre.storage.session_disk import session_disk

    return Store(place, session_disk(spark, str(place)), limits)


def is_reached_here(place: Any) -> bool:
    """Whether this process reaches a place by itself."""
    return local_path(place) is not None or is_reached(str(place))


def stored_text(place: Any, epoch: int | None = None, spark: SparkSession | None = None) -> tuple[str, str]:
    """The program of a store, and the file it is in."""
    store = as_store(place, spark=spark)
    store.require()
    manifest = store.manifest(epoch)
    return store.program_text(manifest), store.shown(manifest.program.path)


def _stored_program(store: Store, epoch: int | None = None) -> CheckedProgram:
    text, file = stored_text(store, epoch)
    return check(parse(text, file), {file: text})


def program_differences(store: Store, program: Program, epoch: int | None = None) -> Differences:
    """What is different in `program` from the one that the store was written with."""
    if store.manifest(epoch).digest == program_digest(program.checked):
        return Differences(())
    return differences(_stored_program(store, epoch), program.checked)


def attach(database: Database, place: Any, epoch: int | None, migrate: bool) -> Keeper:
    """Give a database the state of a store, and let its epochs go there."""
    engine = database._engine
    store = as_store(place, database._options.limits, database._spark)
    if epoch is not None:
        store.require()
    backend, cluster = database._backend, database._cluster
    tables = LocalTables(engine.program, backend, store.disk) if cluster is None else cluster
    program = database.program
    keeper = Keeper(store, _text_of(program), program.checked, engine, backend, tables, read_only=epoch is not None)
    found = program_differences(store, database.program, epoch) if store.exists else Differences(())
    if found and not migrate:
        raise _other_program(store, found)
    if not found:
        try:
            keeper.open(epoch)
        except BaseException:
            keeper.close()
            raise
        if keeper.manifest is not None and keeper.manifest.parts and isinstance(engine, Engine):
            # Tables hold plain values, which get their numbers when they are first read: a question has to see these.
            engine.branch = None
    engine.journal = keeper
    if found:
        _migrate(database, keeper)
    return keeper


def _text_of(program: Program) -> str:
    """The text that a store keeps: it says by itself under which semantics it was checked."""
    checked = program.checked
    if checked.pragmas.get("semantics", "stratified") == checked.semantics:
        return program.text
    return f'{program.text.rstrip()}\n.pragma "semantics" "{checked.semantics}"\n'


def _other_program(store: Store, found: Differences) -> StateError:
    return StateError(
        Diagnostic(
            "E604",
            f"`{store.name}` was written with another program",
            detail=str(found),
            hint="`sempre migrate STORE NEW.dl`, or `Database(program, store=..., migrate=True)`, keeps the explicit"
            " facts and derives the rest again.",
        )
    )


def _migrate(database: Database, keeper: Keeper) -> None:
    """Take over the explicit facts of a store that has another program, as its next epoch."""
    with type(database).open(keeper.store) as old:
        operations: list[Operation] = []

        def add(name: str, rows: Any, insert: bool) -> None:
            operations.append((name, insert, *database._encode(name, rows)))

        for name, relation in old.program.relations.items():
            if stored_alike(old.program.checked, database.program.checked, name):
                rows = old._engine.snapshot.explicit[name].rows()
                add(name, old._decoder.table(relation, rows.columns(), len(rows)), True)
        operations += _carried_demand(old, database)
        before, after = own_facts(old), own_facts(database)
        for name in database.program.relations:
            add(name, before.get(name, set()) - after.get(name, set()), False)
            add(name, after.get(name, set()) - before.get(name, set()), True)
        written = keeper_of(old).manifest
        assert written is not None, "there was an epoch to open"
        _inherit(database, old)
        keeper.start_over(written)
    with database._turn(), keeper.named("migrate"):
        database._epoch(lambda: database._intake.last_wins(operations))


def _inherit(new: Database, old: Database) -> None:
    """Take over what was given in later cycles than the input, of relations that are stored alike."""
    given = old._engine.timeline.given if isinstance(old._engine, ActiveEngine) else {}
    if not given:
        return
    if not isinstance(new._engine, ActiveEngine):
        raise StateError(
            f"`{keeper_of(old).store.name}` has facts that were given in later cycles than the input",
            hint="Stratified rules have no cycles: leave the rules active, or start a new store.",
        )

    def moved(name: str, rows: Rows) -> Rows:
        relation = old.program.relations[name]
        columns, size = new._encode(name, old._decoder.table(relation, rows.columns(), len(rows)))
        new._backend.fit({name: columns})
        return new._backend.rows(name, columns, size)

    new._engine.inherited = {
        at: {
            name: Given(moved(name, each.added), moved(name, each.deleted))
            for name, each in facts.items()
            if stored_alike(old.program.checked, new.program.checked, name)
        }
        for at, facts in given.items()
    }


def _carried_demand(old: Database, new: Database) -> list[Operation]:
    """What was asked for in one database, as far as it can be asked for in the other."""
    before, after = (each._engine.program for each in (old, new))
    found: list[Operation] = []
    for name in filter(is_demand, before.relations):
        if stored_alike(before, after, name):
            rows = old._engine.snapshot.explicit[name].rows()
            asked = old._decoder.table(before.relations[name], rows.columns(), len(rows))
            found.append((name, True, *new._demand_codes({name: asked})[name]))
    return found


def own_facts(database: Database) -> dict[str, set[tuple[Any, ...]]]:
    """The facts that a program states."""
    relations = database.program.relations
    return {
        name: set(database._decoder.tuples(relations[name], columns, size))
        for name, (columns, size) in database._intake.program_facts().items()
    }


def detached(database: Database) -> Database:
    """A database whose further epochs stay in memory."""
    database._engine.journal = None
    return database


def keeper_of(database: Database) -> Keeper:
    if database._keeper is None:
        raise StateError("the database has no store", hint="Use `Database(program, store=...)`.")
    return database._keeper


def check_files(place: Any) -> None:
    """Read every file of every epoch; raises with all that are damaged."""
    store = as_store(place)
    store.require()
    sound: set[tuple[str, str]] = set()
    found: dict[str, Diagnostic] = {}
    try:
        store.manifest()  # the newest that was committed, which need not be the newest that is there
    except StateError as error:
        found = {diagnostic.message: diagnostic for diagnostic in error.diagnostics}
    for epoch in store.epochs():
        found |= _damage(store, epoch, sound)
    if found:
        raise StateError(found.values())


def _damage(store: Store, epoch: int, sound: set[tuple[str, str]]) -> dict[str, Diagnostic]:
    """What is wrong with the files of an epoch, by their names; those in `sound` have been looked at.

    A vacuum takes epochs and files away while they are being read. What is missing then is not damaged: the epoch is
    gone, or has another manifest.
    """
    while True:
        found: dict[str, Diagnostic] = {}
        manifest = None
        try:
            manifest = store.manifest(epoch)
        except StateError as error:
            found = {diagnostic.message: diagnostic for diagnostic in error.diagnostics}
        for file in () if manifest is None else manifest.files:
            if (file.path, file.checksum) not in sound:
                try:
                    store.read(file)
                    sound.add((file.path, file.checksum))
                except StateError as error:
                    found[file.path] = error.diagnostics[0]
        if not found or store.still_has(epoch, manifest):
            return found
        if epoch not in store.epochs():
            return {}


def first_difference(database: Database) -> int:
    """The first epoch that differs from a run from scratch, if all epochs since do."""
    epochs = keeper_of(database).store.epochs()

    def differs(epoch: int) -> bool:
        with database.at_epoch(epoch) as past:
            return not past.verify().ok

    return epochs[bisect(epochs[:-1], False, key=differs)]


def repair(database: Database) -> ChangeSet:
    """Derive everything again from the explicit facts, and write what differs as a new epoch."""
    engine, keeper = database._engine, keeper_of(database)
    if isinstance(engine, ActiveEngine):
        return _run_again(database, engine, keeper)
    with database._turn(), keeper.named("repair"):
        before, bring, main = engine.snapshot, engine.places.bring, engine.places.main
        versions, explicit = (
            {name: bring(name, version, main) for name, version in sets.items()}
            for sets in (before.versions, before.explicit)
        )
        again = Engine(
            engine.program, engine.backend, engine.strategy, modules=engine.modules, deferred=engine.deferred
        )  # fmt: skip
        result = again.apply({name: version.rows() for name, version in explicit.items() if len(version)}, {})
        right = again.snapshot.versions
        changes = {name: difference(engine.backend, versions[name], right[name]) for name in right}
        changes = {name: change for name, change in changes.items() if change}
        result = replace(result, changes=changes, explicit={}, why="repair")
        after = replace(again.snapshot, epoch=before.epoch + 1, batches=before.batches)
        keeper.begin(before)
        engine.commit(after, before, result)
        return database._changes.of_epoch(result, before, after)


def _run_again(database: Database, engine: ActiveEngine, keeper: Keeper) -> ChangeSet:
    """Run active rules again on what they were given, and write what differs as a new epoch."""
    with database._turn(), keeper.named("repair"):
        before = engine.snapshot
        keeper.begin(before)
        result = engine.run_again()
        return database._changes.of_epoch(result, before, engine.snapshot)


def vacuum(place: Any, keep: int = 1) -> tuple[int, int]:
    """Keep the last epochs of a store; returns how many bytes were freed, and how many are left."""
    from sempre.storage.vacuum import vacuum as clean

    store = as_store(place)
    store.require()
    store.lock()
    try:
        # Relations that rewrites add are stored, and in no text: demand, ranges, the numbers of instances.
        return clean(store, rewrite(_stored_program(store)), keep)
    finally:
        store.unlock()
