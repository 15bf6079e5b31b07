"""What one worker does: it carries out the driver's commands, on its shards, together with the others.

Commands come in one order, and every worker carries out all of them. A command that makes something says by which
number the driver will call it, and its size is told without being asked for. A worker that fails at a command says so,
and passes over what follows until the driver begins anew: whatever was made before stays as it is.
"""

from __future__ import annotations

import itertools
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sempre.analysis.model import CheckedProgram, Var
from sempre.backends.bindings import Bindings, Sink
from sempre.backends.column_values import ColumnValues, values_of
from sempre.backends.local import LocalBackend, Repeats, multiplies
from sempre.backends.trace_statistics import TraceStatistics
from sempre.data import dataclass
from sempre.diagnostics import SempreError
from sempre.kernel import join
from sempre.kernel.capacity import CapacityError
from sempre.kernel.layout import Field, Keys, fields_covering, packing
from sempre.kernel.tally import Counted
from sempre.kernel.trace import RowSet, Trace
from sempre.limits import Limits
from sempre.modules.spec import Module
from sempre.plan.faults import located
from sempre.plan.ops import Neighbors, Plan, Read, decided_plan
from sempre.workers.channel import Channel, Heart, Lost, take
from sempre.workers.codec import from_json, to_json
from sempre.workers.findings import FoundCounts, NewHeads
from sempre.workers.flow import Copied, Flow, Sending, ShardViews, Splits
from sempre.workers.framing import Column, Frame, FrameError
from sempre.workers.mesh import Aborted, Gathered, Mesh, Parcel
from sempre.workers.paths import SharedPaths
from sempre.workers.placing import EVERYWHERE, Workers, counted_values, home_column, owners, placed_by, split
from sempre.workers.set_commands import Numbered, Numbers, SetCommands
from sempre.workers.shards import NO_VALUES, Bring, Pick, Shard, ShardView
from sempre.workers.shared_values import SharedValues
from sempre.workers.walks import Request, Walks

# The lease: without a word from the driver for so long, a worker ends.
LEASE_SECONDS = 60.0
# Of values with at most so many bits it is written down where each is at home.
OWNED_BITS = 20
# Workers of one process are told apart by these.
_numbers = itertools.count()


class StagedPlan:
    """A plan, and its stages on this worker."""

    __slots__ = ("_flows", "_make", "multiplies", "plan", "repeats")

    def __init__(self, plan: Plan, make: Callable[[Plan, Copied, Splits], Flow]) -> None:
        self.plan = plan
        self._make = make
        self._flows: dict[tuple[Copied, Splits], Flow] = {}
        self.multiplies = multiplies(plan.steps)
        self.repeats = Repeats()

    def flow(self, copied: Copied, splits: Splits) -> Flow:
        """The stages, where all workers have all rows of some of the versions that the plan reads, or share values."""
        found = self._flows.get((copied, splits))
        if found is None:
            found = self._flows[copied, splits] = self._make(self.plan, copied, splits)
        return found


@dataclass(frozen=True, slots=True)
class Told:
    """Rows of versions with this content that are at home elsewhere."""

    content: object
    rows: Trace


@dataclass(frozen=True, slots=True)
class Sent:
    """What was found that versions of this content did not have; of all of it, this worker sent these rows home."""

    content: object
    found: Keys
    rows: RowSet


