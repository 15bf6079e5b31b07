"""Matching: the rule instances of a database, and those that tell two databases apart.

The cycle step needs no more than this: given a database and how it differs from another one, which rules have how many
instances more or less? In a run the two are the databases of two cycles; when an update is absorbed they are the
databases of two runs at the same cycle. A result is a sum over instances, so matching can be split by instance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sempre.analysis.model import NormalRule
from sempre.maintain.planning import Plans, change_pivots, pivot_relation
from sempre.maintain.strategy import Change
from sempre.plan.backend import Counted, CycleBackend, Executable, Version, View
from sempre.plan.ops import Order, Pivot, Read, relations_of

Views = dict[tuple[str, Read], View]


@dataclass(frozen=True, slots=True)
class Sides:
    """One relation in two databases: the one before, the one after, what both have, and the two differences."""

    old: View
    new: View
    both: View
    plus: View
    minus: View
    changed: View


# Gives the two sides of a relation, indexed by these orders.
Reader = Callable[[str, Collection[Order]], Sides]


class Matcher:
    """Finds rule instances on a backend."""

    def __init__(self, backend: CycleBackend, plans: Plans) -> None:
        self.backend = backend
        self._plans = plans
        self._reads: dict[int, frozenset[str]] = {}

    def reads(self, rule: NormalRule) -> frozenset[str]:
        """The relations that the body of a rule reads, in negations and aggregates too."""
        found = self._reads.get(rule.number)
        if found is None:
            found = self._reads[rule.number] = frozenset(relations_of(rule.body))
        return found

    def all_instances(
        self, rules: Sequence[NormalRule], sizes: Mapping[str, Version], read: Reader
    ) -> dict[int, Counted]:
        """By rule, the instances that hold in the new database, counted by head."""
        ready = [(rule, self._plans.full(rule, sizes)) for rule in rules]
        orders = self._orders((rule, None) for rule in rules)
        views = {(name, Read.HERE): read(name, wanted).new for name, wanted in orders.items()}
        return {rule.number: self.backend.count(rule.relation, [plan], views) for rule, plan in ready}

    def difference(
        self, rules: Sequence[NormalRule], changed: Mapping[str, Change], sizes: Mapping[str, Version], read: Reader
    ) -> dict[int, Counted]:
        """By rule, the instances that hold in the new database less those that hold in the old one.

        `changed` is how the two differ. Rules without a difference are left out.
        """
        jobs = [
            (rule, Pivot(pivot.literal, pivot.inner, uniform=True))
            for rule in rules
            for pivot in change_pivots(rule, changed)
        ]
        ready = [(rule, pivot, self._plans.delta(rule, pivot, sizes)) for rule, pivot in jobs]
        sides = {name: read(name, wanted) for name, wanted in self._orders(jobs).items()}
        heads = {rule.number: rule.relation for rule in rules}
        parts: dict[int, list[Counted]] = {}
        for gained in (True, False):
            views = _views(sides, gained)
            plans: dict[int, list[Executable]] = {}
            for rule, pivot, plan in ready:
                if pivot.inner >= 0 or _has_rows(changed[pivot_relation(rule, pivot)], gained):
                    plans.setdefault(rule.number, []).append(plan)
            for number, chosen in plans.items():
                counted = self.backend.count(heads[number], chosen, views)
                if len(counted):
                    parts.setdefault(number, []).append(counted if gained else counted.negated())
        totals = {number: self.backend.total(heads[number], every) for number, every in parts.items()}
        return {number: total for number, total in totals.items() if len(total)}

    def _orders(self, jobs: Iterable[tuple[NormalRule, Pivot | None]]) -> dict[str, set[Order]]:
        needed: dict[str, set[Order]] = {}
        for (name, _), orders in self._plans.needed_orders(jobs).items():
            needed.setdefault(name, set()).update(orders)
        return needed

    def standing(self, name: str, view: View, orders: Collection[Order]) -> Sides:
        """The sides of a relation that does not differ."""
        nothing = self.backend.view(self.backend.empty(name).indexed(orders))
        return Sides(view, view, view, nothing, nothing, nothing)

    def forward(self, now: Version, change: Change, orders: Collection[Order]) -> Sides:
        """The sides of a relation that changed to `now`, which is indexed."""
        backend = self.backend
        plus, minus = (backend.version(rows, orders) for rows in (change.plus, change.minus))
        both = backend.view(now, without=plus)
        return Sides(
            both.plus(minus) if len(minus) else both,
            backend.view(now),
            both,
            backend.view(plus),
            backend.view(minus),
            backend.view(plus, minus),
        )

    def between(self, old: Callable[[Version | None], View], change: Change, orders: Collection[Order]) -> Sides:
        """The sides of a relation in two runs; `old(without)` gives it in the old one."""
        backend = self.backend
        plus, minus = (backend.version(rows, orders) for rows in (change.plus, change.minus))
        both = old(minus)
        return Sides(
            old(None),
            both.plus(plus) if len(plus) else both,
            both,
            backend.view(plus),
            backend.view(minus),
            backend.view(plus, minus),
        )


def _has_rows(change: Change, gained: bool) -> bool:
    """Whether an atom of this relation can hold here and not there."""
    return bool(len(change.plus if gained else change.minus))


def _views(sides: Mapping[str, Sides], gained: bool) -> Views:
    """What plans read when the new database is here and the old one there (`gained`), or the other way round."""
    views: Views = {}
    for name, side in sides.items():
        here, there, only = (side.new, side.old, side.plus) if gained else (side.old, side.new, side.minus)
        views[name, Read.HERE] = here
        views[name, Read.THERE] = there
        views[name, Read.BOTH] = side.both
        views[name, Read.ONLY] = only
        views[name, Read.CHANGED] = side.changed
    return views
