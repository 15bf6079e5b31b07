"""From scratch: what every other strategy must equal."""

from __future__ import annotations

from typing import Any

from sempre.analysis.model import Stratum
from sempre.maintain.seminaive import Fixpoint, first_facts
from sempre.maintain.strategy import Change, Outcome, Work, again


class Recompute:
    """Evaluates the stratum again and compares."""

    name = "recompute"

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        return materialize(work, stratum)

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        return again(work, stratum, materialize(work, stratum))


def materialize(work: Work, stratum: Stratum) -> Outcome:
    """The stratum's facts by semi-naive evaluation over the strata below."""
    return materialize_with(work, stratum)[0]


def materialize_with(work: Work, stratum: Stratum, walking: bool = True) -> tuple[Outcome, Fixpoint]:
    """The same, with the rounds it took; without `walking`, all of them are rounds."""
    backend, relations = work.backend, stratum.relations
    state = {**work.new}
    start = first_facts(backend, work.plans, work.program, stratum, state, work.explicit)
    state.update({name: backend.empty(name) for name in relations})
    fixpoint = Fixpoint(backend, work.plans, work.program, stratum, work.on_round, walking)
    fixpoint.run(state, start)
    # Indexes that the plans asked for are kept for the strata to come.
    work.new.update({name: version for name, version in state.items() if name not in relations})
    versions = {name: state[name] for name in relations}
    changes = {name: Change(versions[name].rows(), backend.empty(name).rows()) for name in relations}
    return Outcome(versions, changes, None, fixpoint.rounds), fixpoint
