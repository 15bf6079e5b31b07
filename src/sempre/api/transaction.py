"""Changes that are collected, to become one epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sempre.api.changes import ChangeSet
from sempre.api.intake import Encoded, Operation
from sempre.diagnostics import StateError


class Transaction:
    """Collects the changes of one epoch; the last operation on a fact wins."""

    def __init__(self, encode: Callable[[str, Any, set[str]], Encoded]) -> None:
        self._encode = encode
        self.by_position: set[str] = set()
        self.operations: list[Operation] = []
        self.changes: ChangeSet | None = None
        self.ended = False

    def insert(self, relation: str, rows: Any) -> None:
        """Insert rows when the transaction ends."""
        self._add(relation, rows, insert=True)

    def delete(self, relation: str, rows: Any) -> None:
        """Delete rows when the transaction ends."""
        self._add(relation, rows, insert=False)

    def _add(self, relation: str, rows: Any, insert: bool) -> None:
        if self.ended:
            hint = "Change facts inside of `with db.transaction()`, or begin another one."
            raise StateError("this transaction has ended", hint=hint)
        self.operations.append((relation, insert, *self._encode(relation, rows, self.by_position)))
