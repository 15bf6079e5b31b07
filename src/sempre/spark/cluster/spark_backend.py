"""The algebra of batches on DataFrames."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from sempre.analysis.model import CheckedProgram, Relation
from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, Span
from sempre.kernel.values import Values
from sempre.limits import DEFAULTS, Limits
from sempre.plan.backend import CLUSTER, Algebra, Column, CountedOf, Executable, Look, Rows, TallyOf, VersionOf, ViewOf
from sempre.plan.ops import (
    Absent,
    LowerRank,
    Neighbors,
    Order,
    Plan,
    Probe,
    RankOf,
    Read,
    Reduce,
    Step,
    decided_plan,
    probes,
)
from sempre.spark.cluster import aggregates
from sempre.spark.cluster.codes import without as subtracted
from sempre.spark.cluster.column_types import WEIGHT, kinds_of, names_of, table_of
from sempre.spark.cluster.crossing import checked
from sempre.spark.cluster.neighbors import neighbors
from sempre.spark.cluster.plans import NOTHING_BOUND, BoundFrame, PlanPrefix, RuleFrames, cuts
from sempre.spark.cluster.scratch import Scratch, WrittenRows
from sempre.spark.cluster.tables import (
    FrameTally,
    Table,
    TableContext,
    Version,
    Views,
    guessed,
    hinted,
    summed,
    union_frames,
    version_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class FramePlan:
    """A plan, and what it reads."""

    plan: Plan
    needs: tuple[tuple[str, Read], ...]  # without any of these it gives nothing
    reads: tuple[tuple[str, Read], ...]


class Sizes:
    """Sizes, and numbers of distinct values, estimated from a sample of the largest part."""

    def __init__(self, state: Mapping[str, Version], limits: Limits) -> None:
        self.limits = limits
        self._state = state

    def size(self, relation: str) -> int:
        return len(self._state[relation])

    def distinct(self, relation: str, column: int) -> int:
        version = self._state[relation]
        found = None if version.largest is None else version.largest.distinct(column)
        return found or max(1, int(len(version) ** 0.8))

    def crowd(self, relation: str, column: int) -> float:
        return 0.0  # the rows of a DataFrame are not asked which lookup finds less

    def matching(self, relation: str, columns: tuple[int, ...]) -> None:
        return None


class SparkBackend:
    """Runs plans as DataFrames of a session that somebody else owns."""

    place = CLUSTER

    def __init__(self, program: CheckedProgram, spark: SparkSession, values: Values, limits: Limits = DEFAULTS) -> None:
        self.program = program
        self.values = values
        self.instances = 0
        self.scratch = Scratch(spark, limits)
        self._store = TableContext(self.scratch, values, program)

    @property
    def limits(self) -> Limits:
        """The thresholds of the database."""
        return self.scratch.limits

    def close(self) -> None:
        """Remove whatever is on scratch."""
        self.scratch.close()

    @property
    def jobs(self) -> int:
        """How many Spark jobs there have been."""
        return self.scratch.jobs.number

    def announce(self, doing: str) -> None:
        """What the jobs to come are for."""
        self.scratch.jobs.doing = doing

    def finish(self) -> None:
        """The end of an epoch: what is kept is settled."""
        self._store.finish()

    def keep(self) -> None:
        """Nothing here is numbered: tables hold plain values."""

    def forget(self) -> None:
        """As `keep`."""

    def for_modules(self) -> None:
        """None: a module looks at values one by one, in one process."""

    def for_paths(self) -> None:
        """None: tasks close whole strata."""

    def settle(self, rows: Iterable[Table]) -> None:
        self._store.settle(rows)

    # ------------------------------------------------------------------------------------------------ relations

    def _empty(self, relation: str, weighted: bool = False) -> Table:
        declared = self.program.relations[relation]
        return self._store.empty(kinds_of(declared, self.program.types), declared.arity, weighted)

    def empty(self, relation: str) -> Version:
        return Version(self._empty(relation), (), 0)

    def fitted(self, relation: str, version: Version) -> Version:
        return version

    def receive(self, relation: str, columns: Sequence[Column], size: int) -> Table:
        """Distinct rows from columns of codes, as the driver has them."""
        declared = self.program.relations[relation]
        if not size:
            return self._empty(relation)
        kinds = kinds_of(declared, self.program.types)
        return self._store.held(table_of(self.values, columns, size, kinds, declared.arity), kinds, declared.arity)

    def landing(self) -> Path | None:
        """A new folder for the files of a table."""
        return self.scratch.landing()

    @contextmanager
    def files_of(self, table: Table) -> Iterator[Path]:
        """A folder with the files of a table that is settled; a copy of them where this process cannot open them."""
        if self.scratch.is_here:
            yield Path(table.path)
            return
        with tempfile.TemporaryDirectory(prefix="sempre-") as folder:
            pq.write_table(table.arrow(), Path(folder) / "part-0.parquet", compression="snappy")
            yield Path(folder)

    def opened(self, relation: str, path: PurePath, rows: int) -> Table:
        """The rows of a relation in a folder that somebody else keeps."""
        declared = self.program.relations[relation]
        return self._store.opened(Path(path), rows, kinds_of(declared, self.program.types), declared.arity)

    def assembled(self, relation: str, parts: Sequence[tuple[Table, Sequence[Table]]], rows: int) -> Version:
        """A version of so many rows: disjoint parts, each without what was taken out of it."""
        return Version(self._empty(relation), tuple((table, tuple(gone)) for table, gone in parts), rows)

    def take(self, relation: Relation, chosen: DataFrame, span: Span = NOWHERE) -> tuple[Table, int]:
        """The rows of a DataFrame with the columns of a relation, which stay where they are, and how many it has."""
        types = self.program.types
        self.scratch.jobs.count()
        fit, size = self.scratch.jobs.one(lambda: checked(self.scratch, chosen, relation, types, span))
        empty = self._empty(relation.name)
        return self._store.lazy(empty, lambda: fit.distinct(), (), shared=True, guess=size), size

    def written(self, relation: str, path: PurePath, size: int) -> Table:
        """Rows that tasks of ours wrote: distinct, as plain values."""
        rows = self._empty(relation)
        rows.keep(WrittenRows(path, size))
        return rows

    def version(self, rows: Table, orders: Iterable[Order] = ()) -> Version:
        return Version.of(rows)

    def view(self, *versions: Version, without: Version | None = None) -> Version:
        first, *others = versions
        if without is not None and len(without):
            first = first.without(without)
        return first.plus(*others) if others else first

    def statistics(self, state: Mapping[str, Version]) -> Sizes:
        return Sizes(state, self.limits)

    # ---------------------------------------------------------------------------------------------------- plans

    def prepare(self, plan: Plan) -> FramePlan:
        plan = decided_plan(plan)
        needs = tuple((step.relation, step.read) for step in plan.steps if isinstance(step, Probe))
        reads = {(probe.relation, probe.read) for probe in probes(plan.steps)} | set(_others(plan.steps))
        return FramePlan(plan, needs, tuple(reads))

    def _heads(
        self, relation: str, plans: Sequence[FramePlan], views: Views, counted: bool
    ) -> tuple[list[Callable[[], DataFrame | None]], list[Table], int]:
        """For each plan that may give something, how to make its facts; the tables that are read; a guess how many."""
        makers: list[Callable[[], DataFrame | None]] = []
        parents: list[Table] = []
        guess = 0
        kinds = kinds_of(self.program.relations[relation], self.program.types)
        for prepared in plans:
            if any(not len(version_of(views, key)) for key in prepared.needs):
                continue
            plan = prepared.plan
            seen = {key: views[key] for key in prepared.reads if key in views}
            frames = RuleFrames(self.scratch, self.program, plan.rule, seen, counted)
            mine = [
                t for view in seen.values() for t in (view.parts if isinstance(view, FrameTally) else view.tables())
            ]
            begun: PlanPrefix | None = None
            if cuts(plan.steps):
                begun, mine = self._begin(frames, plan, mine)
                if begun is None:
                    continue
            parents += mine
            makers.append(partial(frames.head, plan, kinds, begun))
            guess += self.limits.fanout * min((len(version_of(views, key)) for key in prepared.needs), default=1)
        return makers, parents, guess

    def _begin(self, frames: RuleFrames, plan: Plan, parents: list[Table]) -> tuple[PlanPrefix | None, list[Table]]:
        """Take the first steps of a plan that would read its bindings too often; None if they give nothing.

        Returns also the tables that are read from there on.
        """
        self._store.settle(table for parent in parents for table in parent.pending())
        begun = PlanPrefix(NOTHING_BOUND, 0)
        for at in cuts(plan.steps):
            bound = frames.run(plan.steps[begun.steps : at], begun.bound, frozenset())
            if bound is None:
                return None, []
            columns = frames.columns(bound)
            kinds = tuple(form for _, form in columns)
            df = frames.frame(bound).select(*(name for name, _ in columns))
            make = partial(df.toDF, *names_of(kinds))
            table = Table(self._store, kinds, len(kinds), make=make, guess=bound.most)
            self._store.settle([table])
            if not len(table):
                return None, []
            parents = [*parents, table]
            df = table.frame().toDF(*(name for name, _ in columns))
            begun = PlanPrefix(BoundFrame(df, bound.vars, len(table), bound.source), at)
        return begun, parents

    def derive(self, relation: str, plans: Sequence[FramePlan], views: Views, known: Version) -> Table:
        makers, parents, guess = self._heads(relation, plans, views, counted=False)
        empty = self._empty(relation)
        if not makers:
            return empty
        names = empty.names

        def derived() -> DataFrame:
            found = [df for df in (maker() for maker in makers) if df is not None]
            return union_frames(found).distinct() if found else empty.frame()

        if is_small(guess, names, self.limits) and not is_small(len(known), names, self.limits):
            # Found first, so that what is known need not be shuffled to see what is new.
            found = self._store.lazy(empty, derived, parents, shared=True, guess=guess)
            return self._store.lazy(
                empty, lambda: rows_not_in(found, known), [found, *known.tables()], shared=True, guess=guess
            )
        return self._store.lazy(
            empty, lambda: frame_without(derived(), known, names), [*parents, *known.tables()], shared=True, guess=guess
        )

    def count(self, relation: str, plans: Sequence[FramePlan], views: Views) -> Table:
        makers, parents, guess = self._heads(relation, plans, views, counted=True)
        empty = self._empty(relation, weighted=True)
        if not makers:
            return empty

        def make() -> DataFrame:
            from pyspark.sql import functions as fn

            found = [df for df in (maker() for maker in makers) if df is not None]
            if not found:
                return empty.frame()
            return union_frames(found).groupBy(*empty.names).agg(fn.count(fn.lit(1)).alias(WEIGHT))

        return self._store.lazy(empty, make, parents, shared=True, guess=guess)

    def column_values(self, version: Version, column: int) -> None:
        """None: no atom is narrowed here."""

    def walk(
        self,
        front: Mapping[str, Table],
        plans: Sequence[FramePlan],
        views: Views,
        present: Mapping[str, Version],
        deleting: Mapping[str, FrameTally] | None,
    ) -> None:
        """None: one row at a time is not for DataFrames."""

    def grow(
        self,
        front: Mapping[str, Table],
        plans: Sequence[FramePlan],
        views: Views,
        present: Mapping[str, Version],
    ) -> None:
        """None, as for `walk`."""

    def rerank(
        self,
        front: Mapping[str, Table],
        forward: tuple[Sequence[FramePlan], Views],
        backward: tuple[Sequence[FramePlan], Views],
        grounding: tuple[Sequence[FramePlan], Views],
        present: Mapping[str, Version],
        explicit: Mapping[str, Version],
        ranks: Mapping[str, FrameTally],
        tight: Mapping[str, FrameTally],
    ) -> None:
        """None, as for `walk`."""

    # ----------------------------------------------------------------------------------------------------- sets

    def union(self, sets: Sequence[Table]) -> Table:
        some = [rows for rows in sets if not rows.known_empty] or list(sets[:1])
        if len(some) == 1:
            return some[0]
        return self._store.lazy(
            some[0], lambda: union_frames([rows.frame() for rows in some]).distinct(), some, guess=guessed(some)
        )

    def difference(self, rows: Table, version: Version) -> Table:
        if rows.known_empty or not len(version):
            return rows
        found = None if rows.weighted else version.present(rows, self.limits.present_rows)
        if found is not None and rows.here is not None:
            return self._store.held(subtracted(rows.here, [found], rows.kinds, rows.arity), rows.kinds, rows.arity)
        return self._store.lazy(
            rows,
            lambda: rows_not_in(rows, version),
            [rows, *version.tables()],
            guess=rows.guess,
        )

    def intersection(self, rows: Table, version: Version) -> Table:
        if rows.known_empty or not len(version):
            return self._store.empty(rows.kinds, rows.arity)
        found = None if rows.weighted else version.present(rows, self.limits.present_rows)
        if found is not None:
            return self._store.held(found, rows.kinds, rows.arity)
        return self._store.lazy(
            rows,
            lambda: rows_in(rows, version),
            [rows, *version.tables()],
            guess=rows.guess,
        )

    # -------------------------------------------------------------------------------------------------- counts

    def total(self, relation: str, parts: Sequence[Table]) -> Table:
        some = [part for part in parts if not part.known_empty]
        if not some:
            return self._empty(relation, weighted=True)
        if len(some) == 1:
            return some[0]
        names = some[0].names
        return self._store.lazy(
            some[0], lambda: summed([part.frame() for part in some], names), some, guess=guessed(some)
        )

    def restricted(self, counted: Table, rows: Table) -> Table:
        if counted.known_empty or rows.known_empty:
            return self._store.empty(counted.kinds, counted.arity, weighted=True)
        return self._store.lazy(
            counted,
            lambda: counted.frame().join(broadcast_if_small(rows), on=counted.names, how="left_semi"),
            [counted, rows],
            guess=rows.guess,
        )

    def excluded(self, counted: Table, view: Version) -> Table:
        return self.difference(counted, view)

    def watch(self, look: Look | None) -> None:
        """A job is not stopped in its middle: rounds are the moments to look."""

    def supports(self, relation: str, plans: Sequence[FramePlan], views: Views, known: Version) -> Table:
        return self.excluded(self.count(relation, plans, views), known)

    def tally(self, relation: str) -> FrameTally:
        return FrameTally(self._empty(relation))

    def numbered(self, relation: str, parts: Sequence[Table], version: Version) -> FrameTally:
        return FrameTally(self._empty(relation)).adding(self.total(relation, parts))

    def _numbered(self, tally: FrameTally, rows: Table) -> DataFrame:
        """The rows with their numbers; those whose number is zero are left out."""
        counted = self._store.scan(tally.parts)
        return summed([counted.join(broadcast_if_small(rows), on=rows.names, how="left_semi")], rows.names)

    def positive(self, tally: FrameTally, rows: Table) -> Table:
        if rows.known_empty or not tally.parts:
            return self._store.empty(rows.kinds, rows.arity)

        def make() -> DataFrame:
            from pyspark.sql import functions as fn

            return self._numbered(tally, rows).filter(fn.col(WEIGHT) > 0).select(*rows.names)

        return self._store.lazy(rows, make, [rows, *tally.parts], guess=rows.guess)

    def zero(self, tally: FrameTally, rows: Table) -> Table:
        if rows.known_empty or not tally.parts:
            return rows

        def make() -> DataFrame:
            counted = self._numbered(tally, rows).select(*rows.names)
            return rows.frame().join(counted, on=rows.names, how="left_anti")

        return self._store.lazy(rows, make, [rows, *tally.parts], guess=rows.guess)

    def lookup(self, tally: FrameTally, rows: Table) -> Table:
        if rows.known_empty or not tally.parts:
            return self._store.empty(rows.kinds, rows.arity, weighted=True)
        return self._store.lazy(
            rows, lambda: self._numbered(tally, rows), [rows, *tally.parts], weighted=True, guess=rows.guess
        )

    def times(self, rows: Table, number: int) -> Table:
        if rows.known_empty:
            return self._store.empty(rows.kinds, rows.arity, weighted=True)

        def make() -> DataFrame:
            from pyspark.sql import functions as fn

            return rows.frame().withColumn(WEIGHT, fn.lit(number).cast("bigint"))

        counted = self._store.lazy(rows, make, [rows], weighted=True, guess=rows.guess)
        counted._size = rows._size
        return counted

    def once(self, rows: Table) -> Table:
        return self.times(rows, 1)

    # ------------------------------------------------------------------------------------------------- neighbors

    def neighbors(self, order: Neighbors, rows: Table) -> Table:
        self.settle([rows])
        if not len(rows):
            return self._empty(order.relation)
        return self.written(order.relation, *neighbors(self.scratch, order, rows.frame(), rows.kinds))

    # -------------------------------------------------------------------------------------- aggregates in heads

    def improvement(self, relation: str, rows: Table, version: Version) -> tuple[Table, Table]:
        declared = self.program.relations[relation]
        nothing = self._empty(relation)
        if rows.known_empty:
            return rows, nothing
        guess = rows.guess
        best = self._store.lazy(rows, lambda: aggregates.best(rows.frame(), declared), [rows], shared=True, guess=guess)
        if not len(version):
            return best, nothing
        held = self._store.lazy(
            rows,
            lambda: aggregates.in_groups(version.frame(), best.frame(), declared),
            [best, *version.tables()],
            shared=True,
            guess=guess,
        )
        replaced = self._store.lazy(
            rows,
            lambda: aggregates.beaten_rows(held.frame(), best.frame(), declared, better=True),
            [best, held],
            guess=guess,
        )

        def make() -> DataFrame:
            kept = aggregates.beaten_rows(held.frame(), best.frame(), declared, better=False)
            return best.frame().join(aggregates.in_groups(best.frame(), kept, declared), on=best.names, how="left_anti")

        better = self._store.lazy(rows, make, [best, held], guess=guess)
        self.settle([better, replaced])
        return better, replaced

    def groups(self, relation: str, rows: Table) -> Table:
        declared = self.program.relations[relation]
        if declared.aggregate is None or rows.known_empty:
            return rows
        return self._store.lazy(
            rows, lambda: aggregates.groups(rows.frame(), declared), [rows], shared=True, guess=rows.guess
        )

    def group_rows(self, relation: str, groups: Table, version: Version) -> Table:
        declared = self.program.relations[relation]
        if declared.aggregate is None:
            return self.intersection(groups, version)
        if groups.known_empty or not len(version):
            return self._empty(relation)
        return self._store.lazy(
            groups,
            lambda: aggregates.in_groups(version.frame(), groups.frame(), declared),
            [groups, *version.tables()],
            guess=groups.guess,
        )

    def totals(self, relation: str, counted: Table) -> Table:
        declared = self.program.relations[relation]
        if counted.known_empty:
            return self._empty(relation)
        return self._store.lazy(
            counted,
            lambda: aggregates.totals(self.scratch, counted.frame(), declared),
            [counted],
            weighted=False,
            shared=True,
            guess=counted.guess,
        )


def is_small(size: int | None, names: Sequence[str], limits: Limits) -> bool:
    """Whether so many rows can be sent to every task."""
    return size is not None and size * len(names) <= limits.broadcast_values


def broadcast_if_small(rows: Table) -> DataFrame:
    """A DataFrame of rows that something else is looked up in."""
    return rows.frame().hint("broadcast") if is_small(rows.guess, rows.names, rows.store.limits) else rows.frame()


def rows_in(rows: Table, version: Version) -> DataFrame:
    """The rows that a version has."""
    limits, names = rows.store.limits, rows.names
    if is_small(rows.guess, names, limits) and not is_small(len(version), names, limits) and not rows.weighted:
        return version.frame().join(rows.frame().select(*rows.names).hint("broadcast"), on=rows.names, how="left_semi")
    return rows.frame().join(version.frame(), on=rows.names, how="left_semi")


def rows_not_in(rows: Table, version: Version) -> DataFrame:
    """The rows that a version does not have."""
    names = rows.names
    limits = rows.store.limits
    if not (rows.is_settled and is_small(len(rows), names, limits)) or is_small(len(version), names, limits):
        return frame_without(rows.frame(), version, names)
    # Spark can look a few rows up in many without moving the many, but not find those that are missing.
    present = version.frame().join(rows.frame().select(*names).hint("broadcast"), on=names, how="left_semi")
    return rows.frame().join(present.hint("broadcast"), on=names, how="left_anti")


def frame_without(df: DataFrame, version: Version, names: list[str]) -> DataFrame:
    """The rows of a DataFrame that a version does not have."""
    if not len(version):
        return df
    return df.join(
        hinted(version.frame(), len(version) * len(names), version.like.store.limits), on=names, how="left_anti"
    )


def _others(steps: tuple[Step, ...]) -> list[tuple[str, Read]]:
    """What steps read besides what they probe."""
    found: list[tuple[str, Read]] = []
    for step in steps:
        if isinstance(step, RankOf | LowerRank):
            found.append((step.atom.relation, Read.RANK))
        for probe in probes((step,)) if isinstance(step, Absent | Reduce) else ():
            found += [(probe.relation, Read.HERE), (probe.relation, Read.THERE)]
    return found


if TYPE_CHECKING:
    # What this backend can do, and that its types are of one family. It has neither modules nor cycles.
    SparkAlgebra = Algebra[Table, Version, Version, Table, FrameTally, FramePlan]
    _backend: type[SparkAlgebra] = SparkBackend
    _rows: type[Rows] = Table
    _version: type[VersionOf[Table]] = Version
    _view: type[ViewOf[Version]] = Version
    _counted: type[CountedOf[Table]] = Table
    _tally: type[TallyOf[Table]] = FrameTally
    _executable: type[Executable] = FramePlan
