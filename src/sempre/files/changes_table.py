"""What epochs changed, as one table: the rows of a relation with the epoch and whether they came or went."""

from __future__ import annotations

import pyarrow as pa

from sempre.analysis.model import Relation
from sempre.files.write import Changes

EPOCH, CHANGE = "_epoch", "_change"
ADDED, REMOVED = "added", "removed"


def changes_table(relation: Relation, epoch: int, changes: Changes) -> pa.Table:
    """What an epoch added to and removed from a relation, with the columns `_epoch` and `_change` after its own."""
    parts = []
    for word, tables in ((ADDED, changes.added), (REMOVED, changes.removed)):
        rows = tables[relation.name]
        for name, mark in ((EPOCH, pa.scalar(epoch, pa.int64())), (CHANGE, pa.scalar(word, pa.string()))):
            field = pa.field(name, mark.type, nullable=False)
            rows = rows.append_column(field, pa.repeat(mark, rows.num_rows))
        parts.append(rows)
    return pa.concat_tables(parts)
