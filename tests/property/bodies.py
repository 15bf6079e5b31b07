"""Random rule bodies: grounded, typed, and finite in their results by construction.

A `Body` grows part by part and knows which variables are bound, by kind. What may be read positively is given by the
caller; negations and aggregates read `lower` relations alone, so that programs are stratified.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sempre.lang import syntax as s
from tests.oracle.clauses import formula_names
from tests.oracle.values import Value
from tests.property.dice import NUMERIC, RECORD, Dice, literal

ORDER = ("<", "<=", ">", ">=", "!=")


@dataclass(frozen=True)
class Relation:
    """A relation of the program being made. `group` is its stratum; `role` one of base derived eqrel inline fold."""

    name: str
    kinds: tuple[str, ...]
    group: int
    role: str = "derived"


@dataclass
class Body:
    """A rule body in the making. `recursive`: the rule reads its own stratum, so it must not grow values for ever."""

    dice: Dice
    lower: list[Relation]
    size: int
    recursive: bool = False
    bound: dict[str, list[str]] = field(default_factory=dict)
    parts: list[s.Formula] = field(default_factory=list)
    names: list[int] = field(default_factory=lambda: [0])
    hidden: tuple[str, str] | None = None  # kind and name of a variable outside that the next new one takes

    def formula(self) -> s.Formula:
        return s.conjunction(self.parts)

    def nested(self) -> Body:
        """A scope in this body: sees its variables, binds its own."""
        bound = {kind: list(names) for kind, names in self.bound.items()}
        return Body(self.dice, self.lower, self.size, False, bound, [], self.names)

    def fresh(self, kind: str) -> str:
        if self.hidden is not None and self.hidden[0] == kind:
            (_, name), self.hidden = self.hidden, None
            return name
        self.names[0] += 1
        return f"{kind[0].lower()}{self.names[0]}"

    def bind(self, kind: str, name: str) -> None:
        names = self.bound.setdefault(kind, [])
        if name not in names:
            names.append(name)

    def constant(self, kind: str) -> s.Term:
        value: Value = self.dice.value(kind, self.size)
        return literal(value, kind)

    def known(self, kind: str) -> s.Term:
        """A bound variable of the kind, if there is one, else (and sometimes) a constant."""
        names = self.bound.get(kind)
        return s.Variable(self.dice.choose(names)) if names and not self.dice.chance(8) else self.constant(kind)

    # ------------------------------------------------------------------------------------------ literals

    def atom(self, relation: Relation, binds: bool = True) -> s.Atom:
        """An atom that joins with what is bound. With `binds` it may bind new variables."""
        fresh: list[tuple[str, str]] = []
        args = tuple(self.argument(kind, binds, fresh) for kind in relation.kinds)
        shared = [i for i, kind in enumerate(relation.kinds) if self.bound.get(kind)]
        alone = [arg.name for arg in args if isinstance(arg, s.Variable)] == [name for _, name in fresh]
        if binds and alone and len(fresh) == len(args) and shared and not self.dice.chance(15):
            column = self.dice.choose(shared)  # no column joins with what is bound: make one
            fresh.pop(column)
            joined = s.Variable(self.dice.choose(self.bound[relation.kinds[column]]))
            args = (*args[:column], joined, *args[column + 1 :])
        for kind, name in fresh:
            self.bind(kind, name)
        return s.Atom(relation.name, args)

    def argument(self, kind: str, binds: bool, fresh: list[tuple[str, str]]) -> s.Term:
        if kind == RECORD and binds and self.dice.chance(40):
            return s.Record(tuple(self.argument("number", binds, fresh) for _ in range(2)))
        roll = self.dice.below(20)
        names = self.bound.get(kind, [])
        if roll == 19 or (roll == 18 and not binds):
            return s.Wildcard()
        if roll == 18:
            return self.constant(kind)
        if roll == 17:
            names = names + [name for other, name in fresh if other == kind]  # a variable twice in one atom
        if names and (roll < 9 or roll == 17 or not binds):
            return s.Variable(self.dice.choose(names))
        if not binds:
            return self.constant(kind)
        name = self.fresh(kind)
        fresh.append((kind, name))
        return s.Variable(name)

    def add_comparison(self) -> None:
        kinds = [kind for kind, names in self.bound.items() if names and kind != RECORD]
        if not kinds:
            self.parts.append(s.Comparison(self.dice.choose(ORDER), s.Number(1), s.Number(self.dice.below(3))))
            return
        kind = self.dice.choose(kinds)
        left: s.Term = s.Variable(self.dice.choose(self.bound[kind]))
        right = self.known(kind)
        right = self.constant(kind) if right == left else right
        if kind == "symbol" and self.dice.chance(25):
            self.parts.append(self.text_test(left))
            return
        if kind == "number" and self.dice.chance(25):
            left = s.Apply("+", (left, s.Number(1)))
        self.parts.append(s.Comparison(self.dice.choose((*ORDER, "=")), left, right))

    def text_test(self, text: s.Term) -> s.Formula:
        if self.dice.chance(50):
            return s.Comparison("contains", s.String(self.dice.choose(("a", "b", ""))), text)
        return s.Comparison("match", s.String(self.dice.choose(("a.*", ".", "[ab]+"))), text)

    def add_negation(self, depth: int = 1) -> None:
        if not self.lower:
            return
        if self.dice.chance(55) and depth:
            self.parts.append(s.Negation(self.nested_conjunction(depth)))
        else:
            self.parts.append(s.Negation(self.atom(self.dice.choose(self.lower), binds=False)))

    def nested_conjunction(self, depth: int) -> s.Formula:
        """A conjunction with variables of its own."""
        inner = self.nested()
        for _ in range(self.dice.between(1, 2)):
            inner.parts.append(inner.atom(self.dice.choose(self.lower)))
        inner.add_comparison()
        if depth > 1 and self.dice.chance(40):
            inner.add_negation(depth - 1)
        return inner.formula()

    def add_disjunction(self, readable: list[Relation]) -> None:
        """Alternatives that all bind the same new variable, or only test."""
        kinds = [kind for relation in readable for kind in relation.kinds if kind != RECORD]
        kind = self.dice.choose(kinds or ["number"])
        sources = [relation for relation in readable if kind in relation.kinds]
        name = self.fresh(kind)
        options: list[s.Formula] = []
        for _ in range(self.dice.between(2, 3)):
            inner = self.nested()
            if not sources or self.dice.chance(15):
                inner.parts.append(s.Comparison("=", s.Variable(name), self.known(kind)))
            else:
                relation = self.dice.choose(sources)
                atom = inner.atom(relation)
                column = relation.kinds.index(kind)
                args = (*atom.args[:column], s.Variable(name), *atom.args[column + 1 :])
                inner.parts.append(s.Atom(relation.name, args))
                if self.dice.chance(30):
                    inner.parts.append(s.Comparison(self.dice.choose(ORDER), s.Variable(name), self.known(kind)))
            options.append(inner.formula())
        self.bind(kind, name)
        self.parts.append(s.disjunction(options))

    # ---------------------------------------------------------------------------------------- arithmetic

    def add_arithmetic(self) -> None:
        """A new variable that equals an expression; in recursion, over a finite set of values."""
        kinds = [kind for kind, names in self.bound.items() if names and kind != RECORD]
        if not kinds:
            return
        kind = self.dice.choose(kinds)
        term: s.Term = s.Variable(self.dice.choose(self.bound[kind]))
        result, name = kind, ""
        if kind == "symbol":
            result, expression = self.text_expression(term)
        elif self.recursive:
            expression = self.bounded_expression(kind, term)
        elif self.dice.chance(10) and kind == "number":
            result, expression = "symbol", s.Apply("to_string", (term,))
        else:
            expression = self.expression(kind, term)
        name = self.fresh(result)
        self.parts.append(s.Comparison("=", s.Variable(name), expression))
        if self.recursive and result == "symbol":
            limit = s.Comparison("<", s.Apply("strlen", (s.Variable(name),)), s.Number(4))
            self.parts.append(limit)
        self.bind(result, name)

    def expression(self, kind: str, term: s.Term) -> s.Term:
        other = self.known(kind)
        two, three = literal(2.0 if kind == "float" else 2, kind), literal(3.0 if kind == "float" else 3, kind)
        choices = [s.Apply("+", (term, other)), s.Apply("max", (term, other)), s.Apply("min", (term, other, two))]
        choices += [s.Apply("*", (term, two)), s.Apply("/", (term, two))]
        if kind != "unsigned":
            choices += [s.Apply("-", (term, other)), s.Apply("neg", (term,))]
        if kind != "float":
            choices += [s.Apply(op, (term, three)) for op in ("%", "band", "bor", "bxor")]
            choices += [s.Apply("bshl", (term, two)), s.Apply("bshr", (term, two))]
        if kind == "number":
            choices += [s.Apply("+", (s.Apply("*", (term, other)), s.Number(1))), s.Apply("lor", (term, other))]
        return self.dice.choose(choices)

    def bounded_expression(self, kind: str, term: s.Term) -> s.Term:
        """An expression that only takes values from a finite set, whatever feeds back into it."""
        if kind == "float":
            return s.Apply("min", (term, self.constant(kind)))
        one, five = literal(1, kind), literal(5, kind)
        choices = [s.Apply("%", (s.Apply("+", (term, one)), five)), s.Apply("max", (term, self.known(kind)))]
        choices += [s.Apply("band", (term, literal(3, kind)))]
        return self.dice.choose(choices)

    def text_expression(self, term: s.Term) -> tuple[str, s.Term]:
        if self.dice.chance(25):
            return "number", s.Apply("strlen", (term,))
        if self.dice.chance(30):
            return "symbol", s.Apply("substr", (term, s.Number(self.dice.below(2)), s.Number(1)))
        return "symbol", s.Apply("cat", (term, s.String("a") if self.dice.chance(50) else self.known("symbol")))

    # ---------------------------------------------------------------------------------------- aggregates

    def add_aggregate(self, depth: int = 1) -> None:
        """A variable that equals an aggregate over lower relations, or a test of one."""
        sources = [relation for relation in self.lower if relation.role != "inline"]
        if not sources:
            return
        kind, aggregate = self.aggregate(sources, depth)
        if self.dice.chance(30):
            limit = literal(1.0 if kind == "float" else 1, kind)
            self.parts.append(s.Comparison(self.dice.choose(ORDER), aggregate, limit))
            return
        name = self.fresh(kind)
        self.parts.append(s.Comparison("=", s.Variable(name), aggregate))
        self.bind(kind, name)

    def aggregate(self, sources: list[Relation], depth: int) -> tuple[str, s.Aggregate]:
        """The kind of its value, and an aggregate whose body joins with the outer variables."""
        inner = self.nested()
        inner.lower = sources
        hidden = self.hide_some(inner)
        inner.parts.append(inner.atom(self.dice.choose(sources)))
        if self.dice.chance(35):
            inner.parts.append(inner.atom(self.dice.choose(sources)))
        if self.dice.chance(35):
            inner.add_comparison()
        if depth and self.dice.chance(20):
            inner.add_negation(0)
        elif depth and self.dice.chance(15):
            inner.add_aggregate(0)
        own = {kind: [n for n in names if n not in self.bound.get(kind, [])] for kind, names in inner.bound.items()}
        if hidden and hidden[1] in inner.bound.get(hidden[0], ()):
            return self.fold_over(*hidden, inner)
        numeric = [kind for kind in NUMERIC if own.get(kind)]
        if not numeric or self.dice.chance(40):
            return "number", s.Aggregate("count", None, inner.formula())
        kind = self.dice.choose(numeric)
        return self.fold_over(kind, self.dice.choose(own[kind]), inner)

    def fold_over(self, kind: str, name: str, inner: Body) -> tuple[str, s.Aggregate]:
        term: s.Term = s.Variable(name)
        # What the body mentions is its own then, so it has to be bound there; the rest comes from outside.
        atoms = formula_names(tuple(part for part in inner.parts if isinstance(part, s.Atom)))
        tested = formula_names(inner.formula()) - atoms
        outer = [other for other in self.bound.get(kind, []) if other not in tested]
        if kind == "number" and self.dice.chance(20):
            term = s.Apply("+", (term, s.Number(1)))
        elif kind == "number" and outer and self.dice.chance(15):
            term = s.Apply("+", (term, s.Variable(self.dice.choose(outer))))  # from outside, or another own one
        folds = ("min", "max", "sum", "mean") if kind == "float" else ("min", "max", "sum")
        return kind, s.Aggregate(self.dice.choose(folds), term, inner.formula())

    def hide_some(self, inner: Body) -> tuple[str, str] | None:
        """A name of this body that `inner` uses for a variable of its own, which it has to aggregate over."""
        kinds = [kind for kind in NUMERIC if self.bound.get(kind)]
        if not kinds or not self.dice.chance(40):
            return None
        kind = self.dice.choose(kinds)
        name = self.dice.choose(self.bound[kind])
        inner.bound[kind].remove(name)
        inner.hidden = (kind, name)
        return kind, name
