"""Localization: every rule becomes rules whose bodies lie in one place each.

A body that spans places is cut into stages, one place each. A stage sends what it binds to the place of the next one,
as a fact of a relation made for that (`link_1` below); the last stage derives the head, which may live anywhere:

    reach(@s, d) :- link(@s, z), reach(@z, d).
    =>  link_1(@z, s) :- link(@s, z).
        reach(@s, d) :- link_1(@z, s), reach(@z, d).

The order of the places is chosen so that the place of each stage is known to the stages before it, and so that what is
recursive is not sent along if that can be avoided: base facts travel once, and the recursion reads what is at hand. If
no order works, no node knows where to send its part, and the rule is refused.

Reference: [Nigam11] section 2.1. Differs: the paper sends the recursive fact to where `link` is, which needs a
`co_link` that the program must provide; here the relation made for `link` plays that part, and chains may have any
length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import permutations

from sempre.analysis.head_aggregates import literal_names, names_in
from sempre.analysis.model import (
    CheckedProgram,
    Compare,
    Const,
    Fold,
    Literal,
    Match,
    NormalRule,
    Not,
    Relation,
    Stratum,
    Type,
    Unpack,
    Var,
)
from sempre.analysis.name_graphs import arrange
from sempre.analysis.strata import is_recursive, matches, rule_graph
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, ProgramError

Place = Var | Const

# More places than this in one body are refused: every order of them may be tried.
MOST_PLACES = 6


@dataclass(frozen=True, slots=True)
class LocalProgram:
    """A program whose bodies are local. `made` has the relations that localization added."""

    source: CheckedProgram
    relations: dict[str, Relation]
    rules: tuple[NormalRule, ...]
    strata: tuple[Stratum, ...]
    made: frozenset[str] = field(default=frozenset())

    def stratum_of(self) -> dict[str, int]:
        return {name: stratum.index for stratum in self.strata for name in stratum.relations}

    def location(self, relation: str) -> int:
        at = self.relations[relation].location
        assert at is not None
        return at


def localize(checked: CheckedProgram) -> LocalProgram:
    """The local form of a program; raises `ProgramError` with every rule that has none."""
    problems = list(_unlocated(checked))
    if problems:
        raise ProgramError(problems, checked.sources)
    home = {name: stratum.index for stratum in checked.strata for name in stratum.relations}
    maker = _Maker(checked, home)
    rules: list[NormalRule] = []
    for rule in checked.rules:
        try:
            rules += maker.localized(rule)
        except _NotLocal as error:
            problems.append(error.diagnostic)
    if problems:
        raise ProgramError(problems, checked.sources)
    numbered = tuple(replace(rule, number=number) for number, rule in enumerate(rules))
    strata = _strata(maker.relations, numbered)
    return LocalProgram(checked, maker.relations, numbered, strata, frozenset(maker.relations) - set(checked.relations))


def _unlocated(checked: CheckedProgram) -> Iterator[Diagnostic]:
    """Relations that live nowhere, where they are used first."""
    for relation in checked.relations.values():
        if relation.location is None:
            hint = f"Write `@` before one column: `.decl {relation.name}(@{_first(relation)}: ..., ...)`."
            yield Diagnostic("E420", f"relation `{relation.name}` has no location", relation.span, hint=hint)


def _first(relation: Relation) -> str:
    return relation.columns[0] if relation.columns else "node"


def _strata(relations: dict[str, Relation], rules: tuple[NormalRule, ...]) -> tuple[Stratum, ...]:
    found = []
    for index, group in enumerate(arrange(rule_graph(relations, rules))):
        members = set(group)
        own = [rule for rule in rules if rule.relation in members]
        recursive = tuple(rule for rule in own if is_recursive(rule, members))
        found.append(Stratum(index, group, tuple(rule for rule in own if rule not in recursive), recursive))
    return tuple(found)


class _NotLocal(Exception):
    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True, slots=True)
class _Stage:
    """What is evaluated in one place: its literals, and the names bound when they are done."""

    place: Place
    literals: tuple[Literal, ...]
    bound: frozenset[str]


class _Maker:
    """Localizes the rules of one program; relations made for equal stages are shared."""

    def __init__(self, checked: CheckedProgram, home: dict[str, int]) -> None:
        self.checked = checked
        self.home = home
        self.relations = dict(checked.relations)
        self.shared: dict[object, str] = {}

    # ---------------------------------------------------------------------------------------------- staging

    def localized(self, rule: NormalRule) -> list[NormalRule]:
        """The local rules that do what `rule` does, that for its head last."""
        places = self.places(rule)
        if len(places) <= 1:
            return [rule]
        if len(places) > MOST_PLACES:
            message = f"a rule in more than {MOST_PLACES} places is not supported"
            raise _NotLocal(Diagnostic("E421", message, rule.span, hint="Split it into rules with fewer places."))
        stages = self.best_order(rule, places)
        rules: list[NormalRule] = []
        before: tuple[Literal, ...] = ()
        for number in range(len(stages) - 1):
            send, before = self.sending(rule, stages, number, before)
            if send is not None:
                rules.append(send)
        return [*rules, replace(rule, body=(*before, *stages[-1].literals))]

    def places(self, rule: NormalRule) -> list[Place]:
        """The places of the body, in the order in which they are written."""
        found = [self.place(literal) for literal in rule.body]
        return list(dict.fromkeys(place for place in found if place is not None))

    def place(self, literal: Literal) -> Place | None:
        """Where a literal can be evaluated; None for anywhere."""
        if isinstance(literal, Match):
            return literal.args[self.at(literal)]
        if not isinstance(literal, Not | Fold):
            return None
        inside = {match.args[self.at(match)] for match in matches(literal.body)}
        what = "a negation" if isinstance(literal, Not) else "an aggregate"
        if len(inside) > 1:
            hint = "Give what it ranges over a relation of its own, which lives in one place."
            raise _NotLocal(Diagnostic("E422", f"{what} spans several places", literal.span, hint=hint))
        for place in inside:
            if isinstance(place, Var) and place not in literal.shared:
                hint = f"Bind `{place.name}` by an atom outside, or collect the facts in one place first."
                message = f"{what} ranges over all nodes: nothing outside says where `{place.name}` is"
                raise _NotLocal(Diagnostic("E422", message, literal.span, hint=hint))
            return place
        return None

    def at(self, match: Match) -> int:
        at = self.relations[match.relation].location
        assert at is not None
        return at

    def best_order(self, rule: NormalRule, places: list[Place]) -> list[_Stage]:
        """The stages in the order that sends the least recursion; the order written breaks ties."""
        best: tuple[int, list[_Stage]] | None = None
        for order in permutations(places):
            stages = self.stages(rule, order)
            if stages is None:
                continue
            cost = sum(self.is_recursive(literal, rule) for stage in stages[:-1] for literal in stage.literals)
            if best is None or cost < best[0]:
                best = cost, stages
        if best is None:
            raise _NotLocal(_unknown_place(rule, places))
        return best[1]

    def is_recursive(self, literal: Literal, rule: NormalRule) -> bool:
        return isinstance(literal, Match) and self.home[literal.relation] == self.home[rule.relation]

    def stages(self, rule: NormalRule, order: Sequence[Place]) -> list[_Stage] | None:
        """The body cut along `order`; None when some place would not be known in time.

        A negation or an aggregate that needs what a later place binds is evaluated on a second visit.
        """
        moving = self.moving(rule)
        waiting = list(rule.body)
        bound: frozenset[str] = frozenset()
        stages: list[_Stage] = []
        visits = list(order)
        while visits:
            place = visits.pop(0)
            if isinstance(place, Var) and stages and place.name not in bound:
                return None
            taken: list[Literal] = [lit for lit in waiting if isinstance(lit, Match) and self.place(lit) == place]
            for literal in taken:
                bound |= literal_names(literal)
            waiting = [lit for lit in waiting if lit not in taken]
            free = [lit for lit in waiting if self.place(lit) in (None, place)]
            here = free if not visits else [lit for lit in free if not literal_names(lit) & moving]
            more, bound = _evaluable(here, bound)
            waiting = [lit for lit in waiting if lit not in more]
            if taken or more:
                stages.append(_Stage(place, (*taken, *more), bound))
            elif not visits:
                return None
            if not visits:
                visits = list(dict.fromkeys(where for lit in waiting if (where := self.place(lit)) is not None))
        return stages if not waiting else None

    def moving(self, rule: NormalRule) -> set[str]:
        """The variables that depend on an aggregated value of the rule's own stratum; these may still improve."""
        found: set[str] = set()
        for literal in rule.body:
            aggregate = self.relations[literal.relation].aggregate if isinstance(literal, Match) else None
            if aggregate and isinstance(literal, Match) and self.is_recursive(literal, rule):
                found |= names_in(literal.args[aggregate[1]])
        for _ in rule.body:
            for literal in rule.body:
                if isinstance(literal, Compare) and literal_names(literal) & found:
                    found |= literal_names(literal)
        return found

    # ---------------------------------------------------------------------------------------------- sending

    def sending(
        self, rule: NormalRule, stages: list[_Stage], number: int, before: tuple[Literal, ...]
    ) -> tuple[NormalRule | None, tuple[Literal, ...]]:
        """The rule that sends a stage on, unless an equal one exists, and the atom by which the next one reads it."""
        stage, target = stages[number], stages[number + 1].place
        body = (*before, *stage.literals)
        carried = self.carried(rule, stages, number)
        args = (target, *(Var(name) for name in carried if Var(name) != target))
        aggregate = self.carried_aggregate(rule, body, args)
        key = _canonical(body, args, aggregate)
        name = self.shared.get(key)
        if name is not None:
            return None, (Match(name, args, rule.span),)
        name = self.name_for(body)
        self.shared[key] = name
        self.home[name] = self.home[rule.relation] if any(self.is_recursive(lit, rule) for lit in body) else -1
        kinds = [rule.kinds[arg.name] if isinstance(arg, Var) else arg.kind for arg in args]
        self.relations[name] = Relation(
            name, _columns(args), tuple(Type(kind.value, kind) for kind in kinds), location=0, aggregate=aggregate
        )
        send = NormalRule(0, name, args, body, rule.kinds, text=rule.text, span=rule.span, records=rule.records)
        return send, (Match(name, args, rule.span),)

    def carried(self, rule: NormalRule, stages: list[_Stage], number: int) -> list[str]:
        """The names that later stages or the head need; all of them where instances are counted."""
        bound = stages[number].bound
        aggregate = self.relations[rule.relation].aggregate
        if aggregate and aggregate[0] in ("sum", "count"):
            return sorted(bound)
        later = {
            name for stage in stages[number + 1 :] for literal in stage.literals for name in literal_names(literal)
        }
        later |= {name for arg in rule.args for name in names_in(arg)}
        later |= {stage.place.name for stage in stages[number + 1 :] if isinstance(stage.place, Var)}
        return sorted(bound & later)

    def carried_aggregate(
        self, rule: NormalRule, body: tuple[Literal, ...], args: tuple[Place, ...]
    ) -> tuple[str, int] | None:
        """The aggregate of the relation that carries `args`: that of the one moving value among them."""
        found: list[tuple[str, int]] = []
        for literal in body:
            if isinstance(literal, Match) and self.is_recursive(literal, rule):
                aggregate = self.relations[literal.relation].aggregate
                if aggregate and literal.args[aggregate[1]] in args:
                    found.append((aggregate[0], args.index(literal.args[aggregate[1]])))
        if len(found) > 1:
            hint = "Join two of them in a rule of their own first."
            message = "several aggregated values of the recursion would have to be sent together"
            raise _NotLocal(Diagnostic("E423", message, rule.span, hint=hint))
        return found[0] if found else None

    def name_for(self, body: tuple[Literal, ...]) -> str:
        first = next((literal.relation for literal in body if isinstance(literal, Match)), "part")
        stem = first if first in self.checked.relations else first.rsplit("_", 1)[0]
        number = 1
        while f"{stem}_{number}" in self.relations:
            number += 1
        return f"{stem}_{number}"


