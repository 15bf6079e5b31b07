"""Successor rules: who stands next to whom in a sorted column, without looking at everybody in between.

A rule such as

    next(x, y) :- event(x), event(y), x < y, !(event(z), x < z, z < y).

asks for neighbors. `with_neighbors` gives it a relation of its own to read them from,

    next#event#0(x, y) :- event(x), event(y), x < y, !(event(z), x < z, z < y).
    next(x, y) :- event(x), event(y), next#event#0(x, y).

so that the rule keeps its instances one for one, whatever else its body has, and only the new relation needs an
algorithm of its own; its rule says what it means wherever nobody has that algorithm.

The negation may be in a relation of its own, a helper:

    between(x, y) :- event(x), event(z), event(y), x < z, z < y.
    next(x, y) :- event(x), event(y), x < y, !between(x, y).

If nothing else reads the helper, its rule leaves the program and is `deferred`, to be evaluated when somebody asks for
it; the relation keeps its explicit facts, and the rule goes on to look for them.

Reference: [Hu22] section 6.5. Differs: a rewriting instead of a module, so that groups, other columns and further
literals cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType

from sempre.analysis.model import (
    CheckedProgram,
    Compare,
    Const,
    Kind,
    Literal,
    Match,
    NormalRule,
    Not,
    Relation,
    Stratum,
    Var,
)  # fmt: skip
from sempre.data import dataclass
from sempre.plan.ops import relations_of

# The order of symbols is that of their texts, which their codes do not follow.
ORDERED = frozenset((Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT))
PREFIX = "next#"
NO_HELPERS: Mapping[str, NormalRule] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Successor:
    """What a rule asks for: neighbors of a relation, as an atom `(groups.., low, high)`.

    `comparison` is where the rule says `low < high`, `negation` where it says that nothing lies between; `helper` names
    the relation that the negation reads instead of saying so itself.
    """

    source: str
    groups: tuple[int, ...]
    column: int
    kind: Kind
    args: tuple[Var | Const, ...]
    comparison: int
    negation: int
    helper: str = ""


def with_neighbors(program: CheckedProgram, may: Callable[[int], bool] = lambda rule: True) -> CheckedProgram:
    """The program with its successor rules rewritten, and with a stratum for each relation of neighbors.

    Rules that it may not touch, by number, are left alone.
    """
    helpers = {name: rule for name, rule in _helpers(program).items() if may(rule.number)}
    mine = [rule for rule in program.rules if may(rule.number)]
    found = {rule.number: one for rule in mine if (one := find_successor(rule, helpers)) is not None}
    deferred = {name: rule for name, rule in helpers.items() if _only_read_by(name, program, found)}
    found = {number: one for number, one in found.items() if not one.helper or one.helper in deferred}
    if not found:
        return program
    numbering = max(rule.number for rule in program.rules) + 1
    made: dict[tuple[str, tuple[int, ...], int], NormalRule] = {}
    added: dict[str, Relation] = {}
    for one in found.values():
        key = (one.source, one.groups, one.column)
        if key not in made:
            relation = _relation(program.relations[one.source], one)
            added[relation.name] = relation
            made[key] = _defining_rule(relation, program.relations[one.source], one, numbering + len(made))
    rewritten = {
        number: _rewritten(rule, found[number], made[_key(found[number])].relation)
        for number, rule in ((rule.number, rule) for rule in program.rules)
        if number in found
    }
    return _assembled(program, added, tuple(made.values()), rewritten, deferred)


def is_neighbors(relation: str) -> bool:
    """Whether a relation is one that `with_neighbors` made: no program can declare it."""
    return relation.startswith(PREFIX)


def shown(relations: Sequence[str]) -> str:
    """Relations as a user knows them: those of neighbors by their source."""
    named = (f"neighbors in {n.split('#')[1]}" if is_neighbors(n) else n for n in relations)
    return ", ".join(named)


def _key(one: Successor) -> tuple[str, tuple[int, ...], int]:
    return one.source, one.groups, one.column


# ------------------------------------------------------------------------------------------------ recognizing


@dataclass(slots=True)
class _Outside:
    """What a rule says outside its negation: its atoms, and which variable it says is less than which."""

    atoms: list[Match] = field(default_factory=list)
    less: dict[tuple[Var, Var], int] = field(default_factory=dict)


def find_successor(rule: NormalRule, helpers: Mapping[str, NormalRule] = NO_HELPERS) -> Successor | None:
    outside = _Outside()
    for index, literal in enumerate(rule.body):
        if isinstance(literal, Match):
            outside.atoms.append(literal)
        elif isinstance(literal, Compare) and (pair := _less(literal)) is not None:
            outside.less.setdefault(pair, index)
    for index, literal in enumerate(rule.body):
        if isinstance(literal, Not):
            found = _negated(literal, helpers, outside, index)
            if found is not None:
                return found
    return None


def _less(literal: Compare) -> tuple[Var, Var] | None:
    """The variables of `a < b` or `b > a`, the lesser first."""
    if literal.op not in "<>" or literal.kind not in ORDERED:
        return None
    if not isinstance(literal.left, Var) or not isinstance(literal.right, Var):
        return None
    return (literal.left, literal.right) if literal.op == "<" else (literal.right, literal.left)


def _negated(literal: Not, helpers: Mapping[str, NormalRule], outside: _Outside, index: int) -> Successor | None:
    """What a negation says, if it says that no value lies between two that the rule compares."""
    body, helper = literal.body, ""
    if len(body) == 1 and isinstance(body[0], Match) and body[0].relation in helpers:
        helper = body[0].relation
        body = _written_out(helpers[helper], body[0])
    tests = [(pair, test.kind) for test in body if isinstance(test, Compare) and (pair := _less(test)) is not None]
    atoms = [atom for atom in body if isinstance(atom, Match)]
    if len(tests) != 2 or len(tests) + len(atoms) != len(body) or tests[0][1] != tests[1][1]:
        return None
    for (low, middle), (other, high) in ((tests[0][0], tests[1][0]), (tests[1][0], tests[0][0])):
        if middle == other and middle not in literal.shared and {low, high} <= {*literal.shared}:
            shape = _placed(atoms, middle, low, high, outside, {*literal.shared}, _once(body) - {*literal.shared})
            if shape is not None and (low, high) in outside.less:
                source, groups, column, args = shape
                comparison = outside.less[low, high]
                return Successor(source, groups, column, tests[0][1], args, comparison, index, helper)
    return None


def _placed(
    atoms: Sequence[Match], middle: Var, low: Var, high: Var, outside: _Outside, shared: set[Var], once: set[Var]
) -> tuple[str, tuple[int, ...], int, tuple[Var | Const, ...]] | None:
    """The relation, groups and column of the value in the middle, if the other atoms add nothing to it."""
    inner = [atom for atom in atoms if middle in atom.args]
    if len(inner) != 1 or inner[0].args.count(middle) != 1:
        return None
    atom = inner[0]
    column = atom.args.index(middle)
    fixed = [k for k, arg in enumerate(atom.args) if k != column and arg not in once]
    if any(isinstance(arg := atom.args[k], Var) and arg not in shared for k in fixed):
        return None
    groups = tuple(fixed)
    ends = [tuple(end if k == column else arg for k, arg in enumerate(atom.args)) for end in (low, high)]
    for end in ends:
        if not any(_fits(other, atom.relation, end, (*groups, column)) for other in outside.atoms):
            return None
    for other in atoms:
        if other is not atom and not any(_implied(other, have, once) for have in outside.atoms):
            return None
    return atom.relation, groups, column, (*(atom.args[g] for g in groups), low, high)


def _fits(atom: Match, relation: str, args: Sequence[Var | Const], columns: Sequence[int]) -> bool:
    return atom.relation == relation and all(atom.args[column] == args[column] for column in columns)


def _implied(atom: Match, have: Match, once: set[Var]) -> bool:
    """Whether `atom` holds wherever `have` does: it says the same, or nothing, of every column."""
    pairs = zip(atom.args, have.args, strict=True) if atom.relation == have.relation else ()
    return atom.relation == have.relation and all(arg in once or arg == other for arg, other in pairs)


def _once(body: Sequence[Literal]) -> set[Var]:
    """Variables that occur in one place only: they ask for nothing."""
    seen: list[Var] = []
    for literal in body:
        if isinstance(literal, Match):
            seen += [arg for arg in literal.args if isinstance(arg, Var)]
        elif isinstance(literal, Compare):
            seen += [arg for arg in (literal.left, literal.right) if isinstance(arg, Var)]
    return {var for var in seen if seen.count(var) == 1}


# ---------------------------------------------------------------------------------------------------- helpers


def _helpers(program: CheckedProgram) -> dict[str, NormalRule]:
    """Relations that nobody is shown and nobody gives facts, with the one rule they have."""
    stated = {fact.relation for fact in program.facts}
    rules: dict[str, list[NormalRule]] = {}
    for rule in program.rules:
        rules.setdefault(rule.relation, []).append(rule)
    return {
        name: mine[0]
        for name, mine in rules.items()
        if len(mine) == 1 and name not in stated and _is_helper(program.relations[name], mine[0])
    }


def _is_helper(relation: Relation, rule: NormalRule) -> bool:
    seen = relation.inputs or relation.outputs or relation.printsize
    plain = not rule.deletes and relation.aggregate is None and not relation.is_equivalence
    heads = {arg for arg in rule.args if isinstance(arg, Var)}
    return plain and not seen and len(heads) == len(rule.args) and relation.name not in relations_of(rule.body)


def _written_out(helper: NormalRule, atom: Match) -> tuple[Literal, ...]:
    """The helper's body in place of an atom of it; its own variables get names that no rule has."""
    names: dict[str, Var | Const] = {
        arg.name: given for arg, given in zip(helper.args, atom.args, strict=True) if isinstance(arg, Var)
    }

    def renamed(arg: Var | Const) -> Var | Const:
        return names.setdefault(arg.name, Var(f"{arg.name}#{helper.relation}")) if isinstance(arg, Var) else arg

    body: list[Literal] = []
    for literal in helper.body:
        if isinstance(literal, Match):
            body.append(replace(literal, args=tuple(renamed(arg) for arg in literal.args)))
        elif isinstance(literal, Compare) and _less(literal) is not None:
            left, right = literal.left, literal.right
            assert isinstance(left, Var)
            assert isinstance(right, Var)
            body.append(replace(literal, left=renamed(left), right=renamed(right)))
        else:
            body.append(literal)
    return tuple(body)


