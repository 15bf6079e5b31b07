"""The engine: takes epochs, brings stratum after stratum up to date, and commits all or nothing.

The whole state is one immutable `Snapshot`. `evaluate` makes the next one beside it and changes nothing; `commit`
compares and sets: it replaces the snapshot that the new one was made from, and no other. So an error or an interrupt at
any point leaves the last epoch as it was. With a journal, becoming durable and becoming the state are one step that no
signal splits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Protocol

from sempre.analysis.model import CheckedProgram, NormalRule, Stratum
from sempre.data import dataclass
from sempre.kernel.spare import give_back
from sempre.maintain.auto import ChosenStrategy
from sempre.maintain.costs import RANKED, History
from sempre.maintain.decide import (
    AUTO,
    ELASTIC,
    GUARDED,
    Choices,
    Decision,
    calls_python,
    decide,
    is_guarded,
    strategy_for,
)
from sempre.maintain.expected import Expected
from sempre.maintain.guarded import Guarded
from sempre.maintain.iterations import ByIteration
from sempre.maintain.planning import Plans
from sempre.maintain.ranked_or_counted import RankedOrCounted
from sempre.maintain.recompute import materialize
from sempre.maintain.registry import STRATEGIES
from sempre.maintain.sequence import Sequence
from sempre.maintain.strategy import (
    Abandoned,
    Change,
    DeferredMemory,
    Outcome,
    Strategy,
    Work,
    as_update,
    refuse_recomputation,
)
from sempre.modules.spec import Module
from sempre.places import EpochSizes, Places, PlaceTooSmall
from sempre.plan.backend import CLUSTER, DRIVER, WORKERS, Backend, Rows, Version
from sempre.plan.faults import limit_errors
from sempre.plan.meter import Meter
from sempre.plan.ops import Neighbors, relations_of
from sempre.rewrites.successors import shown

# Strategies that can go on from a stratum that something else derived.
FORGETFUL = frozenset(name for name, strategy in STRATEGIES.items() if strategy.forgetful)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an epoch is."""

    stratum: int
    strata: int
    round: int
    facts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after an epoch: every relation, its explicit facts, and what the strategies remember.

    `blank` before anything was evaluated, or again while there are no facts at all: then an epoch starts from scratch.
    `batches` has the last batch of every stream that was applied: one that comes again is recognized. `demanded` has
    the relations that were evaluated because somebody asked for them: another snapshot, even one with the same number,
    has its own.
    """

    epoch: int
    blank: bool
    versions: Mapping[str, Version]
    explicit: Mapping[str, Version]
    memories: Mapping[int, Any]
    batches: Mapping[str, int] = field(default_factory=dict)
    demanded: dict[str, Version] = field(default_factory=dict, init=False, compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether there are no facts at all."""
        return not any(len(version) for version in self.versions.values())


class Overtaken(Exception):
    """Another epoch was committed while this one was evaluated: what was evaluated is of no use."""


@dataclass(frozen=True, slots=True)
class StratumReport:
    """How a stratum was brought up to date; that of neighbors goes by the name of what is sorted.

    `why` has the numbers that choices were based on, where there were some; `modules` are those that took part.
    `profile` is what was measured of rules and rounds, if that was asked for. `expected` is what places were expected
    to cost, where there was a choice.
    """

    relations: tuple[str, ...]
    strategy: str
    rounds: int
    seconds: float
    added: int
    removed: int
    placement: str = DRIVER
    why: str = ""
    modules: tuple[str, ...] = ()
    profile: Mapping[str, Any] | None = None
    expected: tuple[Expected, ...] = ()


@dataclass(frozen=True, slots=True)
class EpochResult:
    """What an epoch did: the change of every relation that changed, and how it went."""

    changes: Mapping[str, Change]
    strategy: str
    why: str
    seconds: float
    strata: tuple[StratumReport, ...]
    instances: int = 0
    ignored_insertions: int = 0
    ignored_deletions: int = 0
    explicit: Mapping[str, Change] = field(default_factory=dict)  # how the explicit facts changed
    placement: str = DRIVER


