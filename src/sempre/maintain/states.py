"""Two states of what rules read, and the rule instances that tell them apart.

Everything that maintains a stratum asks one question in many forms: which instances hold here and not there? `Sides` is
one relation in two states, `Deltas` the plans that find those instances. `LowerStrata` answers the question for changes
in the strata below, `active/matcher.py` for two databases; within a stratum the strategies compare the states before
and after a round. How views are named in plans (`Read`) is written down here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from sempre.analysis.model import NormalRule, Stratum
from sempre.data import dataclass
from sempre.maintain.planning import Plans, change_pivots
from sempre.maintain.strategy import Change, Work
from sempre.plan.backend import Backend, Counted, Executable, Tally, Version, View
from sempre.plan.ops import Order, Pivot, Read, relations_of

ViewDict = dict[tuple[str, Read], View | Tally]  # `Views` to be filled
Key = TypeVar("Key", bound=Hashable)


def read_alike(views: ViewDict, name: str, view: View) -> None:
    """A relation that is the same here and there."""
    views[name, Read.HERE] = views[name, Read.THERE] = views[name, Read.BOTH] = view


def read_step(views: ViewDict, name: str, larger: View, smaller: View, only: View | None) -> None:
    """A relation of the stratum before and after a round: the instances in question hold only in the larger state.

    `only` is what the smaller one lacks; None if that is nothing, and no plan starts from it.
    """
    views[name, Read.HERE], views[name, Read.BOTH] = larger, smaller
    if only is not None:
        views[name, Read.ONLY] = only


def read_ranks(views: ViewDict, ranks: Mapping[str, Tally]) -> None:
    """The ranks of the facts of a stratum."""
    views.update({(name, Read.RANK): numbers for name, numbers in ranks.items()})


@dataclass(frozen=True, slots=True)
class Sides:
    """One relation in two states: the old one, the new one, what both have, and what only one of them has."""

    old: View
    new: View
    both: View
    plus: View
    minus: View
    changed: View  # `plus` and `minus`

    @staticmethod
    def alike(backend: Backend, name: str, view: View, orders: Iterable[Order]) -> Sides:
        """The sides of a relation that does not differ."""
        nothing = backend.view(backend.empty(name).indexed(orders))
        return Sides(view, view, view, nothing, nothing, nothing)

    @staticmethod
    def after(backend: Backend, now: Version, plus: Version, minus: Version, old: Version | None = None) -> Sides:
        """The sides of a relation that changed to `now`; `old` is what it was, if that is at hand."""
        if old is not None and len(minus) < len(plus):  # the less is taken out, the less is looked up
            both = backend.view(old, without=minus)
        else:
            both = backend.view(now, without=plus)
        before = backend.view(old) if old is not None else both.plus(minus) if len(minus) else both
        return Sides(before, backend.view(now), both, *_differences(backend, plus, minus))

    @staticmethod
    def before(backend: Backend, old: View, both: View, plus: Version, minus: Version) -> Sides:
        """The sides of a relation that was `old`; `both` is that without `minus`."""
        now = both.plus(plus) if len(plus) else both
        return Sides(old, now, both, *_differences(backend, plus, minus))

    def put(self, views: ViewDict, name: str, gained: bool) -> None:
        """What plans read when the new state is here and the old one there (`gained`), or the other way round."""
        here, there, only = (self.new, self.old, self.plus) if gained else (self.old, self.new, self.minus)
        views[name, Read.HERE], views[name, Read.THERE], views[name, Read.BOTH] = here, there, self.both
        views[name, Read.ONLY], views[name, Read.CHANGED] = only, self.changed


def _differences(backend: Backend, plus: Version, minus: Version) -> tuple[View, View, View]:
    return backend.view(plus), backend.view(minus), backend.view(plus, minus)


def lookups(plans: Plans, rules: Iterable[tuple[NormalRule, Pivot | None]]) -> dict[str, set[Order]]:
    """The orders that ready plans of these rules look relations up by."""
    needed: dict[str, set[Order]] = {}
    for (name, _), orders in plans.needed_orders(rules).items():
        needed.setdefault(name, set()).update(orders)
    return needed


@dataclass(frozen=True, slots=True)
class Deltas:
    """The plans that find the instances of some rules that two states do not share, and the orders they look up by."""

    ready: tuple[tuple[NormalRule, Pivot, Executable], ...]
    orders: Mapping[str, set[Order]]

    @staticmethod
    def of(
        plans: Plans,
        rules: Iterable[NormalRule],
        changed: Container[str],
        sizes: Mapping[str, Version],
        uniform: bool = False,
        ranked: bool = False,
    ) -> Deltas:
        """The plans for these rules, when relations in `changed` differ."""
        jobs = [
            (rule, replace(pivot, uniform=uniform, ranked=ranked))
            for rule in rules
            for pivot in change_pivots(rule, changed)
        ]
        ready = tuple((rule, pivot, plans.delta(rule, pivot, sizes)) for rule, pivot in jobs)
        return Deltas(ready, lookups(plans, jobs))

    def count(
        self,
        backend: Backend,
        views: ViewDict,
        by: Callable[[NormalRule], Key],
        starts: Callable[[NormalRule, Pivot], bool] = lambda rule, pivot: True,
    ) -> dict[Key, Counted]:
        """The instances that hold here and not there, in groups; a group has rules of one head.

        Plans that do not start, since there is nothing for them to start from, are left out.
        """
        heads: dict[Key, str] = {}
        groups: dict[Key, list[Executable]] = {}
        for rule, pivot, plan in self.ready:
            if starts(rule, pivot):
                heads[by(rule)] = rule.relation
                groups.setdefault(by(rule), []).append(plan)
        return {key: backend.count(heads[key], plans, views) for key, plans in groups.items()}


class LowerStrata:
    """What a stratum reads of the strata below, before and after an epoch."""

    def __init__(self, work: Work, stratum: Stratum) -> None:
        self._work = work
        self._backend = work.backend
        own = set(stratum.relations)
        rules = (*stratum.nonrecursive, *stratum.recursive)
        self._reads = set().union(*(relations_of(rule.body) for rule in rules)) - own if rules else set()
        self.changed: dict[str, Change] = {n: work.changes[n] for n in self._reads if n in work.changes}

    def orders(self, rules: Iterable[tuple[NormalRule, Pivot | None]]) -> dict[str, set[Order]]:
        """The orders that ready plans of these rules look relations up by."""
        return lookups(self._work.plans, rules)

    def compared(self, orders: Mapping[str, set[Order]], gained: bool) -> ViewDict:
        """Views with the new state here and the old one there (`gained`), or the other way round."""
        work, backend, views = self._work, self._backend, ViewDict()
        for name in self._reads & orders.keys():
            wanted = orders[name]
            new = work.new[name] = work.new[name].indexed(wanted)
            change = self.changed.get(name)
            if change is None:
                sides = Sides.alike(backend, name, backend.view(new), wanted)
            else:
                plus, minus = (backend.version(rows, wanted) for rows in (change.plus, change.minus))
                sides = Sides.after(backend, new, plus, minus, self._old(name, wanted))
            sides.put(views, name, gained)
        return views

    def standing(self, orders: Mapping[str, set[Order]], old: bool = False) -> ViewDict:
        """Views of one state: the new one, or the old."""
        views = ViewDict()
        for name in self._reads & orders.keys():
            if old and name in self.changed:
                version = self._old(name, orders[name])
            else:
                version = self._work.new[name] = self._work.new[name].indexed(orders[name])
            read_alike(views, name, self._backend.view(version))
        return views

    def _old(self, name: str, orders: set[Order]) -> Version:
        version = self._work.old[name] = self._work.old[name].indexed(orders)
        return version

    def difference(
        self,
        rules: Iterable[NormalRule],
        gained: bool,
        own: Mapping[str, View],
        ranks: Mapping[str, Tally] | None = None,
    ) -> dict[str, Counted]:
        """Per head, the instances that the change below makes (`gained`) or breaks, counted.

        Atoms of the stratum itself, in recursive rules, read `own`. With `ranks`, only instances whose atoms of the
        stratum rank below the head count.
        """
        work = self._work
        deltas = Deltas.of(work.plans, rules, self.changed, {**work.old, **work.new}, ranked=ranks is not None)
        if not deltas.ready:
            return {}
        views = self.compared(deltas.orders, gained)
        for name, view in own.items():
            read_alike(views, name, view)
        read_ranks(views, ranks or {})
        return deltas.count(self._backend, views, lambda rule: rule.relation)
