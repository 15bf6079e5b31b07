"""What plans find on one worker, on its way to where it is at home.

Heads of some plans are at home where they are found: those whose home column is the variable that placed the last
bindings. They need not travel. All others travel, each once, unless this worker knows that they are known at home:
because it has them in a copy, or because it has sent them before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sempre.backends.local import Heads, LocalBackend, Repeats
from sempre.backends.new_facts import NewFacts, summed
from sempre.kernel import join
from sempre.kernel.gather import NO_WEIGHTS
from sempre.kernel.layout import Keys, Packing, common_packing, fields_covering, packing
from sempre.kernel.tally import Counted
from sempre.kernel.trace import RowSet, Trace, TraceView
from sempre.plan.ops import Plan
from sempre.workers.framing import Column
from sempre.workers.placing import Workers

# The worker where each of some rows is at home, given their columns and how many they are.
Owners = Callable[[Sequence[Column], int], Workers]
# Takes columns with the worker that each row goes to; gives what came from each worker.
Exchange = Callable[[Sequence[Column], Workers], Sequence[Sequence[Column]]]
CountedHome = Callable[[Counted], Counted]


class NewHeads:
    """Facts that are not known yet, with the numbers of their instances or without.

    `home` is what is known of those that are at home here, `here` all that this worker knows to be known.
    """

    def __init__(
        self, backend: LocalBackend, relation: str, home: TraceView | Trace, here: TraceView | Trace, counts: bool
    ) -> None:
        target = backend._target(relation, home)
        self._backend = backend
        self._relation = relation
        self._counts = counts
        self._at_home = NewFacts(target, home, counts)
        self._travelling = NewFacts(target, here, counts)
        self.travels = False  # whether some plan's heads do: the same on all workers

    def sink(self, plan: Plan, repeats: Repeats, at_home: bool) -> Heads:
        """Where the heads of a plan go."""
        self.travels |= not at_home
        return Heads(self._backend, plan, repeats, self._at_home if at_home else self._travelling)

    def finished(self, me: int, owners: Owners, exchange: Exchange) -> tuple[Counted, RowSet | None]:
        """The new facts that are at home here, of those that all workers have found; weights only if they count.

        Beside them, what went from here to other workers.
        """
        sent = self._travel(me, owners, exchange) if self.travels else None
        return self._together(self._at_home.finished()), sent

    def _travel(self, me: int, owners: Owners, exchange: Exchange) -> RowSet:
        found = self._together(self._travelling.finished())
        columns = found.rows().columns()
        at = owners(columns, len(found))
        mine = at == me
        if mine.any():
            self._at_home.add(found.packing, found.keys[mine], found.weights[mine] if self._counts else NO_WEIGHTS)
        others = ~mine
        leaving = [column[others] for column in columns]
        if self._counts:
            leaving.append(found.weights[others].astype(np.int64))
        elif not leaving:
            leaving.append(np.zeros(int(others.sum()), np.int64))
        for came in exchange(leaving, at[others]):
            self._arrived(came)
        return RowSet(found.packing, found.keys[others])

    def _arrived(self, came: Sequence[Column]) -> None:
        """Take the facts of one worker: they come in the order of their keys."""
        fields = self._backend.fields[self._relation]
        columns, size = came[: len(fields)], came[0].size
        layout = packing(fields_covering(columns, fields), tuple(range(len(fields))))
        self._at_home.add(layout, layout.pack(columns, size), came[-1] if self._counts else NO_WEIGHTS)

    def _together(self, parts: list[Counted]) -> Counted:
        if not parts:
            target = self._at_home.target
            return Counted(target, np.empty(0, target.dtype), np.empty(0, np.int64))
        if len(parts) == 1:
            return parts[0]
        layout = common_packing([part.packing for part in parts])
        if self._counts:
            return Counted(layout, *summed(parts, layout))
        return Counted(layout, self._backend.union([part.rows() for part in parts]).keys, NO_WEIGHTS)


class FoundCounts:
    """Rows with numbers of instances."""

    def __init__(self, backend: LocalBackend, relation: str) -> None:
        self._backend = backend
        self._relation = relation
        self._parts: dict[bool, list[Counted]] = {True: [], False: []}
        self.travels = False

    def take(self, layout: Packing, keys: Keys, weights: join.Weights, at_home: bool) -> None:
        """Take what a plan has found."""
        found = join.consolidate(keys, weights)
        if found[0].size:
            self._parts[at_home].append(Counted(layout, *found))

    def at_home(self, send: CountedHome) -> Counted:
        """The rows that are at home here, of those that all workers have found, with the sums of their numbers."""
        mine = self._parts[True]
        if self.travels:
            mine.append(send(self._backend.total(self._relation, self._parts.pop(False))))
        return self._backend.total(self._relation, mine)
