"""The abstract syntax of programs: frozen, located nodes.

Nodes compare by meaning: spans are ignored, so that `parse(str(program)) == program`. What the language has and the
engine does not support yet (components, ADTs, ...) has nodes too; `analysis` refuses them by name.

    Program ─ items: RelationDecl | TypeDecl | Directive | Pragma | FunctorDecl | Component | Instantiation | Rule
    Rule    ─ heads: Head(Atom) ; body: Formula
    Formula ─ Atom | Comparison | Negation | Conjunction | Disjunction | Truth
    Term    ─ Variable | Wildcard | Number | Unsigned | Float | String | Nil | Record | Branch | Apply | UserCall
              | Cast | Aggregate | HeadAggregate | Counter
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TypeAlias

from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, Span

# --------------------------------------------------------------------------------------------------- terms


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Wildcard:
    """`_`: a fresh variable at every occurrence."""

    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Number:
    """A signed literal. The value may lie outside 64 bits here; `analysis` reports that."""

    value: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Unsigned:
    """`42u`."""

    value: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Float:
    value: float
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class String:
    """A symbol literal; `value` has its escapes resolved."""

    value: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Nil:
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Record:
    """`[a, b, ...]`: builds a record, or takes one apart where its variables are not bound yet."""

    args: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """`$Name(args)`: a value of an algebraic data type."""

    name: str
    args: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Apply:
    """A built-in functor or operator.

    Operators: `+ - * / % ^ **`→`^`, `band bor bxor bshl bshr bshru bnot`, `land lor lxor lnot`, `neg` (unary minus).
    Functors keep their source name: `cat strlen substr ord to_number to_string max min ...`.
    """

    functor: str
    args: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class UserCall:
    """`@name(args)`: a user-defined functor."""

    name: str
    args: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """`as(term, type)`."""

    term: Term
    type_name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`kind term : { body }`; `term` is None for `count`. Kinds: count sum min max mean, the user's own `@name`."""

    kind: str
    term: Term | None
    body: Formula
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class HeadAggregate:
    """`min(e)`, `max(e)`, `sum(e)`, `count(e)` as a head argument (also written `min<e>`)."""

    kind: str
    term: Term
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Counter:
    """`$` or `autoinc()`: parsed so that it can be refused by name."""

    span: Span = field(default=NOWHERE, compare=False)


Term: TypeAlias = (
    Variable | Wildcard | Number | Unsigned | Float | String | Nil | Record | Branch | Apply | UserCall | Cast
    | Aggregate | HeadAggregate | Counter
)  # fmt: skip

# ------------------------------------------------------------------------------------------------ formulas