class Journal(Protocol):
    """Where epochs become durable, or are refused."""

    def begin(self, before: Snapshot) -> None:
        """An epoch that follows `before` is about to be evaluated; raises if it could not be kept."""
        ...

    def commit(self, before: Snapshot, after: Snapshot, result: EpochResult, become: Callable[[], None]) -> None:
        """Keep the epoch; raises if that fails, and then it has not happened.

        `become` makes `after` the state of the engine: it is called in the same step in which the epoch becomes
        durable. An interrupt raises before that step or after it.
        """
        ...


@dataclass(slots=True)
class Pending:
    """The explicit facts after an epoch, and how they change."""

    explicit: dict[str, Version]
    changes: dict[str, Change] = field(default_factory=dict)
    ignored_insertions: int = 0
    ignored_deletions: int = 0

    def change(self, backend: Backend, name: str, old: Version, coming: Rows | None, going: Rows | None) -> None:
        """Delete rows of a relation, then insert rows; what is absent anyway or present already is counted and dropped.

        `old` are the explicit facts as they are, on the backend, as are the rows.
        """
        plus = minus = backend.empty(name).rows()
        if coming is not None:
            plus = backend.difference(coming, old)
            self.ignored_insertions += len(coming) - len(plus)
        if going is not None:
            present = backend.intersection(going, old)
            self.ignored_deletions += len(going) - len(present)
            minus = present if coming is None else backend.difference(present, backend.version(coming))
        if len(plus) or len(minus):
            self.explicit[name] = old.removing(minus).adding(plus)
            self.changes[name] = Change(plus, minus)


