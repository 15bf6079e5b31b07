"""Deletion by rank: a fact stays while something of lower rank derives it.

Every fact of a stratum has a rank: the round in which it was found. Ranks make support visible: if an instance that
derives a fact has only facts of lower rank in its body, the fact does not rest on itself through that instance, however
cyclic the rules are. The invariant is that every fact has such a *grounded* support: it is explicit, or a nonrecursive
rule derives it, or a recursive one does from facts of lower rank.

A deletion puts in doubt the facts that lost an instance, whichever. Those that still have a grounded support stay; the
others are taken out, and what rested on them is put in doubt, until nothing is. What was taken out may come back, with
a higher rank, like anything that is inserted. Far less is overdeleted than without ranks, there are no counters to
build or to keep, and the check looks only at the instances that derive the facts in doubt.

Why it is exact: suppose a fact that stays has no proof in the new state; take one of lowest rank. It has a grounded
support (if it was never in doubt, the one it had before, which nothing touched), whose facts have lower rank and stay,
so they have proofs, and so has it.

Differs: from DRed^c in that counters say how many derivations are left, while ranks say which of them to trust; from
[Zhao] in that a rank need not be the iteration of a run from scratch, so a fact that moves does not move all that
follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sempre.analysis.model import Stratum
from sempre.maintain.memory import Checks, Memory, Meta, Reading, Writing, how_many
from sempre.maintain.recompute import materialize_with
from sempre.maintain.seminaive import Fixpoint
from sempre.maintain.states import ViewDict
from sempre.maintain.strategy import Outcome, Work, some
from sempre.maintain.update import Job, StratumUpdate, heads, own_views
from sempre.plan.backend import Backend, Rows, Tally
from sempre.plan.ops import HEAD, RANKED, Read

Found = tuple[tuple[int, Rows], ...]


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of every fact of a stratum, and the highest.

    Ranks are read only by deletions. Until then, what rounds found is kept as it is, with its rank: `found`.
    """

    settled: Mapping[str, Tally]
    found: Mapping[str, Found]
    top: int

    kind: ClassVar[str] = "ranks"
    sets: ClassVar[Mapping[str, int]] = {"rank": 0}

    def describe(self) -> Meta:
        return {"top": self.top}

    def write(self, shelf: Writing) -> None:
        for name, tally in self.settled.items():
            shelf.tally("rank", name, tally)
        for name, rounds in self.found.items():
            for rank, rows in rounds:
                shelf.rows("rank", name, rows, rank)

    @classmethod
    def read(cls, meta: Meta, stratum: Stratum, shelf: Reading) -> Ranks:
        return cls(shelf.tallies("rank", stratum), dict.fromkeys(stratum.relations, ()), meta["top"])

    def check(self, work: Work, stratum: Stratum, checks: Checks) -> None:
        """Ranks are not those of a run from scratch; what they must do is ground every fact, if the facts are right."""
        if not checks.is_clean:
            return
        checks.saw(sum(len(tally.entries()) for tally in self.tallies(work.backend).values()))
        for name, rows in ungrounded_facts(work, stratum, self).items():
            message = f"no support of lower rank for {how_many(len(rows))} of `{name}`"
            checks.wrong(name, "rank", rows, message, examples=True)

    def tallies(self, backend: Backend) -> dict[str, Tally]:
        """The rank of every fact, by relation."""
        after = dict(self.settled)
        for name, found in self.found.items():
            if found:
                new = backend.total(name, [backend.times(rows, rank) for rank, rows in found])
                after[name] = after[name].adding(new)
        return after

    def later(self, fronts: Mapping[str, Sequence[tuple[int, Rows]]]) -> Ranks:
        """With what further rounds found, counted from the highest rank on."""
        found = {
            name: (*self.found[name], *((self.top + round_, rows) for round_, rows in fronts[name]))
            for name in self.found
        }
        return Ranks(self.settled, found, max([self.top, *(rank for rounds in found.values() for rank, _ in rounds)]))


class Ranked:
    """Maintains ranks."""

    name = "ranked"
    forgetful = False

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        outcome, fixpoint = materialize_with(work, stratum, walking=False)
        memory = ranks_of(work, stratum, fixpoint)
        return Outcome(outcome.versions, outcome.changes, memory, outcome.rounds)

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        update = StratumUpdate(work, stratum, _backward(stratum), walking=False)
        nonrecursive, recursive, removed = update.lost()
        gained = update.gained()
        doubted: dict[str, Rows] = {}
        for name in stratum.relations:
            parts = [*heads((nonrecursive, recursive), name), *([removed[name]] if name in removed else [])]
            if parts:
                doubted[name] = update.backend.union(parts)
        if some(update.backend, doubted):
            memory = _settled(memory, update)
            _delete(update, memory, doubted)
            memory = _without_dead(memory, update)
        again = {name: _derivable(update, name) for name in stratum.relations if len(update.dead[name])}
        update.insert(gained, again)
        return update.outcome(memory.later(update.fronts) if stratum.recursive else memory)

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> Memory | None:
        """What a run from scratch would remember."""
        return self.bootstrap(standing(), stratum).memory


