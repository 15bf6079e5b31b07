"""The algebra that strategies are written against, and that every backend implements.

A strategy never sees a row. It holds *versions* of relations (immutable sets of rows), *rows* (what plans derived) and
*views* (what plans read), and combines them through the backend. A version stays valid for as long as it is held, so a
strategy that gives up has nothing to undo.

**Types.** Each backend has a family of types of its own: its rows, versions, views, counted rows, tallies and
executables. The generic protocols (`VersionOf`, `ViewOf`, ..., `Algebra`) say how the types of one family fit together,
and a backend is checked against them with its own types: see the last lines of `backends/local.py` and
`spark/cluster/spark_backend.py`. Strategies know no family. They use `Version`, `View`, ..., `Backend`: the same
protocols for a family that nobody can look into. `sealed` turns the one into the other. It is the only step that the
type checker takes on trust, and what it trusts is this rule: **what a backend made goes back to that backend and to no
other**, and what was made for one relation is used for that relation. Rows move between backends by `receive` alone.

**Capabilities.** What every strategy needs is in `Algebra`. What modules need as well is in `ModuleAlgebra`, and
`for_modules` gives it where there is one; or in `PathAlgebra`, where rows are elsewhere and are searched there. What
the cycles of active rules need as well is in `CycleAlgebra`.

**Misuse.** Each method says what it takes for granted. Nothing of that is checked when it runs: the answer is then
wrong, sooner or later, and no error says so. `Database.verify` and the property tests find such mistakes.

Reference: [DD], whose traces document their contracts in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from sempre.analysis.model import Relation
from sempre.limits import Limits
from sempre.plan.estimates import Statistics
from sempre.plan.ops import Automaton, Neighbors, Order, Plan, Read

# Where rows can be: in this process, in workers' processes, or in files that Spark reads.
DRIVER, WORKERS, CLUSTER = "driver", "workers", "cluster"

Column: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

# A backend's own types, all of one family.
RowsT = TypeVar("RowsT")
RowsT_co = TypeVar("RowsT_co", covariant=True)
VersionT = TypeVar("VersionT")
VersionT_contra = TypeVar("VersionT_contra", contravariant=True)
ViewT = TypeVar("ViewT")
ViewT_co = TypeVar("ViewT_co", covariant=True)
ViewT_contra = TypeVar("ViewT_contra", contravariant=True)
VersionT_co = TypeVar("VersionT_co", covariant=True)
CountedT = TypeVar("CountedT")
CountedT_co = TypeVar("CountedT_co", covariant=True)
CountedT_contra = TypeVar("CountedT_contra", contravariant=True)
TallyT = TypeVar("TallyT")
ExecutableT = TypeVar("ExecutableT")


class Look(Protocol):
    """Is called while plans run, and may raise to stop them."""

    def __call__(self, rest: float | None = None) -> None:
        """`rest` is what is expected to come, as a multiple of what was, where that is known."""
        ...


class Shape(Protocol):
    """What rows look like outside: the relation they are of, and what codes stand for."""

    @property
    def relation(self) -> Relation: ...

    def decoded(self, columns: Sequence[Column], size: int) -> Any:
        """An Arrow table of rows, given by codes."""
        ...

    def streamed(self, columns: Callable[[int, int], Sequence[Column]], size: int) -> Any:
        """The same of `size` rows, to be read once: `columns(begin, end)` are the codes of some."""
        ...


class FrameShape(Shape, Protocol):
    """What rows look like as a DataFrame of Spark's."""

    def framed(self, table: Any) -> Any:
        """A DataFrame of an Arrow table."""
        ...

    def restored(self, frame: Any, rows: object) -> Any:
        """A DataFrame that the cluster made of its rows, as users see it; the rows stay while it may be read."""
        ...


