"""About how many rows a lookup finds, from what is measured of the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sempre.analysis.model import Match, Var
from sempre.data import dataclass
from sempre.limits import Limits
from sempre.plan.conjuncts import Goal, binding, is_known, match_of


class Statistics(Protocol):
    """What the planner wants to know of the data, and the thresholds it goes by."""

    @property
    def limits(self) -> Limits: ...

    def size(self, relation: str) -> int: ...

    def distinct(self, relation: str, column: int) -> int:
        """About how many different values a column has; at least 1."""
        ...

    def crowd(self, relation: str, column: int) -> float:
        """About how many rows have the value of the column that a row of the relation has: hubs weigh most."""
        ...

    def matching(self, relation: str, columns: tuple[int, ...]) -> Matching | None:
        """What a lookup by these columns together finds; None where no more is known than each column alone."""
        ...


@dataclass(frozen=True, slots=True)
class Matching:
    """About how many rows have the same values of some columns: for a value on average, and for a row on average."""

    mean: float
    crowd: float

    @property
    def fanout(self) -> float:
        """Between the two: who looks values up may ask for all alike, or for common ones more often."""
        return float((self.mean * self.crowd) ** 0.5)


def fanout_of(literal: Goal, known: frozenset[str], statistics: Statistics) -> float:
    """About how many rows of the atom join with one row so far."""
    match = match_of(literal)
    size = float(statistics.size(match.relation))
    bound = tuple(column for column, arg in enumerate(match.args) if is_known(arg, known))
    if len(bound) == len(match.args):
        return 0.0
    if not bound:  # after everything bound
        return 1e6 + size
    together = statistics.matching(match.relation, bound)
    if together is not None:
        return together.fanout
    fanout = size
    for column in bound:
        fanout /= statistics.distinct(match.relation, column)
    # Never below what independent columns can promise.
    return max(fanout, 1e-3)


def preferred(body: Sequence[Goal], atoms: list[int], known: frozenset[str], statistics: Statistics) -> int | None:
    """The atom that joins with fewest rows, of several the first by name; None if there are no atoms.

    Its place in the text says nothing: the order there does not matter.
    """
    if len(atoms) < 2:
        return atoms[0] if atoms else None
    fanouts = [fanout_of(body[index], known, statistics) for index in atoms]
    least = min(fanouts)
    alike = [index for index, fanout in zip(atoms, fanouts, strict=True) if fanout == least]
    return alike[0] if len(alike) == 1 else min(alike, key=lambda index: _shown(match_of(body[index])))


def _shown(match: Match) -> tuple[str, str]:
    """An atom as text, without the names that were made up for it."""
    shown = " ".join("_" if isinstance(arg, Var) and arg.name.startswith("#") else str(arg) for arg in match.args)
    return match.relation, shown


def may_expand(literal: Goal, known: frozenset[str], statistics: Statistics) -> bool:
    """Whether looking an atom up may find many rows."""
    if not isinstance(literal, Match) or not binding(literal) - known:
        return False
    bound = [column for column, arg in enumerate(literal.args) if is_known(arg, known)]
    return (
        bool(bound)
        and min(statistics.crowd(literal.relation, column) for column in bound) >= statistics.limits.crowd_rows
    )


def is_uncertain(picked: Match, other: Match, known: frozenset[str], statistics: Statistics) -> bool:
    """Whether the first may well find some rows, and more than the other."""
    found = _matching(picked, known, statistics)
    rival = _matching(other, known, statistics)
    if found is None or rival is None:
        return False
    limits = statistics.limits
    return found.crowd >= limits.expanding_rows and rival.mean < found.crowd * limits.uncertain_share


def _matching(match: Match, known: frozenset[str], statistics: Statistics) -> Matching | None:
    bound = tuple(column for column, arg in enumerate(match.args) if is_known(arg, known))
    return statistics.matching(match.relation, bound) if bound else None
