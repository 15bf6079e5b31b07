"""Strata that close inside of tasks, as the cluster's backend has them: rows in, rows out, one pass for all."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from sempre.analysis.model import CheckedProgram, Stratum
from sempre.maintain.decide import StratumSizes
from sempre.maintain.seminaive import first_facts
from sempre.maintain.strategy import Abandoned, Change, Outcome, Work
from sempre.plan.ops import relations_of
from sempre.spark.cluster import task_fixpoints
from sempre.spark.cluster.shares import Split, decide
from sempre.spark.cluster.spark_backend import SparkBackend
from sempre.spark.cluster.tables import Table, unsealed
from sempre.spark.task_room import TaskRoom, task_room

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TaskClosing:
    """Closes a stratum in one pass where that can be done: instead of by rounds of DataFrames."""

    def __init__(self, backend: SparkBackend) -> None:
        self._backend = backend
        self._room: TaskRoom | None = None
        # Strata that a single task had no room for, and with how many rows.
        self._outgrown: dict[int, int] = {}

    def one_pass(self, program: CheckedProgram, stratum: Stratum, sizes: StratumSizes) -> Split | None:
        """How to close the stratum, if that can be done and there is something to close."""
        if not stratum.recursive or not self._backend.scratch.is_here:  # tasks write files
            return None
        rules = (*stratum.nonrecursive, *stratum.recursive)
        reads = set(stratum.relations).union(*(relations_of(rule.body) for rule in rules))
        rows = {name: sizes.rows(name) for name in reads}
        if not any(rows.values()):
            return None
        if self._room is None:
            self._room = task_room(self._backend.scratch.spark, self._backend.limits)
        found = decide(program, stratum, rows, limits=self._backend.limits, room=self._room)
        is_tried = found is not None and found.room and sum(rows.values()) >= self._outgrown.get(stratum.index, inf)
        return None if is_tried else found

    def close(self, work: Work, stratum: Stratum, split: Split) -> Outcome:
        """All of the stratum, by a pass that was found; raises `Abandoned` if a task had no room for it."""
        rules = (*stratum.nonrecursive, *stratum.recursive)
        below = set().union(*(relations_of(rule.body) for rule in rules)) - set(stratum.relations)
        standing = {**{name: work.new[name] for name in below}, **{n: work.explicit[n] for n in stratum.relations}}
        backend, seeds = self._backend, None
        if split.seeded:
            first = first_facts(work.backend, work.plans, work.program, stratum, dict(work.new), work.explicit)
            (rows,) = first.values()
            work.backend.settle([rows])
            seeds = unsealed(rows).frame()
        copies = {name: unsealed(standing[name].rows()) for name in split.copied if name in standing}
        try:
            found = self.closed(split, copies, seeds)
        except Abandoned:
            self._outgrown[stratum.index] = sum(len(rows) for rows in standing.values())
            raise
        changes = {name: Change(rows, backend.empty(name).rows()) for name, rows in found.items()}
        versions = {name: work.backend.version(rows) for name, rows in found.items()}
        return Outcome(versions, changes, None, 1, "in tasks")

    def closed(self, split: Split, copies: Mapping[str, Table], seeds: DataFrame | None = None) -> dict[str, Table]:
        """The relations of a stratum, by one pass over its shares; `copies` are the rows of `split.copied`."""
        backend, scratch = self._backend, self._backend.scratch
        copies = {name: rows for name, rows in copies.items() if not rows.known_empty}
        backend.settle(copies.values())
        paths = {name: Path(rows.path) for name, rows in copies.items()}
        with scratch.folders_for_tasks(split.stratum.relations) as targets:
            reported = scratch.reported(lambda: task_fixpoints.tasks(scratch.spark, split, paths, targets, seeds))
            written = [row for row in reported.to_pylist() if row["relation"]]
            scratch.check_seen({targets[row["relation"]] / row["file"] for row in written})
            sizes = task_fixpoints.adopt(reported, targets)
        return {name: backend.written(name, path, sizes[name]) for name, path in targets.items()}
