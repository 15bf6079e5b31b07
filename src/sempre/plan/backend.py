"""The algebra that strategies are written against, and that every backend implements.

A strategy never sees a row. It holds *versions* of relations (immutable sets of rows), *rows* (what plans derived) and
*views* (what plans read), and combines them through the backend. A version stays valid for as long as it is held, so a
strategy that gives up has nothing to undo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sempre.plan.ops import Neighbors, Order, Plan, Read
from sempre.plan.planner import Statistics

# What these are is the backend's business; strategies only pass them around.
Rows: TypeAlias = Any  # distinct rows of one relation; len() is known
Counted: TypeAlias = Any  # rows with a number of instances each: rows(), negated()
Tally: TypeAlias = Any  # an immutable map from rows to numbers: adding(counted), entries()
View: TypeAlias = Any  # what a plan reads
Executable: TypeAlias = Any  # a plan, ready to run
Views: TypeAlias = Mapping[tuple[str, Read], View]
# An immutable set of rows of one relation. Besides len(): rows(), adding(rows) for rows it lacks, removing(rows) for
# rows it has, indexed(orders) to be quick to look up by these orders; each gives a new version.
Version: TypeAlias = Any
# Rows sorted by a column within groups, immutable: changed(plus, minus); neighbors(), all of them; around(rows), those
# that have to do with the values of some rows. The latter two give rows of `Neighbors.relation`.
Ordering: TypeAlias = Any
# What happened to the facts of one relation, cycle by cycle; an immutable value. Has now, view(cycle, since, without),
# present, counts, indexed(orders), advanced, compared, edited: see `sempre.kernel.chains`.
Chain: TypeAlias = Any
Walk: TypeAlias = Any  # followed, pending: {relation: rows}; counts: {relation: counted}


class Backend(Protocol):
    """Where plans run."""

    instances: int  # rows of full bindings that plans have found so far

    def settle(self, rows: Iterable[Rows | Counted]) -> None:
        """Find out the sizes of all of these at once: what is lazy is computed."""
        ...

    def finish(self) -> None:
        """The end of an epoch: whatever versions, tallies and rows are held from here on should be cheap to hold."""
        ...

    def keep(self) -> None:
        """What the backend has numbered belongs to a state that is committed: it stays for good."""
        ...

    def forget(self) -> None:
        """Take back what was numbered since `keep`: the epoch did not happen, and nobody holds on to it."""
        ...

    def receive(self, relation: str, columns: Sequence[Any], size: int) -> Rows:
        """Distinct rows that another backend has, as columns of codes."""
        ...

    def statistics(self, state: Mapping[str, Version]) -> Statistics: ...

    def prepare(self, plan: Plan) -> Executable:
        """Whatever can be done for a plan ahead of running it."""
        ...

    def empty(self, relation: str) -> Version: ...

    def fitted(self, relation: str, version: Version) -> Version:
        """The version, laid out so that the values of the epoch to come fit."""
        ...

    def version(self, rows: Rows, orders: Iterable[Order] = ()) -> Version: ...

    def view(self, *versions: Version, without: Version | None = None) -> View:
        """The union of disjoint versions; `without` is taken out of the first, which has all of it."""
        ...

    def derive(self, relation: str, plans: Sequence[Executable], views: Views, known: Version) -> Rows:
        """The distinct facts that the plans derive and that are not known."""
        ...

    def walk(
        self,
        front: Mapping[str, Rows],
        plans: Sequence[Executable],
        views: Views,
        present: Mapping[str, View],
        deleting: Mapping[str, Tally] | None,
    ) -> Walk | None:
        """Follow delta plans from a small front, through as many rounds as it takes, or None if that cannot be done.

        Only for plans whose single atom of the stratum is the pivot. `present` is every relation of the stratum
        without the front. Inserting, derived facts join that are not present; `deleting`, those that are and whose
        tally is zero. The result has the facts that joined and were `followed`, those that joined and are still
        `pending`, and the `counts` of all derived facts; nothing else happens.
        """
        ...

    def union(self, sets: Sequence[Rows]) -> Rows: ...

    def difference(self, rows: Rows, version: Version) -> Rows: ...

    def intersection(self, rows: Rows, version: Version) -> Rows: ...

    def count(self, relation: str, plans: Sequence[Executable], views: Views) -> Counted:
        """The facts that the plans derive, with the number of instances that derive each."""
        ...

    def total(self, relation: str, parts: Sequence[Counted]) -> Counted:
        """The sums of the numbers of instances."""
        ...

    def restricted(self, counted: Counted, rows: Rows) -> Counted:
        """What is counted of these rows."""
        ...

    def excluded(self, counted: Counted, view: View) -> Counted:
        """What is counted of rows outside the view."""
        ...

    def tally(self, relation: str) -> Tally:
        """A map from facts to numbers, all zero."""
        ...

    def chain(self, relation: str, rows: Rows) -> Chain:
        """The chains of a relation before the first cycle, when it has these rows."""
        ...

    def digest(self, relation: str, rows: Rows) -> int:
        """A number that tells sets of facts apart: that of a symmetric difference is the exclusive or of the two."""
        ...

    def positive(self, tally: Tally, rows: Rows) -> Rows:
        """The rows whose number is above zero."""
        ...

    def zero(self, tally: Tally, rows: Rows) -> Rows:
        """The rows whose number is zero."""
        ...

    def lookup(self, tally: Tally, rows: Rows) -> Counted:
        """The rows with their numbers; those whose number is zero are left out."""
        ...

    def times(self, rows: Rows, number: int) -> Counted:
        """Rows with the same number each."""
        ...

    def once(self, rows: Rows) -> Counted:
        """Rows that count one each."""
        ...

    # Modules look at values. A backend that `has_modules` lets them.

    has_modules: bool

    def columns(self, rows: Rows) -> Sequence[NDArray[np.int64]]:
        """The columns of rows, encoded."""
        ...

    def collect(self, relation: str, blocks: Iterable[Sequence[NDArray[np.int64]]], size: int | None) -> Rows:
        """The distinct rows of blocks of encoded columns; `size` is how many rows they have, if that is known."""
        ...

    def chosen(self, rows: Rows, mask: NDArray[np.bool_]) -> Rows:
        """The rows where the mask is set."""
        ...

    def improvement(self, relation: str, rows: Rows, version: Version) -> tuple[Rows, Rows]:
        """The best rows that beat what `version` has for their groups, and the rows they replace."""
        ...

    def groups(self, relation: str, rows: Rows) -> Rows:
        """One row for each group of a relation with an aggregate; every row, of any other relation."""
        ...

    def group_rows(self, relation: str, groups: Rows, version: Version) -> Rows:
        """The rows of `version` in these groups; without an aggregate, those that are among them."""
        ...

    def totals(self, relation: str, counted: Counted) -> Rows:
        """One row per group, for a relation that keeps the `sum` or `count`."""
        ...

    def ordering(self, order: Neighbors, rows: Rows) -> Ordering:
        """Rows of `order.source`, sorted; kept from epoch to epoch only where `has_modules`."""
        ...
