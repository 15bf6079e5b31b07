"""What a strategy is: how one stratum follows a change, and what it works with.

A strategy brings one stratum up to date after everything below it is. It reads versions, never changes one, and
returns new versions with the net change; so an epoch that fails anywhere leaves nothing behind. Whatever else it needs
from epoch to epoch (counters, iteration numbers) is its `memory`, an immutable value that the engine keeps with the
state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sempre.analysis.model import CheckedProgram, Stratum
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, StateError
from sempre.maintain.decide import Decision
from sempre.maintain.planning import Plans
from sempre.modules.spec import Module
from sempre.plan.backend import Backend, Counted, Rows, Version

if TYPE_CHECKING:
    from sempre.maintain.memory import Memory

Set = TypeVar("Set", Rows, Counted)


class Abandoned(Exception):
    """An update gave up, and why: maintaining would cost more than starting again."""


@dataclass(frozen=True, slots=True)
class Change:
    """The net change of one relation: rows that came and rows that went."""

    plus: Rows
    minus: Rows

    def __bool__(self) -> bool:
        return bool(len(self.plus) or len(self.minus))


class DeferredMemory:
    """The memory of a stratum that is made when it is first needed: it is still to be read, or to be made again."""

    def __init__(self, make: Callable[[], Memory | None]) -> None:
        self._make: Callable[[], Memory | None] | None = make
        self._made: Memory | None = None

    def get(self) -> Memory | None:
        """The memory."""
        if self._make is not None:
            self._made, self._make = self._make(), None
        return self._made

    @staticmethod
    def settled(memory: Memory | DeferredMemory | None) -> Memory | None:
        """The memory itself, whether it was deferred or not."""
        return memory.get() if isinstance(memory, DeferredMemory) else memory


class Phase(Enum):
    """What an update is about to do: to find the instances that a change below makes and breaks, and two fixpoints.

    What comes before is for the epochs to come too.
    """

    COMPARING = "comparing"
    DELETING = "deleting"
    INSERTING = "inserting"


@dataclass(slots=True)
class Work:
    """One epoch under way: all of it, or what it has for one stratum, at the place of `backend`.

    `old` has every relation as it was; `new` has those that are up to date already, `changes` how they changed.
    `explicit` has the explicit facts of every relation after the epoch, `explicit_before` those before it,
    `explicit_changes` the difference.
    `modules` are the rules of each stratum that have an algorithm of their own, by the stratum's index.
    With `debug` they are held against their bounds while they work. `decision` is what was decided for the stratum.
    With `maintain_only`, evaluating a stratum anew is refused. `notes` says what strategies decided on the way.
    `on_round` is told the stratum's rounds as they happen, and may raise to abandon the epoch.
    `on_phase` is told what the rounds to come are for.
    """

    program: CheckedProgram
    backend: Backend
    plans: Plans
    old: dict[str, Version]
    explicit: Mapping[str, Version]
    explicit_before: Mapping[str, Version]
    explicit_changes: Mapping[str, Change]
    on_round: Callable[[int, int], None]
    new: dict[str, Version] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    modules: Mapping[int, tuple[Module, ...]] = field(default_factory=dict)
    debug: bool = False
    decision: Decision | None = None
    on_phase: Callable[[Phase], None] = lambda phase: None
    maintain_only: bool = False


def refuse_recomputation(work: Work, stratum: Stratum, why: str) -> None:
    """Raise where the caller would rather have no epoch than one that evaluates a stratum anew."""
    if work.maintain_only:
        what = ", ".join(stratum.relations)
        hint = "Nothing was applied. Run it without --fail-on-recompute to have it recomputed."
        raise StateError(Diagnostic("E665", f"`{what}` would be recomputed", detail=why, hint=hint))


@dataclass(frozen=True, slots=True)
class Outcome:
    """A stratum brought up to date: its relations, how they changed, and what the strategy wants to remember.

    `how` names what was done where the strategy had a choice, `why` the numbers that the choice was based on; `modules`
    are those that took part.
    """

    versions: dict[str, Version]
    changes: dict[str, Change]
    memory: Memory | None
    rounds: int
    how: str = ""
    why: str = ""
    modules: tuple[Module, ...] = ()


class Strategy(Protocol):
    """How strata follow changes. Strategies hold no state of their own.

    One that is `forgetful` can update a stratum that it remembers nothing of.
    """

    name: str

    @property
    def forgetful(self) -> bool: ...

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        """The stratum from scratch; it was empty before."""
        ...

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        """The stratum after the changes, given what it was and the memory of the last time: one that it made."""
        ...

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> Memory | None:
        """A memory to go on with from facts alone, when there is none; in `standing()` nothing changes."""
        ...


def difference(backend: Backend, old: Version, new: Version) -> Change:
    """How `new` differs from `old`."""
    return Change(backend.difference(new.rows(), old), backend.difference(old.rows(), new))


def as_update(work: Work, stratum: Stratum, outcome: Outcome) -> Outcome:
    """A run from scratch as an update of what was there before."""
    changes = {name: difference(work.backend, work.old[name], outcome.versions[name]) for name in stratum.relations}
    work.backend.settle(rows for change in changes.values() for rows in (change.plus, change.minus))
    return replace(outcome, changes=changes)


def nonempty(backend: Backend, sets: Mapping[str, Set]) -> dict[str, Set]:
    """Those of the sets that are not empty, found out together."""
    backend.settle(sets.values())
    return {name: rows for name, rows in sets.items() if len(rows)}
