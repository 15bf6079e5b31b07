"""Explanations of a database: why a fact holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import CheckedProgram, Relation
from sempre.api.questions import ask, question
from sempre.backends.local import LocalBackend
from sempre.diagnostics import DataError, Diagnostic, StateError
from sempre.engine import Engine, Snapshot
from sempre.explain.absence import AbsenceNarrator
from sempre.explain.absence_document import AbsenceDocument, Attempt, absence_tree
from sempre.explain.checker import check_proof
from sempre.explain.document import ProofDocument
from sempre.explain.drawing import absence_dot, proof_dot
from sempre.explain.inquiries import CodedFact, EvidenceState
from sempre.explain.lineage import Lineage
from sempre.explain.narrate import Narrator
from sempre.explain.page import document_page
from sempre.explain.prover import Prover
from sempre.explain.tree import proof_tree
from sempre.explain.wording import fact_text
from sempre.ingest import encode_rows
from sempre.kernel.select import Selection
from sempre.lang.parser import fact_atom
from sempre.lang.syntax import Atom
from sempre.plan.backend import DRIVER
from sempre.query import constant
from sempre.rewrites.equivalences import close_equivalences

if TYPE_CHECKING:
    import pyarrow as pa

    from sempre.api.database import Database
    from sempre.kernel.trace import Trace

Row = tuple[Any, ...]


class Proof:
    """Why a fact holds. `str()` is the tree that the command prints."""

    def __init__(self, database: Database, snapshot: Snapshot, document: ProofDocument) -> None:
        self._database, self._snapshot = database, snapshot
        self.document = document

    @property
    def height(self) -> int:
        """The round of its stratum in which the fact is found."""
        return self.document.height

    @property
    def base(self) -> list[str]:
        """The explicit facts that it rests on."""
        return [self.document.nodes[at].text for at in self.document.base]

    def to_json(self) -> dict[str, Any]:
        """The whole proof as JSON has it."""
        return self.document.to_json()

    def to_dot(self) -> str:
        """A graph for Graphviz."""
        return proof_dot(self.document)

    def to_html(self) -> str:
        """A page that holds all it needs."""
        return document_page(self.to_json(), str(self))

    def _repr_html_(self) -> str:
        from sempre.api.notebooks import page_html

        return page_html(self.to_html(), str(self).count("\n"))

    def check(self) -> list[str]:
        """What a checker that knows nothing of the engine finds wrong: nothing."""
        document = json.loads(json.dumps(self.to_json()))
        facts = SnapshotFacts(self._database, self._snapshot)
        try:
            return check_proof(document, self._database.program.checked, facts)
        except RecursionError:
            hint = "The proof can be read; only the checker compares values by recursion."
            raise StateError("the proof has values that are nested too deeply to be checked", hint=hint) from None

    def __str__(self) -> str:
        return proof_tree(self.document)

    def __repr__(self) -> str:
        return (
            f"<Proof of {self.document.nodes[self.document.root].text}: height {self.height}, {len(self.base)} facts>"
        )


class WhyNot:
    """Why a fact does not hold. `str()` is what the command prints."""

    def __init__(self, document: AbsenceDocument) -> None:
        self.document = document

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """For each rule that could give the fact, the instance that comes nearest; the nearest first."""
        return self.document.answers[0].attempts

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return self.document.to_json()

    def to_html(self) -> str:
        """A page that holds all it needs."""
        return document_page(self.to_json(), str(self))

    def _repr_html_(self) -> str:
        from sempre.api.notebooks import page_html

        return page_html(self.to_html(), str(self).count("\n"))

    def to_dot(self) -> str:
        """A graph for Graphviz."""
        return absence_dot(self.document)

    def __str__(self) -> str:
        return absence_tree(self.document)

    def __repr__(self) -> str:
        return f"<WhyNot {self.document.answers[0].text}: {len(self.attempts)} rules tried>"


class SnapshotFacts:
    """The facts of one state as plain values, for the checker."""

    def __init__(self, database: Database, snapshot: Snapshot) -> None:
        self._database, self._snapshot = database, snapshot
        self._versions: dict[tuple[str, bool], Trace] = {}

    def rows(self, relation: str, given: Mapping[int, Any]) -> Iterable[tuple[Any, ...]]:
        return self._found(relation, given, explicit=False)

    def explicit_rows(self, relation: str, given: Mapping[int, Any]) -> Iterable[tuple[Any, ...]]:
        return self._found(relation, given, explicit=True)

    def _found(self, name: str, given: Mapping[int, Any], explicit: bool) -> Iterable[tuple[Any, ...]]:
        database, snapshot = self._database, self._snapshot
        relation = database.program.relations[name]
        if (name, explicit) not in self._versions:
            version = snapshot.explicit[name] if explicit else database._version(name, snapshot)
            self._versions[name, explicit] = in_driver(database._backend, name, version)
        encode = database._encode_constants
        values = tuple((column, encode(relation, column, value)) for column, value in given.items())
        rows = Selection(values).of(self._versions[name, explicit].rows())
        return database._decoder.tuples(relation, rows.columns(), len(rows))


def in_driver(backend: LocalBackend, name: str, version: Any) -> Trace:
    """A version of a relation in this process."""
    if version.place == DRIVER:
        return version  # type: ignore[no-any-return]
    rows = version.rows()
    return backend.version(backend.receive(name, rows.columns(), len(rows)))


def evidence(database: Database, snapshot: Snapshot) -> EvidenceState:
    """A state of a database, for explanations."""
    return EvidenceState(
        close_equivalences(database.program.checked),
        database._backend,
        lambda name: in_driver(database._backend, name, database._version(name, snapshot)),
        lambda name: in_driver(database._backend, name, snapshot.explicit[name]),
        database._values_to_ask(),
        database._engine.program,
    )


def evidence_of(program: CheckedProgram, engine: Engine, backend: LocalBackend, snapshot: Snapshot) -> EvidenceState:
    """A state that an engine leads to, for explanations."""
    return EvidenceState(
        close_equivalences(program),
        backend,
        lambda name: in_driver(backend, name, engine.version(name, snapshot)),
        lambda name: in_driver(backend, name, snapshot.explicit[name]),
        backend.values,
        engine.program,
    )


# A fact as text, or a row of a relation: what nests too deeply to be written can be asked for by its row.
Asked = str | tuple[Relation, Row]


def asked_fact(database: Database, text: str) -> tuple[Atom, Relation, Row]:
    """The fact in a text."""
    atom, relation = question(database.program, text)
    atom = fact_atom(atom)
    try:
        return atom, relation, tuple(constant(arg) for arg in atom.args)
    except DataError:
        message = f"`{text}` has variables, and only a fact can be explained"
        hint = f"Ask for the facts first: `query '{text}'`."
        raise DataError(Diagnostic("E640", message, atom.span, hint=hint)) from None


def _text(asked: Asked) -> str:
    return asked if isinstance(asked, str) else fact_text(asked[0].name, asked[1])


@contextmanager
def _asked(database: Database, asked: Asked) -> Iterator[tuple[Narrator, Snapshot, CodedFact, bool]]:
    """Who tells about the present state, that state, the fact in question, and whether it holds."""
    database._stratified("a proof")
    if isinstance(asked, str) or "demand" in asked[0].qualifiers:
        atom, relation, row = asked_fact(database, _text(asked))
        database._materialized()
        ask(database, atom, relation)
    else:
        relation, row = asked
        database._materialized()
    snapshot = database._engine.snapshot
    state = evidence(database, snapshot)
    columns, _ = encode_rows(relation, [row], state.values, database.program.checked.types)
    codes = tuple(int(column[0]) for column in columns)
    prover = Prover(state)
    narrator = Narrator(prover, snapshot.epoch)
    try:
        yield narrator, snapshot, (relation.name, codes), codes in prover.bench.present(relation.name, [codes])
    finally:
        narrator.close()
        prover.close()


def why(database: Database, asked: Asked, *, depth: int | None = None, further: int = 0) -> Proof:
    """A proof of least height of a fact that holds."""
    with _asked(database, asked) as (narrator, snapshot, fact, holds):
        if not holds:
            text = _text(asked)
            hint = f"`sempre explain STORE '{text}' --not`, or `db.explain(..., absent=True)`, says why."
            raise StateError(Diagnostic("E641", f"`{text}` does not hold", hint=hint))
        return Proof(database, snapshot, narrator.why(fact, depth, further))


def why_not(database: Database, asked: Asked, *, depth: int = 1) -> WhyNot:
    """Why a fact does not hold."""
    with _asked(database, asked) as (narrator, _, fact, holds):
        if holds:
            text = _text(asked)
            hint = "Leave `--not`, or `absent=True`, out: then its proof is shown."
            raise StateError(Diagnostic("E641", f"`{text}` holds", hint=hint))
        teller = AbsenceNarrator(narrator.prover, narrator)
        try:
            return WhyNot(teller.why_not(fact, depth))
        finally:
            teller.close()


def explanations(database: Database, name: str) -> pa.Table:
    """How each fact of a relation is derived, as a table."""
    database._stratified("explanations()")
    if name not in database.program.relations:
        raise database._unknown(name)
    database._materialized()
    lineage = Lineage(evidence(database, database._engine.snapshot), name)
    try:
        return lineage.table()
    finally:
        lineage.close()
