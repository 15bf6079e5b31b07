"""A run so far: the chains of every relation, and how far it has come.

A run has phases, one after the other, each a set of rules that is matched in cycles until a cycle changes nothing.
Active rules are one phase. Stratified rules run through the same machinery with a phase for each stratum: a cycle is
then known by the pair (phase, cycle), as one number that sorts like the pair.

Reference: [Wolfson91] section 5 for the pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from sempre.analysis.model import CheckedProgram, NormalRule
from sempre.data import dataclass
from sempre.maintain.strategy import Change
from sempre.plan.backend import Chain

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
class Timeline:
    """A run up to some cycle. The one of a run under way is replaced with every cycle; a finished one never changes.

    `ends` has the number of cycles done in each phase that was begun. `last` is what the last cycle changed, nothing
    if that phase is over. `flips` says how many facts of which relations came or went at each clock, `marks` has a
    digest of the database then.
    """

    chains: Mapping[str, Chain]
    ends: tuple[int, ...] = (0,)
    last: Mapping[str, Change] = field(default_factory=dict)
    flips: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    marks: Mapping[int, int] = field(default_factory=lambda: {0: 0})

    @property
    def now(self) -> int:
        """The clock of the last cycle."""
        return clock(len(self.ends) - 1, self.ends[-1])

    @property
    def cycles(self) -> int:
        """How many cycles were done in all."""
        return sum(self.ends)

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
