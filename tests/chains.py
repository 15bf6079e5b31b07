"""Chains of the engine as plain dicts, and their comparison with the oracle's run."""

from __future__ import annotations

from typing import Any

from sempre.active.active_engine import ActiveEngine
from sempre.active.timeline import Timeline
from sempre.api import Database as Database_
from sempre.api import Program
from sempre.backends.local import LocalBackend
from sempre.ingest import encode_rows
from sempre.kernel.chains import Chain
from sempre.kernel.trace import RowSet
from sempre.lang import syntax as s
from sempre.lang.printer import to_text
from sempre.plan.backend import Rows, sealed_for_cycles
from sempre.results import Decoder
from sempre.rewrites.equivalences import close_equivalences
from tests.oracle.active import Database, Numbers, Run
from tests.oracle.naive import Facts
from tests.rows import plain


class Subject:
    """An active engine that takes and gives plain rows."""

    def __init__(self, program: s.ParsedProgram, limit: int = 200) -> None:
        self.program = close_equivalences(Program(to_text(program)).checked)
        self.backend = LocalBackend(self.program, 1)
        self.decoder = Decoder(self.backend.values, self.program.types)
        self.engine = ActiveEngine(self.program, sealed_for_cycles(self.backend), self.decoder, limit)

    @staticmethod
    def of(database: Database_) -> Subject:
        """The engine of a database."""
        subject = Subject.__new__(Subject)
        assert isinstance(database._engine, ActiveEngine)
        subject.program, subject.backend, subject.decoder = (
            database._engine.program,
            database._backend,
            database._decoder,
        )
        subject.engine = database._engine
        return subject

    def encoded(self, facts: Facts) -> dict[str, RowSet]:
        found = {}
        for name, rows in facts.items():
            columns, size = encode_rows(
                self.program.relations[name], sorted(rows, key=repr), self.backend.values, self.program.types
            )
            self.backend.fit({name: columns})
            found[name] = self.backend.rows(name, columns, size)
        return found

    def decoded(self, name: str, rows: Rows) -> list[tuple[Any, ...]]:
        tuples = self.decoder.tuples(self.program.relations[name], rows.columns(), len(rows))
        return [tuple(map(plain, row)) for row in tuples]

    def database(self, timeline: Timeline, cycle: int) -> Database:
        """What held after a cycle."""
        return frozenset(
            (name, row) for name, chain in timeline.chains.items() for row in self.decoded(name, chain.at(cycle).rows())
        )

    def numbers(self, timeline: Timeline, cycle: int) -> Numbers:
        """How often facts were added and deleted in a cycle, without those that were neither."""
        found: Numbers = {}
        for name, found_chain in timeline.chains.items():
            chain = kernel_chain(found_chain)
            rows = self._recorded(name, chain)
            added, deleted = chain.counts(rows, cycle)
            for row, plus, minus in zip(self.decoded(name, rows), added.tolist(), deleted.tolist(), strict=True):
                if plus or minus:
                    found[name, row] = (plus, minus)
        return found

    def _recorded(self, name: str, chain: Chain) -> RowSet:
        """Every row that was ever added or deleted."""
        parts = []
        for tally in (chain.added, chain.deleted):
            columns = tally.entries().rows().columns()[:-1]
            parts.append(self.backend.rows(name, columns, tally.entries().keys.size))
        return self.backend.union(parts)


def kernel_chain(chain: object) -> Chain:
    """A chain as what it is in the driver, for looking inside."""
    assert isinstance(chain, Chain)
    return chain


def check_chains(subject: Subject, timeline: Timeline, expected: Run, where: str) -> int:
    """Every cycle's database and numbers equal the oracle's; returns how many records were compared."""
    compared = 0
    last = max(timeline.cycles, expected.cycles)
    for cycle in range(last + 1):
        assert subject.database(timeline, cycle) == expected.database(cycle), f"database of cycle {cycle} {where}"
        if cycle:
            numbers = subject.numbers(timeline, cycle)
            assert numbers == expected.number(cycle), f"numbers of cycle {cycle} {where}"
            compared += len(numbers)
    for name, chain in timeline.chains.items():
        held = {row for k in range(last + 1) for other, row in expected.database(k) if other == name}
        now = {row for other, row in expected.database(last) if other == name}
        assert set(subject.decoded(name, chain.now.rows())) == now, f"{name} now {where}"
        assert set(subject.decoded(name, kernel_chain(chain).gone.rows())) == held - now, f"{name} gone {where}"
    return compared
