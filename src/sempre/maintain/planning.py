"""Plans kept ready: made on first use, compiled once, made again when sizes have changed by a lot."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from sempre.analysis.model import CheckedProgram, Fold, Match, NormalRule, Not
from sempre.data import dataclass
from sempre.plan.backend import Backend, Executable, Version
from sempre.plan.indexes import Orders
from sempre.plan.ops import HEAD, Order, Pivot, Plan, Read, matches, nested_matches, probes
from sempre.plan.planner import plan_rule, stated_order


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
        self._program = program
        self._strata = {name: frozenset(stratum.relations) for stratum in program.strata for name in stratum.relations}
        self._strata |= {f"{name}#under": self._strata[name] for name in program.guards if name in self._strata}
        self._entries: dict[tuple[int, Pivot | None], _Entry] = {}
        self.orders = Orders()
        for name, relation in program.relations.items():
            self.orders.declare(name, relation.arity)

    def narrow(self, name: str, source: str) -> None:
        """Plans may read a relation that has some of the rows of one of the program, and recurs with it."""
        together = self._strata[source] | {name}
        self._strata.update(dict.fromkeys(together, together))
        self.orders.declare(name, self._program.relations[source].arity)

    def full(self, rule: NormalRule, state: Mapping[str, Version]) -> Executable:
        """The plan that evaluates the whole rule."""
        return self._ready(rule, None, state).executable

    def delta(self, rule: NormalRule, pivot: Pivot, state: Mapping[str, Version]) -> Executable:
        """The plan for the instances that hold here and not there, `pivot` being the first that does not."""
        return self._ready(rule, pivot, state).executable

    def backward(self, rule: NormalRule, state: Mapping[str, Version]) -> Executable:
        """The plan for the instances that derive given facts."""
        return self._ready(rule, HEAD, state).executable

    def _ready(self, rule: NormalRule, pivot: Pivot | None, state: Mapping[str, Version]) -> _Entry:
        key = (rule.number, pivot)
        entry = self._entries.get(key)
        if entry is not None and _alike(entry.sizes, entry.reads, state, self._backend.limits.replan_bits):
            return entry
        aggregate = self._program.relations[rule.relation].aggregate
        plan = plan_rule(
            rule,
            pivot,
            self._backend.statistics(state),
            self.orders,
            self._strata[rule.relation],
            None if aggregate is None else aggregate[1],
            stated_order(rule, pivot, self._strata[rule.relation]),
        )
        if entry is not None and plan == entry.plan:
            entry.sizes = _sizes(entry.reads, state)
            return entry
        reads = tuple(sorted({probe.relation for probe in probes(plan.steps)}))
        entry = _Entry(plan, self._backend.prepare(plan), _sizes(reads, state), reads)
        self._entries[key] = entry
        return entry

    def used(self) -> list[Plan]:
        """The plans that are ready, rule by rule."""
        return [self._entries[key].plan for key in sorted(self._entries, key=lambda key: (key[0], str(key[1])))]

    def needed_orders(self, rules: Iterable[tuple[NormalRule, Pivot | None]]) -> dict[tuple[str, Read], set[Order]]:
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


def _alike(sizes: tuple[int, ...], reads: tuple[str, ...], state: Mapping[str, Version], slack: int) -> bool:
    return all(abs(len(state[name]).bit_length() - bits) <= slack for name, bits in zip(reads, sizes, strict=True))


def pivots(rule: NormalRule, relations: Iterable[str]) -> list[Pivot]:
    """The positive atoms of the rule over these relations."""
    wanted = set(relations)
    return [Pivot(index) for index in matches(rule.body) if _match(rule, index).relation in wanted]


def change_pivots(rule: NormalRule, changed: Container[str]) -> list[Pivot]:
    """Every way in which a change of these relations can make or break an instance of the rule."""
    found: list[Pivot] = []
    for index, literal in enumerate(rule.body):
        if isinstance(literal, Match):
            if literal.relation in changed:
                found.append(Pivot(index))
        elif isinstance(literal, Not | Fold):
            for inner, atom in enumerate(nested_matches(literal)):
                if atom.relation in changed:
                    found.append(Pivot(index, inner))
    return found


def nested_changes(rule: NormalRule, changed: Container[str]) -> bool:
    """Whether a negation or an aggregate of the rule reads one of these relations."""
    return any(pivot.inner >= 0 for pivot in change_pivots(rule, changed))


def pivot_relation(rule: NormalRule, pivot: Pivot) -> str:
    """The relation whose change a plan with this pivot starts from."""
    literal = rule.body[pivot.literal]
    if isinstance(literal, Not | Fold):
        return nested_matches(literal)[pivot.inner].relation
    return _match(rule, pivot.literal).relation


def _match(rule: NormalRule, index: int) -> Match:
    literal = rule.body[index]
    assert isinstance(literal, Match)
    return literal
