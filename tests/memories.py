"""What strategies remember between epochs, compared with the oracle's counters.

Sets alone do not show that a counter is wrong: it shows epochs later, if at all. So after every epoch each counter
that a snapshot holds must be what a run from scratch would count.

Strata with an `eqrel` relation or an aggregate in a head are left out: the first are closed by rules that the oracle
does not have, the facts of the second are not derived one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import sempre
from sempre.analysis.model import CheckedProgram, Stratum
from sempre.engine import standing_work_at
from sempre.maintain.auto import ChosenStrategy
from sempre.maintain.dredc import Counters, count_nonrecursive, count_recursive
from sempre.maintain.iterations import Levels
from sempre.maintain.modular import Exchange, PartitionedMemory
from sempre.maintain.ranked import Ranks, tight_instances
from sempre.maintain.states import LowerStrata
from sempre.maintain.strategy import DeferredMemory, Work
from sempre.plan.ops import relations_of
from tests.inside import engine_of
from tests.oracle.counters import Counts
from tests.oracle.naive import Facts
from tests.oracle.values import Row
from tests.rows import plain

Numbers = dict[Row, int]


class Truth(Protocol):
    """What the oracle says after an epoch."""

    explicit: Facts
    facts: Facts

    @property
    def instances(self) -> Counts: ...

    @property
    def iterations(self) -> Counts: ...


def check_memories(db: sempre.Database, truth: Truth, where: str) -> int:
    """Compares all counters of the last epoch; returns how many facts had one.

    Those of strata that are not where the engine has its own backend are left out.
    """
    engine = engine_of(db)
    memories, versions, main = engine.snapshot.memories, engine.snapshot.versions, engine.backend.place
    strata = [stratum for stratum in engine.program.strata if memories.get(stratum.index) is not None]
    strata = [stratum for stratum in strata if _comparable(engine.program, stratum)]
    strata = [stratum for stratum in strata if versions[stratum.relations[0]].place == main]
    compared = 0
    for stratum in strata:
        memory = DeferredMemory.settled(memories[stratum.index])
        if isinstance(memory, ChosenStrategy):
            memory = memory.memory
        if isinstance(memory, PartitionedMemory):
            compared += _check_partitioned(db, memory, stratum, truth, where)
            continue
        if isinstance(memory, Ranks):
            compared += _check_ranks(db, memory, stratum, truth.facts, where)
            continue
        for name in stratum.relations:
            if isinstance(memory, Counters):
                compared += _check_counters(db, memory, name, truth.instances[name], where)
            elif isinstance(memory, Levels):
                given = truth.explicit.get(name, set())
                compared += _check_levels(db, memory, name, truth.iterations[name], given, where)
    return compared


def _check_partitioned(
    db: sempre.Database, memory: PartitionedMemory, stratum: Stratum, truth: Truth, where: str
) -> int:
    """`nonrec` is as without modules, unless they own rules without recursion; `rec` has what other rules derive."""
    if memory.counters is None:
        return 0
    work = _standing(db, stratum)
    generic = Exchange(work, stratum, memory.modules).generic
    own = {name: work.new[name] for name in stratum.relations}
    again = count_recursive(work, generic, own, LowerStrata(work, generic), old=False)
    first = count_nonrecursive(work, generic, LowerStrata(work, generic), old=False)
    for name in stratum.relations:
        nonrec = numbers(db, name, memory.counters.nonrec[name].entries())
        expected = {row: n for row, (n, _) in truth.instances[name].items() if n}
        if len(generic.nonrecursive) < len(stratum.nonrecursive):  # the oracle does not know which rules modules own
            expected = numbers(db, name, first[name].entries())
        assert nonrec == expected, f"nonrec of {name} {where}"
        if memory.counters.rec is not None:
            rec, wanted = (numbers(db, name, tally[name].entries()) for tally in (memory.counters.rec, again))
            assert rec == wanted, f"rec of {name} {where}"
    return sum(len(truth.facts[name]) for name in stratum.relations)


def _standing(db: sempre.Database, stratum: Stratum) -> Work:
    """An epoch in which nothing changes, where the stratum is, which has its relations already."""
    engine = engine_of(db)
    work = standing_work_at(engine, engine.snapshot, stratum)
    work.new.update({name: engine.snapshot.versions[name] for name in stratum.relations})
    return work


def _check_ranks(db: sempre.Database, memory: Ranks, stratum: Stratum, result: Facts, where: str) -> int:
    """Every fact has a rank, nothing else does, and ranks ground every fact."""
    if not stratum.recursive:
        return 0
    work = _standing(db, stratum)
    ranks, tight = memory.maps(work.backend, work.old)
    counted, ungrounded = tight_instances(work, stratum, ranks)
    for name in stratum.relations:
        ranked = numbers(db, name, ranks[name].entries())
        assert set(ranked) == result[name], f"ranks of {name} {where}"
        assert all(rank > 0 for rank in ranked.values()), f"ranks of {name} {where}"
        held, true = (numbers(db, name, tallies[name].entries()) for tallies in (tight, counted))
        assert held.keys() <= result[name], f"tight instances of {name} {where}"
        if memory.exact:
            assert held == true, f"tight instances of {name} {where}"
        assert all(number <= true.get(row, 0) for row, number in held.items()), f"tight instances of {name} {where}"
        assert not len(ungrounded[name]), f"facts of {name} without ground {where}"
    return sum(len(result[name]) for name in stratum.relations)


def _comparable(program: CheckedProgram, stratum: Stratum) -> bool:
    """Whether the oracle counts alike: not what a rewrite adds, which it does not know (`verify` does)."""
    if any("#" in relation for name in stratum.relations for relation in read_by(program, name)):
        return False
    relations = [program.relations[name] for name in stratum.relations]
    return not any(relation.aggregate is not None or relation.is_equivalence for relation in relations)


def read_by(program: CheckedProgram, name: str) -> set[str]:
    """A relation, and what its rules read."""
    return {name}.union(*(relations_of(rule.body) for rule in program.rules if rule.relation == name))


def _check_counters(
    db: sempre.Database, memory: Counters, name: str, expected: dict[Row, tuple[int, int]], where: str
) -> int:
    nonrec = numbers(db, name, memory.nonrec[name].entries())
    assert nonrec == {row: n for row, (n, _) in expected.items() if n}, f"nonrec of {name} {where}"
    if memory.rec is not None:
        rec = numbers(db, name, memory.rec[name].entries())
        assert rec == {row: n for row, (_, n) in expected.items() if n}, f"rec of {name} {where}"
    return len(expected)


def _check_levels(
    db: sempre.Database, memory: Levels, name: str, expected: dict[Row, tuple[int, int]], given: set[Row], where: str
) -> int:
    """Where a fact is first derived and how often; what an explicit fact is derived by later is not compared."""
    found = dict.fromkeys(given, (0, 1))
    for iteration, level in enumerate(memory.levels, 1):
        counts = numbers(db, name, level.counts[name]) if name in level.counts else {}
        facts = set(numbers(db, name, engine_of(db).backend.once(level.facts[name]))) if name in level.facts else set()
        assert facts == {row for row, count in counts.items() if count > 0} - set(found), (
            f"facts of {name} in iteration {iteration} {where}"
        )
        for row in facts:
            found[row] = (iteration, counts[row])
    assert found == expected, f"iterations of {name} {where}"
    return len(expected)


def numbers(db: sempre.Database, name: str, counted: Any) -> Numbers:
    """Counted rows as a dictionary of plain values."""
    relation, rows = db.program.relations[name], counted.rows()
    tuples = db._decoder.tuples(relation, rows.columns(), len(rows))
    return {tuple(map(plain, row)): n for row, n in zip(tuples, counted.weights.tolist(), strict=True)}


def everything(db: sempre.Database) -> dict[str, dict[str, Any]]:
    """Facts ("") and counters (by the stratum's relations) of a database, for comparing two in one state.

    Counters are missing where they were never needed. Iterations in which nothing is derived are left out.
    """
    facts = {name: {tuple(map(plain, row)) for row in db[name]} for name in db}
    state: dict[str, dict[str, Any]] = {"": facts}
    for stratum in engine_of(db).program.strata:
        memory = DeferredMemory.settled(engine_of(db).snapshot.memories.get(stratum.index))
        inner = memory.memory if isinstance(memory, ChosenStrategy) else memory
        if memory is not None and not (isinstance(inner, PartitionedMemory) and inner.counters is None):
            counters = {key: n for name in stratum.relations for key, n in _counters(db, memory, name) if n}
            state[", ".join((*stratum.relations, *_modules(memory)))] = counters
    return state


def _modules(memory: Any) -> list[str]:
    """The modules that a stratum was given, by its sizes at the time: counters are those of a partition."""
    if isinstance(memory, ChosenStrategy):
        memory = memory.memory
    return [str(module) for module in memory.modules] if isinstance(memory, PartitionedMemory) else []


def _counters(db: sempre.Database, memory: Any, name: str) -> Iterator[tuple[str, Numbers]]:
    if isinstance(memory, ChosenStrategy):
        memory = memory.memory
    if isinstance(memory, PartitionedMemory):
        memory = memory.counters
    if memory is None or isinstance(memory, Ranks):
        return  # ranks depend on history: what they must do is checked after every epoch
    if isinstance(memory, Counters):
        yield f"nonrec of {name}", numbers(db, name, memory.nonrec[name].entries())
        if memory.rec is not None:
            yield f"rec of {name}", numbers(db, name, memory.rec[name].entries())
        return
    for iteration, level in enumerate(memory.levels, 1):
        if name in level.counts:
            yield f"{name} in iteration {iteration}", numbers(db, name, level.counts[name])


def same_state(one: sempre.Database, other: sempre.Database) -> None:
    """Asserts that two databases have the same facts, and the same counters where both have any."""
    left, right = everything(one), everything(other)
    for key in left.keys() & right.keys():
        assert left[key] == right[key], key or "facts"
