"""Two states of what a stratum reads, and the rule instances that tell them apart.

Everything that maintains a stratum asks one question in many forms: which instances hold here and not there? `Below`
answers it for changes in the strata below; within a stratum the strategies set up the views round by round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sempre.analysis.model import NormalRule, Stratum
from sempre.maintain.planning import change_pivots
from sempre.maintain.strategy import Work
from sempre.plan.backend import Counted, Executable, Tally, Version, View
from sempre.plan.ops import Order, Pivot, Read, relations_of

STANDING = (Read.HERE, Read.THERE, Read.BOTH)
ViewDict = dict[tuple[str, Read], View | Tally]  # `Views` to be filled


class Below:
    """What a stratum reads of the strata below, before and after an epoch."""

    def __init__(self, work: Work, stratum: Stratum) -> None:
        self._work = work
        self._backend = work.backend
        own = set(stratum.relations)
        rules = (*stratum.nonrecursive, *stratum.recursive)
        self._reads = set().union(*(relations_of(rule.body) for rule in rules)) - own if rules else set()
        self.changed = {name: work.changes[name] for name in self._reads if name in work.changes}

    def orders(self, rules: Iterable[tuple[NormalRule, Pivot | None]]) -> dict[str, set[Order]]:
        """The orders that ready plans of these rules look relations up by."""
        needed: dict[str, set[Order]] = {}
        for (name, _), orders in self._work.plans.needed_orders(rules).items():
            needed.setdefault(name, set()).update(orders)
        return needed

    def compared(self, orders: Mapping[str, set[Order]], gained: bool) -> ViewDict:
        """Views with the new state here and the old one there (`gained`), or the other way round."""
        work, backend, views = self._work, self._backend, ViewDict()
        for name in self._reads & orders.keys():
            wanted = orders[name]
            new = work.new[name] = work.new[name].indexed(wanted)
            change = self.changed.get(name)
            if change is None:
                same = backend.view(new)
                views.update({(name, read): same for read in STANDING})
                nothing = backend.view(backend.empty(name).indexed(wanted))
                views[name, Read.ONLY] = views[name, Read.CHANGED] = nothing
                continue
            old = self._old(name, wanted)
            plus, minus = (backend.version(rows, wanted) for rows in (change.plus, change.minus))
            here, there, only, other = (new, old, plus, minus) if gained else (old, new, minus, plus)
            views[name, Read.HERE] = backend.view(here)
            views[name, Read.THERE] = backend.view(there)
            views[name, Read.BOTH] = backend.view(here, without=only)
            views[name, Read.ONLY] = backend.view(only)
            views[name, Read.CHANGED] = backend.view(only, other)
        return views

    def standing(self, orders: Mapping[str, set[Order]], old: bool = False) -> ViewDict:
        """Views of one state: the new one, or the old."""
        views = ViewDict()
        for name in self._reads & orders.keys():
            if old and name in self.changed:
                version = self._old(name, orders[name])
            else:
                version = self._work.new[name] = self._work.new[name].indexed(orders[name])
            view = self._backend.view(version)
            views.update({(name, read): view for read in STANDING})
        return views

    def _old(self, name: str, orders: set[Order]) -> Version:
        version = self._work.old[name] = self._work.old[name].indexed(orders)
        return version

    def difference(self, rules: Iterable[NormalRule], gained: bool, own: Mapping[str, View]) -> dict[str, Counted]:
        """Per head, the instances that the change below makes (`gained`) or breaks, counted.

        Atoms of the stratum itself, in recursive rules, read `own`.
        """
        work = self._work
        jobs = [(rule, pivot) for rule in rules for pivot in change_pivots(rule, self.changed)]
        if not jobs:
            return {}
        sizes = {**work.old, **work.new}
        ready: dict[str, list[Executable]] = {}
        for rule, pivot in jobs:
            ready.setdefault(rule.relation, []).append(work.plans.delta(rule, pivot, sizes))
        views = self.compared(self.orders(jobs), gained)
        views.update({(name, read): view for name, view in own.items() for read in STANDING})
        return {head: self._backend.count(head, plans, views) for head, plans in ready.items()}
