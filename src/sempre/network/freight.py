"""Messages that travel together, as one frame.

Within a frame every value is written once, and so is every link of a proof: nodes tell several neighbors the same, and
proofs share their ends. One column has the values, as bytes of JSON, rows as lists; the others have numbers:

    messages   source, target, number, round, updates     by message; source and target are values
    links      relation, key, rest, bytes, version         by link of a proof; `rest` is a link before it, or NONE
    updates    relation, key, claim: potential, level, value, proof, cause: relation, key, version     of `proofs`
               or sign, relation, row, and two values: on what it rests                                of others

A claim or a cause that is not there is one NONE. Reading builds numbers, texts and tuples only: nothing in it can run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sempre.network.node import Message
from sempre.network.plain import value_of
from sempre.network.wire import WireError
from sempre.workers.framing import Frame, FrameError

# A message, and the round that it was sent in.
Sent = tuple[Message, int]
NONE = -1
_WORD = 8
# Reading a value that is nested deeper than this might exhaust the stack.
DEEPEST_VALUE = 300


def packed(header: Mapping[str, Any], mail: Sequence[Sent], numbers: Mapping[str, int]) -> Frame:
    """One frame with all messages; raises `WireError` for what cannot be written."""
    writer = _Writer(numbers)
    for message, depth in mail:
        writer.message(message, depth)
    text = json.dumps(writer.values, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    columns = [np.frombuffer(text + b" " * (-len(text) % _WORD), "<i8")]
    columns += [np.array(column, np.int64) for column in (writer.messages, writer.links, writer.updates)]
    return Frame({**header, "counts": writer.counts}, columns)


class _Writer:
    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.numbers = numbers
        self.values: list[Any] = []
        self.messages: list[int] = []
        self.links: list[int] = []
        self.updates: list[int] = []
        self.counts = False
        # Values of one relation, or of one type: 1 and 1.0 are equal, and not the same.
        self._places: dict[tuple[Any, Any], int] = {}
        self._chains: dict[int, int] = {}

    def message(self, message: Message, depth: int) -> None:
        source, target, number, updates = message
        self.messages += (self.value(source), self.value(target), number, depth, len(updates))
        for update in updates:
            if len(update) == 4:
                self.claim(*update)
            else:
                self.derivation(*update)

    def row(self, relation: int, row: tuple[Any, ...]) -> int:
        place = self._places.get((relation, row))
        if place is None:
            place = self._places[relation, row] = self._added(row)
        return place

    def value(self, value: Any) -> int:
        if type(value) is tuple:
            return self._added(value)
        place = self._places.get((type(value), value))
        if place is None:
            place = self._places[type(value), value] = self._added(value)
        return place

    def _added(self, value: Any) -> int:
        if type(value) is tuple and any(type(part) is tuple for part in value) and _depth(value) > DEEPEST_VALUE:
            raise WireError("nested too deeply")
        self.values.append(value)
        return len(self.values) - 1

    def claim(self, name: str, key: tuple[Any, ...], claim: Any, cause: Any) -> None:
        relation = self.numbers[name]
        out = self.updates
        out += (relation, self.row(relation, key))
        if claim is None:
            out.append(NONE)
        else:
            potential, level, value, proof = claim
            out += (self.value(potential), level, self.value(value), self.chain(proof))
        if cause is None:
            out.append(NONE)
        else:
            number = self.numbers[cause[0]]
            out += (number, self.row(number, cause[1]), cause[2])

    def chain(self, proof: Any) -> int:
        """The number of a chain; its links that are not written yet are, from its end."""
        missing = []
        while proof is not None and id(proof) not in self._chains:
            missing.append(proof)
            proof = proof[2]
        rest = NONE if proof is None else self._chains[id(proof)]
        for link in reversed(missing):
            name, key, _, size, version = link
            number = self.numbers[name]
            self.links += (number, self.row(number, key), rest, size, version)
            rest = self._chains[id(link)] = len(self._chains)
        return rest

    def derivation(self, sign: int, name: str, row: tuple[Any, ...], *more: Any) -> None:
        self.counts = True
        relation = self.numbers[name]
        self.updates += (sign, relation, self.row(relation, row), *map(self.value, more))


def _depth(value: Any) -> int:
    """How deep tuples are nested; nothing here recurs."""
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [part for each in level for part in each if type(part) is tuple]
    return depth


# ------------------------------------------------------------------------------------------------- reading


def unpacked(frame: Frame, names: Sequence[str]) -> list[Sent]:
    """The messages of a frame; raises `FrameError` for what is none."""
    try:
        return list(_read(frame, names))
    except (ValueError, IndexError, KeyError, TypeError, StopIteration, RuntimeError) as error:
        raise FrameError(f"messages that cannot be read: {error!r}") from None


def _read(frame: Frame, names: Sequence[str]) -> Iterator[Sent]:
    words, *columns = frame.columns
    heads, joints, written = (column.tolist() for column in columns)
    text = np.ascontiguousarray(words, "<i8").tobytes().decode("utf-8", "surrogatepass")
    values = [value_of(value) for value in json.loads(text)]
    if any(place < NONE for column in (heads, joints) for place in column):
        raise ValueError("a number below zero")
    chains: list[Any] = []
    for at in range(0, len(joints), 5):
        number, key, rest, size, version = joints[at : at + 5]
        chains.append((names[number], values[key], None if rest == NONE else chains[rest], size, version))
    numbers = iter(written)
    read = _derivations if frame.header["counts"] else _claims
    for at in range(0, len(heads), 5):
        source, target, number, depth, size = heads[at : at + 5]
        updates = tuple(read(numbers, size, names, values, chains))
        yield Message(values[source], values[target], number, updates), depth
    if next(numbers, None) is not None:
        raise ValueError("more updates than messages have")


def _claims(
    numbers: Iterator[int], size: int, names: Sequence[str], values: Sequence[Any], chains: Sequence[Any]
) -> Iterator[tuple[Any, ...]]:
    for _ in range(size):
        name, key = names[next(numbers)], values[next(numbers)]
        claim = cause = None
        if (potential := next(numbers)) != NONE:
            level, value, proof = next(numbers), next(numbers), next(numbers)
            claim = (values[potential], level, values[value], None if proof == NONE else chains[proof])
        if (number := next(numbers)) != NONE:
            cause = (names[number], values[next(numbers)], next(numbers))
        yield name, key, claim, cause


def _derivations(
    numbers: Iterator[int], size: int, names: Sequence[str], values: Sequence[Any], chains: Sequence[Any]
) -> Iterator[tuple[Any, ...]]:
    for _ in range(size):
        sign, name, row = next(numbers), names[next(numbers)], values[next(numbers)]
        yield sign, name, row, values[next(numbers)], values[next(numbers)]
