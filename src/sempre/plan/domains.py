"""Which columns can hold the same values.

Columns that a variable connects draw from one domain. Relations whose columns share a domain share its field, so that
a value read from one can be looked up in another without a range check, and derived relations start wide enough.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from sempre.analysis.model import CheckedProgram, Compare, Expr, Fold, Literal, Match, NormalRule, Not, Var

Place = tuple[str, int]


def domains(program: CheckedProgram) -> dict[Place, int]:
    """The domain number of every (relation, column)."""
    places = [(name, column) for name, relation in program.relations.items() for column in range(relation.arity)]
    classes = _Classes()
    for relation in program.relations.values():
        if relation.is_equivalence:
            classes.unite((relation.name, 0), (relation.name, 1))
    for rule in program.rules:
        _unite_rule(rule, classes)
    numbers: dict[object, int] = {}
    return {place: numbers.setdefault(classes.find(place), len(numbers)) for place in places}


class _Classes:
    """Union-find over places and variables."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}

    def find(self, item: Hashable) -> Hashable:
        parents = self._parents
        parents.setdefault(item, item)
        while parents[item] != item:
            parents[item] = parents[parents[item]]
            item = parents[item]
        return item

    def unite(self, a: Hashable, b: Hashable) -> None:
        self._parents[self.find(a)] = self.find(b)


def _unite_rule(rule: NormalRule, classes: _Classes) -> None:
    def unite_all(relation: str, args: Iterable[Expr]) -> None:
        for column, arg in enumerate(args):
            if isinstance(arg, Var):
                classes.unite((rule.number, arg.name), (relation, column))

    def visit(body: tuple[Literal, ...]) -> None:
        for literal in body:
            if isinstance(literal, Match):
                unite_all(literal.relation, literal.args)
            elif isinstance(literal, Compare):
                if literal.op == "=" and isinstance(literal.left, Var) and isinstance(literal.right, Var):
                    classes.unite((rule.number, literal.left.name), (rule.number, literal.right.name))
            elif isinstance(literal, Not | Fold):
                visit(literal.body)

    visit(rule.body)
    unite_all(rule.relation, rule.args)
