"""What an epoch changed, and how it went."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from sempre.api.intake import unknown
from sempre.api.options import peak_rss
from sempre.api.program import Program
from sempre.api.relation_frames import RelationFrames
from sempre.data import dataclass
from sempre.diagnostics import StateError
from sempre.engine import Engine, EpochResult, Snapshot, StratumReport
from sempre.maintain.strategy import Change, difference
from sempre.plan.backend import CLUSTER, WORKERS, Rows
from sempre.results import Decoder, RelationShape
from sempre.storage.ondemand import OnDemand

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sempre.active.active_engine import ActiveEngine
    from sempre.active.inference import Cycle
    from sempre.workers.workers_backend import WorkersBackend

logger = logging.getLogger("sempre.epochs")
LOGGED = ("seconds", "strategy", "placement", "rounds", "instances", "jobs", "peak_rss", "why")
SIDES = ("plus", "minus")
FindChange = Callable[[str], Change | None]


@dataclass(frozen=True, slots=True)
class Report:
    """How an epoch went; `to_json` has the keys of the command line's `--report`."""

    seconds: float
    strategy: str
    placement: str
    rounds: int
    instances: int
    added: dict[str, int]
    removed: dict[str, int]
    peak_rss: int
    why: str
    strata: tuple[dict[str, Any], ...]
    ignored_insertions: int
    ignored_deletions: int
    by_position: tuple[str, ...] = ()  # relations whose rows had columns with names, which were not gone by
    jobs: int = 0  # Spark jobs that rounds on the cluster took
    # For each worker, if some stratum of the epoch ran there: `rows` and `bytes` that it holds, and what it did in the
    # epoch: `instances`, `rows_sent` and `bytes_sent` to other workers, seconds `waited` for them.
    workers: tuple[dict[str, Any], ...] = ()
    skew: float = 0.0  # how many times its even share the worker with the most rows holds; 0 without workers

    def to_json(self) -> dict[str, Any]:
        lists = {name: list(getattr(self, name)) for name in ("strata", "by_position", "workers")}
        return {**asdict(self), **lists}

    def log(self, epoch: int) -> None:
        """A line of the logger `sempre.epochs`, whose record has the figures as fields."""
        if not logger.isEnabledFor(logging.INFO):
            return
        added, removed = sum(self.added.values()), sum(self.removed.values())
        fields = {name: getattr(self, name) for name in LOGGED} | {"epoch": epoch, "added": added, "removed": removed}
        facts = f"+{added:,} -{removed:,} facts in {self.seconds:.3f} s"
        logger.info("epoch %d: %s on %s (%s)", epoch, facts, self.placement, self.why, extra=fields)

    def to_html(self, title: str = "epoch") -> str:
        """A page of how the epoch went; with rules and rounds if the database was made with `profile=True`."""
        from sempre.explain.profile_page import profile_page

        return profile_page(title, [self.to_json()])

    def _repr_html_(self) -> str:
        from sempre.api.notebooks import page_html

        return page_html(self.to_html(), 3 * len(self.strata))


def _stratum(report: StratumReport) -> dict[str, Any]:
    """How a stratum was brought up to date; what was not measured is left out."""
    told = asdict(report) | {"expected": [asdict(each) for each in report.expected]}
    missing = {"profile"} if report.profile is None else set()
    missing |= set() if report.expected else {"expected"}
    return {name: value for name, value in told.items() if name not in missing}


def skew_of(rows: Sequence[int]) -> float:
    """How many times the even share the most is; 1 if all have the same, 0 for nobody."""
    return round(max(rows) * len(rows) / max(sum(rows), 1), 3) if rows else 0.0


@dataclass(frozen=True, slots=True)
class Streams:
    """What one epoch changed, to be read once: Arrow tables or readers of batches."""

    added: Mapping[str, Any]
    removed: Mapping[str, Any]


