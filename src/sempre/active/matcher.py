"""Matching: the rule instances of a database, and those that tell two databases apart.

The cycle step needs no more than this: given a database and how it differs from another one, which rules have how many
instances more or less? In a run the two are the databases of two cycles; when an update is absorbed they are the
databases of two runs at the same cycle. A result is a sum over instances, so matching can be split by instance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from sempre.analysis.model import NormalRule
from sempre.maintain.planning import Plans, pivot_relation
from sempre.maintain.states import Deltas, Sides, ViewDict, lookups
from sempre.maintain.strategy import Change
from sempre.plan.backend import Counted, CycleBackend, Version, View
from sempre.plan.ops import Order, Pivot, Read, relations_of

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
        orders = lookups(self._plans, [(rule, None) for rule in rules])
        views = {(name, Read.HERE): read(name, wanted).new for name, wanted in orders.items()}
        return {rule.number: self.backend.count(rule.relation, [plan], views) for rule, plan in ready}

    def difference(
        self, rules: Sequence[NormalRule], changed: Mapping[str, Change], sizes: Mapping[str, Version], read: Reader
    ) -> dict[int, Counted]:
        """By rule, the instances that hold in the new database less those that hold in the old one.

        `changed` is how the two differ. Rules without a difference are left out.
        """
        deltas = Deltas.of(self._plans, rules, changed, sizes, uniform=True)
        sides = {name: read(name, wanted) for name, wanted in deltas.orders.items()}
        heads = {rule.number: rule.relation for rule in rules}
        parts: dict[int, list[Counted]] = {}
        for gained in (True, False):
            starts = partial(_starts, changed, gained)
            found = deltas.count(self.backend, _views(sides, gained), lambda rule: rule.number, starts)
            for number, counted in found.items():
                if len(counted):
                    parts.setdefault(number, []).append(counted if gained else counted.negated())
        totals = {number: self.backend.total(heads[number], every) for number, every in parts.items()}
        return {number: total for number, total in totals.items() if len(total)}

    def standing(self, name: str, view: View, orders: Collection[Order]) -> Sides:
        """The sides of a relation that does not differ."""
        return Sides.alike(self.backend, name, view, orders)

    def forward(self, now: Version, change: Change, orders: Collection[Order]) -> Sides:
        """The sides of a relation that changed to `now`, which is indexed."""
        backend = self.backend
        return Sides.after(backend, now, *(backend.version(rows, orders) for rows in (change.plus, change.minus)))

    def between(self, old: Callable[[Version | None], View], change: Change, orders: Collection[Order]) -> Sides:
        """The sides of a relation in two runs; `old(without)` gives it in the old one."""
        backend = self.backend
        plus, minus = (backend.version(rows, orders) for rows in (change.plus, change.minus))
        return Sides.before(backend, old(None), old(minus), plus, minus)


def _starts(changed: Mapping[str, Change], gained: bool, rule: NormalRule, pivot: Pivot) -> bool:
    """Whether the pivot can hold here and not there: a negation can, whichever way its relations changed."""
    if pivot.inner >= 0:
        return True
    change = changed[pivot_relation(rule, pivot)]
    return bool(len(change.plus if gained else change.minus))


def _views(sides: Mapping[str, Sides], gained: bool) -> ViewDict:
    """What plans read when the new database is here and the old one there (`gained`), or the other way round."""
    views: ViewDict = {}
    for name, side in sides.items():
        side.put(views, name, gained)
    return views
