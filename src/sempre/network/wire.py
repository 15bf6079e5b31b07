"""Messages as bytes: a small self-describing format, and the size of a message without writing it.

    value    i + 8 bytes (int, two's complement) | u + 8 (int from 2^63) | f + 8 (float) | s + length + UTF-8 | n (nil)
             | t + count + values (a tuple) | c + count + (relation, key)... (a proof, flat)
    message  length, then the tuple (source, target, number, updates)

Nothing in it can run: reading builds numbers, texts and tuples only.
"""

from __future__ import annotations

import struct
from typing import Any

from sempre.network.node import Message

_LENGTH = struct.Struct("<I")
_INT = struct.Struct("<q")
_UINT = struct.Struct("<Q")
_FLOAT = struct.Struct("<d")
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
