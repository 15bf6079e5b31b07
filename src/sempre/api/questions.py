"""Questions: to a program, which is evaluated for the answer alone, and to relations on demand, where they stay.

Who asks a relation on demand by a constant puts that into a relation of demand, which rules read (`rewrites.demand`);
whoever asks for more than one column is answered by the first. Demand is data like any other: it is kept in stores, and
answers change with the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import Relation
from sempre.api.intake import IncomingRows, unknown
from sempre.api.refusals import check_atom
from sempre.api.views import contains
from sempre.diagnostics import DataError, Diagnostic, StateError
from sempre.ingest import encode_value
from sempre.kernel.values import Values
from sempre.lang.parser import parse, parse_atom
from sempre.lang.printer import string_text
from sempre.lang.syntax import Atom, RelationDecl, Variable, Wildcard
from sempre.query import constant
from sempre.rewrites.demand import Pattern, demand_name, outside_patterns

if TYPE_CHECKING:
    import pyarrow as pa

    from sempre.api.changes import ChangeSet
    from sempre.api.database import Database
    from sempre.api.program import Program


def question(program: Program, text: str) -> tuple[Atom, Relation]:
    """The atom in a text, and the relation it is about."""
    atom = parse_atom(text)
    relation = program.relations.get(atom.relation)
    if relation is None:
        raise unknown(program, atom.relation)
    if len(atom.args) != relation.arity:
        message = f"`{relation.name}` has {relation.arity} columns, not {len(atom.args)}"
        raise DataError(Diagnostic("E502", message, atom.span))
    return atom, relation


def _given(atom: Atom) -> dict[int, Any]:
    """The constants of an atom, by column."""
    places = enumerate(atom.args)
    return {column: constant(arg) for column, arg in places if not isinstance(arg, Variable | Wildcard)}


def check_constants(program: Program, relation: Relation, given: Mapping[int, Any]) -> None:
    """Raise unless all constants of a question are values of their columns."""
    for column, value in given.items():
        encode_value(relation, column, value, Values(), program.checked.types)


# ------------------------------------------------------------------------------------------------- to a program


def answer_once(
    program: Program, text: str, facts: Mapping[str, Any] | str | Path | None, options: Mapping[str, Any]
) -> pa.Table:
    """The answers to an atom; only what they need is read and derived."""
    from sempre.api.database import Database

    check_atom(text)
    atom, relation = question(program, text)
    if program.checked.semantics == "active":
        with Database(program, **options) as database:
            _materialize(database, facts, {})
            return database.query(text)
    given = _given(atom)
    check_constants(program, relation, given)
    cut = program.for_question(relation.name, tuple(given))
    name = demand_name(relation.name, tuple(given))
    asked = {name: [tuple(given.values())]} if name in cut.evaluated.relations else {}
    with Database(cut, **options) as database:
        _materialize(database, facts, asked)
        return database.query(text)


def _materialize(database: Database, facts: Mapping[str, Any] | str | Path | None, asked: Mapping[str, Any]) -> None:
    tables = database._inputs(facts) if isinstance(facts, str | Path) else facts or {}
    database._materialise(tables, asked)


# --------------------------------------------------------------------------------------- to relations on demand


def _pattern(database: Database, atom: Atom) -> tuple[Relation, tuple[Any, ...]] | None:
    """The relation of demand that a question belongs into, and its row; None if the answers are there anyway."""
    given = _given(atom)
    pattern: Pattern = tuple(given)[:1]
    relation = database._engine.program.relations.get(demand_name(atom.relation, pattern))
    return None if relation is None else (relation, tuple(given[column] for column in pattern))


def _is_asked(database: Database, atom: Atom, demand_of: Callable[[str], Any]) -> bool:
    """Whether a question, or one that has all its answers, is in a state of the relations of demand."""
    given = _given(atom)
    declared = database._engine.program.relations
    for pattern in ((), *((column,) for column in given)):
        relation = declared.get(demand_name(atom.relation, pattern))
        row = tuple(given[column] for column in pattern)
        if relation is None or contains(database, demand_of, relation, row):
            return True
    return False


def ask(database: Database, atom: Atom, relation: Relation) -> None:
    """See to it that the answers to a question are there, and stay up to date."""
    found = _pattern(database, atom)
    if found is not None:
        check_constants(database.program, relation, _given(atom))
    # What a rule asks for now it need not ask for tomorrow: a question stays for itself.
    if found is None or _is_asked(database, atom, database._engine.snapshot.explicit.__getitem__):
        return
    keeper = database._keeper
    if keeper is not None and keeper.is_past:
        if _is_asked(database, atom, database._version):
            return
        message = f"nobody had asked for this of `{relation.name}` in epoch {database.epoch}"
        hint = "A relation on demand has the answers to what was asked: ask without naming an epoch."
        raise StateError(Diagnostic("E613", message, hint=hint))
    _epoch(database, *found, insert=True)


def release(database: Database, atom: Atom, relation: Relation) -> ChangeSet:
    """Take back that somebody asked."""
    found = _pattern(database, atom)
    check_constants(database.program, relation, _given(atom))
    if found is None:
        message = f"`{relation.name}` is not derived on demand"
        raise StateError(Diagnostic("E614", message, hint="Only questions to relations on demand are kept."))
    demand, row = found
    explicit = database._engine.snapshot.explicit
    if not contains(database, explicit.__getitem__, demand, row):
        standing = standing_questions(database)
        hint = f"What is asked for: {', '.join(standing)}." if standing else "Nothing is asked for."
        raise StateError(Diagnostic("E614", f"`{_shown(relation, demand, row)}` is not asked for", hint=hint))
    return _epoch(database, demand, row, insert=False)


def _epoch(database: Database, demand: Relation, row: tuple[Any, ...], insert: bool) -> ChangeSet:
    """An epoch in which a question comes or goes."""
    keeper = database._keeper
    with database._turn(), database._numbered():
        codes = database._demand_codes({demand.name: [row]})
        coming, going = (IncomingRows(codes), IncomingRows()) if insert else (IncomingRows(), IncomingRows(codes))
        with nullcontext() if keeper is None else keeper.named("ask" if insert else "release"):
            return database._epoch(lambda: database._rows(coming, going))


def standing_questions(database: Database) -> list[str]:
    """The questions that were asked, as atoms."""
    declared, explicit = database._engine.program.relations, database._engine.snapshot.explicit
    found = []
    for relation in database.program.relations.values():
        for pattern in outside_patterns(relation):
            demand = declared.get(demand_name(relation.name, pattern))
            if demand is not None:
                rows = explicit[demand.name].rows()
                asked = database._decoder.tuples(demand, rows.columns(), len(rows))
                found += [_shown(relation, demand, row) for row in sorted(asked, key=repr)]
    return found


def _shown(relation: Relation, demand: Relation, row: tuple[Any, ...]) -> str:
    """A question as an atom."""
    given = dict(zip(demand.columns, row, strict=True))
    values = (given.get(column, "_") if column not in given else _text(given[column]) for column in relation.columns)
    return f"{relation.name}({', '.join(values)})"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    return string_text(value) if isinstance(value, str) else "nil" if value is None else str(value)


# -------------------------------------------------------------------------------------------------- declarations


def with_qualifier(program: Program, names: Iterable[str]) -> str:
    """The text of a program with `demand` at the declarations of relations."""
    if isinstance(names, str):
        names = (names,)
    wanted = {name for name in names if "demand" not in _declared(program, name).qualifiers}
    ends: dict[tuple[int, int], set[str]] = {}
    for item in parse(program.text).items:  # places in what is left of the text behind the preprocessor
        if isinstance(item, RelationDecl):
            ends.setdefault((item.span.end_line, item.span.end_column), set()).add(item.name)
    if inner := wanted.difference(*ends.values()):
        message = f"`{min(inner)}` is declared in a component"
        raise StateError(message, hint="Write `demand` at its declaration there: it holds for every instance.")
    lines = program.text.split("\n")
    for (line, column), declared in sorted(ends.items(), reverse=True):
        if declared & wanted:
            if declared - wanted:
                message = f"{', '.join(f'`{name}`' for name in sorted(declared))} have one declaration"
                hint = "Declare relations apart that are not all on demand."
                raise StateError(message, hint=hint)
            text = lines[line - 1]
            lines[line - 1] = f"{text[: column - 1]} demand{text[column - 1 :]}"
    return "\n".join(lines)


def _declared(program: Program, name: str) -> Relation:
    relation = program.relations.get(name)
    if relation is None:
        raise unknown(program, name)
    return relation
