"""Why something changed: a set of input changes that, undone, undo the effect.

A set is right if the present state without these changes no longer shows the effect; that is tried, by evaluating it
aside, before anything is said. Proofs say where to look: the changed facts that they rest on. What proofs do not show,
such as a negation that a deletion made true, is found by starting from all changes. Sets are made smaller as long as
they stay right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import Relation
from sempre.api.branches import BranchedState, branch_off
from sempre.api.explanations import evidence_of, in_driver
from sempre.data import dataclass
from sempre.explain.document import EXPLICIT
from sempre.explain.narrate import Narrator
from sempre.explain.prover import Prover
from sempre.explain.wording import fact_text
from sempre.ingest import encode_rows

if TYPE_CHECKING:
    from sempre.api.database import Database

Row = tuple[Any, ...]
# Input changes that are undone one by one, and how often a set is tried without some of its members.
MOST_SINGLE = 64
MOST_TRIES = 64


@dataclass(frozen=True, slots=True)
class InputChange:
    """An explicit fact that an epoch inserted or deleted."""

    relation: str
    row: Row
    inserted: bool

    @property
    def text(self) -> str:
        return fact_text(self.relation, self.row)

    @property
    def how(self) -> str:
        return "inserted" if self.inserted else "deleted"


def undone(database: Database, changes: Iterable[InputChange]) -> BranchedState:
    """The present state without some of the changes that led to it."""
    insert: dict[str, list[Row]] = {}
    delete: dict[str, list[Row]] = {}
    for change in changes:
        (delete if change.inserted else insert).setdefault(change.relation, []).append(change.row)
    return branch_off(database, insert, delete)


@dataclass(frozen=True, slots=True)
class EffectFact:
    """A fact whose change is asked about; `present` says whether it is there now."""

    relation: Relation
    row: Row
    present: bool


class CauseFinder:
    """Looks for causes among the changes that led to the present state of a database.

    `proof_before` gives the explicit facts of a proof in the state before these changes.
    """

    def __init__(
        self,
        database: Database,
        changes: Sequence[InputChange],
        proof_before: Callable[[EffectFact], Iterable[tuple[str, Row]]] | None = None,
    ) -> None:
        self.database, self.changes, self.proof_before = database, tuple(changes), proof_before
        self._inserted = {(change.relation, change.row): change for change in changes if change.inserted}
        self._deleted = {(change.relation, change.row): change for change in changes if not change.inserted}

    def holds(self, branch: BranchedState, fact: EffectFact) -> bool:
        """Whether a fact holds in a branch."""
        name, types = fact.relation.name, self.database.program.checked.types
        columns, size = encode_rows(fact.relation, [fact.row], branch.backend.values, types)
        version = in_driver(branch.backend, name, branch.engine.version(name, branch.after))
        return bool(version.contains(branch.backend.rows(name, columns, size)).all())

    def undoes(self, fact: EffectFact, chosen: Sequence[InputChange]) -> bool:
        """Whether undoing these changes undoes the effect on a fact."""
        return self.holds(undone(self.database, chosen), fact) != fact.present

    def causes(self, fact: EffectFact) -> list[InputChange]:
        """A set of changes that undoes the effect, and none of whose members was found to be dispensable."""
        found = self._from_proofs(fact) if fact.present else self._from_proof_before(fact)
        return self._smaller(fact, found if found is not None else list(self.changes))

    def _from_proofs(self, fact: EffectFact) -> list[InputChange] | None:
        """For a fact that came: the inserted facts of its proofs, proof after proof, until there is none left."""
        chosen: dict[InputChange, None] = {}
        while len(chosen) <= len(self.changes):
            branch = undone(self.database, chosen)
            if not self.holds(branch, fact):
                return list(chosen)
            more = [self._inserted[key] for key in self._base(branch, fact) if key in self._inserted]
            more = [change for change in more if change not in chosen]
            if not more:
                return None
            chosen.update(dict.fromkeys(more))
        return None

    def _from_proof_before(self, fact: EffectFact) -> list[InputChange] | None:
        """For a fact that went: the deleted facts of the proof that it had."""
        if self.proof_before is None:
            return None
        chosen = [self._deleted[key] for key in self.proof_before(fact) if key in self._deleted]
        return chosen if chosen and self.undoes(fact, chosen) else None

    def _base(self, branch: BranchedState, fact: EffectFact) -> list[tuple[str, Row]]:
        """The explicit facts that a proof in a branch rests on."""
        prover = Prover(evidence_of(self.database.program.checked, branch.engine, branch.backend, branch.after))
        narrator = Narrator(prover)
        columns, _ = encode_rows(fact.relation, [fact.row], branch.backend.values, self.database.program.checked.types)
        document = narrator.why((fact.relation.name, tuple(int(column[0]) for column in columns)))
        narrator.close()
        prover.close()
        return [(node.relation, node.values) for node in document.nodes if node.kind == EXPLICIT]

    def _smaller(self, fact: EffectFact, chosen: list[InputChange]) -> list[InputChange]:
        """A smaller set that still undoes the effect: without halves, then quarters, ..., then single changes."""
        if 1 < len(chosen) <= MOST_SINGLE // 4:
            for change in chosen:
                if self.undoes(fact, [change]):
                    return [change]
        tries, size = MOST_TRIES, (len(chosen) + 1) // 2
        while size and tries and len(chosen) > 1:
            at = 0
            while at < len(chosen) and tries and len(chosen) > 1:
                tries -= 1
                fewer = chosen[:at] + chosen[at + size :]
                if fewer and self.undoes(fact, fewer):
                    chosen = fewer
                else:
                    at += size
            size //= 2
        return chosen


@dataclass(frozen=True, slots=True)
class Caused:
    """A changed fact with a set of input changes that, undone together, undo its change."""

    fact: EffectFact
    causes: tuple[InputChange, ...]


def causes_of_all(finder: CauseFinder, relation: Relation, facts: Sequence[EffectFact]) -> list[Caused]:
    """The causes of many changed facts of one relation: first of every input change alone, then of sets."""
    found: list[Caused] = []
    left = {fact.row: fact for fact in facts}
    alone: dict[Row, None] = {}
    if len(finder.changes) <= MOST_SINGLE:
        for change in finder.changes:
            for row in _flipped(finder, relation, [change], left):
                found.append(Caused(left[row], (change,)))
                alone.setdefault(row)
    left = {row: fact for row, fact in left.items() if row not in alone}
    while left:
        fact = next(iter(left.values()))
        causes = finder.causes(fact)
        found += [Caused(left.pop(row), tuple(causes)) for row in _flipped(finder, relation, causes, left)]
    return found


def _flipped(
    finder: CauseFinder, relation: Relation, causes: Sequence[InputChange], facts: Mapping[Row, EffectFact]
) -> list[Row]:
    """The facts whose change is undone when these input changes are."""
    branch = undone(finder.database, causes)
    change = branch.result.changes.get(relation.name)
    if change is None:
        return []
    found: list[Row] = []
    for rows, present in ((change.minus, True), (change.plus, False)):
        decoded = branch.decoder.tuples(relation, rows.columns(), len(rows))
        found += [row for row in decoded if row in facts and facts[row].present is present]
    return found
