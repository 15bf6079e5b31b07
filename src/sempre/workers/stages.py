"""The stages of a plan: steps that are taken where bindings are, and how these get there."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from sempre.backends.bindings import Runner
from sempre.backends.pipeline import Pipeline
from sempre.data import dataclass
from sempre.kernel.tally import Tally
from sempre.plan.ops import Read, Step
from sempre.workers.mesh import Gathered, Parcel
from sempre.workers.shards import ShardView

if TYPE_CHECKING:
    from sempre.workers.nested import Nested

ShardViews: TypeAlias = Mapping[tuple[str, Read], "ShardView | Tally"]
# The first column of what a step looks up, and so where its rows are: None where they are at home.
Homes: TypeAlias = Mapping[str, "int | None"]

# What stops where workers exchange something: it says what it sends, and goes on with what came.
T = TypeVar("T")
Sending: TypeAlias = Generator[Parcel, Gathered, T]

# The versions that all workers have whole.
Copied: TypeAlias = frozenset[tuple[str, Read]]
# Versions and columns with values whose rows are split over all workers.
Lookup: TypeAlias = tuple[str, Read, int]
Splits: TypeAlias = frozenset[Lookup]

# Relation, version, and the column that places what is read of it.
Placed: TypeAlias = tuple[tuple[str, Read, "int | None"], ...]


@dataclass(frozen=True, slots=True)
class Route:
    """Where bindings go: to the worker of a variable's value or of a constant, to the first worker, or to all."""

    var: str | None = None
    worker: int = 0
    everywhere: bool = False
    direct: bool = False  # the value of the variable is the number of a worker
    split: Lookup | None = None  # bindings with a value whose rows are split go to all workers


@dataclass(slots=True)
class Local:
    """A step that is taken where the bindings are."""

    step: Step
    run: Runner
    reads: Placed


@dataclass(slots=True)
class Stretch:
    """Steps of the last stage, one after the other, which go on to what takes the heads."""

    steps: Pipeline
    reads: Placed


@dataclass(slots=True)
class Stage:
    """Steps that need no travelling, after what brings the bindings to where they are taken."""

    route: Route | None = None
    names: tuple[str, ...] = ()  # the variables that travel
    nested: Nested | None = None
    is_distinct: bool = False
    steps: list[Local] = field(default_factory=list)
