"""Joins in which many rows have the same key: those rows are spread over several tasks.

A shuffle brings all rows of a key to one task. Adaptive execution splits a task that reads some hundred megabytes more
than others do; but what a join makes of a key is the product of both sides, and a few megabytes of one value can keep a
task busy for longer than all others together. So the side that has the many rows scatters them over several tasks,
and the other side sends its rows of these keys to each: every two rows still meet once.

A join on several columns has many rows with a key only if each of its columns has many with that value.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# The column that says which piece a row goes to.
PIECE = "piece"

Common = Sequence[Collection[Any]]  # by column of the key, the values that many rows have


def spread(
    left: DataFrame, right: DataFrame, keys: Sequence[str], common_left: Common, common_right: Common, tasks: int
) -> tuple[DataFrame, DataFrame, list[str]]:
    """Both sides and what to join them on, so that the rows of common keys are spread over `tasks`."""
    scatters_left, scatters_right = all(common_left), all(common_right)
    if not keys or not (scatters_left or scatters_right):
        return left, right, list(keys)
    on_left = _among(keys, common_left) if scatters_left else None
    on_right = _among(keys, common_right) if scatters_right else None
    if on_left is not None and on_right is not None:
        on_right &= ~on_left  # a row is either scattered or sent to all
    return (
        left.withColumn(PIECE, _pieces(left.columns, on_left, on_right, tasks)),
        right.withColumn(PIECE, _pieces(right.columns, on_right, on_left, tasks)),
        [*keys, PIECE],
    )


def _among(keys: Sequence[str], common: Common) -> Column:
    from pyspark.sql import functions as fn

    return reduce(and_, (fn.col(key).isin(list(values)) for key, values in zip(keys, common, strict=True)))


def _pieces(columns: Sequence[str], scattered: Column | None, sent: Column | None, tasks: int) -> Column:
    """The piece of a row that is `scattered`, all pieces of one that is `sent`, the first of any other.

    A row that a task makes again has to go where it went before, so its values choose, and not chance.
    """
    from pyspark.sql import functions as fn

    piece = fn.lit(0)
    if scattered is not None:
        own = fn.pmod(fn.xxhash64(*columns), fn.lit(tasks)).cast("int")
        piece = fn.when(scattered, own).otherwise(piece)
    if sent is None:
        return piece
    return fn.explode(fn.when(sent, fn.sequence(fn.lit(0), fn.lit(tasks - 1))).otherwise(fn.array(piece)))