class Rows(Protocol):
    """Distinct rows of one relation. Immutable."""

    @property
    def place(self) -> str:
        """Where the rows are: `DRIVER`, `WORKERS` or `CLUSTER`."""
        ...

    def __len__(self) -> int:
        """How many rows there are. Lazy rows are computed for it: ask for many at once by `Algebra.settle` first."""
        ...

    def columns(self) -> Sequence[Column]:
        """The columns as codes, in this process, whatever they weigh.

        Misuse: strategies do not call it, since rows on the cluster need not fit here; modules do, by
        `ModuleAlgebra.columns`. The arrays may be those that the rows consist of, so nobody writes to them.
        """
        ...

    def to_arrow(self, shape: Shape) -> Any:
        """An Arrow table of the rows, in this process. Misuse: as for `columns`."""
        ...

    def to_stream(self, shape: Shape) -> Any:
        """To be read once: `CodedRows`, an Arrow table, or record batches where not all rows are in this process."""
        ...

    def to_frame(self, shape: FrameShape) -> Any:
        """A Spark DataFrame of the rows; on the cluster, of the files that they are in."""
        ...


class VersionOf(Protocol[RowsT]):
    """An immutable set of rows of one relation, which can be looked up by some orders of its columns."""

    @property
    def place(self) -> str:
        """Where the rows are: `DRIVER`, `WORKERS` or `CLUSTER`."""
        ...

    def __len__(self) -> int:
        """How many rows there are; known at no cost."""
        ...

    def rows(self) -> RowsT:
        """All rows. May cost as much as there are rows: a change is to be followed without it."""
        ...

    def indexed(self, orders: Iterable[Order]) -> Self:
        """The same set, quick to look up by these orders, and by those that it had.

        Costs a pass over the set for each order that is new, so the result is to be kept. Misuse: a view that a plan
        reads must be of versions with all orders that the plan looks up by (`Plans.needed_orders`).
        """
        ...

    def adding(self, rows: RowsT) -> Self:
        """The set with `rows`; costs about what they do.

        Misuse: none of the rows may be in the set. One that is would be there twice, `len` would be wrong, and
        removing it once would leave it there. Take `Algebra.difference` first.
        """
        ...

    def removing(self, rows: RowsT) -> Self:
        """The set without `rows`; costs about what they do.

        Misuse: all of the rows must be in the set. One that is not makes `len` wrong, and is missing when it is added
        later. Take `Algebra.intersection` first.
        """
        ...


class ViewOf(Protocol[VersionT_contra]):
    """What a plan reads of one relation: some versions, each without others. Copies nothing."""

    def __len__(self) -> int:
        """How many rows there are, or at most how many where only a look at each row could tell."""
        ...

    def plus(self, *versions: VersionT_contra) -> Self:
        """The view with some versions. Misuse: a row that the view has already would count twice in `Algebra.count`."""
        ...


class CountedOf(Protocol[RowsT_co]):
    """Distinct rows of one relation with a number each, never zero. Immutable."""

    @property
    def weights(self) -> Column:
        """The numbers, in this process, in the order of `rows().columns()`. For reports and tests, as those are."""
        ...

    def __len__(self) -> int:
        """How many rows there are, as for `Rows`."""
        ...

    def rows(self) -> RowsT_co:
        """The rows without their numbers. Misuse: also those whose number is negative."""
        ...

    def negated(self) -> Self:
        """The same rows with their numbers negated."""
        ...


class TallyOf(Protocol[CountedT]):
    """A map from the rows of one relation to numbers, zero where nothing is stored. Immutable."""

    def adding(self, counted: CountedT) -> Self:
        """The map with these numbers added; costs about what they do.

        Misuse: a counter must never be negative. An instance is taken out once, by whoever put it in.
        """
        ...

    def entries(self) -> CountedT:
        """All rows whose number is not zero. Costs as much as there are."""
        ...


class Executable(Protocol):
    """A plan, ready to run on the backend that prepared it."""

    @property
    def plan(self) -> Plan: ...


class WalkOf(Protocol[RowsT_co, CountedT_co]):
    """What `Algebra.walk` found, for every relation of the stratum; the front that it started from is not in it.

    `followed` and `pending` have no row in common, and none that was present. Misuse: the rounds of a walk are not
    known, so nothing that needs them (ranks, iterations) may come from it.
    """

    @property
    def followed(self) -> Mapping[str, RowsT_co]:
        """The facts that joined, and whose consequences are here too."""
        ...

    @property
    def pending(self) -> Mapping[str, RowsT_co]:
        """The facts that joined, and whose consequences are still to be found: the next front."""
        ...

    @property
    def counts(self) -> Mapping[str, CountedT_co]:
        """The instances that were found, by what they derive, whether that joined or not."""
        ...


