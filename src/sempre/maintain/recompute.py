"""From scratch: what every other strategy must equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sempre.analysis.model import Stratum
from sempre.maintain.modular import exchange_of, owned_by, without, worthwhile
from sempre.maintain.seminaive import Fixpoint, first_facts
from sempre.maintain.strategy import Change, Outcome, Work, as_update
from sempre.modules.spec import Module
from sempre.plan.backend import Rows, Version


class Recompute:
    """Evaluates the stratum again and compares; without `walking`, by rounds of arrays alone."""

    name = "recompute"
    forgetful = True

    def __init__(self, walking: bool = True) -> None:
        self._walking = walking

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        outcome, _ = materialize_with(work, stratum, self._walking, work.modules.get(stratum.index, ()))
        return replace(outcome, memory=None)

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        return as_update(work, stratum, self.bootstrap(work, stratum))

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> None:
        """It finds out what it needs when it needs it."""


def materialize(work: Work, stratum: Stratum) -> Outcome:
    """The stratum's facts by semi-naive evaluation over the strata below."""
    return materialize_with(work, stratum)[0]


def materialize_with(
    work: Work,
    stratum: Stratum,
    walking: bool = True,
    modules: Sequence[Module] = (),
    counting: bool = False,
    counters: bool = False,
) -> tuple[Outcome, Fixpoint]:
    """The same, with the rounds it took; without `walking`, all of them are rounds.

    Those of the `modules` that are worth it do their part, and are remembered. With `counting`, the instances that
    derive a fact in its first round are counted; with `counters` too, all instances of recursive rules.
    """
    state, backend = {**work.new}, work.backend

    def derived(rules: Stratum) -> dict[str, Rows]:
        return first_facts(backend, work.plans, work.program, rules, state, work.explicit)

    # Rules without recursion that a module may own are its to evaluate, unless it is left out.
    start = derived(without(stratum, owned_by(modules)))
    chosen, why = worthwhile(work, stratum, modules, _versions(work, start) if modules else {})
    left = owned_by(modules) - owned_by(chosen)
    if any(rule.number in left for rule in stratum.nonrecursive):
        start = derived(without(stratum, owned_by(chosen)))
    # Indexes that the plans asked for are kept for the strata to come.
    work.new.update({name: version for name, version in state.items() if name not in stratum.relations})
    return _closed(work, stratum, start, walking, chosen, why, counting, counters)


def closed_relations(
    work: Work,
    stratum: Stratum,
    start: dict[str, Rows],
    walking: bool = True,
    modules: Sequence[Module] = (),
    counting: bool = False,
) -> tuple[Outcome, Fixpoint]:
    """What the recursive rules make of first facts, which all other rules have made already."""
    first = {rule.number for rule in stratum.nonrecursive}
    modules = [module for module in modules if not module.rules & first]
    chosen, why = worthwhile(work, stratum, modules, _versions(work, start) if modules else {})
    return _closed(work, stratum, start, walking, chosen, why, counting)


def _versions(work: Work, rows: Mapping[str, Rows]) -> dict[str, Version]:
    return {name: work.backend.version(found) for name, found in rows.items()}


def _closed(
    work: Work,
    stratum: Stratum,
    start: dict[str, Rows],
    walking: bool,
    modules: tuple[Module, ...],
    why: str,
    counting: bool,
    counters: bool = False,
) -> tuple[Outcome, Fixpoint]:
    backend, relations = work.backend, stratum.relations
    state = {**work.new, **{name: backend.empty(name) for name in relations}}
    exchange = exchange_of(work, stratum, modules)
    exchange.start()
    fixpoint = Fixpoint(
        backend,
        work.plans,
        work.program,
        exchange.generic,
        work.on_round,
        walking,
        exchange,
        counting,
        narrowing=True,
        counters=counters and not modules,
    )
    fixpoint.run(state, start)
    work.new.update({name: version for name, version in state.items() if name not in relations})
    versions = {name: state[name] for name in relations}
    changes = {name: Change(versions[name].rows(), backend.empty(name).rows()) for name in relations}
    return Outcome(versions, changes, exchange.memory(None), fixpoint.rounds, why=why, modules=modules), fixpoint
