"""Ties an engine to a store: restores its state when it is opened, and makes every epoch durable."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram
from sempre.backends.local import LocalBackend
from sempre.diagnostics import Diagnostic, StateError
from sempre.engine import EpochResult, Snapshot
from sempre.kernel.select import Selection
from sempre.kernel.trace import RowSet
from sempre.lang.parser import parse
from sempre.maintain.memory import described
from sempre.maintain.strategy import DeferredMemory
from sempre.plan.backend import CLUSTER, DRIVER
from sempre.rewrites.equivalences import close_equivalences
from sempre.rewrites.successors import is_neighbors, shown, with_neighbors
from sempre.storage import memories
from sempre.storage.digests import KeptEngine, memory_digest, program_digest, stratum_key
from sempre.storage.epoch_files import EpochDraft
from sempre.storage.followed import COPIES, Followed
from sempre.storage.manifest import Manifest, StoredFile, StoredParts, StoredTable, damaged, unreadable
from sempre.storage.ondemand import OnDemand
from sempre.storage.parquet_blocks import Block, Content
from sempre.storage.pieces import PieceReader
from sempre.storage.state import (
    StraySets,
    epoch_sets,
    kept_relations,
    new_values,
    restore_values,
    restored,
    search,
    stored_sets,
)  # fmt: skip
from sempre.storage.store import Store
from sempre.storage.stored_tables import LocalTables, Tables

logger = logging.getLogger(__name__)

# How often a reader looks again when a vacuum took a file away while it was opening the store.
RETRIES = 5


class OpenedFiles:
    """The files of one epoch, opened together: on this machine they stay readable whatever a vacuum removes.

    Those of tables are only looked at: Spark opens them by their names.
    """

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self._store = store
        self._epoch = manifest.epoch
        self._held = store.disk.hold(store.path / file.path for file in manifest.piece_files)
        try:
            for table in manifest.tables.values():
                for file in table.files:
                    store.check_size(file)
        except (OSError, StateError):
            self.close()
            raise

    def load(self, file: StoredFile) -> Any:
        """The content of a file, checked."""
        try:
            return self._store.checked(file, self._held.read(self._store.path / file.path))
        except FileNotFoundError as error:
            if self._epoch not in self._store.epochs():
                message = f"epoch {self._epoch} of `{self._store.name}` was vacuumed since this database opened it"
                raise StateError(Diagnostic("E609", message, hint="Open the store again.")) from None
            raise damaged(self._store.shown(file.path), "it is missing") from error
        except OSError as error:
            raise unreadable(self._store.shown(file.path), error) from None

    def close(self) -> None:
        self._held.close()


def open_files(store: Store, epoch: int | None) -> tuple[Manifest, OpenedFiles]:
    """The manifest of an epoch, and its files; a vacuum in between makes us look again."""
    for _ in range(RETRIES):
        manifest = store.manifest(epoch)
        try:
            return manifest, OpenedFiles(store, manifest)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise unreadable(error.filename, error) from None
    for file in store.manifest(epoch).files:
        store.check_there(file)  # raises, naming the one that is missing
    return open_files(store, epoch)


class Keeper:
    """The journal of an engine whose epochs go to a store.

    `epoch` opens an earlier epoch; that, or `read_only`, makes every change an error. `program` is what the text says,
    whatever the engine makes of it.
    """

    def __init__(
        self,
        store: Store,
        text: str,
        program: CheckedProgram,
        engine: KeptEngine,
        backend: LocalBackend,
        tables: Tables,
        read_only: bool,
    ) -> None:
        self.store = store
        self._kind = ""
        self._new_text: str | None = text
        self._engine = engine
        self._backend = backend
        self._tables = tables
        self._folder = store.path
        # The tables that have been put into the store, by their names there.
        self._put: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._read_only = read_only
        # Whether this is the writer, of a store that is as this database knows it.
        self._is_writer = False
        self._files: OpenedFiles | None = None
        self._reader: PieceReader | None = None
        self._scanned: set[str] = set()
        # What the next epoch is added to, and what is on the disk: not the same when the state is written anew.
        self.manifest: Manifest | None = None
        self._basis: Manifest | None = None
        # The memories of the last epoch, and those that are in the store: not the same after a change of strategy.
        self._remembered: dict[str, Any] = {}
        self._stored: Mapping[str, Any] = {}
        # What the sets of the store were made by, as far as it is not what this engine makes them by.
        self._stray = StraySets()
        # What the next epoch says of sources, and how it changes the sets of copies, where it is one that reads them.
        self._following: Callable[[], tuple[Followed, Mapping[str, Block]]] | None = None
        self._digest = program_digest(program)
        self._digests = {stratum_key(s): memory_digest(engine, s) for s in engine.memory_strata}

    def open(self, epoch: int | None = None) -> None:
        """Give the engine the state of the store, if it has one."""
        if not self.store.exists:
            return
        self.manifest, self._files = open_files(self.store, epoch)
        self._basis = self.manifest
        text = str(self._files.load(self.manifest.program), "utf-8")
        if text == self._new_text:
            self._new_text = None
        reader = self._reader = PieceReader(self.manifest.pieces, self._files.load)
        restore_values(self._backend.values, reader)
        tabled = partial(self._tabled, self.manifest)
        marked = with_deferred(self.manifest, text)
        found = restored(self._engine, self._backend, marked, reader, tabled, self._digests)
        self._stored, self._stray = found.memories, found.stray
        self._engine.restore(found.snapshot)
        self._remembered = self._memories(self._engine.snapshot)
        logger.info("opened epoch %d", self.manifest.epoch, extra={"store": self.store.place})

    def _tabled(self, manifest: Manifest, set_: str) -> Any:
        """The version of a set that is stored as tables."""
        relation = set_.partition("/")[2]

        def opened(name: str) -> Any:
            if isinstance(self._tables, LocalTables):  # who reads all of it now; Spark does so later, and in parts
                for file in manifest.tables[name].files:
                    self.store.check_content(file)
            stored = manifest.tables[name]
            landing = self._tables.landing() if self.store.disk.is_shared else None
            if landing is None:
                return self._tables.opened(relation, self._folder / name, stored.rows)
            self._fetch(stored, landing)
            table = self._tables.opened(relation, landing, stored.rows)
            self._put[table] = name
            return table

        stored = manifest.parts[set_]
        parts = [(opened(name), tuple(map(opened, gone))) for name, gone in stored.tables]
        version = self._tables.assembled(relation, parts, stored.rows)
        self._backend.values.keep()  # what was numbered just now belongs to a state that is committed
        return version

    def _fetch(self, table: StoredTable, landing: Path) -> None:
        """Copy the files of a table to this machine, checked."""
        landing.mkdir(parents=True, exist_ok=True)
        for file in table.files:
            (landing / PurePath(file.path).name).write_bytes(self.store.read(file))

    @property
    def is_past(self) -> bool:
        """Whether what was opened is only read."""
        return self._read_only

    def search(self, name: str, selection: Selection, snapshot: Snapshot) -> RowSet | None:
        """The selected rows of a relation that has not been read, if looking through its files is quicker than that.

        It is for one query, and for any that gives the first column: the files know where to look for that.
        """
        versions = snapshot.versions
        if self._reader is None or not isinstance(versions, OnDemand) or versions.is_made(name) or not selection:
            return None
        set_ = f"facts/{name}"
        if self.manifest is not None and set_ in self.manifest.parts:
            return None
        if set_ in self._stray or name not in kept_relations(self._engine):
            return None
        if not selection.lead:
            if name in self._scanned:
                return None
            self._scanned.add(name)
        return search(self._reader, set_, self._backend.fields[name], selection)

    @contextmanager
    def named(self, kind: str) -> Iterator[None]:
        """Epochs are of this kind, in the history."""
        self._kind = kind
        try:
            yield
        finally:
            self._kind = ""

    @property
    def followed(self) -> Followed | None:
        """What the store knows of sources; None if it follows none."""
        raw = self.manifest.sources if self.manifest else {}
        return Followed.from_json(raw) if raw else None

    @contextmanager
    def following(self, of: Callable[[], tuple[Followed, Mapping[str, Block]]]) -> Iterator[None]:
        """Epochs bring the store to its sources: what is known of these, and how the copies of each relation change."""
        self._following = of
        try:
            yield
        finally:
            self._following = None

    def copies(self, name: str) -> Block | None:
        """How often rows of the sources stand for a fact of a relation, as `COPIES` has it; None if once for all."""
        if self.manifest is None:
            return None
        reader, set_ = PieceReader(self.manifest.pieces, self.store.read), f"{COPIES}/{name}"
        total = reader.total(set_) if set_ in reader.names() else None
        return total if isinstance(total, Block) and len(total) else None

    def let_go(self) -> None:
        """No epoch is committed from here on; one that is being committed is waited for."""
        self.store.unlock()

    def close(self) -> None:
        self._is_writer = False
        self.store.unlock()
        if self._files is not None:
            self._files.close()
            self._files = None

    # ------------------------------------------------------------------------------------------------ journal

    def begin(self, before: Snapshot) -> None:
        """Become the writer, if nothing has happened to the store since it was opened."""
        if self._read_only:
            hint = "Open the store without naming an epoch to change it."
            raise StateError(Diagnostic("E610", f"epoch {before.epoch} is past, and only read", hint=hint))
        if self._is_writer:
            self.store.check_lock()
            return
        self.store.lock()
        try:
            self._check_unchanged(before)
        except BaseException:
            self.store.unlock()
            raise
        self._is_writer = True

    def _check_unchanged(self, before: Snapshot) -> None:
        """Raise unless the store is as this database knows it."""
        epochs = self.store.epochs()
        now = self.store.manifest() if epochs else None
        basis = self._basis
        if (now is None) != (basis is None) or (
            now and basis and (now.epoch, now.generation) != (basis.epoch, basis.generation)
        ):
            at = f"is at epoch {epochs[-1]}, and this database at {before.epoch}" if epochs else "is gone"
            hint = "It was written since this database opened it: open it again."
            raise StateError(Diagnostic("E609", f"`{self.store.name}` {at}", hint=hint))
        if now is not None and self.manifest is basis:
            self.manifest = self._basis = now  # a vacuum may have put the pieces together

    def start_over(self, manifest: Manifest) -> None:
        """Continue a store with a state of its own, none of which is in the store."""
        self._basis = manifest
        self.manifest = replace(
            manifest, generation=manifest.generation + 1, lists={}, memories={}, pieces=(), tables={}, parts={},
            sources=Followed.from_json(manifest.sources).unread().to_json() if manifest.sources else {},
        )  # fmt: skip
        self._engine.restore(replace(self._engine.snapshot, epoch=manifest.epoch, batches=manifest.batches))

    def commit(self, known: Snapshot, after: Snapshot, result: EpochResult, become: Callable[[], None]) -> None:
        """Make the epoch durable, and the state of the engine."""
        started = time.perf_counter()
        before = self.manifest
        tabled = before.parts if before else {}
        contents = epoch_sets(self._engine, known, after, result, tabled, self._stray)
        remembered = self._memories(after)
        metas = self._changed_memories(after, remembered, contents)
        self._stray.put_right(contents)
        followed, copies = self._following() if self._following else (self._followed_after(result), {})
        contents |= {f"{COPIES}/{name}": block for name, block in copies.items() if len(block)}
        fresh: dict[Any, str] = {}
        values, lists = new_values(self._backend.values, before.lists if before else {})
        manifest = Manifest(
            epoch=after.epoch,
            written=datetime.now(UTC).isoformat(timespec="milliseconds"),
            kind=self._kind or ("init" if before is None else "apply"),
            generation=before.generation if before else 0,
            program=before.program if before else StoredFile("", 0, ""),
            fields={name: tuple((f.lo, f.bits) for f in row) for name, row in self._backend.fields.items()},
            sizes={
                name: len(after.versions[name]) for name in self._engine.program.relations if not is_neighbors(name)
            },
            lists=lists,
            batches=dict(after.batches),
            memories=metas,
            pieces=before.pieces if before else (),
            report=report_of(result),
            digest=self._digest,
            deferred=tuple(sorted(self._engine.deferred)),
            sources=followed.to_json() if followed else {},
        )
        tables = partial(self._with_tables, after, fresh)
        unchanged = {name for name, memory in remembered.items() if memory is self._remembered.get(name)}
        stored = {name: remembered[name] for name in metas}
        stored |= {name: memory for name, memory in self._stored.items() if name in unchanged}

        def committed(manifest: Manifest) -> None:
            become()
            self.manifest = self._basis = manifest
            self._put.update(fresh)
            self._new_text = None
            self._stored, self._remembered, self._stray = stored, remembered, StraySets()

        self.store.commit(manifest, self._new_text, values | contents, tables, committed)
        seconds = time.perf_counter() - started
        where = {"store": self.store.place, "epoch": after.epoch, "seconds": seconds}
        logger.info("committed epoch %d in %.3f s", after.epoch, seconds, extra=where)

    def _followed_after(self, result: EpochResult) -> Followed | None:
        """What is known of sources after an epoch that does not come from them."""
        followed = self.followed
        if followed is None or self._kind:  # a migration takes the facts over, a repair leaves them as they are
            return followed
        return followed.changed_by_hand(result.explicit)

    def _with_tables(self, after: Snapshot, fresh: dict[Any, str], draft: EpochDraft, manifest: Manifest) -> Manifest:
        """The manifest with the sets that are on the cluster; tables that the last epoch lacks are put into the draft.

        `fresh` is filled with these.
        """
        known = self.manifest.tables if self.manifest else {}
        tables: dict[str, StoredTable] = {}

        def put(table: Any) -> str:
            name = fresh.get(table) or self._put.get(table) or self._own_name(table.path)
            if name is not None and name in known:
                tables[name] = known[name]
            elif name is None or name not in tables:
                with self._tables.files_of(table) as folder:
                    name, tables[name] = draft.table(folder, len(table))
                fresh[table] = name
            return name

        parts = {
            set_: StoredParts(
                len(version), tuple((put(table), tuple(map(put, gone))) for table, gone in version.settled_parts())
            )
            for set_, version in stored_sets(self._engine, after).items()
            if version.place == CLUSTER
        }
        return replace(manifest, tables=tables, parts=parts)

    def _own_name(self, path: PurePath) -> str | None:
        """The name that a folder has in the store, if it is there."""
        return f"tables/{path.name}" if path.parent == self._folder / "tables" else None

    def _memories(self, snapshot: Snapshot) -> dict[str, Any]:
        return {stratum_key(s): snapshot.memories.get(s.index) for s in self._engine.memory_strata}

    def _changed_memories(
        self, after: Snapshot, remembered: Mapping[str, Any], contents: dict[str, Content]
    ) -> dict[str, Any]:
        """What the manifest says of the memories; how their sets changed is added to `contents`.

        Those of strata on workers or on the cluster are not stored.
        """
        metas: dict[str, Any] = {}
        known = self.manifest.memories if self.manifest else {}
        for stratum in self._engine.memory_strata:
            name = stratum_key(stratum)
            new, digest = remembered[name], self._digests[name]
            is_known = known.get(name, {}).get("digest") == digest
            if is_known and new is self._remembered.get(name) and new is not None:
                metas[name] = known[name]
                continue
            is_far = after.versions[stratum.relations[0]].place != DRIVER
            meta = None
            if not is_far and not isinstance(new, DeferredMemory):  # what nobody has needed is still to be made
                meta = described(new, self._engine.strategy_name(stratum))
            if meta is not None:
                metas[name] = {**meta, "digest": digest}
            old = memories.parts(DeferredMemory.settled(self._stored.get(name)))
            contents.update(memories.change(old, memories.parts(new) if meta is not None else {}))
        return metas


def with_deferred(manifest: Manifest, text: str) -> Manifest:
    """The manifest, saying what its facts leave out, which those of formats 1 and 2 do not say.

    They show whether the program was evaluated with neighbors: then what nobody but these needed was put off.
    """
    if manifest.digest is not None or not any(map(is_neighbors, manifest.sizes)):
        return manifest
    program = close_equivalences(check(parse(text), {}))
    return replace(manifest, deferred=tuple(with_neighbors(program).deferred))


def report_of(result: EpochResult) -> dict[str, Any]:
    """What a manifest keeps of how an epoch went."""
    changes = {name: change for name, change in result.changes.items() if not is_neighbors(name)}
    return {
        "seconds": round(result.seconds, 6),
        "strategy": result.strategy,
        "why": result.why,
        "rounds": sum(stratum.rounds for stratum in result.strata),
        "instances": result.instances,
        "added": {name: len(change.plus) for name, change in changes.items()},
        "removed": {name: len(change.minus) for name, change in changes.items()},
        "ignored_insertions": result.ignored_insertions,
        "ignored_deletions": result.ignored_deletions,
        "strata": [
            {
                "relations": [shown((name,)) for name in stratum.relations],
                "strategy": stratum.strategy,
                "placement": stratum.placement,
                "rounds": stratum.rounds,
                "seconds": round(stratum.seconds, 6),
            }
            for stratum in result.strata
        ],
    }
