"""The driver's end: commands to all workers, and what they answer.

A command is sent to all workers and not waited for. The workers tell the size of what they make as they come to it, and
the driver waits for that when it needs to know. While it waits, it answers the workers' questions about values.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from sempre.diagnostics import BackendError, DataError, Diagnostic, InternalError
from sempre.kernel.capacity import CapacityError
from sempre.kernel.values import Values
from sempre.workers.channel import BEAT_SECONDS, SILENT_SECONDS, Channel, Heart, Lost, wait
from sempre.workers.codec import from_json
from sempre.workers.framing import Column, Frame, FrameError
from sempre.workers.shared_values import reply

# So many commands are sent together, unless the driver waits for something before.
TOGETHER = 32
# What plans find: commands of which several go side by side, if none needs what another makes.
FINDING = frozenset(("derive", "supports", "count"))


class WorkersLost(BackendError):
    """A worker is gone, and with it all that the workers of a database held."""


class Crew:
    """The workers of one database, as the driver sees them."""

    def __init__(
        self, channels: Sequence[Channel], values: Values, sources: dict[str, str], stop: Callable[[], None]
    ) -> None:
        self._channels = list(channels)
        self._values = values
        self._sources = sources
        self._stop = stop
        self._command = 0
        self._handle = 0
        self._free: list[int] = []
        self._sizes: dict[int, list[int]] = {}
        self._answers: dict[int, list[tuple[Any, list[Column]] | None]] = {}
        self._failed: list[dict[str, Any]] = []
        self._anew = 0
        self._held_back: list[dict[str, Any]] = []  # commands that were not sent yet
        self._lost = ""
        self.copied: frozenset[str] = frozenset()
        self.everywhere_rows = 0
        self.placed: frozenset[str] = frozenset()
        self.split_rows = 0
        self._closed = False
        self._lock = threading.RLock()
        self._heart = Heart(channels, "heart of the driver")

    def __len__(self) -> int:
        return len(self._channels)

    def copies(self, relation: str, size: int) -> bool:
        """Whether all workers get all rows of a relation of this size."""
        return relation in self.copied and size <= self.everywhere_rows

    def splits(self, relation: str, size: int, looked: int) -> bool:
        """Whether to look for values that have too many rows: at first, and whenever rows have doubled."""
        return len(self) > 1 and relation in self.placed and size >= max(self.split_rows, 2 * looked)

    def on_stop(self, stop: Callable[[], None]) -> None:
        """What to do when the workers have been sent home."""
        self._stop = stop

    # ----------------------------------------------------------------------------------------------- commands

    def number(self) -> int:
        """A number for something that the workers will make."""
        self._handle += 1
        return self._handle

    def release(self, number: int) -> None:
        """Nobody will ask for this again. May be called at any moment: it only takes a note."""
        self._free.append(number)

    def tell(
        self,
        op: str,
        args: Sequence[Any] = (),
        out: Sequence[int] = (),
        columns: Sequence[Sequence[Column]] | None = None,
        answer: bool = False,
    ) -> int:
        """Send a command to all workers; with `columns`, each gets its own."""
        with self._lock:
            self._check()
            self._command += 1
            header: dict[str, Any] = {"op": op, "n": self._command}
            if args:
                header["args"] = args
            if out:
                header["out"] = out
            if answer:
                header["answer"] = True
                self._answers[self._command] = [None] * len(self._channels)  # one may come while this is sent
            if self._free:
                # What is made by commands that are still under way is freed after them: commands keep their order.
                free, self._free = self._free, []
                header["free"] = free
                for number in free:
                    self._sizes.pop(number, None)
            self._held_back.append(header)
            if columns is not None or len(self._held_back) >= TOGETHER:
                self._send(columns)
            return self._command

    def _send(self, columns: Sequence[Sequence[Column]] | None = None) -> None:
        """Send what was held back; `columns` are those of the last command, for each worker its own."""
        if not self._held_back:
            return
        commands, self._held_back = self._held_back, []
        last = commands.pop() if columns is not None else {}
        numbers = {"first": commands[0]["n"], "last": commands[-1]["n"]} if commands else {}
        together = Frame({"op": "several", **numbers, "commands": side_by_side(commands)})
        try:
            for index, channel in enumerate(self._channels):
                if commands:
                    channel.put(together)
                if columns is not None:
                    size = int(columns[index][0].size) if columns[index] else 0
                    own = {**last, "args": [*last.get("args", ()), size]}
                    channel.put(Frame(own, list(columns[index]) if size else []))
            began = time.monotonic()
            while any(channel.has_output for channel in self._channels):
                self._wait(began)
        except (Lost, FrameError) as error:
            raise self._gone(error) from None

    def flush(self) -> None:
        """Send what was held back, without waiting for the workers."""
        with self._lock:
            self._send()

    def ask(self, op: str, args: Sequence[Any] = (), out: Sequence[int] = ()) -> list[tuple[Any, list[Column]]]:
        """Send a command and wait for the answer of every worker."""
        with self._lock:
            number = self.tell(op, args, out, answer=True)
            found: list[tuple[Any, list[Column]]] = []
            began = time.monotonic()
            while len(found) < len(self._channels):
                self._step(began)
                found = [answer for answer in self._answers[number] if answer is not None]
            del self._answers[number]
            return found

    def size(self, number: int) -> int:
        """How many rows all workers have of something."""
        with self._lock:
            began = time.monotonic()
            while len(self._sizes.get(number, ())) < len(self._channels):
                self._step(began)
            return sum(self._sizes[number])

    def _begin_anew(self) -> None:
        """After a failure: what was made before it is as it was, and commands are carried out again."""
        self._failed.clear()
        self._answers.clear()
        self._anew = self.tell("anew")
        self._send()

    # ---------------------------------------------------------------------------------------------- listening

    def _check(self) -> None:
        if self._lost:
            raise self._loss()
        if self._closed:
            raise BackendError(
                Diagnostic("E740", "the workers of this database are closed", hint="Open the database again.")
            )

    def _step(self, since: float) -> None:
        """Wait for something to happen, and take note of it; raises when a worker has failed or gone."""
        self._check()
        self._send()
        try:
            self._wait(since)
        except (Lost, FrameError) as error:
            raise self._gone(error) from None
        if self._failed:
            cause = self._error()
            self._begin_anew()
            raise cause

    def _wait(self, since: float) -> None:
        """Wait for the workers, as long as they are there; they are waited for since then."""
        if not self._listen():
            wait(self._channels, BEAT_SECONDS)
            self._listen()
            for channel in self._channels:
                channel.check_silence(since, SILENT_SECONDS)

    def _listen(self) -> bool:
        heard = False
        for index, channel in enumerate(self._channels):
            while (frame := channel.next()) is not None:
                heard = True
                self._take(index, channel, frame)
        return heard

    def _take(self, index: int, channel: Channel, frame: Frame) -> None:
        header = frame.header
        if "question" in header:
            channel.put(reply(self._values, header["question"], frame.columns))
        if "sizes" in header:
            for number, size in header["sizes"]:
                self._sizes.setdefault(number, []).append(size)
        if "answer" in header and header["to"] in self._answers:
            self._answers[header["to"]][index] = (header["answer"], frame.columns)
        if "failed" in header and header["at"] > self._anew:
            self._failed.append(header["failed"])

    def is_lost(self) -> bool:
        """Whether a worker is gone, as far as that can be known without waiting."""
        with self._lock:
            if not self._lost and not self._closed:
                try:
                    wait(self._channels, 0)
                    self._listen()
                except (Lost, FrameError) as error:
                    self._gone(error)
            return bool(self._lost)

    def _gone(self, error: Exception) -> BackendError:
        self._lost = f"a worker was lost: {error}"
        self._heart.stop()
        for channel in self._channels:  # the others cannot go on without it
            channel.close()
        return self._loss()

    def _loss(self) -> BackendError:
        hint = "What workers held of the last epoch is derived again when it is needed; what is older is gone."
        return WorkersLost(Diagnostic("E741", self._lost, hint=hint))

    def _error(self) -> Exception:
        """The error of the worker that failed; the others only say that somebody did, perhaps before it is heard."""
        began = time.monotonic()
        while (first := next((failed for failed in self._failed if failed["kind"] != "aborted"), None)) is None:
            try:
                self._wait(began)
            except (Lost, FrameError) as error:
                return self._gone(error)
        if first["kind"] == "limit":
            return CapacityError(first["message"], first["hint"])
        if "diagnostics" in first:
            return DataError([from_json(d) for d in first["diagnostics"]], self._sources)
        return InternalError(Diagnostic("E900", f"a worker failed: {first['message']}"))

    def close(self) -> None:
        """Send the workers home."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._heart.stop()
            for channel in self._channels:
                try:
                    channel.put(Frame({"op": "end", "n": self._command + 1}))
                    wait([channel], 0)
                except (Lost, OSError):
                    pass
                channel.close()
            self._stop()


def side_by_side(commands: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same commands, of which those that find something are one where they do not need what came in between.

    What is forgotten is forgotten where it was to be.
    """
    found: list[dict[str, Any]] = []
    finding: dict[str, Any] | None = None
    made: set[int] = set()  # since the last that found something
    for command in commands:
        out, op = command.get("out", ()), command["op"]
        if op in FINDING and finding is not None and not made & _needs(command["args"]):
            finding["args"][0].append([op, command["args"]])
            finding["out"] += out
            made |= {*out}
            if "free" in command:
                found.append({"op": "none", "n": command["n"], "free": command["free"]})
            continue
        if op in FINDING:
            finding = {**command, "op": "find", "args": [[[op, command["args"]]]], "out": [*out]}
            found.append(finding)
            made = set()
        else:
            found.append(command)
        made |= {*out}
    return found


def _needs(args: Sequence[Any]) -> set[int]:
    """What a command that finds something needs: plans, views, and what is known."""
    _, plans, views, *known = args
    return {*plans, *(number for _, _, number, _ in views), *known}
