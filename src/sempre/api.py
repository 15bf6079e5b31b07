"""The public surface: programs, databases, relations, transactions, change sets.

>>> program = Program('''
... .decl edge(x: symbol, y: symbol)
... .decl reach(x: symbol, y: symbol)
... reach(x, y) :- edge(x, y).
... reach(x, z) :- reach(x, y), edge(y, z).
... ''')
>>> db = Database(program)
>>> changes = db.apply(insert={"edge": [("a", "b"), ("b", "c")]})
>>> sorted(db["reach"])
[('a', 'b'), ('a', 'c'), ('b', 'c')]
>>> changes = db.apply(delete={"edge": [("b", "c")]})
>>> changes.removed["reach"].to_pylist()
[{'x': 'a', 'y': 'c'}, {'x': 'b', 'y': 'c'}]
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram, Relation
from sempre.backends.local import LocalBackend
from sempre.diagnostics import BackendError, DataError, ProgramError, StateError
from sempre.engine import STRATEGIES, Engine, EpochResult, Progress
from sempre.ingest import encode_rows, is_spark_frame
from sempre.lang.parser import parse, parse_atom
from sempre.places import Places, parse_size, place_of
from sempre.plan.equivalence import close_equivalences
from sempre.results import Decoder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sempre.spark.border import Border
    from sempre.spark.cluster.backend import SparkBackend
    from sempre.verify import Verification

PLACES = ("auto", "driver", "workers", "cluster")


class Program:
    """A parsed and checked program.

    Parameters
    ----------
    text
        The program. Raises `ProgramError` with every error it has.
    file
        The name that messages show.
    """

    def __init__(self, text: str, file: str = "<program>") -> None:
        self.text = text
        self.syntax = parse(text, file)
        self.checked: CheckedProgram = check(self.syntax, {file: text})

    @staticmethod
    def from_file(path: str | Path) -> Program:
        """The program in a file."""
        try:
            text = Path(path).read_text("utf-8")
        except UnicodeDecodeError as error:
            raise ProgramError(f"`{path}` is not UTF-8 text: byte {error.start} cannot be decoded") from None
        except OSError as error:
            raise ProgramError(f"cannot read `{path}`: {(error.strerror or str(error)).lower()}") from None
        return Program(text, str(path))

    @property
    def relations(self) -> Mapping[str, Relation]:
        """The declared relations, by name."""
        return self.checked.relations

    def __repr__(self) -> str:
        return f"<Program: {len(self.checked.relations)} relations, {len(self.checked.rules)} rules>"


@dataclass(frozen=True, slots=True)
class Report:
    """How an epoch went; `to_json` has the keys of the command line's `--report`."""

    seconds: float
    strategy: str
    placement: str
    rounds: int
    instances: int
    added: dict[str, int]
    removed: dict[str, int]
    peak_rss: int
    why: str
    strata: tuple[dict[str, Any], ...]
    ignored_insertions: int
    ignored_deletions: int
    by_position: tuple[str, ...] = ()  # relations whose Spark columns have other names than declared
    jobs: int = 0  # Spark jobs that rounds on the cluster took

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "strata": list(self.strata), "by_position": list(self.by_position)}


class ChangeSet:
    """What one epoch changed.

    `added` and `removed` map every relation to an Arrow table, empty where nothing changed; tables are made when they
    are asked for. `report` says how the epoch went.
    """

    def __init__(
        self,
        added: Mapping[str, pa.Table],
        removed: Mapping[str, pa.Table],
        report: Report,
        frame: Callable[[ChangeSet, str], DataFrame] | None = None,
    ) -> None:
        self.added = added
        self.removed = removed
        self.report = report
        self._frame = frame

    def to_spark(self, relation: str) -> DataFrame:
        """A Spark DataFrame of the rows added to and removed from a relation.

        Its own columns come first, then `_epoch` and `_change`, which is `added` or `removed`.
        """
        if self._frame is None:
            raise StateError("these changes belong to no database")
        return self._frame(self, relation)

    def __bool__(self) -> bool:
        return any(self.report.added.values()) or any(self.report.removed.values())

    def __repr__(self) -> str:
        parts = []
        for name in self.added:
            plus, minus = self.report.added.get(name, 0), self.report.removed.get(name, 0)
            if plus or minus:
                parts.append(f"{name} +{plus} -{minus}")
        return f"<ChangeSet: {', '.join(parts) or 'nothing changed'}>"


