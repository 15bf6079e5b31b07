"""All workers to all workers: rows go directly to whoever needs them.

An exchange is one frame from every worker to every other. All workers take part in the same exchanges, in the same
order. Several things that do not depend on each other go in one: what an exchange costs is to wait for the others.
Frames carry the number of the command they belong to. A worker that fails at a command tells the others, which fail at
it, too. Frames of a command that failed are passed over once the driver has begun anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from sempre.data import dataclass
from sempre.workers.channel import BEAT_SECONDS, SILENT_SECONDS, Channel, Lost, wait
from sempre.workers.framing import Column, Frame


class Aborted(Exception):
    """Another worker failed at this command or at an earlier one."""


@dataclass(slots=True)
class Parcel:
    """One of the things that are exchanged: a part for every worker, all with the same number of columns."""

    parts: Sequence[Sequence[Column]]
    more: bool = False  # whether there is more to send


@dataclass(slots=True)
class Gathered:
    """What an exchange brought: the parts for this worker, and what all workers had between them."""

    parts: list[list[Column]]
    rows: int  # how many rows were sent, by all workers together
    more: bool  # whether some worker has more to send


class Mesh:
    """One worker's connections to the others."""

    def __init__(self, me: int, others: Mapping[int, Channel]) -> None:
        self.me = me
        self.size = len(others) + 1
        self._others = others
        self.command = 0
        self._step = 0  # exchanges of the present command
        self._begun = 0
        self.exchanges = 0
        self.rows_sent = 0
        self.waited = 0.0

    @property
    def others(self) -> Mapping[int, Channel]:
        """The connections, by the numbers of the workers at their other ends."""
        return self._others

    @property
    def channels(self) -> list[Channel]:
        """The connections, for whoever waits for something else meanwhile."""
        return list(self._others.values())

    @property
    def bytes_sent(self) -> int:
        return sum(channel.sent for channel in self._others.values())

    def begin(self, command: int) -> None:
        """The exchanges to come are those of this command."""
        self.command, self._step = command, 0

    def begin_anew(self, command: int) -> None:
        """Frames of earlier commands no longer matter."""
        self._begun = command

    def abort(self) -> None:
        """Tell the others that this worker has failed at the present command."""
        for channel in self._others.values():
            channel.put(Frame({"n": self.command, "abort": True}))

    def exchange(self, parts: Sequence[Sequence[Column]], more: bool = False) -> Gathered:
        """Send one part to every worker, including this one."""
        return self.exchange_all([Parcel(parts, more)])[0]

    def exchange_all(self, parcels: Sequence[Parcel]) -> list[Gathered]:
        """What all workers send each other at this step: of each parcel one part to every worker."""
        sizes = [[int(part[0].size) if part else 0 for part in parcel.parts] for parcel in parcels]
        rows = [sum(each) for each in sizes]
        self.exchanges += 1
        self._step += 1
        for other, channel in self._others.items():
            columns: list[Column] = []
            counts = []
            for parcel, size in zip(parcels, sizes, strict=True):
                self.rows_sent += size[other]
                some = parcel.parts[other] if size[other] else ()
                counts.append(len(some))
                columns += some
            more = [parcel.more for parcel in parcels]
            channel.put(Frame({"n": self.command, "x": self._step, "r": rows, "m": more, "k": counts}, columns))
        found = [
            Gathered([list(parcel.parts[self.me])] if size[self.me] else [], sent, parcel.more)
            for parcel, size, sent in zip(parcels, sizes, rows, strict=True)
        ]
        for frame in self._frames():
            _take(frame, found)
        return found

    def _frames(self) -> list[Frame]:
        """The next frame of every other worker for this command."""
        missing = dict(self._others)
        found: dict[int, Frame] = {}
        began = time.monotonic()
        while True:
            for other in list(missing):
                frame = self._next(missing[other])
                if frame is not None:
                    found[other] = frame
                    del missing[other]
            if not missing:
                break
            self._wait(missing.values(), began)
        while any(channel.has_output for channel in self._others.values()):
            self._wait([channel for channel in self._others.values() if channel.has_output], began)
        return [found[other] for other in sorted(found)]

    def _wait(self, waited: Iterable[Channel], since: float) -> None:
        """Wait for some of the others, as long as they are there."""
        began = time.perf_counter()
        wait(self._others.values(), BEAT_SECONDS)
        for channel in waited:
            channel.check_silence(since, SILENT_SECONDS)
        self.waited += time.perf_counter() - began

    def _next(self, channel: Channel) -> Frame | None:
        while True:
            frame = channel.next()
            if frame is None:
                return None
            number = int(frame.header["n"])
            if frame.header.get("abort"):
                if number > self._begun:
                    raise Aborted
            elif number == self.command and int(frame.header["x"]) == self._step:
                return frame
            elif number > self._begun:
                # Of an earlier command there is nothing left, and nobody is ahead who has not heard from this worker.
                raise Lost(f"{channel.name} is at another step of the work")


def _take(frame: Frame, found: Sequence[Gathered]) -> None:
    """What another worker sent, parcel by parcel."""
    at = 0
    header = frame.header
    for gathered, rows, more, count in zip(found, header["r"], header["m"], header["k"], strict=True):
        gathered.rows += int(rows)
        gathered.more |= bool(more)
        if count:
            gathered.parts.append(frame.columns[at : at + count])
            at += count


__all__ = ["Aborted", "Gathered", "Mesh", "Parcel"]
