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
from collections.abc import Sequence
from typing import Any

import numpy as np

from sempre.analysis.model import CheckedProgram
from sempre.backends.column_values import ColumnValues, values_of
from sempre.backends.trace_statistics import TraceStatistics
from sempre.diagnostics import SempreError
from sempre.kernel import join
from sempre.kernel.capacity import CapacityError
from sempre.kernel.tally import Counted
from sempre.kernel.trace import RowSet
from sempre.limits import Limits
from sempre.workers.channel import Channel, Heart, Lost, take
from sempre.workers.codec import to_json
from sempre.workers.framing import Column, Frame, FrameError
from sempre.workers.mesh import Aborted, Mesh
from sempre.workers.plan_commands import PlanCommands
from sempre.workers.shards import NO_VALUES, Shard

# The lease: without a word from the driver for so long, a worker ends.
LEASE_SECONDS = 60.0
# Workers of one process are told apart by these.
_numbers = itertools.count()


class Worker(PlanCommands):
    """One worker: it hears commands, and answers."""

    def __init__(self, program: CheckedProgram, mesh: Mesh, driver: Channel, limits: Limits) -> None:
        self._driver = driver
        self._peers = mesh.channels
        self._waiting: list[Frame] = []  # commands that came while something else was waited for
        super().__init__(program, mesh, self._ask, limits)
        self._heard_of = 0  # the last command
        self._failed: dict[str, Any] | None = None
        self._sizes: list[list[int]] = []
        self._number = next(_numbers)

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
        """Carry out what a frame says; False when it says that this is the end."""
        header = frame.header
        if header["op"] == "end":
            return False
        several = header["commands"] if header["op"] == "several" else ()
        if int(header["first"] if several else header["n"]) != self._heard_of + 1:
            raise Lost("a command was left out")
        self._heard_of = int(header["last"] if several else header["n"])
        for each in several:
            self._carry_out_one(Frame(each))
        if not several:
            self._carry_out_one(frame)
        if self._sizes and not self._waiting and not self._driver.has_frames:
            self._driver.put(Frame({"sizes": self._sizes}))
            self._sizes = []
        return True

    def _carry_out_one(self, frame: Frame) -> None:
        header = frame.header
        self._mesh.begin(int(header["n"]))
        for number in header.get("free", ()):
            self._held.pop(number, None)
        if header["op"] == "anew":
            self._failed = None
            self._mesh.begin_anew(self._mesh.command)
        elif self._failed is None:
            self._try(header["op"], frame)
        if header.get("answer"):
            self._answer(header)

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

    def _none(self) -> None:
        """Nothing but what is forgotten with it."""

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
