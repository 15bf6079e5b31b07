"""Paths and URLs: which places a process reaches by itself."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sempre.diagnostics import DataError, Diagnostic

# Also with one slash, as in `dbfs:/mnt/x`. A single letter is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_LOCAL = re.compile(r"file:(?://(?=/)|(?=/(?!/)))", re.IGNORECASE)


def is_url(place: object) -> bool:
    """Whether a file or folder is named with a scheme, `file:` included."""
    return _SCHEME.match(_text(place)) is not None


def local_path(place: object) -> Path | None:
    """The path in the file system that `place` names, which may be a `file:` URL; None if it is somewhere else."""
    text = _text(place)
    local = _LOCAL.match(text)
    if local is not None:
        return Path(text[local.end() :])
    return None if is_url(text) else Path(text)


def reachable(place: object) -> Path:
    """The path that `place` names; raises `DataError` if only Spark can reach it."""
    path = local_path(place)
    if path is None:
        hint = "Run with --on spark, which is the default, or give the database a session."
        raise DataError(Diagnostic("E515", f"`{_text(place)}` is a place that only Spark can reach", hint=hint))
    return path


def path_inside(folder: object, name: str) -> Path:
    """The path of a file whose name is relative to a folder; raises like `reachable`."""
    return reachable(name) if is_url(name) else reachable(folder) / name


def _text(place: object) -> str:
    return os.fspath(place) if isinstance(place, str | os.PathLike) else str(place)