class _Tables(Mapping[str, Any]):
    """Arrow tables by relation, made on first use."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Any]) -> None:
        self._names = tuple(names)
        self._make = make
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class View:
    """One relation of a database, as of the last epoch."""

    def __init__(self, database: Database, relation: Relation) -> None:
        self._database = database
        self.relation = relation

    @property
    def name(self) -> str:
        return self.relation.name

    def __len__(self) -> int:
        return len(self._database._version(self.name))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        rows = self._database._version(self.name).rows()
        return self._database._decoder.tuples(self.relation, rows.columns(), len(rows))

    def __contains__(self, row: object) -> bool:
        return self._database._contains(self.relation, row)

    def to_arrow(self) -> pa.Table:
        """An Arrow table of all rows."""
        rows = self._database._version(self.name).rows()
        return self._database._decoder.table(self.relation, rows.columns(), len(rows))

    def to_pandas(self) -> Any:
        """A pandas DataFrame of all rows."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A polars DataFrame of all rows."""
        import polars as pl

        return pl.from_arrow(self.to_arrow())

    def to_spark(self) -> DataFrame:
        """A Spark DataFrame of all rows, as they are now: later epochs do not change it."""
        version, cluster = self._database._version(self.name), self._database._cluster
        if cluster is not None and place_of(version) == "cluster":
            self._database._shown.append(version)  # its files stay as long as the database
            return cluster.frame(self.relation, version)
        return self._database._border().frame(self.relation, self.to_arrow())

    def __repr__(self) -> str:
        columns = ", ".join(
            f"{name}: {type_.name}" for name, type_ in zip(self.relation.columns, self.relation.types, strict=True)
        )
        return f"<View {self.name}({columns}): {len(self):,} rows>"


