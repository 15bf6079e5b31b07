"""What a database is made of, and how it does an epoch."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sempre.analysis.model import Relation
from sempre.api.changes import ChangeSet, ChangeSets
from sempre.api.intake import Encoded, IncomingRows, Intake, unknown
from sempre.api.options import (
    Options,
    check_active,
    check_functions,
    check_guards,
    check_stratified,
    check_switch,
    cluster_of,
    hire_for_cycles,
    places_of,
    usable_modules,
    workers_of,
)
from sempre.api.program import Program
from sempre.api.relation_frames import RelationFrames
from sempre.api.views import contains
from sempre.backends.local import LocalBackend
from sempre.diagnostics import BackendError, DataError, StateError
from sempre.engine import Engine, EpochResult, Overtaken, Snapshot
from sempre.ingest import encode_rows, encode_value
from sempre.kernel.values import Values
from sempre.modules.find import modularize
from sempre.plan.backend import sealed, sealed_for_cycles
from sempre.plan.meter import Meter
from sempre.results import Decoder
from sempre.sizes import parse_size

if TYPE_CHECKING:
    import pyarrow as pa

    from sempre.active.active_engine import ActiveEngine
    from sempre.active.background import Session
    from sempre.spark.border import Border
    from sempre.spark.cluster.spark_backend import SparkBackend
    from sempre.spark.residency import Residency
    from sempre.storage.keeper import Keeper
    from sempre.workers.workers_backend import WorkersBackend

T = TypeVar("T")


class Epochs:
    """The parts of a database, and one epoch of them; `Database` is its public face.

    Epochs come one after the other, also from streams: who changes the database takes `_turn`. Readers never wait: a
    snapshot does not change.
    """

    def __init__(self, program: Program, spark: Any, options: Options) -> None:
        self.program = program
        self._spark = spark
        self._options = options
        is_active = program.checked.semantics == "active"
        parts = modularize(program.evaluated, usable_modules(options, is_active))
        check_guards(parts.program, options.place)
        check_functions(parts.program, options.place)
        checked = parts.program
        self._backend = LocalBackend(checked, options.threads, options.limits)
        self._decoder = Decoder(self._backend.values, checked.types)
        self._engine: Engine | ActiveEngine
        self._session: Session | None = None
        self._cluster: SparkBackend | None = None
        self._workers: WorkersBackend | None = None
        if is_active:
            from sempre.active.active_engine import CYCLE_LIMIT, ActiveEngine
            from sempre.active.background import Session

            check_active(options, spark)
            limit = CYCLE_LIMIT if options.cycles is None else options.cycles
            self._engine = ActiveEngine(
                checked, sealed_for_cycles(self._backend), self._decoder, limit, options.progress
            )
            self._engine.memory = parse_size(options.memory) or self._engine.memory
            if options.place == "workers":
                self._engine.hire = lambda: hire_for_cycles(spark, checked, options.workers, self._backend)
            self._session = Session(self._engine)
        else:
            check_stratified(options.cycles, options.memory, spark)
            self._cluster = cluster_of(checked, spark, options.place, self._backend)
            hiring = workers_of(checked, spark, options.place, options.workers, self._backend)
            self._workers = hiring.backend
            places = places_of(parts, self._backend, self._cluster, hiring, options.place, options.memory)
            main = sealed(self._backend) if places is None else places.backends[places.main]
            is_alone = places is None
            self._engine = Engine(
                checked,
                main,
                options.strategy,
                options.progress,
                parts.modules,
                debug=options.check_modules,
                deferred=parts.deferred,
                given_places=places,
                branch=(lambda: sealed(self._backend.branch())) if is_alone else None,
                switch=check_switch(options.strategy, options.switch),
            )
            if self._cluster is not None:
                self._engine.announce = self._cluster.announce
            if options.profile:
                self._engine.meter = self._backend.meter = Meter()
        self._frames = RelationFrames(program.checked, spark, self._decoder)
        engine = self._engine if isinstance(self._engine, Engine) else None
        self._intake = Intake(program, self._backend, self._frames.border, self._cluster, engine)
        self._changes = ChangeSets(program, self._engine, self._decoder, self._frames, self._workers)
        self._writing = threading.RLock()
        self._process = os.getpid()
        # How many hold numbers of values that no epoch has kept yet.
        self._numbering = 0
        self._counting = threading.Lock()
        self._publishing = False
        self._evaluating = False
        self._closed = False
        self._absorbed: set[str] = set()  # relations that inference in the background took by position
        self._keeper: Keeper | None = None

    # ---------------------------------------------------------------------------------------------- one epoch

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Who changes the database comes here first, and waits for whoever does so already.

        `progress` may change the database: its epoch comes first, and the one under way is evaluated again.
        """
        if os.getpid() != self._process:
            raise StateError(
                f"the database belongs to process {self._process}, of which this one is a copy",
                hint="Make a database in this process: `Database(...)` or `Database.open(store)`.",
            )
        try:
            with self._writing:
                self._open()
                if self._publishing:
                    raise StateError(
                        "an epoch is being published, and nothing can be changed before it is committed",
                        hint="Apply further changes when `apply()` has returned, or in another thread.",
                    )
                yield
        finally:
            if self._closed:  # by another thread, meanwhile
                self._release()

    def _release(self) -> None:
        """Give back what a closed database holds, unless somebody is at work: then that one does so at its end."""
        if not self._writing.acquire(blocking=False):
            return
        try:
            if self._session is not None:
                self._session.cancel()
            self._backend.close()
            if self._keeper is not None:
                self._keeper.close()
            if self._cluster is not None:
                self._cluster.close()
            if self._workers is not None:
                self._workers.close()
        finally:
            self._writing.release()

    @contextmanager
    def _numbered(self) -> Iterator[None]:
        """Values may be numbered in here; those of an epoch that fails are taken back, if nobody else is at it."""
        with self._counting:
            self._numbering += 1
        failed = True
        try:
            yield
            failed = False
        finally:
            with self._counting:
                self._numbering -= 1
                alone = not self._numbering and isinstance(self._engine, Engine)
                if failed and alone and not self._backend.values.is_kept:
                    self._stratified("an epoch").places.forget()

    def _materialise(
        self,
        tables: Mapping[str, Any],
        asked: Mapping[str, Any] | None = None,
        around: Callable[[Mapping[str, Encoded]], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> ChangeSet:
        """Epoch 0 of the program's facts, of tables, and of rows of relations of demand.

        It is evaluated within what `around` makes of the tables' codes.
        """
        with self._turn(), self._numbered():
            if self._engine.snapshot.epoch >= 0:
                raise StateError("the database is materialized already", hint="Use apply() for further facts.")
            if self._evaluating:
                raise StateError("the first epoch is being evaluated", hint="Ask for relations when it is there.")
            given = self._intake.take(tables)
            insert = self._intake.with_program_facts(given)
            insert.codes.update(self._demand_codes(asked or {}))
            with around(given.codes):
                return self._epoch(lambda: self._rows(insert, IncomingRows()), by_position=insert.by_position)

    def _demand_codes(self, asked: Mapping[str, Any]) -> dict[str, Encoded]:
        """Rows of relations of demand, which no program declares, as codes."""
        declared, types = self._engine.program.relations, self.program.checked.types
        return {name: encode_rows(declared[name], rows, self._backend.values, types) for name, rows in asked.items()}

    def _apply(self, insert: Mapping[str, Any], delete: Mapping[str, Any], cycle: int = 0) -> ChangeSet:
        """One epoch of rows of any kind; `cycle` is that of active rules in which they come and go."""
        with self._turn(), self._numbered():
            coming, going = self._intake.take(insert), self._intake.take(delete, known=self._is_local)
            by_position = coming.by_position | going.by_position
            return self._epoch(lambda: self._rows(coming, going), by_position=by_position, cycle=cycle)

    def _rows(self, insert: IncomingRows, delete: IncomingRows) -> tuple[dict[str, Any], dict[str, Any]]:
        self._intake.fit(insert)
        if not isinstance(self._engine, Engine) and not self._is_running and self._engine.is_empty:
            self._engine.reset()
        return self._intake.rows(insert), self._intake.rows(delete)

    def _epoch(
        self,
        rows: Callable[[], tuple[Mapping[str, Any], Mapping[str, Any]]],
        batch: tuple[str, int] | None = None,
        publish: Callable[[int, ChangeSet], None] | None = None,
        by_position: Collection[str] = (),
        cycle: int = 0,
    ) -> ChangeSet:
        """One epoch of the rows to insert and those to delete, which are laid out anew whenever the state changed.

        `publish` sees what it changes before anybody else, and if it raises, there is no epoch.
        """
        self._idle()
        self._revive_lost()
        has_revived = False
        was_evaluating, self._evaluating = self._evaluating, True
        try:
            while True:
                try:
                    return self._attempt(*rows(), batch, publish, by_position, cycle)
                except Overtaken:
                    continue
                except BackendError:
                    if has_revived or not self._has_lost_workers():
                        raise
                    has_revived = True
                    self._revive()
        finally:
            self._evaluating = was_evaluating
            if (clear := getattr(self._options.progress, "clear", None)) is not None:  # whoever shows something
                clear()

    def _attempt(
        self,
        plus: Mapping[str, Any],
        minus: Mapping[str, Any],
        batch: tuple[str, int] | None,
        publish: Callable[[int, ChangeSet], None] | None,
        by_position: Collection[str],
        cycle: int,
    ) -> ChangeSet:
        engine, before = self._engine, self._engine.snapshot
        jobs = self._jobs()
        made: list[ChangeSet] = []

        def before_commit(after: Snapshot, result: EpochResult) -> None:
            made.append(self._changes.of_epoch(result, before, after, self._jobs() - jobs, by_position))
            made[0]._causes = partial(self._caused, made[0], result, after.epoch)
            made[0]._caused_by = result
            if publish is not None:
                self._publishing = True
                publish(after.epoch, made[0])

        try:
            if isinstance(engine, Engine):
                engine.apply(plus, minus, batch, before_commit)
            else:
                engine.apply(plus, minus, batch, before_commit, cycle)
        except BaseException:
            if made and engine.snapshot is before:
                made[0].withdraw()
            raise
        finally:
            self._publishing = False
        made[0].report.log(engine.snapshot.epoch)
        return made[0]

    def _has_lost_workers(self) -> bool:
        return self._workers is not None and self._workers.is_lost

    def _revive_lost(self) -> None:
        """Whoever is to read or to change the state finds workers that have it."""
        if self._has_lost_workers() and not self._evaluating:
            with self._turn():
                if self._has_lost_workers():  # another thread may have been quicker
                    self._revive()

    def _retried(self, read: Callable[[], T]) -> T:
        """What is read of the state; once more if workers were lost in the middle of it."""
        try:
            return read()
        except BackendError:
            if self._evaluating or not self._has_lost_workers():
                raise
        return read()

    def _revive(self) -> None:
        from sempre.api.revival import revive

        assert self._workers is not None
        revive(self._stratified("workers"), self._workers)

    def __reduce__(self) -> tuple[Any, ...]:
        hint = "Send tables (`to_arrow`), or open its store where it is wanted."
        raise StateError("a database cannot be copied, nor sent to another process", hint=hint)

    def _explained(self, relation: Relation, row: Any, **options: Any) -> Any:
        """Why a row of a relation holds, or does not."""
        raise NotImplementedError

    def _caused(self, changes: ChangeSet, result: EpochResult, epoch: int, relation: str) -> pa.Table:
        """Which input changes of an epoch caused the changes of a relation."""
        raise NotImplementedError

    def plans(self) -> str:
        """The plans that rules have been evaluated by so far, as text."""
        from sempre.explain.plan_text import used_plans

        with self._turn():
            engine = self._engine
            ready = engine.places.plans.values() if isinstance(engine, Engine) else [engine.plans]
            return used_plans(engine.program, (plan for each in ready for plan in each.used()))

    @property
    def _is_local(self) -> bool:
        """Whether all rows are in the driver, and numbered: then a question can have values of its own."""
        engine = self._engine
        return self._cluster is None and (not isinstance(engine, Engine) or engine.branch is not None)

    def _jobs(self) -> int:
        """How many Spark jobs there have been."""
        return 0 if self._cluster is None else self._cluster.jobs

    # ------------------------------------------------------------------------------------- what can be done now

    def _open(self) -> None:
        if self._closed:
            raise StateError("the database is closed")

    def _materialized(self) -> None:
        """Make sure that epoch 0 has happened."""
        self._open()
        if self._engine.snapshot.epoch < 0 and not self._is_running:
            with self._turn():  # another thread may have been quicker
                if self._engine.snapshot.epoch < 0:
                    self._materialise({})

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

    # ------------------------------------------------------------------------------------------ rows in and out

    def _unknown(self, name: str) -> DataError:
        return unknown(self.program, name)

    def _encode(self, name: str, rows: Any, by_position: set[str] | None = None) -> Encoded:
        return self._intake.encode(name, rows, set() if by_position is None else by_position)

    def _encode_constants(self, relation: Relation, column: int, value: Any) -> int:
        """The code of a value that is asked for; one that no fact has gets none for good."""
        values = self._values_to_ask()
        return encode_value(relation, column, value, values, self.program.checked.types)

    def _values_to_ask(self) -> Values:
        """Where values of a question are numbered. The cluster looks for values, and finds them by the codes here."""
        return self._backend.values.branch() if self._is_local else self._backend.values

    def _staying(self) -> Residency | None:
        """Who decides what of an input stays on the cluster, if anything can."""
        return self._intake.staying()

    def _version(self, name: str, snapshot: Snapshot | None = None) -> Any:
        self._open()
        self._revive_lost()
        engine = self._engine
        snapshot = snapshot or engine.snapshot
        return engine.version(name, snapshot) if isinstance(engine, Engine) else snapshot.versions[name]

    def _contains(self, relation: Relation, row: object) -> bool:
        return self._retried(lambda: contains(self, self._version, relation, row))

    def _border(self) -> Border:
        return self._frames.border()
