"""The relations of a program, kept up to date."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from sempre.active.engine import CYCLE_LIMIT, ActiveEngine
from sempre.active.session import Session
from sempre.analysis.model import Relation
from sempre.backends.local import LocalBackend
from sempre.diagnostics import DataError, StateError
from sempre.engine import Engine, EpochResult, Progress, Snapshot
from sempre.ingest import encode_rows
from sempre.kernel.select import Selection
from sempre.lang.parser import parse_atom
from sempre.maintain.strategy import Change, difference
from sempre.modules.find import modularize
from sempre.places import CLUSTER, place_of
from sempre.results import Decoder
from sempre.sizes import parse_size
from sempre.storage.ondemand import OnDemand

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sempre.active.explain import FactHistory
    from sempre.active.inference import Cycle
    from sempre.spark.batches import Batch
    from sempre.spark.border import Border
    from sempre.spark.cluster.backend import SparkBackend
    from sempre.spark.staying import Staying
    from sempre.spark.streams import BatchReport, Maintenance
    from sempre.storage.keeper import Keeper
    from sempre.verify import Verification
from sempre.api.changes import ChangeSet, CycleChanges, Report, Streams
from sempre.api.intake import Coming, Intake, unknown
from sempre.api.options import check_active, check_options, cluster_of, peak_rss, places_of, usable_modules
from sempre.api.program import Program
from sempre.api.views import Past, View, stream_of, table_of


class Transaction:
    """Collects the changes of one epoch; the last operation on a fact wins."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.operations: list[tuple[str, bool, list[np.ndarray[Any, Any]], int]] = []
        self.changes: ChangeSet | None = None

    def insert(self, relation: str, rows: Any) -> None:
        """Insert rows when the transaction ends."""
        self._add(relation, rows, insert=True)

    def delete(self, relation: str, rows: Any) -> None:
        """Delete rows when the transaction ends."""
        self._add(relation, rows, insert=False)

    def _add(self, relation: str, rows: Any, insert: bool) -> None:
        columns, size = self._database._encode(relation, rows)
        self.operations.append((relation, insert, columns, size))


