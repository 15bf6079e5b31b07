"""Negations and aggregates in bodies: nested steps, run for every binding of the variables they share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sempre.analysis.model import Fold, Kind
from sempre.data import dataclass
from sempre.kernel import reduce
from sempre.kernel.functors import Fault
from sempre.kernel.values import Values
from sempre.plan.ops import Absent, Probe, Read, Reduce, Step, probes
from sempre.spark.cluster.column_types import Form, from_arrow, to_arrow
from sempre.spark.cluster.compute import arrow_schema, spark_schema
from sempre.spark.cluster.tables import version_of
from sempre.spark.failures import fault_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sempre.spark.cluster.plans import BoundFrame, RuleFrames

RESULT, TERM, THERE = "result", "term", "result_there"


def _unchanged(frames: RuleFrames, steps: tuple[Step, ...]) -> bool:
    """Whether steps that read the state there would find what the same steps find here."""
    views = frames.views
    return all(views[p.relation, Read.THERE] is views[p.relation, Read.HERE] for p in probes(steps))


def _shared(frames: RuleFrames, literal: object, bound: BoundFrame) -> tuple[str, ...]:
    """The variables that a nested body shares with what is bound."""
    return tuple(var.name for var in literal.shared if var.name in bound.vars)  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------------- negation


def absent(frames: RuleFrames, step: Absent, bound: BoundFrame, carried: frozenset[str]) -> BoundFrame | None:
    """The bindings for which the nested steps find nothing."""
    live = step.live | carried
    same = not step.steps_there or _unchanged(frames, step.steps_there)
    if same and step.flips:
        return None
    kept = _filtered(frames, step, step.steps, bound, "left_anti")
    if kept is not None and not same:
        kept = _filtered(frames, step, step.steps_there, kept, "left_semi" if step.flips else "left_anti")
    return None if kept is None else frames.only(kept, live)


def _filtered(
    frames: RuleFrames, step: Absent, steps: tuple[Step, ...], bound: BoundFrame, how: str
) -> BoundFrame | None:
    """The bindings for which the steps find something (`left_semi`) or nothing (`left_anti`)."""
    from pyspark.sql import functions as fn

    shared = _shared(frames, step.literal, bound)
    found = _found(frames, steps, bound, shared)
    if found is None:
        return bound if how == "left_anti" else None
    df, keys = found
    left = frames.frame(bound)
    if not keys:
        return replace(bound, df=left.join(df.select(fn.lit(0).alias("two")).limit(1), fn.lit(True), how))
    return replace(bound, df=left.join(df, on=keys, how=how))


def _found(
    frames: RuleFrames, steps: tuple[Step, ...], bound: BoundFrame, shared: tuple[str, ...]
) -> tuple[DataFrame, list[str]] | None:
    """What there is something for, by columns to join on; None if nothing."""
    first = steps[0]
    if len(steps) == 1 and isinstance(first, Probe):
        # One atom: nothing has to be looked up beforehand.
        view = version_of(frames.views, (first.relation, first.read))
        if not len(view):
            return None
        df, keys, _ = frames.looked_up(first, view, frozenset())
        return df, keys
    keys = [frames.name(var) for var in shared]
    inner = _inner(frames, steps, bound, shared, counted=False)
    if inner is None:
        return None
    return (inner.df.select(*keys) if keys else frames.frame(inner)) if inner.df else frames.frame(inner), keys


def _inner(
    frames: RuleFrames, steps: tuple[Step, ...], bound: BoundFrame, shared: tuple[str, ...], counted: bool
) -> BoundFrame | None:
    """The solutions of nested steps for every binding of the shared variables."""
    from sempre.spark.cluster.plans import BoundFrame

    start = BoundFrame(None, frozenset(), 1)
    if shared:
        columns = [frames.name(var) for var in shared]
        start = BoundFrame(frames.frame(bound).select(*columns).distinct(), frozenset(shared), bound.most)
    outer, frames.counted = frames.counted, counted
    try:
        return frames.run(steps, start, frozenset(shared))
    finally:
        frames.counted = outer


# ------------------------------------------------------------------------------------------------ aggregates


def fold(frames: RuleFrames, step: Reduce, bound: BoundFrame, carried: frozenset[str]) -> BoundFrame | None:
    """The bindings with the result of an aggregate over what the nested steps find."""
    from pyspark.sql import functions as fn

    literal, live = step.literal, step.live | carried
    same = not step.steps_there or _unchanged(frames, step.steps_there)
    if same and step.flips:
        return None
    shared = _shared(frames, literal, bound)
    df = _with_result(frames, literal, step.steps, bound, shared, RESULT)
    if not same:
        df = _with_result(frames, literal, step.steps_there, replace(bound, df=df), shared, THERE)
        equal = fn.col(THERE).isNotNull() & (fn.col(RESULT) == fn.col(THERE))
        df = df.filter(fn.coalesce(~equal if step.flips else equal, fn.lit(step.flips))).drop(THERE)
    df = df.filter(fn.col(RESULT).isNotNull())
    mine = frames.name(literal.result.name)
    if step.test:
        df = df.filter(fn.col(mine) == fn.col(RESULT)).drop(RESULT)
        return frames.only(replace(bound, df=df), live)
    df = df.withColumnRenamed(RESULT, mine)
    return frames.only(replace(bound, df=df, vars=bound.vars | {literal.result.name}), live)


def _with_result(
    frames: RuleFrames, literal: Fold, steps: tuple[Step, ...], bound: BoundFrame, shared: tuple[str, ...], name: str
) -> DataFrame:
    """The bindings with the result of each as another column, null where there is none."""
    from pyspark.sql import functions as fn

    kind = result_kind(literal)
    left = frames.frame(bound)
    keys = [frames.name(var) for var in shared]
    inner = _inner(frames, steps, bound, shared, counted=True)
    if inner is None:
        df = left.withColumn(name, fn.lit(None).cast(spark_schema([(name, kind)])[name].dataType))
    else:
        results = _results(frames, literal, inner, shared, kind).withColumnRenamed(RESULT, name)
        df = left.join(results, on=keys, how="left") if keys else left.join(results, fn.lit(True), "left")
    if literal.kind in ("count", "sum"):
        zero = fn.lit(0.0) if kind is Kind.FLOAT else fn.lit(0).cast("bigint")
        df = df.withColumn(name, fn.coalesce(fn.col(name), zero))
    return df


def result_kind(literal: Fold) -> Kind:
    if literal.kind == "count":
        return Kind.NUMBER
    return Kind.FLOAT if literal.kind == "mean" else literal.operand


def _results(frames: RuleFrames, literal: Fold, inner: BoundFrame, shared: tuple[str, ...], kind: Kind) -> DataFrame:
    """One row per group that has solutions."""
    from pyspark.sql import functions as fn

    keys = [frames.name(var) for var in shared]
    if literal.kind == "count":
        df = frames.frame(inner)
        counted = df.groupBy(*keys).agg(fn.count(fn.lit(1)).alias(RESULT))
        return counted if keys else counted.filter(fn.col(RESULT) > 0)
    assert literal.expr is not None
    terms = frames.with_results(inner, [(literal.expr, TERM, literal.operand)], shared)
    if literal.kind in ("min", "max") and literal.operand is Kind.NUMBER:
        pick = fn.min if literal.kind == "min" else fn.max
        return terms.groupBy(*keys).agg(pick(TERM).alias(RESULT)).filter(fn.col(RESULT).isNotNull())
    lists = terms.groupBy(*keys).agg(fn.collect_list(TERM).alias(TERM)).filter(fn.size(TERM) > 0)
    columns = tuple((frames.name(var), frames.kinds[var]) for var in shared)
    run = KernelFold(frames.rule, literal.kind, literal.operand, columns, kind)
    return frames.scratch.mapped(lists, run, spark_schema([*columns, (RESULT, kind)]))


@dataclass(frozen=True, slots=True)
class KernelFold:
    """The aggregate of every list, by the kernel: a function for `mapInArrow`."""

    rule: int
    kind: str
    operand: Kind
    keys: tuple[tuple[str, Form], ...]
    result: Kind

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema([*self.keys, (RESULT, self.result)])
        for batch in batches:
            lists = batch.column(batch.schema.names.index(TERM))
            values = Values()
            terms = from_arrow(values, lists.flatten(), self.operand)
            groups = np.repeat(np.arange(batch.num_rows), np.diff(lists.offsets.to_numpy()))
            try:
                _, column = reduce.by_group(values, self.kind, self.operand.value, [groups], [terms], batch.num_rows)
            except Fault as fault:
                raise RuntimeError(fault_text(self.rule, fault)) from None
            keys = [batch.column(batch.schema.names.index(name)) for name, _ in self.keys]
            arrays = [*keys, to_arrow(values, column, self.result)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