class ChangeSet:
    """What one epoch changed.

    `added` and `removed` map every relation to an Arrow table, empty where nothing changed; tables are made when they
    are asked for. `report` says how the epoch went.
    """

    def __init__(
        self,
        added: Mapping[str, pa.Table],
        removed: Mapping[str, pa.Table],
        report: Report,
        frame: Callable[[ChangeSet, str, bool], DataFrame] | None = None,
        streams: Streams | None = None,
    ) -> None:
        self.added = added
        self.removed = removed
        self.report = report
        self._frame = frame
        self._streams = streams
        self._causes: Callable[[str], pa.Table] | None = None
        self._caused_by: EpochResult | None = None

    def causes(self, relation: str) -> pa.Table:
        """Which input changes caused which changes of a relation, as long as the epoch is the last one.

        A row for every changed row and every input change in its cause: the columns of the relation, `_change` (`added`
        or `removed`), `_cause` and `_cause_change` (`inserted` or `deleted`), and `_together`: the cause is all the
        rows of one number, and undoing it undoes the change. A row that has several causes has several numbers.
        """
        if self._causes is None:
            raise StateError("these changes belong to no database")
        return self._causes(relation)

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process changes are their tables and the report."""
        return ChangeSet, (dict(self.added), dict(self.removed), self.report)

    def withdraw(self) -> None:
        """The epoch did not happen after all: what it would have changed can be read no more."""

        def refuse(name: str) -> Any:
            raise StateError("these changes were not committed", hint="Apply them again.")

        self.added = self.removed = OnDemand(self.added, refuse)
        self._frame = self._streams = None

    def streamed(self) -> Streams | ChangeSet:
        """What changed, for one reading: `added` and `removed` are not all in memory at once where they need not be."""
        return self._streams or self

    def to_spark(self, relation: str, *, hold: bool = True) -> DataFrame:
        """A Spark DataFrame of the rows added to and removed from a relation.

        Its own columns come first, then `_epoch` and `_change`, which is `added` or `removed`. It can be read until the
        database is closed; without `hold`, as long as this set of changes is there.
        """
        if self._frame is None:
            raise StateError("these changes belong to no database")
        return self._frame(self, relation, hold)

    def merge_into(self, table: Any, relation: str, *, keys: Sequence[str] | None = None) -> None:
        """Merge the changes of a relation into a table of Delta Lake or Iceberg, in one commit.

        Parameters
        ----------
        table
            The path or URL of a table of Delta Lake, or an open table of `deltalake` or of `pyiceberg`.
        relation
            Whose changes; the columns of the table that have the names of its columns are written.
        keys
            Columns that name a row of the table. A row that was added replaces the row with the same key. By default
            all columns: rows are added and removed.

        Merging the same changes again changes nothing.
        """
        from sempre.files.targets.delta_target import merge_keyed

        if relation not in self.added:
            raise StateError(f"no relation is called `{relation}`", hint=f"There are {', '.join(self.added)}.")
        merge_keyed(table, self.added[relation], self.removed[relation], keys)

    def size(self, relation: str) -> int:
        """How many rows of a relation were added or removed."""
        return self.report.added.get(relation, 0) + self.report.removed.get(relation, 0)

    def __bool__(self) -> bool:
        return any(self.report.added.values()) or any(self.report.removed.values())

    def _repr_html_(self) -> str:
        from sempre.api.notebooks import changes_html

        report = self.report
        return changes_html(report.added, report.removed, report.seconds, report.why)

    def __repr__(self) -> str:
        parts = []
        for name in self.added:
            plus, minus = self.report.added.get(name, 0), self.report.removed.get(name, 0)
            if plus or minus:
                parts.append(f"{name} +{plus} -{minus}")
        return f"<ChangeSet: {', '.join(parts) or 'nothing changed'}>"


@dataclass(frozen=True, slots=True)
class CycleChanges:
    """What one cycle of active rules changed, or, with `absorbed`, what so many changed input facts did to the present.

    `added` and `removed` map every relation to an Arrow table, `plus` and `minus` those that changed to numbers.
    """

    number: int
    absorbed: int
    added: Mapping[str, pa.Table]
    removed: Mapping[str, pa.Table]
    plus: Mapping[str, int]
    minus: Mapping[str, int]


def _shown(rows: Rows, shape: RelationShape) -> pa.Table:
    return rows.to_arrow(shape)


def _streamed(rows: Rows, shape: RelationShape) -> pa.Table | pa.RecordBatchReader:
    return rows.to_stream(shape)


@dataclass(frozen=True, slots=True)
class ChangeSets:
    """Makes the change sets of one database from what its engine found."""

    program: Program
    engine: Engine | ActiveEngine
    decoder: Decoder
    frames: RelationFrames
    workers: WorkersBackend | None = None

    def of_epoch(
        self, result: EpochResult, before: Snapshot, after: Snapshot, jobs: int = 0, by_position: Iterable[str] = ()
    ) -> ChangeSet:
        """What an epoch changed between two states, and how it went; `jobs` are those of Spark that it took."""
        relations = self.program.relations
        changed = {name: change for name, change in result.changes.items() if name in relations}
        change_of = self._change_of(changed, before, after)
        for rows in (rows for change in changed.values() for rows in (change.plus, change.minus)):
            if rows.place == WORKERS:  # few rows are brought here: then it does not matter what becomes of the workers
                assert self.workers is not None
                self.workers.hold(rows)

        def frame(changes: ChangeSet, name: str, hold: bool) -> DataFrame:
            if name not in relations:
                raise unknown(self.program, name)
            return self.frames.of_change(relations[name], change_of(name), after.epoch, changes, hold)

        added, removed = (self._tables(change_of, side) for side in SIDES)
        streams = None
        if any(change.plus.place == CLUSTER for change in changed.values()):
            streams = Streams(*(self._tables(change_of, side, _streamed) for side in SIDES))
        report = self._report(result, changed, jobs, tuple(sorted(by_position)))
        return ChangeSet(added, removed, report, frame, streams)

    def of_cycle(self, cycle: Cycle) -> CycleChanges:
        """What a cycle of active rules changed."""
        added, removed = (self._tables(cycle.changes.get, side) for side in SIDES)
        sizes = [{name: len(getattr(c, side)) for name, c in cycle.changes.items()} for side in SIDES]
        return CycleChanges(cycle.number, cycle.absorbed, added, removed, *sizes)

    def _report(
        self, result: EpochResult, changed: Mapping[str, Change], jobs: int, by_position: tuple[str, ...]
    ) -> Report:
        at_work = self.workers is not None and any(stratum.placement == WORKERS for stratum in result.strata)
        workers = self.workers.last_epoch() if self.workers is not None and at_work else ()
        return Report(
            result.seconds,
            result.strategy,
            result.placement,
            sum(stratum.rounds for stratum in result.strata),
            result.instances,
            {name: len(change.plus) for name, change in changed.items()},
            {name: len(change.minus) for name, change in changed.items()},
            peak_rss(),
            result.why,
            tuple(_stratum(stratum) for stratum in result.strata),
            result.ignored_insertions,
            result.ignored_deletions,
            by_position,
            jobs,
            workers,
            skew_of([int(worker["rows"]) for worker in workers]),
        )

    def _change_of(self, changed: Mapping[str, Change], before: Snapshot, after: Snapshot) -> FindChange:
        """How to find the change of a relation.

        Changes of relations that are evaluated on demand take both states to find: only then are they held on to.
        """
        engine = self.engine
        if not isinstance(engine, Engine) or not engine.deferred:
            return changed.get
        states = (before, after)

        def change_of(name: str) -> Change | None:
            if name not in engine.deferred:
                return changed.get(name)
            return difference(engine.backend, *(engine.version(name, state) for state in states))

        return change_of

    def _tables(
        self,
        change_of: FindChange,
        side: str,
        show: Callable[[Rows, RelationShape], Any] = _shown,
    ) -> Mapping[str, Any]:
        """Arrow tables, or what `show` makes, of the rows that came (`plus`) or went (`minus`), for all relations."""
        relations = self.program.relations

        def table(name: str) -> Any:
            change = change_of(name)
            if change is None:
                return self.decoder.table(relations[name], [np.empty(0, np.int64)] * relations[name].arity, 0)
            return show(getattr(change, side), RelationShape(relations[name], self.decoder))

        return OnDemand(relations, table)