class GrownOf(Protocol[RowsT_co, CountedT_co]):
    """What `Algebra.grow` found; the front that it started from is not in it."""

    @property
    def rounds(self) -> Sequence[Mapping[str, RowsT_co]]:
        """The new facts of each round after the front's, whose consequences are here too."""
        ...

    @property
    def pending(self) -> Mapping[str, RowsT_co]:
        """The facts of the round after the last, whose consequences are still to be found: the next front."""
        ...

    @property
    def numbers(self) -> Mapping[str, CountedT_co]:
        """How many instances over facts of earlier rounds derive each new fact, pending ones included."""
        ...


class RerankedOf(Protocol[RowsT_co, CountedT_co]):
    """What `Algebra.rerank` found, for every relation of the stratum."""

    @property
    def gone(self) -> Mapping[str, RowsT_co]:
        """The facts that nothing derives any more."""
        ...

    @property
    def ranks(self) -> Mapping[str, CountedT_co]:
        """By how much ranks change; to zero, for facts that are gone."""
        ...

    @property
    def tight(self) -> Mapping[str, CountedT_co]:
        """By how much numbers of tight instances change; to zero, for facts that are gone."""
        ...

    @property
    def highest(self) -> int:
        """The highest rank of a fact that was looked at."""
        ...

    @property
    def touched(self) -> int:
        """How many facts were looked at."""
        ...


class ColumnValuesOf(Protocol[RowsT, VersionT_contra]):
    """The values of a column of some version."""

    def having(self, rows: RowsT, column: int) -> RowsT:
        """Those of the rows that have one of the values in a column."""
        ...

    def share(self, version: VersionT_contra, column: int) -> float:
        """About what part of the rows of a version has one of the values in a column."""
        ...


class OrderingOf(Protocol[RowsT]):
    """Rows sorted by a column within groups. Immutable."""

    def changed(self, plus: RowsT, minus: RowsT) -> Self:
        """The ordering with and without some rows; O(log n) for each. Misuse: as for `adding` and `removing`."""
        ...

    def neighbors(self) -> RowsT:
        """All neighbors, as rows of `Neighbors.relation`."""
        ...

    def around(self, rows: RowsT) -> RowsT:
        """The neighbors of which one has the group and value of some row, or between which it would stand.

        Misuse: what a change did is the difference of `around` before and after, for the *same* rows, those of the
        change; other rows say nothing about it.
        """
        ...


class ChainOf(Protocol[RowsT, VersionT, ViewT_co, CountedT_contra]):
    """What happened to the facts of one relation, cycle by cycle. Immutable. See `sempre.kernel.chains`.

    Cycles are numbered from 1; 0 is the input. Misuse: a question about a cycle that was not done yet is answered as
    if nothing happened in it.
    """

    @property
    def now(self) -> VersionT:
        """The facts after the last cycle."""
        ...

    @property
    def records(self) -> int:
        """How many records are kept."""
        ...

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        ...

    def indexed(self, orders: Iterable[Order]) -> Self:
        """The same, quick to look up by these orders: see `VersionOf.indexed`."""
        ...

    def view(self, cycle: int, since: bool, without: VersionT | None = None) -> ViewT_co:
        """The facts at a cycle, less some of them.

        Misuse: `since` may be False only if nothing came or went after the cycle; `without` must be in it entirely.
        """
        ...

    def at(self, cycle: int) -> VersionT:
        """The facts at a cycle, as a version of their own. Costs as much as all facts that ever were."""
        ...

    def present(self, rows: RowsT, cycle: int) -> Mask:
        """Which rows were there at a cycle."""
        ...

    def cycles_of(self, row: RowsT) -> list[int]:
        """The cycles in which one row came or went. Misuse: of several rows, the answers are mixed."""
        ...

    def by_cycle(self, relation: str) -> Mapping[int, tuple[int, int]]:
        """By cycle, how many facts came or went, and their digest; for cycle 0, the facts that were there.

        Reads all records.
        """
        ...

    def flips(self, rows: RowsT, cycle: int) -> int:
        """How many of the rows came or went at a cycle."""
        ...

    def flipped(self, first: int, last: int) -> RowsT:
        """The rows that came or went in a stretch of cycles. Reads all records."""
        ...

    def advanced(
        self, cycle: int, added: CountedT_contra | None, deleted: CountedT_contra | None
    ) -> tuple[Self, RowsT, RowsT]:
        """One cycle more, with the rows that came and that went in it.

        `added` and `deleted` are by how much the numbers of instances differ from the cycle before, at least one of
        them given. Misuse: `cycle` must be later than all before; whole numbers instead of differences count double.
        """
        ...

    def turned(self, cycle: int, rows: RowsT) -> tuple[Self, RowsT, RowsT]:
        """One cycle more in which all of these rows come or go, whatever decided so."""
        ...

    def compared(
        self, cycle: int, added: CountedT_contra | None, deleted: CountedT_contra | None, plus: RowsT, minus: RowsT
    ) -> tuple[RowsT, RowsT]:
        """What another run has more and less than this one at a cycle.

        `added` and `deleted` are by how much its numbers of instances differ at this cycle, `plus` and `minus` what it
        has more and less one cycle before. Misuse: all of what differs is needed, not only what is new.
        """
        ...

    def edited(
        self,
        toggles: Sequence[tuple[int, RowsT]],
        added: Sequence[tuple[int, CountedT_contra]],
        deleted: Sequence[tuple[int, CountedT_contra]],
        start: tuple[RowsT, RowsT],
        end: tuple[RowsT, RowsT],
    ) -> Self:
        """The chains of another run: where records differ, and what it has more and less in cycle 0 and in the end.

        Misuse: a row that flips at a cycle in both runs, or in neither, must not be among the `toggles` there.
        """
        ...

    def differences(self, other: Self) -> Mapping[str, RowsT]:
        """The rows whose chains differ, by what differs. For `verify`."""
        ...