@dataclass(frozen=True, slots=True)
class Atom:
    """`relation(args)`. `location` is the index of the argument written with `@`, or None."""

    relation: str
    args: tuple[Term, ...]
    location: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`; op is one of `= != < <= > >= match contains` (the last two are written as calls)."""

    op: str
    left: Term
    right: Term
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """`!body`: no assignment to the variables that occur in `body` alone makes it true."""

    body: Formula
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Conjunction:
    """`a, b, ...`; never nested directly in another conjunction, and has at least two parts."""

    parts: tuple[Formula, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Disjunction:
    """`a ; b ; ...`; never nested directly in another disjunction, and has at least two parts."""

    parts: tuple[Formula, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Truth:
    """`true` or `false`; the body of a fact is `Truth(True)`."""

    value: bool
    span: Span = field(default=NOWHERE, compare=False)


Formula: TypeAlias = Atom | Comparison | Negation | Conjunction | Disjunction | Truth

# --------------------------------------------------------------------------------------------------- items


@dataclass(frozen=True, slots=True)
class Head:
    """One head of a rule; `deletes` for `-h(..) :- ...`."""

    atom: Atom
    deletes: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """`heads :- body.` A fact is a rule whose body is `Truth(True)`; `is_fact` says so.

    `plan` has the `.plan` hint that follows the rule: ((version, (position, ...)), ...).
    """

    heads: tuple[Head, ...]
    body: Formula = Truth(True)
    plan: tuple[tuple[int, tuple[int, ...]], ...] = ()
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def is_fact(self) -> bool:
        return self.body == Truth(True)


def is_plain_fact(rule: Rule) -> bool:
    """Whether a rule is one fact of literals. Programs may hold very many of these; passes can treat them apart."""
    if len(rule.heads) != 1 or rule.heads[0].deletes or not rule.is_fact:
        return False
    return all(isinstance(arg, Number | Unsigned | Float | String) for arg in rule.heads[0].atom.args)


@dataclass(frozen=True, slots=True)
class Attribute:
    """`name: type` of a declaration; `located` for `@name: type`."""

    name: str
    type_name: str
    located: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class RelationDecl:
    """`.decl name(attributes) qualifiers`. `choice` has the keys of `choice-domain`.

    Qualifiers, as written: inline no_inline eqrel btree btree_delete brie magic no_magic input output printsize
    override overridable demand.
    """

    name: str
    attributes: tuple[Attribute, ...]
    qualifiers: tuple[str, ...] = ()
    choice: tuple[tuple[str, ...], ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Subtype:
    """`.type name <: base`."""

    base: str


@dataclass(frozen=True, slots=True)
class Union:
    """`.type name = a | b`; with one member, an alias."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordType:
    """`.type name = [field: type, ...]`."""

    fields: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class AlgebraicType:
    """`.type name = A {x: t} | B {}`."""

    branches: tuple[tuple[str, tuple[Attribute, ...]], ...]


@dataclass(frozen=True, slots=True)
class TypeDecl:
    """`.type name ...`; `old` when it was written as early programs do: `.number_type name`, `.type name`."""

    name: str
    definition: Subtype | Union | RecordType | AlgebraicType
    span: Span = field(default=NOWHERE, compare=False)
    old: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Directive:
    """`.input` / `.output` / `.printsize` / `.limitsize` with relations and `key=value` options."""

    kind: str
    relations: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()
    span: Span = field(default=NOWHERE, compare=False)

    def option(self, key: str, default: str = "") -> str:
        """The last value given for `key`."""
        return dict(self.options).get(key, default)


@dataclass(frozen=True, slots=True)
class Pragma:
    key: str
    value: str = ""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class FunctorDecl:
    """`.functor name(x: t): t [stateful]`; `aggregates` when it is `.aggregate name(x: t): t`."""

    name: str
    parameters: tuple[Attribute, ...]
    result: str
    stateful: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    aggregates: bool = False


@dataclass(frozen=True, slots=True)
class ComponentType:
    """`Name<A, B>`: a component with its type arguments."""

    name: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Component:
    """`.comp Name<T> : Base<T> { items }`; `overrides` has the relations named by `.override`."""

    type: ComponentType
    bases: tuple[ComponentType, ...]
    items: tuple[Item, ...]
    overrides: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Instantiation:
    """`.init name = Component<A>`."""

    name: str
    type: ComponentType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Subsumption:
    """`lesser <= greater :- body.`"""

    lesser: Atom
    greater: Atom
    body: Formula
    plan: tuple[tuple[int, tuple[int, ...]], ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


Item: TypeAlias = (
    RelationDecl | TypeDecl | Directive | Pragma | FunctorDecl | Component | Instantiation | Rule | Subsumption
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ParsedProgram:
    """A parsed program: its items in source order."""

    items: tuple[Item, ...]

    def rules(self) -> Iterator[Rule]:
        return (item for item in self.items if isinstance(item, Rule))


@dataclass(frozen=True, slots=True)
class ChangeStatement:
    """One operation of a change script: `+fact.` or `-fact.`"""

    insert: bool
    fact: Atom
    span: Span = field(default=NOWHERE, compare=False)


def conjunction(parts: list[Formula], span: Span = NOWHERE) -> Formula:
    """The conjunction of `parts`, flattened: `Truth(True)` for none, the part itself for one."""
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Conjunction) else (part,))
    if not flat:
        return Truth(True, span)
    return flat[0] if len(flat) == 1 else Conjunction(tuple(flat), span)


def disjunction(parts: list[Formula], span: Span = NOWHERE) -> Formula:
    """The disjunction of `parts`, flattened: `Truth(False)` for none, the part itself for one."""
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Disjunction) else (part,))
    if not flat:
        return Truth(False, span)
    return flat[0] if len(flat) == 1 else Disjunction(tuple(flat), span)
