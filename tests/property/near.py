"""A cluster without Spark: relations are in files as there, and small changes are followed as there. Whatever would be
a job is done by the driver's backend, from scratch. So thousands of random cases can be tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pyarrow as pa

from sempre.analysis.model import Stratum
from sempre.backends.local import LocalBackend
from sempre.engine import Engine, Snapshot
from sempre.kernel.trace import Trace
from sempre.maintain.decide import Decision
from sempre.maintain.planning import Plans
from sempre.maintain.recompute import Recompute
from sempre.maintain.strategy import Change, Outcome, Work
from sempre.plan.backend import sealed
from sempre.spark.cluster.codes import Coder, left_of
from sempre.spark.cluster.spark_backend import SparkBackend
from sempre.spark.cluster.tables import Table, Version
from tests.workers import UnusedSession


class NoSession(UnusedSession):
    """Stands for a session, and has nothing of one."""

    sparkContext = None  # noqa: N815


@dataclass
class Seen:
    """How many strata were evaluated by what would be jobs, and how many changes were followed."""

    jobs: int = 0
    followed: int = 0


def rows_of(version: Version) -> Table:
    """All rows of a version, without a job."""
    like, coder = version.like, Coder()
    parts = []
    for part, gone in version.parts:
        rows = coder.rows(part.arrow(), like.kinds, like.arity)
        for other in gone:
            rows = left_of(rows, coder.rows(other.arrow(), like.kinds, like.arity))
        parts.append(coder.table(rows, like.kinds, like.arity))
    if not len(version):
        return like.store.empty(like.kinds, like.arity)
    return like.store.held(pa.concat_tables(parts), like.kinds, like.arity)


def held(rows: Table) -> Table:
    """The same rows, here, however many there are."""
    made = Table(rows.store, rows.kinds, rows.arity)
    made.keep(rows.arrow())
    return made


@contextmanager
def no_spark() -> Iterator[Seen]:
    """Databases made with `spark=NoSession(), place="cluster"` work, and never start a job."""
    seen = Seen()
    as_decided = Engine._run

    def run(self: Engine, work: Work, stratum: Stratum, before: Snapshot, decision: Decision) -> Outcome:
        if decision.followed:
            outcome = as_decided(self, work, stratum, before, decision)
            seen.followed += 1
            return outcome
        seen.jobs += 1
        return from_scratch(self, work, stratum, before)

    def merged(self: Version) -> Version:
        return self

    difference, intersection = SparkBackend.difference, SparkBackend.intersection

    with (
        mock.patch.object(Engine, "_run", run),
        mock.patch.object(Version, "rows", rows_of),
        mock.patch.object(
            SparkBackend, "difference", lambda self, rows, version: difference(self, held(rows), version)
        ),
        mock.patch.object(
            SparkBackend, "intersection", lambda self, rows, version: intersection(self, held(rows), version)
        ),
        mock.patch.object(Version, "_compact", merged),
    ):
        yield seen


def from_scratch(engine: Engine, work: Work, stratum: Stratum, before: Snapshot) -> Outcome:
    """A stratum by the driver's backend."""
    program, cluster = work.program, engine.backend
    local = LocalBackend(program, threads=1)
    local.values = cluster.values  # type: ignore[attr-defined]
    backend = sealed(local)

    def here(name: str, version: Any) -> Any:
        rows = version.rows()
        return Trace.of(local.receive(name, rows.columns(), len(rows)))

    near: Any = replace(
        work,
        backend=backend,
        plans=Plans(program, backend),
        old={},
        new={name: here(name, version) for name, version in work.new.items()},
        explicit={name: here(name, version) for name, version in work.explicit.items()},
        explicit_before={},
        explicit_changes={},
        changes={},
        modules={},
    )
    outcome = Recompute().bootstrap(near, stratum)
    versions, changes = {}, {}
    for name, version in outcome.versions.items():
        rows = version.rows()
        made = cluster.receive(name, rows.columns(), len(rows))
        versions[name] = cluster.version(made)
        old = cluster.empty(name).rows() if before.blank else work.old[name].rows()
        changes[name] = Change(
            cluster.difference(made, cluster.version(old)), cluster.difference(old, cluster.version(made))
        )
    return Outcome(versions, changes, None, outcome.rounds, "jobs")
