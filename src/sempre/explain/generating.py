"""What gives values in a rule besides its atoms, `range` and counters, as relations for whoever asks about the rule.

A bench knows atoms and tests. There `x = range(a, b)` is an atom of a relation whose rows are made when they are asked
for, for the bounds that the rest of the body has. A counter is an atom of the relation that keeps its numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sempre.analysis.model import Call, CheckedProgram, Compare, Kind, Literal, Match, NormalRule, Stratum, Var
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic
from sempre.kernel.layout import Column
from sempre.kernel.values import float_codes, floats_of
from sempre.rewrites.guarding import AUTOINC
from sempre.rewrites.ranges import asked_ranges, has_ranges

# More numbers take gigabytes, and nobody reads the answer.
MOST_NUMBERS = 1 << 27


@dataclass(frozen=True, slots=True)
class Generated:
    """A program without generators, and by relation the rules that ask for the bounds of its numbers."""

    program: CheckedProgram
    asks: dict[str, NormalRule]


def without_generators(program: CheckedProgram, evaluated: CheckedProgram) -> Generated:
    """A program as a bench has it; `evaluated` is the one that keeps the numbers of counters."""
    counted = [_counted(rule, evaluated) for rule in program.rules]
    keeping = {name: evaluated.relations[name] for _, names in counted for name in names}
    if not keeping and not has_ranges(program):
        return Generated(program, {})
    program = replace(program, rules=tuple(rule for rule, _ in counted))
    asked = asked_ranges(program, 1 + max(rule.number for rule in program.rules))
    of_number = {rule.number: rule for rule in asked.rules}
    strata = [
        replace(
            stratum,
            nonrecursive=tuple(of_number[rule.number] for rule in stratum.nonrecursive),
            recursive=tuple(of_number[rule.number] for rule in stratum.recursive),
        )
        for stratum in program.strata
    ]
    made_by = {rule.relation: (rule,) for rule in asked.asks.values()}
    for name in (*keeping, *asked.relations):
        strata.append(Stratum(len(strata), (name,), made_by.get(name, ()), ()))
    relations = {**program.relations, **keeping, **asked.relations}
    rules = (*asked.rules, *asked.asks.values())
    return Generated(replace(program, rules=rules, relations=relations, strata=tuple(strata)), asked.asks)


# -------------------------------------------------------------------------------------------------- counters


def _counter(literal: Literal) -> Var | None:
    """The variable of `x = autoinc()`."""
    if isinstance(literal, Compare) and isinstance(literal.left, Var) and isinstance(literal.right, Call):
        return literal.left if literal.right.op == AUTOINC else None
    return None


def _counted(rule: NormalRule, evaluated: CheckedProgram) -> tuple[NormalRule, list[str]]:
    """A rule with the relations of its counters in their places, and these relations."""
    if all(_counter(literal) is None for literal in rule.body):
        return rule, []
    atoms = _numbers_of(rule, evaluated)
    body = tuple(literal if (var := _counter(literal)) is None else atoms[var] for literal in rule.body)
    return replace(rule, body=body), [atom.relation for atom in atoms.values()]


def _numbers_of(rule: NormalRule, evaluated: CheckedProgram) -> dict[Var, Match]:
    """By the variables of counters, the atoms that the rule has for them where it is evaluated."""
    wanted = {var for literal in rule.body if (var := _counter(literal)) is not None}
    found: list[tuple[int, dict[Var, Match]]] = []
    for other in evaluated.rules:
        if other.text == rule.text and other.span == rule.span:
            kept = [each for each in other.body if isinstance(each, Match) and each.relation.startswith(f"{AUTOINC}#")]
            atoms = {last: atom for atom in kept if isinstance(last := atom.args[-1], Var)}
            names = {atom.relation for atom in kept}
            makers = (maker for maker in evaluated.rules if maker.relation in names)
            # Alternatives of a body have one text: the one that is meant shares most with this rule.
            alike = sum(literal in rule.body for maker in makers for literal in maker.body)
            found += [(alike, atoms)] if wanted <= atoms.keys() else []
    return max(found, key=lambda each: each[0])[1]


# ---------------------------------------------------------------------------------------------------- ranges


def numbers(kind: Kind, begin: Any, end: Any, step: Any = None) -> Iterator[Any]:
    """What `range(begin, end, step)` gives, as Python values; floats are added up one by one."""
    if step is None:
        step = 1 if begin < end or kind is Kind.UNSIGNED else -1
    if step == 0:
        yield from [begin] if begin != end and begin == begin else []
    while begin < end if step > 0 else step < 0 and begin > end:
        yield begin
        if begin + step == begin:  # a float that is too large for the step: there is nothing behind it
            return
        begin = begin + step


def how_many(kind: Kind, begin: Any, end: Any, step: Any = None) -> int:
    """How many numbers a range has at most; of floats, about so many."""
    if step is None:
        step = 1 if begin < end or kind is Kind.UNSIGNED else -1
    if not (begin < end if step > 0 else step < 0 and begin > end):
        return 1
    if kind is not Kind.FLOAT:
        return int((abs(end - begin) - 1) // abs(step) + 1)
    steps = abs(end - begin) / abs(step)
    is_one = steps != steps or begin + step == begin  # inf / inf, or nothing comes of a step
    return 1 if is_one else int(min(steps, 2.0**64)) + 1


def numbers_of_codes(kind: Kind, bounds: Sequence[Column]) -> list[Column]:
    """Rows of bounds, and each number that is between them: what a relation for a `range` has."""
    rows = list(zip(*(_values(kind, column) for column in bounds), strict=True))
    total = sum(how_many(kind, *row) for row in rows)
    if total > MOST_NUMBERS:
        hint = "Ask for fewer: a range is made before the rest of the question is looked at."
        raise DataError(Diagnostic("E510", f"a `range` of {total:,} numbers is too long for a question", hint=hint))
    made = [_run(kind, *row) for row in rows]
    sizes = [each.size for each in made]
    columns = [np.repeat(np.ascontiguousarray(column), sizes) for column in bounds]
    return [*columns, np.concatenate(made) if made else np.zeros(0, np.int64)]


def _run(kind: Kind, begin: Any, end: Any, step: Any = None) -> Column:
    """The codes of the numbers of one range."""
    if kind is Kind.FLOAT or step == 0:
        return _codes(kind, tuple(numbers(kind, begin, end, step)))
    if step is None:
        step = 1 if begin < end or kind is Kind.UNSIGNED else -1
    count = how_many(kind, begin, end, step) if (begin < end if step > 0 else begin > end) else 0
    word = (1 << 64) - 1
    at = np.arange(count, dtype=np.uint64)
    return (at * np.uint64(step & word) + np.uint64(begin & word)).view(np.int64)


def _values(kind: Kind, column: Column) -> list[Any]:
    held = floats_of(column) if kind is Kind.FLOAT else column.view(np.uint64) if kind is Kind.UNSIGNED else column
    return list(held.tolist())


def _codes(kind: Kind, values: tuple[Any, ...]) -> Column:
    if kind is Kind.FLOAT:
        return float_codes(np.array(values, np.float64))
    if kind is Kind.UNSIGNED:
        return np.array(values, np.uint64).view(np.int64)
    return np.array(values, np.int64)
