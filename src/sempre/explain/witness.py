"""Witness paths: proofs in closures that are too large to look for backward.

A stratum that consists of one relation under transitivity (an equivalence also under symmetry) is the closure of its
*generators*, the facts that other rules derive or that are explicit. A shortest path of generators is found by breadth
first search; halving it makes a balanced proof, and no proof by the transitive rule is of less height.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sempre.analysis.model import Expr, Match, NormalRule, Stratum, Var
from sempre.backends.bindings import Bindings, compute
from sempre.explain.inquiries import Bench, CodedFact, inquiry

if TYPE_CHECKING:
    from sempre.explain.prover import ProofStep, Prover
    from sempre.kernel.layout import Column


def closure_of(prover: Prover, stratum: Stratum) -> Witness | None:
    """The closure that a stratum is, if it is one."""
    if len(stratum.relations) != 1 or not stratum.recursive:
        return None
    (name,) = stratum.relations
    if prover.program.relations[name].arity != 2:
        return None
    transitive = [rule for rule in stratum.recursive if _is_transitive(rule)]
    symmetric = [rule for rule in stratum.recursive if _is_symmetric(rule)]
    if not transitive or len(transitive) + len(symmetric) != len(stratum.recursive):
        return None
    return Witness(prover, stratum, name, transitive[0], symmetric[0] if symmetric else None)


def _shape(rule: NormalRule) -> tuple[tuple[str, ...], ...] | None:
    """The variables of the head and of each atom, where a rule has nothing else."""
    found: list[tuple[str, ...]] = []
    for args in (rule.args, *(literal.args if isinstance(literal, Match) else () for literal in rule.body)):
        names = tuple(arg.name for arg in args if isinstance(arg, Var))
        if len(names) != 2 or len(args) != 2:
            return None
        found.append(names)
    return tuple(found)


def _own(rule: NormalRule) -> bool:
    return all(isinstance(literal, Match) and literal.relation == rule.relation for literal in rule.body)


def _is_transitive(rule: NormalRule) -> bool:
    shape = _shape(rule)
    if shape is None or len(shape) != 3 or not _own(rule):
        return False
    (x, z), first, second = shape
    pairs = sorted((first, second), key=lambda pair: pair[0] != x)
    return len({x, z, pairs[0][1]}) == 3 and pairs[0] == (x, pairs[0][1]) and pairs[1] == (pairs[0][1], z)


def _is_symmetric(rule: NormalRule) -> bool:
    shape = _shape(rule)
    return (
        shape is not None and len(shape) == 2 and _own(rule) and shape[0] == shape[1][::-1] and len(set(shape[0])) == 2
    )


class Witness:
    """Shortest paths of generators in one closure."""

    def __init__(
        self, prover: Prover, stratum: Stratum, name: str, transitive: NormalRule, symmetric: NormalRule | None
    ) -> None:
        self.name = name
        self._numbers = {each.rule.number: at for at, each in enumerate(prover.rules)}
        self._transitive, self._symmetric = transitive, symmetric
        starts, ends = self._generators(prover, stratum)
        if symmetric is not None:
            starts, ends = np.concatenate([starts, ends]), np.concatenate([ends, starts])
        order = np.argsort(starts, kind="stable")
        self._starts, self._ends = starts[order], ends[order]

    def _generators(self, prover: Prover, stratum: Stratum) -> tuple[Column, Column]:
        """Explicit facts, and what rules without recursion derive."""
        bench, explicit = prover.bench, prover.state.explicit(self.name).rows()
        found = [explicit.columns()]
        for rule in stratum.nonrecursive:
            question = inquiry(len(bench.program.rules), rule, rule.body)
            whole = Bench(prover.state, [question])
            rows = whole.ask_rows(question)
            columns = dict(zip(question.variables, rows.columns(), strict=True))
            found.append([_value(prover, arg, columns, len(rows)) for arg in rule.args])
            whole.close()
        return tuple(np.concatenate([columns[at] for columns in found]) for at in (0, 1))  # type: ignore[return-value]

    def _path(self, source: int, target: int) -> list[int]:
        """The nodes of a shortest path with at least one edge."""
        back: dict[int, int] = {}
        frontier = np.array([source])
        while frontier.size:
            low, high = (self._starts.searchsorted(frontier, side=side) for side in ("left", "right"))
            counts = high - low
            froms = np.repeat(frontier, counts)
            offsets = np.repeat(low - (np.cumsum(counts) - counts), counts) + np.arange(froms.size)
            coming: list[int] = []
            for start, end in zip(froms.tolist(), self._ends[offsets].tolist(), strict=True):
                if end not in back:
                    back[end] = start
                    coming.append(end)
            if target in back:
                break
            frontier = np.array(coming, np.int64)
        path = [target]
        while len(path) == 1 or path[-1] != source:
            path.append(back[path[-1]])
        return path[::-1]

    def steps(self, prover: Prover, asked: Sequence[CodedFact]) -> dict[CodedFact, ProofStep]:
        """A proof for each of some facts."""
        from sempre.explain.prover import ProofStep

        found: dict[CodedFact, ProofStep] = {}
        paths = [self._path(source, target) for _, (source, target) in asked]
        edges = dict.fromkeys((self.name, edge) for path in paths for edge in itertools.pairwise(path))
        if self._symmetric is not None:  # which may be what turns a generator round
            edges.update(dict.fromkeys([(self.name, (target, source)) for _, (source, target) in edges]))
        explicit, steps = prover.instances(list(edges))
        for step in steps:
            if all(premise[0] != self.name for premise in step.premises):
                found.setdefault(step.fact, replace(step, height=1))
        found.update({fact: ProofStep(fact, 1) for fact in explicit})
        for path in paths:
            self._halve(prover, path, found)
        return found

    @property
    def is_least(self) -> bool:
        """Whether no proof is of less height: turning an edge round takes a level, which another path may spare."""
        return self._symmetric is None

    def _halve(self, prover: Prover, path: list[int], found: dict[CodedFact, ProofStep]) -> int:
        """A step for the ends of a path, and for all below; returns its height."""
        fact = (self.name, (path[0], path[-1]))
        if fact in found:
            return found[fact].height
        if len(path) > 2:
            middle = (len(path) - 1) // 2
            parts = (path[: middle + 1], path[middle:])
            height = 1 + max(self._halve(prover, part, found) for part in parts)
            premises = tuple((self.name, (part[0], part[-1])) for part in parts)
            found[fact] = self._by_rule(prover, self._transitive, fact, height, premises)
            return height
        assert self._symmetric is not None
        turned = (self.name, (path[-1], path[0]))
        height = 1 + self._halve(prover, path[::-1], found)
        found[fact] = self._by_rule(prover, self._symmetric, fact, height, (turned,))
        return height

    def _by_rule(
        self, prover: Prover, rule: NormalRule, fact: CodedFact, height: int, premises: tuple[CodedFact, ...]
    ) -> ProofStep:
        """The instance of a rule of nothing but atoms that has these premises, in the order of its body."""
        from sempre.explain.prover import ProofStep

        at = self._numbers[rule.number]
        values: dict[str, int] = {}
        for arg, code in zip(rule.args, fact[1], strict=True):
            assert isinstance(arg, Var)
            values[arg.name] = code
        ordered = premises
        if len(premises) == 2:
            first = rule.body[0]
            assert isinstance(first, Match)
            ordered = premises if first.args[0] == rule.args[0] else premises[::-1]
        for literal, premise in zip(rule.body, ordered, strict=True):
            assert isinstance(literal, Match)
            for arg, code in zip(literal.args, premise[1], strict=True):
                assert isinstance(arg, Var)
                values[arg.name] = code
        binding = tuple(values[name] for name in prover.rules[at].question.variables)
        return ProofStep(fact, height, at, binding, ordered)


def _value(prover: Prover, arg: Expr, columns: dict[str, Column], size: int) -> Column:
    return compute(prover.state.values, arg, Bindings(size, columns, {}))
