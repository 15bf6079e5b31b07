"""Deletion by rank: a fact stays while something of lower rank derives it, and how much does is known.

Every fact of a stratum has a rank: the round in which it was found. Ranks make support visible: if an instance that
derives a fact has only facts of lower rank in its body, the fact does not rest on itself through that instance, however
cyclic the rules are. Such an instance of a recursive rule is *tight*. The invariant is that every fact is *grounded*:
it is explicit, or a nonrecursive rule derives it, or it has a tight instance.

Beside the rank stands the number of tight instances. Semi-naive evaluation sees all of them in the round in which the
fact is new, so counting them is nearly free. A deletion takes from these numbers the tight instances that it breaks.
Facts that are left with none, and that nothing derives from below, are taken out, and what was tight with them is
counted down, until nothing is. Nothing is looked for backward. What was taken out may come back, with a higher rank,
like anything that is inserted.

Why it is exact: suppose a fact that stays has no proof in the new state; take one of lowest rank. It is grounded: its
number is at most that of its tight instances, and above zero. So it has an instance of facts that have lower rank and
stay; they have proofs, and so has it. `docs/design/0005-tight.md` has the rest.

Differs: from DRed^c in that only instances which cannot be circular count; from [Zhao] in that a rank need not be the
iteration of a run from scratch, so a fact that moves does not move all that follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from sempre.analysis.model import Stratum
from sempre.data import dataclass
from sempre.kernel.capacity import CapacityError
from sempre.maintain.memory import Checks, Memory, MemorySink, MemorySource, Meta, how_many
from sempre.maintain.planning import change_pivots, nested_changes, pivot_relation, pivots
from sempre.maintain.recompute import materialize_with
from sempre.maintain.seminaive import Fixpoint
from sempre.maintain.states import LowerStrata, ViewDict, read_ranks
from sempre.maintain.strategy import Change, Outcome, Phase, Work, as_update, nonempty
from sempre.maintain.update import Job, StratumUpdate, heads, own_views
from sempre.plan.backend import Backend, Counted, Reranked, Rows, Tally, Version
from sempre.plan.ops import HEAD, RANKED, Read

Tallies = dict[str, Tally]

# Ranks of one round and of the next lie so far apart: what is raised by a little stays below what it derives.
GAP = 64


@dataclass(frozen=True, slots=True)
class FoundRanks:
    """What runs have found of one relation and nobody has looked up yet: rows by rank, and their tight instances."""

    ranked: tuple[tuple[int, Rows], ...] = ()
    tight: tuple[Counted, ...] = ()

    def later(self, top: int, fronts: Sequence[tuple[int, Rows]], tight: Sequence[Counted]) -> FoundRanks:
        ranked = (((top + round_) * GAP, rows) for round_, rows in fronts if len(rows))
        return FoundRanks((*self.ranked, *ranked), (*self.tight, *(counted for counted in tight if len(counted))))


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of every fact of a stratum and its number of tight instances, and the highest rank.

    Only deletions read them. Until the first, what rounds found is kept as it is: `found`. From then on the two maps
    are kept up to date: `ranks` and `tight`. Numbers are `exact` unless instances were gained before anybody looked:
    then they may be too low, and never too high.
    """

    ranks: Mapping[str, Tally] | None
    tight: Mapping[str, Tally]
    found: Mapping[str, FoundRanks]
    top: int
    exact: bool = True

    kind: ClassVar[str] = "ranks"
    sets: ClassVar[Mapping[str, int]] = {"rank": 0, "tight": 0}

    def describe(self) -> Meta:
        return {"top": self.top, "exact": self.exact}

    def write(self, shelf: MemorySink) -> None:
        for kind, numbers in (("rank", self.ranks or {}), ("tight", self.tight)):
            for name, tally in numbers.items():
                shelf.tally(kind, name, tally)
        for name, found in self.found.items():
            for rank, rows in found.ranked:
                shelf.rows("rank", name, rows, rank)
            for counted in found.tight:
                shelf.counted("tight", name, counted)

    @classmethod
    def read(cls, meta: Meta, stratum: Stratum, shelf: MemorySource) -> Ranks:
        # Stores of old have no numbers of tight instances: none is too low for every fact, and so allowed.
        ranks, tight = shelf.tallies("rank", stratum), shelf.tallies("tight", stratum)
        return cls(ranks, tight, {}, meta["top"], meta.get("exact", False))

    def check(self, work: Work, stratum: Stratum, checks: Checks) -> None:
        """Ranks are not those of a run from scratch; what they must do is ground every fact, if the facts are right."""
        if not checks.is_clean or not stratum.recursive:
            return
        backend = work.backend
        ranks, tight = self.maps(backend, work.old)
        checks.saw(sum(len(numbers.entries()) for numbers in ranks.values()))
        counted, ungrounded = tight_instances(work, stratum, ranks)
        for name in stratum.relations:
            have, want = tight[name].entries(), counted[name].entries()
            if self.exact:
                checks.compare(name, "tight", f"the number of tight instances of `{name}`", have, want)
            else:
                checks.saw(len(have))
                excess = counted[name].adding(have.negated())
                rows = backend.difference(have.rows(), backend.version(_not_negative(backend, excess, have.rows())))
                message = f"too many tight instances for {how_many(len(rows))} of `{name}`"
                checks.wrong(name, "tight", rows, message, examples=True)
            message = f"no support of lower rank for {how_many(len(ungrounded[name]))} of `{name}`"
            checks.wrong(name, "rank", ungrounded[name], message, examples=True)

    def maps(self, backend: Backend, versions: Mapping[str, Version]) -> tuple[Tallies, Tallies]:
        """The rank of every fact, and how many tight instances it has; `versions` has all facts."""
        if self.ranks is not None:
            return dict(self.ranks), dict(self.tight)
        ranks, tight = {}, {}
        for name, found in self.found.items():
            ranks[name] = backend.numbered(name, [backend.times(r, n) for n, r in found.ranked], versions[name])
            tight[name] = backend.numbered(name, found.tight, versions[name])
        return ranks, tight

    def later(
        self, backend: Backend, fronts: Mapping[str, Sequence[tuple[int, Rows]]], tight: Mapping[str, Sequence[Counted]]
    ) -> Ranks:
        """With what further rounds found, counted from the highest rank on."""
        top = self.top + max((round_ for rounds in fronts.values() for round_, _ in rounds), default=0)
        if self.ranks is None:
            found = {name: self.found[name].later(self.top, fronts[name], tight[name]) for name in self.found}
            return replace(self, found=found, top=top)
        ranks, numbers = dict(self.ranks), dict(self.tight)
        for name, rounds in fronts.items():
            new = backend.total(name, [backend.times(rows, (self.top + round_) * GAP) for round_, rows in rounds])
            ranks[name] = ranks[name].adding(new)
            numbers[name] = numbers[name].adding(backend.total(name, tight[name]))
        return replace(self, ranks=ranks, tight=numbers, top=top)


