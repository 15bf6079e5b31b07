"""The stratum of a relation of neighbors: its source is kept sorted, and a change concerns who stands around it.

Reference: [Hu22] Algorithms 13 to 15. Differs: what a change concerns is looked up before and after it, and compared,
so that any mixture of insertions and deletions is one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sempre.analysis.model import Stratum
from sempre.data import dataclass
from sempre.maintain.memory import Checks, Memory, UnstoredMemory, how_many
from sempre.maintain.strategy import Change, Outcome, Work, as_update
from sempre.plan.backend import Ordering
from sempre.plan.ops import Neighbors


@dataclass(frozen=True, slots=True)
class SortedSource(UnstoredMemory):
    """The source of a relation of neighbors, in order."""

    relation: str
    ordering: Ordering

    kind: ClassVar[str] = "sorted"

    def check(self, work: Work, stratum: Stratum, checks: Checks) -> None:
        """It has the neighbors that a run from scratch finds."""
        backend, name = work.backend, self.relation
        rows, wanted = self.ordering.neighbors(), work.new[name]
        checks.saw(len(rows))
        less = backend.difference(wanted.rows(), backend.version(rows))
        differ = backend.union([backend.difference(rows, wanted), less])
        message = f"the order is wrong for {how_many(len(differ))} of `{name}`"
        checks.wrong(name, "order", differ, message, examples=True)


@dataclass(slots=True)
class Sequence:
    """Keeps one relation of neighbors; its memory is the source in order. O(log n) for every changed row.

    A backend that keeps no order sorts again.
    """

    order: Neighbors
    name: str = "seq"
    forgetful: ClassVar[bool] = False

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        """All neighbors, by sorting the source once."""
        name, source = self.order.relation, work.new[self.order.source].rows()
        modules = work.backend.for_modules()
        ordering = None if modules is None else modules.ordering(self.order, source)
        rows = work.backend.neighbors(self.order, source) if ordering is None else ordering.neighbors()
        nothing = work.backend.empty(name)
        memory = None if ordering is None else SortedSource(name, ordering)
        return Outcome({name: nothing.adding(rows)}, {name: Change(rows, nothing.rows())}, memory, 1)

    def update(self, work: Work, stratum: Stratum, memory: SortedSource | None) -> Outcome:
        """The neighbors around what changed, as they were against as they are."""
        if memory is None:
            return as_update(work, stratum, self.bootstrap(work, stratum))
        backend, name = work.backend, self.order.relation
        change = work.changes[self.order.source]
        before = memory.ordering
        after = before.changed(change.plus, change.minus)
        touched = backend.union([change.plus, change.minus])
        was, now = before.around(touched), after.around(touched)
        net = Change(backend.difference(now, backend.version(was)), backend.difference(was, backend.version(now)))
        version = work.old[name].removing(net.minus).adding(net.plus)
        return Outcome({name: version}, {name: net}, SortedSource(name, after), 1)

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> Memory | None:
        """What a run from scratch would remember."""
        return self.bootstrap(standing(), stratum).memory
