"""DRed^c: overdelete, rederive, insert, with two counters per fact.

`nonrec` counts the instances of nonrecursive rules that derive a fact, and one more if it is explicit; `rec` those of
recursive rules. A fact with `nonrec` above zero cannot rest on itself, so it is never overdeleted; one whose `rec` is
still above zero after overdeletion holds, so nothing is evaluated backward. After every update both counters equal
those of a run from scratch.

The counters are made when they are first needed: a database that only ever grows never pays for them.

Reference: [Hu18]; [Hu22] sections 2.3 and 7.1.
Differs: counters are lazy, and a stratum's changes are one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from sempre.analysis.model import NormalRule, Stratum
from sempre.data import dataclass
from sempre.maintain.memory import Checks, MemorySink, MemorySource, Meta
from sempre.maintain.modular import Certain, PartitionedMemory, exchange_of, taking_part
from sempre.maintain.recompute import materialize_with
from sempre.maintain.seminaive import Fixpoint
from sempre.maintain.states import LowerStrata, read_alike
from sempre.maintain.strategy import Outcome, Phase, Work
from sempre.maintain.update import StratumUpdate, heads
from sempre.plan.backend import Counted, Rows, Tally, Version, Walk


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of every fact of a stratum; `rec` is missing where a strategy does not keep it."""

    nonrec: Mapping[str, Tally]
    rec: Mapping[str, Tally] | None

    kind: ClassVar[str] = "counters"
    sets: ClassVar[Mapping[str, int]] = {"nonrec": 0, "rec": 0}

    def describe(self) -> Meta:
        return {"rec": self.rec is not None}

    def write(self, shelf: MemorySink) -> None:
        for kind, tallies in (("nonrec", self.nonrec), ("rec", self.rec or {})):
            for name, tally in tallies.items():
                shelf.tally(kind, name, tally)

    @classmethod
    def read(cls, meta: Meta, stratum: Stratum, shelf: MemorySource) -> Counters:
        return cls(shelf.tallies("nonrec", stratum), shelf.tallies("rec", stratum) if meta["rec"] else None)

    def check(self, work: Work, stratum: Stratum, checks: Checks) -> None:
        """Every counter is what counting all instances gives."""
        below, own = LowerStrata(work, stratum), {name: work.new[name] for name in stratum.relations}
        wanted = {"nonrec": (self.nonrec, count_nonrecursive(work, stratum, below, old=False))}
        if self.rec is not None:
            wanted["rec"] = (self.rec, count_recursive(work, stratum, own, below, old=False))
        for what, (have, want) in wanted.items():
            for name in want:
                checks.compare(name, what, f"{what} of `{name}`", have[name].entries(), want[name].entries())


class DRedC:
    """Maintains counters and changes what they say."""

    name = "dredc"
    forgetful = True

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        return materialize_with(work, stratum, modules=work.modules.get(stratum.index, ()))[0]

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        exchange = exchange_of(work, stratum, taking_part(work, stratum, memory))
        counters = memory.counters if isinstance(memory, PartitionedMemory) else memory
        update = StratumUpdate(work, exchange.generic, exchange=exchange)
        if isinstance(memory, PartitionedMemory):
            exchange.resume(memory.kept, update.old)
        if counters is not None:  # else they are made, which is for the epochs to come too
            work.on_phase(Phase.COMPARING)
        nonrecursive, recursive, removed = update.lost()
        gained = update.gained()
        loses = update.is_any(nonrecursive, recursive, removed) or exchange.loses()
        unknown = bool(exchange) and memory is None
        if counters is None and not loses and not unknown:
            update.insert(gained, {})
            return replace(update.outcome(exchange.memory(None)), modules=exchange.modules)
        if counters is None:
            counters = counted_before(update)
            work.on_phase(Phase.COMPARING)
        if unknown:
            exchange.restore(update.old, (counters.nonrec, counters.rec))
        update.rec = dict(counters.rec)
        nonrec = changed_nonrec(update, counters.nonrec, nonrecursive, gained)
        work.on_phase(Phase.DELETING)
        _overdelete(update, nonrec, (nonrecursive, recursive), removed)
        update.insert(gained, _rederived(update))
        after = Counters(nonrec, update.rec)
        outcome = update.outcome(exchange.memory(after) if exchange else after)
        return replace(outcome, modules=exchange.modules)

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> None:
        """It finds out what it needs when it needs it."""


def go_on(update: StratumUpdate, memory: Any) -> None:
    """Let the modules of an update go on from what is remembered; without a memory, from counters made for that."""
    if isinstance(memory, PartitionedMemory):
        update.exchange.resume(memory.kept, update.old)
    else:
        counters = counted_before(update)
        assert counters.rec is not None
        update.exchange.restore(update.old, (counters.nonrec, counters.rec))


def counted_before(update: StratumUpdate) -> Counters:
    """The counters before the epoch, counted."""
    return Counters(
        count_nonrecursive(update.work, update.stratum, update.below, old=True),
        count_recursive(update.work, update.stratum, update.old, update.below, old=True),
    )


