"""Plans kept ready: made on first use, compiled once, made again when sizes have changed by a lot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sempre.analysis.model import CheckedProgram, NormalRule
from sempre.plan.backend import Backend, Executable, Version
from sempre.plan.indexes import Orders
from sempre.plan.ops import Order, Plan, Read, matches, probes
from sempre.plan.planner import plan_rule

# A plan is made again when some relation it reads grew or shrank by more than this factor.
REPLAN_BITS = 3


@dataclass(slots=True)
class _Entry:
    plan: Plan
    executable: Executable
    sizes: tuple[int, ...]
    reads: tuple[str, ...]


class Plans:
    """All plans of one program on one backend."""

    def __init__(self, program: CheckedProgram, backend: Backend) -> None:
        self._backend = backend
        self._entries: dict[tuple[int, int | None], _Entry] = {}
        self.orders = Orders()
        for name, relation in program.relations.items():
            self.orders.declare(name, relation.arity)

    def full(self, rule: NormalRule, state: Mapping[str, Version]) -> Executable:
        """The plan that evaluates the whole rule."""
        return self._ready(rule, None, state).executable

    def delta(self, rule: NormalRule, pivot: int, state: Mapping[str, Version]) -> Executable:
        """The plan for the instances in which body literal `pivot` reads the change."""
        return self._ready(rule, pivot, state).executable

    def _ready(self, rule: NormalRule, pivot: int | None, state: Mapping[str, Version]) -> _Entry:
        key = (rule.number, pivot)
        entry = self._entries.get(key)
        if entry is not None and _alike(entry.sizes, entry.reads, state):
            return entry
        plan = plan_rule(rule, pivot, self._backend.statistics(state), self.orders)
        if entry is not None and plan == entry.plan:
            entry.sizes = _sizes(entry.reads, state)
            return entry
        reads = tuple(sorted({probe.relation for probe in probes(plan.steps)}))
        entry = _Entry(plan, self._backend.prepare(plan), _sizes(reads, state), reads)
        self._entries[key] = entry
        return entry

    def stale(self, rule: NormalRule, pivot: int | None, state: Mapping[str, Version]) -> bool:
        """Whether the plan would be made again now."""
        entry = self._entries.get((rule.number, pivot))
        return entry is None or not _alike(entry.sizes, entry.reads, state)

    def needed_orders(self, rules: Iterable[tuple[NormalRule, int | None]]) -> dict[tuple[str, Read], set[Order]]:
        """The orders that the ready plans of these rules look up each version by."""
        needed: dict[tuple[str, Read], set[Order]] = {}
        for rule, pivot in rules:
            entry = self._entries.get((rule.number, pivot))
            if entry is not None:
                for probe in probes(entry.plan.steps):
                    needed.setdefault((probe.relation, probe.read), set()).add(probe.order)
        return needed


def _sizes(reads: tuple[str, ...], state: Mapping[str, Version]) -> tuple[int, ...]:
    return tuple(len(state[name]).bit_length() for name in reads)


def _alike(sizes: tuple[int, ...], reads: tuple[str, ...], state: Mapping[str, Version]) -> bool:
    return all(
        abs(len(state[name]).bit_length() - bits) <= REPLAN_BITS for name, bits in zip(reads, sizes, strict=True)
    )


def pivots(rule: NormalRule, relations: Iterable[str]) -> list[int]:
    """The positive atoms of the rule over these relations."""
    wanted = set(relations)
    return [index for index in matches(rule.body) if rule.body[index].relation in wanted]  # type: ignore[union-attr]
