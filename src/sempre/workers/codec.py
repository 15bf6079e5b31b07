"""Plans and programs as plain JSON values, and back.

Only classes of the lists here come back: they are frozen data, and none of them does anything when it is made.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

from sempre import diagnostics, limits
from sempre.analysis import model
from sempre.lang import syntax
from sempre.plan import ops


def _dataclasses(module: Any) -> dict[str, type]:
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": found
        for name, found in vars(module).items()
        if isinstance(found, type) and found.__module__ == module.__name__
    }


_CLASSES = {**_dataclasses(model), **_dataclasses(ops), **_dataclasses(syntax), **_dataclasses(diagnostics)}
_CLASSES |= _dataclasses(limits)
_KEYS = {found: key for key, found in _CLASSES.items()}


def to_json(value: Any) -> Any:
    """A value that `json` can write."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum):
        return {"e": [_KEYS[type(value)], value.name]}
    if isinstance(value, tuple):
        return {"t": [to_json(item) for item in value]}
    if isinstance(value, frozenset):
        return {"s": sorted((to_json(item) for item in value), key=repr)}
    if isinstance(value, dict):
        return {"d": [[to_json(key), to_json(item)] for key, item in value.items()]}
    assert dataclasses.is_dataclass(value), f"{type(value).__name__} does not travel"
    fields = [to_json(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init]
    return {"c": _KEYS[type(value)], "f": fields}


def from_json(value: Any) -> Any:
    """What `to_json` made of it, before."""
    if not isinstance(value, dict):
        return value
    if "t" in value:
        return tuple(from_json(item) for item in value["t"])
    if "s" in value:
        return frozenset(from_json(item) for item in value["s"])
    if "d" in value:
        return {from_json(key): from_json(item) for key, item in value["d"]}
    if "e" in value:
        name, member = value["e"]
        return getattr(_CLASSES[name], member)
    found = _CLASSES[value["c"]]
    names = [field.name for field in dataclasses.fields(found) if field.init]
    return found(**dict(zip(names, map(from_json, value["f"]), strict=True)))
