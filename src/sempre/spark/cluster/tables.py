"""Rows, versions and tallies on DataFrames: recipes until somebody settles them.

A `Table` knows how to make its DataFrame and what it is made from. Settling writes it; then it is files, knows its
size, and has forgotten what it was made from. Files are removed with the last reference to their table, so a version
stays valid for as long as it is held, and nothing stays for longer.

A `Version` is a union of disjoint parts, each with what has been taken out of it since: adding and removing rows copies
nothing but a few rows that the driver holds, of which there is one part, and one table per part that they were taken
out of. A `FrameTally` is a sum of counted rows. Both are merged into one table when they have many parts.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sempre.analysis.model import CheckedProgram
from sempre.diagnostics import DataError, Diagnostic
from sempre.kernel.layout import Column
from sempre.limits import Limits
from sempre.plan.backend import CLUSTER, FrameShape, Rows, Shape
from sempre.plan.ops import Order, Read
from sempre.spark.cluster.codes import Coder, left_of, shared, without
from sempre.spark.cluster.column_types import WEIGHT, Kinds, arrow_schema, from_arrow, names_of
from sempre.spark.cluster.pages import Pages, Wanted, filtered
from sempre.spark.cluster.scratch import Found, Scratch, WrittenRows
from sempre.spark.failures import TaskFault

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sempre.kernel.values import Values


class TableContext:
    """What the tables of one database share: where they are kept, and the codes that values have in the driver."""

    def __init__(self, scratch: Scratch, values: Values, program: CheckedProgram) -> None:
        self.scratch = scratch
        self.values = values
        self._program = program
        # Merged tables that nobody has asked for yet: settled at the end of an epoch, at the latest.
        self._merging: weakref.WeakSet[Table] = weakref.WeakSet()
        self._opened: weakref.WeakValueDictionary[Path, Table] = weakref.WeakValueDictionary()

    @property
    def limits(self) -> Limits:
        """The thresholds of the database."""
        return self.scratch.limits

    def empty(self, kinds: Kinds, arity: int, weighted: bool = False) -> Table:
        table = Table(self, kinds, arity, weighted)
        table._size = 0
        return table

    def lazy(self, like: Table, make: Callable[[], DataFrame], parents: Sequence[Table], **how: Any) -> Table:
        """A table with the columns of another."""
        weighted = how.pop("weighted", like.weighted)
        return Table(self, like.kinds, like.arity, weighted, make, tuple(parents), **how)

    def scan(self, tables: Sequence[Table]) -> DataFrame:
        """All rows of tables with the same columns: one scan of those that are written, one of those that are here."""
        like = tables[0]
        some = [table for table in tables if table.is_settled and not table.known_empty]
        paths = [table.path for table in some if table.here is None]
        frames = [table.frame() for table in tables if not table.is_settled and not table.known_empty]
        if paths:
            frames.append(self.scratch.frame(paths, like.kinds, like.weighted))
        here = [table.here for table in some if table.here is not None]
        if here or not frames:
            schema = arrow_schema(like.kinds, like.weighted)
            rows = pa.concat_tables(
                [schema.empty_table(), *(table.select(schema.names).cast(schema) for table in here)]
            )
            frames.append(self.scratch.local_frame(rows, like.kinds, like.weighted))
        return union_frames(frames)

    def held(self, table: pa.Table, kinds: Kinds, arity: int) -> Table:
        """A table with these rows."""
        made = Table(self, kinds, arity, False)
        made.keep(table if table.num_rows <= self.limits.driver_rows else self.scratch.put(table))
        return made

    def opened(self, path: Path, rows: int, kinds: Kinds, arity: int) -> Table:
        """The table in a folder that somebody else keeps; a copy of it where tasks cannot read such folders."""
        if not self.scratch.is_here:
            return self.held(pq.read_table(path, columns=names_of(kinds), partitioning=None), kinds, arity)
        table = self._opened.get(path)
        if table is None:
            table = self._opened[path] = Table(self, kinds, arity, False)
            table._size, table._path = rows, path
            if rows <= self.limits.driver_rows:
                table.here = self.scratch.get(path, names_of(kinds))
        return table

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
            most = self.limits.fetched_rows
            few = [table.guess is not None and table.guess <= most for table in fresh]
            written = self.scratch.write_all([table.frame for table in fresh], few)
        except TaskFault as fault:
            raise self._located(fault) from None
        for table, found in zip(fresh, written, strict=True):
            table.keep(found)

    def _located(self, fault: TaskFault) -> DataError:
        rule = next((rule for rule in self._program.rules if rule.number == fault.rule), None)
        if rule is None:
            return DataError(Diagnostic("E510", f"{fault}"))
        found = Diagnostic("E510", f"{fault}", rule.span, detail=f"while evaluating: {rule.text}")
        return DataError(found, self._program.sources)

    def merged(self, parts: Sequence[Table], make: Callable[[], DataFrame], size: int | None) -> Table:
        """One table instead of many, when somebody first needs it or the epoch ends."""
        table = self.lazy(parts[0], make, parts, shared=True, guess=guessed(parts))
        table._size = size
        self._merging.add(table)
        return table

    def finish(self) -> None:
        """Settle what was merged during an epoch and is still held."""
        self.settle([table for table in self._merging if not table.is_settled])
        self._merging.clear()


class Table:
    """Distinct rows of one relation; with a weight each if `weighted`.

    A `shared` table is written before anything that is made from it. `guess` is about how many rows it will have, if
    anybody can tell: a wrong one costs time only.
    """

    place: ClassVar[str] = CLUSTER

    def __init__(
        self,
        store: TableContext,
        kinds: Kinds,
        arity: int,
        weighted: bool = False,
        make: Callable[[], DataFrame] | None = None,
        parents: tuple[Table, ...] = (),
        shared: bool = False,
        guess: int | None = None,
    ) -> None:
        self.store = store
        self.kinds = kinds
        self.arity = arity
        self.weighted = weighted
        self._make = make
        self._parents = parents
        self._shared = shared
        self._size: int | None = None
        self._guess = guess
        # Once settled, the rows are in a folder, or here if there are few; in both if tasks read them.
        self.here: pa.Table | None = None
        self._path: PurePath | None = None
        self._frame: DataFrame | None = None
        self._seen: dict[int, tuple[pa.Array, NDArray[np.int64]]] = {}
        self._pages: Pages | None = None

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

    @property
    def guess(self) -> int | None:
        """About how many rows there are, if that can be told."""
        return self._guess if self._size is None else self._size

    def __len__(self) -> int:
        if self._size is None:
            self.store.settle([self])
        assert self._size is not None
        return self._size

    @property
    def path(self) -> PurePath:
        """A place with the rows, of which there have to be some; they are settled."""
        if self._path is None:
            assert self.here is not None
            self._own(self.store.scratch.put(self.here))
        assert self._path is not None
        return self._path

    def pending(self) -> list[Table]:
        """The shared tables that have to be written first."""
        if self.is_settled:
            return []
        found = [self] if self._shared else []
        return found + [table for parent in self._parents for table in parent.pending()]

    def keep(self, found: Found) -> None:
        """From now on, what was found."""
        self._make, self._parents, self._size = None, (), found.num_rows
        if isinstance(found, WrittenRows):
            self._own(found)
        elif self._size:
            self.here = found

    def _own(self, written: WrittenRows) -> None:
        """Have a folder, for as long as this lives."""
        if not written.num_rows:
            self.store.scratch.free(written.path)
            return
        weakref.finalize(self, self.store.scratch.shelf.free, written.path)
        self._path = written.path

    def frame(self) -> DataFrame:
        """A DataFrame of the rows; lazy."""
        if self._make is not None and self._size != 0:
            return self._make()
        if self._frame is None:
            self._frame = self.store.scan([self])
        return self._frame

    def distinct(self, column: int) -> int | None:
        """About how many different values a column has, by a sample; None before the table is settled."""
        if not self.is_settled or self.known_empty:
            return None
        _, counts = self._sampled(column)
        once = int((counts == 1).sum())
        return max(1, int((len(self) / counts.sum()) ** 0.5 * once) + counts.size - once)

    def common(self, column: int) -> frozenset[Any]:
        """The values that many rows have in a column, by a sample; none before the table is settled."""
        if not self.is_settled or self.known_empty:
            return frozenset()
        values, counts = self._sampled(column)
        limits = self.store.limits
        least = max(limits.common_rows, limits.common_share * counts.sum())
        return frozenset(values.filter(pa.array(counts >= least)).to_pylist())

    def _sampled(self, column: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Some values of a column, each once, and how often they were seen."""
        if column not in self._seen:
            name, here = self.names[column], self.here
            rows, scratch = self.store.limits.sample_rows, self.store.scratch
            sample = scratch.sample(self.path, name, rows) if here is None else here.column(name)
            found = sample.value_counts()
            self._seen[column] = found.field("values"), found.field("counts").to_numpy()
        return self._seen[column]

    # ---------------------------------------------------------------------------------- as the driver sees it

    @property
    def pages(self) -> Pages:
        """The row groups of the folder; the rows are settled, and not here."""
        if self._pages is None:
            self._pages = Pages(Path(self.path), self.names, self.store.scratch.sketches)
        return self._pages

    def reading(self, wanted: Mapping[str, Wanted]) -> int:
        """How many rows have to be read to find those with such values; those that are here cost nothing."""
        if self.known_empty or self.here is not None:
            return 0
        if not self.store.scratch.is_here:
            return len(self)
        return int(self.pages.rows[self.pages.candidates(wanted)].sum())

    def matching(self, wanted: Mapping[str, Wanted], look: Callable[[], None]) -> pa.Table:
        """The rows whose value in each of these columns is one that is wanted there; no job is started for it.

        `look` is called now and then, and may raise.
        """
        if self.known_empty:
            return arrow_schema(self.kinds).empty_table()
        if self.here is not None:
            return filtered(self.here.select(self.names), wanted)
        if not self.store.scratch.is_here:
            return filtered(self.store.scratch.get(self.path, self.names), wanted)
        return self.pages.matching(wanted, self.pages.candidates(wanted), look)

    def arrow(self) -> pa.Table:
        """The rows in the driver."""
        names = [*self.names, WEIGHT] if self.weighted else self.names
        if not len(self):
            return pa.table({name: pa.array([], pa.int64()) for name in names})
        self.store.settle([self])
        return self.store.scratch.get(self.path, names) if self.here is None else self.here.select(names)

    def columns(self) -> list[Column]:
        """The columns in the driver, as codes."""
        if not len(self):
            return [np.empty(0, np.int64)] * self.arity
        table = self.arrow()
        pairs = zip(self.names[: self.arity], self.kinds, strict=False)
        return [from_arrow(self.store.values, table.column(name), kind) for name, kind in pairs]

    def to_arrow(self, shape: Shape) -> pa.Table:
        """An Arrow table of the rows, without codes of the driver's."""
        from sempre.spark.cluster.arrow_output import table_of

        return table_of(self, shape.relation)

    def to_stream(self, shape: Shape) -> pa.Table | pa.RecordBatchReader:
        """A reader, which has one batch in memory at a time; a relation without columns is a table."""
        from sempre.spark.cluster.arrow_output import reader_of

        return reader_of(self, shape.relation) if shape.relation.arity else self.to_arrow(shape)

    def to_frame(self, shape: FrameShape) -> DataFrame:
        """A DataFrame of the rows where they are, with the names of the relation's columns."""
        from sempre.spark.cluster.crossing import named

        return cast("DataFrame", shape.restored(named(self.frame(), shape.relation), self))

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
        plain = self.store.lazy(self, lambda: self.frame().select(*names), [self], weighted=False, guess=self.guess)
        plain._size = self._size
        return plain

    def negated(self) -> Table:
        """The same rows with their numbers negated."""
        from pyspark.sql import functions as fn

        names = self.names
        negative = (-fn.col(WEIGHT)).alias(WEIGHT)
        turned = self.store.lazy(self, lambda: self.frame().select(*names, negative), [self], guess=self.guess)
        turned._size = self._size
        return turned


