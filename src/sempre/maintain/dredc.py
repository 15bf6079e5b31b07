"""DRed^c: overdelete, rederive, insert, with two counters per fact.

`nonrec` counts the instances of nonrecursive rules that derive a fact, and one more if it is explicit; `rec` those of
recursive rules. A fact with `nonrec` above zero cannot rest on itself, so it is never overdeleted; one whose `rec` is
still above zero after overdeletion holds, so nothing is evaluated backward. After every update both counters equal
those of a run from scratch.

The counters are made when they are first needed: a database that only ever grows never pays for them.

Reference: [Hu18]; [Hu22] sections 2.3 and 7.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sempre.analysis.model import Stratum
from sempre.maintain.planning import change_pivots, pivot_relation, pivots
from sempre.maintain.recompute import materialize
from sempre.maintain.states import STANDING, Below, ViewDict
from sempre.maintain.strategy import Change, Outcome, Work
from sempre.plan.backend import Counted, Executable, Rows, Tally, Version, View
from sempre.plan.ops import Order, Read


@dataclass(frozen=True, slots=True)
class Counters:
    """Both counters of every fact of a stratum."""

    nonrec: Mapping[str, Tally]
    rec: Mapping[str, Tally]


class DRedC:
    """Maintains counters and changes what they say."""

    name = "dredc"

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        return materialize(work, stratum)

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        return _Update(work, stratum, memory).run()


def count_all(work: Work, stratum: Stratum, versions: Mapping[str, Version], below: Below, old: bool) -> Counters:
    """The counters of a stratum, from scratch, in the new state or the `old` one."""
    backend = work.backend
    explicit = work.explicit_before if old else work.explicit
    nonrec = {name: backend.tally(name).adding(backend.once(explicit[name].rows())) for name in stratum.relations}
    rec = {name: backend.tally(name) for name in stratum.relations}
    sizes = {**work.old, **work.new, **versions}
    for tallies, rules in ((nonrec, stratum.nonrecursive), (rec, stratum.recursive)):
        for rule in rules:
            ready = work.plans.full(rule, sizes)
            orders = below.orders([(rule, None)])
            views = below.standing(orders, old)
            for name in stratum.relations:
                if name in orders:
                    view = backend.view(versions[name].indexed(orders[name]))
                    views.update({(name, read): view for read in STANDING})
            tallies[rule.relation] = tallies[rule.relation].adding(backend.count(rule.relation, [ready], views))
    return Counters(nonrec, rec)


class _Update:
    """One update of one stratum."""

    def __init__(self, work: Work, stratum: Stratum, counters: Counters | None) -> None:
        self._work = work
        self._backend = work.backend
        self._stratum = stratum
        self._below = Below(work, stratum)
        self._counters = counters
        self._nonrec: dict[str, Tally] = {}
        self._rec: dict[str, Tally] = {}
        self._old: dict[str, Version] = {name: work.old[name] for name in stratum.relations}
        self._rounds = 0
        self._ready: list[tuple[str, str, Executable]] = []
        self._orders: dict[str, set[Order]] = {}
        self._prepare()
        # Facts overdeleted so far, and facts added on top of what was left.
        self._dead = {name: self._empty(name) for name in stratum.relations}
        self._added = {name: self._empty(name) for name in stratum.relations}

    def _prepare(self) -> None:
        """The delta plans of the recursive rules, and the indexes they need."""
        work, stratum = self._work, self._stratum
        sizes = {**work.old, **work.new}
        jobs = [(rule, pivot) for rule in stratum.recursive for pivot in pivots(rule, stratum.relations)]
        self._ready = [
            (rule.relation, pivot_relation(rule, pivot), work.plans.delta(rule, pivot, sizes)) for rule, pivot in jobs
        ]
        self._orders = self._below.orders(jobs)
        changes = [(rule, p) for rule in stratum.recursive for p in change_pivots(rule, self._below.changed)]
        for rule, pivot in changes:
            work.plans.delta(rule, pivot, sizes)
        for name, orders in self._below.orders(changes).items():
            self._orders.setdefault(name, set()).update(orders)
        for name in stratum.relations:
            self._old[name] = self._old[name].indexed(self._orders.get(name, ()))

    def _empty(self, name: str) -> Version:
        return self._backend.empty(name).indexed(self._orders.get(name, ()))

    def run(self) -> Outcome:
        work, stratum = self._work, self._stratum
        own = {name: self._backend.view(version) for name, version in self._old.items()}
        lost = self._below.difference(stratum.nonrecursive, gained=False, own={})
        lost_rec = self._below.difference(stratum.recursive, gained=False, own=own)
        gained = self._below.difference(stratum.nonrecursive, gained=True, own={})
        removed = {n: c.minus for n, c in work.explicit_changes.items() if n in stratum.relations and len(c.minus)}
        if self._counters is None and not any(map(len, [*lost.values(), *lost_rec.values(), *removed.values()])):
            return self._finish(self._insert(gained), None)
        self._count_before()
        self._change_nonrec(lost, gained)
        self._overdelete(lost, lost_rec, removed)
        again = {name: self._backend.positive(self._rec[name], dead.rows()) for name, dead in self._dead.items()}
        return self._finish(self._insert(gained, again), Counters(self._nonrec, self._rec))

    # ----------------------------------------------------------------------------------------------- counters

    def _count_before(self) -> None:
        if self._counters is None:
            self._counters = count_all(self._work, self._stratum, self._old, self._below, old=True)
        self._nonrec = dict(self._counters.nonrec)
        self._rec = dict(self._counters.rec)

    def _change_nonrec(self, lost: Mapping[str, Counted], gained: Mapping[str, Counted]) -> None:
        """All changes of `nonrec`: it must be final before anything is overdeleted."""
        backend = self._backend
        for name in self._stratum.relations:
            parts = []
            if name in lost:
                parts.append(lost[name].negated())
            if name in gained:
                parts.append(gained[name])
            if name in self._work.explicit_changes:
                change = self._work.explicit_changes[name]
                parts += [backend.once(change.minus).negated(), backend.once(change.plus)]
            self._nonrec[name] = self._nonrec[name].adding(backend.total(name, parts))

    # ------------------------------------------------------------------------------------------- overdeletion

    def _overdelete(
        self, lost: Mapping[str, Counted], lost_rec: Mapping[str, Counted], removed: Mapping[str, Rows]
    ) -> None:
        """Collect in `_dead` every fact that may have lost its last derivation."""
        backend = self._backend
        front: dict[str, Rows] = {}
        for name in self._stratum.relations:
            if name in lost_rec:
                self._rec[name] = self._rec[name].adding(lost_rec[name].negated())
            parts = [counted.rows() for counted in (lost.get(name), lost_rec.get(name)) if counted is not None]
            parts += [removed[name]] if name in removed else []
            if parts:
                front[name] = backend.zero(self._nonrec[name], backend.union(parts))
        below = self._below.compared(self._orders, gained=False)
        while front := {name: rows for name, rows in front.items() if len(rows)}:
            self._note_round(front)
            front = self._overdelete_round(front, below)

    def _overdelete_round(self, front: Mapping[str, Rows], below: ViewDict) -> dict[str, Rows]:
        backend, views = self._backend, dict(below)
        for name in self._stratum.relations:
            before = self._dead[name]
            if name in front:
                self._dead[name] = before.adding(front[name])
                views[name, Read.ONLY] = backend.view(backend.version(front[name], self._orders.get(name, ())))
            views[name, Read.HERE] = backend.view(self._old[name], without=before)
            views[name, Read.BOTH] = backend.view(self._old[name], without=self._dead[name])
        following: dict[str, Rows] = {}
        for head, counted in self._count_round(front, views).items():
            self._rec[head] = self._rec[head].adding(counted.negated())
            following[head] = backend.difference(backend.zero(self._nonrec[head], counted.rows()), self._dead[head])
        return following

    def _count_round(self, front: Mapping[str, Rows], views: ViewDict) -> dict[str, Counted]:
        by_head: dict[str, list[Executable]] = {}
        for head, reads, executable in self._ready:
            if reads in front:
                by_head.setdefault(head, []).append(executable)
        return {head: self._backend.count(head, plans, views) for head, plans in by_head.items()}

    # ---------------------------------------------------------------------------------------------- insertion

    def _insert(self, gained: Mapping[str, Counted], again: Mapping[str, Rows] | None = None) -> dict[str, Change]:
        """Add what was rederived (`again`) and gained, to the fixpoint; returns the net changes."""
        work, backend, stratum = self._work, self._backend, self._stratum
        left = {name: self._left(name) for name in stratum.relations}
        newly = self._below.difference(stratum.recursive, gained=True, own=left)
        front: dict[str, Rows] = {}
        for name in stratum.relations:
            parts = [] if again is None else [again[name]]
            if name in newly and self._counters is not None:
                self._rec[name] = self._rec[name].adding(newly[name])
            for counted in (gained.get(name), newly.get(name)):
                if counted is not None:
                    parts.append(backend.difference(counted.rows(), left[name]))
            if name in work.explicit_changes:
                parts.append(backend.difference(work.explicit_changes[name].plus, left[name]))
            if parts:
                front[name] = backend.union(parts)
        below = self._below.standing(self._orders)
        while front := {name: rows for name, rows in front.items() if len(rows)}:
            self._note_round(front)
            front = self._insert_round(front, below)
        return {name: self._net(name) for name in stratum.relations}

    def _left(self, name: str) -> View:
        """What has survived so far, and what has been added."""
        view = self._backend.view(self._old[name], without=self._dead[name])
        return view.plus(self._added[name]) if len(self._added[name]) else view

    def _insert_round(self, front: Mapping[str, Rows], below: ViewDict) -> dict[str, Rows]:
        backend, views = self._backend, dict(below)
        for name in self._stratum.relations:
            views[name, Read.BOTH] = self._left(name)
            if name in front:
                self._added[name] = self._added[name].adding(front[name])
                views[name, Read.ONLY] = backend.view(backend.version(front[name], self._orders.get(name, ())))
            views[name, Read.HERE] = self._left(name)
        following: dict[str, Rows] = {}
        if self._counters is None:
            by_head: dict[str, list[Executable]] = {}
            for head, reads, executable in self._ready:
                if reads in front:
                    by_head.setdefault(head, []).append(executable)
            for head, plans in by_head.items():
                following[head] = backend.derive(head, plans, views, views[head, Read.HERE])
            return following
        for head, counted in self._count_round(front, views).items():
            self._rec[head] = self._rec[head].adding(counted)
            following[head] = backend.difference(counted.rows(), views[head, Read.HERE])
        return following

    def _net(self, name: str) -> Change:
        backend, added, dead = self._backend, self._added[name], self._dead[name]
        return Change(backend.difference(added.rows(), dead), backend.difference(dead.rows(), added))

    def _note_round(self, front: Mapping[str, Rows]) -> None:
        self._rounds += 1
        self._work.on_round(self._rounds, sum(map(len, front.values())))

    def _finish(self, changes: dict[str, Change], counters: Counters | None) -> Outcome:
        versions = {
            name: self._old[name].removing(change.minus).adding(change.plus) for name, change in changes.items()
        }
        return Outcome(versions, changes, counters, self._rounds)
