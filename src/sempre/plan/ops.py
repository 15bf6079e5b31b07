"""Plans as plain data.

A `Plan` evaluates one rule: its steps extend a table of variable bindings from left to right, one row per partial
instance, and its head turns each full row into a fact. Nothing in a plan says how or where it runs.

A plan with a pivot finds the instances that hold *here* and not *there*, where here and there are two states of the
database: new and old to find what was gained, old and new to find what was lost, the state with and without the last
round's facts in semi-naive evaluation. Each such instance is found exactly once, by the plan of the first literal, in
rule order, that does not hold there: literals left of the pivot hold in both states, the pivot holds here only, what
stands right of it holds here. In which order the steps are taken does not matter.

A negation or an aggregate can be the pivot too. Its change is not a set of rows, so such a plan starts from the rows
that changed in one of the relations it reads, takes what they say about the shared variables, completes that to full
instances, and keeps those for which it holds here and not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import TypeAlias

from sempre.analysis.model import (
    Call,
    Compare,
    Const,
    Expr,
    Fact,
    Fold,
    Kind,
    Literal,
    Match,
    NormalRule,
    Not,
    Unpack,
    Var,
)
from sempre.data import dataclass
from sempre.python_functions import name_of

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Neighbors:
    """What stands next to what: rows `(groups.., x, y)` where the values `x < y` of `column` occur in `source` with the
    same values of its columns `groups`, and no value of that group lies between them.
    """

    relation: str
    source: str
    groups: tuple[int, ...]
    column: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Automaton:
    """Which words over relation names make a path a fact.

    `steps` has (state, relation, next state). A fact `head(u, v)` holds when some nonempty path leads from `u` to `v`
    whose relations lead from `starts[head]` to a state of `finals[head]`: the empty path never counts, so a start may
    also be final.
    """

    states: int
    steps: tuple[tuple[int, str, int], ...]
    starts: Mapping[str, int]
    finals: Mapping[str, frozenset[int]]

    @property
    def letters(self) -> tuple[str, ...]:
        """The relations that paths are made of, each once, in the order of the steps."""
        return tuple(dict.fromkeys(letter for _, letter, _ in self.steps))


class Read(Enum):
    """Which version of a relation a step reads: that here, that there, what both have, what only here
    has, or what only one of the two has. RANK is no version, but the ranks of its facts.
    """

    # Views are looked up by version in every round: the identity is enough, and quick.
    __hash__ = object.__hash__

    HERE = "here"
    THERE = "there"
    BOTH = "both"
    ONLY = "only"
    CHANGED = "changed"
    RANK = "rank"


@dataclass(frozen=True, slots=True)
class Probe:
    """Join with `relation`, looked up by the columns `prefix` (empty: a scan) of the index `order`.

    `lookup` gives the value of each prefix column, `binds` the variables that other columns bind, `same` the pairs
    of columns that must be equal because a variable occurs twice.
    """

    relation: str
    read: Read
    order: Order
    lookup: tuple[Var | Const, ...]
    binds: tuple[tuple[int, Var], ...]
    same: tuple[tuple[int, int], ...]
    live: frozenset[str]

    @property
    def prefix(self) -> Order:
        return self.order[: len(self.lookup)]


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the rows for which the comparison holds."""

    test: Compare
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class Assign:
    """Bind `var` to the value of `expr`."""

    var: Var
    expr: Expr
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class TakeApart:
    """Bind or check the fields of a record; drops rows where it is nil."""

    unpack: Unpack
    binds: frozenset[str]
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class Absent:
    """Keep the rows for which the nested steps find nothing.

    With `steps_there`, the same steps reading the other state, they must find nothing there either; with `flips`, they
    must find something there.
    """

    literal: Not
    steps: tuple[Step, ...]
    steps_there: tuple[Step, ...]
    flips: bool
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reduce:
    """Bind (or check, if bound) the result of an aggregate over what the nested steps find for each row.

    With `steps_there`, the result there must be the same; with `flips`, it must differ or not exist.
    """

    literal: Fold
    steps: tuple[Step, ...]
    steps_there: tuple[Step, ...]
    flips: bool
    test: bool
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class RankOf:
    """Bind `var` to the rank of the fact of `atom`."""

    atom: Match
    var: Var
    live: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LowerRank:
    """Keep the rows in which the fact of `atom` has a lower rank than `than`."""

    atom: Match
    than: Var
    live: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Distinct:
    """Keep each binding of the live variables once."""

    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class Either:
    """For every row, whichever of the `options` begins with the lookup that finds less.

    Each option takes the same literals in an order of its own, begins with a probe and binds the same variables. They
    find the same, so a backend that cannot tell what a lookup will find may take the first for all rows.
    """

    options: tuple[tuple[Step, ...], ...]
    live: frozenset[str]


