"""The engine: takes epochs, brings stratum after stratum up to date, and commits all or nothing.

The whole state is one immutable `Snapshot`. An epoch builds the next one beside it; committing is replacing a
reference, so an error or an interrupt at any point leaves the last epoch as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sempre.analysis.model import CheckedProgram, NormalRule, Stratum
from sempre.maintain.auto import Auto
from sempre.maintain.backward_forward import BackwardForward
from sempre.maintain.dred import DRed
from sempre.maintain.dredc import DRedC
from sempre.maintain.iterations import ByIteration
from sempre.maintain.planning import Plans
from sempre.maintain.ranked import Ranked
from sempre.maintain.recompute import Recompute, materialize
from sempre.maintain.sequence import Sequence
from sempre.maintain.strategy import Change, Deferred, Outcome, Strategy, Work
from sempre.modules.spec import Module
from sempre.plan.backend import Backend, Rows, Version
from sempre.plan.ops import relations_of

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Recompute(),
        DRed(),
        DRedC(),
        BackwardForward(False),
        BackwardForward(True),
        ByIteration(False),
        ByIteration(True),
        Ranked(),
        Auto(),
    )
}


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
    `batches` has the last batch of every stream that was applied: one that comes again is recognized.
    """

    epoch: int
    blank: bool
    versions: Mapping[str, Version]
    explicit: Mapping[str, Version]
    memories: Mapping[int, Any]
    batches: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StratumReport:
    """How a stratum was brought up to date; that of neighbors goes by the name of what is sorted."""

    relations: tuple[str, ...]
    strategy: str
    rounds: int
    seconds: float
    added: int
    removed: int


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


class Journal(Protocol):
    """Where epochs become durable, or are refused."""

    def begin(self, before: Snapshot) -> None:
        """An epoch that follows `before` is about to be evaluated; raises if it could not be kept."""
        ...

    def commit(self, after: Snapshot, result: EpochResult) -> None:
        """Keep the epoch; raises if that fails, and then it has not happened."""
        ...


@dataclass(slots=True)
class Pending:
    """The explicit facts after an epoch, and how they change."""

    explicit: dict[str, Version]
    changes: dict[str, Change]
    ignored_insertions: int = 0
    ignored_deletions: int = 0


