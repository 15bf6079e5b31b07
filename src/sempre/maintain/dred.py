"""DRed: overdelete everything a deletion may have supported, rederive what still holds, then insert. No counters.

It is also how strata with aggregates in heads are maintained, whatever the strategy. A fact of such a relation stands
for its group: what is overdeleted is rederived group by group, from the facts that are left, and then improved to the
fixpoint. Facts that are left have proofs that nothing touched, so they can only be too weak, never too good; and
rounds that improve a group end where a run from scratch does, since the analysis admits only monotone uses.

Modules take part as they do in DRed^c. Which facts need no proof is found out backward, for those that a module asks
about.

Reference: [GMS93]; [Hu22] Alg. 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sempre.analysis.model import Stratum
from sempre.maintain.dredc import go_on
from sempre.maintain.modular import exchange_of, taking_part
from sempre.maintain.recompute import materialize_with
from sempre.maintain.seminaive import Fixpoint, keeps_total
from sempre.maintain.states import LowerStrata
from sempre.maintain.strategy import Change, Outcome, Work
from sempre.maintain.update import StratumUpdate, heads, own_views
from sempre.plan.backend import Backend, Rows, Version, View
from sempre.plan.ops import HEAD, Read


class DRed:
    """Maintains sets alone."""

    name = "dred"
    forgetful = True

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        return materialize_with(work, stratum, modules=work.modules.get(stratum.index, ()))[0]

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        if any(keeps_total(work.program.relations[name]) for name in stratum.relations):
            return update_totals(work, stratum)
        return _update(work, stratum, memory)

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> None:
        """It finds out what it needs when it needs it."""


def _update(work: Work, stratum: Stratum, memory: Any) -> Outcome:
    """One update of one stratum: overdeletion on the overlay that all strategies share, then rounds that improve."""
    exchange = exchange_of(work, stratum, taking_part(work, stratum, memory))
    rules = (*exchange.generic.nonrecursive, *exchange.generic.recursive)
    update = StratumUpdate(work, exchange.generic, [(rule, HEAD) for rule in rules], walking=False, exchange=exchange)
    if exchange:
        go_on(update, memory)
    _overdelete(update)
    left = {name: update.old[name].removing(update.dead[name].rows()) for name in stratum.relations}
    state = {**work.new, **left}
    candidates = _candidates(update, left)
    exchange.hear_new()
    fixpoint = Fixpoint(work.backend, work.plans, work.program, exchange.generic, work.on_round, exchange=exchange)
    fixpoint.run(state, candidates)
    own = set(stratum.relations)
    work.new.update({name: version for name, version in state.items() if name not in own})
    touched = {name: [update.dead[name].rows(), *(rows for _, rows in fixpoint.touched[name])] for name in own}
    changes = {name: _net(work.backend, update.old[name], state[name], touched[name]) for name in stratum.relations}
    versions = {name: state[name] for name in own}
    return Outcome(versions, changes, exchange.remembered(None), update.rounds + fixpoint.rounds)


def _net(backend: Backend, old: Version, new: Version, touched: Sequence[Rows]) -> Change:
    rows = backend.union(touched)
    plus = backend.difference(backend.intersection(rows, new), old)
    return Change(plus, backend.difference(backend.intersection(rows, old), new))


def _overdelete(update: StratumUpdate) -> None:
    """Bury every fact that has a derivation from something that went."""
    backend = update.backend
    nonrecursive, recursive, removed = update.lost()
    front: dict[str, Rows] = {}
    for name in update.stratum.relations:
        parts = [*heads((nonrecursive, recursive), name), *([removed[name]] if name in removed else [])]
        if parts:
            front[name] = backend.intersection(backend.union(parts), update.old[name])
    below = update.below.compared(update.orders, gained=False)
    update.exchange.hear_gone()
    while front := update.exchange.delete(front, update.dead, update.certain):
        update.note_round(front)
        views = update.bury(front, below)
        front = {
            head: backend.intersection(backend.derive(head, plans, views, update.dead[head]), update.old[head])
            for head, plans in update.plans_for(front).items()
        }


def _candidates(update: StratumUpdate, left: Mapping[str, Version]) -> dict[str, Rows]:
    """What may come back or come anew, given what is left; none of it is in `left`."""
    backend, work = update.backend, update.work
    own = {name: backend.view(version.indexed(update.orders.get(name, ()))) for name, version in left.items()}
    gained, newly = update.gained(), update.below.difference(update.stratum.recursive, gained=True, own=own)
    derived = update.exchange.rederive(update.dead)
    found: dict[str, Rows] = {}
    for name in update.stratum.relations:
        parts = heads((gained, newly), name)
        if name in work.explicit_changes:
            parts.append(work.explicit_changes[name].plus)
        if name in derived:
            parts.append(derived[name])
        if len(update.dead[name]):
            groups = backend.groups(name, update.dead[name].rows())
            parts.append(backend.group_rows(name, groups, work.explicit[name]))
            parts.append(_rederive(update, name, groups, own, left[name]))
        found[name] = backend.difference(backend.union(parts), left[name]) if parts else backend.empty(name).rows()
    return found


def _rederive(update: StratumUpdate, name: str, groups: Rows, own: Mapping[str, View], left: Version) -> Rows:
    """What one rule application derives for these facts or groups."""
    stratum = update.stratum
    views = own_views(update, update.below.standing(update.orders), own)
    views[name, Read.ONLY] = update.only(groups, name)
    rules = [rule for rule in (*stratum.nonrecursive, *stratum.recursive) if rule.relation == name]
    return update.backend.derive(name, [update.plan(rule, HEAD) for rule in rules], views, left)


def update_totals(work: Work, stratum: Stratum) -> Outcome:
    """A relation that keeps a `sum` or `count`: the groups that a change touches are totaled again."""
    backend, below = work.backend, LowerStrata(work, stratum)
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
