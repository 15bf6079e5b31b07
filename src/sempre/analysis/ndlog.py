"""Lines of NDlog programs that say how tables are kept, not what is in them: accepted, without effect."""

from __future__ import annotations

from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import Item, ParsedProgram, RelationDecl, Rule

IGNORED = ("materialize", "watch")


def ignore_ndlog(program: ParsedProgram) -> tuple[ParsedProgram, list[Diagnostic]]:
    """`program` without its `materialize(...)` and `watch(...)` lines, and a note about each."""
    declared = {item.name for item in program.items if isinstance(item, RelationDecl)}
    ignored = [item for item in program.items if _is_ignored(item, declared)]
    if not ignored:
        return program, []
    notes = [_note(item) for item in ignored if isinstance(item, Rule)]
    return ParsedProgram(tuple(item for item in program.items if not _is_ignored(item, declared))), notes


def _is_ignored(item: Item, declared: set[str]) -> bool:
    if not isinstance(item, Rule) or not item.is_fact or len(item.heads) != 1:
        return False
    name = item.heads[0].atom.relation
    return name in IGNORED and name not in declared


def _note(rule: Rule) -> Diagnostic:
    name = rule.heads[0].atom.relation
    instead = "every relation is kept until its facts are deleted" if name == "materialize" else "use `.output`"
    message = f"`{name}` has no effect: {instead}"
    return Diagnostic("W203", message, rule.span, severity="warning")
