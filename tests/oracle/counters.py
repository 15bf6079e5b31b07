"""How often facts are derived: what strategies that keep counters must have after every update.

An *instance* is a clause (one head, one alternative of the body, inline relations replaced) with an assignment to all
variables of its body outside of negations and aggregates, `_` included. The rules of a relation are a list: the same
rule written twice has its instances twice.

Relations that aggregate in their heads have no counters here: their facts are not derived one by one. Those that do not
keep all rows have no iterations: without what drops rows, their rules might go on without end. The pairs that only the
closure of an `eqrel` relation adds have no instances: their counts are 0.
"""

from __future__ import annotations

from collections import Counter

from sempre.lang import syntax as s
from tests.oracle.clauses import Clauses, clauses_of
from tests.oracle.naive import MAX_ROUNDS, Facts, State, closure, fire, guarded, materialize, typed
from tests.oracle.strata import Stratum, is_recursive, stratify
from tests.oracle.values import OracleError, Row

Counts = dict[str, dict[Row, tuple[int, int]]]


def instances(program: s.ParsedProgram, explicit: Facts, result: Facts) -> Counts:
    """Per fact of `result`, (nonrec, rec): instances of nonrecursive and of recursive rules that derive it.

    A rule is recursive when a positive atom of its body, outside of negations and aggregates, is in the stratum of its
    head. An explicit fact adds one to nonrec. `explicit` are all explicit facts, the program's own included.
    """
    clauses = clauses_of(program)
    state = State(dict(result))
    nonrec: Counter[tuple[str, Row]] = Counter()
    rec: Counter[tuple[str, Row]] = Counter()
    nonrec.update((name, row) for name, rows in typed(clauses, explicit).items() for row in rows)
    for stratum in stratify(clauses):
        for rule in stratum.rules:
            counts = rec if is_recursive(rule, stratum.relations) else nonrec
            counts.update((rule.relation, head) for head, _ in fire(rule, state))
    return {
        name: {row: (nonrec[name, row], rec[name, row]) for row in result[name]}
        for name in result
        if name not in aggregated(clauses)
    }


def iterations(program: s.ParsedProgram, explicit: Facts) -> Counts:
    """Per fact, (iteration, count): the round in which its stratum first derives it, and by how many instances.

    Per stratum, with I_0 the results of all lower strata and the explicit facts of this one: I_k is I_(k-1) and the
    heads of all instances true in I_(k-1). The iteration of a fact is the least k with the fact in I_k; its count is
    the number of instances true in I_(k-1) that derive it. Explicit facts have (0, 1), however else they are derived.
    Rules without a positive atom, and rules that read lower strata alone, thus act in iteration 1.

    This is Bootstrap of [Zhao], Algorithm 2: there an instance must also touch a fact new in iteration k-1, which holds
    by itself for an instance true in I_(k-1) whose head is not in I_(k-1), since it was not true in I_(k-2). In an
    `eqrel` relation, the closure is part of each round.
    """
    clauses = clauses_of(program)
    given = typed(clauses, explicit)
    done = materialize(program, explicit)
    result: Counts = {}
    for stratum in stratify(clauses):
        if stratum.relations.isdisjoint(aggregated(clauses) | guarded(clauses)):
            result |= _rounds(clauses, stratum, given, done)
    return result


def _rounds(clauses: Clauses, stratum: Stratum, explicit: Facts, done: Facts) -> Counts:
    found: Counts = {n: dict.fromkeys(explicit.get(n, ()), (0, 1)) for n in stratum.relations}
    state = State({n: set(found[n]) if n in stratum.relations else rows for n, rows in done.items()})
    _close(clauses, found, 0)
    for name in stratum.relations:
        state.replace(name, set(found[name]))
    for iteration in range(1, MAX_ROUNDS):
        counts = Counter((rule.relation, head) for rule in stratum.rules for head, _ in fire(rule, state))
        for (name, row), count in counts.items():
            found[name].setdefault(row, (iteration, count))
        _close(clauses, found, iteration)
        changed = [state.replace(name, set(found[name])) for name in stratum.relations]
        if not any(changed):
            return found
    raise OracleError(f"no fixpoint for {sorted(stratum.relations)}")


def _close(clauses: Clauses, found: Counts, iteration: int) -> None:
    for name in clauses.schema.equivalences & set(found):
        for row in closure(set(found[name])):
            found[name].setdefault(row, (iteration, 0))


def aggregated(clauses: Clauses) -> set[str]:
    """The relations whose rules aggregate in the head."""
    return {rule.relation for rule in clauses.rules if rule.aggregate is not None}
