"""Values as the oracle has them."""

from __future__ import annotations

from typing import Any

from tests.oracle.values import Value, canonical


def plain(value: Any) -> Value:
    """A value as the oracle has it: records are tuples, NaN is one."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return canonical(value.item() if hasattr(value, "item") else value)
