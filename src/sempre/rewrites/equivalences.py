"""`eqrel` as rules: an equivalence relation is closed under symmetry and transitivity."""

from __future__ import annotations

from dataclasses import replace

from sempre.analysis.model import CheckedProgram, Kind, Match, NormalRule, Relation, Var


def close_equivalences(program: CheckedProgram) -> CheckedProgram:
    """The program with the closure rules of its `eqrel` relations; reflexivity follows from the two."""
    rules = list(program.rules)
    strata = list(program.strata)
    for index, stratum in enumerate(strata):
        added: list[NormalRule] = []
        for name in stratum.relations:
            relation = program.relations[name]
            if relation.is_equivalence:
                added += _closure(relation, len(rules) + len(added))
        strata[index] = replace(stratum, recursive=(*stratum.recursive, *added))
        rules += added
    return replace(program, rules=tuple(rules), strata=tuple(strata))


def _closure(relation: Relation, number: int) -> list[NormalRule]:
    name, kind = relation.name, relation.kinds[0]
    x, y, z = Var("x"), Var("y"), Var("z")
    kinds = {"x": kind, "y": kind, "z": kind}
    records = dict.fromkeys(kinds, relation.types[0].name) if kind is Kind.RECORD else {}
    forward, onward = Match(name, (x, y)), Match(name, (y, z))
    symmetric = NormalRule(
        number, name, (y, x), (forward,), kinds, False, f"{name}(y, x) :- {name}(x, y).", relation.span, records
    )
    transitive = NormalRule(
        number + 1, name, (x, z), (forward, onward), kinds, False, f"{name}(x, z) :- {name}(x, y), {name}(y, z).",
        relation.span, records,
    )  # fmt: skip
    return [symmetric, transitive]
