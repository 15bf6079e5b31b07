"""The default: maintain where that is cheaper, recompute where it is not, stratum by stratum.

A stratum is maintained in one of two ways. `ranked` is the one for most. `dredc` is for strata that a module closes,
and for those that took many small rounds (long chains), which it follows row by row. Where a module shares its stratum
with other rules both ways are possible, and the one that has cost less is taken when the stratum is evaluated again.

Whether to maintain at all is decided by time. What changed rows have cost so far, by kind of change, is compared with
the last run from scratch before an update begins; while it runs, a guard looks at the clock, also within a round, and
foretells the end from how the rounds grow or shrink. Giving up costs what was spent so far and nothing else: versions
are immutable. What was learned of a kind of change fades each time it keeps an update from being tried, so that no
choice is for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from sempre.analysis.model import Stratum
from sempre.kernel.limits import Limit
from sempre.maintain.dredc import DRedC
from sempre.maintain.memory import Checks, Memory, Meta, Reading, Writing, described
from sempre.maintain.modular import Partitioned, is_certain, owned_by
from sempre.maintain.ranked import Ranked, ranks_of
from sempre.maintain.recompute import materialize_with
from sempre.maintain.strategy import Abandoned, Outcome, Strategy, Work, again
from sempre.plan.ops import relations_of

# A change of more than this share of what a stratum reads, and of more rows than these, is not worth maintaining.
CHANGE_SHARE = 0.1
CHANGE_FEW = 1_000
# Nor one that affects more than this many times the stratum's own facts, once it affects a good number.
AFFECTED_SHARE = 1.0
AFFECTED_FEW = 10_000
# An update is given up when it has taken this share of the last run from scratch, and longer than a moment; one whose
# rounds shrink may take somewhat longer, and one that is known to take longer, as long as that and a little more.
TIME_SHARE = 0.3
TIME_MOMENT = 0.05
SHRINKING_SHARE = 1.5
EXPECTED_SLACK = 1.3
# What is known of changes holds for those of less than so many times the rows.
SIMILAR = 3.0
# It is given up before, once it has taken this part of its time, if it seems that it will take longer than a run.
EARLY_SHARE = 0.25
# A change that is expected to take longer than this share of a run from scratch is not tried.
EXPECTED_SHARE = 0.8
# What was learned loses this share each time it is followed untried.
FADING = 0.7
# A stratum that took more rounds than this has long chains.
MANY_ROUNDS = 100


MODULAR = f"{DRedC.name} with modules"


@dataclass(frozen=True, slots=True)
class Cost:
    """What changes of a kind have cost of late: seconds, for so many changed rows."""

    seconds: float
    rows: float

    def of(self, rows: int) -> float:
        """The seconds that so many rows are expected to take: what more rows affect overlaps."""
        ratio = rows / max(self.rows, 1)
        return self.seconds * (ratio if ratio < 1 else float(ratio**0.5))


@dataclass(frozen=True, slots=True)
class Chosen:
    """How a stratum is maintained, what that needs to remember, and what is known of its cost.

    `full_seconds` is how long a run from scratch took. `costs` has what changes have cost by their kind: `insert`,
    `delete` or `mixed`. `ways` has the seconds of an epoch of late, by the way that it was maintained in, and `since`
    those of all epochs since the last run from scratch.
    """

    strategy: Strategy
    memory: Memory | None
    full_seconds: float
    costs: Mapping[str, Cost] = field(default_factory=dict)
    ways: Mapping[str, float] = field(default_factory=dict)
    since: float = 0.0

    kind: ClassVar[str] = "chosen"
    sets: ClassVar[Mapping[str, int]] = {}  # all of them are those of the memory within

    def describe(self) -> Meta | None:
        inner = described(self.memory, self.strategy.name)
        if inner is None:
            return None
        costs = {kind: [cost.seconds, cost.rows] for kind, cost in self.costs.items()}
        known = {"seconds": self.full_seconds, "costs": costs, "ways": dict(self.ways), "since": self.since}
        return {**known, "memory": inner}

    def write(self, shelf: Writing) -> None:
        if self.memory is not None:
            self.memory.write(shelf)

    @classmethod
    def read(cls, meta: Meta, stratum: Stratum, shelf: Reading) -> Chosen:
        inner = meta["memory"]
        memory, strategy = shelf.memory(inner, stratum), shelf.strategy(inner["strategy"])
        costs = {kind: Cost(*numbers) for kind, numbers in meta.get("costs", {}).items()}
        return cls(strategy, memory, meta["seconds"], costs, meta.get("ways", {}), meta.get("since", 0.0))

    def check(self, work: Work, stratum: Stratum, checks: Checks) -> None:
        if self.memory is not None:
            self.memory.check(work, stratum, checks)

    @property
    def way(self) -> str:
        """The strategy, and whether modules take part."""
        modular = isinstance(self.memory, Partitioned) and self.memory.modules
        return MODULAR if modular else self.strategy.name

    def learned(self, kind: str, seconds: float, rows: int) -> Chosen:
        """With what an epoch has cost."""
        old = self.costs.get(kind, Cost(seconds, rows))
        cost = Cost((old.seconds + seconds) / 2, (old.rows + rows) / 2)
        ways = {**self.ways, self.way: (self.ways.get(self.way, seconds) + seconds) / 2}
        return replace(self, costs={**self.costs, kind: cost}, ways=ways, since=self.since + seconds)

    def faded(self, kind: str) -> Chosen:
        """With less trust in what is known of a kind of change."""
        cost = self.costs[kind]
        return replace(self, costs={**self.costs, kind: replace(cost, seconds=cost.seconds * FADING)})


class Auto:
    """Chooses per stratum and epoch."""

    name = "auto"
    forgetful = False

    def bootstrap(self, work: Work, stratum: Stratum, before: Chosen | None = None) -> Outcome:
        started = time.perf_counter()
        modules = () if before is not None and _avoids_modules(before) else work.modules.get(stratum.index, ())
        try:
            outcome, fixpoint = materialize_with(work, stratum, modules=modules, counting=True)
        except Limit:  # numbers that do not fit
            outcome, fixpoint = materialize_with(work, stratum, modules=modules)
        modular = isinstance(outcome.memory, Partitioned) and bool(outcome.memory.modules)
        counts = modular or fixpoint.walked or fixpoint.rounds > MANY_ROUNDS
        strategy: Strategy = DRedC() if counts else Ranked()
        memory: Memory | None = outcome.memory if counts else ranks_of(work, stratum, fixpoint)
        chosen = Chosen(strategy, memory, time.perf_counter() - started)
        if before is not None:
            chosen = replace(chosen, costs=before.costs if chosen.way == before.way else {}, ways=before.ways)
        return Outcome(outcome.versions, outcome.changes, chosen, outcome.rounds, "recompute")

    def update(self, work: Work, stratum: Stratum, memory: Chosen) -> Outcome:
        if is_certain(stratum, memory.memory):
            # Nothing but closures: whatever the change, following it costs less than comparing two whole results.
            outcome = memory.strategy.update(work, stratum, memory.memory)
            return replace(outcome, memory=replace(memory, memory=outcome.memory), how=memory.strategy.name)
        change = change_of(work, stratum)
        if (
            memory.memory is None
            and not memory.full_seconds
            and change.kind != "insert"
            and not _is_module(work, stratum)
        ):
            return self._again(work, stratum, memory, "nothing is remembered of it")
        if MODULAR in memory.ways and memory.way == MODULAR and _avoids_modules(memory):
            reason = f"updates with modules have taken {memory.since:.2f} s, as much as a run from scratch"
            return self._again(work, stratum, memory, reason)
        if change.rows > CHANGE_SHARE * change.read and change.rows > CHANGE_FEW:
            reason = f"the change has {change.rows:,} rows and the stratum reads {change.read:,}"
            return self._again(work, stratum, memory, reason)
        cost = memory.costs.get(change.kind)
        expected = 0.0 if cost is None else cost.of(change.rows)
        if expected > max(EXPECTED_SHARE * memory.full_seconds, TIME_MOMENT) and TIME_SHARE < 1:
            reason = (
                f"{change.rows:,} changed rows ({change.kind}) are expected to take {expected:.2f} s, "
                f"and a run from scratch takes {memory.full_seconds:.2f} s"
            )
            return self._again(work, stratum, memory.faded(change.kind), reason)
        known = cost is not None and change.rows < SIMILAR * cost.rows
        allowed = min(EXPECTED_SLACK * expected, EXPECTED_SHARE * memory.full_seconds) if known else 0.0
        return self._maintain(work, stratum, memory, change, allowed)

    def _maintain(self, work: Work, stratum: Stratum, memory: Chosen, change: ChangeSize, allowed: float) -> Outcome:
        """Follow the change under the eyes of a guard."""
        observe, started = work.on_round, time.perf_counter()
        size = sum(len(work.old[name]) for name in stratum.relations)
        guard = work.on_round = _Guard(work, size, memory.full_seconds, allowed)
        work.backend.watch(guard.look)
        try:
            outcome = memory.strategy.update(work, stratum, memory.memory)
        except Limit as limit:
            work.on_round = observe
            work.backend.watch(None)
            return self._again(work, stratum, memory, str(limit))
        except Abandoned as reason:
            work.on_round = observe
            work.backend.watch(None)
            # It would have taken longer than that; how much longer is not known.
            seconds = max(guard.prepared + 2 * guard.spent, memory.full_seconds)
            learned = memory.learned(change.kind, seconds, change.rows)
            return self._again(work, stratum, learned, f"{reason} ({memory.way}, {change.rows:,} rows, {change.kind})")
        finally:
            work.on_round = observe
            work.backend.watch(None)
        seconds = time.perf_counter() - started
        # Maps and indexes that are made once are for the epochs to come too.
        learned = memory.learned(change.kind, min(seconds, guard.spent), change.rows)
        how = f"{memory.way}: {change.rows:,} rows ({change.kind}) affected {guard.affected:,} facts"
        chosen = replace(learned, memory=outcome.memory)
        return replace(outcome, memory=chosen, how=memory.strategy.name, why=how)

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> Chosen:
        """Facts alone are enough to go on with counters."""
        return Chosen(DRedC(), None, 0.0)

    def _again(self, work: Work, stratum: Stratum, memory: Chosen, reason: str) -> Outcome:
        work.notes.append(f"{', '.join(stratum.relations)} recomputed: {reason}")
        return replace(again(work, stratum, self.bootstrap(work, stratum, memory)), why=reason)


def _avoids_modules(memory: Chosen) -> bool:
    """Whether epochs without modules have cost less; while nobody knows, whether those with them have cost a run."""
    plain, modular = memory.ways.get(Ranked.name), memory.ways.get(MODULAR)
    if modular is None:
        return False
    return memory.since > memory.full_seconds if plain is None else modular > plain


def _is_module(work: Work, stratum: Stratum) -> bool:
    """Whether modules can do all the recursion of a stratum."""
    owned = owned_by(work.modules.get(stratum.index, ()))
    return all(rule.number in owned for rule in stratum.recursive)


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """How many rows changed of what a stratum reads, how many it reads, and of what kind the change is."""

    rows: int
    read: int
    kind: str


def change_of(work: Work, stratum: Stratum) -> ChangeSize:
    """The size of the change that a stratum has to follow."""
    rules = (*stratum.nonrecursive, *stratum.recursive)
    names = set().union(*(relations_of(rule.body) for rule in rules)) - set(stratum.relations)
    changes = [work.changes[name] for name in names if name in work.changes]
    changes += [work.explicit_changes[name] for name in stratum.relations if name in work.explicit_changes]
    plus, minus = sum(len(change.plus) for change in changes), sum(len(change.minus) for change in changes)
    read = sum(len(work.old[name]) for name in names) + sum(len(work.explicit[name]) for name in stratum.relations)
    return ChangeSize(plus + minus, read, "mixed" if plus and minus else "delete" if minus else "insert")


class _Guard:
    """Watches the affected part and the time; raises `Abandoned` when maintaining stops being worth it."""

    def __init__(self, work: Work, size: int, full_seconds: float, allowed: float) -> None:
        self._observe = work.on_round
        self._size = size
        self._full_seconds = full_seconds
        # The clock starts with the first round: maps made before it are for the epochs to come too, if they do not
        # take longer than a run.
        self._began = time.perf_counter()
        self._started: float | None = None
        self._limit = max(TIME_SHARE * full_seconds, allowed, TIME_MOMENT)
        self._fronts: list[int] = []
        self.affected = 0

    @property
    def spent(self) -> float:
        """The seconds since the first round."""
        return 0.0 if self._started is None else time.perf_counter() - self._started

    @property
    def prepared(self) -> float:
        """The seconds before the first round."""
        return (self._started or time.perf_counter()) - self._began

    def __call__(self, round_: int, facts: int) -> None:
        self._observe(round_, facts)
        self.affected += facts
        self._fronts.append(facts)
        if self.affected > max(AFFECTED_FEW, AFFECTED_SHARE * self._size):
            raise Abandoned(f"{self.affected:,} facts affected, of {self._size:,}")
        self._started = self._started or time.perf_counter()
        self.look()
        spent, rest = self.spent, self._rest()
        if spent > EARLY_SHARE * self._limit and spent * (1 + rest) > self._full_seconds:
            raise Abandoned(
                f"{spent:.2f} s spent for {self.affected:,} facts and more to come, "
                f"and a run from scratch takes {self._full_seconds:.2f} s"
            )

    def look(self) -> None:
        """Raises when the time is up."""
        spent = self.spent
        if self._started is None and self.prepared > max(TIME_SHARE / 0.3 * self._full_seconds, TIME_MOMENT):
            raise Abandoned(f"{self.prepared:.2f} s for counters, and a run takes {self._full_seconds:.2f} s")
        if spent > self._limit * (SHRINKING_SHARE if self._rest() < 0.5 else 1.0):
            raise Abandoned(f"{spent:.2f} s spent, and a run from scratch takes {self._full_seconds:.2f} s")

    def _rest(self) -> float:
        """What is still to come, as a multiple of what was: fronts that shrink go on shrinking, others go on."""
        if len(self._fronts) < 3:
            return 1.0
        last, before = self._fronts[-1], max(self._fronts[-2], 1)
        ratio = min(last / before, 0.9)
        return last * ratio / (1 - ratio) / max(self.affected, 1)
