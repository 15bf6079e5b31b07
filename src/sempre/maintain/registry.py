"""All strategies, and all kinds of memories. A new one is added here and to `names`."""

from __future__ import annotations

from sempre.maintain.auto import Auto, ChosenStrategy
from sempre.maintain.backward_forward import BackwardForward
from sempre.maintain.dred import DRed
from sempre.maintain.dredc import Counters, DRedC
from sempre.maintain.iterations import ByIteration, Levels
from sempre.maintain.memory import Memory
from sempre.maintain.modular import PartitionedMemory
from sempre.maintain.ranked import Ranked, Ranks
from sempre.maintain.recompute import Recompute
from sempre.maintain.sequence import SortedSource
from sempre.maintain.strategy import Strategy
from sempre.maintain.strategy_names import STRATEGY_NAMES

_MADE: tuple[Strategy, ...] = (
    Auto(),
    Recompute(),
    DRed(),
    DRedC(),
    BackwardForward(False),
    BackwardForward(True),
    ByIteration(False),
    ByIteration(True),
    Ranked(),
)
_MEMORIES: tuple[type[Memory], ...] = (Counters, Ranks, Levels, ChosenStrategy, PartitionedMemory, SortedSource)

# By the name that a user gives; a stratum of neighbors has a strategy of its own, `Sequence`.
STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in _MADE}
assert tuple(STRATEGIES) == STRATEGY_NAMES

# By their kind.
MEMORIES: dict[str, type[Memory]] = {memory.kind: memory for memory in _MEMORIES}