class Ranked:
    """Maintains ranks and the numbers of tight instances."""

    name = "ranked"
    forgetful = False

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        try:
            outcome, fixpoint = materialize_with(work, stratum, walking=False, counting=True)
        except CapacityError:  # numbers that do not fit: none is allowed too
            outcome, fixpoint = materialize_with(work, stratum, walking=False)
        memory = ranks_of(work, stratum, fixpoint)
        return Outcome(outcome.versions, outcome.changes, memory, outcome.rounds)

    def update(self, work: Work, stratum: Stratum, memory: Ranks) -> Outcome:
        try:
            return self.followed(work, stratum, memory)
        except CapacityError:
            return as_update(work, stratum, self.bootstrap(work, stratum))

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> Memory | None:
        """What a run from scratch would remember."""
        return self.bootstrap(standing(), stratum).memory

    def followed(self, work: Work, stratum: Stratum, memory: Ranks) -> Outcome:
        """An update; raises `CapacityError` where a number does not fit."""
        # Plans that compare ranks may look facts up by other columns than the same plans without.
        changed = LowerStrata(work, stratum).changed
        ranked = [(rule, replace(p, ranked=True)) for rule in stratum.recursive for p in change_pivots(rule, changed)]
        losing = _may_lose(work, stratum, changed)
        # What only inserts needs no index for deletions.
        update = StratumUpdate(work, stratum, [*(_jobs(stratum) if losing else ()), *ranked], walking=False)
        update.supports = {name: [] for name in stratum.relations}
        if memory.ranks is not None or not losing:
            work.on_phase(Phase.COMPARING)
        gained = update.gained()
        nonrecursive, recursive, removed = update.lost(memory.ranks) if losing else ({}, {}, {})
        if update.is_any(nonrecursive, recursive, removed):
            if memory.ranks is None:
                ranks, tight = memory.maps(update.backend, update.old)
                memory = Ranks(ranks, tight, {}, memory.top, memory.exact)
                work.on_phase(Phase.COMPARING)
                nonrecursive, recursive, removed = update.lost(memory.ranks)
            memory = _without_lost(update, memory, (nonrecursive, recursive), removed)
        back: dict[str, Rows] = {}
        if update.counted_back:
            back = {name: _derivable(update, name) for name in stratum.relations if len(update.dead[name])}
        memory = _with_gained(update, memory)
        update.insert(gained, back)
        return update.outcome(memory.later(update.backend, update.fronts, update.supports))


