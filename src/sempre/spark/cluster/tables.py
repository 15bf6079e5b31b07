"""Rows, versions and tallies on DataFrames: recipes until somebody settles them.

A `Table` knows how to make its DataFrame and what it is made from. Settling writes it; then it is files, knows its
size, and has forgotten what it was made from. Files are removed with the last reference to their table, so a version
stays valid for as long as it is held, and nothing stays for longer.

A `Version` is a union of disjoint parts, each with what has been taken out of it since: adding and removing rows copies
nothing. A `Tally` is a sum of counted rows. Both are merged into one table when they have many parts.
"""

from __future__ import annotations

import functools
import shutil
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sempre.analysis.model import CheckedProgram
from sempre.diagnostics import DataError, Diagnostic
from sempre.kernel.layout import Column
from sempre.spark.cluster.scratch import Scratch
from sempre.spark.cluster.values import WEIGHT, Kinds, from_arrow, names_of, schema_of
from sempre.spark.failures import TaskFault

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sempre.kernel.values import Values

# A version or tally with more parts than this is merged.
MANY_PARTS = 6
# What the planner hears of a column comes from so many of its values.
SAMPLE_ROWS = 4096


class Store:
    """What the tables of one database share: where they are kept, and the codes that values have in the driver."""

    def __init__(self, scratch: Scratch, values: Values, program: CheckedProgram) -> None:
        self.scratch = scratch
        self.values = values
        self._program = program
        # Merged tables that nobody has asked for yet: settled at the end of an epoch, at the latest.
        self._merging: weakref.WeakSet[Table] = weakref.WeakSet()

    def empty(self, kinds: Kinds, arity: int, weighted: bool = False) -> Table:
        table = Table(self, kinds, arity, weighted)
        table._size = 0
        return table

    def lazy(self, like: Table, make: Callable[[], DataFrame], parents: Sequence[Table], **how: Any) -> Table:
        """A table with the columns of another."""
        weighted = how.pop("weighted", like.weighted)
        return Table(self, like.kinds, like.arity, weighted, make, tuple(parents), **how)

    def held(self, table: pa.Table, kinds: Kinds, arity: int) -> Table:
        """A table with these rows."""
        made = Table(self, kinds, arity, False)
        made.keep(*self.scratch.put(table))
        return made

    def settle(self, tables: Iterable[Table]) -> None:
        """Write whatever is not yet, several tables at a time; what they share comes first."""
        wanted = {id(table): table for table in tables if not table.is_settled}
        if not wanted:
            return
        shared = {id(t): t for table in wanted.values() for t in table.pending() if t is not table}
        self.settle(shared.values())
        fresh = [table for table in wanted.values() if not table.is_settled]
        if not fresh:
            return
        try:
            written = self.scratch.write_all([table.frame for table in fresh])
        except TaskFault as fault:
            raise self._located(fault) from None
        for table, (path, size) in zip(fresh, written, strict=True):
            table.keep(path, size)

    def _located(self, fault: TaskFault) -> DataError:
        rule = next((rule for rule in self._program.rules if rule.number == fault.rule), None)
        if rule is None:
            return DataError(Diagnostic("E510", f"{fault}"))
        found = Diagnostic("E510", f"{fault}", rule.span, detail=f"while evaluating: {rule.text}")
        return DataError(found, self._program.sources)

    def merged(self, parts: Sequence[Table], make: Callable[[], DataFrame], size: int | None) -> Table:
        """One table instead of many, when somebody first needs it or the epoch ends."""
        table = self.lazy(parts[0], make, parts, shared=True)
        table._size = size
        self._merging.add(table)
        return table

    def finish(self) -> None:
        """Settle what was merged during an epoch and is still held."""
        self.settle([table for table in self._merging if not table.is_settled])
        self._merging.clear()