def _evaluable(literals: list[Literal], bound: frozenset[str]) -> tuple[list[Literal], frozenset[str]]:
    """Those of `literals` that can be evaluated once `bound` are, and what is bound then."""
    taken: list[Literal] = []
    found = True
    while found:
        found = False
        for literal in literals:
            gives = None if literal in taken else binds(literal, bound)
            if gives is not None:
                taken.append(literal)
                bound |= gives
                found = True
    return taken, bound


def binds(literal: Literal, bound: Iterable[str]) -> frozenset[str] | None:
    """The names that a literal binds when `bound` are known; None when it cannot be evaluated yet."""
    known = frozenset(bound)
    match literal:
        case Compare(op="=", left=left, right=right):
            for target, source in ((left, right), (right, left)):
                if isinstance(target, Var) and names_in(source) <= known:
                    return frozenset({target.name})
            return frozenset() if names_in(left) | names_in(right) <= known else None
        case Compare(left=left, right=right):
            return frozenset() if names_in(left) | names_in(right) <= known else None
        case Unpack(record=record, fields=fields):
            return frozenset(arg.name for arg in fields if isinstance(arg, Var)) if record.name in known else None
        case Not(shared=shared):
            return frozenset() if {var.name for var in shared} <= known else None
        case Fold(result=result, shared=shared):
            return frozenset({result.name}) if {var.name for var in shared} - {result.name} <= known else None
        case Match():
            return frozenset(literal_names(literal))


