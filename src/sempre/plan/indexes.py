"""Which column orders to index a relation by.

A lookup by a set of columns can use any order that begins with exactly these columns. Sets that contain each other
share one order, so few orders serve many lookups.
"""

from __future__ import annotations

from collections.abc import Iterable

from sempre.plan.ops import Order

ColumnSet = frozenset[int]


class Orders:
    """The orders chosen so far, per relation. Orders are only ever added: existing indexes stay valid."""

    def __init__(self) -> None:
        self._chosen: dict[str, list[Order]] = {}

    def declare(self, relation: str, arity: int) -> None:
        """Start with the relation's own order, which every trace has."""
        self._chosen.setdefault(relation, [tuple(range(arity))])

    def cover(self, relation: str, wanted: Iterable[ColumnSet]) -> None:
        """Choose orders so that every set in `wanted` is the prefix of one, chaining sets that contain each other."""
        chosen = self._chosen[relation]
        missing = sorted({s for s in wanted if not _serving(chosen, s)}, key=lambda s: (len(s), sorted(s)))
        chains: list[list[ColumnSet]] = []
        for columns in missing:
            chain = next((c for c in chains if c[-1] < columns), None)
            if chain is None:
                chains.append([columns])
            else:
                chain.append(columns)
        arity = len(chosen[0])
        chosen.extend(_order_of(chain, arity) for chain in chains)

    def serves(self, relation: str, columns: ColumnSet) -> bool:
        """Whether some order begins with exactly these columns already."""
        return _serving(self._chosen[relation], columns) is not None

    def serving(self, relation: str, columns: ColumnSet) -> Order:
        """An order that begins with exactly these columns; added if there is none."""
        found = _serving(self._chosen[relation], columns)
        if found is None:
            self.cover(relation, [columns])
            return self.serving(relation, columns)
        return found

    def all(self, relation: str) -> tuple[Order, ...]:
        return tuple(self._chosen[relation])


def _serving(orders: list[Order], columns: ColumnSet) -> Order | None:
    return next((order for order in orders if frozenset(order[: len(columns)]) == columns), None)


def _order_of(chain: list[ColumnSet], arity: int) -> Order:
    order: list[int] = []
    for columns in (*chain, frozenset(range(arity))):
        order += sorted(columns - set(order))
    return tuple(order)