def ranks_of(work: Work, stratum: Stratum, fixpoint: Fixpoint) -> Ranks:
    """The ranks that a run from scratch gives; without recursion nobody asks for them."""
    none = Ranks(None, {}, dict.fromkeys(stratum.relations, FoundRanks()), 0)
    if not stratum.recursive:
        return none
    assert not fixpoint.walked, "a walk has no rounds to rank by"
    numbers: Mapping[str, Sequence[Counted]] = fixpoint.supports or dict.fromkeys(stratum.relations, ())
    return replace(none, exact=fixpoint.supports is not None).later(work.backend, fixpoint.touched, numbers)


def _may_lose(work: Work, stratum: Stratum, changed: Mapping[str, Change]) -> bool:
    """Whether the change below, or that of explicit facts, can break an instance or take a fact away."""
    explicit = (work.explicit_changes[name] for name in stratum.relations if name in work.explicit_changes)
    if any(len(change.minus) for change in (*changed.values(), *explicit)):
        return True
    return any(nested_changes(rule, changed) for rule in (*stratum.nonrecursive, *stratum.recursive))


def _jobs(stratum: Stratum) -> list[Job]:
    """Plans that deletions need besides those of insertion."""
    backward = [(rule, HEAD) for rule in (*stratum.nonrecursive, *stratum.recursive)]
    return backward + _tight_jobs(stratum)


def _tight_jobs(stratum: Stratum) -> list[Job]:
    return [
        (rule, replace(pivot, ranked=True)) for rule in stratum.recursive for pivot in pivots(rule, stratum.relations)
    ]


# ------------------------------------------------------------------------------------------------------ deleting


