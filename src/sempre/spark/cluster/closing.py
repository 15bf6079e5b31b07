"""Strata that close inside of tasks, as the cluster's backend has them: rows in, rows out, one pass per relation."""

from __future__ import annotations

from sempre.analysis.model import Stratum
from sempre.maintain.seminaive import first_facts
from sempre.maintain.strategy import Change, Outcome, Work
from sempre.plan.ops import relations_of
from sempre.spark import intask
from sempre.spark.cluster.backend import SparkBackend


class InTasks:
    """Closes a stratum in one pass where that can be done: what `Places` asks before rounds of DataFrames begin."""

    def __init__(self, backend: SparkBackend) -> None:
        self._backend = backend

    def __call__(self, work: Work, stratum: Stratum) -> Outcome | None:
        if not stratum.recursive:
            return None
        rules = (*stratum.nonrecursive, *stratum.recursive)
        below = set().union(*(relations_of(rule.body) for rule in rules)) - set(stratum.relations)
        standing = {**{name: work.new[name] for name in below}, **{n: work.explicit[n] for n in stratum.relations}}
        sizes = {name: len(version) for name, version in standing.items()}
        split = intask.decide(work.program, stratum, sizes) if any(sizes.values()) else None
        if split is None:
            return None
        backend, relations = self._backend, work.program.relations
        if split.seeded:
            first = first_facts(work.backend, work.plans, work.program, stratum, dict(work.new), work.explicit)
            backend.settle(first.values())
            standing |= {name: backend.version(rows) for name, rows in first.items()}
        inputs = {name: backend.frame(relations[name], version) for name, version in standing.items()}
        with intask.told():
            scratch = backend.scratch
            frames = scratch.jobs.one(lambda: intask.close(scratch.spark, work.program, stratum, split, inputs))
            found = {name: backend.adopt(relations[name], df) for name, df in frames.items()}
            backend.settle(found.values())
        work.notes.append(f"{', '.join(stratum.relations)} inside of tasks: {split.reason}")
        changes = {name: Change(rows, backend.empty(name).rows()) for name, rows in found.items()}
        versions = {name: backend.version(rows) for name, rows in found.items()}
        return Outcome(versions, changes, None, 1, "in tasks")
