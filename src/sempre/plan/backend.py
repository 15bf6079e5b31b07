"""The algebra that strategies are written against, and that every backend implements.

A strategy never sees a row. It holds *versions* of relations (immutable sets of rows), *rows* (what plans derived) and
*views* (what plans read), and combines them through the backend. A version stays valid for as long as it is held, so a
strategy that gives up has nothing to undo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from sempre.plan.ops import Order, Plan, Read
from sempre.plan.planner import Statistics

Rows: TypeAlias = Any
View: TypeAlias = Any
Executable: TypeAlias = Any
Views: TypeAlias = Mapping[tuple[str, Read], View]


class Version(Protocol):
    """An immutable set of rows of one relation."""

    def __len__(self) -> int: ...

    def rows(self) -> Rows: ...

    def adding(self, rows: Rows) -> Version:
        """With rows that are not in it."""
        ...

    def removing(self, rows: Rows) -> Version:
        """Without rows that are in it."""
        ...

    def indexed(self, orders: Iterable[Order]) -> Version:
        """The same rows, quick to look up by these orders."""
        ...


class Backend(Protocol):
    """Where plans run."""

    def statistics(self, state: Mapping[str, Version]) -> Statistics: ...

    def prepare(self, plan: Plan) -> Executable:
        """Whatever can be done for a plan ahead of running it."""
        ...

    def empty(self, relation: str) -> Version: ...

    def fitted(self, relation: str, version: Version) -> Version:
        """The version, laid out so that the values of the epoch to come fit."""
        ...

    def version(self, rows: Rows, orders: Iterable[Order] = ()) -> Version: ...

    def view(self, *versions: Version) -> View:
        """The union of disjoint versions."""
        ...

    def derive(self, relation: str, plans: Sequence[Executable], views: Views, known: Version) -> Rows:
        """The distinct facts that the plans derive and that are not known."""
        ...

    def union(self, sets: Sequence[Rows]) -> Rows: ...

    def difference(self, rows: Rows, version: Version) -> Rows: ...

    def intersection(self, rows: Rows, version: Version) -> Rows: ...