def _unknown_place(rule: NormalRule, places: list[Place]) -> Diagnostic:
    names = ", ".join(f"`@{place_text(place)}`" for place in places)
    detail = f"The body lies in {names}, and no order of these lets each node know where the next one is."
    hint = "Join the places by an atom that lives in one of them and names the other, as `link(@s, z)` does."
    return Diagnostic("E421", "this rule cannot be localized", rule.span, detail=detail, hint=hint)


def place_text(place: Place) -> str:
    return place.name if isinstance(place, Var) else str(place.value)


def _columns(args: tuple[Place, ...]) -> tuple[str, ...]:
    """Column names after the variables; a constant and a name that the user did not write get a number."""
    names: list[str] = []
    for index, arg in enumerate(args):
        plain = isinstance(arg, Var) and arg.name.replace("_", "a").isalnum() and arg.name not in names
        names.append(arg.name if plain and isinstance(arg, Var) else f"c{index}")
    return tuple(names)


def _canonical(body: tuple[Literal, ...], args: tuple[Place, ...], aggregate: tuple[str, int] | None) -> object:
    """Equal for stages that send the same facts: a single atom with its variables numbered; others are themselves."""
    if len(body) != 1 or not isinstance(body[0], Match):
        return body, args, aggregate
    numbers: dict[Place, object] = {}
    for arg in body[0].args:
        numbers.setdefault(arg, len(numbers) if isinstance(arg, Var) else arg)
    return (
        body[0].relation,
        tuple(numbers[arg] for arg in body[0].args),
        tuple(numbers.get(a, a) for a in args),
        aggregate,
    )
