"""What the sources of table formats share: columns, locations, and packages that need not be installed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from sempre.analysis.model import Relation, Type
from sempre.diagnostics import BackendError, DataError, Diagnostic, Span
from sempre.files.directive_options import Endpoint
from sempre.files.foreign import conform
from sempre.files.locations import is_url
from sempre.files.matching import matched


def need(package: str, io: str, load: Callable[[], Any]) -> Any:
    """A package that an extra brings; an error that says which, where it is not installed."""
    try:
        return load()
    except ImportError:
        hint = f"Install it: pip install 'sempre[{io}]'."
        raise BackendError(Diagnostic("E663", f"`IO={io}` needs the package `{package}`", hint=hint)) from None


def table_location(endpoint: Endpoint, folder: Path) -> str:
    """Where a table is: a URL as it is, a path from the folder of the facts."""
    return endpoint.table if is_url(endpoint.table) else str((folder / endpoint.table).absolute())


@contextmanager
def told(place: str, doing: str) -> Iterator[None]:
    """What a package of a table format raises, as an error of ours."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about the package's own steps
            yield
    except (BackendError, DataError):
        raise
    except Exception as error:  # they have no base class in common
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise DataError(
            Diagnostic("E506", f"cannot {doing} table `{place}`: {reason}", Span(place, 0, 0, 0, 0))
        ) from error


class TableColumns:
    """Takes the columns of a relation out of rows of a table."""

    def __init__(self, endpoint: Endpoint, relation: Relation, types: Mapping[str, Type], place: str) -> None:
        self._relation = relation
        self._place = place
        self._taking = endpoint.taking
        self._conform = partial(
            conform,
            relation=relation,
            origin=place,
            types=types,
            values=endpoint.values,
            taking=endpoint.taking,
        )

    def wanted(self, names: list[str]) -> list[str]:
        """The columns of the table that the relation needs; raises where that cannot be told."""
        places = matched(self._relation, names, f"`{self._place}`", self._taking, span=Span(self._place, 0, 0, 0, 0))
        return [names[place] for place in sorted(places.places)]

    def taken(self, table: pa.Table) -> pa.Table:
        """The rows with the relation's columns; what its types do not take is an error that names the column."""
        return self._conform(plain(table))


def plain(table: pa.Table) -> pa.Table:
    """The table with texts as everybody else has them."""
    fields = [
        field.with_type(pa.string())
        if pa.types.is_string_view(field.type) or pa.types.is_large_string(field.type)
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