class Database:
    """The relations of a program, kept up to date.

    Parameters
    ----------
    program
        The rules, as a `Program` or as text.
    spark
        A SparkSession, classic or Connect, for `to_spark`, `load` and views. It is never stopped or reconfigured.
    semantics
        `stratified`, or `active` for rules that run in cycles and may delete; by default what the program says.
    cycles
        How many cycles active rules may take before they are taken to have no end.
    strategy, modules, place, threads, workers, memory
        Expert knobs; the defaults choose by themselves.
    progress
        Called during long epochs with an object that has `stratum`, `strata`, `round`, `facts` and `seconds`.
    store
        A directory in which every epoch is kept; made when it is not there. The database goes on where the store is.
    epoch
        Open an earlier epoch of the store, to be read only.
    migrate
        Bring a store that was written with another program over to this one, as a new epoch.
    """

    def __init__(
        self,
        program: Program | str,
        *,
        spark: Any = None,
        store: Any = None,
        strategy: str = "auto",
        modules: str | Iterable[str] = "auto",
        place: str = "auto",
        semantics: str | None = None,
        threads: int | None = None,
        workers: int | None = None,
        memory: str | int | None = None,
        cycles: int | None = None,
        progress: Callable[[Progress], None] | None = None,
        epoch: int | None = None,
        migrate: bool = False,
    ) -> None:
        check_options(strategy, place, semantics, store)
        program = Program(program, semantics=semantics) if isinstance(program, str) else program
        self.program = program.under(semantics)
        self._spark = spark
        self._made_border: Border | None = None
        is_active = self.program.checked.semantics == "active"
        parts = modularize(self.program.checked, usable_modules(modules, is_active, place))
        checked = parts.program
        self._backend = LocalBackend(checked, threads)
        self._decoder = Decoder(self._backend.values, checked.types)
        self._engine: Engine | ActiveEngine
        self._session: Session | None = None
        self._cluster: SparkBackend | None = None
        if is_active:
            check_active(strategy, place, cycles)
            limit = CYCLE_LIMIT if cycles is None else cycles
            self._engine = ActiveEngine(checked, self._backend, self._decoder, limit, progress)
            self._engine.memory = parse_size(memory) or self._engine.memory
            self._session = Session(self._engine)
        else:
            # A store keeps what the driver has.
            self._cluster = None if store is not None else cluster_of(checked, spark, place, self._backend)
            several = places_of(parts, self._backend, self._cluster, place, memory)
            main: Any = self._cluster if several is not None and place == "cluster" else self._backend
            self._engine = Engine(
                checked, main, strategy, progress, parts.modules, deferred=parts.deferred, several=several
            )
        engine = self._engine if isinstance(self._engine, Engine) else None
        self._intake = Intake(self.program, self._backend, self._border, self._cluster, engine)
        # Epochs come one after the other, also from streams; readers never wait: a snapshot does not change.
        self._writing = threading.RLock()
        self._streams: list[Maintenance] = []
        self._shown: list[Any] = []
        self._closed = False
        self._keeper: Keeper | None = None
        self._options = {"strategy": strategy, "modules": modules, "place": place, "threads": threads, "memory": memory}
        if store is not None:
            self._stratified("a store")
            from sempre.durable import attach

            self._keeper = attach(self, store, epoch, migrate)

    # ------------------------------------------------------------------------------------------------- epochs

    @property
    def epoch(self) -> int:
        """The number of the last epoch; 0 is the first materialization."""
        self._materialized()
        return self._engine.snapshot.epoch

    def load(self, directory: str | Path) -> ChangeSet:
        """Read what `.input` says from a directory: part of epoch 0 if nothing happened yet, else an epoch.

        With a Spark session it is Spark that reads, and the directory may be a URL.
        """
        if self._spark is not None:
            tables: Mapping[str, Any] = self._border().read_inputs(str(directory), self._staying()).tables
        else:
            from sempre.files import read_inputs

            tables = read_inputs(self.program.checked, Path(directory))
        return self.materialise(tables) if self._engine.snapshot.epoch < 0 else self.apply(insert=tables)

    def _staying(self) -> Staying | None:
        """Who decides what of an input stays on the cluster, if anything can."""
        return self._intake.staying()

    def materialise(self, tables: Mapping[str, Any] | None = None) -> ChangeSet:
        """Epoch 0: the program's own facts, and these tables. Can only be the first thing that happens."""
        self._open()
        with self._writing:
            return self._materialise(tables or {})

    def _materialise(self, tables: Mapping[str, Any]) -> ChangeSet:
        if self._engine.snapshot.epoch >= 0:
            raise StateError("the database is materialized already", hint="Use apply() for further facts.")
        return self._apply(self._intake.with_program_facts(self._intake.take(tables)), Coming())

    def apply(self, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> ChangeSet:
        """One epoch: delete, then insert; all of it or, if anything fails, nothing.

        Parameters
        ----------
        insert, delete
            Rows by relation: tuples, dicts, Arrow, pandas, polars or Spark DataFrames.
        """
        self._open()
        self._materialized()
        return self._apply(self._intake.take(insert or {}), self._intake.take(delete or {}))

    def whatif(self, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> ChangeSet:
        """What `apply` would change, and how it would go; nothing is kept."""
        engine = self._stratified("whatif()")
        self._materialized()
        before = engine.snapshot
        coming, going = self._intake.take(insert or {}), self._intake.take(delete or {})
        try:
            after, result = engine.evaluate(*self._rows(coming, going))
            return self._change_set(result, before, after)
        finally:
            engine.snapshot = before

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Collect insertions and deletions, applied as one epoch at the end; an exception leaves nothing behind."""
        self._open()
        self._materialized()
        transaction = Transaction(self)
        yield transaction
        with self._writing:
            insert, delete = self._last_wins(transaction.operations)
            transaction.changes = self._finish(insert, delete)

    def _last_wins(self, operations: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Rows to insert and to delete, when the last operation on each row decides."""
        backend = self._backend
        backend.fit({name: columns for name, _, columns, _ in operations})
        insert: dict[str, Any] = {}
        delete: dict[str, Any] = {}
        for name, is_insert, columns, size in operations:
            rows = backend.rows(name, columns, size)
            target, other = (insert, delete) if is_insert else (delete, insert)
            target[name] = backend.union([target[name], rows]) if name in target else rows
            if name in other:
                other[name] = backend.difference(other[name], backend.version(rows))
        return insert, delete

    def _apply(
        self,
        insert: Coming,
        delete: Coming,
        batch: tuple[str, int] | None = None,
        publish: Callable[[int, ChangeSet], None] | None = None,
    ) -> ChangeSet:
        """One epoch."""
        with self._writing:
            return self._finish(*self._rows(insert, delete), batch, publish)

    def _rows(self, insert: Coming, delete: Coming) -> tuple[dict[str, Any], dict[str, Any]]:
        self._intake.fit(insert)
        if not self._is_running and self._engine.is_empty:
            self._engine.reset()
        return self._intake.rows(insert), self._intake.rows(delete)

    def _finish(
        self,
        plus: Mapping[str, Any],
        minus: Mapping[str, Any],
        batch: tuple[str, int] | None = None,
        publish: Callable[[int, ChangeSet], None] | None = None,
    ) -> ChangeSet:
        """One epoch; `publish` sees what it changes before anybody else, and if it raises, there is no epoch."""
        self._idle()
        engine, before = self._engine, self._engine.snapshot
        jobs = self._jobs()
        made: list[ChangeSet] = []

        def before_commit(after: Snapshot, result: EpochResult) -> None:
            made.append(self._change_set(result, before, after, self._jobs() - jobs))
            if publish is not None:
                publish(after.epoch, made[0])

        if isinstance(engine, Engine):
            engine.apply(plus, minus, batch, before_commit)
            return made[0]
        return self._change_set(engine.apply(plus, minus), before, engine.snapshot)

    def _tables(
        self, change_of: Callable[[str], Change | None], side: str, show: Callable[..., Any] = table_of
    ) -> Mapping[str, Any]:
        """Arrow tables, or what `show` makes, of the rows that came (`plus`) or went (`minus`), for all relations."""
        relations = self.program.relations

        def table(name: str) -> Any:
            change = change_of(name)
            if change is None:
                return self._decoder.table(relations[name], [np.empty(0, np.int64)] * relations[name].arity, 0)
            return show(getattr(change, side), relations[name], self._decoder)

        return OnDemand(relations, table)

    def _change_of(
        self, changed: Mapping[str, Change], before: Snapshot, after: Snapshot
    ) -> Callable[[str], Change | None]:
        """How to find the change of a relation.

        Changes of relations that are evaluated on demand take both states to find: only then are they held on to.
        """
        engine = self._engine
        if not isinstance(engine, Engine) or not engine.deferred:
            return changed.get
        states = (before, after)

        def change_of(name: str) -> Change | None:
            if name not in engine.deferred:
                return changed.get(name)
            return difference(engine.backend, *(engine.version(name, state) for state in states))

        return change_of

    def _jobs(self) -> int:
        """How many Spark jobs there have been."""
        return 0 if self._cluster is None else self._cluster.jobs

    def _change_set(self, result: EpochResult, before: Snapshot, after: Snapshot, jobs: int = 0) -> ChangeSet:
        relations = self.program.relations
        changed = {name: change for name, change in result.changes.items() if name in relations}
        report = Report(
            result.seconds,
            result.strategy,
            result.placement,
            sum(stratum.rounds for stratum in result.strata),
            result.instances,
            {name: len(change.plus) for name, change in changed.items()},
            {name: len(change.minus) for name, change in changed.items()},
            peak_rss(),
            result.why,
            tuple(asdict(stratum) for stratum in result.strata),
            result.ignored_insertions,
            result.ignored_deletions,
            self._made_border.by_position() if self._made_border else (),
            jobs,
        )
        change_of = self._change_of(changed, before, after)

        def frame(changes: ChangeSet, name: str, hold: bool) -> Any:
            if name not in relations:
                raise self._unknown(name)
            change = change_of(name)
            if self._cluster is not None and change is not None and place_of(change.plus) == CLUSTER:
                if hold:
                    self._shown.append(change)
                rows = {"added": change.plus, "removed": change.minus}
                versions = {word: self._cluster.version(side) for word, side in rows.items()}
                frames = {word: self._cluster.frame(relations[name], side) for word, side in versions.items()}
                return self._border().cluster_changes(relations[name], after.epoch, frames)
            return self._border().changes_frame(relations[name], after.epoch, changes)

        added, removed = (self._tables(change_of, side) for side in ("plus", "minus"))
        streams = None
        if any(place_of(change.plus) == CLUSTER for change in changed.values()):
            streams = Streams(*(self._tables(change_of, side, stream_of) for side in ("plus", "minus")))
        return ChangeSet(added, removed, report, frame, streams)

    # ------------------------------------------------------------------------- active rules, in the background

    def start(
        self,
        insert: Mapping[str, Any] | None = None,
        delete: Mapping[str, Any] | None = None,
        *,
        watch: Callable[[CycleChanges], None] | None = None,
    ) -> None:
        """Begin an epoch of active rules in the background; `wait` for it, and `interrupt` it until then.

        Parameters
        ----------
        insert, delete
            Rows by relation, as for `apply`; together with the program's own facts if nothing happened yet.
        watch
            Called in the background after every cycle, and when a change was absorbed, with a `CycleChanges`.

        Whoever reads in the meantime sees the last epoch.
        """
        self._open()
        session = self._active()
        self._idle()
        first = self._engine.snapshot.epoch < 0
        coming = self._intake.take(insert or {})
        coming = self._intake.with_program_facts(coming) if first else coming
        rows = self._rows(coming, self._intake.take(delete or {}))
        session.start(*rows, None if watch is None else lambda cycle: watch(self._cycle_changes(cycle)))

    def _cycle_changes(self, cycle: Cycle) -> CycleChanges:
        added, removed = (self._tables(cycle.changes.get, side) for side in ("plus", "minus"))
        sizes = [{name: len(getattr(c, side)) for name, c in cycle.changes.items()} for side in ("plus", "minus")]
        return CycleChanges(cycle.number, cycle.absorbed, added, removed, *sizes)

    def interrupt(self, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> None:
        """Change the input while inference runs: absorbed at the next cycle boundary, as if it had always been so."""
        self._open()
        session = self._active()
        if not session.is_open:
            raise StateError("no inference is running", hint="Use start() to begin one, or apply().")
        session.interrupt(*self._rows(self._intake.take(insert or {}), self._intake.take(delete or {})))

    def wait(self) -> ChangeSet:
        """The changes of the epoch in the background, when it has come to its end.

        An error that ended it is raised here; then, and when waiting is interrupted, the last epoch stays.
        """
        self._open()
        before = self._engine.snapshot
        result = self._active().wait()
        return self._change_set(result, before, self._engine.snapshot)

    @property
    def cycle(self) -> int:
        """How many cycles active rules took, or have taken so far."""
        session = self._active()
        self._materialized()
        return session.cycle

    def at_cycle(self, cycle: int) -> Past:
        """The relations as they were after a cycle of the last epoch's run; cycle 0 is the input."""
        self._active()
        self._materialized()
        assert isinstance(self._engine, ActiveEngine)
        timeline = self._engine.timeline
        if not 0 <= cycle <= timeline.cycles:
            raise StateError(f"there is no cycle {cycle}", hint=f"The run has the cycles 0 to {timeline.cycles}.")
        return Past(self, timeline.chains, cycle)

    def explain(self, fact: str) -> FactHistory:
        """Which cycles added or deleted a fact such as `down("a")`, and by which rules; for active rules."""
        from sempre.active.explain import history
        from sempre.query import constant_row

        self._active()
        self._idle()
        atom = parse_atom(fact)
        if atom.relation not in self.program.relations:
            raise self._unknown(atom.relation)
        self._materialized()
        assert isinstance(self._engine, ActiveEngine)
        relation = self.program.relations[atom.relation]
        columns = constant_row(atom, relation, self._encode_constants)
        return history(self._engine, relation.name, self._backend.rows(relation.name, columns, 1))

    def _active(self) -> Session:
        if self._session is None:
            raise StateError(
                "this database has no cycles: its rules are stratified",
                hint='Use `Database(program, semantics="active")`.',
            )
        return self._session

    def _stratified(self, what: str) -> Engine:
        if not isinstance(self._engine, Engine):
            raise StateError(f"{what} is for stratified rules", hint='Leave `semantics="active"` out.')
        return self._engine

    @property
    def _is_running(self) -> bool:
        return self._session is not None and self._session.is_open

    def _idle(self) -> None:
        if self._is_running:
            raise StateError("inference is running", hint="Use interrupt() for changes, or wait() for its end.")

    # -------------------------------------------------------------------------------------------------- store

    @staticmethod
    def open(store: Any, *, epoch: int | None = None, **options: Any) -> Database:
        """The database in a store, with the program that is in it; at an earlier epoch, it is only read."""
        from sempre.durable import stored_text

        return Database(Program(*stored_text(store, epoch)), store=store, epoch=epoch, **options)

    def metrics(self) -> str:
        """Figures of the last epoch, in the text format of Prometheus."""
        from sempre.storage.metrics import prometheus

        self._materialized()
        if self._keeper is None or self._keeper.manifest is None:
            raise StateError("only a database with a store has metrics", hint="Use `Database(program, store=...)`.")
        return prometheus(self._keeper.manifest, len(self._keeper.store.epochs()))

    def at_epoch(self, epoch: int) -> Database:
        """The database as it was after an earlier epoch, to be read only. Close it when it is no longer needed."""
        self._open()
        if self._keeper is None:
            raise StateError("only a database with a store has past epochs", hint="Use `Database(program, store=...)`.")
        return Database.open(self._keeper.store.path, epoch=epoch, spark=self._spark, **self._options)

    # ------------------------------------------------------------------------------------------------ reading

    def __getitem__(self, name: str) -> View:
        relation = self.program.relations.get(name)
        if relation is None:
            raise self._unknown(name)
        self._open()
        self._materialized()
        return View(self, relation)

    def __iter__(self) -> Iterator[str]:
        return iter(self.program.relations)

    def __contains__(self, name: object) -> bool:
        return name in self.program.relations

    def query(self, text: str) -> pa.Table:
        """The bindings of the variables of an atom such as `reach("a", X)`, one column each, distinct rows."""
        from sempre.query import answer

        atom = parse_atom(text)
        if atom.relation not in self.program.relations:
            raise self._unknown(atom.relation)
        relation = self.program.relations[atom.relation]
        self._materialized()
        return answer(atom, relation, partial(self._find, relation.name), self._encode_constants, self._decoder)

    def _find(self, name: str, selection: Selection) -> Any:
        """The selected rows; from the store's files, where the relation has not been read yet."""
        found = self._keeper.search(name, selection, self._engine.snapshot) if self._keeper else None
        if found is not None:
            return found
        version = self._version(name)
        if place_of(version) == CLUSTER:
            from sempre.spark.cluster.outgoing import selected

            rows = selected(version, selection)
            return self._backend.receive(name, rows.columns(), len(rows))
        return selection.of(version.rows())

    def verify(self) -> Verification:
        """Compare facts and counters with a run from scratch; `.ok`, or `.differences` with what is wrong."""
        from sempre.verify import verify

        self._idle()
        self._materialized()
        with self._writing:
            return verify(self._engine, self._decoder)

    def _encode_constants(self, relation: Relation, column: int, value: Any) -> int:
        from sempre.ingest import encode_value

        return encode_value(relation, column, value, self._backend.values, self.program.checked.types)

    def register_views(self, *names: str, prefix: str = "") -> list[str]:
        """Make relations temporary views of the Spark session, so that `spark.sql` can use them.

        Parameters
        ----------
        names
            The relations; all of them if none is named.
        prefix
            Put before each name, where the session has views of the same names.

        Returns the names of the views. They show the present epoch: ask again after the next.
        """
        views = [self[name] for name in names or self.program.relations]
        for view in views:
            view.to_spark().createOrReplaceTempView(prefix + view.name)
        return [prefix + view.name for view in views]

    # ------------------------------------------------------------------------------------------------- streams

    def maintain(
        self,
        stream: DataFrame,
        relation: str | None = None,
        *,
        relation_column: str = "relation",
        operation: str | None = None,
        order: str | None = None,
        checkpoint: str | Path | None = None,
        name: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        keep_batches: bool = False,
        trust_checkpoint: bool = False,
        feed: str | Path | None = None,
        on_changes: Callable[[ChangeSet], None] | None = None,
    ) -> Maintenance:
        """Keep the database current with a stream of changes; every micro-batch is an epoch, applied once.

        Parameters
        ----------
        stream
            A streaming DataFrame, classic or Connect; the columns of relations are found in it by name.
        relation, relation_column
            The relation it changes; without it, the column that names it in every row.
        operation
            The column with `insert` or `delete`, `+` or `-`; `_change_type` or `operation` if the stream has one of
            these. Without any, a stream with a `relation` inserts.
        order
            The column that orders the operations of a batch: the last one on a fact wins. Without it a batch deletes
            first and then inserts. Delta's `_commit_version` is taken if the operations are Delta's.
        checkpoint, name, trigger
            Spark's: where the stream remembers what it has read, its name, and arguments of `trigger`.
        keep_batches
            Keep every batch in the folder of the checkpoint, so that a new database can be brought up to date from
            there. Always so on Spark Connect.
        trust_checkpoint
            Take a stream up in the middle: the database holds all that came before.
        feed
            A folder for the changes: `FEED/EPOCH/RELATION.parquet`, complete before the epoch can be seen.
        on_changes
            Called with the changes of every epoch, before it can be seen; if it raises, the epoch has not happened.
        """
        from sempre.spark.streams import Columns, Maintenance, StreamOptions, Target

        self._materialized()
        if relation is not None and relation not in self.program.relations:
            raise self._unknown(relation)
        columns = Columns(relation, relation_column, operation, order)
        folder = None if checkpoint is None else str(checkpoint)
        options = StreamOptions(
            columns, folder, name, trigger, keep_batches, trust_checkpoint, feed, on_changes
        )  # fmt: skip
        target = Target(self.program.checked, self._last_batch, self._take_batch, self._staying)
        self._streams.append(Maintenance(target, stream, options))
        return self._streams[-1]

    def _last_batch(self, stream: str) -> int:
        return self._engine.snapshot.batches.get(stream, -1)

    def _take_batch(
        self,
        rows: Batch,
        batch: tuple[str, int],
        publish: Callable[[int, ChangeSet], None],
    ) -> BatchReport:
        """One epoch of the operations in a batch."""
        from sempre.spark.streams import BatchReport

        self._open()
        started = time.perf_counter()
        insert, delete = self._intake.batch(rows)
        with self._writing:
            report = self._apply(insert, delete, batch, publish).report
            epoch = self._engine.snapshot.epoch
        return BatchReport(batch[1], epoch, rows.rows, time.perf_counter() - started, report.added, report.removed)

    # -------------------------------------------------------------------------------------------------- inside

    def _frame(self, view: View) -> DataFrame:
        """A DataFrame of a relation: the cluster's own files where they are there already."""
        version = self._version(view.name)
        if self._cluster is not None and place_of(version) == CLUSTER:
            self._shown.append(version)  # its files stay as long as the database
            return self._border().restored(view.relation, self._cluster.frame(view.relation, version))
        return self._border().frame(view.relation, view.to_arrow())

    def _border(self) -> Border:
        if self._made_border is None:
            from sempre.spark.border import Border

            self._made_border = Border(self._spark, self.program.checked)
        return self._made_border

    def close(self) -> None:
        """Stop streams, give back threads and memory; the database cannot be used afterwards."""
        while self._streams:
            self._streams.pop().stop()
        self._closed = True
        if self._session is not None:
            self._session.cancel()
        self._backend.close()
        if self._keeper is not None:
            self._keeper.close()
        if self._cluster is not None:
            self._cluster.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> None:
        if self._closed:
            raise StateError("the database is closed")

    def _materialized(self) -> None:
        """Make sure that epoch 0 has happened."""
        self._open()
        if self._engine.snapshot.epoch < 0 and not self._is_running:
            with self._writing:  # another thread may have been quicker
                if self._engine.snapshot.epoch < 0:
                    self._materialise({})

    def _version(self, name: str) -> Any:
        self._open()
        engine = self._engine
        return engine.version(name) if isinstance(engine, Engine) else engine.snapshot.versions[name]

    def _unknown(self, name: str) -> DataError:
        return unknown(self.program, name)

    def _encode(self, name: str, rows: Any) -> tuple[list[Any], int]:
        return self._intake.encode(name, rows)

    def _contains(self, relation: Relation, row: object, version: Any = None) -> bool:
        try:
            columns, size = encode_rows(relation, [row], self._backend.values, self.program.checked.types)
        except DataError:
            return False
        version = self._version(relation.name) if version is None else version
        rows = self._backend.rows(relation.name, columns, size)
        place = place_of(version)
        if place == "driver":
            return bool(version.contains(rows).all())
        places = self._stratified("the cluster").places
        return len(places.backends[place].intersection(places.bring_rows(relation.name, rows, place), version)) > 0