def _without_lost(
    update: StratumUpdate,
    memory: Ranks,
    lost: tuple[Mapping[str, Counted], Mapping[str, Counted]],
    removed: Mapping[str, Rows],
) -> Ranks:
    """Take out every fact that is not grounded any more; returns ranks and numbers without them.

    `lost` are the instances that the change below breaks, nonrecursive ones and tight ones.
    """
    backend = update.backend
    update.work.on_phase(Phase.DELETING)
    assert memory.ranks is not None
    tight = {
        name: numbers.adding(lost[1][name].negated()) if name in lost[1] else numbers
        for name, numbers in memory.tight.items()
    }
    suspects: dict[str, Rows] = {}
    for name in update.stratum.relations:
        parts = [*heads(lost, name), *([removed[name]] if name in removed else [])]
        if parts:
            suspects[name] = backend.union(parts)
    # Many facts that are gone from below lie far apart, and much rests on them: that is for rounds of arrays.
    starts = sum(map(len, lost[0].values())) + sum(map(len, removed.values()))
    settled = _rerank(update, memory.ranks, tight, suspects) if starts <= backend.limits.settle_starts else None
    if settled is not None:
        ranks = {name: numbers.adding(settled.ranks[name]) for name, numbers in memory.ranks.items()}
        tight = {name: numbers.adding(settled.tight[name]) for name, numbers in tight.items()}
        return replace(memory, ranks=ranks, tight=tight, top=max(memory.top, settled.highest // GAP))
    _delete(update, memory.ranks, tight, suspects)
    ranks = {name: numbers.adding(_of_dead(update, name, numbers)) for name, numbers in memory.ranks.items()}
    tight = {name: numbers.adding(_of_dead(update, name, numbers)) for name, numbers in tight.items()}
    return replace(memory, ranks=ranks, tight=tight)


def _rerank(
    update: StratumUpdate, ranks: Mapping[str, Tally], tight: Mapping[str, Tally], suspects: Mapping[str, Rows]
) -> Reranked | None:
    """Take out what is not derived any more and give another rank to what is, fact by fact; None if that cannot be."""
    stratum, below = update.stratum, update.below
    if any(nested_changes(rule, below.changed) for rule in stratum.recursive):
        return None  # what both states below have is not all that an instance depends on
    own = {name: update.backend.view(version) for name, version in update.old.items()}
    compared = own_views(update, below.compared(update.orders, gained=False), own)
    # From the head, plans read what is here: that is to be what both states have.
    both = dict(compared)
    both.update({(name, Read.HERE): view for (name, read), view in compared.items() if read is Read.BOTH})
    settled = update.backend.rerank(
        suspects,
        (
            [update.plan(rule, pivot) for rule in stratum.recursive for pivot in pivots(rule, stratum.relations)],
            compared,
        ),
        ([update.plan(rule, HEAD) for rule in stratum.recursive], both),
        ([update.plan(rule, HEAD) for rule in stratum.nonrecursive], below.standing(update.orders)),
        update.old,
        {name: update.work.explicit[name] for name in stratum.relations},
        ranks,
        tight,
    )
    if settled is not None:
        update.take_out(settled.gone, settled.touched)
    return settled


def _of_dead(update: StratumUpdate, name: str, numbers: Tally) -> Counted:
    """What takes the numbers of dead facts to zero."""
    return update.backend.lookup(numbers, update.dead[name].rows()).negated()


def _delete(update: StratumUpdate, ranks: Mapping[str, Tally], tight: Tallies, suspects: Mapping[str, Rows]) -> None:
    """Bury what is not grounded, and count down what was tight with it, until everything left is grounded."""
    backend, stratum = update.backend, update.stratum
    now = update.below.standing(update.orders)
    # Instances that only the old state below had are counted down already; those that only the new one has, never up.
    below = update.below.compared(update.orders, gained=False)
    read_ranks(below, ranks)
    plans = [
        (rule.relation, pivot_relation(rule, pivot), update.plan(rule, pivot)) for rule, pivot in _tight_jobs(stratum)
    ]
    while suspects:
        # What comes next is asked for before it is known whether there is anything: a backend may then be asked for
        # several sizes at once.
        weak = {name: _not_positive(backend, tight[name], rows) for name, rows in suspects.items()}
        suspects = nonempty(backend, suspects)
        if not suspects:
            return
        update.note_round(suspects)
        dying = {name: _underived(update, name, rows, now) for name, rows in nonempty(backend, weak).items()}
        dying = nonempty(backend, dying)
        if not dying:
            return
        views = update.bury(dying, below)
        suspects = {}
        for head in stratum.relations:
            ready = [executable for relation, reads, executable in plans if relation == head and reads in dying]
            if ready:
                broken = backend.count(head, ready, views)
                tight[head] = tight[head].adding(broken.negated())
                suspects[head] = backend.difference(broken.rows(), update.dead[head])


def _not_positive(backend: Backend, numbers: Tally, rows: Rows) -> Rows:
    """The rows whose number is not above zero."""
    return backend.difference(rows, backend.version(backend.positive(numbers, rows)))


def _not_negative(backend: Backend, numbers: Tally, rows: Rows) -> Rows:
    """The rows whose number is not below zero."""
    return backend.union([backend.positive(numbers, rows), backend.zero(numbers, rows)])


def _underived(update: StratumUpdate, name: str, rows: Rows, views: ViewDict) -> Rows:
    """The facts that are not explicit and that no nonrecursive rule derives."""
    backend = update.backend
    rows = backend.difference(rows, update.work.explicit[name])
    # One support is enough: the rules that are quick to check come first, and leave less to the others.
    rules = [rule for rule in update.stratum.nonrecursive if rule.relation == name]
    for rule in sorted(rules, key=lambda rule: len(rule.body)):
        if not len(rows):
            return rows
        asked = {**views, (name, Read.ONLY): update.only(rows, name)}
        derived = backend.derive(name, [update.plan(rule, HEAD)], asked, backend.empty(name))
        rows = backend.difference(rows, backend.version(derived))
    return rows


# ----------------------------------------------------------------------------------------------------- inserting


def _derivable(update: StratumUpdate, name: str) -> Rows:
    """The dead facts that are explicit or that something derives from what is left.

    They will rank above all that is left, so every recursive instance that derives them is tight.
    """
    backend, stratum = update.backend, update.stratum
    assert update.supports is not None
    own = {other: update.left(other) for other in stratum.relations}
    views = own_views(update, update.below.standing(update.orders), own)
    dead = update.dead[name].rows()
    views[name, Read.ONLY] = update.only(dead, name)
    first, then = (
        [update.plan(rule, HEAD) for rule in rules if rule.relation == name]
        for rules in (stratum.nonrecursive, stratum.recursive)
    )
    explicit = backend.intersection(dead, update.work.explicit[name])
    derived = backend.derive(name, first, views, backend.empty(name))
    counted = backend.count(name, then, views)
    update.supports[name].append(counted)
    return backend.union([explicit, derived, counted.rows()])


def _with_gained(update: StratumUpdate, memory: Ranks) -> Ranks:
    """With the tight instances that the change below gives to facts that are left."""
    left = {name: update.left(name) for name in update.stratum.relations}
    rules = update.stratum.recursive
    if memory.ranks is None:
        changed = any(change_pivots(rule, update.below.changed) for rule in rules)
        return replace(memory, exact=memory.exact and not changed)
    gained = update.below.difference(rules, gained=True, own=left, ranks=memory.ranks)
    tight = {name: t.adding(gained[name]) if name in gained else t for name, t in memory.tight.items()}
    return replace(memory, tight=tight)


# ------------------------------------------------------------------------------------------------------ checking


def tight_instances(work: Work, stratum: Stratum, ranks: Mapping[str, Tally]) -> tuple[Tallies, dict[str, Rows]]:
    """What the ranks make of a stratum at rest: how many tight instances its facts have, and which are not grounded."""
    extra = [(rule, pivot) for rule in (*stratum.nonrecursive, *stratum.recursive) for pivot in (HEAD, RANKED)]
    update, backend = StratumUpdate(work, stratum, extra, walking=False), work.backend
    below = update.below.standing(update.orders)
    read_ranks(below, ranks)
    views = own_views(update, below, {name: update.left(name) for name in stratum.relations})
    counts, ungrounded = {}, {}
    for name in stratum.relations:
        rows = update.old[name].rows()
        plans = [update.plan(rule, RANKED) for rule in stratum.recursive if rule.relation == name]
        asked = {**views, (name, Read.ONLY): update.only(rows, name)}
        counts[name] = backend.tally(name).adding(backend.count(name, plans, asked))
        ungrounded[name] = _underived(update, name, _not_positive(backend, counts[name], rows), views)
    return counts, ungrounded
