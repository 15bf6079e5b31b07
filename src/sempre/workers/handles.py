"""Handles: what the workers have, as the driver holds it. Workers forget what nobody holds a handle of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sempre.backends.walk_code import is_walkable
from sempre.data import dataclass
from sempre.plan.backend import WORKERS, Column, FrameShape, Shape
from sempre.plan.ops import Automaton, Order, Plan, decided_plan
from sempre.workers.crew import Crew


class Handle:
    """Something that the workers have; when nobody holds the handle, they forget it."""

    __slots__ = ("_crew", "number")

    place: ClassVar[str] = WORKERS

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.number = crew.number()

    def __del__(self) -> None:
        self._crew.release(self.number)


class RemoteRows(Handle):
    """Distinct rows, each at home with one worker."""

    __slots__ = ("_held", "_size", "relation")

    def __init__(self, crew: Crew, relation: str, size: int | None = None) -> None:
        super().__init__(crew)
        self.relation = relation
        self._size = size
        self._held: list[Column] | None = None

    def hold(self, most: int) -> None:
        """Bring the rows here if there are no more than that: they outlive the workers."""
        if len(self) <= most:
            self._held = self._fetched()[1]

    def _fetched(self) -> tuple[int, list[Column]]:
        return (len(self), self._held) if self._held is not None else fetched(self._crew, self.number)

    def __len__(self) -> int:
        if self._size is None:
            self._size = self._crew.size(self.number)
        return self._size

    def columns(self) -> Sequence[Column]:
        return self._fetched()[1]

    def to_arrow(self, shape: Shape) -> Any:
        size, columns = self._fetched()
        return shape.decoded(columns, size)

    def to_stream(self, shape: Shape) -> Any:
        return self.to_arrow(shape)

    def to_frame(self, shape: FrameShape) -> Any:
        return shape.framed(self.to_arrow(shape))


def fetched(crew: Crew, number: int) -> tuple[int, list[Column]]:
    """All rows of something, in this process."""
    answers = crew.ask("fetch", [number])
    parts = [columns for _, columns in answers]
    return sum(size for size, _ in answers), [np.concatenate(some) for some in zip(*parts, strict=True)]


class RemoteVersion(Handle):
    """An immutable set of rows of one relation."""

    __slots__ = ("_everywhere", "_indexed", "_looked", "_size", "relation")

    def __init__(
        self,
        crew: Crew,
        relation: str,
        size: int | RemoteRows,
        indexed: frozenset[Order],
        everywhere: bool = False,
        looked: int = 0,
    ) -> None:
        """The size may be that of rows that workers are still looking for: it is asked for when it is needed."""
        super().__init__(crew)
        self._looked = looked  # how many rows there were when common values were last looked for
        self.relation = relation
        self._size = size
        self._indexed = indexed
        self._everywhere = everywhere

    def become(self, other: RemoteVersion) -> None:
        """The workers that had this are gone: the same rows are what others have as `other`."""
        was, self._size = self._size, len(other)
        assert not isinstance(was, int) or was == self._size, f"{self.relation}: {self._size} rows instead of {was}"
        self._crew, self._indexed, self._everywhere = other._crew, other._indexed, other._everywhere
        self._looked = other._looked
        self.number = self._crew.number()  # of its own: each handle is forgotten by itself
        self._crew.tell("same", [other.number], [self.number])

    def __len__(self) -> int:
        if not isinstance(self._size, int):
            self._size = len(self._size)
        return self._size

    @property
    def is_known_empty(self) -> bool:
        """Whether there are no rows, as far as that is known without waiting."""
        return isinstance(self._size, int) and not self._size

    @property
    def is_everywhere(self) -> bool:
        """Whether all workers have all rows, or there are none."""
        return self._everywhere or not len(self)

    def rows(self) -> RemoteRows:
        made = RemoteRows(self._crew, self.relation, len(self))
        self._crew.tell("rows", [self.number], [made.number])
        return made

    def indexed(self, orders: Iterable[Order]) -> RemoteVersion:
        missing = frozenset(orders) - self._indexed
        if not missing:
            return self
        copied = self._everywhere or (not self._indexed and self._crew.copies(self.relation, len(self)))
        made = RemoteVersion(self._crew, self.relation, len(self), self._indexed | missing, copied)
        self._crew.tell("indexed", [self.number, sorted(missing), copied], [made.number])
        return made.balanced()

    def balanced(self) -> RemoteVersion:
        """The same rows, with those of values that have too many of them split; looked for when they have doubled."""
        if self._everywhere or not self._indexed or not self._crew.splits(self.relation, len(self), self._looked):
            return self
        made = RemoteVersion(self._crew, self.relation, len(self), self._indexed, looked=len(self))
        self._crew.tell("split", [self.number, len(self)], [made.number])
        return made

    def _changed(self, op: str, rows: RemoteRows, size: int) -> RemoteVersion:
        made = RemoteVersion(self._crew, self.relation, size, self._indexed, self._everywhere, self._looked)
        self._crew.tell(op, [self.number, rows.number], [made.number])
        if not self._everywhere or self._crew.copies(self.relation, size):
            return made.balanced()
        spread = RemoteVersion(self._crew, self.relation, size, self._indexed)  # it has become too large for that
        self._crew.tell("spread", [made.number, sorted(self._indexed)], [spread.number])
        return spread.balanced()

    def adding(self, rows: RemoteRows) -> RemoteVersion:
        if not len(rows):
            return self
        return self._changed("adding", rows, len(self) + len(rows))

    def removing(self, rows: RemoteRows) -> RemoteVersion:
        if not len(rows):
            return self
        return self._changed("removing", rows, len(self) - len(rows))


class RemoteView(Handle):
    """Some versions, each without others."""

    __slots__ = ("_parts", "_size", "relation")

    def __init__(self, crew: Crew, parts: tuple[RemoteVersion, ...], size: int) -> None:
        super().__init__(crew)
        self.relation = parts[0].relation
        self._parts = parts  # held, so that the workers do not forget them
        self._size = size

    def __len__(self) -> int:
        return self._size

    @property
    def is_known_empty(self) -> bool:
        """Whether there are no rows."""
        return not self._size

    @property
    def is_everywhere(self) -> bool:
        """Whether all workers have all rows."""
        return all(part.is_everywhere for part in self._parts)

    def plus(self, *versions: RemoteVersion) -> RemoteView:
        made = RemoteView(self._crew, (*self._parts, *versions), len(self) + sum(map(len, versions)))
        self._crew.tell("plus", [self.number, [version.number for version in versions]], [made.number])
        return made


class RemoteCounted(Handle):
    """Distinct rows with a number each."""

    __slots__ = ("_size", "relation")

    def __init__(self, crew: Crew, relation: str) -> None:
        super().__init__(crew)
        self.relation = relation
        self._size: int | None = None

    @property
    def weights(self) -> Column:
        return fetched(self._crew, self.number)[1][-1]

    def __len__(self) -> int:
        if self._size is None:
            self._size = self._crew.size(self.number)
        return self._size

    def rows(self) -> RemoteRows:
        made = RemoteRows(self._crew, self.relation, self._size)
        self._crew.tell("counted_rows", [self.number], [made.number])
        return made

    def negated(self) -> RemoteCounted:
        made = RemoteCounted(self._crew, self.relation)
        self._crew.tell("negated", [self.number], [made.number])
        return made


class RemoteTally(Handle):
    """A map from rows to numbers."""

    __slots__ = ("relation",)

    def __init__(self, crew: Crew, relation: str) -> None:
        super().__init__(crew)
        self.relation = relation

    def adding(self, counted: RemoteCounted) -> RemoteTally:
        made = RemoteTally(self._crew, self.relation)
        self._crew.tell("tally_adding", [self.number, counted.number], [made.number])
        return made

    def entries(self) -> RemoteCounted:
        made = RemoteCounted(self._crew, self.relation)
        self._crew.tell("entries", [self.number], [made.number])
        return made


class RemoteValues(Handle):
    """The values of a column, which all workers know."""

    __slots__ = ()

    def having(self, rows: RemoteRows, column: int) -> RemoteRows:
        made = RemoteRows(self._crew, rows.relation)
        self._crew.tell("having", [self.number, rows.number, column], [made.number])
        return made

    def share(self, version: RemoteVersion, column: int) -> float:
        answers = [content for content, _ in self._crew.ask("share", [self.number, version.number, column])]
        return float(sum(size * share for size, share in answers) / max(1, sum(size for size, _ in answers)))


class RemotePaths(Handle):
    """Edges that all workers have; each answers for the first values that are at home with it."""

    __slots__ = ("_heads", "_is_exact", "stamp")

    def __init__(self, crew: Crew, heads: tuple[str, ...], automaton: Automaton | None) -> None:
        super().__init__(crew)
        self._heads = heads
        self._is_exact = automaton is None  # components remember what was there
        self.stamp: object = None

    def is_exact(self, head: str) -> bool:
        return self._is_exact

    def learn(self, facts: Mapping[str, RemoteRows]) -> None:
        self._crew.tell("paths_learn", [self.number, _numbered(facts)])

    def add(self, facts: Mapping[str, RemoteRows]) -> dict[str, RemoteRows]:
        return self._asked("paths_add", [_numbered(facts)])

    def remove(
        self,
        facts: Mapping[str, RemoteRows],
        trusted: Callable[[str, RemoteRows], RemoteRows] | None,
        also: Mapping[str, RemoteRows],
    ) -> dict[str, RemoteRows]:
        assert trusted is None, "workers know no facts that are in doubt"
        return self._asked("paths_remove", [_numbered(facts), _numbered(also)])

    def parted(self, head: str, rows: RemoteRows) -> tuple[RemoteRows, RemoteRows]:
        held, others = RemoteRows(self._crew, head), RemoteRows(self._crew, head)
        self._crew.tell("paths_parted", [self.number, head, rows.number], [held.number, others.number])
        return held, others

    def _asked(self, op: str, args: Sequence[Any]) -> dict[str, RemoteRows]:
        made = {head: RemoteRows(self._crew, head) for head in self._heads}
        self._crew.tell(op, [self.number, *args], [rows.number for rows in made.values()])
        return made


def _numbered(facts: Mapping[str, RemoteRows]) -> list[tuple[str, int]]:
    return numbered({letter: rows for letter, rows in facts.items() if len(rows)})


def numbered(handles: Mapping[str, Handle]) -> list[tuple[str, int]]:
    """What belongs to some names, as commands say it."""
    return [(name, handle.number) for name, handle in handles.items()]


class RemotePlan(Handle):
    """A plan that the workers have."""

    __slots__ = ("_walkable", "plan")

    def __init__(self, crew: Crew, plan: Plan) -> None:
        super().__init__(crew)
        self.plan = plan
        self._walkable: tuple[frozenset[str], bool] | None = None

    def walkable(self, own: frozenset[str]) -> bool:
        """Whether the plan can be walked in a stratum of these relations."""
        if self._walkable is None or self._walkable[0] != own:
            self._walkable = own, is_walkable(decided_plan(self.plan), own)
        return self._walkable[1]


@dataclass(frozen=True, slots=True)
class RemoteWalk:
    """What a walk found."""

    followed: Mapping[str, RemoteRows]
    pending: Mapping[str, RemoteRows]
    counts: Mapping[str, RemoteCounted]