def _only_read_by(name: str, program: CheckedProgram, found: Mapping[int, Successor]) -> bool:
    """Whether successor rules read the relation, and nobody else does."""
    readers = [rule for rule in program.rules if name in relations_of(rule.body)]
    return bool(readers) and all(
        rule.number in found and found[rule.number].helper == name and _reads(rule, name) == 1 for rule in readers
    )


def _reads(rule: NormalRule, name: str) -> int:
    return sum(name in relations_of((literal,)) for literal in rule.body)


# --------------------------------------------------------------------------------------------------- rewriting


def _relation(source: Relation, one: Successor) -> Relation:
    """The relation of neighbors; its name says of what, so that it is the same wherever the rule stands."""
    columns = (*one.groups, one.column, one.column)
    names = (*(source.columns[g] for g in one.groups), "low", "high")
    types = tuple(source.types[column] for column in columns)
    place = ".".join(map(str, (*one.groups, one.column)))
    return Relation(f"{PREFIX}{source.name}#{place}", names, types, span=source.span)


def _defining_rule(relation: Relation, source: Relation, one: Successor, number: int) -> NormalRule:
    """What a relation of neighbors means, as a rule."""
    low, high, middle = Var("low"), Var("high"), Var("middle")
    shared = {g: Var(f"group{g}") for g in one.groups}
    kinds = {var.name: one.kind for var in (low, high, middle)}
    kinds.update({var.name: source.kinds[g] for g, var in shared.items()})
    types = {var.name: source.types[g] for g, var in shared.items()}

    def atom(value: Var) -> Match:
        args = []
        for column, kind in enumerate(source.kinds):
            arg = value if column == one.column else shared.get(column)
            if arg is None:
                arg = Var(f"_{value.name}{column}")
                kinds[arg.name] = kind
                types[arg.name] = source.types[column]
            args.append(arg)
        return Match(source.name, tuple(args))

    between = (atom(middle), Compare("<", low, middle, one.kind), Compare("<", middle, high, one.kind))
    head = (*shared.values(), low, high)
    body = (atom(low), atom(high), Compare("<", low, high, one.kind), Not(between, head))
    text = _text(relation, body, head)
    records = {name: type_.name for name, type_ in types.items() if type_.kind is Kind.RECORD}
    return NormalRule(number, relation.name, head, body, kinds, False, text, source.span, records)


