"""The part of a version, and of a view, that one worker has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from sempre.data import dataclass
from sempre.kernel.trace import Order, RowSet, Trace, TraceView

# Rows of one relation that are at home, brought to where another column places them.
Bring = Callable[[RowSet, int], RowSet]


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of one relation: those at home here, and for other columns the rows that these place here.

    All workers have the same columns in `copies`.
    """

    relation: str
    home: Trace
    copies: Mapping[int, Trace] = field(default_factory=dict)

    def at(self, column: int | None, home: int | None) -> Trace:
        """The rows that a column places here."""
        if column is None or column == home:
            return self.home
        found = self.copies.get(column)
        assert found is not None or not self.home.size, f"{self.relation} is not indexed by column {column}"
        return self.home if found is None else found

    def indexed(self, orders: Iterable[Order], home: int | None, bring: Bring) -> Shard:
        """The same rows, with copies for the first columns of these orders."""
        mine: list[Order] = []
        others: dict[int, list[Order]] = {}
        for order in sorted(orders):
            if not order or order[0] == home or home is None:
                mine.append(order)
            else:
                others.setdefault(order[0], []).append(order)
        copies = dict(self.copies)
        for column, wanted in others.items():
            copy = copies.get(column)
            copies[column] = (Trace.of(bring(self.home.rows(), column)) if copy is None else copy).indexed(wanted)
        return Shard(self.relation, self.home.indexed(mine), copies)

    def adding(self, rows: RowSet, bring: Bring) -> Shard:
        copies = {column: copy.adding(bring(rows, column)) for column, copy in sorted(self.copies.items())}
        return Shard(self.relation, self.home.adding(rows), copies)

    def removing(self, rows: RowSet, bring: Bring) -> Shard:
        copies = {column: copy.removing(bring(rows, column)) for column, copy in sorted(self.copies.items())}
        return Shard(self.relation, self.home.removing(rows), copies)

    @property
    def nbytes(self) -> int:
        return self.home.nbytes + sum(copy.nbytes for copy in self.copies.values())


@dataclass(slots=True)
class ShardView:
    """Some versions, each without others, as one worker has them."""

    parts: tuple[tuple[Shard, tuple[Shard, ...]], ...]
    home: int | None
    _views: dict[int | None, TraceView] = field(default_factory=dict)

    def at(self, column: int | None) -> TraceView:
        """What plans read where this column places the rows. Asked again it is the same object."""
        column = None if column == self.home or self.home is None else column
        found = self._views.get(column)
        if found is None:
            found = self._views[column] = TraceView(
                tuple(
                    (shard.at(column, self.home), tuple(other.at(column, self.home) for other in gone))
                    for shard, gone in self.parts
                )
            )
        return found

    def plus(self, *shards: Shard) -> ShardView:
        return ShardView((*self.parts, *((shard, ()) for shard in shards)), self.home)
