"""Rules to clauses: inlined relations expanded, scopes separated, one clause for each head and alternative."""

from __future__ import annotations

from dataclasses import replace

from sempre.analysis.alternatives import AlternativesFailure, alternatives, flatten_aggregates
from sempre.analysis.draft import Clause, Draft
from sempre.analysis.inlining import definitions, expand_rule
from sempre.analysis.scopes import separate
from sempre.analysis.witnesses import with_witnesses
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import Head, Rule
from sempre.lang.walk import map_children


def make_clauses(draft: Draft) -> Draft:
    """Pass: the clauses of all rules, those of inlined relations apart."""
    inlined = definitions(draft)
    clauses: list[Clause] = []
    written: list[Clause] = []
    diagnostics: list[Diagnostic] = []
    faulty = set(draft.faulty)
    for number, rule in draft.sound_rules():
        try:
            as_written = clauses_of(number, rule, rule)
            expanded = expand_rule(rule, inlined)
            kept = as_written if expanded is rule else clauses_of(number, rule, expanded)
        except AlternativesFailure as failure:
            diagnostics.append(failure.diagnostic)
            faulty.add(number)
            continue
        written += as_written
        clauses += [clause for clause in kept if clause.head.atom.relation not in draft.inlined]
    changed = replace(draft, clauses=tuple(clauses), written=tuple(written), faulty=frozenset(faulty))
    return changed.report(diagnostics)


def clauses_of(number: int, source: Rule, rule: Rule) -> list[Clause]:
    """The clauses of `rule`, which is `source` or an expansion of it: alternative by alternative, head by head."""
    separated = separate(rule)
    heads = [_flatten_head(head) for head in separated.heads]
    bodies = alternatives(separated.body)
    return [with_witnesses(Clause(number, source, head, body)) for body in bodies for head in heads]


def _flatten_head(head: Head) -> Head:
    return replace(head, atom=map_children(head.atom, flatten_aggregates))
