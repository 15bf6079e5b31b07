"""The part of a version, and of a view, that one worker has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from sempre.data import dataclass
from sempre.kernel.trace import Order, RowSet, Trace, TraceView
from sempre.workers.placing import EVERYWHERE

# Rows of one relation that are at home, brought to where another column places them.
Bring = Callable[[RowSet, int], RowSet]


@dataclass(slots=True)
class Whole:
    """What a worker that has all rows makes of them where a plan reads other rows beside, which are not everywhere."""

    pick: Bring
    orders: list[Order]
    _placed: dict[int, Trace] = field(default_factory=dict)

    def placed(self, rows: Trace, column: int) -> Trace:
        """The rows that a column places here."""
        found = self._placed.get(column)
        if found is None:
            found = self._placed[column] = Trace.of(self.pick(rows.rows(), column)).indexed(
                order for order in self.orders if order[:1] == (column,)
            )
        return found


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of one relation: those at home here, and for other columns the rows that these place here.

    All workers have the same columns in `copies`.
    """

    relation: str
    home: Trace
    copies: Mapping[int, Trace] = field(default_factory=dict)
    whole: Whole | None = None

    def at(self, column: int | None, home: int | None) -> Trace:
        """The rows that a column places here."""
        if column is None or column == home:
            return self.home
        found = self.copies.get(column)
        if found is None and self.whole is not None:
            return self.whole.placed(self.copies[EVERYWHERE], column)
        assert found is not None or not self.home.size, f"{self.relation} is not indexed by column {column}"
        return self.home if found is None else found

    def indexed(self, orders: Iterable[Order], home: int | None, bring: Bring, pick: Bring | None = None) -> Shard:
        """The same rows, with copies for the first columns of these orders.

        With `pick`, which picks the rows that a column places here, there is one copy instead, of all rows.
        """
        if pick is not None:
            wanted = sorted({*orders, *(() if self.whole is None else self.whole.orders)})
            whole = self.copies.get(EVERYWHERE)
            whole = Trace.of(bring(self.home.rows(), EVERYWHERE)) if whole is None else whole
            return Shard(
                self.relation, self.home.indexed(wanted), {EVERYWHERE: whole.indexed(wanted)}, Whole(pick, wanted)
            )
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
        return Shard(self.relation, self.home.adding(rows), copies, self._whole())

    def removing(self, rows: RowSet, bring: Bring) -> Shard:
        copies = {column: copy.removing(bring(rows, column)) for column, copy in sorted(self.copies.items())}
        return Shard(self.relation, self.home.removing(rows), copies, self._whole())

    def _whole(self) -> Whole | None:
        return None if self.whole is None else Whole(self.whole.pick, self.whole.orders)

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
