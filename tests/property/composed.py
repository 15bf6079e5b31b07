"""Programs that are put together from those of other generators, and thresholds at random: what no one of them crosses.

    composed_case(rng)     a `Case` of one to three random programs, the later of which also take rows from earlier ones
    random_limits(rng)     `Limits` some of which are as low or as high as they go

Base relations become derived ones that have explicit facts, strata get deep, and symbols, records, branches, guards,
ranges and head aggregates meet in one store or on the same workers. More epochs delete everything and bring it back,
insert what they delete, and do nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from sempre.lang import syntax as s
from sempre.lang.parser import parse
from sempre.lang.printer import to_text
from sempre.limits import Limits
from tests.engine import SMALL_PIECES, UNHURRIED, Changes, updated
from tests.oracle.naive import Facts
from tests.oracle.values import Row, Value
from tests.property.branching import branching_case
from tests.property.closures import modular_case
from tests.property.cycles import counted_case, cyclic_case
from tests.property.guarding import guarding_case
from tests.property.mixed import mixed_case
from tests.property.programs import Case, random_case
from tests.property.ranging import ranging_case

Maker = Callable[[random.Random], Case]
MAKERS: tuple[Maker, ...] = (
    random_case, random_case, random_case, modular_case, cyclic_case, counted_case, guarding_case, branching_case,
    ranging_case,
    lambda rng: mixed_case(rng, rng.randint(1, 3)),
)  # fmt: skip
PLAIN = frozenset({"number", "symbol", "float", "unsigned"})
EXTREME: dict[str, tuple[Any, ...]] = {
    "narrowed_rows": (0,), "narrowed_share": (1.0,), "narrowing_size": (1 << 60,), "piece_rows": (1, 3, 64),
    "slice_rows": (1, 2), "parallel_rows": (0,), "choice_rows": (0,), "crowd_rows": (0, 1), "expanding_rows": (0, 1),
    "uncertain_share": (0.5, 100.0), "walk_after": (0, 1), "walk_front": (1 << 20,), "walk_facts": (0,),
    "grow_after": (0, 1 << 30), "grow_front": (1, 1 << 20), "settle_starts": (0, 2),
    "walk_tail": (1,), "replan_bits": (0, 1), "sample_rows": (2,), "matrix_nodes": (0, 2), "few_sources": (1,),
    "change_share": (0.0, 10.0), "recursive_share": (0.0, 10.0), "change_rows": (0,), "affected_share": (0.0, 100.0),
    "affected_rows": (0,), "changing_share": (0.0, 1e9), "untried_share": (0.0,), "counted_share": (0.0, 1e9),
    "shared_rows": (1,), "merged_pieces": (2,), "group_rows": (1, 3), "level_bits": (1,), "unprepared_rows": (0,),
    "many_rounds": (0, 1), "swept_bits": (0,), "round_rows": (1, 7), "everywhere_rows": (0, 1), "split_rows": (1, 2),
}  # fmt: skip


def random_limits(rng: random.Random) -> Limits:
    """About a third of the thresholds are extreme."""
    assert EXTREME.keys() <= {each.name for each in fields(Limits)}
    chosen: dict[str, Any] = {name: rng.choice(values) for name, values in EXTREME.items() if rng.random() < 0.3}
    return replace(rng.choice((UNHURRIED, SMALL_PIECES)), **chosen)


def composed_case(rng: random.Random, makers: Sequence[Maker] = MAKERS) -> Case:
    """Programs side by side, with bridges from earlier to later ones."""
    parts = [rng.choice(makers)(rng) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    if len(parts) > 1:
        parts = [_renamed(part, f"z{number}_") for number, part in enumerate(parts)]
    items = [item for part in parts for item in part.program.items]
    for later in range(len(parts)):
        for earlier in range(later):
            items += _bridges(rng, parts[earlier].program, parts[later].program)
    start = _together([part.facts for part in parts])
    epochs: list[Changes] = []
    for number in range(max(len(part.updates) for part in parts)):
        here = [part.updates[number] for part in parts if number < len(part.updates)]
        epochs.append((_together([insert for insert, _ in here]), _together([delete for _, delete in here])))
    return Case(s.ParsedProgram(tuple(items)), start, [*epochs, *_more_epochs(rng, start, epochs)])


def _together(facts: list[Facts]) -> Facts:
    return {name: rows for each in facts for name, rows in each.items()}  # no two have a name in common


def _more_epochs(rng: random.Random, start: Facts, epochs: list[Changes]) -> list[Changes]:
    now = start
    for insert, delete in epochs:
        now = updated(now, insert, delete)
    found: list[Changes] = []
    names = sorted(name for name, rows in now.items() if rows)
    if names and rng.random() < 0.5:
        name = rng.choice(names)
        stays = set(sorted(now[name], key=repr)[:2])
        found.append(({name: stays}, {name: set(now[name])}))
        now = {**now, name: stays}
    if rng.random() < 0.3:
        found += [({}, {name: set(now[name]) for name in names}), ({name: set(now[name]) for name in names}, {})]
    return [*found, ({}, {})] if rng.random() < 0.2 else found


def _bridges(rng: random.Random, earlier: s.ParsedProgram, later: s.ParsedProgram) -> list[s.Item]:
    """Rules that give relations of one program the rows of another's."""
    heads = [head.atom for rule in later.rules() for head in rule.heads]
    folded = {atom.relation for atom in heads if any(isinstance(arg, s.HeadAggregate) for arg in atom.args)}
    sources, targets = _columns(earlier), _columns(later)
    pairs = [
        (source, target)
        for source, kinds in sources.items()
        for target, others in targets.items()
        if kinds == others and kinds and PLAIN.issuperset(kinds) and target not in folded
    ]
    found: list[s.Item] = []
    for source, target in rng.sample(pairs, min(len(pairs), rng.randint(0, 2))):
        names = [f"bridge{at}" for at in range(len(sources[source]))]
        head = names[::-1] if len(set(sources[source])) == 1 and rng.random() < 0.3 else names
        found += parse(f"{target}({', '.join(head)}) :- {source}({', '.join(names)}).").items
    return found