class Table:
    """Distinct rows of one relation; with a weight each if `weighted`.

    A `shared` table is written before anything that is made from it.
    """

    place = "cluster"

    def __init__(
        self,
        store: Store,
        kinds: Kinds,
        arity: int,
        weighted: bool = False,
        make: Callable[[], DataFrame] | None = None,
        parents: tuple[Table, ...] = (),
        shared: bool = False,
    ) -> None:
        self.store = store
        self.kinds = kinds
        self.arity = arity
        self.weighted = weighted
        self._make = make
        self._parents = parents
        self._shared = shared
        self._size: int | None = None
        self._path: Path | None = None
        self._frame: DataFrame | None = None
        self._distinct: dict[int, int] = {}

    @property
    def names(self) -> list[str]:
        """The columns of a row, without the weight."""
        return names_of(self.kinds)

    @property
    def is_settled(self) -> bool:
        return self._make is None

    @property
    def known_empty(self) -> bool:
        return self._size == 0

    def __len__(self) -> int:
        if self._size is None:
            self.store.settle([self])
        assert self._size is not None
        return self._size

    @property
    def path(self) -> Path:
        """Where the rows are, once they are settled; there have to be some."""
        assert self._path is not None
        return self._path

    def pending(self) -> list[Table]:
        """The shared tables that have to be written first."""
        if self.is_settled:
            return []
        found = [self] if self._shared else []
        return found + [table for parent in self._parents for table in parent.pending()]

    def keep(self, path: Path, size: int) -> None:
        """From now on, what is written at `path`."""
        self._make, self._parents, self._path, self._size = None, (), path, size
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        if not size:
            shutil.rmtree(path, ignore_errors=True)
            self._path = None

    def frame(self) -> DataFrame:
        """A DataFrame of the rows; lazy."""
        if self._make is not None and self._size != 0:
            return self._make()
        if self._frame is None:
            scratch = self.store.scratch
            if self._path is None:
                self._frame = scratch.spark.createDataFrame([], schema_of(self.kinds, self.weighted))
            else:
                self._frame = scratch.frame(self._path, self.kinds, self.weighted)
        return self._frame

    def distinct(self, column: int) -> int | None:
        """About how many different values a column has, by a sample; None before the table is settled."""
        if self._path is None:
            return None
        if column not in self._distinct:
            sample = self.store.scratch.sample(self._path, self.names[column], SAMPLE_ROWS)
            counts = sample.value_counts().field("counts").to_numpy()
            once = int((counts == 1).sum())
            self._distinct[column] = max(1, int((len(self) / len(sample)) ** 0.5 * once) + counts.size - once)
        return self._distinct[column]

    # ---------------------------------------------------------------------------------- as the driver sees it

    def arrow(self) -> pa.Table:
        """The rows in the driver."""
        names = [*self.names, WEIGHT] if self.weighted else self.names
        if not len(self):
            return pa.table({name: pa.array([], pa.int64()) for name in names})
        self.store.settle([self])
        assert self._path is not None
        return self.store.scratch.get(self._path, names)

    def columns(self) -> list[Column]:
        """The columns in the driver, as codes."""
        if not len(self):
            return [np.empty(0, np.int64)] * self.arity
        table = self.arrow()
        pairs = zip(self.names[: self.arity], self.kinds, strict=False)
        return [from_arrow(self.store.values, table.column(name), kind) for name, kind in pairs]

    @property
    def weights(self) -> Column:
        if not len(self):
            return np.empty(0, np.int64)
        return np.asarray(self.arrow().column(WEIGHT).to_numpy())

    # --------------------------------------------------------------------------------------- counted rows only

    def rows(self) -> Table:
        """The rows without their weights."""
        if not self.weighted:
            return self
        names = self.names
        plain = self.store.lazy(self, lambda: self.frame().select(*names), [self], weighted=False)
        plain._size = self._size
        return plain

    def negated(self) -> Table:
        """The same rows with their numbers negated."""
        from pyspark.sql import functions as fn

        names = self.names
        turned = self.store.lazy(self, lambda: self.frame().select(*names, (-fn.col(WEIGHT)).alias(WEIGHT)), [self])
        turned._size = self._size
        return turned