class PathsOf(Protocol[RowsT]):
    """What follows from the facts that a module was told, changed in place.

    `stamp` says which epoch this belongs to; None while one is under way. Misuse: after an epoch that failed it may be
    anything, and is to be thrown away.
    """

    stamp: object

    def is_exact(self, head: str) -> bool:
        """Whether `add` and `remove` find no fact of a head that was true before, or is true after."""
        ...

    def learn(self, facts: Mapping[str, RowsT]) -> None:
        """Take facts in; what follows from them is known already."""
        ...

    def add(self, facts: Mapping[str, RowsT]) -> dict[str, RowsT]:
        """Take facts in; the facts of heads that become true with these."""
        ...

    def remove(
        self, facts: Mapping[str, RowsT], trusted: Callable[[str, RowsT], RowsT] | None, also: Mapping[str, RowsT]
    ) -> dict[str, RowsT]:
        """Forget facts; the facts of heads that were true over these, and are not true over trusted ones alone.

        `also` are facts of heads that go and were never taken in. `trusted` is None when all that are left are trusted.
        Misuse: a backend that searches for paths by itself is asked only with None.
        """
        ...

    def parted(self, head: str, rows: RowsT) -> tuple[RowsT, RowsT]:
        """The facts of a head that are true over what was taken in, and those that are not."""
        ...


