"""What the analysis hands to the planner: a checked program in normal form, as plain data.

    CheckedProgram ─ relations: {name: Relation}, facts, rules, strata
    NormalRule     ─ head relation and expressions ; body: tuple of Literal
    Literal        ─ Match | Compare | Unpack | Not | Fold
    Expr           ─ Var | Const | Call

Normal form means: one head per rule, no `;`, no inlined relation, every `_` a variable of its own, atoms hold only
variables and constants (anything else became a fresh variable and a `Compare` or `Unpack`), every operation knows the
kind of its operands. A rule **instance** is an assignment to all variables of `NormalRule.body` outside `Not` and
`Fold`; counters count instances, so nothing later may merge, drop or add a literal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import TypeAlias

from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, Diagnostic, Span
from sempre.lang import syntax


class Kind(Enum):
    """How the values of a column are represented and computed with."""

    NUMBER = "number"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    SYMBOL = "symbol"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Type:
    """A resolved type. `name` is the declared name, `base` what it is a subtype of, if it is one.

    `fields` has (name, type name) for records. An algebraic type has `branches`: the name of each, and the record type
    of what it holds. A value of it is a record of two fields, the number of its branch and that record (nil for a
    branch without fields).
    """

    name: str
    kind: Kind
    fields: tuple[tuple[str, str], ...] = ()
    branches: tuple[tuple[str, str], ...] = ()
    base: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Relation:
    """A declared relation.

    `aggregate` is (kind, column) when its rules aggregate in the head, as in `dist(y, min(d + w))`; the other columns
    are the group.
    """

    name: str
    columns: tuple[str, ...]
    types: tuple[Type, ...]
    qualifiers: frozenset[str] = frozenset()
    location: int | None = None
    aggregate: tuple[str, int] | None = None
    inputs: tuple[syntax.Directive, ...] = ()
    outputs: tuple[syntax.Directive, ...] = ()
    printsize: bool = False
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def arity(self) -> int:
        return len(self.columns)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(type_.kind for type_ in self.types)

    @property
    def is_equivalence(self) -> bool:
        return "eqrel" in self.qualifiers


# ---------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Var:
    """A variable; unique within its rule, also between a rule and the bodies nested in it."""

    name: str


@dataclass(frozen=True, slots=True)
class Const:
    """A constant: int for number and unsigned, float, str, or None for nil."""

    value: int | float | str | None
    kind: Kind


@dataclass(frozen=True, slots=True)
class Call:
    """`op` over `args`. `operand` is the kind of the arguments where `op` is polymorphic; `kind` that of the result.

    `record` builds a record from its fields. Conversions are calls too: `to_number`, `itof`, ...
    """

    op: str
    args: tuple[Expr, ...]
    kind: Kind
    operand: Kind
    span: Span = field(default=NOWHERE, compare=False)


Expr: TypeAlias = Var | Const | Call

# ------------------------------------------------------------------------------------------------- literals


@dataclass(frozen=True, slots=True)
class Match:
    """A positive atom."""

    relation: str
    args: tuple[Var | Const, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right` over operands of one kind; `=` may bind a variable that stands alone on one side.

    Operators: `= != < <= > >= match contains not_match not_contains`.
    """

    op: str
    left: Expr
    right: Expr
    kind: Kind
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Unpack:
    """`record = [fields]` where `record` is bound first: false for nil, else binds or checks the fields."""

    record: Var
    fields: tuple[Var | Const, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """No assignment to the local variables of `body` makes all of it true.

    `shared` are the variables of `body` that the enclosing body binds; they are bound before this is evaluated.
    """

    body: tuple[Literal, ...]
    shared: tuple[Var, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Fold:
    """`result = kind expr : { body }` over the distinct assignments to the local variables of `body`.

    `result` may be bound already (then it is a test). `min`, `max` and `mean` over nothing are false; `count` and
    `sum` give zero. `operand` is the kind of `expr`. An aggregate of the user's own is spelled as functors are, see
    `python_functions.spelled`.
    """

    result: Var
    kind: str
    expr: Expr | None
    body: tuple[Literal, ...]
    shared: tuple[Var, ...]
    operand: Kind
    span: Span = field(default=NOWHERE, compare=False)


Literal: TypeAlias = Match | Compare | Unpack | Not | Fold

# ---------------------------------------------------------------------------------------------------- rules


@dataclass(frozen=True, slots=True)
class NormalRule:
    """`relation(args) :- body`.

    `number` identifies the rule in reports. With `relation.aggregate`, the argument at that column is the
    expression under the aggregate. `kinds` gives the kind of every variable, nested ones included; `records` the
    type of those that hold records, empty for one that can only be nil. `plan` is the `.plan` after the rule: the order
    of its atoms, by version.
    """

    number: int
    relation: str
    args: tuple[Expr, ...]
    body: tuple[Literal, ...]
    kinds: dict[str, Kind] = field(compare=False)
    deletes: bool = False
    text: str = field(default="", compare=False)
    span: Span = field(default=NOWHERE, compare=False)
    records: dict[str, str] = field(default_factory=dict, compare=False)
    plan: tuple[tuple[int, tuple[int, ...]], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Fact:
    """An explicit fact of the program; its arguments have no variables but may be calls."""

    relation: str
    args: tuple[Expr, ...]
    text: str = field(default="", compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Guard:
    """Which of the rows that are derived stay.

    `keys`: for the same values in the columns of a key there is one row, which stays as long as it can. `dominance` has
    rules that derive pairs: a row, and one that stands for it. With a `limit`, recursion ends once there are so many
    rows. A relation that is `numbered` gets a number of its own for each row, in its last column; `numbered` is how far
    numbers are apart, and the first of them.
    """

    keys: tuple[tuple[int, ...], ...] = ()
    dominance: tuple[NormalRule, ...] = ()
    limit: int | None = None
    numbered: tuple[int, int] | None = None

    @property
    def has_history(self) -> bool:
        """Whether the rows depend on those that were there before."""
        return bool(self.keys) or self.numbered is not None

    @property
    def what(self) -> str:
        """What it is, in the words of the language."""
        if self.keys:
            return "choice-domain"
        if self.numbered is not None:
            return "autoinc()"
        return "subsumption" if self.dominance else ".limitsize"


@dataclass(frozen=True, slots=True)
class Stratum:
    """One strongly connected component: its relations and the rules that derive into them.

    A rule is recursive when a positive atom of its body, outside negations and aggregates, is in this stratum.
    """

    index: int
    relations: tuple[str, ...]
    nonrecursive: tuple[NormalRule, ...]
    recursive: tuple[NormalRule, ...]


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """A program without errors. Strata are in evaluation order and cover every relation once.

    `guards` has, by their names, the relations that do not keep all of their rows. `deferred` has rules, by their
    relations, that a rewrite took out of the strata: they are evaluated when their relation is read.
    """

    relations: dict[str, Relation]
    types: dict[str, Type]
    facts: tuple[Fact, ...]
    rules: tuple[NormalRule, ...]
    strata: tuple[Stratum, ...]
    pragmas: dict[str, str]
    warnings: tuple[Diagnostic, ...]
    sources: dict[str, str]
    semantics: str = "stratified"
    deferred: Mapping[str, NormalRule] = field(default_factory=dict)
    guards: Mapping[str, Guard] = field(default_factory=dict)
