"""What callers hand over: things of another kind are refused by name, before anything is done with them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from sempre.diagnostics import BackendError, DataError, Diagnostic, StateError
from sempre.limits import Limits


def check_atom(text: object, what: str = "a question", example: str = 'reach("a", X)') -> None:
    """Refuse what is no text where an atom is asked for."""
    if not isinstance(text, str):
        raise StateError(f"{what} is text, and this is {_kind(text)}", hint=f"Such as '{example}'.")


def check_place(place: object, what: str) -> None:
    """Refuse what is no path or URL."""
    if not isinstance(place, str | os.PathLike) or isinstance(os.fspath(place), bytes):
        raise StateError(f"{what} is a path or a URL, and this is {_kind(place)}", hint="Use text or a `pathlib.Path`.")


def check_count(count: object, name: str, least: int) -> None:
    """Refuse what is no whole number, or too small; None is for the default."""
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < least):
        raise StateError(f"`{name}` is {count!r}", hint=f"Use a whole number from {least}, or leave it out.")


def check_names(names: object, name: str) -> None:
    """Refuse what are no names of relations: one, or several."""
    if isinstance(names, str) or names is None:
        return
    if isinstance(names, bytes) or not isinstance(names, Iterable):
        raise StateError(f"`{name}` is {names!r}", hint=f'Use names of relations: `{name}=["reach"]`.')


def check_session(spark: object) -> None:
    """Refuse what is plainly no Spark session, such as the URL of a master; pyspark is not imported."""
    if isinstance(spark, str | bytes | int | float | list | tuple | dict | set):
        hint = "Use a SparkSession, such as `SparkSession.builder.getOrCreate()`."
        raise BackendError(f"`spark` is a session, and this is {_kind(spark)}", hint=hint)


def check_knobs(progress: object, limits: object) -> None:
    """Refuse a `progress` that cannot be called, and thresholds that are none."""
    if progress is not None and not callable(progress):
        raise StateError(
            f"`progress` is called, and this is {_kind(progress)}", hint="Use a function, or leave it out."
        )
    if not isinstance(limits, Limits):
        raise StateError(f"`limits` is {_kind(limits)}", hint="Use `sempre.limits.Limits(...)`, or leave it out.")


def check_stream(stream: Any) -> None:
    """Refuse what is no DataFrame."""
    if not hasattr(stream, "isStreaming"):
        hint = "Read it with spark.readStream, or use apply()."
        raise DataError(Diagnostic("E518", f"a stream is a DataFrame, and this is {_kind(stream)}", hint=hint))


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