def _text(relation: Relation, body: Sequence[Literal], head: Sequence[Var]) -> str:
    def shown(literal: Literal) -> str:
        if isinstance(literal, Match):
            names = ("_" if arg.name.startswith("_") else arg.name for arg in literal.args if isinstance(arg, Var))
            return f"{literal.relation}({', '.join(names)})"
        if isinstance(literal, Compare):
            return " ".join(part.name if isinstance(part, Var) else "<" for part in (literal.left, None, literal.right))
        assert isinstance(literal, Not)
        return f"!({', '.join(map(shown, literal.body))})"

    return f"{relation.name}({', '.join(var.name for var in head)}) :- {', '.join(map(shown, body))}."


def _rewritten(rule: NormalRule, one: Successor, name: str) -> NormalRule:
    """The rule reading neighbors where it compared; a helper is still asked for its explicit facts."""
    body: list[Literal] = []
    for index, literal in enumerate(rule.body):
        if index == one.comparison:
            body.append(Match(name, one.args, literal.span))
        elif index != one.negation or one.helper:
            body.append(literal)
    return replace(rule, body=tuple(body))


def _assembled(
    program: CheckedProgram,
    added: Mapping[str, Relation],
    defining: Sequence[NormalRule],
    rewritten: Mapping[int, NormalRule],
    deferred: Mapping[str, NormalRule],
) -> CheckedProgram:
    gone = {rule.number for rule in deferred.values()}

    def kept(rules: Sequence[NormalRule]) -> tuple[NormalRule, ...]:
        return tuple(rewritten.get(rule.number, rule) for rule in rules if rule.number not in gone)

    def strata() -> Iterator[tuple[tuple[str, ...], tuple[NormalRule, ...], tuple[NormalRule, ...]]]:
        for stratum in program.strata:
            yield stratum.relations, kept(stratum.nonrecursive), kept(stratum.recursive)
            for rule in defining:
                if relations_of(rule.body) <= {*stratum.relations}:
                    yield (rule.relation,), (rule,), ()

    numbered = tuple(Stratum(index, *parts) for index, parts in enumerate(strata()))
    rules = (*kept(program.rules), *defining)
    deferred = {**program.deferred, **deferred}
    return replace(program, relations={**program.relations, **added}, rules=rules, strata=numbered, deferred=deferred)
