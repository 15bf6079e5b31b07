"""How two programs differ, as far as their state is concerned, in words. What a difference is, `digests` decides."""

from __future__ import annotations

from sempre.analysis.model import CheckedProgram, Const, Fact, Relation
from sempre.analysis.rule_forms import Normal, normal_rule
from sempre.data import dataclass
from sempre.storage.digests import columns_of, counter_order, normal_fact, normal_relation, program_parts


@dataclass(frozen=True, slots=True)
class Differences:
    """What one program has and the other has not, as text."""

    lines: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.lines)

    def __str__(self) -> str:
        return "\n".join(self.lines)


def differences(old: CheckedProgram, new: CheckedProgram) -> Differences:
    """What has to change in a store of `old` to be one of `new`: nothing if their digests are equal."""
    texts = _texts(old) | _texts(new)
    had, has = program_parts(old), program_parts(new)
    lines: list[str] = []
    for what in had:
        lines += [f"{what} removed: {texts.get(part, part)}" for part in (had[what] - has[what]).elements()]
        lines += [f"{what} added: {texts.get(part, part)}" for part in (has[what] - had[what]).elements()]
    return Differences(tuple(dict.fromkeys(lines)))


def stored_alike(old: CheckedProgram, new: CheckedProgram, name: str) -> bool:
    """Whether facts of a relation in one program can be facts of it in the other."""
    if name not in old.relations or name not in new.relations:
        return False
    before, after = (columns_of(program, program.relations[name]) for program in (old, new))
    return before == after


def _texts(program: CheckedProgram) -> dict[Normal, str]:
    """The parts of a program as its author knows them."""
    found = {normal_relation(program, each): _relation_text(program, each) for each in program.relations.values()}
    found |= {normal_rule(rule): rule.text for rule in program.rules} | counter_order(program)
    return found | {normal_fact(fact): fact.text or _fact_text(fact) for fact in program.facts}


def _relation_text(program: CheckedProgram, relation: Relation) -> str:
    columns = ", ".join(f"{c}: {t.name}" for c, t in zip(relation.columns, relation.types, strict=True))
    qualifiers = "".join(f" {word}" for word in sorted(relation.qualifiers))
    return f"{relation.name}({columns}){qualifiers}{_records_text(program, relation)}"


def _records_text(program: CheckedProgram, relation: Relation) -> str:
    """The record types that the columns consist of: one of them may be all that differs."""
    names = [type_.name for type_ in relation.types]
    for name in names:
        names += (
            [inner for _, inner in (*program.types[name].fields, *program.types[name].branches) if inner not in names]
            if name in program.types
            else []
        )
    records = [program.types[name] for name in dict.fromkeys(names) if name in program.types]
    shown = [f"{t.name} = [{', '.join(f'{f}: {of}' for f, of in t.fields)}]" for t in records if t.fields]
    return f" with {', '.join(shown)}" if shown else ""


def _fact_text(fact: Fact) -> str:
    values = (arg.value if isinstance(arg, Const) else arg for arg in fact.args)
    shown = (f'"{value}"' if isinstance(value, str) else str(value) for value in values)
    return f"{fact.relation}({', '.join(shown)})."