def guessed(tables: Iterable[Table]) -> int | None:
    """About how many rows there are in all."""
    guesses = [table.guess for table in tables]
    known = [guess for guess in guesses if guess is not None]
    return sum(known) if len(known) == len(guesses) else None


def hinted(df: DataFrame, values: int, limits: Limits, hashed: bool = True) -> DataFrame:
    """The right side of a join with about so many values, with a word to Spark on how to join."""
    if values <= limits.broadcast_values:
        return df.hint("broadcast")
    return df.hint("shuffle_hash") if hashed and values <= limits.hash_values else df


def union_frames(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of DataFrames with the same columns."""
    return functools.reduce(lambda a, b: a.unionAll(b), frames)


Part = tuple[Table, tuple[Table, ...]]


class Version:
    """An immutable set of rows: disjoint parts, each without what was taken out of it. Serves as a view, too."""

    place: ClassVar[str] = CLUSTER

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

    def indexed(self, orders: Iterable[Order]) -> Version:
        return self

    @property
    def largest(self) -> Table | None:
        """The part that samples are taken from."""
        return max((part for part, _ in self.parts), key=len, default=None)

    def common(self, column: int) -> frozenset[Any]:
        """The values that many rows have in a column, by a sample."""
        return frozenset() if self.largest is None else self.largest.common(column)

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

    def settled_parts(self) -> list[Part]:
        """The parts, all of whose tables are in folders."""
        self.like.store.settle(self.tables())
        return [(part, tuple(table for table in gone if len(table))) for part, gone in self.parts if len(part)]

    def present(self, rows: Table, most: int) -> pa.Table | None:
        """Those of a few rows that it has, found without a job; None if more than `most` rows would have to be read."""
        if rows.here is None or not all(table.is_settled for table in self.tables()):
            return None
        wanted = {name: Wanted(rows.here.column(name).combine_chunks()) for name in rows.names[: rows.arity]}
        if sum(table.reading(wanted) for table in self.tables()) > most:
            return None
        coder, kinds, arity = Coder(), rows.kinds, rows.arity
        asked = coder.rows(rows.here, kinds, arity)
        found: list[pa.Table] = []
        for part, gone in self.parts:
            mine = shared(asked, coder.rows(part.matching(wanted, _no_look), kinds, arity))
            for other in gone if len(mine) else ():
                mine = left_of(mine, coder.rows(other.matching(wanted, _no_look), kinds, arity))
            if len(mine):
                found.append(coder.table(mine, kinds, arity))
        return pa.concat_tables(found) if found else arrow_schema(kinds).empty_table()

    def frame(self) -> DataFrame:
        """A DataFrame of the rows; lazy. Parts without the same tables are one scan, and so are those tables."""
        store, names = self.like.store, self.like.names
        if not self.parts:
            return store.empty(self.like.kinds, self.like.arity).frame()
        groups: dict[tuple[int, ...], tuple[list[Table], tuple[Table, ...]]] = {}
        for part, gone in self.parts:
            groups.setdefault(tuple(map(id, gone)), ([], gone))[0].append(part)
        frames = []
        for parts, gone in groups.values():
            df = store.scan(parts).select(*names)
            if gone:
                size = sum(map(len, gone)) * len(names)
                df = df.join(hinted(store.scan(gone).select(*names), size, store.limits), on=names, how="left_anti")
            frames.append(df)
        return union_frames(frames)

    def adding(self, rows: Table) -> Version:
        """With rows that it lacks."""
        if not len(rows):
            return self
        return Version(self.like, self._with(rows), self._size + len(rows))._compact()

    def _with(self, rows: Table) -> tuple[Part, ...]:
        """The parts with another; a few rows go to those that are here already."""
        few = [part for part, gone in self.parts if part.here is not None and not gone]
        if rows.here is None or sum(map(len, few)) + len(rows) > rows.store.limits.driver_rows:
            return (*self.parts, (rows, ()))
        kept = tuple((part, gone) for part, gone in self.parts if part.here is None or gone)
        return (*kept, (joined([*few, rows]), ()))

    def removing(self, rows: Table) -> Version:
        """Without rows that it has."""
        if not len(rows):
            return self
        parts = tuple(left for part, gone in self.parts for left in _left(part, gone, rows))
        return Version(self.like, parts, self._size - len(rows))._compact()

    def _compact(self) -> Version:
        """As it is, unless it has many parts: then the smaller ones are merged, or all where some were taken out of."""
        if not self._size:
            return Version(self.like, (), 0)
        most = self.like.store.limits.many_parts
        if len({id(table) for table in self.tables()}) <= most:
            return self
        kept: list[Part] = []
        if not any(gone for _, gone in self.parts):
            kept = sorted(self.parts, key=lambda part: -len(part[0]))[: most // 2]
        merging = tuple(part for part in self.parts if part not in kept)
        some = Version(self.like, merging, self._size - sum(len(part) for part, _ in kept))
        table = self.like.store.merged(some.tables(), some.frame, len(some))
        return Version(self.like, (*kept, (table, ())), self._size)

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


def _no_look() -> None:
    """Nobody watches."""


def joined(tables: Sequence[Table]) -> Table:
    """One table of the rows of some that are here."""
    first = tables[0]
    if len(tables) == 1:
        return first
    schema = arrow_schema(first.kinds)
    here = [table.here.select(schema.names).cast(schema) for table in tables if table.here is not None]
    return first.store.held(pa.concat_tables(here), first.kinds, first.arity)


def _left(part: Table, gone: tuple[Table, ...], rows: Table) -> list[Part]:
    """A part without rows, of which it may have some; a few rows are taken out at once."""
    if rows.here is None:
        return [(part, (*gone, rows))]
    if part.here is None:
        few = [table for table in gone if table.here is not None]
        if sum(map(len, few)) + len(rows) > part.store.limits.driver_rows:
            return [(part, (*gone, rows))]
        fresh = without(rows.here, [t.here for t in few if t.here is not None], part.kinds, part.arity)
        taken = joined([*few, part.store.held(fresh, part.kinds, part.arity)]) if fresh.num_rows else joined(few)
        return [(part, (*(table for table in gone if table.here is None), taken))]
    if any(table.here is None for table in gone):
        return [(part, (*gone, rows))]
    here = [table.here for table in (*gone, rows) if table.here is not None]
    left = without(part.here, here, part.kinds, part.arity)
    return [(part.store.held(left, part.kinds, part.arity), ())] if left.num_rows else []


class FrameTally:
    """An immutable map from rows to numbers, zero where nothing is stored: a sum of counted tables."""

    def __init__(self, like: Table, parts: tuple[Table, ...] = ()) -> None:
        self.like = like
        self.parts = parts

    def adding(self, counted: Table) -> FrameTally:
        """The map with these differences added."""
        if counted.known_empty:
            return self
        parts = (*self.parts, counted)
        if len(parts) <= self.like.store.limits.many_parts:
            return FrameTally(self.like, parts)
        return FrameTally(self.like, (self.like.store.merged(parts, FrameTally(self.like, parts).frame, None),))

    def frame(self) -> DataFrame:
        """A DataFrame of the rows whose number is not zero; lazy."""
        return summed([self.like.store.scan(self.parts)], self.like.names)

    def entries(self) -> Table:
        """All rows whose number is not zero."""
        if not self.parts:
            return self.like.store.empty(self.like.kinds, self.like.arity, weighted=True)
        return self.like.store.lazy(self.like, self.frame, self.parts, weighted=True, guess=guessed(self.parts))


def summed(frames: Sequence[DataFrame], names: list[str]) -> DataFrame:
    """The sums of weights, without zeros."""
    from pyspark.sql import functions as fn

    total = union_frames(frames).groupBy(*names).agg(fn.sum(WEIGHT).alias(WEIGHT))
    return total.filter(fn.col(WEIGHT) != 0)


Views = Mapping[tuple[str, Read], Version | FrameTally]  # a tally for `Read.RANK`, a version for all else


def version_of(views: Views, key: tuple[str, Read]) -> Version:
    """What is read by this name: all but ranks."""
    found = views[key]
    assert isinstance(found, Version)
    return found


def unsealed(rows: Rows) -> Table:
    """Rows that this backend made, as what they are."""
    assert isinstance(rows, Table)
    return rows


def unsealed_version(version: object) -> Version:
    """A version that this backend made, as what it is."""
    assert isinstance(version, Version)
    return version