class Algebra(Protocol[RowsT, VersionT, ViewT, CountedT, TallyT, ExecutableT]):
    """Where plans run: what every strategy needs."""

    @property
    def place(self) -> str:
        """Where the rows of this backend are: `DRIVER`, `WORKERS` or `CLUSTER`."""
        ...

    @property
    def limits(self) -> Limits:
        """The thresholds of the database that the backend works for."""
        ...

    @property
    def instances(self) -> int:
        """How many rows of full bindings plans have found so far."""
        ...

    def for_modules(self) -> ModuleAlgebra[RowsT, VersionT, ViewT, CountedT, TallyT, ExecutableT] | None:
        """This backend as one that modules can work on; None if they cannot."""
        ...

    def for_paths(self) -> PathAlgebra[RowsT, VersionT, ViewT] | None:
        """This backend as one that searches for paths itself, for modules; None if it does not."""
        ...

    def watch(self, look: Look | None) -> None:
        """Have `look` called now and then while plans run, until another or None is given; it may raise to stop them.

        Misuse: no answer may depend on when it is called, or on whether it is.
        """
        ...

    def settle(self, rows: Iterable[RowsT | CountedT]) -> None:
        """Find out the sizes of all of these at once: what is lazy is computed.

        Never needed for the answer, only for the cost: `len` would compute them one by one.
        """
        ...

    def finish(self) -> None:
        """The end of an epoch: whatever versions, tallies and rows are held from here on should be cheap to hold."""
        ...

    def keep(self) -> None:
        """What the backend has numbered belongs to a state that is committed: it stays for good."""
        ...

    def forget(self) -> None:
        """Take back what was numbered since `keep`: the epoch did not happen.

        Misuse: whoever still holds rows of that epoch has codes that will stand for something else.
        """
        ...

    # ------------------------------------------------------------------------------------------------ relations

    def receive(self, relation: str, columns: Sequence[Column], size: int) -> RowsT:
        """Rows that another backend has, as columns of codes. Misuse: the two must share one table of codes."""
        ...

    def statistics(self, state: Mapping[str, VersionT]) -> Statistics:
        """Estimates for the planner, made when they are asked for. Misuse: no answer may depend on them."""
        ...

    def empty(self, relation: str) -> VersionT:
        """No rows. Misuse: it has no orders but its own; what a plan reads needs `indexed`."""
        ...

    def fitted(self, relation: str, version: VersionT) -> VersionT:
        """The version, laid out so that the values of the epoch to come fit.

        Only for speed: rows that do not fit are taken as well, at the cost of another pass over the version.
        """
        ...

    def version(self, rows: RowsT, orders: Iterable[Order] = ()) -> VersionT:
        """A version of these rows, quick to look up by these orders."""
        ...

    def view(self, *versions: VersionT, without: VersionT | None = None) -> ViewT:
        """The union of at least one version.

        Misuse: the versions must be disjoint, and the first must have all of `without`, which is taken out of it
        alone. Otherwise instances are counted twice, or `len` is too small. All must have the orders of the plans
        that read them, `without` too.
        """
        ...

    # ---------------------------------------------------------------------------------------------------- plans

    def prepare(self, plan: Plan) -> ExecutableT:
        """Whatever can be done for a plan ahead of running it. Kept by `Plans`: it is not for every round."""
        ...

    def derive(
        self,
        relation: str,
        plans: Sequence[ExecutableT],
        views: Mapping[tuple[str, Read], ViewT | TallyT],
        known: VersionT | ViewT,
    ) -> RowsT:
        """The distinct facts that the plans derive and that are not known.

        Misuse: `views` must have all that the plans read, for `Read.RANK` a tally and for all else a view; all plans
        derive into `relation`. A fact comes once, however many instances it has: to keep counters use `count`.
        """
        ...

    def count(
        self, relation: str, plans: Sequence[ExecutableT], views: Mapping[tuple[str, Read], ViewT | TallyT]
    ) -> CountedT:
        """The facts that the plans derive, with the number of instances that derive each.

        Misuse: as for `derive`; and several delta plans of one rule count each instance once only if their views are
        those of two states of which one is here and the other there.
        """
        ...

    def supports(
        self,
        relation: str,
        plans: Sequence[ExecutableT],
        views: Mapping[tuple[str, Read], ViewT | TallyT],
        known: VersionT | ViewT,
    ) -> CountedT:
        """The facts that the plans derive and that are not known, with the number of instances that derive each.

        Raises `CapacityError` where a number does not fit.
        """
        ...

    def column_values(self, version: VersionT, column: int) -> ColumnValuesOf[RowsT, VersionT] | None:
        """The values of a column, to look for them in others; None if this backend looks for rows in other ways."""
        ...

    def walk(
        self,
        front: Mapping[str, RowsT],
        plans: Sequence[ExecutableT],
        views: Mapping[tuple[str, Read], ViewT | TallyT],
        present: Mapping[str, ViewT],
        deleting: Mapping[str, TallyT] | None,
    ) -> WalkOf[RowsT, CountedT] | None:
        """Follow delta plans from a small front, through as many rounds as it takes, or None if that cannot be done.

        Only for plans whose single atom of the stratum is the pivot. `present` is every relation of the stratum
        without the front. Inserting, derived facts join that are not present; `deleting`, those that are and whose
        tally is zero. Nothing else happens: it is the caller who adds what joined, the front, and the counts.
        """
        ...

    def grow(
        self,
        front: Mapping[str, RowsT],
        plans: Sequence[ExecutableT],
        views: Mapping[tuple[str, Read], ViewT | TallyT],
        present: Mapping[str, ViewT],
    ) -> GrownOf[RowsT, CountedT] | None:
        """Add a small front and what follows from it, through as many rounds as it takes, or None if that cannot be.

        The plans have their pivots in the stratum, all of them, and `present` is every relation of the stratum without
        the front. Nothing is changed: it is the caller who adds the front and what was found.
        """
        ...

    def rerank(
        self,
        front: Mapping[str, RowsT],
        forward: tuple[Sequence[ExecutableT], Mapping[tuple[str, Read], ViewT | TallyT]],
        backward: tuple[Sequence[ExecutableT], Mapping[tuple[str, Read], ViewT | TallyT]],
        grounding: tuple[Sequence[ExecutableT], Mapping[tuple[str, Read], ViewT | TallyT]],
        present: Mapping[str, VersionT],
        explicit: Mapping[str, VersionT],
        ranks: Mapping[str, TallyT],
        tight: Mapping[str, TallyT],
    ) -> RerankedOf[RowsT, CountedT] | None:
        """Which facts go when those of the front lost tight instances, and what ranks the others get; or None.

        Plans with what they read: delta plans with a pivot in the stratum (`forward`), plans from the head of the
        recursive rules (`backward`) and of the others (`grounding`). `present` is every relation of the stratum.
        Misuse: `forward` and `backward` must find the same instances, and `tight` must have counted these alone.
        """
        ...

    # ----------------------------------------------------------------------------------------------------- sets

    def union(self, sets: Sequence[RowsT]) -> RowsT:
        """The distinct rows of some sets, which may overlap. Misuse: at least one set."""
        ...

    def difference(self, rows: RowsT, version: VersionT | ViewT) -> RowsT:
        """The rows that are not in a version or view."""
        ...

    def intersection(self, rows: RowsT, version: VersionT | ViewT) -> RowsT:
        """The rows that are in a version or view."""
        ...

    # --------------------------------------------------------------------------------------------------- counts

    def total(self, relation: str, parts: Sequence[CountedT]) -> CountedT:
        """The sums of the numbers; rows that come to zero are left out.

        Misuse: a single part is returned as it is, so it must have no zeros itself; none made here has.
        """
        ...

    def restricted(self, counted: CountedT, rows: RowsT) -> CountedT:
        """What is counted of these rows."""
        ...

    def excluded(self, counted: CountedT, view: VersionT | ViewT) -> CountedT:
        """What is counted of rows outside the view."""
        ...

    def tally(self, relation: str) -> TallyT:
        """A map from facts to numbers, all zero."""
        ...

    def numbered(self, relation: str, parts: Sequence[CountedT], version: VersionT) -> TallyT:
        """A map with the sums of these numbers, which may share its keys with a version that is kept as well.

        Misuse: all rows of the parts must be in the version.
        """
        ...

    def positive(self, tally: TallyT, rows: RowsT) -> RowsT:
        """The rows whose number is above zero."""
        ...

    def zero(self, tally: TallyT, rows: RowsT) -> RowsT:
        """The rows whose number is zero. Misuse: with negative numbers, this is not what `positive` leaves."""
        ...

    def lookup(self, tally: TallyT, rows: RowsT) -> CountedT:
        """The rows with their numbers; those whose number is zero are left out."""
        ...

    def times(self, rows: RowsT, number: int) -> CountedT:
        """Rows with the same number each. Misuse: not zero."""
        ...

    def once(self, rows: RowsT) -> CountedT:
        """Rows that count one each."""
        ...

    # ------------------------------------------------------------------------------------- aggregates in heads

    def improvement(self, relation: str, rows: RowsT, version: VersionT) -> tuple[RowsT, RowsT]:
        """The best rows that beat what `version` has for their groups, and the rows they replace.

        Misuse: only for a relation that keeps the `min` or `max`, and `version` has one row per group at most.
        """
        ...

    def groups(self, relation: str, rows: RowsT) -> RowsT:
        """One row for each group of a relation with an aggregate; every row, of any other relation.

        Misuse: which row of a group it is says nothing.
        """
        ...

    def group_rows(self, relation: str, groups: RowsT, version: VersionT) -> RowsT:
        """The rows of `version` in these groups; without an aggregate, those that are among them.

        Misuse: `groups` has one row per group, as `groups` makes them.
        """
        ...

    def totals(self, relation: str, counted: CountedT) -> RowsT:
        """One row per group. Misuse: only for a relation that keeps the `sum` or `count`, and numbers above zero."""
        ...

    # ----------------------------------------------------------------------------------------------- neighbors

    def neighbors(self, order: Neighbors, rows: RowsT) -> RowsT:
        """All neighbors of rows of `order.source`, by sorting them. Misuse: changes are followed by an `ordering`."""
        ...


