"""A worker that runs a shard of active rules; it works on its own while the driver says nothing.

It is a `Worker` as far as the carrier goes: commands, questions about values, failures. What is different is that it
does not wait for commands, and that messages of other workers mean something at any moment. They are counted link by
link. When all workers say that they have nothing to do, and every link has delivered as many messages as were put into
it, then nothing is under way: whoever worked after it said so must have got a message that is not counted yet.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from sempre.active.gathering import told_chain
from sempre.active.shard import FLIPS, CycleShard, Message, Part
from sempre.active.sharding import sharded
from sempre.analysis.model import CheckedProgram
from sempre.backends.local import LocalBackend
from sempre.diagnostics import SempreError
from sempre.kernel.capacity import CapacityError
from sempre.limits import Limits
from sempre.workers.channel import BEAT_SECONDS, Channel, wait
from sempre.workers.framing import Column, Frame
from sempre.workers.mesh import Mesh
from sempre.workers.worker import LEASE_SECONDS, Worker

# How long a worker that is ahead waits for the others, beyond the time that its own last step took: what comes in time
# need not be absorbed.
PATIENCE_SECONDS = 1.0
# How far a worker is that has nothing to do until it hears of something.
AT_REST = 1 << 62


def frame_of(message: Message, done: int) -> Frame:
    """A message as a frame: what the parts are about, and all their columns; how far the sender is."""
    about = [[part.at, part.name, part.what, len(part.columns)] for part in message]
    columns = [column for part in message for column in (*part.columns, part.numbers)]
    return Frame({"parts": about, "done": done}, columns)


def message_of(frame: Frame) -> Message:
    """The message in a frame."""
    found, at = [], 0
    for clock, name, what, width in frame.header["parts"]:
        *columns, numbers = frame.columns[at : at + width + 1]
        found.append(Part(clock, name, what, columns, numbers))
        at += width + 1
    return found


class CycleWorker(Worker):
    """The shard of one worker, and the commands that concern it."""

    def __init__(self, program: CheckedProgram, mesh: Mesh, driver: Channel, limits: Limits) -> None:
        super().__init__(program, mesh, driver, limits)
        self._others = mesh.others
        self._sharding = sharded(program, mesh.size)
        self._is_asking = False
        # There is no command to begin: a message of another worker may come before what the driver says.
        backend = LocalBackend(self._sharding.program, 1, self._local.limits)
        backend.values = self._values
        self._own = CycleShard(self._sharding, self._mesh.me, backend)
        self._cycles_backend = backend
        self._put = dict.fromkeys(self._others, 0)
        self._got = dict.fromkeys(self._others, 0)
        # How far each of the others is, how far this one is as they know it, and who was waited for in vain.
        self._told = dict.fromkeys(self._others, 0)
        self._known = dict.fromkeys(self._others, 0)
        self._quiet: set[int] = set()
        self._patience = PATIENCE_SECONDS
        # What went wrong on the facts as they look now; others may still change them.
        self._stuck = ""

    # -------------------------------------------------------------------------------------------- working alone

    def _heard(self) -> Frame:
        if self._is_asking:
            return super()._heard()
        began = time.monotonic()
        while True:
            # Commands that came while the driver was asked something are the first.
            frame = self._waiting.pop(0) if self._waiting else self._driver.next()
            if frame is not None:
                return frame
            if self._work() or self._driver.has_frames:
                began = time.monotonic()
                continue
            wait([self._driver, *self._peers], BEAT_SECONDS)
            self._driver.check_silence(began, LEASE_SECONDS)

    def _work(self) -> bool:
        """Take in what has come, and do one step; False if there is nothing to do."""
        wait([self._driver, *self._peers], 0)
        heard = self._take_in()
        if self._own.is_within:
            heard = self._wait_for_others() or heard
        if self._stuck and not heard:
            return False
        self._is_asking, self._stuck = True, ""
        began = time.monotonic()
        try:
            sent = self._own.step()
        except (SempreError, CapacityError) as error:
            self._stuck = str(error)
            return False
        finally:
            self._is_asking = False
            self._patience = PATIENCE_SECONDS + time.monotonic() - began
        self._send(sent or {})
        return heard or sent is not None

    def _send(self, sent: Mapping[int, Message]) -> None:
        """Tell the others what concerns them, and how far this worker is."""
        done = AT_REST if self._own.rests else self._own.done
        for other, channel in self._others.items():
            if other in sent:  # it may have been at rest
                self._told[other] = min(self._told[other], self._own.done)
            elif done == self._known[other]:
                continue
            channel.put(frame_of(sent.get(other, []), done))
            self._put[other] += 1
            self._known[other] = done

    def _take_in(self) -> bool:
        """Hand over what others have sent; whether there was anything."""
        heard = False
        for other, channel in self._others.items():
            while (frame := channel.next()) is not None:
                message = message_of(frame)
                self._got[other] += 1
                self._told[other] = int(frame.header["done"])
                self._quiet.discard(other)
                heard = True
                if message:
                    self._own.receive(message)
                    self._known[other] = -1  # it waits to hear what became of that
        return heard

    def _wait_for_others(self) -> bool:
        """Give those who are behind a moment; whoever says nothing in it is not waited for again until it does."""
        heard = False
        until = time.monotonic() + self._patience
        while behind := {other for other, told in self._told.items() if told < self._own.done} - self._quiet:
            left = until - time.monotonic()
            if left <= 0:
                self._quiet |= behind
                break
            wait(self._peers, left)
            heard = self._take_in() or heard
        return heard

    # ------------------------------------------------------------------------------------------------- commands

    def _feed(self, at: int, name: str, what: str, size: int, columns: list[Column] | None = None) -> None:
        """Rows of a relation or a fragment; the last column has their numbers."""
        if size and columns is not None:
            *rows, numbers = columns
            self._cycles_backend.fit({name: rows})
            self._own.receive([Part(at, name, what, rows, numbers[:0] if what == FLIPS else numbers)])

    def _go(self, horizon: int) -> None:
        """Work up to this cycle."""
        self._own.horizon = horizon

    def _rest(self) -> None:
        """See `_tell_rest`."""

    def _tell_rest(self) -> tuple[Any, list[Column]]:
        """How things are when there is nothing to do."""
        while self._work():
            pass
        return {
            "put": [self._put.get(other, 0) for other in range(self._mesh.size)],
            "got": [self._got.get(other, 0) for other in range(self._mesh.size)],
            "busy": self._own.is_busy,
            "stuck": self._stuck,
            "last": self._own.last_flip,
        }, []

    def _facts(self, name: str) -> None:
        """See `_tell_facts`."""

    def _tell_facts(self, name: str) -> tuple[Any, list[Column]]:
        """The facts of a relation that are at home here."""
        rows = self._own.chain(name).now.rows()
        return len(rows), list(rows.columns())

    def _chain(self, name: str) -> None:
        """See `_tell_chain`."""

    def _tell_chain(self, name: str) -> tuple[Any, list[Column]]:
        """The chains of a relation, of the facts that are at home here."""
        return None, [np.asarray(column, np.int64) for column in told_chain(self._own.chain(name))]
