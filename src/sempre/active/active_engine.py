"""The engine of active rules: an epoch changes the input, and the run is made what it would have been.

It has the face of `sempre.engine.Engine`. An epoch builds a new timeline beside the old one; committing is replacing a
reference, so an error or an interrupt at any point leaves the last epoch as it was. An epoch can also be held open:
`begin` it, drive it cycle by cycle, let it `absorb` further changes in between, and commit it in the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from sempre.active.absorb import absorb
from sempre.active.budget import default_budget, resident
from sempre.active.endless_runs import report, too_large
from sempre.active.hired_run import LeftToDriver, on_workers
from sempre.active.inference import Cycle, Endless, Inference
from sempre.active.matcher import Matcher
from sempre.active.timeline import AllGiven, Given, Phases, Timeline, clock, one_phase
from sempre.analysis.model import CheckedProgram, NormalRule, Stratum
from sempre.backends.local import unsealed
from sempre.data import dataclass
from sempre.diagnostics import InternalError
from sempre.engine import EpochResult, Journal, Pending, Progress, Snapshot, StratumReport
from sempre.kernel.capacity import CapacityError
from sempre.kernel.functors import Fault
from sempre.maintain.planning import Plans
from sempre.maintain.strategy import Change, DeferredMemory
from sempre.modules.spec import Module
from sempre.places import Places
from sempre.plan.backend import DRIVER, WORKERS, CycleBackend, Rows, Version
from sempre.plan.faults import limit_errors
from sempre.results import Decoder
from sempre.workers.crew import Crew

# A run that needs more cycles than this is taken for one that never ends, unless the user says otherwise.
CYCLE_LIMIT = 10_000
TIMELINE = 0  # where the snapshot keeps it

Watch = Callable[[Cycle], None]
BeforeCommit = Callable[[Snapshot, EpochResult], None]


@dataclass(slots=True)
class ActiveEpoch:
    """An epoch under way. Whoever drives it calls `advance` and `absorb` in turns, never both at once."""

    engine: ActiveEngine
    before: Snapshot
    inference: Inference
    explicit: dict[str, Version]
    started: float
    instances: int
    ignored_insertions: int = 0
    ignored_deletions: int = 0
    placement: str = DRIVER

    def absorb(self, insert: Mapping[str, Rows], delete: Mapping[str, Rows], cycle: int = 0) -> None:
        """Change the input, or what is given in a later cycle: delete first, then insert."""
        if cycle:
            self._give(insert, delete, clock(0, cycle))
            return
        pending = Pending(dict(self.explicit))
        for name in {*insert, *delete}:
            old = self.explicit[name]
            pending.change(self.engine.backend, name, old, insert.get(name), delete.get(name))
        self.ignored_insertions += pending.ignored_insertions
        self.ignored_deletions += pending.ignored_deletions
        self.explicit = pending.explicit
        if pending.changes:
            with self.engine.reporting():
                absorb(self.inference, pending.changes)

    def _give(self, insert: Mapping[str, Rows], delete: Mapping[str, Rows], at: int) -> None:
        backend, given = self.engine.backend, self.inference.timeline.given
        known = dict(given.get(at, {}))
        for name in {*insert, *delete}:
            nothing = backend.empty(name).rows()
            coming, going = insert.get(name, nothing), delete.get(name, nothing)
            old = known.get(name, Given(nothing, nothing))
            new = old.changed(backend, coming, going)
            if len(new.added) or len(new.deleted):
                known[name] = new
            again = backend.difference(going, backend.version(coming))
            self.ignored_insertions += len(backend.intersection(coming, backend.version(old.added)))
            self.ignored_deletions += len(backend.intersection(again, backend.version(old.deleted)))
        if known:
            with self.engine.reporting():
                absorb(self.inference, {}, {**given, at: known})

    def run_on_workers(self, hire: Callable[[], Crew], insert: Mapping[str, Rows]) -> bool:
        """The whole run on workers, from this input alone.

        False, and nothing has happened, if workers found no end or something went wrong in a cycle: in this process
        that is told as it always is.
        """
        engine, given = self.engine, self.inference.timeline.given
        facts = {name: rows for name, rows in insert.items() if len(rows)}
        try:
            timeline = on_workers(hire, unsealed(engine.backend), facts, given, engine.limit)
        except LeftToDriver:
            return False
        empty = self.explicit
        self.explicit = {**empty, **{name: empty[name].adding(rows) for name, rows in facts.items()}}
        self.inference.rewritten(timeline)
        for name, chain in timeline.chains.items():
            if len(chain.now):
                self.inference.touched[name] = [chain.now.rows()]
        self.placement = WORKERS
        return True

    def advance(self) -> bool:
        """One cycle; False if there is no more to do."""
        with self.engine.reporting():
            more = self.inference.advance()
        budget = self.engine.memory
        if more and budget is not None and resident() > budget:
            raise too_large(self.engine.program, self.engine.decoder, self.inference.timeline, budget)
        return more


class _Reporting:
    """Turns a run without end into an error that names the facts, and faults of the kernel into errors."""

    def __init__(self, engine: ActiveEngine) -> None:
        self._engine = engine

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Endless):
            raise report(self._engine.program, self._engine.decoder, error) from None
        if isinstance(error, Fault | CapacityError):
            with limit_errors(self._engine.program, self._engine.program.rules):
                raise error


@dataclass(slots=True)
class ActiveEngine:
    """Keeps the relations of a program whose rules run in cycles."""

    program: CheckedProgram
    backend: CycleBackend
    decoder: Decoder
    limit: int = CYCLE_LIMIT
    progress: Callable[[Progress], None] | None = None
    memory: int | None = field(default_factory=default_budget)
    phases: Phases = ()
    strategy: str = "active"
    journal: Journal | None = None
    # What the next epoch is given in later cycles from a state that it takes over.
    inherited: AllGiven = field(default_factory=dict)
    # Workers for a run from nothing, if there are any.
    hire: Callable[[], Crew] | None = None
    snapshot: Snapshot = field(init=False)
    plans: Plans = field(init=False)
    places: Places = field(init=False)

    def __post_init__(self) -> None:
        self.phases = self.phases or one_phase(self.program)
        self.places = Places(self.program, {self.backend.place: self.backend})
        self.plans = self.places.plans[self.backend.place]
        nothing = {name: self.backend.empty(name) for name in self.program.relations}
        chains = {name: self.backend.chain(name, version.rows()) for name, version in nothing.items()}
        self.snapshot = Snapshot(-1, True, nothing, nothing, {TIMELINE: Timeline(chains)})

    # What a store asks of an engine: active rules have no modules, put nothing off, and are remembered all together.

    @property
    def memory_strata(self) -> tuple[Stratum, ...]:
        """What is remembered together."""
        return (Stratum(TIMELINE, tuple(self.program.relations), (), self.program.rules),)

    @property
    def modules(self) -> Mapping[int, tuple[Module, ...]]:
        return {}

    @property
    def deferred(self) -> Mapping[str, NormalRule]:
        return {}

    def strategy_name(self, stratum: Stratum) -> str:
        """The strategy of a stratum."""
        return self.strategy

    def restore(self, snapshot: Snapshot) -> None:
        """Begin with a state that was kept somewhere. Can only be the first thing that happens."""
        assert self.snapshot.epoch < 0, "an engine that has a state takes no other"
        self.backend.keep()
        self.snapshot = snapshot

    @property
    def is_empty(self) -> bool:
        """Whether there are no facts at all, and never were."""
        snapshot = self.snapshot
        return not self.timeline.records and not any(
            map(len, (*snapshot.versions.values(), *snapshot.explicit.values()))
        )

    @property
    def timeline(self) -> Timeline:
        """The run of the last epoch."""
        timeline = DeferredMemory.settled(self.snapshot.memories[TIMELINE])
        if not isinstance(timeline, Timeline):
            raise InternalError("the snapshot has no timeline")
        return timeline

    def reset(self) -> None:
        """Start again from nothing, with the backend's present layouts."""
        before = self.snapshot
        self.__post_init__()
        memories = self.snapshot.memories
        self.snapshot = Snapshot(
            before.epoch, True, self.snapshot.versions, self.snapshot.explicit, memories, before.batches
        )

    def reporting(self) -> _Reporting:
        return _Reporting(self)

    def apply(
        self,
        insert: Mapping[str, Rows],
        delete: Mapping[str, Rows],
        batch: tuple[str, int] | None = None,
        before_commit: BeforeCommit | None = None,
        cycle: int = 0,
    ) -> EpochResult:
        """One epoch, from its changes to the end of the run; everything or nothing.

        The changes are those of a cycle, 0 for the input.

        `before_commit` sees what is about to become the state; if it raises, nothing has happened.
        """
        epoch = self.begin()
        if self.hire is None or not self.snapshot.blank or cycle or not epoch.run_on_workers(self.hire, insert):
            epoch.absorb(insert, delete, cycle)
        while epoch.advance():
            pass
        return self.commit(epoch, batch, before_commit)

    def run_again(self) -> EpochResult:
        """An epoch that changes nothing but what is wrong: the run from scratch on what the state says was given."""
        before = self.snapshot
        again = ActiveEngine(
            self.program, self.backend, self.decoder, self.limit, memory=self.memory, phases=self.phases
        )
        again.run_with({name: version.rows() for name, version in before.explicit.items()}, self.timeline.given)
        right = again.snapshot.versions
        changes = {
            name: Change(
                self.backend.difference(right[name].rows(), before.versions[name]),
                self.backend.difference(before.versions[name].rows(), right[name]),
            )
            for name in right
        }
        changes = {name: change for name, change in changes.items() if change}
        after = replace(again.snapshot, epoch=before.epoch + 1, batches=before.batches)
        result = EpochResult(changes, self.strategy, "repair", 0.0, ())
        self.become(before, after, result)
        return result

    def run_with(self, facts: Mapping[str, Rows], given: AllGiven) -> None:
        """One epoch from nothing: the input, and all that is given in later cycles."""
        epoch = self.begin()
        with self.reporting():
            absorb(epoch.inference, {}, given)
        epoch.absorb(facts, {})
        while epoch.advance():
            pass
        self.commit(epoch)

    def begin(self, watch: Watch | None = None) -> ActiveEpoch:
        """An epoch that has changed nothing yet; `watch` is told every cycle."""
        if self.journal is not None:
            self.journal.begin(self.snapshot)
        started = time.perf_counter()
        total = 0

        def observe(cycle: Cycle) -> None:
            nonlocal total
            total += sum(len(change.plus) for change in cycle.changes.values())
            if self.progress is not None and not cycle.absorbed:
                seconds = time.perf_counter() - started
                self.progress(Progress(cycle.stratum + 1, len(self.phases), cycle.number, total, seconds))
            if watch is not None:
                watch(cycle)

        matcher = Matcher(self.backend, self.plans)
        inference = Inference(matcher, self.phases, self.timeline, self.limit, observe)
        if self.inherited:
            absorb(inference, {}, self.inherited)
        return ActiveEpoch(
            self, self.snapshot, inference, dict(self.snapshot.explicit), started, self.backend.instances
        )

    def commit(
        self, epoch: ActiveEpoch, batch: tuple[str, int] | None = None, before_commit: BeforeCommit | None = None
    ) -> EpochResult:
        """Make the epoch the state of the database, unless `before_commit` raises."""
        before, timeline = epoch.before, epoch.inference.timeline
        changes = {name: self._net(name, epoch) for name in epoch.inference.touched}
        changes = {name: change for name, change in changes.items() if change}
        versions = {name: chain.now for name, chain in timeline.chains.items()}
        batches = before.batches if batch is None else {**before.batches, batch[0]: batch[1]}
        after = Snapshot(before.epoch + 1, False, versions, epoch.explicit, {TIMELINE: timeline}, batches)
        seconds = time.perf_counter() - epoch.started
        plus, minus = (sum(len(getattr(change, side)) for change in changes.values()) for side in ("plus", "minus"))
        report = StratumReport(tuple(self.program.relations), self.strategy, timeline.cycles, seconds, plus, minus)
        result = EpochResult(
            changes,
            self.strategy,
            _why(before, epoch.inference.edited),
            seconds,
            (report,),
            self.backend.instances - epoch.instances,
            epoch.ignored_insertions,
            epoch.ignored_deletions,
            placement=epoch.placement,
        )
        if before_commit is not None:
            before_commit(after, result)
        self.become(before, after, result)
        return result

    def become(self, before: Snapshot, after: Snapshot, result: EpochResult) -> None:
        """Make `after` the state; durable first, where there is a journal."""

        def become() -> None:
            self.backend.keep()
            self.snapshot, self.inherited = after, {}

        if self.journal is None:
            become()
        else:
            self.journal.commit(before, after, result, become)

    def _net(self, name: str, epoch: ActiveEpoch) -> Change:
        """How a relation changed in all, from the rows that came or went on the way."""
        backend, old, new = self.backend, epoch.before.versions[name], epoch.inference.timeline.chains[name].now
        rows = backend.union(epoch.inference.touched[name])
        plus = backend.difference(backend.intersection(rows, new), old)
        return Change(plus, backend.difference(backend.intersection(rows, old), new))


def _why(before: Snapshot, edited: int) -> str:
    redone = f"{edited:,} record{'' if edited == 1 else 's'} of past cycles changed"
    if not before.blank:
        return redone
    return f"first inference; {redone}" if edited else "first inference"