class ModuleAlgebra(
    Algebra[RowsT, VersionT, ViewT, CountedT, TallyT, ExecutableT],
    Protocol[RowsT, VersionT, ViewT, CountedT, TallyT, ExecutableT],
):
    """What modules need besides: they look at values, one by one, in one process."""

    def columns(self, rows: RowsT) -> Sequence[Column]:
        """The columns of rows, encoded. Misuse: nobody writes to them."""
        ...

    def collect(self, relation: str, blocks: Iterable[Sequence[Column]], size: int | None) -> RowsT:
        """The distinct rows of blocks of encoded columns; `size` is how many rows they have, if that is known.

        Misuse: blocks with more rows than `size` in all. The blocks are read once, and kept by nobody.
        """
        ...

    def chosen(self, rows: RowsT, mask: Mask) -> RowsT:
        """The rows where the mask is set. Misuse: the mask is in the order of `columns`, and as long."""
        ...

    def standing(self, view: ViewT) -> VersionT:
        """The rows of a view as a version of their own. Costs as much as there are: for checks."""
        ...

    def ordering(self, order: Neighbors, rows: RowsT) -> OrderingOf[RowsT]:
        """Rows of `order.source`, kept sorted from epoch to epoch."""
        ...


class PathAlgebra(Protocol[RowsT, VersionT_co, ViewT_contra]):
    """What modules need of a backend whose rows are not in this process: it searches for paths by itself."""

    def paths(self, heads: tuple[str, ...], automaton: Automaton | None) -> PathsOf[RowsT]:
        """No edges yet. Without an automaton the one head is symmetric and transitive."""
        ...

    def standing(self, view: ViewT_contra) -> VersionT_co:
        """As for `ModuleAlgebra`."""
        ...