Step: TypeAlias = Probe | Filter | Assign | TakeApart | Absent | Reduce | RankOf | LowerRank | Distinct | Either


@dataclass(frozen=True, slots=True)
class Pivot:
    """What a plan starts from.

    `literal` is the body literal that holds here only; for a negation or an aggregate, `inner` is which of the atoms in
    it (counted through all nesting) the changed rows are of. `HEAD` starts from given facts of the head relation. With
    `to_body`, a plan from the head gives the facts that stand at body literal `literal` instead of the head's.
    With `ranked`, a plan finds only instances whose atoms in the stratum rank below the head.
    `uniform` treats atoms of the rule's own stratum like all others, for states that differ in them and below.
    `SPLIT` starts from the given facts of the head relation as well, but takes them apart: see `planner.split_steps`.
    """

    literal: int
    inner: int = -1
    to_body: bool = False
    uniform: bool = False
    ranked: bool = False
    split: bool = False


HEAD = Pivot(-1)
SPLIT = Pivot(-1, split=True)
RANKED = Pivot(-1, ranked=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to evaluate `rule`; without a pivot, all of it here."""

    rule: NormalRule
    pivot: Pivot | None
    steps: tuple[Step, ...]

    @property
    def head(self) -> tuple[Expr, ...]:
        """The arguments of the facts that the plan gives."""
        target = self._target
        return self.rule.args if target is None else target.args

    @property
    def relation(self) -> str:
        target = self._target
        return self.rule.relation if target is None else target.relation

    @property
    def _target(self) -> Match | None:
        if self.pivot is None or not self.pivot.to_body:
            return None
        literal = self.rule.body[self.pivot.literal]
        assert isinstance(literal, Match)
        return literal


def decided_plan(plan: Plan) -> Plan:
    """The plan with the first option of every choice that it leaves to the rows."""
    return replace(plan, steps=_decided(plan.steps))


def _decided(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Either):
            found += _decided(step.options[0])
        elif isinstance(step, Absent | Reduce):
            found.append(replace(step, steps=_decided(step.steps), steps_there=_decided(step.steps_there)))
        else:
            found.append(step)
    return tuple(found)


def probes(steps: tuple[Step, ...]) -> list[Probe]:
    """All probes of the steps, nested ones included."""
    found: list[Probe] = []
    for step in steps:
        if isinstance(step, Probe):
            found.append(step)
        elif isinstance(step, Absent | Reduce):
            found += probes(step.steps) + probes(step.steps_there)
        elif isinstance(step, Either):
            found += [probe for option in step.options for probe in probes(option)]
    return found


def matches(body: tuple[object, ...]) -> list[int]:
    """The positions of the positive atoms of a body."""
    return [index for index, literal in enumerate(body) if isinstance(literal, Match)]


def nested_matches(literal: Not | Fold) -> list[Match]:
    """The atoms of a negation or an aggregate, through all nesting."""
    found: list[Match] = []
    for inner in literal.body:
        if isinstance(inner, Match):
            found.append(inner)
        elif isinstance(inner, Not | Fold):
            found += nested_matches(inner)
    return found


def relations_of(body: tuple[Literal, ...]) -> set[str]:
    """Every relation that a body reads, in negations and aggregates too."""
    found: set[str] = set()
    for literal in body:
        if isinstance(literal, Match):
            found.add(literal.relation)
        elif isinstance(literal, Not | Fold):
            found |= relations_of(literal.body)
    return found


def functions_of(rule: NormalRule | Fact) -> frozenset[tuple[str, bool]]:
    """The Python functions that a rule calls or aggregates by, in its head or anywhere in its body; or a fact.

    With each name goes whether it is an aggregate.
    """
    found: set[tuple[str, bool]] = set()
    waiting: list[object] = [*rule.args, *(() if isinstance(rule, Fact) else rule.body)]
    while waiting:
        match waiting.pop():
            case Call(op, args):
                found |= {(name, False) for name in (name_of(op),) if name}
                waiting += args
            case Compare(_, left, right):
                waiting += (left, right)
            case Not(body):
                waiting += body
            case Fold(_, kind, expr, body):
                found |= {(name, True) for name in (name_of(kind),) if name}
                waiting += (expr, *body)
            case _:
                pass
    return frozenset(found)
