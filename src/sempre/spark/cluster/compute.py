"""Expressions of rules on DataFrames.

What a column expression says exactly as the kernel does becomes one (`column_of`, `condition_of`). Everything else, and
so everything that can fail, is computed by the kernel's own code inside tasks (`KernelSteps`): the two cannot differ,
and no setting of the session matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sempre.analysis.model import Compare, Const, Expr, Kind, Var
from sempre.backends.bindings import Bindings, compute
from sempre.backends.pipeline import Pipeline
from sempre.data import dataclass
from sempre.kernel.functors import Fault
from sempre.kernel.values import Values
from sempre.limits import DEFAULTS
from sempre.plan.conjuncts import reading, variables
from sempre.plan.ops import Assign, Filter, Step, TakeApart
from sempre.spark.cluster.column_types import Form, arrow_type, from_arrow, plain, to_arrow
from sempre.spark.failures import fault_text

if TYPE_CHECKING:
    from pyspark.sql import Column

SIGN = -(1 << 63)
ORDERS = ("<", "<=", ">", ">=")


def column_of(expr: Expr, names: Mapping[str, str]) -> Column | None:
    """The expression as a column, if it can be one; `names` has the column of each variable."""
    from pyspark.sql import functions as fn

    if isinstance(expr, Var):
        return fn.col(names[expr.name])
    if isinstance(expr, Const):
        return fn.lit(plain(expr)).cast(_TYPES[expr.kind])
    return None


_TYPES = {
    Kind.NUMBER: "bigint",
    Kind.UNSIGNED: "bigint",
    Kind.FLOAT: "double",
    Kind.SYMBOL: "string",
    Kind.RECORD: "string",
}


def condition_of(test: Compare, names: Mapping[str, str]) -> Column | None:
    """The comparison as a condition, if it can be one."""
    from pyspark.sql import functions as fn

    left, right = column_of(test.left, names), column_of(test.right, names)
    if left is None or right is None:
        return None
    if test.op == "=":
        return left == right
    if test.op == "!=":
        return left != right
    if test.op not in ORDERS or test.kind is Kind.FLOAT:  # Spark orders NaN, the kernel does not
        return None
    if test.kind is Kind.UNSIGNED:
        left, right = left.bitwiseXOR(fn.lit(SIGN)), right.bitwiseXOR(fn.lit(SIGN))
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[test.op]


def is_native(step: Step, names: Mapping[str, str]) -> bool:
    """Whether a step without a relation can be done by column expressions."""
    if isinstance(step, Filter):
        return condition_of(step.test, names) is not None
    return isinstance(step, Assign) and not hasattr(step.expr, "op")


def looked_into(steps: Sequence[Step], exprs: Iterable[Expr]) -> frozenset[str]:
    """The variables whose values matter to steps without a relation, or to expressions."""
    found = [variables(expr) for expr in exprs]
    for step in steps:
        if isinstance(step, Filter):
            found.append(reading(step.test))
        elif isinstance(step, TakeApart):
            found.append(reading(step.unpack))
        elif isinstance(step, Assign):
            found.append(variables(step.expr))
    return frozenset().union(*found)


@dataclass(frozen=True, slots=True)
class KernelSteps:
    """Steps without a relation, and expressions after them, by the kernel: a function for `mapInArrow`.

    `given` are the variables that come in, with column and form; `kept` those that go out, `results` expressions that
    go out after them, with column and form each.
    """

    rule: int
    steps: tuple[Step, ...]
    given: tuple[tuple[str, str, Form], ...]
    kept: tuple[tuple[str, str, Form], ...]
    results: tuple[tuple[Expr, str, Form], ...] = ()

    @property
    def columns(self) -> list[tuple[str, Form]]:
        """The columns that go out."""
        kept = [(column, form) for _, column, form in self.kept]
        return kept + [(column, form) for _, column, form in self.results]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            try:
                yield from self._batch(batch)
            except Fault as fault:
                raise RuntimeError(fault_text(self.rule, fault)) from None

    def _batch(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        values = Values()  # of this batch alone: codes never leave a task
        names = batch.schema.names
        rows = Bindings(
            batch.num_rows,
            {var: from_arrow(values, batch.column(names.index(name)), form) for var, name, form in self.given},
            {},
        )
        found: list[Bindings] = []
        Pipeline(
            self.steps, values, DEFAULTS.piece_rows, frozenset(var for var, _, _ in (*self.given, *self.kept))
        ).run(rows, {}, found.append)
        for bound in found:
            arrays = [to_arrow(values, bound.columns[var], form) for var, _, form in self.kept]
            arrays += [to_arrow(values, compute(values, expr, bound), form) for expr, _, form in self.results]
            yield pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self.columns))


def arrow_schema(columns: Sequence[tuple[str, Form]]) -> pa.Schema:
    return pa.schema([pa.field(name, arrow_type(form)) for name, form in columns])


def spark_schema(columns: Sequence[tuple[str, Form]]) -> Any:
    from pyspark.sql import types

    from sempre.spark.cluster.column_types import spark_type

    return types.StructType([types.StructField(name, spark_type(form)) for name, form in columns])
