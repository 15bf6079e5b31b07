"""The default: maintain where that is cheaper, recompute where it is not, stratum by stratum.

Which way a stratum is maintained was chosen by measurement: `ranked` for all but strata that took many small rounds
(long chains), which `dredc` follows row by row; where a small change had to be given up with the one, the other is
taken from then on. Whether to maintain at all is decided three times: before, from the size of the change and what
changes have affected so far; while the affected part unfolds, from its size; and by a guard on the time, measured
against the last run from scratch. Giving up costs what was spent so far and nothing else: versions are immutable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from sempre.analysis.model import Stratum
from sempre.kernel.limits import Limit
from sempre.maintain.dredc import DRedC
from sempre.maintain.memory import Checks, Memory, Meta, Reading, Writing, described
from sempre.maintain.modular import is_certain
from sempre.maintain.ranked import Ranked, ranks_of
from sempre.maintain.recompute import materialize_with
from sempre.maintain.strategy import Abandoned, Outcome, Strategy, Work, again
from sempre.plan.ops import relations_of

# A change of more than this share of what a stratum reads is not worth maintaining.
CHANGE_SHARE = 0.1
# Nor one that would affect this many times the stratum, if it did as much per changed row as changes did before.
EXPECTED_SHARE = 1.0
# Nor is one that affects more than this share of the stratum's own facts, once it affects a good number.
AFFECTED_SHARE = 0.3
AFFECTED_FEW = 10_000
# An update is given up when it has taken this share of the last run from scratch, and longer than a moment.
TIME_SHARE = 0.3
TIME_MOMENT = 0.05
# When a change of no more rows than this is given up, the stratum is maintained in the other way from then on.
FEW_ROWS = 100
# A stratum that took more rounds than this has long chains.
MANY_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Chosen:
    """How a stratum is maintained, what that needs to remember, and what is known of its cost.

    `full_seconds` is how long a run from scratch took, `affects` how many facts a changed row has affected so far.
    """

    strategy: Strategy
    memory: Memory | None
    full_seconds: float
    affects: float = 0.0

    kind: ClassVar[str] = "chosen"
    sets: ClassVar[Mapping[str, int]] = {}  # all of them are those of the memory within

    def describe(self) -> Meta | None:
        inner = described(self.memory, self.strategy.name)
        if inner is None:
            return None
        return {"seconds": self.full_seconds, "affects": self.affects, "memory": inner}

    def write(self, shelf: Writing) -> None:
        if self.memory is not None:
            self.memory.write(shelf)

    @classmethod
    def read(cls, meta: Meta, stratum: Stratum, shelf: Reading) -> Chosen:
        inner = meta["memory"]
        memory = shelf.memory(inner, stratum)
        return cls(shelf.strategy(inner["strategy"]), memory, meta["seconds"], meta["affects"])

    def check(self, work: Work, stratum: Stratum, checks: Checks) -> None:
        if self.memory is not None:
            self.memory.check(work, stratum, checks)


class Auto:
    """Chooses per stratum and epoch."""

    name = "auto"
    forgetful = False

    def bootstrap(self, work: Work, stratum: Stratum, affects: float = 0.0, counting: bool = False) -> Outcome:
        started = time.perf_counter()
        outcome, fixpoint = materialize_with(work, stratum, modules=work.modules.get(stratum.index, ()))
        modular = outcome.memory is not None
        counting = counting or modular or fixpoint.walked or fixpoint.rounds > MANY_ROUNDS
        strategy: Strategy = DRedC() if counting else Ranked()
        memory: Memory | None = outcome.memory if counting else ranks_of(work, stratum, fixpoint)
        chosen = Chosen(strategy, memory, time.perf_counter() - started, affects)
        return Outcome(outcome.versions, outcome.changes, chosen, outcome.rounds, "recompute")

    def update(self, work: Work, stratum: Stratum, memory: Chosen) -> Outcome:
        if is_certain(stratum, memory.memory):
            # Nothing but closures: whatever the change, following it costs less than comparing two whole results.
            outcome = memory.strategy.update(work, stratum, memory.memory)
            return replace(outcome, memory=replace(memory, memory=outcome.memory), how=memory.strategy.name)
        changed, read = change_size(work, stratum)
        if changed > CHANGE_SHARE * read and changed > AFFECTED_FEW * CHANGE_SHARE:
            return self._again(work, stratum, memory, f"the change has {changed:,} rows and the stratum reads {read:,}")
        size = sum(len(work.old[name]) for name in stratum.relations)
        if changed * memory.affects > max(EXPECTED_SHARE * size, AFFECTED_FEW):
            reason = f"{changed:,} changed rows, each of which has affected {memory.affects:,.0f} facts so far"
            return self._again(work, stratum, memory, reason)
        observe = work.on_round
        guard = work.on_round = _Guard(work, size, memory.full_seconds)
        try:
            outcome = memory.strategy.update(work, stratum, memory.memory)
        except Limit as limit:
            work.on_round = observe
            return self._again(work, stratum, memory, str(limit))
        except Abandoned as reason:
            work.on_round = observe
            return self._again(work, stratum, memory, str(reason), counting=changed <= FEW_ROWS)
        finally:
            work.on_round = observe
        affects = guard.affected / max(changed, 1)
        affects = affects if not memory.affects else (memory.affects + affects) / 2
        chosen = Chosen(memory.strategy, outcome.memory, memory.full_seconds, affects)
        return Outcome(outcome.versions, outcome.changes, chosen, outcome.rounds, memory.strategy.name)

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> Chosen:
        """Facts alone are enough to go on with counters."""
        return Chosen(DRedC(), None, 0.0)

    def _again(self, work: Work, stratum: Stratum, memory: Chosen, reason: str, counting: bool = False) -> Outcome:
        work.notes.append(f"{', '.join(stratum.relations)} recomputed: {reason}")
        counting = counting or memory.strategy.name == DRedC.name
        return again(work, stratum, self.bootstrap(work, stratum, memory.affects, counting))


def change_size(work: Work, stratum: Stratum) -> tuple[int, int]:
    """How many rows changed of what the stratum reads, and how many it reads."""
    rules = (*stratum.nonrecursive, *stratum.recursive)
    names = set().union(*(relations_of(rule.body) for rule in rules)) - set(stratum.relations)
    changes = [work.changes[name] for name in names if name in work.changes]
    changes += [work.explicit_changes[name] for name in stratum.relations if name in work.explicit_changes]
    changed = sum(len(change.plus) + len(change.minus) for change in changes)
    read = sum(len(work.old[name]) for name in names) + sum(len(work.explicit[name]) for name in stratum.relations)
    return changed, read


class _Guard:
    """Watches the affected part and the time; raises `Abandoned` when maintaining stops being worth it."""

    def __init__(self, work: Work, size: int, full_seconds: float) -> None:
        self._observe = work.on_round
        self._size = size
        self._full_seconds = full_seconds
        # The clock starts with the first round: counters made before it are for the epochs to come too.
        self._started: float | None = None
        self._limit = max(TIME_SHARE * full_seconds, TIME_MOMENT)
        self.affected = 0

    def __call__(self, round_: int, facts: int) -> None:
        self._observe(round_, facts)
        self.affected += facts
        if self.affected > max(AFFECTED_FEW, AFFECTED_SHARE * self._size):
            raise Abandoned(f"{self.affected:,} facts affected, of {self._size:,}")
        now = time.perf_counter()
        self._started = self._started or now
        spent = now - self._started
        if spent > self._limit:
            raise Abandoned(f"{spent:.2f} s spent, and a run from scratch takes {self._full_seconds:.2f} s")
