"""The nodes of one task: a state machine over frames, as a node is one over messages.

    frames of the driver and of other hosts  ──▶  host  ──▶  frames for them

A message between two nodes of one host does not leave it. Those for nodes of another host are collected, and go there
as one frame after each sweep over the nodes that have something to do. A sweep is what a round would be if all hosts
waited for each other; they do not.

A host does no I/O and keeps no clock. Whoever carries its frames may delay, reorder and repeat them: changes of base
facts are numbered and wait for those before them, other frames are numbered so that a second copy is noticed.

**Counters.** `sent` counts the frames that went to other hosts. `done` counts the frames of changes and of messages
whose consequences are complete: those that came before the last moment at which nothing was left to do here. The
driver learns from them when all is settled: see `detector`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from sempre.diagnostics import DataError
from sempre.network import wire
from sempre.network.freight import Sent, packed, unpacked
from sempre.network.node import Address, Fact, Message, Node
from sempre.network.placement import Placement
from sempre.network.plain import row_reader, value_of
from sempre.network.report import BurstReport
from sempre.workers.codec import to_json
from sempre.workers.framing import Frame

DRIVER = -1
# So many rows of an answer are one frame.
ROWS_AT_ONCE = 20_000


class _Box:
    """What a node has to do: changes of its base facts, then messages; and the latest round that any is of."""

    __slots__ = ("changes", "depth", "mail")

    def __init__(self) -> None:
        self.changes: list[tuple[list[Fact], list[Fact]]] = []
        self.mail: list[Message] = []
        self.depth = 0


class Seen:
    """The numbers that came from one end, so that what comes twice is noticed."""

    __slots__ = ("ahead", "prefix")

    def __init__(self) -> None:
        self.prefix = 0
        self.ahead: set[int] = set()

    def admit(self, number: int) -> bool:
        """Whether a number comes for the first time."""
        if number <= self.prefix or number in self.ahead:
            return False
        self.ahead.add(number)
        while self.prefix + 1 in self.ahead:
            self.prefix += 1
            self.ahead.discard(self.prefix)
        return True


class Host:
    """The nodes of one task; `make` gives the node at an address, `relations` are those of the local program."""

    def __init__(
        self, me: int, make: Callable[[Address], Node], relations: Mapping[str, Any], placement: Placement
    ) -> None:
        self.me = me
        self._make = make
        self._placement = placement
        self._relations = relations
        self._readers = {name: row_reader(relation) for name, relation in relations.items()}
        self._numbers = {name: number for number, name in enumerate(relations)}
        self._names = list(relations)
        self.nodes: dict[Address, Node] = {}
        self._now: dict[Address, _Box] = {}
        self._next: dict[Address, _Box] = {}
        self._outbox: dict[int, list[Sent]] = {}
        self._outgoing: list[tuple[int, Frame]] = []
        self._mail_sent: dict[int, int] = {}
        self._seen: dict[int, Seen] = {}
        self._early: dict[int, Frame] = {}  # changes that came before those that precede them
        self._changes = 0
        self._asked = 0
        self.sent = self.taken = self.done = self.delivered = 0
        self.failed = False
        self._report = BurstReport(0)

    # ------------------------------------------------------------------------------------------------ frames

    @property
    def busy(self) -> bool:
        """Whether there is something to do."""
        return bool(self._now or self._next) and not self.failed

    def take(self, sender: int, frame: Frame) -> None:
        """Take in a frame of the driver or of another host."""
        if self.failed:
            return
        header = frame.header
        if sender != DRIVER:
            self._take_mail(sender, frame)
        elif "change" in header:
            self._take_change(frame)
        elif "wave" in header:
            self._put(DRIVER, Frame({**self._counters(), "wave": header["wave"]}))
        elif "ask" in header and int(header["ask"]) > self._asked:
            self._asked = int(header["ask"])
            self._answer(header)

    def outgoing(self) -> list[tuple[int, Frame]]:
        """The frames to be sent since this was last asked, and where they go."""
        found, self._outgoing = self._outgoing, []
        return found

    def tell(self) -> None:
        """Let the driver know how far this is, without being asked."""
        self._put(DRIVER, Frame(self._counters()))

    def _counters(self) -> dict[str, Any]:
        return {"sent": self.sent, "done": self.done, "delivered": self.delivered}

    def _put(self, target: int, frame: Frame) -> None:
        self._outgoing.append((target, frame))

    def _take_mail(self, sender: int, frame: Frame) -> None:
        if not self._seen.setdefault(sender, Seen()).admit(int(frame.header["mail"])):
            return
        self.taken += 1
        for message, depth in unpacked(frame, self._names):
            self._post(message, depth)

    def _take_change(self, frame: Frame) -> None:
        """Changes are made in the order of their numbers: a node sees its own facts change in order."""
        number = int(frame.header["change"])
        if number <= self._changes:
            return
        self._early[number] = frame
        while (following := self._early.pop(self._changes + 1, None)) is not None:
            self._changes += 1
            self.taken += 1
            self._enter(following.header)

    def _enter(self, header: Mapping[str, Any]) -> None:
        parts: dict[Address, tuple[list[Fact], list[Fact]]] = {}
        for side, word in enumerate(("insert", "delete")):
            for name, rows in header[word].items():
                read, location = self._readers[name], self._relations[name].location
                for plain in rows:
                    row = read(plain)
                    parts.setdefault(row[location], ([], []))[side].append((name, row))
        for address, part in parts.items():
            self._box(address).changes.append(part)

    def _box(self, address: Address) -> _Box:
        box = self._next.get(address)
        if box is None:
            box = self._next[address] = _Box()
        return box

    def _post(self, message: Message, depth: int) -> None:
        """Put a message that was sent in this round into the box of its target."""
        box = self._box(message.target)
        box.mail.append(message)
        if depth > box.depth:
            box.depth = depth

    # ------------------------------------------------------------------------------------------------ working

    def work(self, most: int) -> None:
        """Let up to so many nodes do what they have to do; at the end of a sweep, messages for other hosts leave."""
        try:
            for _ in range(most):
                if not self._now:
                    self._leave()
                    self._now, self._next = self._next, {}
                    if not self._now:
                        break
                address = next(iter(self._now))
                self._activate(address, self._now.pop(address))
            if not self._now:
                self._leave()
        except DataError as error:
            self._fail({"diagnostics": [to_json(each) for each in error.diagnostics]})
        except (wire.WireError, RecursionError) as error:
            self._fail({"deep": str(error)})
        except MemoryError:
            self._fail({"memory": True})
        if not self.busy and not self.failed and self.done < self.taken:
            self.done = self.taken
            self.tell()

    def _fail(self, failed: dict[str, Any]) -> None:
        self.failed = True
        self._put(DRIVER, Frame({"failed": failed}))

    def _activate(self, address: Address, box: _Box) -> None:
        node = self.nodes.get(address)
        if node is None:
            node = self.nodes[address] = self._make(address)
        out: list[Message] = []
        for insert, delete in box.changes:
            out += node.change(insert, delete)
        if box.mail:
            out += node.receive(box.mail)
        self.delivered += len(box.changes) + len(box.mail)
        depth = box.depth + 1
        report, task = self._report, self._placement.task
        report.steps = max(report.steps, depth)
        for message in out:
            report.send(message, wire.message_size(message), depth)
            target = task(message.target)
            if target == self.me:
                self._post(message, depth)
            else:
                self._outbox.setdefault(target, []).append((message, depth))

    def _leave(self) -> None:
        """Send what is for other hosts."""
        outbox, self._outbox = self._outbox, {}
        for target, mail in outbox.items():
            number = self._mail_sent[target] = self._mail_sent.get(target, 0) + 1
            frame = packed({"mail": number}, mail, self._numbers)
            self.sent += 1
            self._report.crossed += len(mail)
            self._report.shipped += sum(column.nbytes for column in frame.columns)
            self._put(target, frame)

    # ---------------------------------------------------------------------------------------------- answering

    def _answer(self, header: Mapping[str, Any]) -> None:
        operations: dict[str, Callable[..., list[Any]]] = {
            "read": self._read,
            "nodes": self._addresses,
            "report": self._reported,
        }
        parts = operations[header["op"]](*header["args"])
        for number, part in enumerate(parts):
            self._put(DRIVER, Frame({"to": self._asked, "part": number, "of": len(parts), "answer": part}))

    def _read(self, name: str, *address: Any) -> list[Any]:
        """All facts of a relation, or those at one address, which may be nil."""
        if not address:
            rows = [row for node in self.nodes.values() for row in node.facts(name)]
        else:
            found = self.nodes.get(value_of(address[0]))
            rows = [] if found is None else list(found.facts(name))
        return [rows[at : at + ROWS_AT_ONCE] for at in range(0, max(1, len(rows)), ROWS_AT_ONCE)]

    def _addresses(self) -> list[Any]:
        return [[*self.nodes]]

    def _reported(self) -> list[Any]:
        """What was sent since this was asked last; what waits in nodes, which is nothing once all is settled."""
        report, self._report = self._report, BurstReport(0)
        waiting = sum(node.waiting() for node in self.nodes.values())
        task = {"process": os.getpid(), "nodes": len(self.nodes), "processor": round(time.process_time(), 3)}
        return [{**report.to_wire(), "waiting": waiting, "task": task}]
