"""Messages as bytes: a small self-describing format, and the size of a message without writing it.

    value    i + 8 bytes (an int, signed) | u + 8 (an int from 2^63) | f + 8 (a float) | s + length + UTF-8 | n (nil)
             | t + count + values (a tuple)
    name     r + 2 bytes: the number of a relation in the program
    proof    c + count + (name, key, version)...
    update   t + count, then (name, key, claim, cause) of `proofs`, or (sign, name, row, facts, facts) of `psn`
    message  length of what follows, then t4, source, target, number, t + count, updates

Lengths and counts take 4 bytes, little end first. Reading builds numbers, texts and tuples only: nothing in it can run.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from sempre.network.node import Message

_LENGTH = struct.Struct("<I")
_INT = struct.Struct("<q")
_UINT = struct.Struct("<Q")
_FLOAT = struct.Struct("<d")
_NUMBER = struct.Struct("<H")
_NAME = 3  # bytes that a relation's name takes: a tag and its number in the program


class WireError(ValueError):
    """Bytes that are not a message."""


def key_size(key: tuple[Any, ...]) -> int:
    """Bytes of one key of a proof."""
    return _NAME + value_size(key) + 9


def value_size(value: Any) -> int:
    if isinstance(value, int | float):
        return 9
    if isinstance(value, str):
        return 5 + (len(value) if value.isascii() else len(value.encode()))
    if value is None:
        return 1
    size = 5
    for part in value:
        if isinstance(part, str):
            size += 5 + (len(part) if part.isascii() else len(part.encode()))
        else:
            size += value_size(part)
    return size


def message_size(message: Message) -> int:
    """Bytes that `encode` would write."""
    size = 4 + 5 + value_size(message.source) + value_size(message.target) + 9 + 5
    for update in message.updates:
        size += update_size(update)
    return size


def update_size(update: tuple[Any, ...]) -> int:
    """Bytes of one update: (relation, key, claim, cause) or (sign, relation, row, ...)."""
    if len(update) == 4:
        _, key, claim, cause = update
        size = 5 + _NAME + value_size(key) + (1 if cause is None else 5 + _NAME + value_size(cause[1]) + 9)
        if claim is None:
            return size + 1
        proof = claim[3]
        return size + 5 + value_size(claim[0]) + 9 + value_size(claim[2]) + 5 + (proof[3] if proof is not None else 0)
    return 5 + sum(_NAME if at == 1 else value_size(part) for at, part in enumerate(update))


# ------------------------------------------------------------------------------------------------- writing


def encode(message: Message, numbers: Mapping[str, int]) -> bytes:
    """A message as bytes; `numbers` gives the relations of the program their numbers.

    Raises `WireError` where a count or a number does not fit (65,536 relations, 4 GiB a message), or a value is nested
    more deeply than messages may be.
    """
    try:
        return _encoded(message, numbers)
    except struct.error as error:
        raise WireError(f"the message cannot be written: {error}") from None


def _encoded(message: Message, numbers: Mapping[str, int]) -> bytes:
    out = bytearray(4)
    _header(out, b"t", 4)
    for part in message[:3]:
        _value(out, part)
    _header(out, b"t", len(message.updates))
    for update in message.updates:
        _update(out, update, numbers)
    _LENGTH.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _header(out: bytearray, tag: bytes, count: int) -> None:
    out += tag
    out += _LENGTH.pack(count)


def _value(out: bytearray, value: Any, depth: int = 0) -> None:
    if isinstance(value, int):
        out += b"i" + _INT.pack(value) if value < 1 << 63 else b"u" + _UINT.pack(value)
    elif isinstance(value, float):
        out += b"f" + _FLOAT.pack(value)
    elif isinstance(value, str):
        data = value.encode()
        _header(out, b"s", len(data))
        out += data
    elif value is None:
        out += b"n"
    else:
        if depth >= MOST_NESTED:
            raise WireError("nested too deeply")
        _header(out, b"t", len(value))
        for part in value:
            _value(out, part, depth + 1)


def _name(out: bytearray, name: str, numbers: Mapping[str, int]) -> None:
    out += b"r" + _NUMBER.pack(numbers[name])


def _update(out: bytearray, update: tuple[Any, ...], numbers: Mapping[str, int]) -> None:
    _header(out, b"t", len(update))
    if len(update) == 5:
        for at, part in enumerate(update):
            if at == 1:
                _name(out, part, numbers)
            else:
                _value(out, part)
        return
    name, key, claim, cause = update
    _name(out, name, numbers)
    _value(out, key)
    if claim is None:
        out += b"n"
    else:
        _header(out, b"t", 4)
        for part in claim[:3]:
            _value(out, part)
        _proof(out, claim[3], numbers)
    if cause is None:
        out += b"n"
    else:
        _header(out, b"t", 3)
        _name(out, cause[0], numbers)
        _value(out, cause[1])
        _value(out, cause[2])


def _proof(out: bytearray, proof: Any, numbers: Mapping[str, int]) -> None:
    links = []
    while proof is not None:
        links.append(proof)
        proof = proof[2]
    _header(out, b"c", len(links))
    for link in links:
        _name(out, link[0], numbers)
        _value(out, link[1])
        _value(out, link[4])


# ------------------------------------------------------------------------------------------------- reading


def decode(data: bytes, names: Sequence[str]) -> Message:
    """The message that `encode` wrote; raises `WireError` for anything else."""
    reader = _Reader(data, names)
    try:
        if reader.length() != len(data) - 4:
            raise WireError("the length is wrong")
        parts = reader.value()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"not a message: {error}") from None
    if reader.at != len(data) or not isinstance(parts, tuple) or len(parts) != 4:
        raise WireError("not a message")
    return Message(*parts)


class _Reader:
    def __init__(self, data: bytes, names: Sequence[str]) -> None:
        self.data = data
        self.names = names
        self.at = 0

    def take(self, form: struct.Struct) -> Any:
        (value,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return value

    def length(self) -> int:
        value: int = self.take(_LENGTH)
        return value

    def value(self, depth: int = 0) -> Any:
        if depth > MOST_NESTED + MOST_AROUND:
            raise WireError("nested too deeply")
        tag = self.data[self.at : self.at + 1]
        self.at += 1
        if tag in _FIXED:
            number = self.take(_FIXED[tag])
            return number if number == number else math.nan  # the one that tables know
        if tag == b"n":
            return None
        if tag == b"r":
            return self.names[self.take(_NUMBER)]
        count = self.length()
        if count > len(self.data):
            raise WireError("a count is larger than the message")
        if tag == b"s":
            self.at += count
            return self.data[self.at - count : self.at].decode()
        if tag == b"c":
            return self.proof(count, depth)
        if tag != b"t":
            raise WireError(f"unknown tag {tag!r}")
        return tuple(self.value(depth + 1) for _ in range(count))

    def proof(self, count: int, depth: int) -> Any:
        """A chain, built from its far end."""
        links = [(self.value(depth + 1), self.value(depth + 1), self.value(depth + 1)) for _ in range(count)]
        chain: Any = None
        for name, key, version in reversed(links):
            size = key_size(key) + (chain[3] if chain is not None else 0)
            chain = (name, key, chain, size, version)
        return chain


_FIXED = {b"i": _INT, b"u": _UINT, b"f": _FLOAT}
MOST_NESTED = 300  # what reads them calls itself twice for each level
# Around a value are a claim, an update, the updates and the message.
MOST_AROUND = 8
