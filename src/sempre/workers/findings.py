"""What plans find on one worker, on its way to where it is at home.

Heads of some plans are at home where they are found: those whose home column is the variable that placed the last
bindings. They need not travel, and what is known already is left out at once. All others travel, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sempre.backends.local import LocalBackend
from sempre.kernel import join
from sempre.kernel.layout import Keys, Packing
from sempre.kernel.tally import Counted
from sempre.kernel.trace import RowSet, Trace, TraceView

# What plans find is made distinct once there are so many rows of it, and again when they have doubled.
MERGED_ROWS = 1 << 20

Home = Callable[[RowSet], RowSet]
CountedHome = Callable[[Counted], Counted]


class FoundRows:
    """Rows, made distinct as they come; `known` are those at home here that do not count."""

    def __init__(self, backend: LocalBackend, relation: str, known: TraceView | Trace) -> None:
        self._backend = backend
        self._relation = relation
        self._known = known
        self._parts: dict[bool, list[RowSet]] = {True: [], False: []}
        self.travels = False  # whether some plan's heads do

    def take(self, layout: Packing, keys: Keys, at_home: bool) -> None:
        """Take what a plan has found; `keys` may be changed."""
        rows = RowSet(layout, join.distinct(keys))
        if at_home:
            rows = self._backend.difference(rows, self._known)
        parts = self._parts[at_home]
        if not len(rows):
            return
        parts.append(rows)
        if len(parts) > 1 and sum(map(len, parts[1:])) > max(len(parts[0]), MERGED_ROWS):
            parts[:] = [self._backend.union(parts)]  # many rows are found more than once

    def at_home(self, send: Home) -> RowSet:
        """The new rows that are at home here, of those that all workers have found."""
        mine = self._parts[True]
        if self.travels:
            came = send(self._union(self._parts.pop(False)))
            mine.append(self._backend.difference(came, self._known))
        return self._union(mine)

    def _union(self, parts: Sequence[RowSet]) -> RowSet:
        return self._backend.union(parts) if parts else self._backend.no_rows(self._relation)


class FoundCounts:
    """Rows with numbers of instances."""

    def __init__(self, backend: LocalBackend, relation: str) -> None:
        self._backend = backend
        self._relation = relation
        self._parts: dict[bool, list[Counted]] = {True: [], False: []}
        self.travels = False

    def take(self, layout: Packing, keys: Keys, weights: join.Weights | None, at_home: bool) -> None:
        """Take what a plan has found; without weights each key counts one."""
        found = join.tally(keys) if weights is None else join.consolidate(keys, weights)
        if found[0].size:
            self._parts[at_home].append(Counted(layout, *found))

    def at_home(self, send: CountedHome) -> Counted:
        """The rows that are at home here, of those that all workers have found, with the sums of their numbers."""
        mine = self._parts[True]
        if self.travels:
            mine.append(send(self._backend.total(self._relation, self._parts.pop(False))))
        return self._backend.total(self._relation, mine)