def counters_of(work: Work, stratum: Stratum, fixpoint: Fixpoint, versions: Mapping[str, Version]) -> Counters | None:
    """The counters that a run from scratch has found on its way, if it did."""
    if fixpoint.counted is None:
        return None
    rec = {name: work.backend.numbered(name, fixpoint.counted[name], versions[name]) for name in stratum.relations}
    return Counters(count_nonrecursive(work, stratum, LowerStrata(work, stratum), old=False), rec)


def _rederived(update: StratumUpdate) -> dict[str, Rows]:
    """The dead facts that counters or modules bring back."""
    backend, rec = update.backend, update.rec
    assert rec is not None
    again = {name: backend.positive(rec[name], dead.rows()) for name, dead in update.dead.items()}
    for head, rows in update.exchange.rederive(update.dead).items():
        again[head] = backend.union([again[head], rows])
    return again


def _overdelete(
    update: StratumUpdate,
    nonrec: Mapping[str, Tally],
    lost: tuple[Mapping[str, Counted], Mapping[str, Counted]],
    removed: Mapping[str, Rows],
) -> None:
    """Bury every fact that may have lost its last derivation.

    `nonrec` is final before this starts. Each round takes from `rec` the instances, true before the epoch and with
    their part below unchanged, whose atoms here were all left before the round and are not all left after it.
    """
    backend, rec = update.backend, update.rec
    assert rec is not None
    front: dict[str, Rows] = {}
    for name in update.stratum.relations:
        if name in lost[1]:
            rec[name] = rec[name].adding(lost[1][name].negated())
        parts = [*heads(lost, name), *([removed[name]] if name in removed else [])]
        if parts:
            front[name] = backend.zero(nonrec[name], backend.union(parts))
    below = update.below.compared(update.orders, gained=False)
    update.exchange.hear_gone()
    while front := update.exchange.delete(front, update.dead, counted_certain(update, nonrec)):
        update.note_round(front)
        walked = update.walk(front, below, nonrec)
        if walked is not None:
            front = _bury_walked(update, front, walked)
            continue
        views = update.bury(front, below)
        following: dict[str, Rows] = {}
        for head, plans in update.plans_for(front).items():
            counted = backend.count(head, plans, views)
            rec[head] = rec[head].adding(counted.negated())
            following[head] = backend.difference(backend.zero(nonrec[head], counted.rows()), update.dead[head])
        front = following


def _bury_walked(update: StratumUpdate, front: Mapping[str, Rows], walked: Walk) -> dict[str, Rows]:
    assert update.rec is not None
    update.note_round(walked.followed)
    for name in update.stratum.relations:
        went = [walked.followed[name], *([front[name]] if name in front else [])]
        update.dead[name] = update.dead[name].adding(update.backend.union(went))
        update.rec[name] = update.rec[name].adding(walked.counts[name].negated())
    return dict(walked.pending)


def counted_certain(update: StratumUpdate, nonrec: Mapping[str, Tally]) -> Certain:
    """What certainly holds, by the final counters."""
    return lambda name, rows: update.backend.positive(nonrec[name], rows)


def changed_nonrec(
    update: StratumUpdate, before: Mapping[str, Tally], lost: Mapping[str, Counted], gained: Mapping[str, Counted]
) -> dict[str, Tally]:
    """`nonrec` after the epoch."""
    backend, after = update.backend, dict(before)
    for name in update.stratum.relations:
        parts = []
        if name in lost:
            parts.append(lost[name].negated())
        if name in gained:
            parts.append(gained[name])
        if name in update.work.explicit_changes:
            change = update.work.explicit_changes[name]
            parts += [backend.once(change.minus).negated(), backend.once(change.plus)]
        after[name] = after[name].adding(backend.total(name, parts))
    return after


def count_nonrecursive(work: Work, stratum: Stratum, below: LowerStrata, old: bool) -> dict[str, Tally]:
    """`nonrec` from scratch, in the new state or the `old` one."""
    backend = work.backend
    explicit = work.explicit_before if old else work.explicit
    counts = {name: backend.tally(name).adding(backend.once(explicit[name].rows())) for name in stratum.relations}
    for rule in stratum.nonrecursive:
        counts[rule.relation] = counts[rule.relation].adding(_count(work, rule, {}, below, old))
    return counts


def count_recursive(
    work: Work, stratum: Stratum, versions: Mapping[str, Version], below: LowerStrata, old: bool
) -> dict[str, Tally]:
    """`rec` from scratch, given the facts of the stratum."""
    counts = {name: work.backend.tally(name) for name in stratum.relations}
    for rule in stratum.recursive:
        counts[rule.relation] = counts[rule.relation].adding(_count(work, rule, versions, below, old))
    return counts


def _count(work: Work, rule: NormalRule, own: Mapping[str, Version], below: LowerStrata, old: bool) -> Counted:
    """All instances of a rule, by head."""
    backend = work.backend
    ready = work.plans.full(rule, {**work.old, **work.new, **own})
    orders = below.orders([(rule, None)])
    views = below.standing(orders, old)
    for name in own.keys() & orders.keys():
        read_alike(views, name, backend.view(own[name].indexed(orders[name])))
    return backend.count(rule.relation, [ready], views)
