"""Relations that are stored as tables: on the cluster, or read into the driver where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePath
from typing import Any, Protocol

from sempre.analysis.model import CheckedProgram
from sempre.backends.local import LocalBackend
from sempre.spark.cluster.column_types import from_arrow, kinds_of, names_of
from sempre.storage.disk import Disk

Parts = Sequence[tuple[Any, Sequence[Any]]]


class Tables(Protocol):
    """Makes versions of the tables of a store."""

    def opened(self, relation: str, path: PurePath, rows: int) -> Any:
        """The rows in a folder; they stay there."""
        ...

    def landing(self) -> Path | None:
        """A new folder for a table that is not on this machine; None if `opened` reads it where it is."""
        ...

    def files_of(self, table: Any) -> AbstractContextManager[Path]:
        """A folder of this machine with the files of a table."""
        ...

    def assembled(self, relation: str, parts: Parts, rows: int) -> Any:
        """A version of so many rows: disjoint parts, each without what was taken out of it."""
        ...


class LocalTables:
    """Reads tables into the memory of this process."""

    def __init__(self, program: CheckedProgram, backend: LocalBackend, disk: Disk) -> None:
        self._program = program
        self._backend = backend
        self._disk = disk

    def landing(self) -> Path | None:
        return None

    def files_of(self, table: Any) -> AbstractContextManager[Path]:
        raise AssertionError("nothing is written as a table where nothing is on the cluster")

    def opened(self, relation: str, path: PurePath, rows: int) -> Any:
        kinds = kinds_of(self._program.relations[relation], self._program.types)
        table = self._disk.table(path, names_of(kinds))
        values, arity = self._backend.values, self._program.relations[relation].arity
        columns = [from_arrow(values, table.column(f"c{at}"), kinds[at]) for at in range(arity)]
        self._backend.fit({relation: columns})
        return self._backend.rows(relation, columns, rows)

    def assembled(self, relation: str, parts: Parts, rows: int) -> Any:
        backend = self._backend
        version = backend.empty(relation)
        for part, gone in parts:
            here = backend.version(part)
            for each in gone:
                here = here.removing(backend.intersection(each, here))
            version = version.adding(here.rows())
        return backend.fitted(relation, version)
