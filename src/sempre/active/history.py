"""Why a fact is there or not: the cycles that changed it, and the rules that did."""

from __future__ import annotations

from typing import Any

from sempre.active.active_engine import ActiveEngine
from sempre.active.endless_runs import fact_text
from sempre.analysis.model import NormalRule
from sempre.data import dataclass
from sempre.plan.backend import Rows, View
from sempre.plan.ops import HEAD, Read

# What an event says where no rule acted, or not only rules.
GIVEN = "given in this cycle"


@dataclass(frozen=True, slots=True)
class Cause:
    """A rule, or what is given from outside, that acted on a fact in a cycle, and by how many instances."""

    rule: str
    deletes: bool
    instances: int


@dataclass(frozen=True, slots=True)
class Event:
    """A cycle in which a fact came or went; cycle 0 is the input."""

    cycle: int
    added: bool
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class FactHistory:
    """What happened to one fact. `str()` tells it line by line."""

    fact: str
    present: bool
    events: tuple[Event, ...]

    def __str__(self) -> str:
        lines = [f"{self.fact} {'holds' if self.present else 'does not hold'}"]
        for event in self.events:
            what = "in the input" if not event.cycle else "added" if event.added else "deleted"
            lines.append(f"cycle {event.cycle}: {what}")
            lines += [f"  {cause.rule}{_times(cause.instances)}" for cause in event.causes]
        if not self.events:
            lines.append("no cycle added it")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "fact": self.fact,
            "present": self.present,
            "events": [
                {
                    "cycle": event.cycle,
                    "added": event.added,
                    "causes": [
                        {"rule": cause.rule, "deletes": cause.deletes, "instances": cause.instances}
                        for cause in event.causes
                    ],
                }
                for event in self.events
            ],
        }


def _times(instances: int) -> str:
    return "" if instances == 1 else f"  ({instances:,} instances)"


def history(engine: ActiveEngine, name: str, row: Rows) -> FactHistory:
    """The history of one fact in the run of the last epoch."""
    chain = engine.timeline.chains[name]
    events = []
    if bool(chain.present(row, 0).all()):
        events.append(Event(0, True, ()))
    for cycle in chain.cycles_of(row):
        added = bool(chain.present(row, cycle).all())
        rules = [rule for rule in engine.program.rules if rule.relation == name and rule.deletes != added]
        causes = _causes(engine, rules, name, row, cycle)
        if _is_given(engine, name, row, cycle, added):
            causes = (*causes, Cause(GIVEN, not added, 1))
        events.append(Event(cycle, added, causes))
    (values,) = engine.decoder.tuples(engine.program.relations[name], row.columns(), 1)
    return FactHistory(fact_text(name, values), len(engine.backend.intersection(row, chain.now)) > 0, tuple(events))


def _is_given(engine: ActiveEngine, name: str, row: Rows, cycle: int, added: bool) -> bool:
    """Whether somebody added or deleted the fact in a cycle."""
    given = engine.timeline.given.get(cycle, {}).get(name)
    if given is None:
        return False
    rows = given.added if added else given.deleted
    return len(engine.backend.intersection(row, engine.backend.version(rows))) > 0


def _causes(engine: ActiveEngine, rules: list[NormalRule], name: str, row: Rows, cycle: int) -> tuple[Cause, ...]:
    """The rules that have instances for the fact in the database before the cycle."""
    backend, plans, chains = engine.backend, engine.plans, dict(engine.timeline.chains)
    sizes = {relation: chain.now for relation, chain in chains.items()}
    found = []
    for rule in rules:
        plan = plans.backward(rule, sizes)
        views: dict[tuple[str, Read], View] = {}
        for (relation, read), orders in plans.needed_orders([(rule, HEAD)]).items():
            if read is Read.ONLY:
                views[relation, read] = backend.view(backend.version(row, orders))
            else:
                chains[relation] = chains[relation].indexed(orders)
                views[relation, read] = chains[relation].view(cycle - 1, True)
        counted = backend.count(name, [plan], views)
        if len(counted):
            found.append(Cause(rule.text, rule.deletes, int(counted.weights.sum())))
    return tuple(found)
