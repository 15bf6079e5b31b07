"""Rows of a stream that cannot be taken: why each of them cannot, and the folder that they are put into.

`REJECTS/STREAM-000000000012.parquet` has those of batch 12. It is there, whole, before the epoch of the batch can be
seen. A batch that comes again after a crash has the same rows, and writes the same file again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sempre.analysis.model import Kind, Relation, Type
from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, DataError, Diagnostic
from sempre.files.locations import is_url
from sempre.files.records import parse_record
from sempre.files.value_choice import ValueChoice
from sempre.spark.frames import finished

# Beside every row, where it is from and what it was.
FILE, ROW = "_file", "_row"
SCHEMA = pa.schema(
    [("_batch", pa.int64()), ("_relation", pa.string()), ("_reason", pa.string()), (FILE, pa.string()),
     (ROW, pa.string())]
)  # fmt: skip


def faults(table: pa.Table, relation: Relation, values: ValueChoice, types: Mapping[str, Type]) -> dict[int, str]:
    """Why rows cannot be facts of a relation, by their places; its columns are those of `table`, as Spark sent them."""
    found: dict[int, str] = {}
    for name, column in zip(relation.columns, table.columns, strict=True):
        if values.fill(name) is None and not values.drop_nulls:
            for at in pc.indices_nonzero(pc.is_null(column)).to_pylist():
                found.setdefault(at, f"column `{name}` of relation `{relation.name}`: a null")
    _search(table, list(range(table.num_rows)), relation, values, found)
    for column, type_ in zip(table.columns, relation.types, strict=True):
        if type_.kind is Kind.RECORD:
            _judge_records(column, type_, types, relation, found)
    return found


def check_records(column: pa.ChunkedArray, relation: Relation, type_: Type, types: Mapping[str, Type]) -> None:
    """Raise if some text is no record."""
    found: dict[int, str] = {}
    _judge_records(column, type_, types, relation, found)
    if found:
        raise DataError(Diagnostic("E507", next(iter(found.values()))))


def _search(table: pa.Table, places: list[int], relation: Relation, values: ValueChoice, found: dict[int, str]) -> None:
    """Halve the rows until each that is wrong is alone."""
    if values.drop_nulls:  # such rows are not taken, and that is not wrong
        gone = np.zeros(table.num_rows, np.bool_)
        for column in table.columns:
            gone |= np.asarray(pc.is_null(column))
        places = [at for at in places if not gone[at]]
    places = [at for at in places if at not in found]
    if not places:
        return
    try:
        finished(table.take(pa.array(places)), relation, NOWHERE, values)
    except DataError as error:
        if len(places) == 1:
            found[places[0]] = "; ".join(each.message for each in error.diagnostics)
            return
        middle = len(places) // 2
        _search(table, places[:middle], relation, values, found)
        _search(table, places[middle:], relation, values, found)


def _judge_records(
    column: pa.ChunkedArray, type_: Type, types: Mapping[str, Type], relation: Relation, found: dict[int, str]
) -> None:
    for at in range(len(column)):
        if at not in found and column[at].is_valid:
            text = column[at].as_py()
            try:
                parse_record(text, type_, types)
            except ValueError as error:
                found[at] = f"a record of relation `{relation.name}`: `{text}`: {error}"


@dataclass(frozen=True, slots=True)
class Rejects:
    """The folder that rows are put into."""

    folder: Path

    @staticmethod
    def at(folder: str | Path) -> Rejects:
        """The folder, which is made if it is not there."""
        if is_url(str(folder)):
            message = f"rejected rows are written to a folder of this machine, and `{folder}` is none"
            raise DataError(Diagnostic("E512", message, hint="Name a folder that this process can write."))
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(folder, error) from None
        return Rejects(Path(folder))

    def write(self, stream: str, batch: int, rows: pa.Table) -> None:
        """Write the rows of a batch, again if it has come before."""
        import pyarrow.parquet as pq

        numbered = rows.add_column(0, SCHEMA.field("_batch"), pa.repeat(pa.scalar(batch, pa.int64()), rows.num_rows))
        name = f"{stream}-{batch:012}.parquet"
        staged = self.folder / f".{name}.{os.getpid()}.tmp"
        try:
            with staged.open("wb") as file:
                pq.write_table(numbered.select(SCHEMA.names).cast(SCHEMA), file)
                file.flush()
                os.fsync(file.fileno())
            staged.replace(self.folder / name)
        except OSError as error:
            raise _unwritable(self.folder, error) from None


def _unwritable(folder: str | Path, error: OSError) -> DataError:
    return DataError(Diagnostic("E512", f"cannot write `{folder}`: {(error.strerror or str(error)).lower()}"))