def union_frames(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of DataFrames with the same columns."""
    return functools.reduce(lambda a, b: a.unionAll(b), frames)


Part = tuple[Table, tuple[Table, ...]]


class Version:
    """An immutable set of rows: disjoint parts, each without what was taken out of it. Serves as a view, too."""

    place = "cluster"

    def __init__(self, like: Table, parts: tuple[Part, ...], size: int) -> None:
        self.like = like
        self.parts = parts
        self._size = size

    @staticmethod
    def of(rows: Table) -> Version:
        size = len(rows)
        return Version(rows, ((rows, ()),) if size else (), size)

    def __len__(self) -> int:
        return self._size

    def indexed(self, orders: object) -> Version:
        return self

    def rows(self) -> Table:
        if len(self.parts) == 1 and not self.parts[0][1]:
            return self.parts[0][0]
        store = self.like.store
        if not self._size:
            return store.empty(self.like.kinds, self.like.arity)
        rows = store.lazy(self.like, self.frame, self.tables(), weighted=False)
        rows._size = self._size
        return rows

    def tables(self) -> list[Table]:
        return [table for part, gone in self.parts for table in (part, *gone)]

    def frame(self) -> DataFrame:
        """A DataFrame of the rows; lazy."""
        frames = []
        for part, gone in self.parts:
            df = part.frame().select(*part.names)
            for other in gone:
                df = df.join(other.frame().select(*part.names), on=part.names, how="left_anti")
            frames.append(df)
        return union_frames(frames) if frames else self.like.store.empty(self.like.kinds, self.like.arity).frame()

    def adding(self, rows: Table) -> Version:
        """With rows that it lacks."""
        if not len(rows):
            return self
        return Version(self.like, (*self.parts, (rows, ())), self._size + len(rows))._compact()

    def removing(self, rows: Table) -> Version:
        """Without rows that it has."""
        if not len(rows):
            return self
        parts = tuple((part, (*gone, rows)) for part, gone in self.parts)
        return Version(self.like, parts, self._size - len(rows))._compact()

    def _compact(self) -> Version:
        """As it is, unless it has many parts."""
        if not self._size:
            return Version(self.like, (), 0)
        if len(self.tables()) <= MANY_PARTS:
            return self
        store = self.like.store
        table = store.merged(self.tables(), Version(self.like, self.parts, self._size).frame, self._size)
        return Version(self.like, ((table, ()),), self._size)

    def plus(self, *versions: Version) -> Version:
        """The union with disjoint versions."""
        parts = (*self.parts, *(part for version in versions for part in version.parts))
        return Version(self.like, parts, self._size + sum(map(len, versions)))

    def without(self, version: Version) -> Version:
        """Without the rows of a version that it has all of."""
        gone = tuple(version.whole())
        return Version(self.like, tuple((part, (*out, *gone)) for part, out in self.parts), self._size - len(version))

    def whole(self) -> list[Table]:
        """Tables that have the rows between them."""
        if any(gone for _, gone in self.parts):
            return [self.rows()]
        return [part for part, _ in self.parts]


class Tally:
    """An immutable map from rows to numbers, zero where nothing is stored: a sum of counted tables."""

    def __init__(self, like: Table, parts: tuple[Table, ...] = ()) -> None:
        self.like = like
        self.parts = parts

    def adding(self, counted: Table) -> Tally:
        """The map with these differences added."""
        if counted.known_empty:
            return self
        parts = (*self.parts, counted)
        if len(parts) <= MANY_PARTS:
            return Tally(self.like, parts)
        return Tally(self.like, (self.like.store.merged(parts, Tally(self.like, parts).frame, None),))

    def frame(self) -> DataFrame:
        """A DataFrame of the rows whose number is not zero; lazy."""
        return summed([part.frame() for part in self.parts], self.like.names)

    def entries(self) -> Table:
        """All rows whose number is not zero."""
        if not self.parts:
            return self.like.store.empty(self.like.kinds, self.like.arity, weighted=True)
        return self.like.store.lazy(self.like, self.frame, self.parts, weighted=True)


def summed(frames: Sequence[DataFrame], names: list[str]) -> DataFrame:
    """The sums of weights, without zeros."""
    from pyspark.sql import functions as fn

    total = union_frames(frames).groupBy(*names).agg(fn.sum(WEIGHT).alias(WEIGHT))
    return total.filter(fn.col(WEIGHT) != 0)
