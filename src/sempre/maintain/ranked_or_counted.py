"""What `auto` does on workers: by ranks, or by counters where a run from scratch followed long chains fact by fact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sempre.analysis.model import Stratum
from sempre.kernel.capacity import CapacityError
from sempre.maintain.dredc import DRedC
from sempre.maintain.memory import Memory
from sempre.maintain.ranked import Ranked, Ranks, ranks_of
from sempre.maintain.recompute import materialize_with
from sempre.maintain.strategy import Outcome, Work, as_update


class RankedOrCounted:
    """Ranks need rounds, which a walk has none of."""

    name = Ranked.name
    forgetful = False

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        try:
            outcome, fixpoint = materialize_with(work, stratum, counting=True)
        except CapacityError:  # numbers that do not fit
            outcome, fixpoint = materialize_with(work, stratum)
        if fixpoint.walked:
            return replace(outcome, how=DRedC.name, why="long chains were followed row by row")
        return replace(outcome, memory=ranks_of(work, stratum, fixpoint))

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        if isinstance(memory, Ranks):
            try:
                return Ranked().followed(work, stratum, memory)
            except CapacityError:
                return as_update(work, stratum, self.bootstrap(work, stratum))
        return replace(DRedC().update(work, stratum, memory), how=DRedC.name)

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> Memory | None:
        """What a run from scratch would remember."""
        return self.bootstrap(standing(), stratum).memory
