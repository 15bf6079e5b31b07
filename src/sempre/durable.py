"""Databases in stores: opening one, and bringing one over to another program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sempre.diagnostics import Diagnostic, StateError
from sempre.storage.differences import Differences, differences
from sempre.storage.keeper import Keeper
from sempre.storage.store import Store

if TYPE_CHECKING:
    from sempre.api import Database, Program


def as_store(place: Any) -> Store:
    """The store at a place, or the one that was given."""
    return place if isinstance(place, Store) else Store(place)


def stored_program(place: Any, epoch: int | None = None) -> Program:
    """The program of a store."""
    from sempre.api import Program

    store = as_store(place)
    store.require()
    manifest = store.manifest(epoch)
    return Program(store.program_text(manifest), str(store.path / manifest.program.path))


def attach(database: Database, place: Any, epoch: int | None, migrate: bool) -> Keeper:
    """Give a database the state of a store, and let its epochs go there."""
    store = as_store(place)
    if epoch is not None:
        store.require()
    engine = database._engine
    keeper = Keeper(store, database.program.text, engine, database._backend, read_only=epoch is not None)
    if store.exists:
        old = stored_program(store, epoch)
        found = Differences(()) if old.text == database.program.text else differences(old.checked, database.program.checked)
        if found:
            raise _other_program(store, found)
    keeper.open(epoch)
    engine.journal = keeper
    return keeper


def _other_program(store: Store, found: Differences) -> StateError:
    return StateError(
        Diagnostic(
            "E604",
            f"`{store.path}` was written with another program",
            detail=str(found),
            hint="`sempre migrate STORE NEW.dl`, or `Database(program, store=..., migrate=True)`, keeps the explicit facts"
            " and derives the rest again.",
        )
    )