@dataclass(slots=True)
class Engine:
    """Keeps the relations of a program on a backend.

    `modules` are evaluated by algorithms of their own. Rules in `deferred` are not evaluated at all until `version` is
    asked for their relation.
    """

    program: CheckedProgram
    backend: Backend
    strategy: str = "auto"
    progress: Callable[[Progress], None] | None = None
    modules: Mapping[int, tuple[Module, ...]] = field(default_factory=dict)
    debug: bool = False
    deferred: Mapping[str, NormalRule] = field(default_factory=dict)
    journal: Journal | None = None
    snapshot: Snapshot = field(init=False)
    plans: Plans = field(init=False)
    _demanded: dict[tuple[int, str], Version] = field(init=False)

    def __post_init__(self) -> None:
        self.plans = Plans(self.program, self.backend)
        nothing = {name: self.backend.empty(name) for name in self.program.relations}
        self.snapshot = Snapshot(-1, True, nothing, nothing, {})
        self._demanded = {}

    @property
    def is_empty(self) -> bool:
        """Whether there are no facts at all."""
        return not any(len(version) for version in self.snapshot.versions.values())

    def version(self, name: str, snapshot: Snapshot | None = None) -> Version:
        """A relation in the present snapshot, or in an earlier one."""
        snapshot = snapshot or self.snapshot
        rule = self.deferred.get(name)
        if rule is None:
            return snapshot.versions[name]
        if (snapshot.epoch, name) not in self._demanded:
            # What an earlier epoch was asked for is not likely to be asked for again.
            self._demanded = {key: version for key, version in self._demanded.items() if key[0] == self.snapshot.epoch}
            known, explicit = dict(snapshot.versions), snapshot.explicit
            work = Work(self.program, self.backend, self.plans, {}, explicit, explicit, {}, _no_round, known)
            outcome = materialize(work, Stratum(-1, (name,), (rule,), ()))
            self._demanded[snapshot.epoch, name] = outcome.versions[name]
        return self._demanded[snapshot.epoch, name]

    def reset(self) -> None:
        """Start again from nothing, with the backend's present layouts."""
        before = self.snapshot
        self.__post_init__()
        self.snapshot = replace(self.snapshot, epoch=before.epoch, batches=before.batches)

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
        if self.journal is not None:
            self.journal.begin(self.snapshot)
        after, result = self.evaluate(insert, delete, batch)
        if before_commit is not None:
            before_commit(after, result)
        if self.journal is not None:
            self.journal.commit(after, result)
        self.snapshot = after
        return result

    def evaluate(
        self, insert: Mapping[str, Rows], delete: Mapping[str, Rows], batch: tuple[str, int] | None = None
    ) -> tuple[Snapshot, EpochResult]:
        """The snapshot that an epoch would lead to, and what it would do; nothing is kept."""
        started = time.perf_counter()
        instances = self.backend.instances
        before = self.fitted(self.snapshot)
        pending = normalized(self.backend, before.explicit, insert, delete)
        work = Work(
            self.program,
            self.backend,
            self.plans,
            dict(before.versions),
            pending.explicit,
            before.explicit,
            pending.changes,
            _no_round,
            modules=self.modules,
            debug=self.debug,
        )
        memories: dict[int, Any] = {}
        reports = []
        for stratum in self.program.strata:
            memories[stratum.index], report = self._stratum(work, stratum, before, started)
            if report is not None:
                reports.append(report)
        explicit = self._shared(pending.explicit, work.new)
        batches = before.batches if batch is None else {**before.batches, batch[0]: batch[1]}
        after = Snapshot(before.epoch + 1, False, work.new, explicit, memories, batches)
        why = "first materialization" if before.blank else "; ".join(work.notes) or f"maintained by {self.strategy}"
        result = EpochResult(
            work.changes,
            self.strategy,
            why,
            time.perf_counter() - started,
            tuple(reports),
            self.backend.instances - instances,
            pending.ignored_insertions,
            pending.ignored_deletions,
            pending.changes,
        )
        return after, result

    def fitted(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with room for the values of this epoch."""
        fitted = self.backend.fitted
        versions = {name: fitted(name, version) for name, version in snapshot.versions.items()}
        explicit = {name: fitted(name, version) for name, version in snapshot.explicit.items()}
        return replace(snapshot, versions=versions, explicit=explicit)

    def _stratum(
        self, work: Work, stratum: Stratum, before: Snapshot, started: float
    ) -> tuple[Any, StratumReport | None]:
        """Bring one stratum up to date in `work`; skips it when nothing it reads has changed."""
        first = before.blank
        memory = before.memories.get(stratum.index)
        if not first and not self._touched(work, stratum):
            work.new.update({name: before.versions[name] for name in stratum.relations})
            return memory, None
        memory = Deferred.settled(memory)
        began = time.perf_counter()
        strategy = self.strategy_of(stratum)
        if not stratum.nonrecursive and not stratum.recursive:
            outcome = _explicit_only(work, stratum)
        else:
            work.on_round = self._round_observer(stratum, started)
            outcome = strategy.bootstrap(work, stratum) if first else strategy.update(work, stratum, memory)
        work.new.update(outcome.versions)
        work.changes.update({name: change for name, change in outcome.changes.items() if change})
        report = StratumReport(
            (strategy.order.source,) if isinstance(strategy, Sequence) else stratum.relations,
            outcome.how or strategy.name,
            outcome.rounds,
            time.perf_counter() - began,
            sum(len(change.plus) for change in outcome.changes.values()),
            sum(len(change.minus) for change in outcome.changes.values()),
        )
        return outcome.memory, report

    def strategy_of(self, stratum: Stratum) -> Strategy:
        """The chosen strategy; strata with aggregates in heads have only two ways, neighbors one."""
        order = next((m.order for m in self.modules.get(stratum.index, ()) if m.order is not None), None)
        if order is not None:
            return Sequence(order)
        aggregates = any(self.program.relations[name].aggregate is not None for name in stratum.relations)
        return STRATEGIES["dred" if aggregates and self.strategy != "recompute" else self.strategy]

    def _touched(self, work: Work, stratum: Stratum) -> bool:
        if any(name in work.explicit_changes for name in stratum.relations):
            return True
        rules = (*stratum.nonrecursive, *stratum.recursive)
        return any(name in work.changes for rule in rules for name in relations_of(rule.body))

    def _round_observer(self, stratum: Stratum, started: float) -> Callable[[int, int], None]:
        progress = self.progress
        if progress is None:
            return _no_round
        total = 0

        def observe(round_: int, facts: int) -> None:
            nonlocal total
            total += facts
            seconds = time.perf_counter() - started
            progress(Progress(stratum.index + 1, len(self.program.strata), round_, total, seconds))

        return observe

    def _shared(self, explicit: Mapping[str, Version], versions: Mapping[str, Version]) -> dict[str, Version]:
        """Explicit facts, as the relation itself where no rule derives into it: one copy serves both."""
        derived = {rule.relation for rule in self.program.rules}
        return {name: explicit[name] if name in derived else versions[name] for name in explicit}


def normalized(
    backend: Backend, explicit: Mapping[str, Version], insert: Mapping[str, Rows], delete: Mapping[str, Rows]
) -> Pending:
    """Explicit facts after an epoch; what is present already or absent anyway is counted and dropped."""
    pending = Pending(dict(explicit), {})
    for name in {*insert, *delete}:
        old = explicit[name]
        coming = insert.get(name)
        going = delete.get(name)
        plus = minus = backend.empty(name).rows()
        if coming is not None:
            plus = backend.difference(coming, old)
            pending.ignored_insertions += len(coming) - len(plus)
        if going is not None:
            present = backend.intersection(going, old)
            pending.ignored_deletions += len(going) - len(present)
            minus = present if coming is None else backend.difference(present, backend.version(coming))
        if len(plus) or len(minus):
            pending.explicit[name] = old.removing(minus).adding(plus)
            pending.changes[name] = Change(plus, minus)
    return pending


def standing(engine: Engine, snapshot: Snapshot) -> Work:
    """An epoch in which nothing changes."""
    versions, explicit = dict(snapshot.versions), snapshot.explicit
    return Work(
        engine.program, engine.backend, engine.plans, versions, explicit, explicit, {}, _no_round, dict(versions)
    )


def _explicit_only(work: Work, stratum: Stratum) -> Outcome:
    """A stratum without rules is its explicit facts."""
    (name,) = stratum.relations
    change = work.explicit_changes.get(name)
    if change is None:
        nothing = work.backend.empty(name).rows()
        change = Change(nothing, nothing)
    return Outcome({name: work.explicit[name]}, {name: change}, None, 0)


def _no_round(round_: int, facts: int) -> None:
    """Nobody watches."""


__all__ = [
    "STRATEGIES",
    "Engine",
    "EpochResult",
    "Journal",
    "Pending",
    "Progress",
    "Snapshot",
    "StratumReport",
    "normalized",
    "standing",
]
