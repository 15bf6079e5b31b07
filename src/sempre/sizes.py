"""Amounts of memory as people write them."""

from __future__ import annotations

import re

from sempre.diagnostics import StateError

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?")


def parse_size(size: int | str | None) -> int | None:
    """Bytes, from a number or a text such as `512M`, `8g` or `1.5GiB`; units are powers of 1024."""
    if size is None or isinstance(size, int):
        return size
    match = _SIZE.fullmatch(size.strip().lower())
    if match is None or float(match[1]) == 0:
        raise StateError(f"`{size}` is not a size", hint="Write a number of bytes, or such as 512M or 2G.")
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2] or " "))
