"""Which rules of a stratum have an algorithm of their own, as plain data.

A stratum is partitioned: every rule belongs to at most one `Module`, the rest to the generic module. A module derives
into relations that no other module derives into, but generic rules may derive into the same relations, and any rule
may read them.

Four kinds of module answer one question, what is reachable from what, over the facts that they did not derive
themselves: paths that an automaton accepts (`tc`, `linear`, `rch`), and connected components (`stc`). The last kind,
`seq`, keeps sorted neighbors; its stratum has nothing else. Modules of a user's own have the kind that the user names.

Reference: [Hu22] section 5.1; [HS04] for regular chains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from sempre.data import dataclass
from sempre.modules.protocol import RuleModule
from sempre.plan.ops import Automaton, Neighbors


@dataclass(frozen=True, slots=True)
class Module:
    """Some rules of one stratum that are evaluated together.

    `heads` are the relations it derives into, `rules` the numbers of the rules it owns, `reason` says in a sentence
    what was recognized. `paths` is missing for `stc`, which has one head, and for `seq`, which has an `order`. Those of
    `shortened` heads take one step over what is closed below, since a second would be the first. A module of the user's
    has the relations that it `reads`, its heads first, and how many columns each has.
    """

    kind: str
    heads: tuple[str, ...]
    rules: frozenset[int]
    reason: str
    paths: Automaton | None = None
    shortened: frozenset[str] = frozenset()
    order: Neighbors | None = None
    own: RuleModule | None = None
    reads: tuple[str, ...] = ()
    arities: Mapping[str, int] = field(default_factory=dict)

    @property
    def letters(self) -> tuple[str, ...]:
        """The relations whose facts it hears of."""
        if self.own is not None:
            return self.reads
        return self.heads if self.paths is None else self.paths.letters

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(self.heads)})"


def closure(relation: str) -> Automaton:
    """Paths of one relation: transitive closure."""
    return Automaton(1, ((0, relation, 0),), {relation: 0}, {relation: frozenset((0,))})
