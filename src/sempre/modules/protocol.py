"""What a module of a user's must do: the contract between an algorithm for some rules and the framework.

A `RuleModule` names the rules that it takes. `start` gives a `ModuleState`, which is told of facts that come and go
*from outside*: facts of the relations that the rules read, and of the relations that they derive into, as far as other
rules or the user give them. What the state answers itself it is never told of. So its answers must be complete: with a
fact comes everything that follows from it by any number of steps of the rules.

Facts are columns of 64-bit integers, one array a column, all of one length. A `number` is itself, an `unsigned` or a
`float` the bits of its value; a symbol or a record is a number that says nothing but whether two values are equal.

Reference: [Hu22] Table 1, which has the bounds; section 5.2 for why they are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

ModuleColumns: TypeAlias = Sequence[NDArray[np.int64]]
ModuleFacts: TypeAlias = Mapping[str, ModuleColumns]  # by relation
Trusted: TypeAlias = Callable[[str, ModuleColumns], ModuleColumns]


class ModuleState(Protocol):
    """What a module knows: the facts from outside, and what follows from them.

    The state is changed in place. After an epoch that failed, a dry run or a restart it is thrown away, and a new one
    is told of all facts from outside that stand. So a state that is wrong after an exception does no harm.
    """

    def add(self, facts: ModuleFacts) -> ModuleFacts:
        """Take facts in that were not there; returns what follows.

        At least: every fact of the rules' heads that has a derivation now and had none before. At most: facts that hold
        now, whether they held before or not. A fact may come more than once.
        """
        ...

    def remove(self, facts: ModuleFacts, derived: ModuleFacts, trusted: Trusted | None) -> ModuleFacts:
        """Forget facts that were taken in; returns what may be gone with them.

        `derived` are facts of the rules' heads that are gone too, though this state derived them itself: what rests
        on them is in question.

        `trusted` tells proofs from circles: `trusted("edge", columns)` gives those of these facts, all of which the
        state was told of, that are certain to hold after the epoch. It is None when all that are left are certain.

        At least: every fact that had a derivation from a forgotten or `derived` fact and has none from trusted facts
        alone. At most: facts that held. What is returned and still holds is asked for with `holds`, and comes back.
        """
        ...

    def holds(self, head: str, facts: ModuleColumns) -> NDArray[np.bool_]:
        """Which facts of a head have a derivation from the facts that are taken in now; those count themselves."""
        ...


@runtime_checkable
class RuleModule(Protocol):
    """An algorithm for some rules of one stratum: `Database(program, modules=["auto", MyModule()])`.

    `name` is what reports call it. `rules` says what it takes: each is the text of a rule, or the name of a relation
    for all its rules. The rules have atoms, constants and comparisons, and neither negation nor aggregates.
    """

    @property
    def name(self) -> str:
        """What reports and errors call it: another name than those of the kinds that sempre has itself."""
        ...

    @property
    def rules(self) -> Sequence[str]:
        """The rules that it takes: texts of rules, and names of relations for all their rules."""
        ...

    def start(self) -> ModuleState:
        """A state that knows nothing. It is asked for in every epoch, so it must cost next to nothing."""
        ...
