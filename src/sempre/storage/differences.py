"""How two programs differ, as far as their state is concerned: comments, names of files and outputs do not matter."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from sempre.analysis.model import CheckedProgram, Const, Fact, Relation


@dataclass(frozen=True, slots=True)
class Differences:
    """What one program has and the other has not, as text."""

    lines: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.lines)

    def __str__(self) -> str:
        return "\n".join(self.lines)


def differences(old: CheckedProgram, new: CheckedProgram) -> Differences:
    """What has to change in a store of `old` to be one of `new`."""
    lines = _compared("relation", _relations(old), _relations(new))
    lines += _compared("rule", _rules(old), _rules(new))
    lines += _compared("fact", _facts(old), _facts(new))
    before, after = (program.pragmas.get("semantics", "stratified") for program in (old, new))
    if before != after:
        lines.append(f"semantics: {before} is now {after}")
    return Differences(tuple(lines))


def stored_alike(old: Relation, new: Relation) -> bool:
    """Whether facts of the one can be facts of the other."""
    return old.types == new.types and old.columns == new.columns


def _compared(what: str, old: Mapping[Hashable, str], new: Mapping[Hashable, str]) -> list[str]:
    lines = [f"{what} removed: {text}" for key, text in old.items() if key not in new]
    return lines + [f"{what} added: {text}" for key, text in new.items() if key not in old]


def _relations(program: CheckedProgram) -> dict[Hashable, str]:
    found: dict[Hashable, str] = {}
    for relation in program.relations.values():
        plain = replace(relation, inputs=(), outputs=(), printsize=False)
        columns = ", ".join(f"{c}: {t.name}" for c, t in zip(relation.columns, relation.types, strict=True))
        qualifiers = "".join(f" {word}" for word in sorted(relation.qualifiers))
        found[plain] = f"{relation.name}({columns}){qualifiers}"
    return found


def _rules(program: CheckedProgram) -> dict[Hashable, str]:
    return {(rule.relation, rule.args, rule.body, rule.deletes): rule.text for rule in program.rules}


def _facts(program: CheckedProgram) -> dict[Hashable, str]:
    return {(fact.relation, fact.args): fact.text or _fact_text(fact) for fact in program.facts}


def _fact_text(fact: Fact) -> str:
    values = (arg.value if isinstance(arg, Const) else arg for arg in fact.args)
    shown = (f'"{value}"' if isinstance(value, str) else str(value) for value in values)
    return f"{fact.relation}({', '.join(shown)})."
