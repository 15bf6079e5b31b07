"""The algebra on handles: what the workers have, as the strategies in the driver see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from sempre.analysis.model import CheckedProgram
from sempre.diagnostics import BackendError
from sempre.kernel.values import Values
from sempre.limits import Limits
from sempre.plan.backend import (
    WORKERS,
    Algebra,
    Column,
    CountedOf,
    Executable,
    Look,
    PathsOf,
    Rows,
    TallyOf,
    VersionOf,
    ViewOf,
)
from sempre.plan.ops import Automaton, Neighbors, Order, Plan, Read
from sempre.workers.codec import to_json
from sempre.workers.crew import Crew
from sempre.workers.handles import (
    RemoteCounted,
    RemotePaths,
    RemotePlan,
    RemoteRows,
    RemoteTally,
    RemoteValues,
    RemoteVersion,
    RemoteView,
    RemoteWalk,
    numbered,
)
from sempre.workers.placing import home_column, owners, split
from sempre.workers.statistics import RemoteStatistics

# What a report counts from the start of a worker.
DOINGS = ("instances", "rows_sent", "bytes_sent", "waited")


Views = Mapping[tuple[str, Read], "RemoteView | RemoteTally"]


class WorkersBackend:
    """Runs plans on workers."""

    place = WORKERS

    def __init__(self, program: CheckedProgram, hire: Callable[[], Crew], values: Values, limits: Limits) -> None:
        self.program = program
        self._hire = hire
        self._hired: Crew | None = None
        self._reports: list[list[dict[str, Any]]] = [[], []]
        self.values = values
        self.limits = limits
        self._homes = {name: home_column(relation) for name, relation in program.relations.items()}

    @property
    def crew(self) -> Crew:
        """The workers, which start when they are first needed."""
        if self._hired is None:
            self._hired = self._new_crew()
        return self._hired

    def _new_crew(self) -> Crew:
        crew = self._hire()
        recursive = {name for stratum in self.program.strata if stratum.recursive for name in stratum.relations}
        placed = {name for name, home in self._homes.items() if home is not None}
        crew.copied = frozenset(placed - recursive)
        crew.placed, crew.split_rows = frozenset(placed), self.limits.split_rows
        crew.everywhere_rows = self.limits.everywhere_rows if len(crew) > 1 else 0
        return crew

    @property
    def is_lost(self) -> bool:
        """Whether there were workers, and they are gone."""
        return self._hired is not None and self._hired.is_lost()

    def start_again(self) -> None:
        """With other workers, which have nothing yet."""
        if self._hired is not None:
            self._hired.close()
        self._hired = self._new_crew()

    def close(self) -> None:
        if self._hired is not None:
            self._hired.close()

    @property
    def instances(self) -> int:
        """How many instances all workers have found."""
        self._reports = [self._reports[-1], self.report()]
        return sum(int(each["instances"]) for each in self._reports[-1])

    def report(self) -> list[dict[str, Any]]:
        """What each worker holds, and what it has done."""
        return [] if self._hired is None else [content for content, _ in self._hired.ask("report")]

    def last_epoch(self) -> tuple[dict[str, Any], ...]:
        """What each worker holds, and what it did between the last two times that instances were asked for."""
        before, after = self._reports
        found = []
        for number, worker in enumerate(after):
            # Workers that took the place of others, and those that had just started, have done all of it since.
            was = before[number] if len(before) == len(after) else {}
            was = was if was.get("process") == worker["process"] and was.get("number") == worker["number"] else {}
            did = {name: round(worker[name] - was.get(name, 0), 6) for name in DOINGS}
            found.append({"rows": worker["rows"], "bytes": worker["bytes"], "split": worker["split"], **did})
        return tuple(found)

    def hold(self, rows: Any) -> None:
        """Bring rows here if they are few."""
        assert isinstance(rows, RemoteRows)
        rows.hold(self.limits.driver_rows)

    def finish(self) -> None:
        """Have the workers forget what they remember of this epoch alone."""
        if self._hired is not None:
            with suppress(BackendError):  # workers that are gone remember nothing
                self._hired.tell("rest")
                self._hired.flush()

    def keep(self) -> None:
        """The driver keeps the numbers of values."""

    def forget(self) -> None:
        """Have the workers forget what values the driver takes back."""
        if self._hired is not None:
            with suppress(BackendError):  # workers that are gone have forgotten everything
                self._hired.tell("forget")
                self._hired.flush()

    def for_modules(self) -> None:
        """None: a module looks at values one by one, in one process."""

    def for_paths(self) -> WorkersBackend:
        """Each worker searches from the first values that are at home with it."""
        return self

    def paths(self, heads: tuple[str, ...], automaton: Automaton | None) -> RemotePaths:
        made = RemotePaths(self.crew, heads, automaton)
        self.crew.tell("paths", [heads, to_json(automaton)], [made.number])
        return made

    def standing(self, view: RemoteView) -> RemoteVersion:
        rows = RemoteRows(self.crew, view.relation)
        self.crew.tell("standing", [view.relation, view.number], [rows.number])
        return self.version(rows)

    def watch(self, look: Look | None) -> None:
        """A command is not stopped in its middle: rounds are the moments to look."""

    def settle(self, rows: Iterable[RemoteRows | RemoteCounted]) -> None:
        """Sizes come by themselves."""

    # ------------------------------------------------------------------------------------------------ relations

    def receive(self, relation: str, columns: Sequence[Column], size: int) -> RemoteRows:
        made = RemoteRows(self.crew, relation)
        home = self._homes[relation]
        sent = list(columns) or [np.zeros(size, np.int64)]
        at = None if home is None else owners(np.ascontiguousarray(columns[home]), len(self.crew))
        parts = split(sent, at, len(self.crew))
        self.crew.tell("receive", [relation], [made.number], parts)
        return made

    def statistics(self, state: Mapping[str, RemoteVersion]) -> RemoteStatistics:
        return RemoteStatistics(self.crew, state, self._homes, self.limits)

    def empty(self, relation: str) -> RemoteVersion:
        made = RemoteVersion(self.crew, relation, 0, frozenset())
        self.crew.tell("empty", [relation], [made.number])
        return made

    def fitted(self, relation: str, version: RemoteVersion) -> RemoteVersion:
        return version

    def version(self, rows: RemoteRows, orders: Iterable[Order] = ()) -> RemoteVersion:
        wanted = frozenset(orders)
        copied = bool(wanted) and self.crew.copies(rows.relation, len(rows))
        made = RemoteVersion(self.crew, rows.relation, rows, wanted, copied)
        self.crew.tell("version", [rows.relation, rows.number, sorted(wanted), copied], [made.number])
        return made.balanced()

    def view(self, *versions: RemoteVersion, without: RemoteVersion | None = None) -> RemoteView:
        if without is not None and not len(without):
            without = None
        size = sum(map(len, versions)) - (0 if without is None else len(without))
        made = RemoteView(self.crew, versions if without is None else (*versions, without), size)
        numbers = [version.number for version in versions]
        gone = None if without is None else without.number
        self.crew.tell("view", [versions[0].relation, numbers, gone], [made.number])
        return made

    # ---------------------------------------------------------------------------------------------------- plans

    def prepare(self, plan: Plan) -> RemotePlan:
        made = RemotePlan(self.crew, plan)
        self.crew.tell("prepare", [to_json(plan)], [made.number])
        return made

    def _reads(self, views: Views) -> list[list[Any]]:
        return [
            [name, read.name, view.number, isinstance(view, RemoteView) and view.is_everywhere]
            for (name, read), view in views.items()
        ]

    def derive(
        self, relation: str, plans: Sequence[RemotePlan], views: Views, known: RemoteVersion | RemoteView
    ) -> RemoteRows:
        made = RemoteRows(self.crew, relation)
        numbers = [plan.number for plan in plans]
        self.crew.tell("derive", [relation, numbers, self._reads(views), known.number], [made.number])
        return made

    def count(self, relation: str, plans: Sequence[RemotePlan], views: Views) -> RemoteCounted:
        made = RemoteCounted(self.crew, relation)
        self.crew.tell("count", [relation, [plan.number for plan in plans], self._reads(views)], [made.number])
        return made

    def supports(
        self, relation: str, plans: Sequence[RemotePlan], views: Views, known: RemoteVersion | RemoteView
    ) -> RemoteCounted:
        made = RemoteCounted(self.crew, relation)
        numbers = [plan.number for plan in plans]
        self.crew.tell("supports", [relation, numbers, self._reads(views), known.number], [made.number])
        return made

    def column_values(self, version: RemoteVersion, column: int) -> RemoteValues | None:
        """All workers get all of the values, if there are not too many."""
        if len(version) > self.limits.broadcast_values:
            return None
        made = RemoteValues(self.crew)
        self.crew.tell("column_values", [version.number, column], [made.number])
        return made

    def walk(
        self,
        front: Mapping[str, RemoteRows],
        plans: Sequence[RemotePlan],
        views: Views,
        present: Mapping[str, RemoteView],
        deleting: Mapping[str, RemoteTally] | None,
    ) -> RemoteWalk | None:
        """One worker walks, if there is not too much that it needs for it."""
        if not all(plan.walkable(frozenset(present)) for plan in plans):
            return None
        needed = {id(view): len(view) for view in (*views.values(), *present.values()) if isinstance(view, RemoteView)}
        if sum(needed.values()) > self.limits.gathered_rows:
            return None
        crew, names = self.crew, list(present)
        found = RemoteWalk(
            {name: RemoteRows(crew, name) for name in names},
            {name: RemoteRows(crew, name) for name in names},
            {name: RemoteCounted(crew, name) for name in names},
        )
        made = [some[name].number for some in (found.followed, found.pending, found.counts) for name in names]
        numbers = [plan.number for plan in plans]
        gone = None if deleting is None else numbered(deleting)
        args = [numbered(front), numbers, self._reads(views), numbered(present), gone]
        walked = all(content for content, _ in crew.ask("walk", args, made))
        return found if walked else None

    def grow(
        self,
        front: Mapping[str, RemoteRows],
        plans: Sequence[RemotePlan],
        views: Views,
        present: Mapping[str, RemoteView],
    ) -> None:
        """None, as for `walk`."""

    def rerank(
        self,
        front: Mapping[str, RemoteRows],
        forward: tuple[Sequence[RemotePlan], Views],
        backward: tuple[Sequence[RemotePlan], Views],
        grounding: tuple[Sequence[RemotePlan], Views],
        present: Mapping[str, RemoteVersion],
        explicit: Mapping[str, RemoteVersion],
        ranks: Mapping[str, RemoteTally],
        tight: Mapping[str, RemoteTally],
    ) -> None:
        """None: as for a walk."""

    # ------------------------------------------------------------------------------------------- sets and counts

    def _rows(self, op: str, relation: str, args: Sequence[Any]) -> RemoteRows:
        made = RemoteRows(self.crew, relation)
        self.crew.tell(op, args, [made.number])
        return made

    def _counted(self, op: str, relation: str, args: Sequence[Any]) -> RemoteCounted:
        made = RemoteCounted(self.crew, relation)
        self.crew.tell(op, args, [made.number])
        return made

    def union(self, sets: Sequence[RemoteRows]) -> RemoteRows:
        if len(sets) == 1:
            return sets[0]
        return self._rows("union", sets[0].relation, [[rows.number for rows in sets]])

    def difference(self, rows: RemoteRows, version: RemoteVersion | RemoteView) -> RemoteRows:
        if version.is_known_empty:
            return rows
        return self._rows("difference", rows.relation, [rows.number, version.number])

    def intersection(self, rows: RemoteRows, version: RemoteVersion | RemoteView) -> RemoteRows:
        return self._rows("intersection", rows.relation, [rows.number, version.number])

    def total(self, relation: str, parts: Sequence[RemoteCounted]) -> RemoteCounted:
        if len(parts) == 1:
            return parts[0]
        return self._counted("total", relation, [relation, [part.number for part in parts]])

    def restricted(self, counted: RemoteCounted, rows: RemoteRows) -> RemoteCounted:
        return self._counted("restricted", counted.relation, [counted.number, rows.number])

    def excluded(self, counted: RemoteCounted, view: RemoteVersion | RemoteView) -> RemoteCounted:
        return self._counted("excluded", counted.relation, [counted.number, view.number])

    def tally(self, relation: str) -> RemoteTally:
        made = RemoteTally(self.crew, relation)
        self.crew.tell("tally", [relation], [made.number])
        return made

    def numbered(self, relation: str, parts: Sequence[RemoteCounted], version: RemoteVersion) -> RemoteTally:
        made = RemoteTally(self.crew, relation)
        self.crew.tell("numbered", [relation, [part.number for part in parts], version.number], [made.number])
        return made

    def positive(self, tally: RemoteTally, rows: RemoteRows) -> RemoteRows:
        return self._rows("positive", rows.relation, [tally.number, rows.number])

    def zero(self, tally: RemoteTally, rows: RemoteRows) -> RemoteRows:
        return self._rows("zero", rows.relation, [tally.number, rows.number])

    def lookup(self, tally: RemoteTally, rows: RemoteRows) -> RemoteCounted:
        return self._counted("lookup", rows.relation, [tally.number, rows.number])

    def times(self, rows: RemoteRows, number: int) -> RemoteCounted:
        return self._counted("times", rows.relation, [rows.number, number])

    def once(self, rows: RemoteRows) -> RemoteCounted:
        return self.times(rows, 1)

    # ------------------------------------------------------------------------------- aggregates in heads, neighbors

    def improvement(self, relation: str, rows: RemoteRows, version: RemoteVersion) -> tuple[RemoteRows, RemoteRows]:
        better, replaced = RemoteRows(self.crew, relation), RemoteRows(self.crew, relation)
        self.crew.tell("improvement", [relation, rows.number, version.number], [better.number, replaced.number])
        return better, replaced

    def groups(self, relation: str, rows: RemoteRows) -> RemoteRows:
        return self._rows("groups", relation, [relation, rows.number])

    def group_rows(self, relation: str, groups: RemoteRows, version: RemoteVersion) -> RemoteRows:
        return self._rows("group_rows", relation, [relation, groups.number, version.number])

    def totals(self, relation: str, counted: RemoteCounted) -> RemoteRows:
        made = self._rows("totals", relation, [relation, counted.number])
        len(made)  # a sum that does not fit is an error here
        return made

    def neighbors(self, order: Neighbors, rows: RemoteRows) -> RemoteRows:
        return self._rows("neighbors", order.relation, [to_json(order), rows.number])


if TYPE_CHECKING:
    _algebra: type[Algebra[RemoteRows, RemoteVersion, RemoteView, RemoteCounted, RemoteTally, RemotePlan]] = (
        WorkersBackend
    )
    _rows: type[Rows] = RemoteRows
    _version: type[VersionOf[RemoteRows]] = RemoteVersion
    _view: type[ViewOf[RemoteVersion]] = RemoteView
    _counted: type[CountedOf[RemoteRows]] = RemoteCounted
    _tally: type[TallyOf[RemoteCounted]] = RemoteTally
    _executable: type[Executable] = RemotePlan
    _paths: type[PathsOf[RemoteRows]] = RemotePaths
