"""What the updates of a stratum have in common: an overlay on the old facts, and insertion to the fixpoint.

While an update runs, a relation is its old version without the facts that are dead, plus the facts that were added.
Nothing is copied; at the end the net change is applied once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sempre.analysis.model import NormalRule, Stratum
from sempre.maintain.memory import Memory
from sempre.maintain.modular import Exchange
from sempre.maintain.planning import change_pivots, pivot_relation, pivots
from sempre.maintain.states import LowerStrata, ViewDict, read_alike, read_step
from sempre.maintain.strategy import Change, Outcome, Phase, Work
from sempre.plan.backend import Counted, Executable, Grown, Rows, Tally, Version, View, Walk
from sempre.plan.ops import HEAD, Pivot, Read

Job = tuple[NormalRule, Pivot]


class StratumUpdate:
    """One update of one stratum under way.

    `dead` has the facts taken out so far, `added` those put on top of what is left (they may be dead ones that came
    back). With `rec`, insertion counts the recursive instances of every fact; with `supports`, those of every fact that
    it adds which derive it when it is new.
    """

    def __init__(
        self,
        work: Work,
        stratum: Stratum,
        extra: Iterable[Job] = (),
        walking: bool = True,
        exchange: Exchange | None = None,
    ) -> None:
        self.work = work
        self.exchange = exchange or Exchange(work, stratum, ())
        self._walking = walking and not self.exchange
        self.backend = work.backend
        self.stratum = stratum
        self.below = LowerStrata(work, stratum)
        self.rec: dict[str, Tally] | None = None
        self.supports: dict[str, list[Counted]] | None = None
        # Whether dead facts that come back have been counted as a whole, so that insertion must not count them.
        self.counted_back = True
        self.rounds = 0
        jobs = [(rule, pivot) for rule in stratum.recursive for pivot in pivots(rule, stratum.relations)]
        changes = [(rule, pivot) for rule in stratum.recursive for pivot in change_pivots(rule, self.below.changed)]
        extra = list(extra)
        for rule, pivot in (*changes, *extra):
            self.plan(rule, pivot)
        self._ready = [(rule.relation, pivot_relation(rule, pivot), self.plan(rule, pivot)) for rule, pivot in jobs]
        self.orders = self.below.orders([*jobs, *changes, *extra])
        self.old: dict[str, Version] = {
            name: work.old[name].indexed(self.orders.get(name, ())) for name in stratum.relations
        }
        # What each round of insertion found, by its number.
        self.fronts: dict[str, list[tuple[int, Rows]]] = {name: [] for name in stratum.relations}
        self.dead = {name: self._empty(name) for name in stratum.relations}
        self.added = {name: self._empty(name) for name in stratum.relations}

    def plan(self, rule: NormalRule, pivot: Pivot) -> Executable:
        return self.work.plans.delta(rule, pivot, {**self.work.old, **self.work.new})

    def _empty(self, name: str) -> Version:
        return self.backend.empty(name).indexed(self.orders.get(name, ()))

    def left(self, name: str) -> View:
        """The relation as it stands: what has survived so far, and what has been added."""
        survived = self.backend.view(self.old[name], without=self.dead[name])
        return survived.plus(self.added[name]) if len(self.added[name]) else survived

    def only(self, rows: Rows, name: str) -> View:
        """A view of a front, ready to be a pivot."""
        return self.backend.view(self.backend.version(rows, self.orders.get(name, ())))

    def note_round(self, front: Mapping[str, Rows]) -> None:
        self.rounds += 1
        self.work.on_round(self.rounds, sum(map(len, front.values())))

    def plans_for(self, front: Mapping[str, Rows]) -> dict[str, list[Executable]]:
        """The delta plans, by head, whose pivot reads a relation of the front."""
        found: dict[str, list[Executable]] = {}
        for head, reads, executable in self._ready:
            if reads in front:
                found.setdefault(head, []).append(executable)
        return found

    def walk(self, front: Mapping[str, Rows], below: ViewDict, deleting: Mapping[str, Tally] | None) -> Walk | None:
        """A walk from the front, once rounds have been small for a while."""
        limits = self.backend.limits
        if not self._walking or self.rounds < limits.walk_after:
            return None
        if sum(map(len, front.values())) > limits.walk_front:
            return None
        plans = [executable for _, _, executable in self._ready]
        if deleting is None:
            present = {name: self.left(name) for name in self.stratum.relations}
        else:
            present = {n: self.backend.view(self.old[n], without=self.dead[n]) for n in self.stratum.relations}
        return self.backend.walk(front, plans, below, present, deleting)

    def lost(
        self, ranks: Mapping[str, Tally] | None = None
    ) -> tuple[dict[str, Counted], dict[str, Counted], dict[str, Rows]]:
        """Instances that the change below breaks, nonrecursive and recursive, and explicit facts that went.

        With `ranks`, of recursive ones only those whose atoms of the stratum rank below the head.
        """
        own = {name: self.backend.view(version) for name, version in self.old.items()}
        nonrecursive = self.below.difference(self.stratum.nonrecursive, gained=False, own={})
        recursive = self.below.difference(self.stratum.recursive, gained=False, own=own, ranks=ranks)
        changes = self.work.explicit_changes
        removed = {n: changes[n].minus for n in self.stratum.relations if n in changes and len(changes[n].minus)}
        return nonrecursive, recursive, removed

    def is_any(self, *parts: Mapping[str, Rows | Counted]) -> bool:
        """Whether there is anything in these sets."""
        every = [rows for sets in parts for rows in sets.values()]
        self.backend.settle(every)
        return any(map(len, every))

    def gained(self) -> dict[str, Counted]:
        """Instances of nonrecursive rules that the change below makes."""
        return self.below.difference(self.stratum.nonrecursive, gained=True, own={})

    def certain(self, name: str, rows: Rows) -> Rows:
        """Those of some facts that are explicit after the epoch, or that a rule without recursion derives then.

        The plans from heads must be among the `extra` ones.
        """
        parts = [self.backend.intersection(rows, self.work.explicit[name])]
        rules = [rule for rule in self.stratum.nonrecursive if rule.relation == name]
        if rules and len(rows):
            views = self.below.standing(self.orders)
            views[name, Read.ONLY] = self.only(rows, name)
            plans = [self.plan(rule, HEAD) for rule in rules]
            parts.append(self.backend.derive(name, plans, views, self.backend.empty(name)))
        return self.backend.union(parts)

    # ------------------------------------------------------------------------------------------------- deleting

    def bury(self, front: Mapping[str, Rows], below: ViewDict) -> ViewDict:
        """Take the front out; returns the views in which the instances it breaks are found."""
        views = dict(below)
        for name in self.stratum.relations:
            before, only = self.backend.view(self.old[name], without=self.dead[name]), None
            if name in front:
                self.dead[name] = self.dead[name].adding(front[name])
                only = self.only(front[name], name)
            read_step(views, name, before, self.backend.view(self.old[name], without=self.dead[name]), only)
        return views

    def take_out(self, gone: Mapping[str, Rows], touched: int) -> None:
        """Take out facts that are known not to come back unless what is new below derives them."""
        self.rounds += 1
        self.work.on_round(self.rounds, touched)
        self.counted_back = False
        for name, rows in gone.items():
            self.dead[name] = self.dead[name].adding(rows)

    # ------------------------------------------------------------------------------------------------ inserting

    def insert(self, gained: Mapping[str, Counted], again: Mapping[str, Rows]) -> None:
        """Add what came back (`again`) and what is new, to the fixpoint."""
        work, backend, stratum = self.work, self.backend, self.stratum
        work.on_phase(Phase.INSERTING)
        left = {name: self.left(name) for name in stratum.relations}
        newly = self.below.difference(stratum.recursive, gained=True, own=left)
        front: dict[str, Rows] = {}
        for name in stratum.relations:
            parts = [again[name]] if name in again else []
            if name in newly and self.rec is not None:
                self.rec[name] = self.rec[name].adding(newly[name])
            if name in newly and self.supports is not None:
                fresh = backend.excluded(newly[name], left[name])
                self.supports[name].append(backend.excluded(fresh, self.dead[name]) if self.counted_back else fresh)
            parts += [backend.difference(rows, left[name]) for rows in heads((gained, newly), name)]
            if name in work.explicit_changes:
                parts.append(backend.difference(work.explicit_changes[name].plus, left[name]))
            if parts:
                front[name] = backend.union(parts)
        below = self.below.standing(self.orders)
        self.exchange.hear_new()
        while front := self.exchange.add(front, self.left):
            self.note_round(front)
            if (walked := self.walk(front, below, None)) is not None:
                front = self._insert_walked(front, walked)
            elif (grown := self._grow(front, below)) is not None:
                front = self._insert_grown(front, grown)
            else:
                front = self._insert_round(front, below)

    def _insert_walked(self, front: Mapping[str, Rows], walked: Walk) -> dict[str, Rows]:
        self.note_round(walked.followed)
        for name in self.stratum.relations:
            came = [walked.followed[name], *([front[name]] if name in front else [])]
            self.added[name] = self.added[name].adding(self.backend.union(came))
            if self.rec is not None:
                self.rec[name] = self.rec[name].adding(walked.counts[name])
        return dict(walked.pending)

    def _grow(self, front: Mapping[str, Rows], below: ViewDict) -> Grown | None:
        """What follows from a small front, with its rounds; nobody may count instances of facts that are there."""
        limits = self.backend.limits
        if self.exchange or self.rec is not None or not self._ready or self.rounds <= limits.grow_after:
            return None
        if sum(map(len, front.values())) > limits.grow_front:
            return None
        plans = [executable for _, _, executable in self._ready]
        return self.backend.grow(front, plans, below, {name: self.left(name) for name in self.stratum.relations})

    def _insert_grown(self, front: Mapping[str, Rows], grown: Grown) -> dict[str, Rows]:
        for number, rows in enumerate((front, *grown.rounds)):
            if number:
                self.note_round(rows)
            for name in rows:
                self.fronts[name].append((self.rounds, rows[name]))
        for name in self.stratum.relations:
            came = [rows[name] for rows in (front, *grown.rounds) if name in rows]
            if came:
                self.added[name] = self.added[name].adding(self.backend.union(came))
            if self.supports is not None:
                self.supports[name].append(grown.numbers[name])
        return dict(grown.pending)

    def _insert_round(self, front: Mapping[str, Rows], below: ViewDict) -> dict[str, Rows]:
        views = dict(below)
        for name in self.stratum.relations:
            before, only = self.left(name), None
            if name in front:
                self.added[name] = self.added[name].adding(front[name])
                self.fronts[name].append((self.rounds, front[name]))
                only = self.only(front[name], name)
            read_step(views, name, self.left(name), before, only)
        following: dict[str, Rows] = {}
        for head, plans in self.plans_for(front).items():
            present = self.left(head)
            if self.supports is not None:
                counted = self.backend.supports(head, plans, views, present)
                self.supports[head].append(counted)
                following[head] = counted.rows()
            elif self.rec is None:
                following[head] = self.backend.derive(head, plans, views, present)
            else:
                counted = self.backend.count(head, plans, views)
                self.rec[head] = self.rec[head].adding(counted)
                following[head] = self.backend.difference(counted.rows(), present)
        return following

    # ---------------------------------------------------------------------------------------------- the outcome

    def outcome(self, memory: Memory | None) -> Outcome:
        changes = {name: self._net(name) for name in self.stratum.relations}
        self.backend.settle(rows for change in changes.values() for rows in (change.plus, change.minus))
        versions = {name: self.old[name].removing(change.minus).adding(change.plus) for name, change in changes.items()}
        return Outcome(versions, changes, memory, self.rounds)

    def _net(self, name: str) -> Change:
        added, dead = self.added[name], self.dead[name]
        return Change(self.backend.difference(added.rows(), dead), self.backend.difference(dead.rows(), added))


def own_views(update: StratumUpdate, below: ViewDict, own: Mapping[str, View]) -> ViewDict:
    """Views of one state: `below`, and `own` for the relations of the stratum."""
    views = dict(below)
    for name in update.stratum.relations:
        read_alike(views, name, own[name])
    return views


def heads(parts: Sequence[Mapping[str, Counted]], name: str) -> list[Rows]:
    """The facts of one relation in several sets of counted instances."""
    return [counted[name].rows() for counted in parts if name in counted]
