"""Atoms that are narrowed while a stratum is closed: a recursive relation without the rows that no instance can use.

In `points_to(v, p) :- load(v, w), points_to(w, o), heap(o, p)` new facts of `heap` are joined with `points_to` by `o`,
and of what they find, `load` keeps the rows whose `w` is loaded from. A narrowed relation has these rows alone, so that
the others are never found. It lives as long as the rounds of a stratum from scratch, and grows with them.

Nothing else changes. Whatever instance the rule has, its row of `points_to` is in the narrowed relation, once, and
since the same round: instances, the rounds they are found in, and their numbers are those of the rule as it stands.

`docs/design/0011-plans.md` has when this is done, and why nothing is projected away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sempre.analysis.model import Match, NormalRule, Var
from sempre.data import dataclass
from sempre.maintain.planning import Plans
from sempre.plan.backend import Backend, ColumnValues, Rows, Version
from sempre.plan.ops import Either, Probe, Read, Step


@dataclass(frozen=True, slots=True)
class Need:
    """A column of a relation must have a value that a column of a relation below has."""

    column: int
    relation: str
    other: int


# A relation of the stratum, and what its rows need.
Narrow = tuple[str, frozenset[Need]]


class Narrowed:
    """A narrowed relation: its rows so far."""

    def __init__(self, name: str, source: str, tests: Iterable[tuple[int, ColumnValues]], version: Version) -> None:
        self.name = name
        self.source = source
        self._tests = tuple(tests)
        self.version = version

    def of(self, rows: Rows) -> Rows:
        """Those of some rows of the relation that are in the narrowed one."""
        for column, values in self._tests:
            rows = values.having(rows, column)
        return rows


class Narrowing:
    """Decides for the rules of a stratum which atoms are narrowed, and keeps what they read."""

    def __init__(self, backend: Backend, plans: Plans) -> None:
        self._backend = backend
        self._plans = plans
        self._values: dict[tuple[str, int], ColumnValues | None] = {}
        self.held: dict[Narrow, Narrowed] = {}

    def rewritten(
        self,
        rules: Mapping[int, tuple[NormalRule, list[tuple[Step, ...]]]],
        relations: frozenset[str],
        old: Mapping[str, Version],
        expected: dict[str, Version],
    ) -> dict[int, NormalRule]:
        """The rules some of whose atoms are narrowed, by number, given the steps of their plans as they stand.

        `old` has what there is of the relations of the stratum, `expected` what plans are made for; the narrowed
        relations are put there.
        """
        wanted: dict[int, dict[int, Narrow]] = {}
        for number, (rule, plans) in rules.items():
            for index, literal in enumerate(rule.body):
                if isinstance(literal, Match) and literal.relation in relations:
                    needs = frozenset(need for steps in plans for need in needs_of(literal, steps, relations))
                    if needs and self._pays(literal.relation, needs, expected):
                        wanted.setdefault(number, {})[index] = (literal.relation, needs)
        chosen = {narrow for atoms in wanted.values() for narrow in atoms.values()}
        self.held = {narrow: held for narrow, held in self.held.items() if narrow in chosen}
        for narrow in sorted(chosen, key=str):
            if narrow not in self.held:
                self.held[narrow] = self._made(narrow, old[narrow[0]])
            held, whole = self.held[narrow], expected[narrow[0]]
            # What is expected of a relation may be its next rows rather than those that it has.
            same = whole is old[narrow[0]]
            expected[held.name] = held.version if same else self._backend.version(held.of(whole.rows()))
        return {number: self._with(rules[number][0], atoms) for number, atoms in wanted.items()}

    def _pays(self, relation: str, needs: frozenset[Need], expected: Mapping[str, Version]) -> bool:
        """Whether few rows are left."""
        limits, size = self._backend.limits, len(expected[relation])
        if size < limits.narrowed_rows:
            return False
        shares = []
        for need in needs:
            if len(expected[need.relation]) > limits.narrowing_size * size:
                return False
            values = self._values_of(need, expected)
            if values is None:
                return False
            shares.append(values.share(expected[relation], need.column))
        return min(shares) <= limits.narrowed_share

    def _values_of(self, need: Need, below: Mapping[str, Version]) -> ColumnValues | None:
        key = need.relation, need.other
        if key not in self._values:
            self._values[key] = self._backend.column_values(below[need.relation], need.other)
        return self._values[key]

    def _made(self, narrow: Narrow, whole: Version) -> Narrowed:
        source, needs = narrow
        ordered = sorted(needs, key=str)
        name = "#".join([source, *(f"{need.column} {need.relation} {need.other}" for need in ordered)])
        tests = []
        for need in ordered:
            values = self._values[need.relation, need.other]
            assert values is not None, "it would not pay"
            tests.append((need.column, values))
        made = Narrowed(name, source, tests, whole)
        made.version = self._backend.version(made.of(whole.rows()))
        self._plans.narrow(name, source)
        return made

    def _with(self, rule: NormalRule, atoms: Mapping[int, Narrow]) -> NormalRule:
        body = list(rule.body)
        for index, narrow in atoms.items():
            literal = body[index]
            assert isinstance(literal, Match)
            body[index] = replace(literal, relation=self.held[narrow].name)
        # Numbers below zero are no rule's: plans of the rule as it stands are kept beside these.
        return replace(rule, number=-1 - rule.number, body=tuple(body))


def needs_of(atom: Match, steps: tuple[Step, ...], relations: frozenset[str]) -> Iterator[Need]:
    """What rows of an atom need, so that lookups in lower relations which follow the one of the atom find something."""
    for path in _paths(steps):
        for at, step in enumerate(path):
            if step.read is Read.ONLY or not _is_of(step, atom):
                continue
            bound = {var.name: column for column, var in step.binds}
            for later in path[at + 1 :]:
                if later.relation in relations:
                    continue
                for column, arg in zip(later.prefix, later.lookup, strict=True):
                    if isinstance(arg, Var) and arg.name in bound:
                        yield Need(bound[arg.name], later.relation, column)


def _paths(steps: tuple[Step, ...]) -> Iterator[list[Probe]]:
    """The lookups of each way that the steps may go."""
    found: list[Probe] = []
    for step in steps:
        if isinstance(step, Either):  # which is always the last, or followed by what all its ways have in common
            rest = steps[steps.index(step) + 1 :]
            for option in step.options:
                yield from ([*found, *path] for path in _paths((*option, *rest)))
            return
        if isinstance(step, Probe):
            found.append(step)
    yield found


def _is_of(step: Probe, atom: Match) -> bool:
    """Whether a lookup is that of an atom, or of one that is the same in all columns that it uses."""
    return (
        step.relation == atom.relation
        and all(atom.args[column] == var for column, var in step.binds)
        and all(atom.args[column] == arg for column, arg in zip(step.prefix, step.lookup, strict=True))
    )