def _settled(memory: Ranks, update: StratumUpdate) -> Ranks:
    """The same ranks, ready to be read."""
    return Ranks(memory.tallies(update.backend), dict.fromkeys(memory.found, ()), memory.top)


def _without_dead(memory: Ranks, update: StratumUpdate) -> Ranks:
    """Dead facts have no rank."""
    settled = {
        name: tally.adding(update.backend.lookup(tally, update.dead[name].rows()).negated())
        for name, tally in memory.settled.items()
    }
    return Ranks(settled, memory.found, memory.top)


def ranks_of(work: Work, stratum: Stratum, fixpoint: Fixpoint) -> Ranks:
    """The ranks that a run from scratch gives; without recursion nobody asks for them."""
    none = Ranks(
        {name: work.backend.tally(name) for name in stratum.relations}, dict.fromkeys(stratum.relations, ()), 0
    )
    if not stratum.recursive:
        return none
    assert not fixpoint.walked, "a walk has no rounds to rank by"
    return none.later(fixpoint.touched)


def _backward(stratum: Stratum) -> list[Job]:
    rules = (*stratum.nonrecursive, *stratum.recursive)
    return [(rule, pivot) for rule in rules for pivot in (HEAD, RANKED)]


def _delete(update: StratumUpdate, memory: Ranks, doubted: Mapping[str, Rows]) -> None:
    """Take out every fact in doubt that has no grounded support, and so on."""
    backend = update.backend
    # Support that counts is support in the new state below; what only the old one gave was put in doubt at the start.
    new_below = update.below.standing(update.orders)
    for name, tally in memory.settled.items():
        new_below[name, Read.RANK] = tally
    while doubted := some(backend, doubted):
        update.note_round(doubted)
        own = {name: update.left(name) for name in update.stratum.relations}
        views = own_views(update, new_below, own)
        dying = {name: _ungrounded(update, name, rows, dict(views)) for name, rows in doubted.items()}
        dying = some(backend, dying)
        if not dying:
            return
        views = update.bury(dying, new_below)
        doubted = {
            head: backend.intersection(backend.derive(head, plans, views, update.dead[head]), update.old[head])
            for head, plans in update.plans_for(dying).items()
        }


def _ungrounded(update: StratumUpdate, name: str, rows: Rows, views: ViewDict) -> Rows:
    """The facts that are not explicit and that nothing derives from below or from lower ranks."""
    backend, stratum = update.backend, update.stratum
    rows = backend.difference(rows, update.work.explicit[name])
    checks = [(rule, HEAD) for rule in stratum.nonrecursive if rule.relation == name]
    checks += [(rule, RANKED) for rule in stratum.recursive if rule.relation == name]
    # One support is enough: the rules that are quick to check come first, and leave less to the others.
    for rule, pivot in sorted(checks, key=lambda check: len(check[0].body)):
        if not len(rows):
            return rows
        views[name, Read.ONLY] = update.only(rows, name)
        grounded = backend.derive(name, [update.plan(rule, pivot)], views, backend.empty(name))
        rows = backend.difference(rows, backend.version(grounded))
    return rows


def ungrounded_facts(work: Work, stratum: Stratum, memory: Ranks) -> dict[str, Rows]:
    """The facts of a stratum that break the invariant: none, if the ranks are right."""
    update = StratumUpdate(work, stratum, _backward(stratum), walking=False)
    below = update.below.standing(update.orders)
    below.update({(name, Read.RANK): tally for name, tally in memory.tallies(work.backend).items()})
    views = own_views(update, below, {name: update.left(name) for name in stratum.relations})
    return {name: _ungrounded(update, name, update.old[name].rows(), dict(views)) for name in stratum.relations}


def _derivable(update: StratumUpdate, name: str) -> Rows:
    """The dead facts that are explicit or that something derives from what is left."""
    backend, stratum = update.backend, update.stratum
    own = {other: update.left(other) for other in stratum.relations}
    views = own_views(update, update.below.standing(update.orders), own)
    dead = update.dead[name].rows()
    views[name, Read.ONLY] = update.only(dead, name)
    rules = [rule for rule in (*stratum.nonrecursive, *stratum.recursive) if rule.relation == name]
    plans = [update.plan(rule, HEAD) for rule in rules]
    explicit = backend.intersection(dead, update.work.explicit[name])
    return backend.union([explicit, backend.derive(name, plans, views, backend.empty(name))])
