"""What a node is to whoever carries its messages: a state machine over plain data.

    changes of base facts, messages  ──▶  node  ──▶  messages

A node does no I/O, keeps no clock and knows no other node but by address. A carrier delivers every message to the node
it is for, once or (where `Node.tolerates_duplicates`) more often, in any order and after any time. When no message is
undelivered and no node is `waiting`, the facts of all nodes are the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from sempre.network.node_tables import Row

Address = Any  # the value in the location column: an int, a str, or a record as a tuple


class Message(NamedTuple):
    """What one node tells another. `number` counts the messages from `source` to `target`, from 1.

    `updates` are tuples of plain values whose meaning is the algorithm's; `wire` has them as bytes.
    """

    source: Address
    target: Address
    number: int
    updates: tuple[tuple[Any, ...], ...]


Fact = tuple[str, Row]


def same_address(one: Address, other: Address) -> bool:
    """Whether two addresses are those of one node; NaN is one, too, and there is one object for it."""
    return one is other or bool(one == other)


class Node(Protocol):
    """One node of the network."""

    tolerates_duplicates: bool

    def change(self, insert: Iterable[Fact], delete: Iterable[Fact]) -> list[Message]:
        """Insert and delete base facts that live here; what is there already, or is not there, is no change."""

    def receive(self, messages: Sequence[Message]) -> list[Message]:
        """Take messages in, all at once; what to send because of them."""

    def facts(self, relation: str) -> Iterable[Row]:
        """The facts of a relation that hold here now."""

    def waiting(self) -> int:
        """How many updates the node has taken in and cannot apply yet."""
