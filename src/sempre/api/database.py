"""The relations of a program, kept up to date."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import Relation
from sempre.api.branches import Whatif, branch_off
from sempre.api.changes import ChangeSet, CycleChanges
from sempre.api.epochs import Epochs
from sempre.api.notebooks import notebook_progress
from sempre.api.options import Options, check_amounts, check_options, check_store, check_switch
from sempre.api.program import Program
from sempre.api.questions import ask, question, release, standing_questions
from sempre.api.refusals import (
    check_atom,
    check_count,
    check_knobs,
    check_names,
    check_place,
    check_session,
    check_stream,
)
from sempre.api.transaction import Transaction
from sempre.api.views import Past, View, find
from sempre.diagnostics import StateError
from sempre.engine import Engine, EpochResult, Progress
from sempre.explain.wording import fact_text
from sempre.lang.parser import fact_atom, parse_atom
from sempre.limits import DEFAULTS, Limits
from sempre.modules.choice import Wanted
from sempre.plan.backend import DRIVER

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sempre.active.history import FactHistory
    from sempre.api.explanations import Asked, Proof, WhyNot
    from sempre.api.intake import Encoded
    from sempre.api.keyed import KeyedRows
    from sempre.spark.batches import Batch
    from sempre.spark.streams import BatchReport, Maintenance
    from sempre.verify import Verification


class Database(Epochs):
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
        Expert knobs; the defaults choose by themselves. `modules` may have a `RuleModule` of your own. `workers` is how
        many processes place `workers` has.
    switch
        For strategy `elastic`: the share of a run from scratch after which an update is given up for one, or `never`.
    progress
        Called during long epochs with an object that has `stratum`, `strata`, `round`, `facts` and `seconds`. In
        notebooks that is shown below the cell, unless something else is given.
    store
        A directory in which every epoch is kept; made when it is not there. The database goes on where the store is.
    epoch
        Open an earlier epoch of the store, to be read only.
    migrate
        Bring a store that was written with another program over to this one, as a new epoch.
    demand
        Relations to treat as if they were declared `demand`: only what questions ask for is derived.
    limits
        Thresholds that decide how work is done, never what comes out, for tests: see `sempre.limits`.
    check_modules
        Hold every answer of a module against what it must be. It costs a run from scratch per epoch: for tests.
    profile
        Measure rules and rounds as well, for `changes.report.to_html()`.
    """

    def __init__(
        self,
        program: Program | str,
        *,
        spark: Any = None,
        store: Any = None,
        strategy: str = "auto",
        modules: Wanted = "auto",
        place: str = "auto",
        semantics: str | None = None,
        threads: int | None = None,
        workers: int | None = None,
        memory: str | int | None = None,
        switch: float | str | None = None,
        cycles: int | None = None,
        progress: Callable[[Progress], None] | None = None,
        epoch: int | None = None,
        migrate: bool = False,
        demand: Iterable[str] = (),
        limits: Limits = DEFAULTS,
        check_modules: bool = False,
        profile: bool = False,
    ) -> None:
        check_options(strategy, place, semantics)
        check_amounts(threads, workers, memory, place)
        check_switch(strategy, switch)
        check_store(store, epoch, migrate)
        check_session(spark)
        check_knobs(progress, limits)
        check_names(demand, "demand")
        program = program if isinstance(program, Program) else Program(program, semantics=semantics)
        options = Options(
            strategy, modules, place, threads, memory, cycles, progress, limits, switch, check_modules, workers, profile
        )
        program = program.under(semantics)
        options = options if progress is not None else replace(options, progress=notebook_progress())
        super().__init__(program.on_demand(demand) if demand else program, spark, options)
        self._streams: list[Maintenance] = []
        if store is not None:
            from sempre.api.stores import attach

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
        tables = self._inputs(directory)
        return self.materialise(tables) if self._engine.snapshot.epoch < 0 else self.apply(insert=tables)

    def _inputs(self, directory: str | Path) -> Mapping[str, Any]:
        """What `.input` names in a directory."""
        check_place(directory, "a folder of facts")
        if self._spark is not None:
            return self._border().read_inputs(str(directory), self._staying()).tables
        from sempre.files import read_inputs

        return read_inputs(self.program.checked, Path(directory))

    def materialise(self, tables: Mapping[str, Any] | None = None) -> ChangeSet:
        """Epoch 0: the program's own facts, and these tables. Can only be the first thing that happens."""
        return self._materialise(tables or {})

    def apply(
        self,
        insert: Mapping[str, Any] | None = None,
        delete: Mapping[str, Any] | None = None,
        *,
        cycle: Any = None,
    ) -> ChangeSet:
        """One epoch: delete, then insert; all of it or, if anything fails, nothing.

        Parameters
        ----------
        insert, delete
            Rows by relation: tuples, dicts, Arrow, pandas, polars or Spark DataFrames. Columns with names are found
            by these; `sempre.by_name` and `sempre.by_position` say otherwise.
        cycle
            For active rules: the cycle in which this happens, as if a rule had done it there. By default, and with 0,
            it is the input that changes.
        """
        self._check_cycle(cycle)
        self._materialized()
        return self._apply(insert or {}, delete or {}, cycle or 0)

    def _check_cycle(self, cycle: Any) -> None:
        if cycle is None:
            return
        self._active()
        assert not isinstance(self._engine, Engine)
        most = self._engine.limit
        if isinstance(cycle, bool) or not isinstance(cycle, int) or not 0 <= cycle <= most:
            hint = f"Use a whole number from 0, the input, to {most:,}, the most that `cycles` allows."
            raise StateError(f"`cycle` is {cycle!r}", hint=hint)

    def whatif(self, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> Whatif:
        """What `apply` would change, and how it would go; nothing is kept, unless it is committed.

        It waits for nobody and keeps nobody waiting: the question is about the epoch that is current when it is asked.
        With a Spark session it takes turns with changes. As a context manager, `with db.whatif(...) as trial`, it can
        be committed: `trial.commit()`.
        """
        branch = branch_off(self, insert or {}, delete or {})
        made = replace(self._changes, engine=branch.engine, decoder=branch.decoder)
        changes = made.of_epoch(branch.result, branch.before, branch.after, by_position=branch.by_position)
        return Whatif(changes, self, insert or {}, delete or {}, branch.before.epoch)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Collect insertions and deletions, applied as one epoch at the end; an exception leaves nothing behind."""
        self._materialized()
        transaction = Transaction(self._encode)
        with self._numbered():
            try:
                yield transaction
            finally:
                transaction.ended = True
            with self._turn():
                transaction.changes = self._epoch(
                    lambda: self._intake.last_wins(transaction.operations), by_position=transaction.by_position
                )

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
        with self._turn():
            self._idle()
            first = self._engine.snapshot.epoch < 0
            coming = self._intake.take(insert or {})
            coming = self._intake.with_program_facts(coming) if first else coming
            going = self._intake.take(delete or {})
            self._absorbed = coming.by_position | going.by_position
            rows = self._rows(coming, going)
            session.start(*rows, None if watch is None else lambda cycle: watch(self._changes.of_cycle(cycle)))

    def interrupt(
        self,
        insert: Mapping[str, Any] | None = None,
        delete: Mapping[str, Any] | None = None,
        *,
        cycle: Any = None,
    ) -> None:
        """Change the input, or another `cycle`, while inference runs.

        It is absorbed at the next cycle boundary, as if it had always been so.
        """
        self._check_cycle(cycle)
        self._open()
        session = self._active()
        if not session.is_open:
            raise StateError("no inference is running", hint="Use start() to begin one, or apply().")
        coming, going = self._intake.take(insert or {}), self._intake.take(delete or {})
        session.interrupt(*self._rows(coming, going), cycle or 0)
        self._absorbed |= coming.by_position | going.by_position

    def wait(self) -> ChangeSet:
        """The changes of the epoch in the background, when it has come to its end.

        An error that ended it is raised here; then, and when waiting is interrupted, the last epoch stays.
        """
        self._open()
        before = self._engine.snapshot
        result = self._active().wait()
        return self._changes.of_epoch(result, before, self._engine.snapshot, by_position=self._absorbed)

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
        assert not isinstance(self._engine, Engine)
        timeline = self._engine.timeline
        if not 0 <= cycle <= timeline.cycles:
            raise StateError(f"there is no cycle {cycle}", hint=f"The run has the cycles 0 to {timeline.cycles}.")
        return Past(self, timeline.chains, cycle)

    def explain(
        self, fact: str, *, absent: bool = False, depth: int | None = None, further: int = 0
    ) -> Proof | WhyNot | FactHistory:
        """Why a fact such as `reach("a","c")` holds: a proof of least height; or why it does not.

        Parameters
        ----------
        fact
            The fact, as an atom.
        absent
            Why it does not hold: for each rule, the instance that comes nearest, and what it lacks.
        depth
            How many levels are told: of a proof all by default, of what an absent fact lacks one.
        further
            So many further ways to derive the fact.

        For active rules: which cycles added or deleted the fact, and by which rules.
        """
        check_atom(fact, "a fact", 'reach("a", "c")')
        if not isinstance(self._engine, Engine):
            return self._history(fact)
        return self._why(fact, absent=absent, depth=depth, further=further)

    def _why(self, asked: Asked, *, absent: bool = False, depth: int | None = None, further: int = 0) -> Proof | WhyNot:
        from sempre.api.explanations import why, why_not

        check_count(depth, "depth", 1)
        check_count(further, "further", 0)
        if absent:
            return why_not(self, asked, depth=depth or 1)
        return why(self, asked, depth=depth, further=further)

    def explanations(self, relation: str) -> pa.Table:
        """How each fact of a relation is derived: a row for every fact, by an instance of least height.

        The columns of the relation come first, then `_fact`, the fact as text, `_height`, `_rule` and `_place`, which
        are null for explicit facts, and `_premises`, the facts that it rests on as texts: as `_fact` has them, so that
        lineage is a join.
        """
        from sempre.api.explanations import explanations

        return explanations(self, relation)

    def _history(self, fact: str) -> FactHistory:
        """Which cycles added or deleted a fact, and by which rules."""
        from sempre.active.history import history
        from sempre.query import constant_row

        self._active()
        self._idle()
        atom = fact_atom(parse_atom(fact))
        if atom.relation not in self.program.relations:
            raise self._unknown(atom.relation)
        self._materialized()
        assert not isinstance(self._engine, Engine)
        relation = self.program.relations[atom.relation]
        columns = constant_row(atom, relation, self._encode_constants)
        return history(self._engine, relation.name, self._backend.rows(relation.name, columns, 1))

    def _explained(self, relation: Relation, row: Any, **options: Any) -> Any:
        """Why a row of a relation holds, or does not."""
        if not isinstance(self._engine, Engine):
            return self._history(fact_text(relation.name, row))
        return self._why((relation, row), **options)

    def _caused(self, changes: ChangeSet, result: EpochResult, epoch: int, relation: str) -> pa.Table:
        """Which input changes of an epoch caused the changes of a relation."""
        from sempre.api.caused_table import caused_table

        return caused_table(self, changes, result, epoch, relation)

    # -------------------------------------------------------------------------------------------------- store

    @staticmethod
    def open(store: Any, *, epoch: int | None = None, **options: Any) -> Database:
        """The database in a store, with the program that is in it; at an earlier epoch, it is only read."""
        from sempre.api.stores import stored_text

        text = stored_text(store, epoch, options.get("spark"))
        return Database(Program(*text), store=store, epoch=epoch, **options)

    def refresh(
        self, folder: str | Path | None = None, *, overwrite: bool = False, fail_on_recompute: bool = False
    ) -> ChangeSet | None:
        """Bring a database in a store to what its `.input`s have now, as one epoch; None if nothing is new.

        Parameters
        ----------
        folder
            Where names of files begin; by default as the last time.
        overwrite
            Make relations what their sources say, also those that were changed by `apply` since.
        fail_on_recompute
            Raise rather than evaluate a stratum anew; then nothing is applied.

        Tables of Delta Lake and Iceberg are read from the version after the last; of files those that changed. Which
        versions were read is committed with the epoch.
        """
        from sempre.api.refresh import refresh

        self._materialized()
        if folder is not None:
            check_place(folder, "a folder of facts")
        given = None if folder is None else str(folder)
        return refresh(self, given, overwrite=overwrite, maintain_only=fail_on_recompute).changes

    def publish(self, folder: str | Path | None = None) -> None:
        """Write what `.output` asks for, of the present epoch; publishing again does nothing that was done.

        Parameters
        ----------
        folder
            Where names of files begin; by default the folder that `sempre init -D` or the last `refresh -D` named.
        """
        from sempre.api.publish import publish_from_store

        self._materialized()
        if folder is not None:
            check_place(folder, "a folder of outputs")
        publish_from_store(self, None if folder is None else str(folder))

    def metrics(self) -> str:
        """Figures of the last epoch of a store, as OpenMetrics text."""
        from sempre.storage.metrics import openmetrics

        self._materialized()
        if self._keeper is None or self._keeper.manifest is None:
            raise StateError("only a database with a store has metrics", hint="Use `Database(program, store=...)`.")
        return openmetrics(self._keeper.store, self._keeper.manifest)

    def at_epoch(self, epoch: int) -> Database:
        """The database as it was after an earlier epoch, to be read only. Close it when it is no longer needed."""
        self._open()
        if self._keeper is None:
            raise StateError("only a database with a store has past epochs", hint="Use `Database(program, store=...)`.")
        return Database.open(self._keeper.store.again(), epoch=epoch, spark=self._spark, **self._options.to_open())

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
        """The bindings of the variables of an atom such as `reach("a", X)`, one column each, distinct rows.

        A body does as well: `reach("a", X), !banned(X)`, or `n = count : { reach("a", _) }, n > 3`.

        A question to a relation that is declared `demand` stays: its answers are derived, in an epoch of their own, and
        kept up to date until `release` is called with the same question.
        """
        from sempre.api.conjunctions import answer_conjunction, is_conjunction
        from sempre.query import answer

        check_atom(text)
        if is_conjunction(text):
            return answer_conjunction(self, text)
        atom, relation = question(self.program, text)
        self._materialized()
        ask(self, atom, relation)
        # One state for all of it: a constant that is unknown now must not be found among values that come meanwhile.
        rows_of = partial(find, self, self._engine.snapshot, relation.name)
        return answer(atom, relation, rows_of, self._encode_constants, self._decoder)

    def demands(self) -> list[str]:
        """The questions to `demand` relations whose answers are kept up to date, as atoms."""
        self._materialized()
        return standing_questions(self)

    def release(self, text: str) -> ChangeSet:
        """Keep the answers to a question no longer; those that nothing else asks for are gone."""
        check_atom(text)
        atom, relation = question(self.program, text)
        self._materialized()
        return release(self, atom, relation)

    def verify(self) -> Verification:
        """Compare facts and counters with a run from scratch; `.ok`, or `.differences` with what is wrong."""
        from sempre.verify import verify

        self._idle()
        self._materialized()
        with self._turn():
            return verify(self._engine, self._decoder)

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
        keys: Mapping[str, Sequence[str]] | None = None,
        nulls: str | float | Mapping[str, Any] | None = None,
        decimals: str | Mapping[str, Any] | None = None,
        rejects: str | Path | None = None,
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
        keys
            For a relation, the columns that tell its facts apart: a row takes the place of the facts with its key, and
            a deletion needs no more than the key. Operations may be `u`, `update` and `upsert`, too.
        nulls, decimals
            As in `.input`: `"drop"`, a value, or values by column; scales by column, or `"float"`.
        rejects
            A folder for rows that cannot be taken, with the reason; without it, such a row ends the stream.
        """
        from sempre.spark.streams import Columns, Maintenance, StreamOptions, Target

        check_stream(stream)
        self._materialized()
        if relation is not None and relation not in self.program.relations:
            raise self._unknown(relation)
        columns = Columns(relation, relation_column, operation, order)
        folder = None if checkpoint is None else str(checkpoint)
        options = StreamOptions(
            columns, folder, name, trigger, keep_batches, trust_checkpoint, feed, on_changes,
            rejects, keys, nulls, decimals,
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

        started = time.perf_counter()
        with self._turn(), self._numbered():
            insert, delete, keyed = self._intake.batch(rows)

            def coming() -> tuple[dict[str, Any], dict[str, Any]]:
                self._intake.fit(insert)
                for name, each in keyed.items():  # what they replace is known when nothing else can change it
                    delete.codes[name] = self._replaced(name, each)
                return self._rows(insert, delete)

            report = self._epoch(coming, batch, publish).report
            epoch = self._engine.snapshot.epoch
        seconds, rejected = time.perf_counter() - started, 0 if rows.rejected is None else rows.rejected.num_rows
        return BatchReport(batch[1], epoch, rows.rows, seconds, report.added, report.removed, rejected)

    def _replaced(self, name: str, rows: KeyedRows) -> Encoded:
        """The facts whose place rows with keys take."""
        from sempre.api.keyed import facts_that_go

        engine = self._stratified("maintain()")
        there = engine.snapshot.explicit[name].rows()
        if there.place != DRIVER:
            there = engine.places.bring_rows(name, there, DRIVER)
        return facts_that_go(self._backend, name, there.columns(), rows)

    # --------------------------------------------------------------------------------------------------- end

    def close(self) -> None:
        """Stop streams, give back threads and memory; the database cannot be used afterwards.

        An epoch that another thread is evaluating is not committed any more: `apply` raises there. One that is being
        committed is waited for.
        """
        while self._streams:
            self._streams.pop().stop()
        if os.getpid() != self._process:  # a copy: threads, lock and scratch are the other's
            self._closed = True
            return
        if self._writing.acquire(blocking=False):
            try:
                if self._evaluating:
                    raise StateError("an epoch is under way", hint="Close the database when `apply()` has returned.")
                self._closed = True
            finally:
                self._writing.release()
        self._closed = True
        if self._keeper is not None:
            self._keeper.let_go()
        self._release()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
