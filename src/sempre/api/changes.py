"""What an epoch changed, and how it went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sempre.diagnostics import StateError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Report:
    """How an epoch went; `to_json` has the keys of the command line's `--report`."""

    seconds: float
    strategy: str
    placement: str
    rounds: int
    instances: int
    added: dict[str, int]
    removed: dict[str, int]
    peak_rss: int
    why: str
    strata: tuple[dict[str, Any], ...]
    ignored_insertions: int
    ignored_deletions: int
    by_position: tuple[str, ...] = ()  # relations whose Spark columns have other names than declared
    jobs: int = 0  # Spark jobs that rounds on the cluster took

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "strata": list(self.strata), "by_position": list(self.by_position)}


@dataclass(frozen=True, slots=True)
class Streams:
    """What one epoch changed, to be read once: Arrow tables or readers of batches."""

    added: Mapping[str, Any]
    removed: Mapping[str, Any]


class ChangeSet:
    """What one epoch changed.

    `added` and `removed` map every relation to an Arrow table, empty where nothing changed; tables are made when they
    are asked for. `report` says how the epoch went.
    """

    def __init__(
        self,
        added: Mapping[str, pa.Table],
        removed: Mapping[str, pa.Table],
        report: Report,
        frame: Callable[[ChangeSet, str, bool], DataFrame] | None = None,
        streams: Streams | None = None,
    ) -> None:
        self.added = added
        self.removed = removed
        self.report = report
        self._frame = frame
        self._streams = streams

    def streamed(self) -> Streams | ChangeSet:
        """What changed, for one reading: `added` and `removed` are not all in memory at once where they need not be."""
        return self._streams or self

    def to_spark(self, relation: str, *, hold: bool = True) -> DataFrame:
        """A Spark DataFrame of the rows added to and removed from a relation.

        Its own columns come first, then `_epoch` and `_change`, which is `added` or `removed`. It can be read until the
        database is closed; without `hold`, as long as this set of changes is there.
        """
        if self._frame is None:
            raise StateError("these changes belong to no database")
        return self._frame(self, relation, hold)

    def size(self, relation: str) -> int:
        """How many rows of a relation were added or removed."""
        return self.report.added.get(relation, 0) + self.report.removed.get(relation, 0)

    def __bool__(self) -> bool:
        return any(self.report.added.values()) or any(self.report.removed.values())

    def __repr__(self) -> str:
        parts = []
        for name in self.added:
            plus, minus = self.report.added.get(name, 0), self.report.removed.get(name, 0)
            if plus or minus:
                parts.append(f"{name} +{plus} -{minus}")
        return f"<ChangeSet: {', '.join(parts) or 'nothing changed'}>"


@dataclass(frozen=True, slots=True)
class CycleChanges:
    """What one cycle of active rules changed, or, with `absorbed`, what so many changed input facts did to the present.

    `added` and `removed` map every relation to an Arrow table, `plus` and `minus` those that changed to numbers.
    """

    number: int
    absorbed: int
    added: Mapping[str, pa.Table]
    removed: Mapping[str, pa.Table]
    plus: Mapping[str, int]
    minus: Mapping[str, int]
