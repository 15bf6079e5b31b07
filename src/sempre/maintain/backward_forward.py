"""Backward/forward: before a fact is deleted, look for another proof of it.

From the facts in question the search goes backward, through the instances that derive them in what is left, and forward
again from whatever is certain, until the facts in question are proved or nothing is left to look at. In the second
case everything looked at and not proved rests only on itself, and is deleted at once. So nothing is overdeleted, and
nothing has to be rederived. Good for small deletions with many other proofs, bad for large ones.

With modules the search goes through the other rules alone, and what it cannot prove may still hold by what a module
derives. So there a fact in question that has no proof is deleted, and nothing that was looked at on the way; what
other rules or modules still derive in the end is derived again.

Reference: [Motik15]; with the counter `nonrec` [Hu22] section 2.3; with modules, section 5.2.
Differs: facts are searched for in batches, and what the search rejects is deleted together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sempre.analysis.model import NormalRule, Stratum
from sempre.maintain.dredc import Counters, changed_nonrec, count_nonrecursive, go_on
from sempre.maintain.modular import PartitionedMemory, exchange_of, taking_part
from sempre.maintain.planning import pivots
from sempre.maintain.recompute import materialize_with
from sempre.maintain.states import read_step
from sempre.maintain.strategy import Outcome, Work, nonempty
from sempre.maintain.update import StratumUpdate, heads, own_views
from sempre.plan.backend import Rows, Tally, Version, View
from sempre.plan.ops import HEAD, Pivot, Read


class BackwardForward:
    """Searches for proofs; with `counting`, keeps the counter `nonrec`, which ends most searches at once."""

    forgetful = True

    def __init__(self, counting: bool) -> None:
        self.name = "bfc" if counting else "bf"
        self._counting = counting

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        return materialize_with(work, stratum, modules=work.modules.get(stratum.index, ()))[0]

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        exchange = exchange_of(work, stratum, taking_part(work, stratum, memory))
        generic = exchange.generic
        backward = [(rule, HEAD) for rule in (*generic.nonrecursive, *generic.recursive)]
        update = StratumUpdate(work, generic, [*_to_bodies(generic), *backward], exchange=exchange)
        if exchange:
            go_on(update, memory)
        counters = memory.counters if isinstance(memory, PartitionedMemory) else memory
        nonrecursive, recursive, removed = update.lost()
        gained, again = update.gained(), dict[str, Rows]()
        nonrec = None
        if update.is_any(nonrecursive, recursive, removed) or exchange.loses():
            if self._counting:
                before = counters.nonrec if counters else count_nonrecursive(work, generic, update.below, old=True)
                nonrec = changed_nonrec(update, before, nonrecursive, gained)
            search = _Search(update, nonrec)
            for name in stratum.relations:
                parts = [*heads((nonrecursive, recursive), name), *([removed[name]] if name in removed else [])]
                if parts:
                    search.doubt(name, update.backend.union(parts))
            if exchange:
                search.run_with_modules()
                again = search.derived_again()
            else:
                search.run()
        elif counters is not None:
            nonrec = changed_nonrec(update, counters.nonrec, nonrecursive, gained)
        update.insert(gained, again)
        after = None if nonrec is None else Counters(nonrec, None)
        return update.outcome(exchange.remembered(after) if exchange or after is None else after)

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> None:
        """It finds out what it needs when it needs it."""


def _to_bodies(stratum: Stratum) -> list[tuple[NormalRule, Pivot]]:
    """From the head of every recursive rule to each of its atoms in the stratum."""
    return [
        (rule, Pivot(pivot.literal, to_body=True))
        for rule in stratum.recursive
        for pivot in pivots(rule, stratum.relations)
    ]


class _Search:
    """The search for proofs during one update."""

    def __init__(self, update: StratumUpdate, nonrec: Mapping[str, Tally] | None) -> None:
        self._update = update
        self._backend = update.backend
        self._nonrec = nonrec
        self._stratum = update.stratum
        self._doubtful: dict[str, Rows] = {}
        self._new_below = update.below.standing(update.orders)
        self._proved: dict[str, Version] = {name: self._none(name) for name in self._stratum.relations}

    def _none(self, name: str) -> Version:
        return self._backend.empty(name).indexed(self._update.orders.get(name, ()))

    def doubt(self, name: str, rows: Rows) -> None:
        """Facts that have lost a derivation; what is proved stays proved."""
        rows = self._backend.difference(rows, self._proved[name])
        if len(rows):
            self._doubtful[name] = rows

    def run(self) -> None:
        """Delete all doubtful facts that have no proof, and so on with what rested on them."""
        update, backend = self._update, self._backend
        kept_below = update.below.compared(update.orders, gained=False)
        while self._doubtful:
            front, self._doubtful = self._doubtful, {}
            rejected = self._rejected(front)
            if not rejected:
                return
            update.note_round(rejected)
            views = update.bury(rejected, kept_below)
            for head, plans in update.plans_for(rejected).items():
                broken = backend.derive(head, plans, views, update.dead[head])
                self.doubt(head, broken)

    def run_with_modules(self) -> None:
        """The same where modules derive too: they have their turns, and only what is in question is deleted."""
        update, backend = self._update, self._backend
        kept_below = update.below.compared(update.orders, gained=False)
        update.exchange.hear_gone()
        while True:
            front, self._doubtful = self._doubtful, {}
            if front:
                self._rejected(front)
                unproved = {name: backend.difference(rows, self._proved[name]) for name, rows in front.items()}
                front = nonempty(backend, unproved)
            front = update.exchange.delete(front, update.dead, self._needs_no_proof)
            if not front:
                return
            update.note_round(front)
            views = update.bury(front, kept_below)
            for head, plans in update.plans_for(front).items():
                self.doubt(head, backend.derive(head, plans, views, update.dead[head]))

    def _needs_no_proof(self, name: str, rows: Rows) -> Rows:
        """The facts that certainly hold: by rules without recursion, or since a proof was found."""
        backend = self._backend
        certain = backend.positive(self._nonrec[name], rows) if self._nonrec is not None else None
        certain = self._update.certain(name, rows) if certain is None else certain
        return backend.union([certain, backend.intersection(rows, self._proved[name])])

    def derived_again(self) -> dict[str, Rows]:
        """The dead facts that other rules or modules derive from what is left."""
        update, backend = self._update, self._backend
        again = update.exchange.rederive(update.dead)
        own = {name: update.left(name) for name in self._stratum.relations}
        for name, dead in update.dead.items():
            rules = [rule for rule in self._stratum.recursive if rule.relation == name]
            if len(dead) and rules:
                views = own_views(update, self._new_below, own)
                views[name, Read.ONLY] = update.only(dead.rows(), name)
                plans = [update.plan(rule, HEAD) for rule in rules]
                found = backend.derive(name, plans, views, self._none(name))
                again[name] = backend.union([again[name], found]) if name in again else found
        return again

    def _rejected(self, front: Mapping[str, Rows]) -> dict[str, Rows]:
        """What the search looked at and could not prove, if it could not prove all of the front."""
        update, backend = self._update, self._backend
        seen = {name: self._none(name) for name in self._stratum.relations}
        pending = dict(front)
        while pending:
            update.note_round(pending)
            for name, rows in pending.items():
                seen[name] = seen[name].adding(rows)
            self._prove(pending, seen)
            unproved = {n: backend.difference(rows, self._proved[n]) for n, rows in front.items()}
            if not nonempty(backend, unproved):
                return {}
            pending = self._behind({n: backend.difference(r, self._proved[n]) for n, r in pending.items()}, seen)
        left = {name: backend.difference(seen[name].rows(), self._proved[name]) for name in seen}
        return nonempty(backend, left)

    def _behind(self, front: Mapping[str, Rows], seen: Mapping[str, Version]) -> dict[str, Rows]:
        """The facts of the stratum from which something derives a fact of the front, unless seen or proved."""
        update, backend = self._update, self._backend
        own: dict[str, View] = {name: update.left(name) for name in self._stratum.relations}
        found: dict[str, list[Rows]] = {}
        for rule, pivot in _to_bodies(self._stratum):
            rows = front.get(rule.relation)
            if rows is None or not len(rows):
                continue
            views = own_views(update, self._new_below, own)
            views[rule.relation, Read.ONLY] = update.only(rows, rule.relation)
            plan = update.plan(rule, pivot)
            target = plan.plan.relation
            found.setdefault(target, []).append(backend.derive(target, [plan], views, seen[target]))
        behind = {name: backend.difference(backend.union(sets), self._proved[name]) for name, sets in found.items()}
        return nonempty(backend, behind)

    def _prove(self, fresh: Mapping[str, Rows], seen: Mapping[str, Version]) -> None:
        """Extend what is proved: by facts that need nothing of the stratum, and by what follows among those seen."""
        update, backend = self._update, self._backend
        front = {name: self._certain(name, rows) for name, rows in fresh.items()}
        while True:
            front = {name: backend.difference(rows, self._proved[name]) for name, rows in front.items()}
            front = nonempty(backend, front)
            if not front:
                return
            views = dict(self._new_below)
            for name in self._stratum.relations:
                before, only = backend.view(self._proved[name]), None
                if name in front:
                    self._proved[name] = self._proved[name].adding(front[name])
                    only = update.only(front[name], name)
                read_step(views, name, backend.view(self._proved[name]), before, only)
            front = {
                head: backend.intersection(backend.derive(head, plans, views, self._proved[head]), seen[head])
                for head, plans in update.plans_for(front).items()
            }

    def _certain(self, name: str, rows: Rows) -> Rows:
        """The facts that are explicit, that a nonrecursive rule derives, or that what is proved derives."""
        update, backend = self._update, self._backend
        views = own_views(update, self._new_below, {n: backend.view(v) for n, v in self._proved.items()})
        views[name, Read.ONLY] = update.only(rows, name)
        rules: list[NormalRule] = [rule for rule in self._stratum.recursive if rule.relation == name]
        parts = []
        if self._nonrec is not None:
            parts.append(backend.positive(self._nonrec[name], rows))
        else:
            parts.append(backend.intersection(rows, update.work.explicit[name]))
            rules += [rule for rule in self._stratum.nonrecursive if rule.relation == name]
        plans = [update.plan(rule, HEAD) for rule in rules]
        return backend.union([*parts, backend.derive(name, plans, views, self._proved[name])])
