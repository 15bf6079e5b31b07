"""A folder of Parquet files as a target of changes: a file for each epoch, which is renamed into place."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa

from sempre.diagnostics import DataError, Diagnostic, Span

NAME = "epoch-{epoch:012}-{publisher}.parquet"


class ParquetChanges:
    """A folder; the names of its files say which epochs of which stores it has."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def epoch(self, publisher: str) -> int | None:
        pattern = re.compile(rf"epoch-(\d+)-{publisher}\.parquet")
        found = (pattern.fullmatch(file.name) for file in self._path.glob("epoch-*.parquet"))
        return max((int(each[1]) for each in found if each), default=None)

    def append(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        import pyarrow.parquet as pq

        name = NAME.format(epoch=epoch, publisher=publisher)
        temporary = self._path / f".{name}.{os.getpid()}.tmp"
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            try:
                pq.write_table(rows, temporary, compression="zstd")
                temporary.replace(self._path / name)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"cannot write `{self._path}`: {reason}"
            raise DataError(Diagnostic("E512", message, Span(str(self._path), 0, 0, 0, 0))) from None

    def replace(self, rows: pa.Table, publisher: str, epoch: int) -> None:
        raise AssertionError("changes are appended")

    def change(self, added: pa.Table, removed: pa.Table, publisher: str, epoch: int) -> bool:
        raise AssertionError("changes are appended")
