"""DRed: overdelete everything a deletion may have supported, rederive what still holds, then insert. No counters.

It is also how strata with aggregates in heads are maintained, whatever the strategy. A fact of such a relation stands
for its group: what is overdeleted is rederived group by group, from the facts that are left, and then improved to the
fixpoint. Facts that are left have proofs that nothing touched, so they can only be too weak, never too good; and
rounds that improve a group end where a run from scratch does, since the analysis admits only monotone uses.

Reference: [GMS93].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sempre.analysis.model import NormalRule, Stratum
from sempre.maintain.planning import change_pivots, pivot_relation, pivots
from sempre.maintain.recompute import materialize
from sempre.maintain.seminaive import Fixpoint, keeps_total
from sempre.maintain.states import STANDING, Below, ViewDict
from sempre.maintain.strategy import Change, Outcome, Work, some
from sempre.plan.backend import Backend, Executable, Rows, Version
from sempre.plan.ops import HEAD, Order, Pivot, Read


class DRed:
    """Maintains sets alone."""

    name = "dred"

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        return materialize(work, stratum)

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        if any(keeps_total(work.program.relations[name]) for name in stratum.relations):
            return update_totals(work, stratum)
        return _Update(work, stratum).run()


class _Update:
    """One update of one stratum."""

    def __init__(self, work: Work, stratum: Stratum) -> None:
        self._work = work
        self._backend = work.backend
        self._stratum = stratum
        self._below = Below(work, stratum)
        self._rules = (*stratum.nonrecursive, *stratum.recursive)
        rounds = [(rule, pivot) for rule in stratum.recursive for pivot in pivots(rule, stratum.relations)]
        changes = [(rule, pivot) for rule in stratum.recursive for pivot in change_pivots(rule, self._below.changed)]
        self._ready = [(rule.relation, pivot_relation(rule, pivot), self._plan(rule, pivot)) for rule, pivot in rounds]
        self._backward = {rule.number: self._plan(rule, HEAD) for rule in self._rules}
        for rule, pivot in changes:
            self._plan(rule, pivot)
        self._orders = self._below.orders([*rounds, *changes, *((rule, HEAD) for rule in self._rules)])
        self._old: dict[str, Version] = {
            name: work.old[name].indexed(self._orders.get(name, ())) for name in stratum.relations
        }
        self._rounds = 0

    def _plan(self, rule: NormalRule, pivot: Pivot) -> Executable:
        sizes = {**self._work.old, **self._work.new}
        return self._work.plans.delta(rule, pivot, sizes)

    def run(self) -> Outcome:
        backend, stratum = self._backend, self._stratum
        dead = self._overdelete()
        left = {name: self._old[name].removing(dead[name].rows()) for name in stratum.relations}
        start = self._candidates(dead, left)
        state = {**self._work.new, **left}
        fixpoint = Fixpoint(backend, self._work.plans, self._work.program, stratum, self._work.on_round)
        fixpoint.run(state, start)
        own = set(stratum.relations)
        self._work.new.update({name: version for name, version in state.items() if name not in own})
        changes = {
            name: self._net(name, state[name], [dead[name].rows(), *(rows for _, rows in fixpoint.touched[name])])
            for name in stratum.relations
        }
        return Outcome({name: state[name] for name in own}, changes, None, self._rounds + fixpoint.rounds)

    def _net(self, name: str, new: Version, touched: Sequence[Rows]) -> Change:
        backend, rows = self._backend, self._backend.union(touched)
        plus = backend.difference(backend.intersection(rows, new), self._old[name])
        minus = backend.difference(backend.intersection(rows, self._old[name]), new)
        return Change(plus, minus)

    def _overdelete(self) -> dict[str, Version]:
        """Every fact that has a derivation from something that went."""
        backend, stratum, work = self._backend, self._stratum, self._work
        own = {name: backend.view(version) for name, version in self._old.items()}
        lost = self._below.difference(stratum.nonrecursive, gained=False, own={})
        lost_rec = self._below.difference(stratum.recursive, gained=False, own=own)
        dead = {name: backend.empty(name).indexed(self._orders.get(name, ())) for name in stratum.relations}
        front: dict[str, Rows] = {}
        for name in stratum.relations:
            parts = [counted[name].rows() for counted in (lost, lost_rec) if name in counted]
            if name in work.explicit_changes:
                parts.append(work.explicit_changes[name].minus)
            if parts:
                front[name] = backend.intersection(backend.union(parts), self._old[name])
        below = self._below.compared(self._orders, gained=False)
        while front := some(backend, front):
            self._rounds += 1
            work.on_round(self._rounds, sum(map(len, front.values())))
            front = self._overdelete_round(front, dead, below)
        return dead

    def _overdelete_round(
        self, front: Mapping[str, Rows], dead: dict[str, Version], below: ViewDict
    ) -> dict[str, Rows]:
        backend, views = self._backend, dict(below)
        for name in self._stratum.relations:
            views[name, Read.HERE] = backend.view(self._old[name], without=dead[name])
            if name in front:
                dead[name] = dead[name].adding(front[name])
                views[name, Read.ONLY] = backend.view(backend.version(front[name], self._orders.get(name, ())))
            views[name, Read.BOTH] = backend.view(self._old[name], without=dead[name])
        following: dict[str, Rows] = {}
        for head in {head for head, reads, _ in self._ready if reads in front}:
            plans = [plan for other, reads, plan in self._ready if other == head and reads in front]
            rows = backend.derive(head, plans, views, dead[head])
            following[head] = backend.intersection(rows, self._old[head])
        return following

    def _candidates(self, dead: Mapping[str, Version], left: Mapping[str, Version]) -> dict[str, Rows]:
        """What may come back or come anew, given what is left; none of it is in `left`."""
        backend, stratum, work = self._backend, self._stratum, self._work
        own = {name: backend.view(version) for name, version in left.items()}
        gained = self._below.difference(stratum.nonrecursive, gained=True, own={})
        newly = self._below.difference(stratum.recursive, gained=True, own=own)
        found: dict[str, Rows] = {}
        for name in stratum.relations:
            parts = [counted[name].rows() for counted in (gained, newly) if name in counted]
            if name in work.explicit_changes:
                parts.append(work.explicit_changes[name].plus)
            if len(dead[name]):
                groups = backend.groups(name, dead[name].rows())
                parts.append(backend.group_rows(name, groups, work.explicit[name]))
                parts.append(self._rederive(name, groups, left))
            found[name] = backend.difference(backend.union(parts), left[name]) if parts else backend.empty(name).rows()
        return found

    def _rederive(self, name: str, groups: Rows, left: Mapping[str, Version]) -> Rows:
        """What one rule application derives for these facts or groups."""
        backend = self._backend
        rules = [rule for rule in self._rules if rule.relation == name]
        views = backward_views(self._below, self._backend, self._orders, left)
        views[name, Read.ONLY] = backend.view(backend.version(groups, self._orders.get(name, ())))
        return backend.derive(name, [self._backward[rule.number] for rule in rules], views, left[name])


def backward_views(
    below: Below, backend: Backend, orders: Mapping[str, set[Order]], own: Mapping[str, Version]
) -> ViewDict:
    """Views of the new state below and of `own` versions of the stratum."""
    views = below.standing(orders)
    for name, version in own.items():
        view = backend.view(version.indexed(orders.get(name, ())))
        views.update({(name, read): view for read in STANDING})
    return views


def update_totals(work: Work, stratum: Stratum) -> Outcome:
    """A relation that keeps a `sum` or `count`: the groups that a change touches are totaled again."""
    backend, below = work.backend, Below(work, stratum)
    (name,) = stratum.relations
    rules = stratum.nonrecursive
    sizes = {**work.old, **work.new}
    ready = [work.plans.backward(rule, sizes) for rule in rules]
    orders = below.orders((rule, HEAD) for rule in rules)
    parts = [
        counted[name].rows()
        for counted in (below.difference(rules, side, own={}) for side in (False, True))
        if name in counted
    ]
    if name in work.explicit_changes:
        parts += [work.explicit_changes[name].plus, work.explicit_changes[name].minus]
    groups = backend.groups(name, backend.union(parts)) if parts else backend.empty(name).rows()
    views = below.standing(orders)
    views[name, Read.ONLY] = backend.view(backend.version(groups, orders.get(name, ())))
    given = backend.once(backend.group_rows(name, groups, work.explicit[name]))
    again = backend.totals(name, backend.total(name, [given, backend.count(name, ready, views)]))
    before = backend.group_rows(name, groups, work.old[name])
    plus = backend.difference(again, backend.version(before))
    minus = backend.difference(before, backend.version(again))
    version = work.old[name].removing(minus).adding(plus)
    return Outcome({name: version}, {name: Change(plus, minus)}, None, 1)
