"""A run so far: the chains of every relation, and how far it has come.

A run has phases, one after the other, each a set of rules that is matched in cycles until a cycle changes nothing.
Active rules are one phase. Stratified rules run through the same machinery with a phase for each stratum: a cycle is
then known by the pair (phase, cycle), as one number that sorts like the pair.

Reference: [Wolfson91] section 5 for the pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from sempre.analysis.model import CheckedProgram, NormalRule
from sempre.data import dataclass
from sempre.maintain.strategy import Change
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

    chains: Mapping[str, Chain]
    ends: tuple[int, ...] = (0,)
    last: Mapping[str, Change] = field(default_factory=dict)
    flips: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    marks: Mapping[int, int] = field(default_factory=lambda: {0: 0})
    given: AllGiven = field(default_factory=dict)

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