@dataclass(slots=True)
class Engine:
    """Keeps the relations of a program on a backend, or, with `given_places`, on whichever place suits a stratum.

    `modules` are evaluated by algorithms of their own. Rules in `deferred` are not evaluated at all until `version` is
    asked for their relation. `branch` makes a backend for questions, where they need not wait for an epoch under way.
    `switch` is that of `elastic`. With `maintain_only` an epoch that would have to evaluate a stratum anew is refused.
    A `meter` measures rules and rounds. `announce` is told what is about to be done, for the names of jobs.
    """

    program: CheckedProgram
    backend: Backend
    strategy: str = "auto"
    progress: Callable[[Progress], None] | None = None
    modules: Mapping[int, tuple[Module, ...]] = field(default_factory=dict)
    debug: bool = False
    deferred: Mapping[str, NormalRule] = field(default_factory=dict)
    journal: Journal | None = None
    given_places: Places | None = None
    branch: Callable[[], Backend] | None = None
    switch: float | None = None
    maintain_only: bool = False
    meter: Meter | None = None
    announce: Callable[[str], None] | None = None
    places: Places = field(init=False)
    _snapshot: Snapshot = field(init=False)

    def __post_init__(self) -> None:
        self.places = self.given_places or Places(self.program, {self.backend.place: self.backend})
        self._snapshot = self._blank(-1, {})

    @property
    def snapshot(self) -> Snapshot:
        """The state after the last epoch. Only `commit` and `restore` replace it."""
        return self._snapshot

    @property
    def plans(self) -> Plans:
        """The plans of the backend."""
        return self.places.plans[self.places.main]

    @property
    def is_empty(self) -> bool:
        """Whether there are no facts at all."""
        return self._snapshot.is_empty

    def _blank(self, epoch: int, batches: Mapping[str, int]) -> Snapshot:
        """The state without any facts, with the backend's present layouts."""
        nothing = {name: self.backend.empty(name) for name in self.program.relations}
        return Snapshot(epoch, True, nothing, nothing, {}, batches)

    @property
    def memory_strata(self) -> tuple[Stratum, ...]:
        """What strategies remember something of, each by itself."""
        return self.program.strata

    def strategy_name(self, stratum: Stratum) -> str:
        """The strategy of a stratum in the driver."""
        return self.strategy_of(stratum).name

    def restore(self, snapshot: Snapshot) -> None:
        """Begin with a state that was kept somewhere. Can only be the first thing that happens."""
        assert self._snapshot.epoch < 0, "an engine that has a state takes no other"
        self.places.keep()
        self._snapshot = snapshot

    def blank_like(self, snapshot: Snapshot) -> Snapshot:
        """No facts at all, before the epoch of a snapshot."""
        return self._blank(snapshot.epoch, snapshot.batches)

    def regain(self, snapshot: Snapshot, expected: Snapshot) -> None:
        """Go on with the same state where a place had lost what it held of it."""
        if self._snapshot is not expected:
            raise Overtaken
        self._snapshot = snapshot

    def aside(self) -> Engine:
        """An engine with the same state, for a question: whatever it does, this one does not notice.

        The two may work at the same time. Without `branch` it is this one, and the caller sees to it that they do not.
        """
        if self.branch is None:
            return self
        # The snapshot first: a branch that is made later has all its values, whatever is committed meanwhile.
        snapshot = self._snapshot
        made = Engine(
            self.program, self.branch(), self.strategy, self.progress, self.modules, self.debug, self.deferred
        )  # fmt: skip
        made._snapshot = snapshot
        return made

    def version(self, name: str, snapshot: Snapshot | None = None) -> Version:
        """A relation in the present snapshot, or in another of this engine."""
        snapshot = snapshot or self._snapshot
        rule = self.deferred.get(name)
        if rule is None:
            return snapshot.versions[name]
        if name not in snapshot.demanded:
            snapshot.demanded[name] = self.aside()._demand(name, rule, snapshot)
        return snapshot.demanded[name]

    def _demand(self, name: str, rule: NormalRule, snapshot: Snapshot) -> Version:
        at = self.places.main
        known = {read: self.places.bring(read, snapshot.versions[read], at) for read in relations_of(rule.body)}
        explicit = {name: self.places.bring(name, snapshot.explicit[name], at)}
        work = Work(self.program, self.backend, self.plans, {}, explicit, explicit, {}, _no_round, known)
        with limit_errors(self.program, (rule,)):
            return materialize(work, Stratum(-1, (name,), (rule,), ())).versions[name]

    def apply(
        self,
        insert: Mapping[str, Rows],
        delete: Mapping[str, Rows],
        batch: tuple[str, int] | None = None,
        before_commit: Callable[[Snapshot, EpochResult], None] | None = None,
    ) -> EpochResult:
        """One epoch: delete first, then insert; all or nothing. `batch` is (stream, number).

        `before_commit` sees the epoch before anybody else does; if it raises, the epoch has not happened.
        """
        before = self._snapshot
        if self.journal is not None:
            self.journal.begin(before)
        after, result = self.evaluate(before, insert, delete, batch)
        if before_commit is not None:
            before_commit(after, result)
        self.commit(after, before, result)
        return result

    def commit(self, after: Snapshot, expected: Snapshot, result: EpochResult) -> None:
        """Make `after` the state, if that is still `expected`; durable first, where there is a journal."""
        if self._snapshot is not expected:
            raise Overtaken

        def become() -> None:
            self.places.keep()  # first: numbers that the state uses must never be taken back
            self._snapshot = after

        if self.journal is None:
            become()
        else:
            self.journal.commit(expected, after, result, become)

    def evaluate(
        self,
        base: Snapshot,
        insert: Mapping[str, Rows],
        delete: Mapping[str, Rows],
        batch: tuple[str, int] | None = None,
    ) -> tuple[Snapshot, EpochResult]:
        """The snapshot that an epoch leads to from `base`, and what it does; the state stays as it is.

        Raises `Overtaken` when `progress` committed an epoch of its own meanwhile.
        """
        started = time.perf_counter()
        instances = self._instances()
        if base.is_empty:  # plans that were made for nothing, and layouts that were made for other facts, are no use
            self.places.renew()
            before = self._blank(base.epoch, base.batches)
        else:
            before = self.fitted(base)
        notes: list[str] = []
        pending = Pending(dict(before.explicit))
        for name in {*insert, *delete}:
            self._change_explicit(pending, name, insert.get(name), delete.get(name), notes)
        epoch = Work(
            self.program,
            self.backend,
            self.plans,
            dict(before.versions),
            pending.explicit,
            before.explicit,
            pending.changes,
            _no_round,
            notes=notes,
            modules=self.modules,
            debug=self.debug,
        )
        memories: dict[int, Any] = {}
        reports = []
        for stratum in self.program.strata:
            memories[stratum.index], report = self._stratum(epoch, stratum, before, started)
            if report is not None:
                reports.append(report)
        if self.announce is not None:
            self.announce(f"epoch {before.epoch + 1}")
        for backend in self.places.backends.values():
            backend.finish()
        explicit = self._shared(pending.explicit, epoch.new)
        batches = before.batches if batch is None else {**before.batches, batch[0]: batch[1]}
        after = Snapshot(before.epoch + 1, False, epoch.new, explicit, memories, batches)
        why = "; ".join(epoch.notes)
        why = (f"first materialization; {why}" if why else "first materialization") if before.blank else why
        if before.blank and sum(map(len, epoch.new.values())) >= self.backend.limits.give_back_rows:
            give_back()
        used = {report.placement for report in reports}
        result = EpochResult(
            epoch.changes,
            self.strategy,
            why or f"maintained by {self.strategy}",
            time.perf_counter() - started,
            tuple(reports),
            self._instances() - instances,
            pending.ignored_insertions,
            pending.ignored_deletions,
            pending.changes,
            ", ".join(sorted(used)) or self.places.main,
        )
        return after, result

    def _instances(self) -> int:
        return sum(backend.instances for backend in self.places.backends.values())

    def fitted(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with room for the values of this epoch."""

        def fitted(name: str, version: Version) -> Version:
            return self.places.backends[version.place].fitted(name, version)

        versions = {name: fitted(name, version) for name, version in snapshot.versions.items()}
        explicit = {name: fitted(name, version) for name, version in snapshot.explicit.items()}
        return replace(snapshot, versions=versions, explicit=explicit)

    def _change_explicit(
        self, pending: Pending, name: str, coming: Rows | None, going: Rows | None, notes: list[str]
    ) -> None:
        """Change a relation's explicit facts where they are to be kept; a reason for that is noted."""
        places, old = self.places, pending.explicit[name]
        home = places.home(name, old, coming, going)
        notes += [home.why] if home.why else []
        brought = [None if rows is None else places.bring_rows(name, rows, home.place) for rows in (coming, going)]
        pending.change(places.backends[home.place], name, places.bring(name, old, home.place), brought[0], brought[1])

    def _stratum(
        self, epoch: Work, stratum: Stratum, before: Snapshot, started: float
    ) -> tuple[Any, StratumReport | None]:
        """Bring one stratum up to date in `epoch`; skips it when nothing it reads has changed."""
        memory = before.memories.get(stratum.index)
        if not before.blank and not self._touched(epoch, stratum):
            epoch.new.update({name: before.versions[name] for name in stratum.relations})
            return memory, None
        began = time.perf_counter()
        if self.meter is not None:
            self.meter.begin()
        if self.announce is not None:
            self.announce(f"epoch {before.epoch + 1}, {shown(stratum.relations)}")
        expected: tuple[Expected, ...] = ()
        if not stratum.nonrecursive and not stratum.recursive and not is_guarded(stratum, self.program):
            outcome = self._explicit_only(epoch, stratum)
            decision = Decision(outcome.versions[stratum.relations[0]].place, self.strategy)
            epoch.new.update(outcome.versions)
            epoch.changes.update({name: change for name, change in outcome.changes.items() if change})
        else:
            decision, outcome, expected = self._evaluated(epoch, stratum, before, started)
        order = self._order(stratum)
        report = StratumReport(
            stratum.relations if order is None else (order.source,),
            outcome.how or decision.strategy,
            outcome.rounds,
            time.perf_counter() - began,
            sum(len(change.plus) for change in outcome.changes.values()),
            sum(len(change.minus) for change in outcome.changes.values()),
            decision.place,
            outcome.why or decision.why,
            tuple(map(str, outcome.modules)),
            None if self.meter is None else self.meter.taken((*stratum.nonrecursive, *stratum.recursive)),
            expected,
        )
        return outcome.memory, report

    def _evaluated(
        self, epoch: Work, stratum: Stratum, before: Snapshot, started: float
    ) -> tuple[Decision, Outcome, tuple[Expected, ...]]:
        """A stratum with rules: decides how and where it runs, and again when that place turns out to be too small."""
        places, sizes, outgrown = self.places, EpochSizes(epoch, stratum), ""
        home = None if before.blank else before.versions[stratum.relations[0]].place
        history, options = self._history(stratum, before, home), self._options(stratum)
        expected: tuple[Expected, ...] = ()
        while True:
            decision = decide(stratum, sizes, history, options, home, outgrown)
            expected = expected or places.expected(stratum, sizes, decision, home)
            began = time.perf_counter()
            if decision.note and decision.note not in epoch.notes:
                epoch.notes.append(decision.note)
            room = places.room(decision.place)
            if room is not None and (decision.strategy == GUARDED or calls_python(stratum)):
                room = None
            observer = self._round_observer(stratum, started, before.epoch + 1)
            if decision.place == CLUSTER and stratum.recursive and not (decision.one_pass or decision.followed):
                observer = places.warned(stratum, epoch, observer)
            guard = observer if room is None else places.guard(stratum, epoch, observer, room)
            work = places.at(epoch, decision.place, stratum, guard)
            work.decision = decision
            try:
                with limit_errors(self.program, (*stratum.nonrecursive, *stratum.recursive)):
                    outcome = self._run(work, stratum, before, decision)
                break
            except PlaceTooSmall as reason:
                assert room is not None
                outgrown = str(reason)
                if decision.place == WORKERS:
                    options = replace(options, workers=0)
            except Abandoned as reason:
                if decision.one_pass is not None:
                    epoch.notes.append(f"{shown(stratum.relations)} by rounds: {reason}")
                    options = replace(options, closes=None)
                    continue
                assert decision.followed
                epoch.notes.append(f"{shown(stratum.relations)} not followed in the driver: {reason}")
                options = replace(options, follows=None)
        if expected:
            places.ran(stratum, expected[0], decision, outcome.how, time.perf_counter() - began)
        places.take(epoch, work, outcome)
        return decision, outcome, expected

    def _run(self, work: Work, stratum: Stratum, before: Snapshot, decision: Decision) -> Outcome:
        """One stratum as it was decided; what it remembers of another place is of no use, so there it starts again."""
        follower = self.places.follower
        if decision.followed:
            assert follower is not None
            return follower.follow(work, stratum, decision)
        strategy = self.strategy_of(stratum, decision.place)
        work.maintain_only = self.maintain_only and not before.blank
        if decision.update:
            return strategy.update(work, stratum, DeferredMemory.settled(before.memories.get(stratum.index)))
        refuse_recomputation(work, stratum, decision.why)
        began = time.perf_counter()
        if decision.one_pass is not None:
            assert self.places.closer is not None
            outcome = self.places.closer.close(work, stratum, decision.one_pass)
        else:
            outcome = strategy.bootstrap(work, stratum)
        outcome = outcome if before.blank else as_update(work, stratum, outcome)
        if follower is not None and decision.place == CLUSTER:
            follower.ran(stratum, time.perf_counter() - began)
        return outcome

    def _options(self, stratum: Stratum) -> Choices:
        """What there is to choose from."""
        places, closer = self.places, self.places.closer
        closes = None if closer is None else lambda stratum, sizes: closer.one_pass(self.program, stratum, sizes)
        follows = None if places.follower is None else places.follower.is_worth_trying
        return Choices(
            self.program,
            self.strategy,
            places.fixed,
            places.budget,
            self.modules.get(stratum.index, ()),
            closes,
            FORGETFUL,
            self.backend.limits,
            follows,
            places.workers_budget,
            places.no_workers,
        )

    def _history(self, stratum: Stratum, before: Snapshot, home: str | None) -> History | None:
        """What `auto` has learned of a stratum in the driver."""
        if self.strategy != AUTO or home != DRIVER:
            return None
        memory = DeferredMemory.settled(before.memories.get(stratum.index))
        return memory.history(stratum) if isinstance(memory, ChosenStrategy) else None

    def strategy_of(self, stratum: Stratum, place: str = DRIVER) -> Strategy:
        """The strategy that keeps a stratum at a place."""
        order = self._order(stratum)
        if order is not None:
            return Sequence(order)
        name = strategy_for(stratum, self._options(stratum), place)
        if name == GUARDED:
            return Guarded()
        if name == RANKED and self.strategy == AUTO:
            return RankedOrCounted()
        return ByIteration(True, self.switch) if name == ELASTIC and self.switch is not None else STRATEGIES[name]

    def _order(self, stratum: Stratum) -> Neighbors | None:
        """The neighbors that a stratum consists of, if it does."""
        return next((m.order for m in self.modules.get(stratum.index, ()) if m.order is not None), None)

    def _touched(self, epoch: Work, stratum: Stratum) -> bool:
        if any(name in epoch.explicit_changes for name in stratum.relations):
            return True
        rules = (*stratum.nonrecursive, *stratum.recursive)
        return any(name in epoch.changes for rule in rules for name in relations_of(rule.body))

    def _explicit_only(self, epoch: Work, stratum: Stratum) -> Outcome:
        """A stratum without rules is its explicit facts."""
        (name,) = stratum.relations
        version, change = epoch.explicit[name], epoch.explicit_changes.get(name)
        if change is None:
            nothing = self.places.backends[version.place].empty(name).rows()
            change = Change(nothing, nothing)
        return Outcome({name: version}, {name: change}, None, 0)

    def _round_observer(self, stratum: Stratum, started: float, epoch: int) -> Callable[[int, int], None]:
        """Tells whoever wants to know what the rounds of a stratum find."""
        progress, meter, base, announce = self.progress, self.meter, self._snapshot, self.announce
        if progress is None and meter is None and announce is None:
            return _no_round
        if meter is not None:
            meter.begin()
        total = 0

        def observe(round_: int, facts: int) -> None:
            nonlocal total
            total += facts
            if meter is not None:
                meter.round(facts)
            if announce is not None:
                announce(f"epoch {epoch}, {shown(stratum.relations)}, round {round_ + 1}")
            if progress is None:
                return
            seconds = time.perf_counter() - started
            progress(Progress(stratum.index + 1, len(self.program.strata), round_, total, seconds))
            if self._snapshot is not base:
                raise Overtaken

        return observe

    def _shared(self, explicit: Mapping[str, Version], versions: Mapping[str, Version]) -> dict[str, Version]:
        """Explicit facts, as the relation itself where no rule derives into it: one copy serves both."""
        derived = {rule.relation for rule in self.program.rules} | {*self.program.guards}
        return {name: explicit[name] if name in derived else versions[name] for name in explicit}


def standing_work(engine: Engine, snapshot: Snapshot) -> Work:
    """An epoch in which nothing changes."""
    versions, explicit = dict(snapshot.versions), snapshot.explicit
    return Work(
        engine.program, engine.backend, engine.plans, versions, explicit, explicit, {}, _no_round, dict(versions)
    )


def standing_work_at(engine: Engine, snapshot: Snapshot, stratum: Stratum) -> Work:
    """An epoch in which nothing changes, for one stratum, where that is."""
    return engine.places.at(
        standing_work(engine, snapshot), snapshot.versions[stratum.relations[0]].place, stratum, _no_round
    )


def _no_round(round_: int, facts: int) -> None:
    """Nobody watches."""


__all__ = [
    "Engine",
    "EpochResult",
    "Journal",
    "Overtaken",
    "Pending",
    "Progress",
    "Snapshot",
    "StratumReport",
    "standing_work",
    "standing_work_at",
]
