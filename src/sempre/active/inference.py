"""The inference: match, drop what is both added and deleted, apply, until a cycle changes nothing.

Naive matching would find every instance again in every cycle. Here a cycle finds only the instances that hold in the
last database and not in the one before, and the other way round, and changes the numbers of the cycle before by that:
exactly the records that run-length encoded chains keep.

Reference: [Wolfson91] section 2. Differs: "if S is empty, stop" never happens with ordinary rules; the run stops when a
cycle changes nothing, and when it comes back to a database it has been in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from sempre.active.matcher import Matcher
from sempre.active.timeline import Phases, Signs, Timeline, clock, given_counts, last_given, summed
from sempre.analysis.model import NormalRule
from sempre.data import dataclass
from sempre.maintain.states import Sides
from sempre.maintain.strategy import Change
from sempre.plan.backend import Backend, Chain, Counted, CycleBackend, Rows
from sempre.plan.ops import Order


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did, for those who watch.

    `absorbed` is the number of facts by which an update changed the past, or 0 for a cycle of the run itself.
    """

    stratum: int
    number: int
    changes: Mapping[str, Change]
    absorbed: int = 0


class Endless(Exception):
    """The run does not end: it came back to a database, or did too many cycles."""

    def __init__(self, timeline: Timeline, stratum: int, first: int, last: int, period: int) -> None:
        super().__init__(f"cycles {first} to {last}, period {period}")
        self.timeline = timeline
        self.stratum = stratum
        self.first = first
        self.last = last
        self.period = period


class Inference:
    """A run under way. `timeline` is what is done so far; every cycle replaces it, and nothing else changes."""

    def __init__(
        self,
        matcher: Matcher,
        phases: Phases,
        timeline: Timeline,
        limit: int,
        observe: Callable[[Cycle], None],
    ) -> None:
        self.matcher = matcher
        self.backend: CycleBackend = matcher.backend
        self.phases = phases
        self.timeline = timeline
        self.limit = limit
        self.observe = observe
        # Rows that came or went, to tell what changed in the end.
        self.touched: dict[str, list[Rows]] = {}
        # How many records of the past were changed by updates.
        self.edited = 0
        # The last clock with each database.
        self._known: dict[int, int] = {}
        self.rewritten(timeline)

    def rewritten(self, timeline: Timeline) -> None:
        """Go on from another timeline, whose past differs."""
        # These grow with every cycle, so they are copied once and not for each of them.
        self._flips, self._marks = dict(timeline.flips), dict(timeline.marks)
        self._known = {mark: at for at, mark in sorted(self._marks.items())}
        self.timeline = replace(timeline, flips=self._flips, marks=self._marks)

    @property
    def is_over(self) -> bool:
        return self.timeline.is_still and len(self.timeline.ends) == len(self.phases)

    def advance(self) -> bool:
        """One cycle; False if the run is over."""
        if self.is_over:
            return False
        line = self.timeline
        ends = (*line.ends, 0) if line.is_still else line.ends
        phase, number = len(ends) - 1, ends[-1] + 1
        at = clock(phase, number)
        if number > self.limit:
            raise Endless(line, phase, number - 1, number - 1, 0)
        counts = self._step(self.phases[phase], number == 1)
        chains, changes = self._apply(at, counts)
        mark = line.marks[line.now]
        for name, change in changes.items():
            for rows in (change.plus, change.minus):
                self.touched.setdefault(name, []).append(rows)
                mark ^= self.backend.digest(name, rows)
        if changes:
            self._flips[at] = {name: len(change.plus) + len(change.minus) for name, change in changes.items()}
        self._marks[at] = mark
        self.timeline = replace(line, chains=chains, ends=(*ends[:-1], number), last=changes)
        self.observe(Cycle(phase, number, changes))
        if changes:
            self._check_repetition(phase, at, mark)
        return True

    def _step(self, rules: Sequence[NormalRule], first: bool) -> dict[int, Counted]:
        """How the number of instances of each rule changes, given the database and its last change."""
        line = self.timeline
        chains = dict(line.chains)
        sizes = {name: chain.now for name, chain in chains.items()}

        def read(name: str, orders: Collection[Order]) -> Sides:
            chain = chains[name] = chains[name].indexed(orders)
            change = None if first else line.last.get(name)
            if change is None:
                return self.matcher.standing(name, self.backend.view(chain.now), orders)
            return self.matcher.forward(chain.now, change, orders)

        if first:
            found = self.matcher.all_instances(rules, sizes, read)
        else:
            found = self.matcher.difference(rules, line.last, sizes, read)
        # Indexes made on the way are kept.
        self.timeline = replace(line, chains=chains)
        return found

    def _apply(self, at: int, counts: Mapping[int, Counted]) -> tuple[dict[str, Chain], dict[str, Change]]:
        """The chains after the cycle, and what came and went."""
        chains = dict(self.timeline.chains)
        changes: dict[str, Change] = {}
        found = by_sign(self.backend, self._rules(counts), counts)
        given = given_counts(self.backend, self.timeline.given, at)
        signs = (
            summed(self.backend, {key: part_of(key, found, given) for key in {**found, **given}}) if given else found
        )
        for name in {name for name, _ in signs}:
            chains[name], plus, minus = chains[name].advanced(at, signs.get((name, False)), signs.get((name, True)))
            if len(plus) or len(minus):
                changes[name] = Change(plus, minus)
        return chains, changes

    def _rules(self, counts: Mapping[int, Counted]) -> list[NormalRule]:
        return [rule for rules in self.phases for rule in rules if rule.number in counts]

    def _check_repetition(self, phase: int, at: int, mark: int) -> None:
        """The same database again means the same cycles again, for ever."""
        before = self._known.get(mark)
        self._known[mark] = at
        if before is None or before < max(clock(phase, 0), last_given(self.timeline.given)):
            return
        if all(self._is_back(name, before, at) for name in self.timeline.chains):
            number = at - clock(phase, 0)
            raise Endless(self.timeline, phase, number - (at - before), number, at - before)

    def _is_back(self, name: str, before: int, at: int) -> bool:
        """Whether a relation is what it was; the digests agree, which is no proof."""
        chain = self.timeline.chains[name]
        rows = chain.flipped(before + 1, at)
        return bool((chain.present(rows, before) == chain.present(rows, at)).all())


def by_sign(backend: Backend, rules: Sequence[NormalRule], counts: Mapping[int, Counted]) -> Signs:
    """Counted instances of rules, summed up by head relation and whether they delete."""
    parts: dict[tuple[str, bool], list[Counted]] = {}
    for rule in rules:
        counted = counts.get(rule.number)
        if counted is not None and len(counted):
            parts.setdefault((rule.relation, rule.deletes), []).append(counted)
    return {key: backend.total(key[0], every) for key, every in parts.items()}


def part_of(key: tuple[str, bool], *signs: Signs) -> list[Counted]:
    """What each of some differences says of a relation."""
    return [each[key] for each in signs if key in each]
