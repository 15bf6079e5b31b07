"""Frames of Arrow tables; the packages that have them are nobody's dependency, and an error says which is missing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sempre.diagnostics import BackendError, Diagnostic

if TYPE_CHECKING:
    import pyarrow as pa


def pandas_frame(table: pa.Table) -> Any:
    """A pandas DataFrame."""
    _imported("pandas")
    return table.to_pandas()


def polars_frame(table: pa.Table) -> Any:
    """A polars DataFrame."""
    return _imported("polars").from_arrow(table)


def _imported(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        hint = f"Install it: pip install {package}. `to_arrow()` needs nothing."
        message = f"a frame of {package} needs the package `{package}`"
        raise BackendError(Diagnostic("E663", message, hint=hint)) from None
