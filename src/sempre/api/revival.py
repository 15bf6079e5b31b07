"""What happens when workers are lost: others take their place, and get the state of the last epoch.

The driver has all explicit facts, and the state is what follows from these. So whatever the lost workers held is
derived again, and the handles of the last epoch are made to point to it: views of that epoch never notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sempre.engine import Engine, standing_work
from sempre.plan.backend import WORKERS, Version
from sempre.plan.faults import limit_errors
from sempre.workers.handles import RemoteVersion
from sempre.workers.workers_backend import WorkersBackend


def revive(engine: Engine, workers: WorkersBackend) -> None:
    """Begin with new workers that have the state of the last epoch."""
    workers.start_again()
    places, lost = engine.places, engine.snapshot
    places.lose(WORKERS)
    blank = engine.blank_like(lost)
    explicit = _standing(lost.explicit, blank.explicit)
    if lost.blank:
        engine.regain(replace(blank, epoch=lost.epoch), lost)
        return
    epoch = standing_work(engine, replace(blank, explicit=explicit))
    epoch.new.clear()
    memories = dict(lost.memories)
    for stratum in engine.program.strata:
        if all(lost.versions[name].place != WORKERS for name in stratum.relations):
            epoch.new.update({name: lost.versions[name] for name in stratum.relations})
            continue
        if not stratum.nonrecursive and not stratum.recursive:  # there is nothing that is not explicit
            epoch.new.update({name: explicit[name] for name in stratum.relations})
            continue
        work = places.at(epoch, WORKERS, stratum, epoch.on_round)
        with limit_errors(engine.program, (*stratum.nonrecursive, *stratum.recursive)):
            outcome = engine.strategy_of(stratum, WORKERS).bootstrap(work, stratum)
        memories[stratum.index] = outcome.memory
        places.take(epoch, work, outcome)
    for old, found in ((lost.versions, epoch.new), (lost.explicit, explicit)):
        for name, version in old.items():
            if version.place == WORKERS:
                _remote(version).become(_remote(places.bring(name, found[name], WORKERS)))
    engine.regain(replace(lost, memories=memories), lost)


def _standing(versions: Mapping[str, Version], empty: Mapping[str, Version]) -> dict[str, Version]:
    """Explicit facts: the driver has them, and workers at most know that there are none."""
    return {name: empty[name] if version.place == WORKERS else version for name, version in versions.items()}


def _remote(version: Any) -> RemoteVersion:
    assert isinstance(version, RemoteVersion)
    return version


__all__ = ["revive"]
