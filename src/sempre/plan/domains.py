"""Which columns can hold the same values.

Columns that a variable connects draw from one domain. Relations whose columns share a domain share its field, so that
a value read from one can be looked up in another without a range check, and derived relations start wide enough.
"""

from __future__ import annotations

from sempre.analysis.model import CheckedProgram, Compare, Fold, Literal, Match, NormalRule, Not, Var

Place = tuple[str, int]


def domains(program: CheckedProgram) -> dict[Place, int]:
    """The domain number of every (relation, column)."""
    parents: dict[object, object] = {}

    def find(item: object) -> object:
        parents.setdefault(item, item)
        while parents[item] is not item:
            parents[item] = parents[parents[item]]
            item = parents[item]
        return item

    def unite(a: object, b: object) -> None:
        parents[find(a)] = find(b)

    places = [(name, column) for name, relation in program.relations.items() for column in range(relation.arity)]
    # Equal tuples must be one object for the identity tests above.
    place_of = {place: place for place in places}
    for relation in program.relations.values():
        if relation.is_equivalence:
            unite(place_of[relation.name, 0], place_of[relation.name, 1])
    for rule in program.rules:
        _unite_rule(rule, place_of, unite)
    numbers: dict[object, int] = {}
    return {place: numbers.setdefault(find(place), len(numbers)) for place in places}


def _unite_rule(rule: NormalRule, place_of: dict[Place, Place], unite: object) -> None:
    names: dict[str, str] = {}

    def node(name: str) -> object:
        # One object per variable and rule.
        return names.setdefault(name, f"{rule.number}:{name}")

    def visit(body: tuple[Literal, ...]) -> None:
        for literal in body:
            if isinstance(literal, Match):
                for column, arg in enumerate(literal.args):
                    if isinstance(arg, Var):
                        unite(node(arg.name), place_of[literal.relation, column])  # type: ignore[operator]
            elif isinstance(literal, Compare):
                if literal.op == "=" and isinstance(literal.left, Var) and isinstance(literal.right, Var):
                    unite(node(literal.left.name), node(literal.right.name))  # type: ignore[operator]
            elif isinstance(literal, Not | Fold):
                visit(literal.body)

    visit(rule.body)
    for column, arg in enumerate(rule.args):
        if isinstance(arg, Var):
            unite(node(arg.name), place_of[rule.relation, column])  # type: ignore[operator]
