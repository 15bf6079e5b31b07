"""Active rules divided among workers: who has which facts, and who finds which rule instances.

Every fact has a *home*, the worker that the hash of its first column picks. There its chain is kept, and there it is
decided what happens to it. A rule is divided by one of its variables: each instance belongs to the worker that the hash
of that variable's value picks. An atom with the variable reads a *fragment* of its relation, the facts that the value
in that column brings to the worker; other atoms read a copy of all facts. So the fragments alone see to it that every
instance is found by exactly one worker, and rules are matched as in one process.

Reference: [Wolfson91] section 6: fragments are the restricting predicates, homes the data handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from sempre.analysis.model import CheckedProgram, Fold, Literal, Match, NormalRule, Not, Relation, Stratum, Var
from sempre.data import dataclass
from sempre.workers.framing import Column
from sempre.workers.placing import EVERYWHERE, Workers, home_column, owners

# The "column" of a fragment that has all facts, at the first worker alone.
FIRST = -2


@dataclass(frozen=True, slots=True)
class Fragment:
    """Some facts of a relation at every worker: by the value in a column, or all of them."""

    name: str
    relation: str
    column: int


@dataclass(frozen=True, slots=True)
class Sharding:
    """A program for workers: fragments are relations of it. `rules` are those of each worker."""

    program: CheckedProgram
    relations: tuple[str, ...]  # without fragments
    fragments: Mapping[str, tuple[Fragment, ...]]  # by the relation that they are of
    rules: tuple[tuple[NormalRule, ...], ...]

    @property
    def workers(self) -> int:
        return len(self.rules)

    def homes(self, name: str, columns: list[Column], size: int) -> Workers:
        """The home of each row."""
        column = home_column(self.program.relations[name])
        return np.zeros(size, np.intp) if column is None else owners(columns[column], self.workers)

    def holders(self, fragment: Fragment, columns: list[Column], size: int) -> Workers | None:
        """Who has each row in a fragment; None if all have it."""
        if fragment.column == EVERYWHERE:
            return None
        return np.zeros(size, np.intp) if fragment.column == FIRST else owners(columns[fragment.column], self.workers)


def sharded(program: CheckedProgram, workers: int) -> Sharding:
    """The program divided among so many workers."""
    fragments: dict[str, dict[int, Fragment]] = {}

    def read(name: str, column: int) -> str:
        if column == home_column(program.relations[name]) or workers == 1:
            return name
        known = fragments.setdefault(name, {})
        if column not in known:
            where = {EVERYWHERE: "all", FIRST: "first"}.get(column, str(column))
            known[column] = Fragment(f"{name}#at_{where}", name, column)
        return known[column].name

    divided: list[NormalRule] = []
    firsts: list[NormalRule] = []
    for rule in program.rules:
        by = dividing_variable(rule)
        body = tuple(_placed(literal, by, read) for literal in rule.body)
        divided.append(replace(rule, body=body))
        if by is not None:
            firsts.append(divided[-1])
    relations = dict(program.relations)
    for name, known in fragments.items():
        for fragment in known.values():
            relations[fragment.name] = _named(program.relations[name], fragment.name)
    rules = tuple(divided)
    strata = (Stratum(0, tuple(relations), (), rules),)
    return Sharding(
        replace(program, relations=relations, rules=rules, strata=strata),
        tuple(program.relations),
        {name: tuple(known.values()) for name, known in fragments.items()},
        tuple(rules if worker == 0 else tuple(firsts) for worker in range(workers)),
    )


def _named(relation: Relation, name: str) -> Relation:
    return replace(relation, name=name)


def dividing_variable(rule: NormalRule) -> str | None:
    """The variable that leaves the fewest atoms to be copied whole; None if no positive atom has one."""
    atoms = list(_atoms(rule.body))
    candidates = [
        arg.name for literal in rule.body if isinstance(literal, Match) for arg in literal.args if isinstance(arg, Var)
    ]
    if not candidates:
        return None
    return min(dict.fromkeys(candidates), key=lambda name: sum(_column(atom, name) is None for atom in atoms))


def _atoms(body: tuple[Literal, ...]) -> Iterator[Match]:
    for literal in body:
        if isinstance(literal, Match):
            yield literal
        elif isinstance(literal, Not | Fold):
            yield from _atoms(literal.body)


def _column(atom: Match, variable: str) -> int | None:
    return next((at for at, arg in enumerate(atom.args) if isinstance(arg, Var) and arg.name == variable), None)


def _placed(literal: Literal, by: str | None, read: Callable[[str, int], str]) -> Literal:
    """A literal that reads fragments for the worker of a variable's value; for the first worker if there is none."""
    if isinstance(literal, Match):
        column = None if by is None else _column(literal, by)
        where = FIRST if by is None else EVERYWHERE if column is None else column
        return replace(literal, relation=read(literal.relation, where))
    if isinstance(literal, Not | Fold):
        return replace(literal, body=tuple(_placed(each, by, read) for each in literal.body))
    return literal
