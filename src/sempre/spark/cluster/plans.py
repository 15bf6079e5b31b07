"""Plans as DataFrames of bindings: a column per variable, a row per partial instance.

Counting, equal rows stand for different instances, so every join keeps multiplicities; deriving, they do not matter,
and what binds nothing only filters. Names of columns are numbers: case never matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from sempre.analysis.model import CheckedProgram, Const, Expr, Kind, Match, NormalRule, Var
from sempre.data import dataclass
from sempre.plan.ops import (
    Absent,
    Assign,
    Distinct,
    Filter,
    LowerRank,
    Plan,
    Probe,
    RankOf,
    Read,
    Reduce,
    Step,
    TakeApart,
)
from sempre.spark.cluster import nested_bodies
from sempre.spark.cluster.column_types import Form, Kinds, RecordShape, kinds_in, kinds_of, names_of, plain
from sempre.spark.cluster.compute import (
    KernelSteps,
    column_of,
    condition_of,
    is_native,
    looked_into,
    spark_schema,
)  # fmt: skip
from sempre.spark.cluster.scratch import Scratch
from sempre.spark.cluster.spread import PIECE, spread
from sempre.spark.cluster.tables import FrameTally, Version, Views, hinted, version_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class BoundFrame:
    """Bindings so far: the DataFrame (none: the one row that binds nothing), and what is known of it."""

    df: DataFrame | None
    vars: frozenset[str]
    most: int | None  # at most this many rows, if that is known
    source: Mapping[str, tuple[Version, int]] = field(default_factory=dict)  # where a variable's values come from


NOTHING_BOUND = BoundFrame(None, frozenset(), 1)


@dataclass(frozen=True, slots=True)
class PlanPrefix:
    """What the first so many steps of a plan gave."""

    bound: BoundFrame
    steps: int


def cuts(steps: Sequence[Step]) -> list[int]:
    """Where a plan should be cut: before every nested step but the first.

    A nested step reads the bindings twice or more, to find what it has to look for and to join with what it found; the
    next one would read all of that again as often.
    """
    deep = [at for at, step in enumerate(steps) if isinstance(step, Reduce) or _is_deep(step)]
    return deep[1:]


def _is_deep(step: Step) -> bool:
    return isinstance(step, Absent) and (len(step.steps) > 1 or bool(step.steps_there))


class RuleFrames:
    """Runs the plans of one rule over some views."""

    def __init__(
        self, scratch: Scratch, program: CheckedProgram, rule: NormalRule, views: Views, counted: bool
    ) -> None:
        self.scratch = scratch
        self.views = views
        self.counted = counted
        self.rule = rule.number
        self.kinds: dict[str, Form] = {**kinds_in(rule, program.types), "#rank": Kind.NUMBER}
        # Plans that start from facts of the head name the columns that the rule computes.
        relation = program.relations[rule.relation]
        self.kinds |= {f"#head{at}": form for at, form in enumerate(kinds_of(relation, program.types))}
        # Instances are counted whatever is under `count`, which need not be a number as the count is.
        aggregate, column = relation.aggregate or ("", 0)
        self._uncounted = f"c{column}" if aggregate == "count" else ""
        self._numbers: dict[str, str] = {}

    def name(self, var: str) -> str:
        """The column of a variable."""
        return self._numbers.setdefault(var, f"v{len(self._numbers)}")

    @property
    def names(self) -> Mapping[str, str]:
        for var in self.kinds:
            self.name(var)
        return self._numbers

    # ---------------------------------------------------------------------------------------------------- heads

    def head(self, plan: Plan, kinds: Kinds, begun: PlanPrefix | None = None) -> DataFrame | None:
        """The facts that the plan gives, with repetitions; None if it is known to give none.

        `begun` is what its first steps gave, if they have been taken.
        """
        from pyspark.sql import functions as fn

        begun = begun or PlanPrefix(NOTHING_BOUND, 0)
        bound = self.run(plan.steps[begun.steps :], begun.bound, frozenset())
        if bound is None:
            return None
        if not plan.head:
            return self.frame(bound).select(fn.lit(0).cast("bigint").alias("c0"))
        df = self.with_results(bound, list(zip(plan.head, names_of(kinds), kinds, strict=True)))
        is_head = plan.pivot is None or not plan.pivot.to_body
        return df.withColumn(self._uncounted, fn.lit(0).cast("bigint")) if self._uncounted and is_head else df

    def with_results(
        self, bound: BoundFrame, results: Sequence[tuple[Expr, str, Form]], keep: tuple[str, ...] = ()
    ) -> DataFrame:
        """The values of expressions, with column and form each, after those of the variables to keep."""
        df = self.frame(bound)
        found = [(column_of(expr, self.names), name) for expr, name, _ in results]
        kept = [self.name(var) for var in keep]
        if all(column is not None for column, _ in found):
            return df.select(*kept, *(column.alias(name) for column, name in found if column is not None))
        return self._mapped(bound, (), keep, results)

    def _mapped(
        self, bound: BoundFrame, steps: tuple[Step, ...], kept: Iterable[str], results: Sequence[tuple[Expr, str, Form]]
    ) -> DataFrame:
        """What the kernel makes of the bindings: the variables to keep, then the values of expressions."""
        read = looked_into(steps, [expr for expr, _, _ in results if not isinstance(expr, Var)])
        # The text of a record that nobody looks into is as good as a symbol.
        passed = {var for var in bound.vars - read if isinstance(self.kinds[var], RecordShape)}
        forms = self.kinds | dict.fromkeys(passed, Kind.SYMBOL)

        def columns(names: Iterable[str]) -> tuple[tuple[str, str, Form], ...]:
            return tuple((var, self.name(var), forms[var]) for var in names)

        going = tuple((e, name, forms[e.name] if isinstance(e, Var) else form) for e, name, form in results)
        run = KernelSteps(self.rule, steps, columns(sorted(bound.vars)), columns(kept), going)
        return self.scratch.mapped(self.frame(bound), run, spark_schema(run.columns))

    def columns(self, bound: BoundFrame) -> list[tuple[str, Form]]:
        """The columns of bindings."""
        return [(self.name(var), self.kinds[var]) for var in sorted(bound.vars)] or [("one", Kind.NUMBER)]

    def frame(self, bound: BoundFrame) -> DataFrame:
        """The bindings, with a column at least."""
        from pyspark.sql import functions as fn

        if bound.df is None:
            return self.scratch.spark.range(1).select(fn.lit(0).cast("bigint").alias("one"))
        return bound.df

    # ---------------------------------------------------------------------------------------------------- steps

    def run(self, steps: tuple[Step, ...], bound: BoundFrame, carried: frozenset[str]) -> BoundFrame | None:
        """What the steps make of the bindings; None if nothing. `carried` variables stay whatever happens."""
        at = 0
        while at < len(steps):
            step = steps[at]
            stop = at + 1
            if isinstance(step, Filter | Assign | TakeApart) and not is_native(step, self.names):
                while stop < len(steps) and isinstance(steps[stop], Filter | Assign | TakeApart):
                    stop += 1
                result: BoundFrame | None = self._by_kernel(steps[at:stop], bound, steps[stop - 1].live | carried)
            else:
                result = self._step(step, bound, carried)
            if result is None:
                return None
            bound, at = result, stop
        return bound

    def _step(self, step: Step, bound: BoundFrame, carried: frozenset[str]) -> BoundFrame | None:
        live = step.live | carried
        if isinstance(step, Probe):
            return self._probe(step, bound, live)
        if isinstance(step, Filter):
            condition = condition_of(step.test, self.names)
            assert condition is not None
            return self.only(replace(bound, df=self.frame(bound).filter(condition)), live)
        if isinstance(step, Assign):
            column = column_of(step.expr, self.names)
            assert column is not None
            df = self.frame(bound).withColumn(self.name(step.var.name), column)
            return replace(bound, df=df, vars=bound.vars | {step.var.name})
        if isinstance(step, Absent):
            return nested_bodies.absent(self, step, bound, carried)
        if isinstance(step, Reduce):
            return nested_bodies.fold(self, step, bound, carried)
        if isinstance(step, Distinct):
            return replace(bound, df=self.frame(bound).distinct())
        if isinstance(step, RankOf):
            return self._rank(step.atom, step.var.name, bound)
        assert isinstance(step, LowerRank)
        ranked = self._rank(step.atom, "#lower", bound)
        from pyspark.sql import functions as fn

        lower = fn.col(self.name("#lower")) < fn.col(self.name(step.than.name))
        return replace(bound, df=self.frame(ranked).filter(lower).drop(self.name("#lower")))

    def only(self, bound: BoundFrame, live: frozenset[str]) -> BoundFrame:
        """The bindings of live variables alone."""
        from pyspark.sql import functions as fn

        kept = bound.vars & live
        if kept == bound.vars and kept:
            return bound
        columns = [self.name(var) for var in sorted(kept)]
        df = (
            self.frame(bound).select(*columns)
            if columns
            else self.frame(bound).select(fn.lit(0).cast("bigint").alias("one"))
        )
        return replace(bound, df=df, vars=kept)

    def _by_kernel(self, steps: tuple[Step, ...], bound: BoundFrame, live: frozenset[str]) -> BoundFrame:
        new = {step.var.name for step in steps if isinstance(step, Assign)}
        new |= {var for step in steps if isinstance(step, TakeApart) for var in step.binds}
        kept = (bound.vars | new) & live
        one = () if kept else ((Const(0, Kind.NUMBER), "one", Kind.NUMBER),)
        return BoundFrame(self._mapped(bound, steps, sorted(kept), one), frozenset(kept), bound.most, bound.source)

    # ------------------------------------------------------------------------------------------------- probing

    def looked_up(self, step: Probe, view: Version, live: frozenset[str]) -> tuple[DataFrame, list[str], list[str]]:
        """What a probe joins with, its columns named like variables; those to join on, and those that it binds."""
        from pyspark.sql import functions as fn

        df = view.frame()
        keys: dict[str, str] = {}
        for at, arg in zip(step.prefix, step.lookup, strict=True):
            if isinstance(arg, Const):
                df = df.filter(fn.col(f"c{at}") == fn.lit(plain(arg)))
            elif arg.name in keys:
                df = df.filter(fn.col(f"c{at}") == fn.col(keys[arg.name]))
            else:
                keys[arg.name] = f"c{at}"
        for left, right in step.same:
            df = df.filter(fn.col(f"c{left}") == fn.col(f"c{right}"))
        binds = {var.name: f"c{at}" for at, var in step.binds if var.name in live}
        columns = [fn.col(column).alias(self.name(var)) for var, column in (keys | binds).items()]
        df = df.select(*columns) if columns else df.select(fn.lit(0).alias("two"))
        return df, [self.name(var) for var in keys], list(binds)

    def _probe(self, step: Probe, bound: BoundFrame, live: frozenset[str]) -> BoundFrame | None:
        from pyspark.sql import functions as fn

        view = version_of(self.views, (step.relation, step.read))
        if not len(view):
            return None
        right, keys, binds = self.looked_up(step, view, live)
        exact = len(step.lookup) == len(step.order)
        source = {**{var.name: (view, at) for at, var in step.binds}, **bound.source}
        if bound.df is None:
            return self.only(BoundFrame(right, frozenset(binds), len(view), source), live)
        width = max(1, len(keys) + len(binds))
        limits = self.scratch.limits
        small_right = len(view) * width <= limits.broadcast_values
        small_left = bound.most is not None and bound.most * max(1, len(bound.vars)) <= limits.broadcast_values
        left = bound.df
        multiplies = bool(binds) or (self.counted and not exact)
        if not keys:
            other = right if multiplies else right.limit(1)
            joined = left.crossJoin(hinted(other, len(view) * width, limits, hashed=False)).drop("two")
        elif small_left and not small_right and (multiplies or exact):
            joined = fn.broadcast(left).join(right, on=keys, how="inner")
        else:
            how = "inner" if multiplies else "left_semi"
            if multiplies and not small_right:
                left, right, keys = self._spread(step, view, bound, right)
            joined = left.join(hinted(right, len(view) * width, limits), on=keys, how=how).drop(PIECE)
        most = bound.most if exact or not multiplies else None
        return self.only(BoundFrame(joined, bound.vars | set(binds), most, source), live)

    def _spread(
        self, step: Probe, view: Version, bound: BoundFrame, right: DataFrame
    ) -> tuple[DataFrame, DataFrame, list[str]]:
        """Both sides of a join and what to join on, with the rows of common keys spread over tasks."""
        at = {arg.name: column for column, arg in zip(step.prefix, step.lookup, strict=True) if isinstance(arg, Var)}
        common_right = [view.common(column) for column in at.values()]
        sources = [bound.source.get(var) for var in at]
        common_left = [frozenset() if source is None else source[0].common(source[1]) for source in sources]
        keys, tasks = [self.name(var) for var in at], self.scratch.limits.spread_tasks
        return spread(self.frame(bound), right, keys, common_left, common_right, tasks)

    def _rank(self, atom: Match, var: str, bound: BoundFrame) -> BoundFrame:
        """With the rank of the fact that the bindings make of an atom."""
        from pyspark.sql import functions as fn

        tally = self.views[atom.relation, Read.RANK]
        assert isinstance(tally, FrameTally)
        mine = self.name(var)
        if not tally.parts:
            df = self.frame(bound).withColumn(mine, fn.lit(0).cast("bigint"))
            return replace(bound, df=df, vars=bound.vars | {var})
        ranks = tally.frame()
        keys: dict[str, str] = {}
        for at, arg in enumerate(atom.args):
            if isinstance(arg, Const):
                ranks = ranks.filter(fn.col(f"c{at}") == fn.lit(plain(arg)))
            elif arg.name in keys:
                ranks = ranks.filter(fn.col(f"c{at}") == fn.col(keys[arg.name]))
            else:
                assert isinstance(arg, Var)
                keys[arg.name] = f"c{at}"
        ranks = ranks.select(*(fn.col(c).alias(self.name(v)) for v, c in keys.items()), fn.col("n").alias("found"))
        left = self.frame(bound)
        df = (
            left.join(ranks, on=[self.name(v) for v in keys], how="left")
            if keys
            else left.join(ranks, fn.lit(True), "left")
        )
        df = df.withColumn(mine, fn.coalesce(fn.col("found"), fn.lit(0).cast("bigint"))).drop("found")
        return replace(bound, df=df, vars=bound.vars | {var})
