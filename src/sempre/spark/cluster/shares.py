"""Which strata close inside tasks, and how their work is shared: decided from the rules and from sizes alone.

Where all recursion of a stratum is that of one path module (transitive closure, linear and regular chains,
equivalences), every task has a copy of the edges and searches from a block of the first values.

Otherwise, a linear recursive rule that hands some columns of its recursive atom on to its head, as `x` and `n` in
`reach(x, z, n) :- reach(x, y, n), edge(y, z)`, keeps what it derives with what it derives it from. So the first facts
of the stratum are shared out by those columns, each task has a copy of everything else that the rules read, and closes
its share alone. No fact is in two shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from sempre.analysis.model import CheckedProgram, Kind, Match, NormalRule, Relation, Stratum, Var
from sempre.analysis.naming import counted
from sempre.data import dataclass
from sempre.limits import DEFAULTS, Limits
from sempre.maintain.decide import needed_bytes
from sempre.modules.choice import PATH_KINDS
from sempre.modules.find import partition
from sempre.modules.spec import Module
from sempre.plan.ops import relations_of
from sempre.spark.task_room import TaskRoom

# Beyond this many combinations of columns of mutually recursive relations nobody looks for a key.
MOST_COMBINATIONS = 4096
START = "@start"
UNKNOWN = TaskRoom()


@dataclass(frozen=True, slots=True)
class Split:
    """How a stratum closes inside tasks.

    `program` is what a task evaluates; its last stratum is the one to share, those before it are evaluated in every
    task. `keys` has the columns that decide which share a first fact belongs to. `explicit` says as what the explicit
    facts of a relation go in. If `seeded`, the first facts of the stratum come from outside, as a frame. With a
    `module`, it is first values of paths that are shared out, not facts. `room` is how many bytes a task may take that
    has all of the stratum, 0 if nobody knows; a task that outgrows it gives up.
    """

    program: CheckedProgram
    keys: Mapping[str, tuple[int, ...]]
    explicit: Mapping[str, str]
    parts: int
    seeded: bool
    reason: str
    module: Module | None = None
    room: int = 0

    @property
    def stratum(self) -> Stratum:
        """The stratum that is shared."""
        return self.program.strata[-1]

    @property
    def copied(self) -> tuple[str, ...]:
        """The relations that every task has a copy of, as the program names them."""
        own = set() if not self.seeded else set(self.stratum.relations)
        renamed = {new: old for old, new in self.explicit.items()}
        made = set(self.stratum.relations) - set(renamed)
        return tuple(renamed.get(name, name) for name in self.program.relations if name not in own | made)


def decide(
    program: CheckedProgram,
    stratum: Stratum,
    sizes: Mapping[str, int],
    parts: int | None = None,
    limits: Limits = DEFAULTS,
    room: TaskRoom = UNKNOWN,
) -> Split | None:
    """How to close the stratum inside tasks, or nothing if that cannot be done or is not worth it; see `why_not`.

    `sizes` has the rows of every relation that the stratum reads, and the explicit facts of its own. Tasks are given as
    much as they have `room` for, and a moderate number of rows where that is not known.
    """
    found = _decide(program, stratum, sizes, parts, limits, room)
    return None if isinstance(found, str) else found


def why_not(
    program: CheckedProgram,
    stratum: Stratum,
    sizes: Mapping[str, int],
    limits: Limits = DEFAULTS,
    room: TaskRoom = UNKNOWN,
) -> str:
    """Why `decide` has nothing to offer; empty if it has."""
    found = _decide(program, stratum, sizes, None, limits, room)
    return found if isinstance(found, str) else ""


def _decide(
    program: CheckedProgram,
    stratum: Stratum,
    sizes: Mapping[str, int],
    parts: int | None,
    limits: Limits,
    room: TaskRoom,
) -> Split | str:
    if not stratum.recursive:
        return "it is not recursive"
    reads = _reads((*stratum.nonrecursive, *stratum.recursive), stratum)
    flat = [name for name in (*reads, *stratum.relations) if not program.relations[name].arity]
    if flat:
        return f"`{flat[0]}` has no columns"
    total = sum(sizes.get(name, 0) for name in (*reads, *stratum.relations))
    shares = min(limits.most_shares, max(limits.fewest_shares, total // limits.share_rows))
    count = parts or (1 if total <= limits.single_share_rows else shares)
    needed = needed_bytes(program, stratum, lambda name: sizes.get(name, 0))
    copies = total <= limits.copied_rows or needed <= room.beside * limits.task_share
    alone = total <= limits.whole_rows or needed <= room.alone * limits.task_share
    if copies:
        whole = _task_program(program, _as_it_is(stratum), reads)
        module = _only_module(whole)
        if module is not None:
            blocks = f"from {counted(count, 'block')} of first values"
            reason = f"paths ({module.reason}): {blocks}, {counted(total, 'row')} copied to each task"
            return Split(whole, {}, {name: name for name in stratum.relations}, count, False, reason, module)
    linear = _linearized(program, stratum)
    keys = _keys(program, linear.stratum)
    if not keys:
        if not alone:
            return f"it does not split by columns, and {total:,} rows are too many for one task"
        reason = f"it does not split by columns, and all of it ({counted(total, 'row')}) goes to one task"
        return Split(_task_program(program, linear, reads), {}, linear.explicit, 1, False, reason, room=room.alone)
    shown = ", ".join(f"{name}({', '.join(_names(program, name, columns))})" for name, columns in keys.items())
    if copies:
        reason = f"splits by {shown}: {counted(count, 'share')}, {counted(total, 'row')} copied to each task"
        return Split(_task_program(program, linear, reads), keys, linear.explicit, count, False, reason)
    seeded = _seeded(program, stratum, sizes, keys, shown, parts, limits)
    if isinstance(seeded, str) and alone:
        reason = f"{seeded}, and all of it ({counted(total, 'row')}) goes to one task"
        return Split(_task_program(program, linear, reads), {}, linear.explicit, 1, False, reason, room=room.alone)
    return seeded


def _seeded(
    program: CheckedProgram,
    stratum: Stratum,
    sizes: Mapping[str, int],
    keys: Mapping[str, tuple[int, ...]],
    shown: str,
    parts: int | None,
    limits: Limits,
) -> Split | str:
    """Shares of first facts that are too many to copy; the rest of what the recursive rules read is copied."""
    reads = _reads(stratum.recursive, stratum)
    total = sum(sizes.get(name, 0) for name in reads)
    if total > limits.copied_rows:
        return f"splits by {shown}, but {total:,} rows are too many to copy to every task"
    if len(stratum.relations) > 1 or not _is_linear(stratum):
        return f"splits by {shown}, but has too many first facts to copy to every task"
    count = parts or limits.most_shares
    reason = f"splits by {shown}: first facts in {counted(count, 'share')}, {counted(total, 'row')} copied to each task"
    shape = _as_it_is(replace(stratum, nonrecursive=()))
    return Split(_task_program(program, shape, reads), keys, shape.explicit, count, True, reason)


# ----------------------------------------------------------------------------------------------------- shapes


@dataclass(frozen=True, slots=True)
class _Shape:
    """A stratum as tasks evaluate it, and strata that they need before it, with relations of their own."""

    stratum: Stratum
    before: tuple[Stratum, ...]
    explicit: Mapping[str, str]
    relations: Mapping[str, Relation]


def _as_it_is(stratum: Stratum) -> _Shape:
    return _Shape(stratum, (), {name: name for name in stratum.relations}, {})


def _only_module(whole: CheckedProgram) -> Module | None:
    """The path module that does all recursion of the last stratum, if there is one and its values have hashes."""
    stratum = whole.strata[-1]
    modules = partition(whole, PATH_KINDS).get(stratum.index, ())
    if len(modules) != 1 or any(rule.number not in modules[0].rules for rule in stratum.recursive):
        return None
    if set(modules[0].heads) != set(stratum.relations):
        return None
    return None if Kind.RECORD in whole.relations[modules[0].heads[0]].kinds else modules[0]


def _linearized(program: CheckedProgram, stratum: Stratum) -> _Shape:
    """The stratum, its transitive rule made linear if it is that alone: `p(x, z) :- p(x, y), start(y, z)`.

    The least relation that contains the first facts and is closed under composition is the set of paths over first
    facts. It is the same from scratch only, so a task never maintains.
    """
    plain = _as_it_is(stratum)
    if len(stratum.relations) != 1 or len(stratum.recursive) != 1 or not _is_transitive(stratum.recursive[0]):
        return plain
    (name,), (rule,) = stratum.relations, stratum.recursive
    relation = program.relations[name]
    if relation.aggregate is not None:
        return plain
    start = replace(relation, name=name + START, inputs=(), outputs=())
    first, second = rule.body
    assert isinstance(first, Match)
    assert isinstance(second, Match)
    number = max(rule.number for rule in program.rules) + 1
    copied = replace(rule, number=number, args=first.args, body=(replace(first, relation=start.name),))
    onward = replace(rule, body=(first, replace(second, relation=start.name)))
    before = Stratum(
        0, (start.name,), tuple(replace(rule, relation=start.name) for rule in stratum.nonrecursive), ()
    )  # fmt: skip
    shared = Stratum(0, (name,), (copied,), (onward,))
    return _Shape(shared, (before,), {name: start.name}, {start.name: start})


def _is_transitive(rule: NormalRule) -> bool:
    """Whether the rule is `p(x, z) :- p(x, y), p(y, z)`, where x, y and z may be several columns each."""
    if len(rule.body) != 2 or len(rule.args) % 2:
        return False
    first, second = rule.body
    if not (isinstance(first, Match) and isinstance(second, Match)):
        return False
    half = len(rule.args) // 2
    if {first.relation, second.relation} != {rule.relation}:
        return False
    x, y, z = first.args[:half], first.args[half:], second.args[half:]
    names = [arg.name for arg in (*x, *y, *z) if isinstance(arg, Var)]
    return second.args[:half] == y and rule.args == (*x, *z) and len(set(names)) == 3 * half


def _is_linear(stratum: Stratum) -> bool:
    return all(len(_own_atoms(rule, stratum)) == 1 for rule in stratum.recursive)


def _own_atoms(rule: NormalRule, stratum: Stratum) -> list[Match]:
    return [literal for literal in rule.body if isinstance(literal, Match) and literal.relation in stratum.relations]


def _keys(program: CheckedProgram, stratum: Stratum) -> dict[str, tuple[int, ...]]:
    """Per relation the columns that every recursive rule hands on, matched between relations; or nothing."""
    if not _is_linear(stratum):
        return {}
    candidates = [_columns(program.relations[name]) for name in stratum.relations]
    if prod(map(len, candidates)) > MOST_COMBINATIONS:
        return {}
    found = [dict(zip(stratum.relations, columns, strict=True)) for columns in product(*candidates)]
    found = [choice for choice in found if all(_hands_on(rule, stratum, choice) for rule in stratum.recursive)]
    if not found:
        return {}
    return {name: tuple(choice[name] for choice in found) for name in stratum.relations}


def _columns(relation: Relation) -> list[int]:
    """The columns that may be part of a key: their values have a hash, and no aggregate replaces them."""
    replaced = -1 if relation.aggregate is None else relation.aggregate[1]
    return [at for at, kind in enumerate(relation.kinds) if kind is not Kind.RECORD and at != replaced]


def _hands_on(rule: NormalRule, stratum: Stratum, choice: Mapping[str, int]) -> bool:
    (atom,) = _own_atoms(rule, stratum)
    given, made = atom.args[choice[atom.relation]], rule.args[choice[rule.relation]]
    return isinstance(made, Var) and made == given


# --------------------------------------------------------------------------------------------------- programs


def _reads(rules: tuple[NormalRule, ...], stratum: Stratum) -> tuple[str, ...]:
    """What these rules read of the strata below, in a fixed order."""
    found = {name: None for rule in rules for name in relations_of(rule.body) if name not in stratum.relations}
    return tuple(sorted(found))


def _task_program(program: CheckedProgram, shape: _Shape, reads: tuple[str, ...]) -> CheckedProgram:
    """The inputs, the strata before, and the stratum, as a program of its own."""
    own = {name: program.relations[name] for name in shape.stratum.relations}
    relations = {name: program.relations[name] for name in reads} | dict(shape.relations) | own
    given = tuple(Stratum(0, (name,), (), ()) for name in reads)
    strata = tuple(
        replace(stratum, index=index) for index, stratum in enumerate((*given, *shape.before, shape.stratum))
    )
    rules = tuple(_rules(strata))
    return CheckedProgram(relations, program.types, (), rules, strata, {}, (), program.sources)


def _rules(strata: tuple[Stratum, ...]) -> Iterator[NormalRule]:
    for stratum in strata:
        yield from stratum.nonrecursive
        yield from stratum.recursive


def _names(program: CheckedProgram, name: str, columns: tuple[int, ...]) -> list[str]:
    return [program.relations[name].columns[at] for at in dict.fromkeys(columns)]
