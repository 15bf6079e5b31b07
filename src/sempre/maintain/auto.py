"""The default: maintain where that is cheaper, recompute where it is not, stratum by stratum.

What is done is decided by `maintain/decide.py`, from what this file has learned: how long runs from scratch and changes
of each kind have taken. While an update runs, a guard looks at the clock, also within a round, and foretells the end
from how the rounds grow or shrink. Giving up costs what was spent so far and nothing else: versions are immutable. What
was learned of a kind of change fades each time it keeps an update from being tried, so that no choice is for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

from sempre.analysis.model import Stratum
from sempre.data import dataclass
from sempre.kernel.capacity import CapacityError
from sempre.kernel.tally import merging_seconds
from sempre.maintain import decide
from sempre.maintain.costs import COUNTERS, MODULAR, Cost, History
from sempre.maintain.decide import Decision
from sempre.maintain.dredc import DRedC, counters_of
from sempre.maintain.memory import Checks, Memory, MemorySink, MemorySource, Meta, described
from sempre.maintain.modular import PartitionedMemory, is_certain
from sempre.maintain.ranked import Ranked, Ranks, ranks_of
from sempre.maintain.recompute import materialize_with
from sempre.maintain.stopwatch import Stopwatch
from sempre.maintain.strategy import Abandoned, Outcome, Phase, Strategy, Work, as_update, refuse_recomputation

# So many fronts tell how they grow or shrink; until then, what is to come of a deletion is so many times what was.
FORETELLING = 3
BEFORE_FRONTS = 3.0
# What is to come, at most, once it is known which of the facts that went come back: so many times what was.
COMING_BACK = 0.6
# Fronts that do not shrink are taken to shrink to this share from one to the next.
GOING_ON = 0.75

WAYS: Mapping[str, type[DRedC] | type[Ranked]] = {DRedC.name: DRedC, Ranked.name: Ranked}


@dataclass(frozen=True, slots=True)
class ChosenStrategy:
    """How a stratum is maintained, what that needs to remember, and what is known of its cost."""

    strategy: Strategy
    memory: Memory | None
    learned: History = field(default_factory=History)

    kind: ClassVar[str] = "chosen"
    sets: ClassVar[Mapping[str, int]] = {}  # all of them are those of the memory within

    def describe(self) -> Meta:
        inner, known = described(self.memory, self.strategy.name), self.learned
        # What modules keep is not stored. What was learned is, whatever becomes of the memory.
        forgotten = inner is None or (self.memory is None and known.forgotten)
        return {
            "seconds": known.full_seconds,
            "costs": _described(known.costs),
            "ways": dict(known.ways),
            "since": known.since,
            "preparing": known.preparing,
            "others": {way: _described(costs) for way, costs in known.others.items()},
            "recent": [[kind, rows] for kind, rows in known.recent],
            "excess": known.excess,
            "way": self.way,
            "forgotten": forgotten,
            "memory": inner or described(None, self.strategy.name),
        }

    def write(self, shelf: MemorySink) -> None:
        if self.memory is not None:
            self.memory.write(shelf)

    @classmethod
    def read(cls, meta: Meta, stratum: Stratum, shelf: MemorySource) -> ChosenStrategy:
        inner = meta["memory"]
        memory, strategy = shelf.memory(inner, stratum), shelf.strategy(inner["strategy"])
        learned = History(
            meta["seconds"],
            _read_costs(meta.get("costs", {})),
            meta.get("ways", {}),
            meta.get("since", 0.0),
            meta.get("way", strategy.name),
            forgotten=meta.get("forgotten", False),
            preparing=meta.get("preparing", 0.0),
            others={way: _read_costs(costs) for way, costs in meta.get("others", {}).items()},
            recent=tuple((kind, rows) for kind, rows in meta.get("recent", ())),
            excess=meta.get("excess", 0.0),
        )
        return cls(strategy, memory, learned)

    def check(self, work: Work, stratum: Stratum, checks: Checks) -> None:
        if self.memory is not None:
            self.memory.check(work, stratum, checks)

    @property
    def way(self) -> str:
        """The strategy, and whether modules take part."""
        if self.memory is None and self.learned.forgotten:
            return self.learned.way
        modular = isinstance(self.memory, PartitionedMemory) and self.memory.modules
        return MODULAR if modular else self.strategy.name

    def history(self, stratum: Stratum) -> History:
        """What is known of the stratum, with how it stands."""
        forgotten = self.memory is None and (self.learned.forgotten or not self.learned.full_seconds)
        unprepared = isinstance(self.memory, Ranks) and bool(stratum.recursive) and self.memory.ranks is None
        certain = is_certain(stratum, self.memory)
        return replace(self.learned, way=self.way, certain=certain, forgotten=forgotten, unprepared=unprepared)


class Auto:
    """Chooses per stratum and epoch."""

    name = "auto"
    forgetful = False

    def bootstrap(self, work: Work, stratum: Stratum, before: History | None = None, given_up: bool = False) -> Outcome:
        """See `Strategy`. What was learned `before` is kept; after an update was `given_up`, no new way is tried."""
        watch, limits = Stopwatch(), work.backend.limits
        modules = decide.modules_after(before, work.modules.get(stratum.index, ()))
        way, changing = (before or History()).next_way(limits)
        if given_up and before is not None and before.way != COUNTERS:
            way = before.way  # to count all instances would make this epoch take even longer
        counters: Memory | None = None
        try:
            outcome, fixpoint = materialize_with(
                work, stratum, modules=modules, counting=True, counters=way == COUNTERS and bool(stratum.recursive)
            )
            counters = counters_of(work, stratum, fixpoint, outcome.versions)
        except CapacityError:  # numbers that do not fit
            outcome, fixpoint = materialize_with(work, stratum, modules=modules)
        modular = isinstance(outcome.memory, PartitionedMemory) and bool(outcome.memory.modules)
        name, why = decide.upkeep(modular, fixpoint.walked, fixpoint.rounds, limits)
        if name != COUNTERS and counters is not None:
            name, why = COUNTERS, changing or "updates have taken less than by ranks"
        strategy: Strategy = WAYS[name]()
        memory: Memory | None
        if name == COUNTERS:
            memory = counters if outcome.memory is None else outcome.memory
        else:
            memory = ranks_of(work, stratum, fixpoint)
        chosen = ChosenStrategy(strategy, memory)
        known = (before or History()).started(watch.seconds, chosen.way, limits)
        why = "; ".join(filter(None, (outcome.why, f"from now on by {chosen.way}: {why}")))
        return replace(outcome, memory=replace(chosen, learned=known), how="recompute", why=why)

    def update(self, work: Work, stratum: Stratum, memory: ChosenStrategy) -> Outcome:
        decision = work.decision
        assert decision is not None, "`auto` goes by what was decided for the stratum"
        assert decision.history is not None
        if decision.strategy == decide.RECOMPUTE:
            return self._again(work, stratum, decision.history, decision.why)
        if decision.history.certain:
            # Nothing but closures: whatever the change, following it costs less than comparing two whole results.
            outcome = memory.strategy.update(work, stratum, memory.memory)
            chosen = replace(memory, memory=outcome.memory)
            return replace(outcome, memory=chosen, how=memory.strategy.name, why=decision.why)
        return self._maintain(work, stratum, memory, decision, decision.history)

    def _maintain(
        self, work: Work, stratum: Stratum, memory: ChosenStrategy, decision: Decision, history: History
    ) -> Outcome:
        """Follow the change under the eyes of a guard."""
        observe, watch = work.on_round, Stopwatch()
        change, limits = decision.change, work.backend.limits
        assert change is not None
        size = sum(len(work.old[name]) for name in stratum.relations)
        guard = work.on_round = _Guard(work, size, history.full_seconds, decision.seconds, change.kind == "insert")
        work.on_phase = guard.turn
        work.backend.watch(guard.look)
        try:
            outcome = memory.strategy.update(work, stratum, memory.memory)
        except (CapacityError, Abandoned) as reason:
            _unwatched(work, observe)
            history = _prepared(history, guard, change.kind)
            why = str(reason)
            if isinstance(reason, Abandoned):
                # It would have taken longer than that; how much longer can only be guessed.
                foretold = limits.believed_share * guard.expected
                seconds = min(max(2 * guard.spent, foretold), 2 * history.full_seconds)
                history = history.learned(change.kind, seconds, change.rows, limits.similar_share, guessed=True)
                why = f"{reason} ({memory.way}, {change.rows:,} rows, {change.kind})"
            work.notes.append(f"{', '.join(stratum.relations)} recomputed: {why}")
            return self._again(work, stratum, history, why, isinstance(reason, Abandoned))
        finally:
            _unwatched(work, observe)
        seconds = watch.seconds
        # Maps and indexes that are made once are for the epochs to come too.
        spent = min(seconds, guard.spent)
        learned = _prepared(history, guard, change.kind).learned(change.kind, spent, change.rows, limits.similar_share)
        affected = f"they affected {guard.affected:,} facts and took {seconds:.3f} s"
        chosen = ChosenStrategy(memory.strategy, outcome.memory, learned)
        return replace(outcome, memory=chosen, how=memory.strategy.name, why=f"{decision.why}; {affected}")

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> ChosenStrategy:
        """Facts alone are enough to go on with counters."""
        return ChosenStrategy(DRedC(), None)

    def _again(self, work: Work, stratum: Stratum, history: History, reason: str, given_up: bool = False) -> Outcome:
        refuse_recomputation(work, stratum, reason)
        outcome = as_update(work, stratum, self.bootstrap(work, stratum, history, given_up))
        return replace(outcome, why=f"{reason}; {outcome.why}")


def _prepared(history: History, guard: _Guard, kind: str) -> History:
    """With how long the maps took, if they were made."""
    return replace(history, preparing=guard.prepared) if history.unprepared and kind != "insert" else history


def _unwatched(work: Work, observe: Callable[[int, int], None]) -> None:
    """Nobody looks at the clock any more."""
    work.on_round, work.on_phase = observe, lambda phase: None
    work.backend.watch(None)


def _described(by_kind: Mapping[str, tuple[Cost, ...]]) -> dict[str, list[list[float]]]:
    return {kind: [[cost.seconds, cost.rows, int(cost.guessed)] for cost in costs] for kind, costs in by_kind.items()}


def _read_costs(meta: Mapping[str, Any]) -> dict[str, tuple[Cost, ...]]:
    return {kind: _costs(numbers) for kind, numbers in meta.items()}


def _costs(numbers: Sequence[Any]) -> tuple[Cost, ...]:
    """Costs by size; stores of old have one for all sizes."""
    each = numbers if isinstance(numbers[0], Sequence) else [numbers]
    return tuple(Cost(seconds, rows, any(guessed)) for seconds, rows, *guessed in each)


class _Guard:
    """Watches the affected part and the time; raises `Abandoned` when maintaining stops being worth it."""

    def __init__(self, work: Work, size: int, full_seconds: float, allowed: float, grows: bool = False) -> None:
        self._observe = work.on_round
        self._limits = limits = work.backend.limits
        self._size = size
        self._full_seconds = full_seconds
        # The clock starts with the first phase or round: maps made before it are for the epochs to come too, if they do
        # not take longer than a run.
        self._whole = Stopwatch()
        self._begun: float | None = None
        self._merged = merging_seconds()
        self._certain = allowed > 0 or grows
        # What only grows is followed instance by instance, as in a run from scratch: that ends before such a run would.
        share = limits.grown_share if grows else limits.time_share
        self._limit = max(share * full_seconds, allowed, limits.time_moment)
        self._phase: Phase | None = None
        self._has_deleted = False
        self._fronts: list[int] = []
        # When the last front was told.
        self._told = 0.0
        self.affected = 0
        # The seconds that all of it was expected to take when somebody looked last.
        self.expected = 0.0

    @property
    def spent(self) -> float:
        """The seconds since the first phase, without those for maps."""
        return 0.0 if self._begun is None else max(self._whole.seconds - self._begun - self._merging, 0.0)

    @property
    def prepared(self) -> float:
        """The seconds before the first phase, and those for maps after it."""
        return self._whole.seconds if self._begun is None else self._begun + self._merging

    @property
    def _merging(self) -> float:
        """The seconds that maps took which were asked for so much that they were put together."""
        return merging_seconds() - self._merged

    def turn(self, phase: Phase) -> None:
        """A phase begins."""
        self._has_deleted |= self._phase is Phase.DELETING
        self._phase, self._fronts = phase, []
        self._start()

    def _start(self) -> None:
        if self._begun is None:
            self._begun, self._merged = self._whole.seconds, merging_seconds()

    def __call__(self, round_: int, facts: int) -> None:
        self._observe(round_, facts)
        limits = self._limits
        self.affected += facts
        self._fronts.append(facts)
        if self.affected > max(limits.affected_rows, limits.affected_share * self._size):
            raise Abandoned(f"{self.affected:,} facts affected, of {self._size:,}")
        self._start()
        self._told = self.spent
        self.look()

    def look(self, rest: float | None = None) -> None:
        """Raises when the time is up, or will be; `rest` is what is to come, as a multiple of what was."""
        full, limits = self._full_seconds, self._limits
        if self._begun is None:
            if self._whole.passed > limits.time_moment and self.prepared > max(
                limits.prepare_share * full, limits.time_moment
            ):
                raise Abandoned(f"{self.prepared:.2f} s for counters, and a run takes {full:.2f} s")
            return
        early = limits.early_share * self._limit
        if self._whole.passed - self._begun <= early or (spent := self.spent) <= early:
            return
        since = spent if rest is not None or not self._has_ended() else self._told
        rest = self._rest() if rest is None else rest
        self.expected = max(since * (1 + rest), spent)
        near = self.expected < limits.near_share * full or self.expected - spent < limits.rest_share * full
        if spent > self._limit * (limits.shrinking_share if near else 1.0):
            raise Abandoned(f"{spent:.2f} s spent, and a run from scratch takes {full:.2f} s")
        if not self._certain and self.expected > limits.foretold_share * full:
            raise Abandoned(
                f"{spent:.2f} s spent, {self.expected:.2f} s expected for {self.affected:,} facts and what follows "
                f"from them, and a run from scratch takes {full:.2f} s"
            )

    def _has_ended(self) -> bool:
        """Whether all that goes has gone: what may come back is looked for then, which takes no round."""
        fronts = self._fronts
        deleting = self._phase is Phase.DELETING and len(fronts) >= FORETELLING
        return deleting and fronts[-1] <= self._limits.ended_share * sum(fronts)

    def _rest(self) -> float:
        """What is still to come, as a multiple of what was.

        Fronts that shrink go on shrinking, others go on for a while. What goes may come back: to look for it and to
        follow it takes as long again.
        """
        if len(self._fronts) < FORETELLING:
            if self._has_deleted:
                return COMING_BACK
            return BEFORE_FRONTS if self._phase in (Phase.COMPARING, Phase.DELETING) else 1.0
        last, before = self._fronts[-1], max(self._fronts[-2], 1)
        ratio = min(last / before, GOING_ON)
        rest = last * ratio / (1 - ratio) / max(sum(self._fronts), 1)
        if self._phase is Phase.DELETING:
            return 2 * rest + 1
        return min(rest, COMING_BACK) if self._has_deleted else rest
