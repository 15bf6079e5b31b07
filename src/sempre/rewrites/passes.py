"""The rewrites, in order: functions from a checked program to a checked program that means the same.

A rewrite may add relations, whose names have a `#`, and rules that derive them. It may change the rules of a relation,
but not what these derive. What it leaves to be derived later is in `CheckedProgram.deferred`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from sempre.analysis.model import CheckedProgram
from sempre.rewrites.demand import with_demand
from sempre.rewrites.equivalences import close_equivalences
from sempre.rewrites.fields import with_fields
from sempre.rewrites.guarding import with_guards
from sempre.rewrites.lasting_names import with_lasting_names
from sempre.rewrites.ranges import with_ranges
from sempre.rewrites.successors import with_neighbors

Rewrite = Callable[[CheckedProgram], CheckedProgram]

REWRITES: tuple[Rewrite, ...] = (
    with_demand,
    with_guards,
    with_ranges,
    with_fields,
    with_lasting_names,
    close_equivalences,
    with_neighbors,
)


def rewrite(program: CheckedProgram, without: Collection[Rewrite] = ()) -> CheckedProgram:
    """The program as it is evaluated; rewrites in `without` are passed over."""
    for pass_ in REWRITES:
        if pass_ not in without:
            program = pass_(program)
    return program
