"""One worker's share of a run: messages in, messages out, no input or output of its own.

A shard runs ahead by itself. What it finds out for others it sends: how the numbers of instances change for facts that
are at home elsewhere, and which facts of its own come or go for those who hold them in a fragment. Every message names
the cycle that it is about. One for a cycle that is still to come waits; one for a past cycle is absorbed as a change of
that cycle.

**Any order of messages gives the same chains.** A number is a sum of differences, and whether a fact comes or goes in a
cycle the parity of messages that say so: neither depends on an order, and an undo may overtake its do. When no message
is left and no shard has work, every number is what the rules give on the facts of the cycle before, every fact what its
numbers decide, and every fragment what homes have. By induction over the cycles that is the one run there is.

A cycle has three steps: a shard matches its rules and sends numbers, decides what becomes of its own facts and sends
which of them come or go, and turns those of its fragments. What others send for the cycle is taken in at the step that
needs it; what comes after that step is late. So a shard that waits for the others before each step has nothing to
absorb, and one that does not wait is as right.

A shard works up to a `horizon` of cycles, so that rules without end come to a rest, too. With a horizon that is raised
by one cycle at a time this is the synchronous variation.

Reference: [Wolfson91] section 7, ASYNC_DATA_REDUCTION. Differs: what is sent are differences, never whole answers, so
that there is no version of a reply that another message could overtake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum

import numpy as np

from sempre.active.absorb import Absorption
from sempre.active.inference import Inference, by_sign, part_of
from sempre.active.matcher import Matcher
from sempre.active.sharding import Sharding
from sempre.active.timeline import Signs, Timeline, summed
from sempre.analysis.model import NormalRule
from sempre.backends.local import LocalBackend
from sempre.data import dataclass
from sempre.kernel.chains import symmetric_difference
from sempre.kernel.tally import Counted as OwnCounted
from sempre.kernel.trace import RowSet
from sempre.maintain.planning import Plans
from sempre.maintain.strategy import Change
from sempre.plan.backend import Chain, Counted, Rows, sealed_for_cycles
from sempre.workers.framing import Column
from sempre.workers.placing import Workers, split

FLIPS, ADDED, DELETED = "flips", "added", "deleted"
# The horizon is what keeps a shard from running on.
NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Part:
    """What a message says of one relation or fragment in one cycle: rows, and numbers unless they come or go."""

    at: int
    name: str
    what: str
    columns: list[Column]
    numbers: Column


Message = list[Part]


@dataclass(slots=True)
class Arrived:
    """What came for one cycle."""

    flips: dict[str, list[Rows]] = field(default_factory=dict)
    counts: dict[tuple[str, bool], list[Counted]] = field(default_factory=dict)


class Outbox:
    """What a step has found out, divided among workers."""

    def __init__(self, sharding: Sharding, me: int) -> None:
        self._sharding = sharding
        self._me = me
        self.parts: dict[int, Message] = {}

    def count(self, at: int, name: str, deletes: bool, found: Counted) -> Counted:
        """Send differences of numbers home; returns those that are at home here."""
        counted = own_counted(found)
        columns = counted.rows().columns()
        homes = self._sharding.homes(name, columns, len(counted))
        self._put(at, name, DELETED if deletes else ADDED, columns, counted.weights.astype(np.int64), homes)
        return self._kept(counted, homes)

    def own(self, name: str, found: Counted) -> Counted:
        """Those differences of numbers that are at home here."""
        counted = own_counted(found)
        return self._kept(counted, self._sharding.homes(name, counted.rows().columns(), len(counted)))

    def _kept(self, counted: OwnCounted, homes: Workers) -> Counted:
        keep = homes == self._me
        return counted if keep.all() else OwnCounted(counted.packing, counted.keys[keep], counted.weights[keep])

    def flip(self, at: int, name: str, found: Rows) -> Iterator[tuple[str, Rows]]:
        """Tell all who hold rows of a relation in a fragment that they come or go; yields what is held here."""
        rows = own_rows(found)
        columns = rows.columns()
        for fragment in self._sharding.fragments.get(name, ()):
            holders = self._sharding.holders(fragment, columns, len(rows))
            nothing = np.empty(0, np.int64)
            if holders is None:
                for other in range(self._sharding.workers):
                    if other != self._me:
                        self.parts.setdefault(other, []).append(Part(at, fragment.name, FLIPS, columns, nothing))
                yield fragment.name, rows
                continue
            self._put(at, fragment.name, FLIPS, columns, nothing, holders)
            keep = holders == self._me
            if keep.any():
                yield fragment.name, RowSet(rows.packing, rows.keys[keep])

    def _put(self, at: int, name: str, what: str, columns: list[Column], numbers: Column, to: np.ndarray) -> None:
        sent = split([*columns, numbers] if numbers.size else columns, to, self._sharding.workers)
        for other, part in enumerate(sent):
            if other != self._me and (to == other).any():
                rows, weights = (part[:-1], part[-1]) if numbers.size else (part, numbers)
                self.parts.setdefault(other, []).append(Part(at, name, what, rows, weights))


class CyclePart(Enum):
    """Where a shard is in a cycle."""

    BETWEEN = 0
    MATCHED = 1
    DECIDED = 2


class CycleShard:
    """The shard of one worker."""

    def __init__(self, sharding: Sharding, me: int, backend: LocalBackend) -> None:
        self._sharding = sharding
        self._backend = backend
        self._inbox: dict[int, Arrived] = {}
        self.run = ShardRun(sharding, me, backend)
        self.horizon = 0

    def receive(self, message: Message) -> None:
        """Take note of a message. Parts that flip rows without columns say so by a number for each."""
        for part in message:
            arrived = self._inbox.setdefault(part.at, Arrived())
            size = part.columns[0].size if part.columns else max(1, part.numbers.size)
            rows = self._backend.rows(part.name, part.columns, size)
            if part.what == FLIPS:
                arrived.flips.setdefault(part.name, []).append(rows)
            else:
                counted = self._counted(part, rows)
                arrived.counts.setdefault((part.name, part.what == DELETED), []).append(counted)

    def _counted(self, part: Part, rows: RowSet) -> OwnCounted:
        """Rows with numbers; they are distinct, and sorted like the rows."""
        keys = rows.packing.pack(part.columns, part.numbers.size)
        order = np.argsort(keys, kind="stable")
        return OwnCounted(rows.packing, keys[order], part.numbers[order])

    def step(self) -> dict[int, Message] | None:
        """Absorb what has come for past cycles, or else go on with the cycle; what is to be sent, None if there is no
        work.
        """
        run, now = self.run, self.run.timeline.now
        if run.stage is CyclePart.MATCHED:
            sent = run.decide(self._of(now + 1).counts)
            self._of(now + 1).counts = {}
            return sent
        if run.stage is CyclePart.DECIDED:
            run.turn(self._of(now + 1).flips)
            self._of(now + 1).flips = {}
            if not self._of(now + 1).counts:
                del self._inbox[now + 1]
            return {}
        late = {at: self._inbox[at] for at in sorted(self._inbox) if at <= now}
        if late:
            sent = run.absorbing(late)
            for at in late:
                del self._inbox[at]
            return sent
        if now >= self.horizon or (now and not run.timeline.last and not self._inbox):
            return None
        if now and not run.timeline.last:
            run.wait_until(min(self._inbox) - 1)
        return run.match()

    def _of(self, at: int) -> Arrived:
        return self._inbox.setdefault(at, Arrived())

    @property
    def done(self) -> int:
        """How far this shard is: the number of steps in which it has sent something about cycles from the first on."""
        return 2 * self.run.timeline.now + (0, 1, 2)[self.run.stage.value]

    @property
    def is_within(self) -> bool:
        """Whether a cycle has begun: the next step needs what others send for it."""
        return self.run.stage is not CyclePart.BETWEEN

    @property
    def rests(self) -> bool:
        """Whether there is nothing to do below the horizon."""
        return self.run.stage is CyclePart.BETWEEN and not self.is_busy

    @property
    def is_busy(self) -> bool:
        """Whether there would be work beyond the horizon."""
        return bool(self.run.timeline.last or self._inbox)

    @property
    def last_flip(self) -> int:
        """The last cycle in which a fact that is at home here came or went."""
        own = set(self._sharding.relations)
        return max((at for at, by in self.run.timeline.flips.items() if own & by.keys()), default=0)

    def chain(self, name: str) -> Chain:
        """The chains of the facts of a relation that are at home here."""
        return self.run.timeline.chains[name]


class ShardRun(Inference):
    """The run of a shard; see `Inference`."""

    def __init__(self, sharding: Sharding, me: int, backend: LocalBackend) -> None:
        sealed = sealed_for_cycles(backend)
        nothing = {name: sealed.empty(name).rows() for name in sharding.program.relations}
        chains = {name: sealed.chain(name, rows) for name, rows in nothing.items()}
        self.sharding = sharding
        self.me = me
        self.out = Outbox(sharding, me)
        # At which clocks others have changed numbers of which relations.
        self.told: dict[int, set[str]] = {}
        self.stage = CyclePart.BETWEEN
        # What this shard has found for the cycle that has begun, then what it has decided.
        self._own: Signs = {}
        self._decided: tuple[dict[str, Chain], dict[str, Change], dict[str, list[Rows]]] = {}, {}, {}
        plans = Plans(sharding.program, sealed)
        super().__init__(Matcher(sealed, plans), (sharding.rules[me],), Timeline(chains), NO_LIMIT, lambda cycle: None)

    def wait_until(self, at: int) -> None:
        """Cycles that change nothing here."""
        self.timeline = replace(self.timeline, ends=(max(at, self.timeline.now),))

    def match(self) -> dict[int, Message]:
        """Begin the next cycle: how the numbers of instances change."""
        self.out = Outbox(self.sharding, self.me)
        at = self.timeline.now + 1
        counts = self._step(self.phases[0], at == 1)
        found = by_sign(self.backend, self._rules(counts), counts)
        self._own = {key: self.out.count(at, *key, counted) for key, counted in found.items()}
        self.stage = CyclePart.MATCHED
        return self.out.parts

    def decide(self, arrived: Mapping[tuple[str, bool], Sequence[Counted]]) -> dict[int, Message]:
        """Go on with it: which of the facts that are at home here come or go."""
        self.out = Outbox(self.sharding, self.me)
        at, chains = self.timeline.now + 1, dict(self.timeline.chains)
        keys = {**self._own, **arrived}
        signs = summed(self.backend, {key: [*part_of(key, self._own), *arrived.get(key, ())] for key in keys})
        changes: dict[str, Change] = {}
        turns: dict[str, list[Rows]] = {}
        for name in {name for name, _ in signs}:
            chains[name], plus, minus = chains[name].advanced(at, signs.get((name, False)), signs.get((name, True)))
            if len(plus) or len(minus):
                changes[name] = Change(plus, minus)
                for fragment, rows in self.out.flip(at, name, self.backend.union([plus, minus])):
                    turns.setdefault(fragment, []).append(rows)
        if arrived:
            self.told.setdefault(at, set()).update(name for name, _ in arrived)
        self._decided = chains, changes, turns
        self._own = {}
        self.stage = CyclePart.DECIDED
        return self.out.parts

    def turn(self, arrived: Mapping[str, Sequence[Rows]]) -> None:
        """End the cycle: which facts of fragments come or go."""
        at = self.timeline.now + 1
        chains, changes, turns = self._decided
        for name in {**turns, **arrived}:
            rows = odd([*turns.get(name, ()), *arrived.get(name, ())])
            if len(rows):
                chains[name], plus, minus = chains[name].turned(at, rows)
                changes[name] = Change(plus, minus)
        if changes:
            self._flips[at] = {name: len(change.plus) + len(change.minus) for name, change in changes.items()}
        self.timeline = replace(self.timeline, chains=chains, ends=(at,), last=changes)
        self._decided = {}, {}, {}
        self.stage = CyclePart.BETWEEN

    def absorbing(self, late: Mapping[int, Arrived]) -> dict[int, Message]:
        """Change past cycles."""
        self.out = Outbox(self.sharding, self.me)
        update = ShardAbsorption(self, late)
        update.run()
        self.rewritten(update.timeline())
        self.touched.clear()
        for at, arrived in late.items():
            if arrived.counts:
                self.told.setdefault(at, set()).update(name for name, _ in arrived.counts)
        return self.out.parts


def own_rows(rows: object) -> RowSet:
    """Rows in this process, as what they are."""
    assert isinstance(rows, RowSet)
    return rows


def own_counted(counted: object) -> OwnCounted:
    """Counted rows in this process, as what they are."""
    assert isinstance(counted, OwnCounted)
    return counted


def odd(parts: Sequence[Rows]) -> RowSet:
    """The rows that occur in an odd number of parts."""
    found = own_rows(parts[0])
    for part in parts[1:]:
        found = symmetric_difference(found, own_rows(part))
    return found


class ShardAbsorption(Absorption):
    """INCR_UPDATE for what came from other shards; see `Absorption`."""

    def __init__(self, run: ShardRun, late: Mapping[int, Arrived]) -> None:
        super().__init__(run, {}, {})
        self._run = run
        self._late = late
        self._last_told = max(late)
        self._turns: dict[str, list[Rows]] = {}
        if 0 in late:  # the input comes to homes and fragments alike
            for name, parts in late[0].flips.items():
                change = self._split(name, odd(parts), 0)
                if change:
                    self.differ[name] = change
            self._start = dict(self.differ)
            self._moved = set(self.differ)

    def _split(self, name: str, found: Rows, at: int) -> Change:
        """Rows that differ, as what the new run has more and less at a cycle."""
        rows = own_rows(found)
        there = self._chains[name].present(rows, at)
        return Change(RowSet(rows.packing, rows.keys[~there]), RowSet(rows.packing, rows.keys[there]))

    def _end_of(self, phase: int) -> int:
        return self._ends[phase]  # a shard is where it is

    def _mark(self, at: int) -> None:
        """Only whole databases have digests."""

    def _cycle(self, rules: tuple[NormalRule, ...], heads: Collection[str], at: int, first: bool) -> None:
        arrived = self._late.get(at)
        self._turns = {} if arrived is None else {name: list(parts) for name, parts in arrived.flips.items()}
        super()._cycle(rules, heads, at, first)
        flipping = self._line.flips.get(at, {})
        for name in {*self._turns, *(name for name in self.differ if name in flipping and self._is_fragment(name))}:
            self._turn(name, at)

    def _is_fragment(self, name: str) -> bool:
        return "#" in name

    def _turn(self, name: str, at: int) -> None:
        """What differs of a fragment after a cycle."""
        before = self.differ.get(name) or self._nothing(name)
        rows = odd([before.plus, before.minus, *self._turns.get(name, ())])
        self._toggle(name, at, before, self._split(name, rows, at), self._moved)

    def _toggle(self, name: str, at: int, before: Change, after: Change, moved: set[str]) -> None:
        super()._toggle(name, at, before, after, moved)
        if not self._is_fragment(name) and name in moved:
            for when, rows in self._edits[name].toggles[-1:]:
                if when == at:
                    for fragment, held in self._run.out.flip(at, name, rows):
                        self._turns.setdefault(fragment, []).append(held)

    def _tell(self, at: int) -> set[str]:
        arrived = self._late.get(at)
        told = set(self._run.told.get(at, ()))
        if arrived is not None:
            for key, parts in arrived.counts.items():
                counted = self._backend.total(key[0], parts)
                told.add(key[0])
                if len(counted):
                    self._edit(*key).append((at, counted))
                    before = self._outer.pop(key, None)
                    self._outer |= summed(self._backend, {key: [counted] if before is None else [before, counted]})
        if self._moved or told:
            told |= {name for name, _ in self._outer}
        return told

    def _record(self, rule: NormalRule, at: int, counted: Counted) -> None:
        if len(counted):
            super()._record(rule, at, self._run.out.count(at, rule.relation, rule.deletes, counted))

    def _signs(self, rules: list[NormalRule]) -> Signs:
        """Only facts that are at home here are decided here."""
        out = self._run.out
        found = {key: out.own(key[0], counted) for key, counted in super()._signs(rules).items()}
        return {key: counted for key, counted in found.items() if len(counted)}
