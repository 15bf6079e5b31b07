"""What explanations are held against: the rounds of naive evaluation, and the oracle's facts as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sempre.lang import syntax as s
from tests.oracle.clauses import clauses_of
from tests.oracle.counters import aggregated
from tests.oracle.naive import Facts, State, consequences, materialize, typed
from tests.oracle.strata import stratify
from tests.oracle.values import Row, canonical, same


def rounds(program: s.ParsedProgram, explicit: Facts) -> dict[tuple[str, Row], int]:
    """The round of its stratum in which each fact is first found, where neither equivalences nor totals blur it."""
    clauses = clauses_of(program)
    explicit = typed(clauses, explicit)
    done = materialize(program, explicit)
    found: dict[tuple[str, Row], int] = {}
    for stratum in stratify(clauses):
        if not stratum.relations.isdisjoint(aggregated(clauses) | clauses.schema.equivalences):
            continue
        state = State({name: set() if name in stratum.relations else rows for name, rows in done.items()})
        grew, number = True, 0
        while grew:
            number += 1
            following = {name: consequences(clauses, stratum, name, explicit, state) for name in stratum.relations}
            for name, rows in following.items():
                for row in rows:
                    found.setdefault((name, row), number)
            changed = [state.replace(name, rows) for name, rows in following.items()]
            grew = any(changed)
    return found


@dataclass(frozen=True)
class OracleFacts:
    """The facts of the oracle, for the checker."""

    facts: Facts
    explicit: Facts

    def rows(self, relation: str, given: Mapping[int, Any]) -> Iterable[Row]:
        return _chosen(self.facts[relation], given)

    def explicit_rows(self, relation: str, given: Mapping[int, Any]) -> Iterable[Row]:
        return _chosen(self.explicit.get(relation, set()), given)


def _chosen(rows: Iterable[Row], given: Mapping[int, Any]) -> list[Row]:
    return [row for row in rows if all(same(row[at], canonical(value)) for at, value in given.items())]
