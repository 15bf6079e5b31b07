"""Tables of databases and of Spark's session: nothing there says what changed, so rows are asked for.

Without more, all rows are read, and compared with the facts of the store; the version is their digest. Where a column
grows with every write (`follow="updated_at"`), the rows from the last value on are read. Rows with just that value may
have come later than those that were seen, so the version has the digest of each of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sempre.analysis.model import Relation
from sempre.diagnostics import DataError, Diagnostic, Span
from sempre.files.directive_options import Endpoint
from sempre.files.sources.source import RowChanges, SourceVersion

# Beyond so many rows with the last value, versions do not name them: then all rows are compared.
MOST_LAST = 10_000

Condition = tuple[str, Any]


class TableReader(Protocol):
    """Asks for rows of one table."""

    @property
    def place(self) -> str: ...

    def rows(self, conditions: Sequence[Condition] = ()) -> pa.Table:
        """The rows, as the relation's, where the followed column is as all conditions say: `("=", 7)`, `(">=", 7)`."""
        ...

    def last(self) -> Any:
        """The largest value of the followed column, as JSON has it; None if there are no rows."""
        ...

    def has_nulls(self) -> bool:
        """Whether the followed column is null anywhere."""
        ...


class QueriedSource:
    """A table that is read by questions."""

    def __init__(self, reader: TableReader, endpoint: Endpoint, relation: Relation) -> None:
        self.why = ""
        self._reader = reader
        self._follow = endpoint.follow
        self._table = endpoint.table
        self._relation = relation
        self._read: pa.Table | None = None  # all rows, or those with the last value

    @property
    def place(self) -> str:
        return self._reader.place

    def version(self, known: SourceVersion | None) -> SourceVersion:
        if not self._follow:
            self._read = self._reader.rows()
            return {"rows": self._read.num_rows, "digest": _digest(self._read)}
        if self._reader.has_nulls():
            message = f"column `{self._follow}` of `{self._table}` has nulls: rows with a null would never be read"
            hint = "Fill in a value, or leave out `follow`: then all rows are compared."
            raise DataError(Diagnostic("E508", message, Span(self._table, 0, 0, 0, 0), hint=hint))
        last = self._reader.last()
        self._read = self._reader.rows([("=", last)] if last is not None else [])
        many = self._read.num_rows > MOST_LAST
        return {"last": last, "rows": None if many else sorted(_digests(self._read)), "count": self._read.num_rows}

    def rows(self, version: SourceVersion) -> pa.Table:
        """All rows, by one question, so that they are of one moment; some may be later than the version.

        Those are read again with the next version, and change nothing then.
        """
        assert self._read is not None, "the version is asked for first"
        return self._reader.rows() if self._follow else self._read

    def changes(self, since: SourceVersion, until: SourceVersion) -> RowChanges | None:
        """The rows from the last value on, by one question; that some are gone cannot be seen."""
        if not self._follow or "last" not in since or self._read is None:
            return None
        low = since["last"]
        if until["last"] is None or (low is not None and since["rows"] is None):
            self.why = f"more than {MOST_LAST:,} rows had the last value of `{self._follow}`" if low is not None else ""
            return None
        found = self._reader.rows([] if low is None else [(">=", low)])
        return RowChanges(_unseen(found, since["rows"] or []), found.slice(0, 0))


def _unseen(table: pa.Table, seen: Sequence[str]) -> pa.Table:
    """The rows that were not seen, each as often as it was not."""
    left, mask = Counter(seen), []
    for digest in _digests(table):
        mask.append(left[digest] == 0)
        left[digest] -= left[digest] > 0
    return table.filter(pa.array(mask, pa.bool_()))


def _digests(table: pa.Table) -> list[str]:
    columns = [column.to_pylist() for column in table.columns]
    return [hashlib.sha256(repr(row).encode()).hexdigest()[:24] for row in zip(*columns, strict=True)]


def _digest(table: pa.Table) -> str:
    """A digest of rows in any order."""
    if table.num_columns:
        table = table.take(pc.sort_indices(table, [(name, "ascending") for name in table.column_names]))
    digest = hashlib.sha256()
    with pa.ipc.new_stream(_Digesting(digest), table.schema.remove_metadata()) as writer:
        for batch in table.replace_schema_metadata().combine_chunks().to_batches():
            writer.write_batch(batch)
    return digest.hexdigest()


class _Digesting:
    """A file that only its digest is kept of."""

    closed = False

    def __init__(self, digest: Any) -> None:
        self._digest = digest

    def write(self, data: Any) -> int:
        self._digest.update(data)
        return len(data)

    def flush(self) -> None:
        pass
