"""The driver's end of a network in tasks: changes go to the hosts, and what they say comes from them.

Nothing here waits for one thing to come before another. A carrier takes frames to hosts and brings what they send; it
raises `Lost` when a host is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from sempre.analysis.model import Relation
from sempre.diagnostics import DataError, Diagnostic, InternalError
from sempre.network.detector import Detector
from sempre.network.host import ROWS_AT_ONCE
from sempre.network.node import Fact
from sempre.network.placement import Placement
from sempre.network.report import BurstReport
from sempre.network.simulate import Burst
from sempre.workers.codec import from_json
from sempre.workers.framing import Frame


class Carrier(Protocol):
    """Frames to the hosts of a network, and from them."""

    size: int

    def put(self, host: int, frame: Frame) -> None:
        """Send a frame to a host."""

    def next(self) -> tuple[int, Frame]:
        """The next frame that a host sent; waits for it."""

    def close(self) -> None:
        """Send the hosts home."""


class Coordinator:
    """The driver of the hosts that a carrier leads to; `relations` are those of the local program."""

    def __init__(
        self,
        carrier: Carrier,
        relations: Mapping[str, Relation],
        placement: Placement,
        limit: int,
        sources: dict[str, str],
    ) -> None:
        self.carrier = carrier
        self.placement = placement
        self._relations = relations
        self._limit = limit
        self._sources = sources
        self.detector = Detector(carrier.size)
        self._changes = [0] * carrier.size  # frames of changes that each host was sent
        self.tasks: list[dict[str, Any]] = []  # what each host said of itself last
        self._asked = 0
        self._answers: list[dict[int, Any]] = []
        self._parts: list[int] = []  # of how many parts the answer of each host is, at least

    # ------------------------------------------------------------------------------------------------ changes

    def change(self, burst: Burst) -> None:
        """Let base facts change, whatever is still under way."""
        parts: list[tuple[list[Fact], list[Fact]]] = [([], []) for _ in range(self.carrier.size)]
        for side, facts in enumerate((burst.delete, burst.insert)):
            for name, row in facts:
                location = self._relations[name].location
                assert location is not None
                parts[self.placement.task(row[location])][side].append((name, row))
        for host, (delete, insert) in enumerate(parts):
            for header in _change_headers(delete, insert):
                self._changes[host] += 1
                try:
                    self.carrier.put(host, Frame({"change": self._changes[host], **header}))
                except RecursionError:
                    raise _too_deep() from None

    def settle(self) -> None:
        """Wait until nothing is under way."""
        while True:
            changes = sum(self._changes)
            if self.detector.is_settled(changes):
                return
            if self.detector.may_be_settled(changes):
                wave = self.detector.begin_wave()
                for host in range(self.carrier.size):
                    self.carrier.put(host, Frame({"wave": wave}))
            self._hear()

    # ---------------------------------------------------------------------------------------------- questions

    def ask(self, op: str, *args: Any) -> list[Any]:
        """What all hosts answer, one after the other."""
        self._asked += 1
        self._answers = [{} for _ in range(self.carrier.size)]
        self._parts = [1] * self.carrier.size
        for host in range(self.carrier.size):
            self.carrier.put(host, Frame({"ask": self._asked, "op": op, "args": args}))
        while any(len(found) < parts for found, parts in zip(self._answers, self._parts, strict=True)):
            self._hear()
        return [found[number] for found in self._answers for number in sorted(found)]

    def report(self, number: int) -> BurstReport:
        """What was sent since this was asked last."""
        report = BurstReport(number)
        answers = self.ask("report")
        self.tasks = [counted["task"] for counted in answers]
        for counted in answers:
            report.add(counted)
            if counted["waiting"]:
                message = f"{counted['waiting']} deletions wait for facts that never came"
                raise InternalError(Diagnostic("E900", message))
        return report

    # ---------------------------------------------------------------------------------------------- listening

    def _hear(self) -> None:
        host, frame = self.carrier.next()
        header = frame.header
        if "failed" in header:
            raise self._error(header["failed"])
        if "to" in header:
            if header["to"] == self._asked:
                self._answers[host][header["part"]] = header["answer"]
                self._parts[host] = header["of"]
            return
        detector = self.detector
        detector.told(host, header["sent"], header["done"], header["delivered"])
        if "wave" in header:
            detector.answered(host, header["wave"], header["sent"])
        delivered = sum(detector.delivered)
        if delivered > self._limit:
            hint = "Raise --limit if the network is merely large; a program without end never settles."
            raise DataError(Diagnostic("E531", f"not settled after {delivered:,} messages", hint=hint))

    def _error(self, failed: Mapping[str, Any]) -> Exception:
        if "diagnostics" in failed:
            return DataError([from_json(each) for each in failed["diagnostics"]], self._sources)
        if "deep" in failed:
            return _too_deep()
        if "memory" in failed:
            return MemoryError()
        return InternalError(Diagnostic("E900", f"a task of the network failed: {failed['defect']}"))


def _too_deep() -> DataError:
    hint = "Keep lists in facts shorter, or evaluate the program with `sempre run`."
    return DataError(Diagnostic("E535", "a value is nested too deeply to be sent to another node", hint=hint))


def _change_headers(delete: Sequence[Fact], insert: Sequence[Fact]) -> Iterator[dict[str, Any]]:
    """Changes as headers of frames that are not too large; deletions come first."""
    marked = [("delete", fact) for fact in delete] + [("insert", fact) for fact in insert]
    for at in range(0, len(marked), ROWS_AT_ONCE):
        header: dict[str, Any] = {"delete": {}, "insert": {}}
        for word, (name, row) in marked[at : at + ROWS_AT_ONCE]:
            header[word].setdefault(name, []).append(row)
        yield header