def _columns(program: s.ParsedProgram) -> dict[str, tuple[str, ...]]:
    declared = (item for item in program.items if isinstance(item, s.RelationDecl))
    return {
        each.name: tuple(a.type_name for a in each.attributes) for each in declared if "inline" not in each.qualifiers
    }


def _renamed(case: Case, prefix: str) -> Case:
    """The same with a prefix before the names of relations, types and branches."""
    text = to_text(case.program)
    types = [item for item in case.program.items if isinstance(item, s.TypeDecl)]
    branches = [
        name for item in types if isinstance(item.definition, s.AlgebraicType) for name, _ in item.definition.branches
    ]
    for item in case.program.items:
        if isinstance(item, s.RelationDecl):
            text = re.sub(rf"(?<![\w@$]){item.name}(?=\()", prefix + item.name, text)
            text = re.sub(
                rf"^(\.(?:output|limitsize) ){item.name}\b", rf"\1{prefix}{item.name}", text, flags=re.MULTILINE
            )
    for item in types:
        text = re.sub(rf"(?<!\w){item.name}(?!\w)(?!\()", prefix + item.name, text)
    for name in branches:
        text = re.sub(rf"(?<=\$){name}\b|(?<=[=|] ){name}(?= \{{)", prefix + name, text)

    def value(held: Value) -> Value:
        if not isinstance(held, tuple):
            return held
        is_branch = bool(held) and isinstance(held[0], str) and held[0] in branches
        return (prefix + held[0], *map(value, held[1:])) if is_branch else tuple(map(value, held))

    def row(values: Row) -> Row:
        return tuple(map(value, values))

    def facts(given: Facts) -> Facts:
        return {prefix + name: set(map(row, rows)) for name, rows in given.items()}

    updates = [(facts(insert), facts(delete)) for insert, delete in case.updates]
    return Case(parse(text, "random.dl"), facts(case.facts), updates)
