"""A frame: a small header as JSON, then columns of integers as bytes.

    magic (4) | length of the header (4) | length of the body (8) | header | body

A column takes as few bytes per value as its values allow: `[offset, width, count]` in the header says how to read it.
Lengths are checked before anything is allocated, and nothing in a frame is code: whoever is connected can send wrong
rows, and nothing else.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sempre.data import dataclass

Column = NDArray[np.int64]

MAGIC = b"smp1"
PREFIX = struct.Struct("<4sIQ")
MOST_HEADER = 1 << 28
MOST_BODY = 1 << 36
_WIDTHS: dict[int, np.dtype[Any]] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4"), 8: np.dtype("<i8")}
# Fewer values than this are sent as they are: looking for their range would cost more than it saves.
_FEW_VALUES = 64


class FrameError(Exception):
    """What came is no frame."""


@dataclass(slots=True)
class Frame:
    """What is sent at once."""

    header: dict[str, Any]
    columns: list[Column] = field(default_factory=list)
    _text: str = ""

    def text(self) -> str:
        """The header as JSON, written once for all links that the frame goes over."""
        if not self._text:
            self._text = json.dumps(self.header, separators=(",", ":"), ensure_ascii=False)
        return self._text


def encode(frame: Frame, number: int) -> list[bytes | memoryview]:
    """The frame with its number on its link, as buffers to be sent one after the other."""
    shapes: list[list[int]] = []
    buffers: list[bytes | memoryview] = []
    body = 0
    for column in frame.columns:
        offset, width, data = _packed(column)
        shapes.append([offset, width, column.size])
        if data.size:
            buffers.append(data.data.cast("B"))
            body += data.nbytes
    header = f'{{"h":{frame.text()},"c":{json.dumps(shapes)},"s":{number}}}'.encode("utf-8", "surrogatepass")
    return [PREFIX.pack(MAGIC, len(header), body) + header, *buffers]


def _packed(column: Column) -> tuple[int, int, NDArray[Any]]:
    if column.size >= _FEW_VALUES:
        low, high = int(column.min()), int(column.max())
        for width in (1, 2, 4):
            if high - low < 1 << 8 * width:
                return low, width, (column - low if low else column).astype(_WIDTHS[width])
    return 0, 8, np.ascontiguousarray(column, _WIDTHS[8])


def lengths(prefix: bytes) -> tuple[int, int]:
    """The lengths of header and body that a prefix announces."""
    magic, header, body = PREFIX.unpack(prefix)
    if magic != MAGIC or header > MOST_HEADER or body > MOST_BODY:
        raise FrameError("the other end does not speak this protocol")
    return header, body


def decode(header: bytes | memoryview, body: bytes | memoryview | bytearray) -> tuple[Frame, int]:
    """The frame of a header and a body, and its number."""
    try:
        whole = json.loads(bytes(header).decode("utf-8", "surrogatepass"))
        content, shapes, number = whole["h"], whole["c"], int(whole["s"])
        columns, at = [], 0
        for offset, width, count in shapes:
            size = _WIDTHS[width].itemsize * count
            if count < 0 or at + size > len(body):
                raise FrameError("a column is longer than its frame")
            raw = np.frombuffer(body, _WIDTHS[width], count, at) if count else np.empty(0, np.int64)
            values = raw.astype(np.int64, copy=False)
            columns.append(values + offset if offset else values)
            at += size
    except (ValueError, KeyError, TypeError) as error:
        raise FrameError(f"a frame that cannot be read: {error}") from None
    if at != len(body):
        raise FrameError("a frame is longer than its columns")
    return Frame(content, columns), number


def size_of(buffers: Sequence[bytes | memoryview]) -> int:
    """How many bytes are sent."""
    return sum(len(buffer) for buffer in buffers)
