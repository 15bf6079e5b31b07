"""Messages that travel together, as one frame: columns of their lengths and rounds, and their bytes as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sempre.network import wire
from sempre.network.node import Message
from sempre.workers.framing import Frame, FrameError

# A message, and the round that it was sent in.
Sent = tuple[Message, int]
_WORD = 8


def packed(header: Mapping[str, Any], mail: Sequence[Sent], numbers: Mapping[str, int]) -> Frame:
    """One frame with all messages; raises `WireError` for what cannot be written."""
    letters = [wire.encode(message, numbers) for message, _ in mail]
    data = b"".join(letters)
    padded = data + bytes(-len(data) % _WORD)
    columns = [
        np.array([len(letter) for letter in letters], np.int64),
        np.array([depth for _, depth in mail], np.int64),
        np.frombuffer(padded, "<i8"),
    ]
    return Frame(dict(header), columns)


def unpacked(frame: Frame, names: Sequence[str]) -> list[Sent]:
    """The messages of a frame; raises `FrameError` for what is none."""
    if len(frame.columns) != 3:
        raise FrameError("a frame without messages")
    lengths, depths, words = frame.columns
    data = np.ascontiguousarray(words, "<i8").tobytes()
    found = []
    at = 0
    try:
        for length, depth in zip(lengths.tolist(), depths.tolist(), strict=True):
            found.append((wire.decode(data[at : at + length], names), depth))
            at += length
    except (wire.WireError, ValueError) as error:
        raise FrameError(f"a message that cannot be read: {error}") from None
    return found
