"""Commands on plans: all workers run them together, and what they find goes home."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from sempre.analysis.model import CheckedProgram, Var
from sempre.backends.bindings import Bindings, Sink
from sempre.backends.local import Repeats, multiplies
from sempre.kernel.tally import Counted
from sempre.kernel.trace import RowSet
from sempre.limits import Limits
from sempre.plan.faults import located
from sempre.plan.ops import Plan, Read, decided_plan
from sempre.workers.codec import from_json
from sempre.workers.findings import FoundCounts, NewHeads
from sempre.workers.flow import Flow
from sempre.workers.framing import Column
from sempre.workers.mesh import Mesh
from sempre.workers.placing import split
from sempre.workers.set_commands import Numbered, Numbers
from sempre.workers.shard_commands import Sent, ShardCommands
from sempre.workers.shards import Shard, ShardView
from sempre.workers.shared_values import Ask, SharedValues
from sempre.workers.stages import Copied, Sending, ShardViews, Splits
from sempre.workers.together import Waves, at_once, side_by_side
from sempre.workers.walks import Request, Walks


class StagedPlan:
    """A plan, and its stages on this worker."""

    __slots__ = ("_flows", "_make", "multiplies", "plan", "repeats")

    def __init__(self, plan: Plan, make: Callable[[Plan, Copied, Splits], Flow]) -> None:
        self.plan = plan
        self._make = make
        self._flows: dict[tuple[Copied, Splits], Flow] = {}
        self.multiplies = multiplies(plan.steps)
        self.repeats = Repeats()

    def flow(self, copied: Copied, splits: Splits) -> Flow:
        """The stages, where all workers have all rows of some of the versions that the plan reads, or share values."""
        found = self._flows.get((copied, splits))
        if found is None:
            found = self._flows[copied, splits] = self._make(self.plan, copied, splits)
        return found


class PlanCommands(ShardCommands):
    """The plans of one worker, and what they find."""

    def __init__(self, program: CheckedProgram, mesh: Mesh, ask: Ask, limits: Limits) -> None:
        super().__init__(program, mesh, limits)
        self._values = SharedValues(ask)
        self._local.values = self._values
        self._walks = Walks(self._local, mesh, self._owners)
        self._has_walked = False

    def _prepare(self, plan: Any) -> StagedPlan:
        return StagedPlan(decided_plan(from_json(plan)), self._flow)

    def _flow(self, plan: Plan, copied: Copied, splits: Splits) -> Flow:
        return Flow(plan.steps, self._values, self._homes, self._mesh, self._local.limits, copied=copied, splits=splits)

    def _views(self, views: Iterable[Sequence[Any]]) -> tuple[ShardViews, Copied, Splits]:
        """The views that plans read, those of them that all workers have whole, and those with split values."""
        found = {(name, Read[read]): self._held[number] for name, read, number, _ in views}
        for (name, _), view in found.items():
            if name not in self._homes:  # a narrowed relation is at home where the whole one is
                self._homes[name] = self._homes[view.parts[0][0].relation]
        copied = frozenset((name, Read[read]) for name, read, _, everywhere in views if everywhere)
        splits = (
            (*key, column) for key, view in found.items() if isinstance(view, ShardView) for column in view.is_split
        )
        return found, copied, frozenset(splits)

    def _run(
        self,
        plans: Numbers,
        views: Iterable[Sequence[Any]],
        sink_for: Callable[[StagedPlan, bool], Sink],
        counted: bool | None,
    ) -> Waves[None]:
        """Have plans find heads, all of one relation; None counts only where it must.

        A sink is made for each plan, given whether its heads are at home where they are found.
        """
        read, copied, splits = self._views(views)
        running = []
        for number in plans:
            prepared: StagedPlan = self._held[number]
            flow = prepared.flow(copied, splits)
            sink = sink_for(prepared, self._is_at_home(prepared.plan, flow))
            weights = prepared.multiplies if counted is None else counted
            running.append(self._running(prepared.plan, flow, read, sink, weights))
        yield from side_by_side(running)

    def _running(self, plan: Plan, flow: Flow, read: ShardViews, sink: Sink, weights: bool) -> Sending[None]:
        with located(self._program, (plan.rule,)):
            yield from flow.run(flow.start(read, weights), read, sink, weights)

    def _is_at_home(self, plan: Plan, flow: Flow) -> bool:
        """Whether heads are found where they are at home. The same on all workers."""
        home = self._homes[plan.relation]
        if self._mesh.size == 1:
            return True
        if home is None:
            return flow.placed == 0
        head = plan.head[home]
        return isinstance(head, Var) and flow.placed == head.name

    def _new(
        self, relation: str, plans: Numbers, views: Iterable[Sequence[Any]], known: int, counted: bool
    ) -> Waves[Counted]:
        """What plans find that is not known yet: what is at home here, with weights if it is counted."""
        version = self._held[known]
        is_shard = isinstance(version, Shard)
        here = version.known(self._known_elsewhere(version)) if is_shard else version.at(None)
        heads = NewHeads(self._local, relation, self._home_of(known), here, counted)
        yield from self._run(
            plans,
            views,
            lambda prepared, at_home: heads.sink(prepared.plan, prepared.repeats, at_home),
            None if counted else False,
        )

        def divided(rows: RowSet, columns: Sequence[NDArray[Any]]) -> list[list[NDArray[Any]]]:
            return split(columns, self._owners_of(relation, rows), self._mesh.size)

        found, sent = yield from heads.finished(self._mesh.me, self._mesh.size, divided)
        self._sent.pop(relation, None)
        if sent is not None and is_shard:
            self._sent[relation] = Sent(version.content, found.keys, sent)
        return found

    def _find(self, commands: Iterable[tuple[str, Sequence[Any]]]) -> Any:
        """What several commands find that do not need each other's results; of one command, that alone."""
        found = at_once(self._mesh, [getattr(self, f"_start_{name}")(*args) for name, args in commands])
        return found if len(found) > 1 else found[0]

    def _start_derive(
        self, relation: str, plans: Numbers, views: Iterable[Sequence[Any]], known: int
    ) -> Waves[RowSet | Counted]:
        found = yield from self._new(relation, plans, views, known, counted=False)
        return found.rows()

    def _start_supports(
        self, relation: str, plans: Numbers, views: Iterable[Sequence[Any]], known: int
    ) -> Waves[RowSet | Counted]:
        found = yield from self._new(relation, plans, views, known, counted=True)
        return found.narrowed()

    def _start_count(self, relation: str, plans: Numbers, views: Iterable[Sequence[Any]]) -> Waves[RowSet | Counted]:
        found, target = FoundCounts(self._local, relation), self._local.empty(relation).packing

        def sink_for(prepared: StagedPlan, at_home: bool) -> Sink:
            found.travels |= not at_home

            def sink(rows: Bindings) -> None:
                assert rows.weights is not None
                found.take(*self._local._head(prepared.plan, rows, target), rows.weights, at_home)

            return sink

        yield from self._run(plans, views, sink_for, counted=True)
        return (yield from found.at_home(partial(self._counted_home, relation)))

    def _walk(
        self,
        front: Numbered,
        plans: Numbers,
        views: Iterable[Sequence[Any]],
        present: Numbered,
        deleting: Numbered | None,
    ) -> tuple[RowSet | Counted, ...]:
        read, whole, _ = self._views(views)
        request = Request(
            {name: self._held[number] for name, number in front},
            [self._held[number].plan for number in plans],
            {key: view for key, view in read.items() if isinstance(view, ShardView)},
            whole,
            {name: self._held[number] for name, number in present},
            None if deleting is None else {name: self._held[number] for name, number in deleting},
        )
        found = self._walks.walk(request)
        self._has_walked = found is not None
        if found is None:
            nothing = [self._local.no_rows(name) for name, _ in present]
            return (*nothing, *nothing, *(self._local.total(name, []) for name, _ in present))
        return tuple(each[name] for each in (found.followed, found.pending, found.counts) for name, _ in present)

    def _tell_walk(self, *args: Any) -> tuple[Any, list[Column]]:
        """Whether there was a walk."""
        return self._has_walked, []
