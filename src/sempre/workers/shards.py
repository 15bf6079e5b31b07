"""The part of a version, and of a view, that one worker has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np

from sempre.data import dataclass
from sempre.kernel.trace import Order, RowSet, Trace, TraceView
from sempre.workers.framing import Column
from sempre.workers.placing import EVERYWHERE

# Rows of one relation that are at home, brought to where columns place them, each with the values whose rows are split;
# or picked there from those that all workers have.
Bring = Callable[[RowSet, Sequence[tuple[int, Column]]], list[RowSet]]
Pick = Callable[[RowSet, int], RowSet]
NO_VALUES = np.empty(0, np.int64)


@dataclass(slots=True)
class Whole:
    """What a worker that has all rows makes of them where a plan reads other rows beside, which are not everywhere."""

    pick: Pick
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

    All workers have the same columns in `copies`, and the same values in `common`: those of a column whose rows are
    split. The home column has a copy only if it has such values. Shards of one relation have the same `content` only if
    all workers have the same rows in both.
    """

    relation: str
    home: Trace
    copies: Mapping[int, Trace] = field(default_factory=dict)
    whole: Whole | None = None
    common: Mapping[int, Column] = field(default_factory=dict)
    content: object = field(default_factory=object)

    def at(self, column: int | None, home: int | None) -> Trace:
        """The rows that a column places here; None for those at home."""
        if column is None or (column == home and home not in self.copies):
            return self.home
        found = self.copies.get(column)
        if found is None and self.whole is not None:
            return self.whole.placed(self.copies[EVERYWHERE], column)
        assert found is not None or not self.home.size, f"{self.relation} is not indexed by column {column}"
        return self.home if found is None else found

    def indexed(self, orders: Iterable[Order], home: int | None, bring: Bring, pick: Pick | None = None) -> Shard:
        """The same rows, with copies for the first columns of these orders.

        With `pick`, which picks the rows that a column places here, there is one copy instead, of all rows.
        """
        if pick is not None:
            wanted = sorted({*orders, *(() if self.whole is None else self.whole.orders)})
            whole = self.copies.get(EVERYWHERE)
            whole = Trace.of(bring(self.home.rows(), [(EVERYWHERE, NO_VALUES)])[0]) if whole is None else whole
            copies = {EVERYWHERE: whole.indexed(wanted)}
            return Shard(self.relation, self.home.indexed(wanted), copies, Whole(pick, wanted), content=self.content)
        mine: list[Order] = []
        others: dict[int, list[Order]] = {}
        for order in sorted(orders):
            if not order or order[0] == home or home is None:
                mine.append(order)
            if order and (order[0] in self.copies if order[0] == home else home is not None):
                others.setdefault(order[0], []).append(order)
        copies = {**self.copies}
        missing = [column for column in others if column not in copies]
        if missing:
            brought = bring(self.home.rows(), [(column, NO_VALUES) for column in missing])
            copies |= {column: Trace.of(rows) for column, rows in zip(missing, brought, strict=True)}
        for column, wanted in others.items():
            copies[column] = copies[column].indexed(wanted)
        return Shard(self.relation, self.home.indexed(mine), copies, None, self.common, self.content)

    def split(self, common: Mapping[int, Column], home: int | None, bring: Bring) -> Shard:
        """The same rows, with those of these values split, in the copies of these columns."""
        copies, kept = dict(self.copies), dict(self.common)
        for column, values in sorted(common.items()):
            if np.array_equal(values, kept.get(column, NO_VALUES)):
                continue
            kept[column] = values
            if column == home and not values.size:
                del copies[column]
                continue
            before = copies.get(column, self.home)
            orders = [order for order in before.orders if order[:1] == (column,)]
            copies[column] = Trace.of(bring(self.home.rows(), [(column, values)])[0]).indexed(orders)
        kept = {c: values for c, values in kept.items() if values.size}
        return Shard(self.relation, self.home, copies, None, kept, self.content)

    def alike(self, other: Shard, home: int | None, bring: Bring) -> Shard:
        """These rows, each where another version has it, which it is taken out of."""
        columns = {*self.common, *other.common}
        if not columns:
            return self
        rows = self
        if self.whole is not None:
            placed = {column: copy for column, copy in other.copies.items() if column not in (EVERYWHERE, home)}
            orders = [order for column, copy in placed.items() for order in copy.orders if order[:1] == (column,)]
            rows = Shard(self.relation, self.home).indexed(orders, home, bring)
        return rows.split({column: other.common.get(column, NO_VALUES) for column in columns}, home, bring)

    def known(self, others: Trace | None) -> TraceView:
        """All rows of which this worker knows that they are in this version; `others` are some of them."""
        if EVERYWHERE in self.copies:
            return TraceView.of(self.copies[EVERYWHERE])
        return TraceView.of(self.home, *self.copies.values(), *(() if others is None else (others,)))

    def adding(self, rows: RowSet, bring: Bring) -> Shard:
        copies = {column: self.copies[column].adding(part) for column, part in self._brought(rows, bring)}
        return Shard(self.relation, self.home.adding(rows), copies, self._whole(), self.common)

    def removing(self, rows: RowSet, bring: Bring) -> Shard:
        copies = {column: self.copies[column].removing(part) for column, part in self._brought(rows, bring)}
        return Shard(self.relation, self.home.removing(rows), copies, self._whole(), self.common)

    def _brought(self, rows: RowSet, bring: Bring) -> list[tuple[int, RowSet]]:
        """Rows, for each copy where it has them."""
        columns = sorted(self.copies)
        if not columns:
            return []
        parts = bring(rows, [(column, self.common.get(column, NO_VALUES)) for column in columns])
        return list(zip(columns, parts, strict=True))

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
        if self.home is None or (column == self.home and not self.common(column).size):
            column = None
        found = self._views.get(column)
        if found is None:
            found = self._views[column] = TraceView(
                tuple(
                    (shard.at(column, self.home), tuple(other.at(column, self.home) for other in gone))
                    for shard, gone in self.parts
                )
            )
        return found

    def common(self, column: int) -> Column:
        """The values whose rows are split where this column places them."""
        found = [shard.common[column] for shard, _ in self.parts if column in shard.common]
        return NO_VALUES if not found else found[0] if len(found) == 1 else np.unique(np.concatenate(found))

    @property
    def is_split(self) -> tuple[int, ...]:
        """The columns that have such values."""
        return tuple(sorted({column for shard, _ in self.parts for column in shard.common}))

    def plus(self, *shards: Shard) -> ShardView:
        return ShardView((*self.parts, *((shard, ()) for shard in shards)), self.home)
