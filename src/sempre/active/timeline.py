"""A run so far: the chains of every relation, and how far it has come.

A run has phases, one after the other, each a set of rules that is matched in cycles until a cycle changes nothing.
Active rules are one phase. Stratified rules run through the same machinery with a phase for each stratum: a cycle is
then known by the pair (phase, cycle), as one number that sorts like the pair.

Reference: [Wolfson91] section 5 for the pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import ClassVar

from sempre.analysis.model import CheckedProgram, NormalRule, Stratum
from sempre.data import dataclass
from sempre.maintain.memory import Checks, MemorySink, MemorySource, Meta
from sempre.maintain.strategy import Change, Work
from sempre.plan.backend import Backend, Chain, Counted, Rows

Phases = tuple[tuple[NormalRule, ...], ...]

# A phase other than the first starts at a multiple of this; no phase but the last may have more cycles.
PHASE_CYCLES = 1 << 24


def one_phase(program: CheckedProgram) -> Phases:
    """All rules in every cycle: active rules."""
    return (program.rules,)


def by_stratum(program: CheckedProgram) -> Phases:
    """The rules of one stratum after those of the other."""
    strata = ((*stratum.nonrecursive, *stratum.recursive) for stratum in program.strata)
    return tuple(rules for rules in strata if rules) or ((),)


def clock(phase: int, cycle: int) -> int:
    """The number of a cycle of a phase among all cycles."""
    return phase * PHASE_CYCLES + cycle


@dataclass(frozen=True, slots=True)
class Given:
    """Facts of a relation that somebody adds and deletes in a cycle, as if a rule had an instance for each of them."""

    added: Rows
    deleted: Rows

    def changed(self, backend: Backend, coming: Rows, going: Rows) -> Given:
        """After somebody deletes and then inserts facts: the last word on each counts."""
        added = backend.union([backend.difference(self.added, backend.version(going)), coming])
        deleted = backend.difference(backend.union([self.deleted, going]), backend.version(coming))
        return Given(added, deleted)


# What is given, by clock and relation.
AllGiven = Mapping[int, Mapping[str, Given]]
# Differences of numbers of instances, by relation and whether these delete.
Signs = dict[tuple[str, bool], Counted]


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run up to some cycle. The one of a run under way is replaced with every cycle; a finished one never changes.

    `ends` has the number of cycles done in each phase that was begun. `last` is what the last cycle changed, nothing
    if that phase is over. `flips` says how many facts of which relations came or went at each clock, `marks` has a
    digest of the database then. What is `given` in a cycle counts in that one only.
    """

    kind: ClassVar[str] = "timeline"
    sets: ClassVar[Mapping[str, int]] = {"points": 1, "added": 1, "deleted": 1, "given": 1, "taken": 1}

    chains: Mapping[str, Chain]
    ends: tuple[int, ...] = (0,)
    last: Mapping[str, Change] = field(default_factory=dict)
    flips: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    marks: Mapping[int, int] = field(default_factory=lambda: {0: 0})
    given: AllGiven = field(default_factory=dict)

    # How it is stored: the records and what is given; all else follows from these. See `sempre.maintain.memory`.

    def describe(self) -> Meta:
        return {"ends": list(self.ends)}

    def write(self, shelf: MemorySink) -> None:
        for name, chain in self.chains.items():
            shelf.chain(name, chain)
        for at, facts in self.given.items():
            for name, each in facts.items():
                shelf.rows("given", name, each.added, 1, at)
                shelf.rows("taken", name, each.deleted, 1, at)

    @classmethod
    def read(cls, meta: Meta, stratum: Stratum, shelf: MemorySource) -> Timeline:
        """The timeline of a run that is over."""
        chains = {name: shelf.chain(name) for name in stratum.relations}
        ends = tuple(meta["ends"])
        return cls(chains, ends, {}, *retold(chains, ends), _given_in(stratum, chains, shelf))

    def check(self, work: Work, stratum: Stratum, checks: Checks) -> None:
        """Chains are compared with those of a run from scratch by whoever verifies: see `sempre.verify`."""

    @property
    def now(self) -> int:
        """The clock of the last cycle."""
        return clock(len(self.ends) - 1, self.ends[-1])

    @property
    def cycles(self) -> int:
        """How many cycles were done in all."""
        return sum(self.ends)

    @property
    def is_still(self) -> bool:
        """Whether the last cycle changed nothing, and nothing is given in that one or later: the phase is over."""
        return bool(self.ends[-1]) and not self.last and self.now > last_given(self.given)

    @property
    def records(self) -> int:
        return sum(chain.records for chain in self.chains.values())

    @property
    def nbytes(self) -> int:
        return sum(chain.nbytes for chain in self.chains.values())


def last_flips(flips: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    """For every relation that ever changed, the last clock at which it did."""
    found: dict[str, int] = {}
    for at in sorted(flips):
        found.update(dict.fromkeys(flips[at], at))
    return found


def _given_in(stratum: Stratum, chains: Mapping[str, Chain], shelf: MemorySource) -> AllGiven:
    found: dict[int, dict[str, Given]] = {}
    for name in stratum.relations:
        added, deleted = shelf.rows("given", name), shelf.rows("taken", name)
        nothing = chains[name].flipped(1, 0)
        for at in {*added, *deleted}:
            found.setdefault(at, {})[name] = Given(added.get(at, nothing), deleted.get(at, nothing))
    return found


def retold(
    chains: Mapping[str, Chain], ends: Sequence[int]
) -> tuple[Mapping[int, Mapping[str, int]], Mapping[int, int]]:
    """The `flips` and `marks` of a timeline, from its records."""
    flips: dict[int, dict[str, int]] = {}
    digests: dict[int, int] = {}
    for name, chain in chains.items():
        for at, (number, mark) in chain.by_cycle(name).items():
            digests[at] = digests.get(at, 0) ^ mark
            if at and number:
                flips.setdefault(at, {})[name] = number
    marks, mark = {}, 0
    for phase, end in enumerate(ends):
        for number in range(phase > 0, end + 1):
            mark ^= digests.get(clock(phase, number), 0)
            marks[clock(phase, number)] = mark
    return flips, marks


def last_given(given: AllGiven) -> int:
    """The last clock at which something is given, 0 if nothing is."""
    return max(given, default=0)


def told_at(given: AllGiven, at: int) -> set[str]:
    """The relations whose numbers change at a clock because of what is given."""
    return {*given.get(at, ()), *given.get(at - 1, ())}


def given_counts(backend: Backend, given: AllGiven, at: int) -> Signs:
    """By how much what is given changes the numbers at a clock: it begins to count, and what was given before ends."""
    parts: dict[tuple[str, bool], list[Counted]] = {}
    for clock_, begins in ((at, True), (at - 1, False)):
        for name, each in given.get(clock_, {}).items():
            for rows, deletes in ((each.added, False), (each.deleted, True)):
                if len(rows):
                    counted = backend.once(rows)
                    parts.setdefault((name, deletes), []).append(counted if begins else counted.negated())
    return summed(backend, parts)


def summed(backend: Backend, parts: Mapping[tuple[str, bool], Iterable[Counted]]) -> Signs:
    """The sums of differences, without those that come to nothing."""
    totals = {key: backend.total(key[0], list(every)) for key, every in parts.items()}
    return {key: total for key, total in totals.items() if len(total)}
