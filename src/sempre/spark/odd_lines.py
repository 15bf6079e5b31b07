"""Lines that expressions cannot read, in text that stays on the cluster.

Only these lines come to the driver, with their numbers, and the exact reader says what is wrong with them, or accepts
them. Spark does not number lines. But the rows of one block of a file are numbered one after the other, so the lines
before a block, and before a line in it, can be counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from sempre.analysis.model import Relation, Type
from sempre.data import dataclass
from sempre.diagnostics import Findings
from sempre.files.columns import concat
from sempre.files.directive_options import TextFormat
from sempre.files.scan import scan_lines
from sempre.files.text import BOM
from sempre.spark.lines import cells, too_large

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# So many lines are looked at one by one; a file with more of them is not what the directive says it is.
MOST_ODD_LINES = 10_000

FILE, BLOCK, ROW, RAW = "file", "block", "row", "raw"


@dataclass(frozen=True, slots=True)
class TextSource:
    """Delimited text without quoting, one fact per line; `shown` is its name in messages."""

    spark: SparkSession
    path: str
    shown: str
    relation: Relation
    layout: TextFormat
    types: Mapping[str, Type]

    def read(self) -> tuple[DataFrame, pa.Table]:
        """The columns of the regular lines, still there, and the facts of the others; raises with every bad line."""
        from pyspark.sql import functions as fn

        names = [f"c{at}" for at in range(self.relation.arity)]
        is_odd = reduce(or_, (fn.col(name).isNull() for name in names))
        lines_df = self._numbered()
        odd_df = cells(lines_df, self.relation, self.layout, FILE, BLOCK, ROW, RAW).filter(is_odd)
        odd = (
            odd_df.select(FILE, BLOCK, ROW, RAW)
            .orderBy(FILE, BLOCK, ROW)
            .limit(MOST_ODD_LINES + 1)
            .toArrow()
            .to_pylist()
        )
        blocks = lines_df.groupBy(FILE, BLOCK).agg(fn.count(fn.lit(1)).alias("lines"), fn.min(ROW).alias("first"))
        table = self._scanned(odd[:MOST_ODD_LINES], blocks.toArrow().to_pylist())
        if len(odd) > MOST_ODD_LINES:
            raise too_large(self.spark, self.path, self.shown)
        return cells(lines_df, self.relation, self.layout).filter(~is_odd), table

    def _numbered(self) -> DataFrame:
        """The lines, each with its file, the block of it, a number that grows within that, and its bytes."""
        from pyspark.sql import functions as fn

        return self.spark.read.text(self.path, lineSep="\n").select(
            "value",
            fn.col("_metadata.file_path").alias(FILE),
            fn.col("_metadata.file_block_start").alias(BLOCK),
            fn.monotonically_increasing_id().alias(ROW),
            fn.col("value").cast("binary").alias(RAW),
        )

    def _scanned(self, odd: list[dict[str, Any]], blocks: list[dict[str, Any]]) -> pa.Table:
        before: dict[tuple[str, int], int] = {}
        lines: dict[str, int] = {}
        for block in sorted(blocks, key=lambda block: (block[FILE], block[BLOCK])):
            so_far = lines.get(block[FILE], 0)
            before[block[FILE], block[BLOCK]] = so_far - block["first"]
            lines[block[FILE]] = so_far + block["lines"]
        findings = Findings()
        tables = []
        for file in sorted(lines):
            mine = [(before[line[FILE], line[BLOCK]] + line[ROW] + 1, line[RAW]) for line in odd if line[FILE] == file]
            numbered = [(at, raw.removeprefix(BOM) if at == 1 else raw) for at, raw in mine]
            name = self.shown if len(lines) == 1 else unquote(file).removeprefix("file:").replace("///", "/", 1)
            with findings.gathered():
                tables.append(scan_lines(numbered, self.relation, self.layout, name, self.types))
        findings.check()
        return concat(self.relation, tables)
