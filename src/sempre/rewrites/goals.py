"""Programs cut down to what is wanted of them: their outputs, or the answers to one question."""

from __future__ import annotations

from sempre.analysis.model import CheckedProgram
from sempre.rewrites.demand import Goal, Pattern, demanded

MAGIC_PRAGMAS = ("magic", "magic-transform")


def for_outputs(program: CheckedProgram, magic: bool = False) -> CheckedProgram:
    """What the outputs need; a program without outputs is asked for everything.

    Relations that are not needed have no rules, facts and inputs. `magic`, in the call, as a pragma or as the qualifier
    of single relations, goes on to derive only those facts that can matter; `no_magic` keeps a relation whole.
    """
    shown = {name for name, relation in program.relations.items() if relation.outputs or relation.printsize}
    whole = frozenset(shown or program.relations)
    is_magic = magic or asks_for_magic(program)
    on_demand = frozenset(
        name
        for name, relation in program.relations.items()
        if name not in kept_whole(program)
        and (is_magic or {"magic", "demand"} & relation.qualifiers)
        and "no_magic" not in relation.qualifiers
    )
    return demanded(program, Goal(whole, on_demand))


def kept_whole(program: CheckedProgram) -> frozenset[str]:
    """The relations with guards and those that recur with them: with fewer rows derived, others would stay."""
    strata = (stratum.relations for stratum in program.strata)
    return frozenset(name for names in strata if any(name in program.guards for name in names) for name in names)


def asks_for_magic(program: CheckedProgram) -> bool:
    """Whether a pragma of the program asks for magic sets."""
    return any(pragma in program.pragmas for pragma in MAGIC_PRAGMAS)


def for_question(program: CheckedProgram, relation: str, pattern: Pattern) -> CheckedProgram:
    """What is needed for the facts of a relation whose columns in `pattern` are given.

    Who asks puts the given values into `demand_name(relation, pattern)`, if there is such a relation: not if all facts
    have to be derived anyway.
    """
    if not pattern:
        return demanded(program, Goal(frozenset((relation,)), frozenset()))
    return demanded(
        program, Goal(frozenset(), frozenset(program.relations) - kept_whole(program), {relation: (pattern,)})
    )
