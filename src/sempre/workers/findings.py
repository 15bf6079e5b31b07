"""What plans find on one worker, on its way to where it is at home.

Heads of some plans are at home where they are found: those whose home column is the variable that placed the last
bindings. They need not travel. All others travel, each once, unless this worker knows that they are known at home:
because it has them in a copy, or because it has sent them before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sempre.backends.local import Heads, LocalBackend, Repeats
from sempre.backends.new_facts import NewFacts, summed
from sempre.kernel import join
from sempre.kernel.gather import NO_WEIGHTS
from sempre.kernel.layout import EMPTY, Field, Keys, Packing, common_packing, fields_covering, packing
from sempre.kernel.tally import Counted
from sempre.kernel.trace import RowSet, Trace, TraceView
from sempre.plan.ops import Plan
from sempre.workers.framing import Column
from sempre.workers.mesh import Parcel
from sempre.workers.together import Waves

# What is beside some rows, for the worker where each of them is at home.
Owners = Callable[[RowSet, Sequence[NDArray[Any]]], list[list[NDArray[Any]]]]
# Sends counted rows home; gives those that came.
CountedHome = Callable[[Counted], Waves[Counted]]


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

    def finished(self, me: int, workers: int, owners: Owners) -> Waves[tuple[Counted, RowSet | None]]:
        """The new facts that are at home here, of those that all workers have found; weights only if they count.

        Beside them, what went from here to other workers.
        """
        sent = (yield from self._travel(me, workers, owners)) if self.travels else None
        return self._together(self._at_home.finished()), sent

    def _travel(self, me: int, workers: int, owners: Owners) -> Waves[RowSet]:
        leaving: dict[int, list[Counted]] = {}
        for part in self._travelling.finished():
            columns = [part.keys, part.weights] if self._counts else [part.keys]
            for worker, each in enumerate(owners(part.rows(), columns)):
                some = Counted(part.packing, each[0], each[-1] if self._counts else NO_WEIGHTS)
                if worker == me:
                    self._at_home.keep(some)  # what is known here includes what is known of these
                elif len(some):
                    leaving.setdefault(worker, []).append(some)
        together = {worker: self._together(parts) for worker, parts in leaving.items()}
        sent = [part.rows() for part in together.values()]
        parts = [_sent(together[w], self._counts) if w in together else [] for w in range(workers)]
        (gathered,) = yield [Parcel(parts)]
        for came in gathered.parts:
            self._arrived(came)
        return self._backend.union(sent) if sent else self._backend.no_rows(self._relation)

    def _arrived(self, came: Sequence[Column]) -> None:
        """Take the facts of one worker."""
        layout, keys, weights = _received(came, self._counts)
        if layout is self._at_home.target:
            self._at_home.take(keys, weights)
        else:
            self._at_home.add(layout, keys, weights)

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


def _sent(part: Counted, counts: bool) -> list[Column]:
    """Sorted keys, and weights if there are any, as columns that travel: at last, how to read them.

    Of narrow keys go the steps from each to the next, which are small; of wide ones, the columns.
    """
    layout, keys = part.packing, part.keys
    weights = [part.weights.astype(np.int64)] if counts else []
    if not layout.narrow:
        return [*layout.columns(keys), *weights, np.zeros(1, np.int64)]
    shape = [1, int(keys[0]), *(number for field in layout.fields for number in (field.lo, field.bits))]
    return [np.diff(keys, prepend=keys[0]), *weights, np.array(shape, np.int64)]


def _received(came: Sequence[Column], counts: bool) -> tuple[Packing, Keys, join.Weights]:
    """What `_sent` sent: a layout, sorted keys, and their weights; the arrays are the caller's own."""
    shape, *columns = reversed(came)
    weights = columns.pop(0).copy() if counts else NO_WEIGHTS
    columns.reverse()
    if shape[0]:
        first, *numbers = shape[1:].tolist()
        fields = tuple(Field(lo, bits) for lo, bits in zip(numbers[::2], numbers[1::2], strict=True))
        return packing(fields, tuple(range(len(fields)))), columns[0].cumsum() + first, weights
    layout = packing(fields_covering(columns, [EMPTY] * len(columns)), tuple(range(len(columns))))
    return layout, layout.pack(columns, columns[0].size), weights


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

    def at_home(self, send: CountedHome) -> Waves[Counted]:
        """The rows that are at home here, of those that all workers have found, with the sums of their numbers."""
        mine = self._parts[True]
        if self.travels:
            mine.append((yield from send(self._backend.total(self._relation, self._parts.pop(False)))))
        return self._backend.total(self._relation, mine)
