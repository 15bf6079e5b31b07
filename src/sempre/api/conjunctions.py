"""Queries of several atoms, comparisons, negations and aggregates: a rule without a head, evaluated in one state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram, Match, NormalRule, Relation, Type, Var
from sempre.analysis.naming import shown
from sempre.api.explanations import evidence
from sempre.api.program import Program
from sempre.api.questions import ask
from sempre.diagnostics import DataError, ProgramError, Span
from sempre.explain.inquiries import Bench, Inquiry, inquiry, type_of, variables_of
from sempre.lang.parser import parse_body
from sempre.lang.syntax import Atom, Head, ParsedProgram, RelationDecl, Rule
from sempre.lang.walk import descend
from sempre.results import Decoder

if TYPE_CHECKING:
    import pyarrow as pa

    from sempre.api.database import Database

HEAD, FILE = "query_", "<query>"


def answer_conjunction(database: Database, text: str) -> pa.Table:
    """The distinct bindings of the variables of a body, a column each, in order of appearance."""
    database._stratified("a query of several atoms")
    rules = _rules_of(database.program, text)
    database._materialized()
    for atom in _atoms(text):
        relation = database.program.relations.get(atom.relation)
        if relation is not None and "demand" in relation.qualifiers:
            ask(database, atom, relation)
    state = evidence(database, database._engine.snapshot)
    names = _names(rules[0])
    number = len(state.program.rules)
    questions = [_question(rule, number + at, names) for at, rule in enumerate(rules)]
    bench = Bench(state, questions)
    try:
        found = [bench.ask_rows(question) for question in questions]
    finally:
        bench.close()
    if not names:
        import pyarrow as pa

        return pa.table({"": pa.nulls(min(sum(map(len, found)), 1))}).select([])
    shape = Relation(HEAD, tuple(map(shown, names)), tuple(_type(name, rules[0], state.program) for name in names))
    if len(found) == 1:
        columns = found[0].columns()
    else:
        table = np.unique(np.concatenate([np.column_stack(rows.columns()) for rows in found]), axis=0)
        columns = [np.ascontiguousarray(table[:, at]) for at in range(len(names))]
    return Decoder(state.values, state.program.types).table(shape, columns, int(columns[0].size))


def _question(rule: NormalRule, number: int, names: tuple[str, ...]) -> Inquiry:
    return inquiry(number, rule, rule.body, (), names)


def _names(rule: NormalRule) -> tuple[str, ...]:
    """The variables that somebody wrote, outside of negations and aggregates."""
    return tuple(name for name in variables_of(rule.body) if shown(name) and not name.startswith(("_", "$")))


def _type(name: str, rule: NormalRule, program: CheckedProgram) -> Type:
    """The type of the first column that a variable stands in, else that of its values."""
    for literal in rule.body:
        if isinstance(literal, Match):
            for arg, type_ in zip(literal.args, program.relations[literal.relation].types, strict=True):
                if arg == Var(name):
                    return type_
    return type_of(name, rule, program)


def _rules_of(program: Program, text: str) -> list[NormalRule]:
    """The alternatives of a body as rules in normal form."""
    name = HEAD
    while name in program.relations:
        name += "_"
    body = parse_body(text, FILE)
    rule = Rule((Head(Atom(name, ())),), body, span=Span(FILE, 1, 1, 1, 1))
    decl = RelationDecl(name, ())
    whole = ParsedProgram((*program.syntax.items, decl, rule))
    checked = check(whole, {**program.checked.sources, FILE: text}, program.checked.semantics)
    rules = [each for each in checked.rules if each.relation == name]
    if not rules:
        raise DataError("this query is true or false whatever the facts are")
    return [replace(each, span=rule.span) for each in rules]


def _atoms(text: str) -> Iterator[Atom]:
    return (node for node in descend(parse_body(text, FILE)) if isinstance(node, Atom))


def is_conjunction(text: str) -> bool:
    """Whether a query is more than one atom."""
    try:
        body = parse_body(text, FILE)
    except ProgramError:
        return False
    return not isinstance(body, Atom)
