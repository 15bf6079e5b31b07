"""Commands on sets and counts, each worker on what is at home with it: nothing travels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sempre.backends.local import LocalBackend
from sempre.kernel.tally import Counted, Tally
from sempre.kernel.trace import RowSet, Trace, TraceView
from sempre.workers.shards import Shard

Numbers = Sequence[int]
# What belongs to relations, by their names.
Numbered = Sequence[tuple[str, int]]


class SetCommands:
    """What a worker holds, by number, and what it does with sets of it."""

    def __init__(self, local: LocalBackend) -> None:
        self._local = local
        self._held: dict[int, Any] = {}

    def _shard(self, number: int) -> Shard:
        found = self._held[number]
        assert isinstance(found, Shard)
        return found

    def _home_of(self, number: int) -> TraceView | Trace:
        """What is at home here of a version or a view."""
        found = self._held[number]
        return found.home if isinstance(found, Shard) else found.at(None)

    def _union(self, numbers: Numbers) -> RowSet:
        return self._local.union([self._held[number] for number in numbers])

    def _difference(self, rows: int, version: int) -> RowSet:
        return self._local.difference(self._held[rows], self._home_of(version))

    def _intersection(self, rows: int, version: int) -> RowSet:
        return self._local.intersection(self._held[rows], self._home_of(version))

    def _counted_rows(self, number: int) -> RowSet:
        counted: Counted = self._held[number]
        return counted.rows()

    def _negated(self, number: int) -> Counted:
        counted: Counted = self._held[number]
        return counted.negated()

    def _total(self, relation: str, numbers: Numbers) -> Counted:
        return self._local.total(relation, [self._held[number] for number in numbers])

    def _restricted(self, counted: int, rows: int) -> Counted:
        return self._local.restricted(self._held[counted], self._held[rows])

    def _excluded(self, counted: int, view: int) -> Counted:
        return self._local.excluded(self._held[counted], self._home_of(view))

    def _tally(self, relation: str) -> Tally:
        return self._local.tally(relation)

    def _tally_adding(self, tally: int, counted: int) -> Tally:
        held: Tally = self._held[tally]
        return held.adding(self._held[counted])

    def _entries(self, tally: int) -> Counted:
        held: Tally = self._held[tally]
        return held.entries()

    def _numbered(self, relation: str, parts: Numbers, version: int) -> Tally:
        return self._local.numbered(relation, [self._held[part] for part in parts], self._shard(version).home)

    def _positive(self, tally: int, rows: int) -> RowSet:
        return self._local.positive(self._held[tally], self._held[rows])

    def _zero(self, tally: int, rows: int) -> RowSet:
        return self._local.zero(self._held[tally], self._held[rows])

    def _lookup(self, tally: int, rows: int) -> Counted:
        return self._local.lookup(self._held[tally], self._held[rows])

    def _times(self, rows: int, number: int) -> Counted:
        return self._local.times(self._held[rows], number)

    # ----------------------------------------------------------------------------------------- aggregates in heads

    def _improvement(self, relation: str, rows: int, version: int) -> tuple[RowSet, RowSet]:
        return self._local.improvement(relation, self._held[rows], self._shard(version).home)

    def _groups(self, relation: str, rows: int) -> RowSet:
        return self._local.groups(relation, self._held[rows])

    def _group_rows(self, relation: str, groups: int, version: int) -> RowSet:
        return self._local.group_rows(relation, self._held[groups], self._shard(version).home)

    def _totals(self, relation: str, counted: int) -> RowSet:
        return self._local.totals(relation, self._held[counted])
