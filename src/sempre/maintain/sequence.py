"""The stratum of a relation of neighbors: its source is kept sorted, and a change concerns who stands around it.

Reference: [Hu22] Algorithms 13 to 15. Differs: what a change concerns is looked up before and after it, and compared,
so that any mixture of insertions and deletions is one step.
"""

from __future__ import annotations

from dataclasses import dataclass

from sempre.analysis.model import Stratum
from sempre.maintain.strategy import Change, Outcome, Work, again
from sempre.plan.backend import Ordering
from sempre.plan.ops import Neighbors


@dataclass(slots=True)
class Sequence:
    """Keeps one relation of neighbors; its memory is the source in order. O(log n) for every changed row.

    A backend that keeps no order sorts again.
    """

    order: Neighbors
    name: str = "seq"

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        """All neighbors, by sorting the source once."""
        name, source = self.order.relation, work.new[self.order.source].rows()
        modules = work.backend.for_modules()
        memory = None if modules is None else modules.ordering(self.order, source)
        rows = work.backend.neighbors(self.order, source) if memory is None else memory.neighbors()
        nothing = work.backend.empty(name)
        return Outcome({name: nothing.adding(rows)}, {name: Change(rows, nothing.rows())}, memory, 1)

    def update(self, work: Work, stratum: Stratum, memory: Ordering | None) -> Outcome:
        """The neighbors around what changed, as they were against as they are."""
        if memory is None:
            return again(work, stratum, self.bootstrap(work, stratum))
        backend, name = work.backend, self.order.relation
        change = work.changes[self.order.source]
        after = memory.changed(change.plus, change.minus)
        touched = backend.union([change.plus, change.minus])
        was, now = memory.around(touched), after.around(touched)
        net = Change(backend.difference(now, backend.version(was)), backend.difference(was, backend.version(now)))
        version = work.old[name].removing(net.minus).adding(net.plus)
        return Outcome({name: version}, {name: net}, after, 1)
