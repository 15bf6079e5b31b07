"""A program with locations on many nodes: in processes of this machine, or in the tasks of a Spark session."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import Kind, Relation
from sempre.api.intake import Intake, unknown
from sempre.api.program import Program
from sempre.api.refusals import check_count, check_place, check_session
from sempre.api.table_frames import pandas_frame, polars_frame
from sempre.backends.local import LocalBackend
from sempre.diagnostics import BackendError, DataError, Diagnostic, StateError
from sempre.limits import DEFAULTS
from sempre.network.assembly import ALGORITHMS, first_burst, local_program, rows_of, table_from
from sempre.network.carriers import Hello, network_processes, network_tasks
from sempre.network.coordinator import Carrier, Coordinator
from sempre.network.node import Address, Fact
from sempre.network.node_tables import Row
from sempre.network.placement import PLACEMENTS, placed
from sempre.network.plain import held, may_be, rows_from, shown, value_of
from sempre.network.psn import MOST_DERIVATIONS
from sempre.network.report import BurstReport
from sempre.network.simulate import DEFAULT_LIMIT, Burst
from sempre.results import Decoder
from sempre.workers.channel import Lost
from sempre.workers.codec import to_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sempre.spark.border import Border

# How often an epoch is tried when tasks are lost.
MOST_ATTEMPTS = 3


class Network:
    """The nodes of a program with locations, and what they hold.

    Parameters
    ----------
    program
        The rules, as a `Program` or as text. Every relation has a location: `.decl link(@s: symbol, d: symbol)`.
    spark
        A SparkSession, classic or Connect, whose tasks start the processes that host nodes; without one they are
        processes of this machine. It is never stopped or reconfigured.
    workers
        How many processes host nodes: by default as many as the session runs tasks at once, or one for each processor.
    algorithm
        How nodes keep what they derive: `auto`, `proofs`, `sets`, `psn` or `sn`.
    placement
        Which process hosts which node: by a `hash` of the address, by a partition of the `links` that the first facts
        have, or (`auto`) by what cuts fewer of them.
    limit
        After so many messages in one life of the processes, a program is taken to have no end.

    >>> network = Network('''
    ... .decl link(@s: symbol, d: symbol)
    ... .decl reach(@s: symbol, d: symbol)
    ... reach(@s, d) :- link(@s, d).
    ... reach(@s, d) :- link(@s, z), reach(@z, d).
    ... ''', workers=2)
    >>> report = network.apply(insert={"link": [("a", "b"), ("b", "c")]})
    >>> sorted(network["reach"])
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    >>> sorted(network["reach"].at("b"))
    [('b', 'c')]
    >>> network.close()
    """

    def __init__(
        self,
        program: Program | str,
        *,
        spark: Any = None,
        workers: int | None = None,
        algorithm: str = "auto",
        placement: str = "auto",
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        if placement not in PLACEMENTS:
            raise StateError(f"no placement is called `{placement}`", hint=f"They are {', '.join(PLACEMENTS)}.")
        if algorithm not in ALGORITHMS:
            raise StateError(f"no algorithm is called `{algorithm}`", hint=f"They are {', '.join(ALGORITHMS)}.")
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise StateError(f"`limit` is {limit!r}", hint="Use a whole number of messages from 1, or leave it out.")
        check_count(workers, "workers", 1)
        check_session(spark)
        self.program = program if isinstance(program, Program) else Program(program)
        self._local = local_program(self.program.checked, algorithm)
        self._algorithm = algorithm
        self._placement = placement
        self._limit = limit
        self._workers = workers
        self._spark = spark
        self._border: Border | None = None
        self._coordinator: Coordinator | None = None
        self._base: dict[Fact, None] = {}  # base facts of the last epoch
        self._pending: list[Burst] = []  # what happened since
        self._begun = 0.0
        self._epoch = -1
        self._read: dict[str, list[Row]] = {}
        self._totals = BurstReport(0)
        self._restarts = 0
        self._closed = False
        self._keeper = None  # a network has no store
        self._turn = threading.RLock()

    # ------------------------------------------------------------------------------------------------- epochs

    def load(self, directory: str | Path) -> BurstReport:
        """Read what `.input` says from a directory, and apply it. With a Spark session it is Spark that reads."""
        check_place(directory, "a folder of facts")
        if self._spark is not None:
            return self.apply(insert=self._edge().read_inputs(str(directory)).tables)
        from sempre.files import read_inputs

        return self.apply(insert=read_inputs(self.program.checked, Path(directory)))

    def apply(self, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> BurstReport:
        """Delete base facts, then insert some, and wait until all nodes have settled: one epoch.

        If anything fails, the epoch has not happened. So have changes not that were sent before and not waited for.

        Parameters
        ----------
        insert, delete
            Rows by relation: tuples, dicts, Arrow, pandas, polars or Spark DataFrames.
        """
        with self._turn:
            self.send(insert, delete)
            return self._settled()

    def send(self, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> None:
        """Let base facts change, and do not wait: earlier changes may still be under way. `settle` waits for all."""
        with self._turn:
            self._open()
            burst = Burst(self._facts(insert or {}), self._facts(delete or {}))
            self._send(burst)

    def settle(self) -> BurstReport:
        """Wait until all nodes have settled. What was sent since the last time is one epoch."""
        with self._turn:
            self._open()
            return self._settled()

    def _send(self, burst: Burst) -> None:
        if not self._pending:
            self._begun = time.perf_counter()
        if self._epoch < 0 and not self._pending:
            own = first_burst(self.program.checked, {}).insert
            burst = Burst((*own, *burst.insert), burst.delete)
        self._pending.append(burst)
        if self._coordinator is not None:
            try:
                self._coordinator.change(burst)
            except Lost:
                self._lost()  # whoever waits for it starts others
            except BaseException:
                self._give_up()
                raise

    def _settled(self) -> BurstReport:
        """Bring what is pending to its end, on other processes if some are lost; it is committed then."""
        if self._epoch < 0 and not self._pending:
            self._send(Burst())
        try:
            report = self._attempted()
        except BaseException:
            self._give_up()
            raise
        for burst in self._pending:
            for fact in burst.delete:
                self._base.pop(fact, None)
            self._base |= dict.fromkeys(burst.insert)
        report.changed = sum(len(burst.insert) + len(burst.delete) for burst in self._pending)
        report.seconds = time.perf_counter() - self._begun
        self._pending = []
        self._read = {}
        self._epoch += 1
        self._totals.add(report.to_wire())
        self._totals.changed += report.changed
        self._totals.seconds += report.seconds
        return report

    def _attempted(self) -> BurstReport:
        for attempt in range(MOST_ATTEMPTS):
            try:
                coordinator = self._started()
                coordinator.settle()
                return coordinator.report(self._epoch + 1)
            except Lost as error:
                self._lost()
                lost = error
                if attempt:
                    time.sleep(0.1 * attempt)
        hint = "Apply the changes again when the session is well; the last epoch can be read."
        raise BackendError(Diagnostic("E741", f"a task of the network was lost: {lost}", hint=hint)) from None

    def _started(self) -> Coordinator:
        """The processes, with the facts of the last epoch and what happened since on their way."""
        if self._coordinator is None:
            facts = dict(self._base)
            for burst in self._pending:
                facts |= dict.fromkeys(burst.insert)
            checked, size = self.program.checked, self._size()
            placement = placed(self._placement, size, self._local.relations, facts)
            hello = {
                "program": to_json(checked),
                "algorithm": self._algorithm,
                "most": MOST_DERIVATIONS,
                "placement": placement.to_json(),
            }
            carrier = self._hired(hello, size)
            self._coordinator = Coordinator(carrier, self._local.relations, placement, self._limit, checked.sources)
            self._begun = time.perf_counter()
            for burst in (Burst(tuple(self._base)), *self._pending):
                self._coordinator.change(burst)
        return self._coordinator

    def _size(self) -> int:
        if self._spark is None:
            return self._workers or os.cpu_count() or 1
        from sempre.spark.hired import checked_count

        return checked_count(self._spark, self._workers)

    def _hired(self, hello: Hello, size: int) -> Carrier:
        if self._spark is None:
            return network_processes(hello, size)
        return network_tasks(self._spark, hello, size)

    def _discard(self) -> None:
        """End the processes; others start when they are needed."""
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            coordinator.carrier.close()

    def _lost(self) -> None:
        self._discard()
        self._restarts += 1

    def _give_up(self) -> None:
        """Go back to the last epoch."""
        self._discard()
        self._pending = []

    # ------------------------------------------------------------------------------------------------ reading

    @property
    def epoch(self) -> int:
        """The number of the last epoch; 0 is the first."""
        with self._turn:
            self._ready()
            return self._epoch

    @property
    def nodes(self) -> list[Address]:
        """The addresses of all nodes that have been told anything."""
        with self._turn:
            return sorted(
                (self._seen(value_of(each)) for part in self._ready().ask("nodes") for each in part), key=repr
            )

    def _seen(self, address: Address) -> Address:
        """An address as users see it; that of an algebraic type begins with a number, unless it is another record."""
        checked = self.program.checked
        located = [(each.types, each.location) for each in checked.relations.values()]
        places = [types[at] for types, at in located if at is not None]
        kinds = {type_.name: type_ for type_ in places if type_.kind is Kind.RECORD}
        return shown(address, next(iter(kinds.values())), checked.types) if len(kinds) == 1 else address

    @property
    def stats(self) -> dict[str, Any]:
        """What was sent so far, in all, by node and by link, and the tasks that host nodes.

        `steps` is the most that an epoch took: see `apply`.
        """
        with self._turn:
            coordinator = self._ready()
            counted = self._totals.to_json()
            del counted["burst"]
            return {
                "epochs": self._epoch + 1,
                "tasks": coordinator.tasks,
                "placement": "links" if coordinator.placement.table else "hash",
                "restarts": self._restarts,
                **counted,
            }

    def __getitem__(self, name: str) -> NodeRelation:
        relation = self.program.relations.get(name)
        if relation is None:
            raise unknown(self.program, name)
        return NodeRelation(self, relation)

    def __iter__(self) -> Iterator[str]:
        return iter(self.program.relations)

    def __len__(self) -> int:
        return len(self.program.relations)

    def _ready(self) -> Coordinator:
        """The processes, settled in the last epoch."""
        self._open()
        if self._epoch < 0 or self._pending or self._coordinator is None:
            if self._epoch < 0 or self._pending:
                self._settled()
            else:
                self._again()
        assert self._coordinator is not None
        return self._coordinator

    def _again(self) -> None:
        """Let new processes derive the last epoch."""
        try:
            self._attempted()
        except BaseException:
            self._give_up()
            raise

    def _rows(self, relation: Relation, *address: Address) -> list[Row]:
        """The rows of the last epoch, at all nodes or at one."""
        with self._turn:
            self._open()
            if not address and not self._pending and relation.name in self._read:
                return self._read[relation.name]
            for _ in range(MOST_ATTEMPTS):
                try:
                    found = _joined(relation, self._ready().ask("read", relation.name, *address))
                    break
                except Lost:
                    self._lost()
            else:
                raise BackendError(Diagnostic("E741", "the tasks of the network were lost, again and again"))
            if not address:
                self._read[relation.name] = found
            return found

    # ------------------------------------------------------------------------------------------ what is around

    def close(self) -> None:
        """End the processes."""
        with self._turn:
            self._closed = True
            self._give_up()

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Network: {len(self)} relations, epoch {self._epoch}>"

    def _open(self) -> None:
        if self._closed:
            raise StateError("the network is closed")

    def _edge(self) -> Border:
        if self._border is None:
            from sempre.spark.border import Border

            self._border = Border(self._spark, self.program.checked)
        return self._border

    def _facts(self, given: Mapping[str, Any]) -> tuple[Fact, ...]:
        """Rows of any kind as nodes have them, each once."""
        if not given:
            return ()
        checked = self.program.checked
        backend = LocalBackend(checked, 1, DEFAULTS)
        coming = Intake(self.program, backend, self._edge).take(given)
        decoder = Decoder(backend.values, checked.types)
        facts: dict[Fact, None] = {}
        for name, (columns, size) in coming.codes.items():
            table = decoder.table(checked.relations[name], columns, size)
            facts |= dict.fromkeys((name, row) for row in rows_of(checked, name, table))
        return tuple(facts)

    def _staying(self) -> None:
        """Nothing stays on the cluster: nodes get their facts from here."""


def _joined(relation: Relation, parts: Iterable[list[Any]]) -> list[Row]:
    return [row for part in parts for row in rows_from(relation, part)]


class NodeRelation:
    """One relation of a network, at all its nodes."""

    def __init__(self, network: Network, relation: Relation) -> None:
        self._network = network
        self.relation = relation

    @property
    def name(self) -> str:
        return self.relation.name

    def at(self, address: Address) -> list[tuple[Any, ...]]:
        """The rows at one node."""
        types, place = self._network.program.checked.types, self.relation.location
        assert place is not None  # every relation of a network has one
        type_ = self.relation.types[place]
        if not may_be(address, type_.kind):
            message = f"relation `{self.name}`: column `{self.relation.columns[place]}` is {type_.kind.value}"
            raise DataError(Diagnostic("E500", f"{message}, and {address!r} ({type(address).__name__}) is not"))
        return list(self._shown(self._network._rows(self.relation, held(address, type_, types))))

    def __len__(self) -> int:
        return len(self._network._rows(self.relation))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._shown(self._network._rows(self.relation)))

    def __contains__(self, row: object) -> bool:
        return row in set(self)

    def _shown(self, rows: Iterable[Row]) -> Iterable[tuple[Any, ...]]:
        """Rows as `Database` shows them: branches have their names."""
        if Kind.RECORD not in self.relation.kinds:
            return rows
        network = self._network
        table = table_from(network.program.checked, self.relation, rows)
        backend = LocalBackend(network.program.checked, 1, DEFAULTS)
        coming = Intake(network.program, backend, network._edge).take({self.name: table})
        decoder = Decoder(backend.values, network.program.checked.types)
        return decoder.tuples(self.relation, *coming.codes[self.name])

    def to_arrow(self) -> pa.Table:
        """An Arrow table of all rows, sorted."""
        return table_from(self._network.program.checked, self.relation, self._network._rows(self.relation))

    def _stream(self) -> pa.Table:
        return self.to_arrow()

    def to_pandas(self) -> Any:
        """A pandas DataFrame of all rows."""
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> Any:
        """A polars DataFrame of all rows."""
        return polars_frame(self.to_arrow())

    def to_spark(self) -> DataFrame:
        """A Spark DataFrame of all rows."""
        if self._network._spark is None:
            raise BackendError("this needs a Spark session", hint="Make it with Network(program, spark=session).")
        return self._network._edge().frame(self.relation, self.to_arrow())

    def __repr__(self) -> str:
        return f"<NodeRelation {self.name}: {len(self):,} rows>"
