"""Amounts of memory as people write them."""

from __future__ import annotations

import re

from sempre.diagnostics import StateError

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?")


def parse_size(size: int | str | None) -> int | None:
    """Bytes, from a number or a text such as `512M`, `8g` or `1.5GiB`; units are powers of 1024."""
    if size is None:
        return None
    bytes_: float = 0
    if isinstance(size, int) and not isinstance(size, bool):
        bytes_ = size
    elif isinstance(size, str) and (match := _SIZE.fullmatch(size.strip().lower())):
        bytes_ = float(match[1]) * 1024 ** " kmgt".index(match[2] or " ")
    if not 1 <= bytes_ < 1 << 63:
        raise StateError(f"`{size}` is not a size", hint="Write a number of bytes, or such as 512M or 2G.")
    return int(bytes_)
