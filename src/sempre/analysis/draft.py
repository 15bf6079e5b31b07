"""What the passes hand on to each other: a program on its way to being checked.

Every pass is a function from a draft to a draft. Nothing is changed in place; findings are added to `diagnostics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from sempre.analysis.model import Fact, Guard, NormalRule, Relation, Stratum
from sempre.analysis.type_table import TypeTable
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import Formula, Head, ParsedProgram, Rule

if TYPE_CHECKING:
    from sempre.analysis.type_inference import Typing


@dataclass(frozen=True, slots=True)
class Clause:
    """One alternative of one head of a rule.

    `body` has atoms, comparisons and negations of conjunctions of such; no `;`, no `true`. Every variable belongs to
    one scope, `_` included: names that are not in the source have a `#`.
    """

    rule: int
    source: Rule
    head: Head
    body: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """The state between two passes.

    Rules are numbered as in the program. `plain` has the facts that are right as they stand, `open` the other rules:
    only those need checks. `faulty` has the rules that later passes should not touch. `written` has the clauses as the
    user wrote them, `clauses` with inlined relations expanded and the rules of those relations gone. `typings` has the
    kinds of the terms of `written`, by the identity of the clause.
    """

    program: ParsedProgram
    semantics: str
    sources: dict[str, str]
    types: TypeTable = field(default_factory=TypeTable)
    relations: dict[str, Relation] = field(default_factory=dict)
    inlined: frozenset[str] = frozenset()
    written: tuple[Clause, ...] = ()
    clauses: tuple[Clause, ...] = ()
    typings: Mapping[int, Typing] = field(default_factory=dict)
    plain: tuple[tuple[int, Fact], ...] = ()
    open: tuple[tuple[int, Rule], ...] = ()
    guards: Mapping[str, Guard] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    rules: tuple[NormalRule, ...] = ()
    strata: tuple[Stratum, ...] = ()
    faulty: frozenset[int] = frozenset()
    diagnostics: tuple[Diagnostic, ...] = ()

    def report(self, found: Iterable[Diagnostic]) -> Draft:
        """This draft with more findings, each once."""
        return replace(self, diagnostics=tuple(dict.fromkeys((*self.diagnostics, *found))))

    def report_clauses(self, problems: Iterable[tuple[Clause, Sequence[Diagnostic]]]) -> Draft:
        """This draft with what was found in clauses; their rules are faulty where that is anything."""
        found = [(clause.rule, finding) for clause, mine in problems for finding in mine]
        faulty = self.faulty | {rule for rule, _ in found}
        return replace(self, faulty=faulty).report(finding for _, finding in found)

    def open_rules(self) -> Iterator[Rule]:
        """The rules that need checks."""
        return (rule for _, rule in self.open)

    def sound_rules(self) -> Iterator[tuple[int, Rule]]:
        """The rules in which nothing wrong was found so far, with their numbers."""
        return ((number, rule) for number, rule in self.open if number not in self.faulty)
