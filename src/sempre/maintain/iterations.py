"""Counting by iteration: `counting` keeps how often a fact is derived in every iteration, `elastic` only in its first.

Evaluation goes in strict rounds. I_0 are the explicit facts of the stratum, I_k adds the heads of all instances true in
I_(k-1). The *level* of a fact is the first k with the fact in I_k. An update walks the levels of the old run and of the
new one side by side; at each it compares the two states with the same plans that find what a change below makes and
breaks. The difference in the number of true instances, added to what was counted before, gives the new counts:

- `counting` has the number of instances that become true at every level, for every fact;
- `elastic` has it at the fact's own level alone. A fact that was derived earlier than now, and whose old count is thus
  unknown here, is counted again, backward, from the facts that derive it. Such facts are split by variable, so that
  they filter instances and multiply none.

After any update the state equals what a run from scratch on the new input gives, levels and counts included.

Reference: [Zhao] Alg. 2 and 3; counting per iteration as in [Wolfson91].
Differs: the difference is taken over all instances at once, so that an instance changed in several ways counts once;
old and new levels are kept side by side; when the old run was longer than the new one, its tail is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import ClassVar

from sempre.analysis.model import NormalRule, Stratum
from sempre.data import dataclass
from sempre.maintain.memory import Checks, Memory, MemorySink, MemorySource, Meta, how_many
from sempre.maintain.planning import change_pivots, pivot_relation
from sempre.maintain.states import LowerStrata, Sides, ViewDict, read_alike, read_step
from sempre.maintain.strategy import Abandoned, Change, Outcome, Work, as_update, nonempty, refuse_recomputation
from sempre.plan.backend import Backend, Counted, Executable, Rows, Version, View
from sempre.plan.ops import SPLIT, Order, Pivot, Read


@dataclass(frozen=True, slots=True)
class Level:
    """One iteration: the facts it is the first to derive, and the instances that it counts."""

    facts: Mapping[str, Rows]
    counts: Mapping[str, Counted]

    @property
    def is_empty(self) -> bool:
        return not any(map(len, self.facts.values())) and not any(map(len, self.counts.values()))


@dataclass(frozen=True, slots=True)
class Levels:
    """The iterations of a stratum, from 1 on (0 are the explicit facts), and how long a run from scratch took."""

    levels: tuple[Level, ...]
    bootstrap_seconds: float

    kind: ClassVar[str] = "levels"
    sets: ClassVar[Mapping[str, int]] = {"count": 1, "new": 1}  # the iteration comes first

    def describe(self) -> Meta:
        return {"levels": len(self.levels), "seconds": self.bootstrap_seconds}

    def write(self, shelf: MemorySink) -> None:
        for number, level in enumerate(self.levels, 1):
            for name, counted in level.counts.items():
                shelf.counted("count", name, counted, number)
            for name, rows in level.facts.items():
                shelf.rows("new", name, rows, 1, number)

    @classmethod
    def read(cls, meta: Meta, stratum: Stratum, shelf: MemorySource) -> Levels:
        counts, facts = (shelf.iterations(kind, stratum, meta["levels"]) for kind in ("count", "new"))
        levels = [
            Level({name: new.rows() for name, new in found.items()}, counted)
            for counted, found in zip(counts, facts, strict=True)
        ]
        return cls(tuple(levels), meta["seconds"])

    def check(self, work: Work, stratum: Stratum, checks: Checks) -> None:
        """Every iteration is that of a run from scratch."""
        rerun = ByIteration(checks.strategy != "counting").bootstrap(work, stratum).memory
        assert isinstance(rerun, Levels)
        for number in range(max(len(self.levels), len(rerun.levels))):
            have, want = self._level(number), rerun._level(number)
            for name in stratum.relations:
                _compare(work.backend, name, number + 1, have, want, checks)

    def _level(self, number: int) -> Level:
        return self.levels[number] if number < len(self.levels) else Level({}, {})


def _compare(backend: Backend, name: str, number: int, have: Level, want: Level, checks: Checks) -> None:
    """One iteration: how often facts are derived, and which are new."""
    counts = [level.counts.get(name) or backend.total(name, []) for level in (have, want)]
    if checks.compare(name, "iteration", f"the count of `{name}` in iteration {number}", counts[0], counts[1]):
        return
    new = [level.facts.get(name) or backend.empty(name).rows() for level in (have, want)]
    rows = backend.difference(new[0], backend.version(new[1]))
    message = f"{how_many(len(rows))} of `{name}` should not be new in iteration {number}"
    checks.wrong(name, "iteration", rows, message, examples=False)


class ByIteration:
    """`counting` or `elastic`.

    `elastic` tries Update, and switches to Bootstrap when that takes longer than the share `switch` of the last
    Bootstrap: never if it is infinite, which is Update alone, and at once if it is 0, which is Bootstrap alone.
    """

    forgetful = False

    def __init__(self, sparse: bool, switch: float | None = None) -> None:
        self.name = "elastic" if sparse else "counting"
        self._sparse = sparse
        self._switch = switch

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        started = time.perf_counter()
        run = _Bootstrap(work, stratum, self._sparse)
        run.run()
        changes = {name: Change(v.rows(), work.backend.empty(name).rows()) for name, v in run.state.items()}
        memory = Levels(tuple(run.levels), time.perf_counter() - started)
        return Outcome(run.state, changes, memory, len(run.levels))

    def update(self, work: Work, stratum: Stratum, memory: Levels) -> Outcome:
        if not self._sparse:
            return _LevelUpdate(work, stratum, memory, False).run()
        observe, started, limits = work.on_round, time.perf_counter(), work.backend.limits
        share = limits.switch_share if self._switch is None else self._switch
        limit = share * memory.bootstrap_seconds if share else 0.0
        if self._switch is None:
            limit = max(limit, limits.time_moment)
        switch = f"{share:g} of the last Bootstrap, {memory.bootstrap_seconds:.3f} s"

        def look(rest: float | None = None) -> None:
            spent = time.perf_counter() - started
            if spent > limit:
                raise Abandoned(f"Update took {spent:.3f} s, more than {switch}")

        def guard(round_: int, facts: int) -> None:
            observe(round_, facts)
            look()

        work.on_round = guard
        work.backend.watch(look)
        try:
            if not share:
                raise Abandoned("the switch is at 0")
            outcome = _LevelUpdate(work, stratum, memory, True).run()
            spent = time.perf_counter() - started
            return replace(outcome, why=f"Update took {spent:.3f} s; the switch is at {switch}")
        except Abandoned as reason:
            work.on_round = observe
            work.backend.watch(None)
            refuse_recomputation(work, stratum, str(reason))
            work.notes.append(f"{', '.join(stratum.relations)}: bootstrap, since {reason}")
            return replace(as_update(work, stratum, self.bootstrap(work, stratum)), why=f"Bootstrap, since {reason}")
        finally:
            work.on_round = observe
            work.backend.watch(None)

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> Memory | None:
        """What a run from scratch would remember."""
        return self.bootstrap(standing(), stratum).memory


class _Rounds:
    """Plans and views that bootstrap and update share."""

    def __init__(self, work: Work, stratum: Stratum) -> None:
        self.work = work
        self.backend = work.backend
        self.stratum = stratum
        self.below = LowerStrata(work, stratum)
        self.sizes = {**work.old, **work.new}
        self.orders: dict[str, set[Order]] = {}

    def plan(self, rule: NormalRule, pivot: Pivot | None) -> Executable:
        """A plan, with the orders it needs noted."""
        plans = self.work.plans
        ready = plans.full(rule, self.sizes) if pivot is None else plans.delta(rule, pivot, self.sizes)
        for name, orders in self.below.orders([(rule, pivot)]).items():
            self.orders.setdefault(name, set()).update(orders)
        return ready

    def pivots(self, rule: NormalRule, changed: Container[str]) -> list[Pivot]:
        found = change_pivots(rule, changed)
        return [Pivot(pivot.literal, pivot.inner, uniform=True) for pivot in found]

    def start(self, name: str, rows: Rows) -> Version:
        return self.backend.version(rows, self.orders.get(name, ()))


class _Bootstrap(_Rounds):
    """A run from scratch that counts."""

    def __init__(self, work: Work, stratum: Stratum, sparse: bool) -> None:
        super().__init__(work, stratum)
        self._sparse = sparse
        self._first = [(rule.relation, self.plan(rule, None)) for rule in stratum.nonrecursive]
        self._ready = [
            (rule.relation, pivot_relation(rule, pivot), self.plan(rule, pivot))
            for rule in stratum.recursive
            for pivot in self.pivots(rule, stratum.relations)
        ]
        self.state: dict[str, Version] = {}
        self.levels: list[Level] = []

    def run(self) -> None:
        backend, work = self.backend, self.work
        below = self.below.standing(self.orders)
        self.state = {name: self.start(name, backend.empty(name).rows()) for name in self.stratum.relations}
        delta = {name: work.explicit[name].rows() for name in self.stratum.relations}
        while True:
            counts = self._counts(delta, below, first=not self.levels)
            facts = {name: backend.difference(c.rows(), self.state[name]) for name, c in counts.items()}
            if self._sparse:
                counts = {name: backend.restricted(counts[name], rows) for name, rows in facts.items()}
            level = Level(facts, counts)
            backend.settle([*facts.values(), *counts.values()])
            if level.is_empty:
                break
            self.levels.append(level)
            work.on_round(len(self.levels), sum(map(len, facts.values())))
            delta = facts

    def _counts(self, delta: Mapping[str, Rows], below: ViewDict, first: bool) -> dict[str, Counted]:
        """The instances that become true once `delta` is there; adds it to the state."""
        backend, views = self.backend, dict(below)
        for name in self.stratum.relations:
            rows, before, only = delta.get(name), backend.view(self.state[name]), None
            if rows is not None and len(rows):
                self.state[name] = self.state[name].adding(rows)
                only = backend.view(self.start(name, rows))
            read_step(views, name, backend.view(self.state[name]), before, only)
        by_head: dict[str, list[Executable]] = {}
        for head, plan in self._first if first else ():
            by_head.setdefault(head, []).append(plan)
        for head, reads, plan in self._ready:
            if reads in delta and len(delta[reads]):
                by_head.setdefault(head, []).append(plan)
        return {head: backend.count(head, plans, views) for head, plans in by_head.items()}


class _LevelUpdate(_Rounds):
    """The old run and the new one, level by level."""

    def __init__(self, work: Work, stratum: Stratum, memory: Levels, sparse: bool) -> None:
        super().__init__(work, stratum)
        self._memory = memory
        self._sparse = sparse
        self._jobs: list[tuple[NormalRule, Pivot, str]] = []
        for rule in stratum.recursive:
            for pivot in self.pivots(rule, {*stratum.relations, *self.below.changed}):
                self.plan(rule, pivot)
                self._jobs.append((rule, pivot, pivot_relation(rule, pivot)))
        if sparse:
            for rule in (*stratum.nonrecursive, *stratum.recursive):
                self.plan(rule, SPLIT)
        # The old run so far, and what the new one has less and more.
        empty = {name: self.start(name, self.backend.empty(name).rows()) for name in stratum.relations}
        self._old, self._minus, self._plus = dict(empty), dict(empty), dict(empty)
        self._levels: list[Level] = []

    def run(self) -> Outcome:
        work, stratum = self.work, self.stratum
        always = self._merge(
            self.below.difference(stratum.nonrecursive, gained=True, own={}),
            self.below.difference(stratum.nonrecursive, gained=False, own={}),
        )
        views = {side: self.below.compared(self.orders, gained=side) for side in (True, False)}
        nothing = {name: self.backend.empty(name).rows() for name in stratum.relations}
        changes = work.explicit_changes
        self._advance(
            {name: work.explicit_before[name].rows() for name in stratum.relations},
            {name: work.explicit[name].rows() for name in stratum.relations},
        )
        before: dict[str, Counted] = {}
        number = 0
        while True:
            old = self._memory.levels[number] if number < len(self._memory.levels) else Level({}, {})
            number += 1
            gain = self._difference(always, views)
            if not changes and not gain and not before and self._agree() and not self.below.changed:
                return self._finish((*self._levels, *self._memory.levels[number - 1 :]))
            level = self._level(old, gain, before)
            self.backend.settle([*level.facts.values(), *level.counts.values()])
            before = gain
            if level.is_empty and number > len(self._memory.levels):
                return self._finish(tuple(self._levels))
            self._levels.append(level)
            work.on_round(number, sum(map(len, level.facts.values())))
            self._advance({**nothing, **old.facts}, {**nothing, **level.facts})

    def _agree(self) -> bool:
        return not any(map(len, (*self._minus.values(), *self._plus.values())))

    def _merge(self, plus: Mapping[str, Counted], minus: Mapping[str, Counted]) -> dict[str, Counted]:
        """Signed sums per relation; relations without any are left out."""
        merged = {}
        for name in {*plus, *minus}:
            parts = [plus[name]] if name in plus else []
            parts += [minus[name].negated()] if name in minus else []
            merged[name] = self.backend.total(name, parts)
        return nonempty(self.backend, merged)

    def _difference(self, always: Mapping[str, Counted], below: Mapping[bool, ViewDict]) -> dict[str, Counted]:
        """True instances now, less true instances then, at the present level."""
        sides = {}
        for gained in (True, False):
            views = dict(below[gained])
            ready: dict[str, list[Executable]] = {}
            for name in self.stratum.relations:
                self._sides(name).put(views, name, gained)
            moved = {n for n in self.stratum.relations if len(self._minus[n]) or len(self._plus[n])}
            for rule, pivot, reads in self._jobs:
                if reads in moved or reads in self.below.changed:
                    ready.setdefault(rule.relation, []).append(self.plan(rule, pivot))
            sides[gained] = {head: self.backend.count(head, plans, views) for head, plans in ready.items()}
        recursive = self._merge(sides[True], sides[False])
        return self._sum(always, recursive)

    def _sum(self, one: Mapping[str, Counted], other: Mapping[str, Counted]) -> dict[str, Counted]:
        return self._merge(one, {name: counted.negated() for name, counted in other.items()})

    def _sides(self, name: str) -> Sides:
        """The stratum's own relation in both runs."""
        backend, then, minus = self.backend, self._old[name], self._minus[name]
        return Sides.before(backend, backend.view(then), backend.view(then, without=minus), self._plus[name], minus)

    def _now(self, name: str) -> View:
        kept = self.backend.view(self._old[name], without=self._minus[name])
        return kept.plus(self._plus[name]) if len(self._plus[name]) else kept

    def _level(self, old: Level, gain: Mapping[str, Counted], before: Mapping[str, Counted]) -> Level:
        """The facts and counts of the next level of the new run."""
        backend = self.backend
        counts: dict[str, Counted] = {}
        for name in self.stratum.relations:
            parts = [old.counts[name]] if name in old.counts else []
            if name in gain:
                parts.append(gain[name])
            if not self._sparse and name in before:
                parts.append(before[name].negated())
            counted = backend.total(name, parts)
            if self._sparse:
                # What was derived before then has no count here; what is derived already now needs none.
                counted = backend.excluded(counted, self._now(name))
                counted = backend.excluded(counted, self._old[name])
                counted = backend.total(name, [counted, self._again(name)])
            if len(counted):
                counts[name] = counted
        facts = {name: backend.difference(counted.rows(), self._now(name)) for name, counted in counts.items()}
        return Level(facts, counts)

    def _again(self, name: str) -> Counted:
        """Facts that the old run had by now and the new one has not: counted anew."""
        backend, rows = self.backend, self._minus[name].rows()
        if not len(rows):
            return backend.total(name, [])
        views = self.below.standing(self.orders)
        for own in self.stratum.relations:
            read_alike(views, own, self._now(own))
        views[name, Read.ONLY] = views[name, Read.CHANGED] = backend.view(self.start(name, rows))
        rules = (*self.stratum.nonrecursive, *self.stratum.recursive)
        plans = [self.plan(rule, SPLIT) for rule in rules if rule.relation == name]
        return backend.count(name, plans, views)

    def _advance(self, old: Mapping[str, Rows], new: Mapping[str, Rows]) -> None:
        """Both runs one level on."""
        backend = self.backend
        for name in self.stratum.relations:
            went, came = old[name], new[name]
            if not len(went) and not len(came):
                continue
            coming = backend.version(came)
            plus = backend.difference(self._plus[name].rows(), backend.version(went)) if len(went) else None
            minus = backend.difference(self._minus[name].rows(), coming) if len(came) else None
            fresh = backend.difference(backend.difference(came, self._old[name]), backend.version(went))
            lost = backend.difference(backend.difference(went, self._plus[name]), coming)
            self._old[name] = self._old[name].adding(went)
            if minus is not None or len(lost):
                left = self._minus[name].rows() if minus is None else minus
                self._minus[name] = self.start(name, backend.union([left, lost]))
            if plus is not None or len(fresh):
                left = self._plus[name].rows() if plus is None else plus
                self._plus[name] = self.start(name, backend.union([left, fresh]))

    def _finish(self, levels: tuple[Level, ...]) -> Outcome:
        backend, versions, changes = self.backend, {}, {}
        while levels and levels[-1].is_empty:  # the old run was longer
            levels = levels[:-1]
        for name in self.stratum.relations:
            plus = backend.difference(self._plus[name].rows(), self.work.old[name])
            change = Change(plus, self._minus[name].rows())
            versions[name] = self.work.old[name].removing(change.minus).adding(change.plus)
            changes[name] = change
        return Outcome(versions, changes, Levels(levels, self._memory.bootstrap_seconds), len(levels))