class Worker(SetCommands):
    """The shards of one worker, and the commands on them."""

    def __init__(self, program: CheckedProgram, mesh: Mesh, driver: Channel, limits: Limits) -> None:
        self._program = program
        self._mesh = mesh
        self._driver = driver
        self._peers = mesh.channels
        self._waiting: list[Frame] = []  # commands that came while something else was waited for
        super().__init__(LocalBackend(program, 1, limits))
        self._values = SharedValues(self._ask)
        self._local.values = self._values
        # One worker has all rows at home, and no copies.
        self._homes = {
            name: home_column(relation) if mesh.size > 1 else None for name, relation in program.relations.items()
        }
        self._tables: dict[Field, Workers] = {}
        self._known_there: dict[str, Told] = {}
        self._sent: dict[str, Sent] = {}
        self._failed: dict[str, Any] | None = None
        self._sizes: list[list[int]] = []
        self._number = next(_numbers)
        self._walks = Walks(self._local, mesh, self._owners)
        self._has_walked = False

    # ------------------------------------------------------------------------------------------------- the loop

    def run(self) -> None:
        """Carry out commands until the driver has gone."""
        heart = Heart((self._driver, *self._peers), f"heart of worker {self._mesh.me}")
        try:
            while self._carry_out(self._waiting.pop(0) if self._waiting else self._heard()):
                pass
        except (Lost, FrameError):
            return  # without the driver there is nothing to do; without a worker there is no state
        finally:
            heart.stop()

    def _heard(self) -> Frame:
        """What the driver says next."""
        return take(self._driver, self._peers, silence=LEASE_SECONDS)

    def _carry_out(self, frame: Frame) -> bool:
        header = frame.header
        name = header["op"]
        if name == "end":
            return False
        if int(header["n"]) != self._mesh.command + 1:
            raise Lost("a command was left out")
        self._mesh.begin(int(header["n"]))
        for number in header.get("free", ()):
            self._held.pop(number, None)
        if name == "anew":
            self._failed = None
            self._mesh.begin_anew(self._mesh.command)
        elif self._failed is None:
            self._try(name, frame)
        if header.get("answer"):
            self._answer(header)
        if self._sizes and not self._waiting and not self._driver.has_frames:
            self._driver.put(Frame({"sizes": self._sizes}))
            self._sizes = []
        return True

    def _try(self, name: str, frame: Frame) -> None:
        try:
            made = getattr(self, f"_{name}")(*frame.header.get("args", ()), *([frame.columns] if frame.columns else ()))
        except Aborted:
            self._say_failed({"kind": "aborted"})
        except Lost:
            raise
        except CapacityError as limit:
            self._fail({"kind": "limit", "message": str(limit), "hint": limit.hint})
        except SempreError as error:
            self._fail({"kind": type(error).__name__, "diagnostics": [to_json(d) for d in error.diagnostics]})
        except MemoryError:
            self._fail({"kind": "memory", "message": "the memory of a worker is used up"})
        except Exception:  # noqa: BLE001 - the driver is told, and decides
            self._fail({"kind": "internal", "message": traceback.format_exc()})
        else:
            out = frame.header.get("out", ())
            for number, value in zip(out, made if len(out) > 1 else (made,), strict=bool(out)):
                self._keep(number, value)

    def _keep(self, number: int, value: Any) -> None:
        self._held[number] = value
        if isinstance(value, RowSet | Counted):
            self._sizes.append([number, len(value)])

    def _fail(self, what: dict[str, Any]) -> None:
        self._mesh.abort()
        self._say_failed(what)

    def _say_failed(self, what: dict[str, Any]) -> None:
        self._failed = what
        self._driver.put(Frame({"failed": what, "at": self._mesh.command}))

    def _answer(self, header: dict[str, Any]) -> None:
        if self._failed is not None:
            return  # the driver has been told
        try:
            content, columns = getattr(self, f"_tell_{header['op']}")(*header.get("args", ()))
        except Exception:  # noqa: BLE001 - as above
            self._fail({"kind": "internal", "message": traceback.format_exc()})
        else:
            self._driver.put(Frame({"answer": content, "to": header["n"]}, columns))

    def _ask(self, question: dict[str, Any], columns: list[Column]) -> Frame:
        """Ask the driver something in the middle of a command."""
        self._driver.put(Frame({"question": question}, columns))
        while True:
            frame = self._heard()
            if "reply" in frame.header:
                return frame
            self._waiting.append(frame)

    # ------------------------------------------------------------------------------------------------- questions

    def _forget(self) -> None:
        """The driver has taken back codes of values: those that are known here may be among them."""
        self._values.symbols.forget_codes()

    def _sync(self) -> None:
        """Nothing: the driver wants to know that everything before has been done."""

    def _tell_sync(self) -> tuple[Any, list[Column]]:
        return None, []

    def _fetch(self, number: int) -> None:
        """See `_tell_fetch`."""

    def _tell_fetch(self, number: int) -> tuple[Any, list[Column]]:
        """The rows that are at home here, and the numbers beside them if there are any."""
        held = self._held[number]
        rows = held.home.rows() if isinstance(held, Shard) else held if isinstance(held, RowSet) else held.rows()
        columns = rows.columns()
        if isinstance(held, Counted):
            columns.append(held.weights.astype(np.int64))
        return len(rows), columns

    def _statistics(self, number: int, columns: Sequence[int]) -> None:
        """See `_tell_statistics`."""

    def _tell_statistics(self, number: int, columns: Sequence[int]) -> tuple[Any, list[Column]]:
        """Of the rows at home here, by some of their columns: see `statistics.Share`."""
        shard: Shard = self._held[number]
        relation, size = shard.relation, shard.home.size
        statistics = TraceStatistics({relation: shard.home}, self._local.limits)
        matching = statistics.matching(relation, tuple(columns))
        alone = len(columns) == 1
        values = statistics.distinct(relation, columns[0]) if alone else size / matching.mean
        return [size, float(values), matching.crowd], []

    def _share(self, values: int, version: int, column: int) -> None:
        """See `_tell_share`."""

    def _tell_share(self, values: int, version: int, column: int) -> tuple[Any, list[Column]]:
        """How many rows are at home here, and about what part of them has one of the values in a column."""
        home, held = self._shard(version).home, self._held[values]
        return [home.size, held.share(home, column)], []

    def _column_values(self, version: int, column: int) -> ColumnValues:
        """The values of a column at all workers."""
        mine = values_of(self._shard(version).home, column)
        parts = self._mesh.exchange([[mine]] * self._mesh.size).parts
        return ColumnValues(join.distinct(np.concatenate([NO_VALUES, *(part[0] for part in parts)])))

    def _having(self, values: int, rows: int, column: int) -> RowSet:
        held: ColumnValues = self._held[values]
        return held.having(self._held[rows], column)

    def _report(self) -> None:
        """See `_tell_report`."""

    def _tell_report(self) -> tuple[Any, list[Column]]:
        shards = [held for held in self._held.values() if isinstance(held, Shard)]
        traces = {id(trace): trace for shard in shards for trace in (shard.home, *shard.copies.values())}
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "process": os.getpid(),
            "number": self._number,
            "processor": round(used.ru_utime + used.ru_stime, 3),
            "peak": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            "commands": self._mesh.command,
            "exchanges": self._mesh.exchanges,
            "instances": self._local.instances,
            "rows": sum(trace.size for trace in traces.values()),
            "bytes": self._walks.nbytes
            + sum(trace.nbytes for trace in (*traces.values(), *(told.rows for told in self._known_there.values()))),
            "split": len(
                {(shard.relation, c, v) for shard in shards for c, vs in shard.common.items() for v in vs.tolist()}
            ),
            "rows_sent": self._mesh.rows_sent,
            "bytes_sent": self._mesh.bytes_sent,
            "waited": round(self._mesh.waited, 6),
        }, []

    # ------------------------------------------------------------------------------------------------- relations

    def _rows_of(self, relation: str, columns: Sequence[Column], size: int) -> RowSet:
        self._local.fit({relation: columns})
        return self._local.rows(relation, columns, size)

    def _receive(self, relation: str, size: int, columns: Sequence[Column] = ()) -> RowSet:
        if not size:
            return self._local.no_rows(relation)
        if not self._program.relations[relation].arity:
            return self._local.rows(relation, [], 1)
        return self._rows_of(relation, columns, size)

    def _empty(self, relation: str) -> Shard:
        return Shard(relation, self._local.empty(relation))

    def _same(self, number: int) -> Shard:
        return self._shard(number)

    def _rows(self, number: int) -> RowSet:
        return self._shard(number).home.rows()

    def _version(self, relation: str, number: int, orders: Iterable[Sequence[int]], everywhere: bool) -> Shard:
        shard = Shard(relation, Trace.of(self._held[number]))
        return self._indexed_shard(shard, orders, everywhere)

    def _indexed_shard(self, shard: Shard, orders: Iterable[Sequence[int]], everywhere: bool) -> Shard:
        wanted, relation = [tuple(order) for order in orders], shard.relation
        pick = self._pick(relation) if everywhere else None
        return shard.indexed(wanted, self._homes[relation], self._bring(relation), pick)

    def _indexed(self, number: int, orders: Iterable[Sequence[int]], everywhere: bool) -> Shard:
        return self._indexed_shard(self._shard(number), orders, everywhere)

    def _spread(self, number: int, orders: Iterable[Sequence[int]]) -> Shard:
        """What was everywhere, each row with its owners alone."""
        shard = self._shard(number)
        return self._indexed_shard(Shard(shard.relation, shard.home), orders, everywhere=False)

    def _split(self, number: int, size: int) -> Shard:
        """The same rows, of which all workers have `size`, with those of common values split."""
        shard = self._shard(number)
        home, workers = self._homes[shard.relation], self._mesh.size
        placing = [column for column in shard.copies if column != home]
        if any(order[:1] == (home,) and order != shard.home.own for order in shard.home.orders) or home == 0:
            placing.append(0 if home is None else home)
        most = max(self._local.limits.split_rows, size // (2 * workers))
        columns, found = shard.home.rows().columns(), []
        for column in sorted(placing):
            values, counts = counted_values(columns[column], -(-most // workers))
            found.append([np.full(values.size, column), values, counts])
        said = [np.concatenate(some) for some in zip(*found, strict=True)]
        gathered = self._mesh.exchange([said] * workers)
        common = {column: np.empty(0, np.int64) for column in placing}
        if gathered.parts:
            of, values, counts = (np.concatenate(some) for some in zip(*gathered.parts, strict=True))
            for column in placing:
                mine = of == column
                each, which = np.unique(values[mine], return_inverse=True)
                common[column] = each[np.bincount(which, counts[mine], each.size) >= most]
        return shard.split(common, home, self._bring(shard.relation))

    def _adding(self, number: int, rows: int) -> Shard:
        shard = self._shard(number)
        added = shard.adding(self._held[rows], self._bring(shard.relation))
        self._remember(shard, self._held[rows], added)
        return added

    def _remember(self, before: Shard, rows: RowSet, after: Shard) -> None:
        """What was sent home is known there, now that what it was found with has been added."""
        sent = self._sent.get(before.relation)
        if sent is None or sent.found is not rows.keys or sent.content is not before.content:
            return
        del self._sent[before.relation]
        known = self._known_elsewhere(before)
        told = Trace.of(sent.rows) if known is None else known.adding(sent.rows)
        self._known_there[before.relation] = Told(after.content, told)

    def _known_elsewhere(self, shard: Shard) -> Trace | None:
        told = self._known_there.get(shard.relation)
        return told.rows if told is not None and told.content is shard.content else None

    def _rest(self) -> None:
        """Forget what was sent: there is no telling when it will be of use again."""
        self._known_there.clear()
        self._sent.clear()

    def _removing(self, number: int, rows: int) -> Shard:
        shard = self._shard(number)
        return shard.removing(self._held[rows], self._bring(shard.relation))

    def _bring(self, relation: str) -> Bring:
        workers = self._mesh.size

        def bring(rows: RowSet, places: Sequence[tuple[int, Column]]) -> list[RowSet]:
            columns = rows.columns()
            parcels = [
                Parcel(
                    [columns] * workers
                    if column == EVERYWHERE
                    else split(columns, placed_by(columns, column, common, workers), workers)
                )
                for column, common in places
            ]
            return [self._joined(relation, gathered.parts) for gathered in self._mesh.exchange_all(parcels)]

        return bring

    def _pick(self, relation: str) -> Pick:
        def pick(rows: RowSet, column: int) -> RowSet:
            columns = rows.columns()
            mine = owners(columns[column], self._mesh.size) == self._mesh.me
            return self._joined(relation, [[column[mine] for column in columns]])

        return pick

    def _joined(self, relation: str, parts: Sequence[Sequence[Column]]) -> RowSet:
        if not parts:
            return self._local.no_rows(relation)
        columns = [np.concatenate(some) for some in zip(*parts, strict=True)]
        return self._local.rows(relation, columns, columns[0].size)

    def _everyones(self, told: Iterable[Sequence[Any]]) -> dict[str, list[Column]]:
        """The columns of what all workers have of some rows, by relation."""
        return {
            name: self._bring(name)(self._held[number], [(EVERYWHERE, NO_VALUES)])[0].columns() for name, number in told
        }

    def _paths(self, heads: Sequence[str], automaton: Any) -> SharedPaths:
        assert self._mesh.size == 1 or all(self._homes[head] == 0 for head in heads)
        module = Module("paths", tuple(heads), frozenset(), "", from_json(automaton))
        return SharedPaths(module, self._local.limits.matrix_nodes, self._mesh.size, self._mesh.me, self._local.collect)

    def _paths_learn(self, number: int, told: Iterable[Sequence[Any]]) -> None:
        self._held[number].learn(self._everyones(told))

    def _paths_add(self, number: int, told: Iterable[Sequence[Any]]) -> Any:
        return self._held[number].add(self._everyones(told))

    def _paths_remove(self, number: int, told: Iterable[Sequence[Any]], also: Iterable[Sequence[Any]]) -> Any:
        return self._held[number].remove(self._everyones(told), self._everyones(also))

    def _paths_parted(self, number: int, head: str, rows: int) -> tuple[RowSet, RowSet]:
        held: RowSet = self._held[rows]
        mask = self._held[number].holds(head, held.columns())
        return self._local.chosen(held, mask), self._local.chosen(held, ~mask)

    def _standing(self, relation: str, number: int) -> RowSet:
        found: ShardView = self._held[number]
        return self._local.standing(found.at(None)).rows()

    def _view(self, relation: str, numbers: Numbers, without: int | None) -> ShardView:
        first, *others = (self._shard(number) for number in numbers)
        gone: tuple[Shard, ...] = ()
        if without is not None:
            gone = (self._shard(without).alike(first, self._homes[relation], self._bring(relation)),)
        parts = ((first, gone), *((shard, ()) for shard in others))
        return ShardView(parts, self._homes[relation])

    def _plus(self, number: int, others: Numbers) -> ShardView:
        view = self._held[number]
        assert isinstance(view, ShardView)
        return view.plus(*(self._shard(other) for other in others))

    # ----------------------------------------------------------------------------------------------------- plans

    def _prepare(self, plan: Any) -> StagedPlan:
        return StagedPlan(decided_plan(from_json(plan)), self._flow)

    def _flow(self, plan: Plan, copied: Copied, splits: Splits) -> Flow:
        return Flow(plan.steps, self._values, self._homes, self._mesh, self._local.limits, copied=copied, splits=splits)

    def _views(self, views: Iterable[Sequence[Any]]) -> tuple[ShardViews, Copied, Splits]:
        """The views that plans read, those of them that all workers have whole, and those with split values."""
        found = {(name, Read[read]): self._held[number] for name, read, number, _ in views}
        for (name, _), view in found.items():
            if name not in self._homes:  # a narrowed relation is at home where the whole one is
                self._homes[name] = self._homes[view.parts[0][0].relation]
        copied = frozenset((name, Read[read]) for name, read, _, everywhere in views if everywhere)
        splits = (
            (*key, column) for key, view in found.items() if isinstance(view, ShardView) for column in view.is_split
        )
        return found, copied, frozenset(splits)

    def _run(
        self,
        plans: Numbers,
        views: Iterable[Sequence[Any]],
        sink_for: Callable[[StagedPlan, bool], Sink],
        counted: bool | None,
    ) -> None:
        """Have plans find heads, all of one relation; None counts only where it must.

        A sink is made for each plan, given whether its heads are at home where they are found.
        """
        read, copied, splits = self._views(views)
        running = []
        for number in plans:
            prepared: StagedPlan = self._held[number]
            flow = prepared.flow(copied, splits)
            sink = sink_for(prepared, self._is_at_home(prepared.plan, flow))
            weights = prepared.multiplies if counted is None else counted
            running.append(self._running(prepared.plan, flow, read, sink, weights))
        self._side_by_side(running)

    def _running(self, plan: Plan, flow: Flow, read: ShardViews, sink: Sink, weights: bool) -> Sending[None]:
        with located(self._program, (plan.rule,)):
            yield from flow.run(flow.start(read, weights), read, sink, weights)

    def _side_by_side(self, running: Iterable[Sending[None]]) -> None:
        """Run plans so that what they send goes together, from one step of each to the next.

        All workers have the same plans under way at each step, since each goes through the same steps everywhere.
        """
        waiting: list[tuple[Sending[None], Parcel]] = []

        def goes_on(plan: Sending[None], came: Gathered | None, after: list[tuple[Sending[None], Parcel]]) -> None:
            with suppress(StopIteration):
                after.append((plan, next(plan) if came is None else plan.send(came)))

        for plan in running:
            goes_on(plan, None, waiting)
        while waiting:
            came = self._mesh.exchange_all([parcel for _, parcel in waiting])
            after: list[tuple[Sending[None], Parcel]] = []
            for (plan, _), gathered in zip(waiting, came, strict=True):
                goes_on(plan, gathered, after)
            waiting = after

    def _is_at_home(self, plan: Plan, flow: Flow) -> bool:
        """Whether heads are found where they are at home. The same on all workers."""
        home = self._homes[plan.relation]
        if self._mesh.size == 1:
            return True
        if home is None:
            return flow.placed == 0
        head = plan.head[home]
        return isinstance(head, Var) and flow.placed == head.name

    def _owners(self, relation: str, columns: Sequence[Column], size: int) -> Workers:
        home = self._homes[relation]
        return np.zeros(size, np.intp) if home is None else owners(columns[home], self._mesh.size)

    def _owners_of(self, relation: str, rows: RowSet) -> Workers:
        """The same of rows as keys; of values that lie close together, it is written down for each."""
        home, layout = self._homes[relation], rows.packing
        if home is None:
            return np.zeros(len(rows), np.intp)
        field = layout.fields[home]
        if not layout.narrow or not 0 < field.bits <= OWNED_BITS:
            return self._owners(relation, layout.columns(rows.keys), len(rows))
        table = self._tables.get(field)
        if table is None:
            values = np.arange(field.lo, field.lo + (1 << field.bits))
            table = self._tables[field] = owners(values, self._mesh.size).astype(np.int16)
        shift, mask = layout.place(home)
        return table.take((rows.keys >> shift) & mask)

    def _sent_home(self, relation: str, rows: RowSet) -> RowSet:
        """The rows that are at home here, of those that all workers have."""
        columns = rows.columns() or [np.zeros(len(rows), np.int64)]
        at = self._owners(relation, columns, len(rows))
        gathered = self._mesh.exchange(split(columns, at, self._mesh.size))
        if not gathered.parts:
            return self._local.no_rows(relation)
        if not self._program.relations[relation].arity:
            return self._local.rows(relation, [], 1)
        return self._joined(relation, gathered.parts)

    def _counted_home(self, relation: str, counted: Counted) -> Counted:
        """The counted rows that are at home here, of those that all workers have; numbers of equal rows added."""
        arity = self._program.relations[relation].arity
        columns = [*counted.rows().columns(), counted.weights.astype(np.int64)]
        at = self._owners(relation, columns, len(counted))
        gathered = self._mesh.exchange(split(columns, at, self._mesh.size))
        if not gathered.parts:
            return self._local.total(relation, [])
        came = [np.concatenate(some) for some in zip(*gathered.parts, strict=True)]
        layout = packing(fields_covering(came[:arity], self._local.fields[relation]), tuple(range(arity)))
        keys = layout.pack(came[:arity], came[-1].size)
        return Counted(layout, *join.summed(keys.copy(), came[-1], layout.bits))

    def _new(self, relation: str, plans: Numbers, views: Iterable[Sequence[Any]], known: int, counted: bool) -> Counted:
        """What plans find that is not known yet: what is at home here, with weights if it is counted."""
        version = self._held[known]
        is_shard = isinstance(version, Shard)
        here = version.known(self._known_elsewhere(version)) if is_shard else version.at(None)
        heads = NewHeads(self._local, relation, self._home_of(known), here, counted)
        self._run(
            plans,
            views,
            lambda prepared, at_home: heads.sink(prepared.plan, prepared.repeats, at_home),
            None if counted else False,
        )

        def divided(rows: RowSet, columns: Sequence[NDArray[Any]]) -> list[list[NDArray[Any]]]:
            return split(columns, self._owners_of(relation, rows), self._mesh.size)

        def exchange(parts: list[list[Column]]) -> Sequence[Sequence[Column]]:
            return self._mesh.exchange(parts).parts

        found, sent = heads.finished(self._mesh.me, divided, exchange)
        self._sent.pop(relation, None)
        if sent is not None and is_shard:
            self._sent[relation] = Sent(version.content, found.keys, sent)
        return found

    def _derive(self, relation: str, plans: Numbers, views: Iterable[Sequence[Any]], known: int) -> RowSet:
        return self._new(relation, plans, views, known, counted=False).rows()

    def _supports(self, relation: str, plans: Numbers, views: Iterable[Sequence[Any]], known: int) -> Counted:
        return self._new(relation, plans, views, known, counted=True).narrowed()

    def _count(self, relation: str, plans: Numbers, views: Iterable[Sequence[Any]]) -> Counted:
        found, target = FoundCounts(self._local, relation), self._local.empty(relation).packing

        def sink_for(prepared: StagedPlan, at_home: bool) -> Sink:
            found.travels |= not at_home

            def sink(rows: Bindings) -> None:
                assert rows.weights is not None
                found.take(*self._local._head(prepared.plan, rows, target), rows.weights, at_home)

            return sink

        self._run(plans, views, sink_for, counted=True)
        return found.at_home(partial(self._counted_home, relation))

    def _walk(
        self,
        front: Numbered,
        plans: Numbers,
        views: Iterable[Sequence[Any]],
        present: Numbered,
        deleting: Numbered | None,
    ) -> tuple[RowSet | Counted, ...]:
        read, whole, _ = self._views(views)
        request = Request(
            {name: self._held[number] for name, number in front},
            [self._held[number].plan for number in plans],
            {key: view for key, view in read.items() if isinstance(view, ShardView)},
            whole,
            {name: self._held[number] for name, number in present},
            None if deleting is None else {name: self._held[number] for name, number in deleting},
        )
        found = self._walks.walk(request)
        self._has_walked = found is not None
        if found is None:
            nothing = [self._local.no_rows(name) for name, _ in present]
            return (*nothing, *nothing, *(self._local.total(name, []) for name, _ in present))
        return tuple(each[name] for each in (found.followed, found.pending, found.counts) for name, _ in present)

    def _tell_walk(self, *args: Any) -> tuple[Any, list[Column]]:
        """Whether there was a walk."""
        return self._has_walked, []

    # ------------------------------------------------------------------------------------------------- neighbors

    def _neighbors(self, order: Any, rows: int) -> RowSet:
        wanted: Neighbors = from_json(order)
        held: RowSet = self._held[rows]
        columns = held.columns()
        at = owners(columns[wanted.groups[0]], self._mesh.size) if wanted.groups else np.zeros(len(held), np.intp)
        gathered = self._mesh.exchange(split(columns, at, self._mesh.size))
        mine = self._joined(wanted.source, gathered.parts)
        found = self._local.neighbors(wanted, mine) if len(mine) else self._local.no_rows(wanted.relation)
        return self._sent_home(wanted.relation, found)