class CycleAlgebra(
    Algebra[RowsT, VersionT, ViewT, CountedT, TallyT, ExecutableT],
    Protocol[RowsT, VersionT, ViewT, CountedT, TallyT, ExecutableT],
):
    """What the cycles of active rules need besides: the history of every fact."""

    def chain(self, relation: str, rows: RowsT) -> ChainOf[RowsT, VersionT, ViewT, CountedT]:
        """The chains of a relation before the first cycle, when it has these rows."""
        ...

    def digest(self, relation: str, rows: RowsT) -> int:
        """A number that tells sets of facts apart: that of a symmetric difference is the exclusive or of the two.

        Misuse: equal numbers are no proof that the sets are equal.
        """
        ...


# The family that nobody can look into: what strategies are written with.
Version: TypeAlias = VersionOf[Rows]
View: TypeAlias = ViewOf[Version]
Counted: TypeAlias = CountedOf[Rows]
Tally: TypeAlias = TallyOf[Counted]
Walk: TypeAlias = WalkOf[Rows, Counted]
Reranked: TypeAlias = RerankedOf[Rows, Counted]
Grown: TypeAlias = GrownOf[Rows, Counted]
Ordering: TypeAlias = OrderingOf[Rows]
Paths: TypeAlias = PathsOf[Rows]
ColumnValues: TypeAlias = ColumnValuesOf[Rows, Version]
Chain: TypeAlias = ChainOf[Rows, Version, View, Counted]
Views: TypeAlias = Mapping[tuple[str, Read], View | Tally]
Backend: TypeAlias = Algebra[Rows, Version, View, Counted, Tally, Executable]
ModuleBackend: TypeAlias = ModuleAlgebra[Rows, Version, View, Counted, Tally, Executable]
CycleBackend: TypeAlias = CycleAlgebra[Rows, Version, View, Counted, Tally, Executable]


def sealed(backend: Algebra[Any, Any, Any, Any, Any, Any]) -> Backend:
    """A backend as strategies see it. It is trusted to get back only what it made."""
    return backend


def sealed_for_cycles(backend: CycleAlgebra[Any, Any, Any, Any, Any, Any]) -> CycleBackend:
    """The same for the cycles of active rules."""
    return backend
