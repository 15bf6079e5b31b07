"""Relations to read: those of a database, and those of a past cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sempre.analysis.model import Relation
from sempre.api.table_frames import pandas_frame, polars_frame
from sempre.diagnostics import DataError, StateError
from sempre.engine import Snapshot
from sempre.ingest import encode_rows
from sempre.kernel.select import Selection
from sempre.plan.backend import CLUSTER, DRIVER
from sempre.results import RelationShape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sempre.api.epochs import Epochs
    from sempre.api.relation_frames import RelationFrames

T = TypeVar("T")


def contains(database: Epochs, version_of: Callable[[str], Any], relation: Relation, row: object) -> bool:
    """Whether a relation has a row, in the version that is asked for; what cannot be a row of it is not there."""
    backend = database._backend
    version = version_of(relation.name)  # first: a value that is numbered later is in none of its rows
    try:
        columns, size = encode_rows(relation, [row], database._values_to_ask(), database.program.checked.types)
    except DataError:
        return False
    rows = backend.rows(relation.name, columns, size)
    place = version.place
    if place == DRIVER:
        return bool(version.contains(rows).all())
    places = database._stratified(f"place {place}").places
    return len(places.backends[place].intersection(places.bring_rows(relation.name, rows, place), version)) > 0


def find(database: Epochs, snapshot: Snapshot, name: str, selection: Selection) -> Any:
    """The selected rows of a state; from the store's files, where the relation has not been read yet."""
    keeper = database._keeper
    found = keeper.search(name, selection, snapshot) if keeper else None
    if found is not None:
        return found
    return database._retried(lambda: _selected(database, database._version(name, snapshot), name, selection))


def _selected(database: Epochs, version: Any, name: str, selection: Selection) -> Any:
    if version.place == CLUSTER:
        from sempre.spark.cluster.arrow_output import selected

        rows = selected(version, selection)
        return database._backend.receive(name, rows.columns(), len(rows))
    rows = version.rows()
    return selection.of(rows if version.place == DRIVER else database._backend.receive(name, rows.columns(), len(rows)))


class View:
    """One relation of a database, as of the last epoch, or of a cycle of its run."""

    def __init__(self, database: Epochs | Past, relation: Relation) -> None:
        self._database = database
        self.relation = relation
        self._shape = RelationShape(relation, database._decoder)

    @property
    def name(self) -> str:
        return self.relation.name

    def __len__(self) -> int:
        return len(self._database._version(self.name))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        def read() -> tuple[Any, int]:
            rows = self._database._version(self.name).rows()
            return rows.columns(), len(rows)

        return self._database._decoder.tuples(self.relation, *self._database._retried(read))

    def __contains__(self, row: object) -> bool:
        return self._database._contains(self.relation, row)

    def to_arrow(self) -> pa.Table:
        """An Arrow table of all rows."""
        return self._database._retried(lambda: self._database._version(self.name).rows().to_arrow(self._shape))

    def _stream(self) -> pa.Table | pa.RecordBatchReader:
        """All rows, to be read once; what is on the cluster is read batch by batch."""
        return self._database._retried(lambda: self._database._version(self.name).rows().to_stream(self._shape))

    def to_pandas(self) -> Any:
        """A pandas DataFrame of all rows."""
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> Any:
        """A polars DataFrame of all rows."""
        return polars_frame(self.to_arrow())

    def to_spark(self) -> DataFrame:
        """A Spark DataFrame of all rows, as they are now: later epochs do not change it."""
        shape = self._database._frames.shape(self.relation)
        made: DataFrame = self._database._retried(lambda: self._database._version(self.name).rows().to_frame(shape))
        return made

    def explain(self, row: Sequence[Any], **options: Any) -> Any:
        """Why a row is there, or with `absent=True` why it is not: see `Database.explain`, whose options these are."""
        if isinstance(self._database, Past):
            raise StateError("only the present is explained", hint="`Database.explain` tells of all cycles of a fact.")
        return self._database._explained(self.relation, row, **options)

    def _first(self, count: int) -> list[tuple[Any, ...]]:
        """Some rows, of which no more are made than are asked for; on the cluster by one job."""

        def read() -> list[tuple[Any, ...]]:
            version = self._database._version(self.name)
            if version.place == CLUSTER:
                found = self.to_spark().limit(count).toArrow()
                return [tuple(row.values()) for row in found.to_pylist()]
            rows = version.rows()
            columns = [column[:count] for column in rows.columns()]
            return list(self._database._decoder.tuples(self.relation, columns, min(count, len(rows))))

        return self._database._retried(read)

    def _repr_html_(self) -> str:
        from sempre.api.notebooks import NOTEBOOK_ROWS, rows_html

        return rows_html(self.name, self.relation.columns, self._first(NOTEBOOK_ROWS), len(self))

    def __repr__(self) -> str:
        columns = ", ".join(
            f"{name}: {type_.name}" for name, type_ in zip(self.relation.columns, self.relation.types, strict=True)
        )
        return f"<View {self.name}({columns}): {len(self):,} rows>"


class Past(Mapping[str, View]):
    """The relations of an active database as they were after one of its cycles, to read like a database."""

    def __init__(self, database: Epochs, chains: Mapping[str, Any], cycle: int) -> None:
        self._database = database
        self._decoder = database._decoder
        self._chains = chains
        self._versions: dict[str, Any] = {}
        self.cycle = cycle

    def __getitem__(self, name: str) -> View:
        if name not in self._chains:
            raise self._database._unknown(name)
        return View(self, self._database.program.relations[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._chains)

    def __len__(self) -> int:
        return len(self._chains)

    def __repr__(self) -> str:
        return f"<Past: {len(self)} relations after cycle {self.cycle}>"

    def _version(self, name: str) -> Any:
        if name not in self._versions:
            self._versions[name] = self._chains[name].at(self.cycle)
        return self._versions[name]

    def _retried(self, read: Callable[[], T]) -> T:
        return read()

    def _contains(self, relation: Relation, row: object) -> bool:
        return contains(self._database, self._version, relation, row)

    @property
    def _frames(self) -> RelationFrames:
        return self._database._frames