class Transaction:
    """Collects the changes of one epoch; the last operation on a fact wins."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.operations: list[tuple[str, bool, list[np.ndarray[Any, Any]], int]] = []
        self.changes: ChangeSet | None = None

    def insert(self, relation: str, rows: Any) -> None:
        """Insert rows when the transaction ends."""
        self._add(relation, rows, insert=True)

    def delete(self, relation: str, rows: Any) -> None:
        """Delete rows when the transaction ends."""
        self._add(relation, rows, insert=False)

    def _add(self, relation: str, rows: Any, insert: bool) -> None:
        columns, size = self._database._encode(relation, rows)
        self.operations.append((relation, insert, columns, size))


class Database:
    """The relations of a program, kept up to date.

    Parameters
    ----------
    program
        The rules, as a `Program` or as text.
    spark
        A SparkSession, classic or Connect, for `to_spark`, `load` and views. It is never stopped or reconfigured.
    strategy, modules, place, semantics, threads, workers, memory
        Expert knobs; the defaults choose by themselves.
    progress
        Called during long epochs with an object that has `stratum`, `strata`, `round`, `facts` and `seconds`.
    """

    def __init__(
        self,
        program: Program | str,
        *,
        spark: Any = None,
        store: Any = None,
        strategy: str = "auto",
        modules: str | Iterable[str] = "auto",
        place: str = "auto",
        semantics: str | None = None,
        threads: int | None = None,
        workers: int | None = None,
        memory: str | int | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.program = Program(program) if isinstance(program, str) else program
        _check_options(strategy, place, semantics, store)
        self._spark = spark
        self._made_border: Border | None = None
        checked = close_equivalences(self.program.checked)
        self._backend = LocalBackend(checked, threads)
        self._cluster = _cluster(checked, spark, place, self._backend)
        self._engine = _engine(checked, self._backend, self._cluster, strategy, progress, place, memory)
        self._decoder = Decoder(self._backend.values, checked.types)
        self._place = place
        self._shown: list[Any] = []
        self._closed = False

    # ------------------------------------------------------------------------------------------------- epochs

    @property
    def epoch(self) -> int:
        """The number of the last epoch; 0 is the first materialization."""
        self._materialized()
        return self._engine.snapshot.epoch

    def load(self, directory: str | Path) -> ChangeSet:
        """Read what `.input` says from a directory: part of epoch 0 if nothing happened yet, else an epoch.

        With a Spark session it is Spark that reads, and the directory may be a URL.
        """
        if self._spark is not None:
            tables = self._border().read_inputs(str(directory))
        else:
            from sempre.files import read_inputs

            tables = read_inputs(self.program.checked, Path(directory))
        return self.materialise(tables) if self._engine.snapshot.epoch < 0 else self.apply(insert=tables)

    def materialise(self, tables: Mapping[str, Any] | None = None) -> ChangeSet:
        """Epoch 0: the program's own facts, and these tables. Can only be the first thing that happens."""
        self._open()
        if self._engine.snapshot.epoch >= 0:
            raise StateError("the database is materialized already", hint="Use apply() for further facts.")
        kept, tables = self._kept(tables or {})
        encoded = self._encode_all(tables)
        for name, (columns, size) in self._program_facts().items():
            mine = encoded.get(name)
            if mine is None:
                encoded[name] = (columns, size)
            else:
                encoded[name] = ([np.concatenate(pair) for pair in zip(mine[0], columns, strict=True)], mine[1] + size)
        return self._apply(encoded, {}, kept)

    def apply(self, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> ChangeSet:
        """One epoch: delete, then insert; all of it or, if anything fails, nothing.

        Parameters
        ----------
        insert, delete
            Rows by relation: tuples, dicts, Arrow, pandas, polars or Spark DataFrames.
        """
        self._open()
        self._materialized()
        coming, insert = self._kept(insert or {})
        going, delete = self._kept(delete or {})
        return self._apply(self._encode_all(insert), self._encode_all(delete), coming, going)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Collect insertions and deletions, applied as one epoch at the end; an exception leaves nothing behind."""
        self._open()
        self._materialized()
        transaction = Transaction(self)
        yield transaction
        insert, delete = self._last_wins(transaction.operations)
        transaction.changes = self._finish(insert, delete)

    def _last_wins(self, operations: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Rows to insert and to delete, when the last operation on each row decides."""
        backend = self._backend
        backend.fit({name: columns for name, _, columns, _ in operations})
        insert: dict[str, Any] = {}
        delete: dict[str, Any] = {}
        for name, is_insert, columns, size in operations:
            rows = backend.rows(name, columns, size)
            target, other = (insert, delete) if is_insert else (delete, insert)
            target[name] = backend.union([target[name], rows]) if name in target else rows
            if name in other:
                other[name] = backend.difference(other[name], backend.version(rows))
        return insert, delete

    def _kept(self, tables: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Spark DataFrames that stay on the cluster, as its rows; and all other tables."""
        kept: dict[str, Any] = {}
        if self._cluster is not None and self._place == "cluster":
            for name, rows in tables.items():
                relation = self.program.relations.get(name)
                if relation is not None and relation.arity and is_spark_frame(rows):
                    kept[name] = self._border().keep(relation, rows, self._cluster)
            self._cluster.settle(kept.values())
        return kept, {name: rows for name, rows in tables.items() if name not in kept}

    def _apply(
        self,
        insert: Mapping[str, Any],
        delete: Mapping[str, Any],
        coming: Mapping[str, Any] | None = None,
        going: Mapping[str, Any] | None = None,
    ) -> ChangeSet:
        """One epoch: columns of codes, and rows (`coming`, `going`) that are on the cluster."""
        backend = self._backend
        backend.fit({name: columns for name, (columns, _) in insert.items()})
        if self._engine.is_empty:
            self._engine.reset()
        plus = {name: backend.rows(name, *encoded) for name, encoded in insert.items()}
        minus = {name: backend.rows(name, *encoded) for name, encoded in delete.items()}
        return self._finish(self._joined(plus, coming), self._joined(minus, going))

    def _joined(self, rows: Mapping[str, Any], others: Mapping[str, Any] | None) -> dict[str, Any]:
        """Rows in the driver and rows on the cluster as one set per relation."""
        found = dict(rows)
        for name, other in (others or {}).items():
            mine = found.get(name)
            if mine is not None and self._cluster is not None:
                brought = self._engine.places.bring_rows(name, mine, "cluster")
                other = self._cluster.union([other, brought])
            found[name] = other
        return found

    def _finish(self, plus: Mapping[str, Any], minus: Mapping[str, Any]) -> ChangeSet:
        jobs = 0 if self._cluster is None else self._cluster.jobs
        result = self._engine.apply(plus, minus)
        return self._change_set(result, 0 if self._cluster is None else self._cluster.jobs - jobs)

    def _change_set(self, result: EpochResult, jobs: int) -> ChangeSet:
        relations = self.program.relations

        def table(name: str, side: str) -> Any:
            change = result.changes.get(name)
            if change is None:
                return self._decoder.table(relations[name], [np.empty(0, np.int64)] * relations[name].arity, 0)
            rows = getattr(change, side)
            return self._decoder.table(relations[name], rows.columns(), len(rows))

        report = Report(
            result.seconds,
            result.strategy,
            result.placement,
            sum(stratum.rounds for stratum in result.strata),
            result.instances,
            {name: len(change.plus) for name, change in result.changes.items()},
            {name: len(change.minus) for name, change in result.changes.items()},
            peak_rss(),
            result.why,
            tuple(asdict(stratum) for stratum in result.strata),
            result.ignored_insertions,
            result.ignored_deletions,
            self._made_border.by_position() if self._made_border else (),
            jobs,
        )
        names, epoch = tuple(relations), self._engine.snapshot.epoch

        def frame(changes: ChangeSet, name: str) -> Any:
            if name not in relations:
                raise self._unknown(name)
            return self._border().changes_frame(relations[name], epoch, changes)

        added = _Tables(names, lambda name: table(name, "plus"))
        return ChangeSet(added, _Tables(names, lambda name: table(name, "minus")), report, frame)

    # ------------------------------------------------------------------------------------------------ reading

    def __getitem__(self, name: str) -> View:
        relation = self.program.relations.get(name)
        if relation is None:
            raise self._unknown(name)
        self._open()
        self._materialized()
        return View(self, relation)

    def __iter__(self) -> Iterator[str]:
        return iter(self.program.relations)

    def __contains__(self, name: object) -> bool:
        return name in self.program.relations

    def query(self, text: str) -> pa.Table:
        """The bindings of the variables of an atom such as `reach("a", X)`, one column each, distinct rows."""
        from sempre.query import answer

        atom = parse_atom(text)
        if atom.relation not in self.program.relations:
            raise self._unknown(atom.relation)
        relation = self.program.relations[atom.relation]
        self._materialized()
        return answer(atom, relation, self._version(relation.name).rows(), self._encode_constants, self._decoder)

    def verify(self) -> Verification:
        """Compare facts and counters with a run from scratch; `.ok`, or `.differences` with what is wrong."""
        from sempre.verify import verify

        self._materialized()
        return verify(self._engine, self._decoder)

    def _encode_constants(self, relation: Relation, column: int, value: Any) -> int:
        from sempre.ingest import encode_value

        return encode_value(relation, column, value, self._backend.values, self.program.checked.types)

    def register_views(self, *names: str, prefix: str = "") -> list[str]:
        """Make relations temporary views of the Spark session, so that `spark.sql` can use them.

        Parameters
        ----------
        names
            The relations; all of them if none is named.
        prefix
            Put before each name, where the session has views of the same names.

        Returns the names of the views. They show the present epoch: ask again after the next.
        """
        views = [self[name] for name in names or self.program.relations]
        return self._border().register([(view.relation, view.to_arrow()) for view in views], prefix)

    # -------------------------------------------------------------------------------------------------- inside

    def _border(self) -> Border:
        if self._made_border is None:
            from sempre.spark.border import Border

            self._made_border = Border(self._spark, self.program.checked)
        return self._made_border

    def close(self) -> None:
        """Give back threads and memory; the database cannot be used afterwards."""
        self._closed = True
        self._backend.close()
        if self._cluster is not None:
            self._cluster.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> None:
        if self._closed:
            raise StateError("the database is closed")

    def _materialized(self) -> None:
        """Make sure that epoch 0 has happened."""
        self._open()
        if self._engine.snapshot.epoch < 0:
            self.materialise()

    def _version(self, name: str) -> Any:
        self._open()
        return self._engine.snapshot.versions[name]

    def _unknown(self, name: str) -> DataError:
        import difflib

        close = difflib.get_close_matches(name, self.program.relations, 1)
        return DataError(f"no relation is called `{name}`", hint=f"Did you mean `{close[0]}`?" if close else "")

    def _encode(self, name: str, rows: Any) -> tuple[list[Any], int]:
        relation = self.program.relations.get(name)
        if relation is None:
            raise self._unknown(name)
        if is_spark_frame(rows):
            rows = self._border().take(relation, rows)
        return encode_rows(relation, rows, self._backend.values, self.program.checked.types)

    def _encode_all(self, tables: Mapping[str, Any]) -> dict[str, tuple[list[Any], int]]:
        return {name: self._encode(name, rows) for name, rows in tables.items()}

    def _program_facts(self) -> dict[str, tuple[list[Any], int]]:
        by_relation: dict[str, list[Any]] = {}
        for fact in self.program.checked.facts:
            by_relation.setdefault(fact.relation, []).append(fact)
        return {name: (self._backend.constants(facts), len(facts)) for name, facts in by_relation.items()}

    def _contains(self, relation: Relation, row: object) -> bool:
        try:
            columns, size = encode_rows(relation, [row], self._backend.values, self.program.checked.types)
        except DataError:
            return False
        version, places = self._version(relation.name), self._engine.places
        place = place_of(version)
        rows = places.bring_rows(relation.name, self._backend.rows(relation.name, columns, size), place)
        return len(places.backends[place].intersection(rows, version)) > 0


def _check_options(strategy: str, place: str, semantics: str | None, store: Any) -> None:
    known = sorted(STRATEGIES)
    if strategy not in known:
        raise StateError(f"unknown strategy `{strategy}`", hint=f"Use one of: {', '.join(known)}.")
    if place == "workers":
        raise BackendError("place `workers` is not available yet", hint="Use `cluster`, or leave it to `auto`.")
    if place not in PLACES:
        raise BackendError(f"unknown place `{place}`", hint=f"Use one of: {', '.join(PLACES)}.")
    if semantics not in (None, "stratified"):
        raise StateError(f"semantics `{semantics}` is not available yet", hint="Use `stratified`.")
    if store is not None:
        raise StateError("durable stores are not available yet", hint="Leave `store` out.")


def _cluster(checked: CheckedProgram, spark: Any, place: str, driver: LocalBackend) -> SparkBackend | None:
    """The backend on DataFrames, if it may be needed."""
    if place == "cluster" and spark is None:
        hint = "Make it with Database(program, spark=session)."
        raise BackendError("place `cluster` needs a Spark session", hint=hint)
    if spark is None or place == "driver":
        return None
    from sempre.spark.cluster.backend import SparkBackend

    cluster = SparkBackend(checked, spark, driver.values)
    if place == "cluster":
        cluster.check()
    return cluster


def _engine(
    checked: CheckedProgram,
    driver: LocalBackend,
    cluster: SparkBackend | None,
    strategy: str,
    progress: Callable[[Progress], None] | None,
    place: str,
    memory: str | int | None,
) -> Engine:
    if cluster is None:
        return Engine(checked, driver, strategy, progress)
    backends: dict[str, Any] = {"driver": driver, "cluster": cluster}
    if place == "cluster":
        return Engine(checked, cluster, strategy, progress, Places(checked, backends, place))
    places = Places(checked, backends, place, parse_size(memory), unfit=cluster.unfit)
    return Engine(checked, driver, strategy, progress, places)


def peak_rss() -> int:
    """The most memory this process has held, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
