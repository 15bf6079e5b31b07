"""`.plan` after a rule: one that does not fit its rule is a mistake."""

from __future__ import annotations

from collections.abc import Iterator

from sempre.analysis.draft import Draft
from sempre.analysis.naming import counted
from sempre.analysis.strata import component_of
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import Atom, Conjunction, Disjunction, Formula, Rule


def check_plans(draft: Draft) -> Draft:
    """Pass: every order of a `.plan` names each atom once, and its version is one that the rule has."""
    if not any(rule.plan for rule in draft.open_rules()):
        return draft
    home = component_of(draft)
    return draft.report(problem for rule in draft.open_rules() for problem in _problems(rule, home))


def _problems(rule: Rule, home: dict[str, int]) -> Iterator[Diagnostic]:
    bodies = list(_atoms(rule.body)) if rule.plan else []
    seen: set[int] = set()
    for version, order in rule.plan:
        sizes = sorted({len(atoms) for atoms in bodies})
        versions = max(_versions(rule, atoms, home) for atoms in bodies)
        if version in seen:
            yield _misfit(rule, f"version {version} of this `.plan` is given twice", "Keep one of the orders.")
        elif version >= versions:
            hint = f"The rule has {counted(versions, 'version')}, from 0: one for each atom of its own recursion."
            yield _misfit(rule, f"this `.plan` has a version {version} that the rule does not have", hint)
        elif not any(sorted(order) == list(range(1, size + 1)) for size in sizes):
            shown = ", ".join(map(str, order))
            expected = " or ".join(f"{size}" for size in sizes)
            hint = f"Write every number from 1 to {expected} once: the rule has so many atoms."
            yield _misfit(rule, f"the order ({shown}) of this `.plan` does not fit the rule", hint)
        seen.add(version)


def _misfit(rule: Rule, message: str, hint: str) -> Diagnostic:
    return Diagnostic("E132", message, rule.span, hint=hint)


def _versions(rule: Rule, atoms: list[Atom], home: dict[str, int]) -> int:
    """In how many ways semi-naive evaluation takes the rule: by each recursive atom, once if there is none."""
    heads = {home.get(head.atom.relation, -1) for head in rule.heads}
    return sum(home.get(atom.relation, -2) in heads for atom in atoms) or 1


def _atoms(body: Formula) -> Iterator[list[Atom]]:
    """The positive atoms of each alternative."""
    if isinstance(body, Disjunction):
        for part in body.parts:
            yield from _atoms(part)
    elif isinstance(body, Conjunction):
        found: list[list[Atom]] = [[]]
        for part in body.parts:
            found = [[*one, *other] for one in found for other in _atoms(part)][:1000]
        yield from found
    else:
        yield [body] if isinstance(body, Atom) else []
