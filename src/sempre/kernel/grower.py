"""What follows from a few new facts, fact by fact, in compiled code, for rules with several atoms of the stratum.

Like `walker`, but facts that are new must find each other. They are taken in the order in which they were found, so
that their rounds are those of arrays, and a fact is seen by lookups from the moment that it is taken: so each instance
is found once, from the last of its facts. New facts hang in chains, one for each prefix that some lookup asks for.

It is an interpreter of the code of `settler`. Sieves are made of relations that do not change meanwhile. Nothing is
changed but the arrays made here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sempre.kernel.layout import INT64_MAX
from sempre.kernel.settler import (
    EITHER,
    FAR,
    KEY,
    KEYS,
    MADE,
    OWN,
    RELATION,
    SEEN,
    SIEVE_SHARE,
    STARTING,
    _bare,
    _first,
    _held,
    _known,
    _loop,
    _make_sieve,
    _place,
    _shown,
    _sifted,
)
from sempre.kernel.walker import ABSENT, COMPARE, MOVE, PROBE, SCAN, _bind, _compares, _load64, _prefix

Ints = NDArray[np.int64]

# Columns of `facts`, beside KEY and RELATION.
ROUND, NUMBER = 2, 3
# Places of `found`: facts, facts taken, work done, whether something did not fit, instances.
USED, TAKEN, WORK, FAILED, INSTANCES = range(5)
# Columns of `indexes`: relation, free bits, where the columns of its keys are described.
OF, FREE, COLUMNS = range(3)


@_bare
def _in_order(own: int, code: Ints, at: int) -> int:
    """A fact's own key as a key of another order; `at` is where the columns are: n, (shift, mask, own shift)*."""
    key = 0
    for column in range(code[at]):
        where = at + 1 + 3 * column
        key |= ((own >> code[where + 2]) & code[where + 1]) << code[where]
    return key


@_bare
def _bucket(prefix: int, mask: int) -> int:
    mixed = prefix * 0x9E3779B97F4A7C1
    return ((mixed >> 29) ^ (mixed >> 7)) & mask


@_bare
def _hang(
    fact: int, facts: Ints, code: Ints, indexes: Ints, buckets: NDArray[np.int32], links: NDArray[np.int32]
) -> None:
    """Let lookups see a fact."""
    for index in range(indexes.shape[0]):
        if indexes[index, OF] == facts[fact, RELATION]:
            prefix = _in_order(facts[fact, KEY], code, indexes[index, COLUMNS]) >> indexes[index, FREE]
            bucket = _bucket(prefix, buckets.shape[1] - 1)
            links[fact, index] = buckets[index, bucket]
            buckets[index, bucket] = fact + 1


@_bare
def _derived(
    table: NDArray[np.int32], facts: Ints, found: Ints, sources: Ints, parts: Ints, runs: Ints, present: Ints, key: int,
    relation: int, following: int,
) -> None:  # fmt: skip
    """An instance that derives a fact, found in the round before `following`."""
    found[INSTANCES] += 1
    at = _place(table, facts, key, relation)
    if table[at]:
        if facts[table[at] - 1, ROUND] == following:
            facts[table[at] - 1, NUMBER] += 1
        return
    if _shown(sources, parts, runs, present[relation], key):
        return
    new = found[USED]
    if new == facts.shape[0]:
        found[FAILED] = 1
        return
    found[USED] = new + 1
    table[at] = new + 1
    facts[new, KEY] = key
    facts[new, RELATION] = relation
    facts[new, ROUND] = following
    facts[new, NUMBER] = 1


@_bare
def _follow(
    plans: Ints,
    plan: int,
    starts: Ints,
    before: Ints,
    code: Ints,
    sources: Ints,
    parts: Ints,
    runs: Ints,
    present: Ints,
    sieve_of: Ints,
    sieves: Ints,
    tables: Ints,
    marks: NDArray[np.uint8],
    index_of: Ints,
    indexes: Ints,
    buckets: NDArray[np.int32],
    links: NDArray[np.int32],
    slots: Ints,
    it: Ints,
    table: NDArray[np.int32],
    facts: Ints,
    found: Ints,
    fact: int,
) -> None:
    """Go through the instances that one plan finds for a fact."""
    seed = facts[fact, KEY]
    first = plans[plan, 1]
    found[WORK] += STARTING
    pc = first
    entering = True
    while pc >= first:
        at = starts[pc]
        op = code[at]
        forward = False
        if op == SCAN:
            if entering:
                at += 1
                n = code[at]
                at += 1
                forward = True
                for _ in range(n):
                    if ((seed >> code[at]) & code[at + 1]) + code[at + 2] != code[at + 3]:
                        forward = False
                    at += 4
                forward = forward and _bind(code, at, seed, slots)
        elif op in (PROBE, OWN):
            source = code[at + 1]
            free = code[at + 2]
            head = at + 3 if op == PROBE else at + 7 + 3 * code[at + 6]
            binds = head + 1 + 5 * code[head]
            if entering:
                it[pc, 0] = _prefix(code, head, slots)
                it[pc, 1] = sources[source, 0]
                it[pc, 2] = -1
                it[pc, 5] = -1
                it[pc, 6] = -1
                sieve = sieve_of[pc]
                if sieve >= 0:
                    sieved = sieves[sieve]
                    if tables[sieved, MADE]:
                        it[pc, 4] = _known(sieves, sieve, slots)
                        it[pc, 5] = sieve
                        if it[pc, 4] < 0:
                            it[pc, 0] = -1
                    elif SIEVE_SHARE * tables[sieved, SEEN] > tables[sieved, KEYS]:
                        found[WORK] += _make_sieve(tables, sieved, marks, sources, parts, runs) // SIEVE_SHARE
            if it[pc, 0] >= 0:
                high = it[pc, 0] | free
                while it[pc, 1] < sources[source, 1] and not forward:
                    part = it[pc, 1]
                    if it[pc, 2] < 0:
                        it[pc, 2] = parts[part, 0]
                        it[pc, 3] = -1
                    while it[pc, 2] < parts[part, 1] and not forward:
                        address = runs[it[pc, 2], 0]
                        length = runs[it[pc, 2], 1]
                        if it[pc, 3] < 0:
                            it[pc, 3] = _first(runs, it[pc, 2], it[pc, 0])
                        while it[pc, 3] < length and not forward:
                            if it[pc, 5] >= 0:
                                it[pc, 3] = _sifted(
                                    sieves, it[pc, 5], tables, marks, it[pc, 4], address, it[pc, 3], length, high
                                )
                                if it[pc, 3] == length:
                                    break
                            key = _load64(address + 8 * it[pc, 3])
                            if key > high:
                                break
                            it[pc, 3] += 1
                            found[WORK] += 1
                            if sieve_of[pc] >= 0:
                                tables[sieves[sieve_of[pc]], SEEN] += 1
                            if parts[part, 2] < parts[part, 3] and _held(runs, parts[part, 2], parts[part, 3], key):
                                continue
                            forward = _bind(code, binds, key, slots)
                        if not forward:
                            it[pc, 2] += 1
                            it[pc, 3] = -1
                    if not forward:
                        it[pc, 1] += 1
                        it[pc, 2] = -1
                if op == OWN and not forward:
                    index = index_of[pc]
                    wanted = it[pc, 0] >> indexes[index, FREE]
                    if it[pc, 6] < 0:
                        it[pc, 6] = buckets[index, _bucket(wanted, buckets.shape[1] - 1)]
                    while it[pc, 6] and not forward:
                        other = it[pc, 6] - 1
                        it[pc, 6] = links[other, index]
                        found[WORK] += 1
                        if facts[other, RELATION] == indexes[index, OF] and not (code[at + 4] and other == fact):
                            key = _in_order(facts[other, KEY], code, indexes[index, COLUMNS])
                            if key >> indexes[index, FREE] == wanted:
                                forward = _bind(code, binds, key, slots)
        elif op == ABSENT:
            if entering:
                forward = True
                source = code[at + 1]
                low = _prefix(code, at + 3, slots)
                if low >= 0:
                    high = low | code[at + 2]
                    for part in range(sources[source, 0], sources[source, 1]):
                        for run in range(parts[part, 0], parts[part, 1]):
                            position = _first(runs, run, low)
                            while forward and position < runs[run, 1]:
                                key = _load64(runs[run, 0] + 8 * position)
                                if key > high:
                                    break
                                if not _held(runs, parts[part, 2], parts[part, 3], key):
                                    forward = False
                                position += 1
        elif op == COMPARE:
            if entering:
                left = code[at + 3] if code[at + 2] else slots[code[at + 3]]
                right = code[at + 5] if code[at + 4] else slots[code[at + 5]]
                forward = _compares(code[at + 1], left, right)
        elif op == MOVE:
            if entering:
                slots[code[at + 1]] = code[at + 3] if code[at + 2] else slots[code[at + 3]]
                forward = True
        elif op == EITHER:
            if entering:
                least = FAR
                choice = 0
                for option in range(code[at + 1]):
                    where = at + 2 + 4 * option
                    low = _prefix(code, code[where + 3], slots)
                    hits = 0
                    if low >= 0:
                        source = code[where + 1]
                        high = low | code[where + 2]
                        for part in range(sources[source, 0], sources[source, 1]):
                            for run in range(parts[part, 0], parts[part, 1]):
                                end = _first(runs, run, high + 1) if high < INT64_MAX else runs[run, 1]
                                hits += end - _first(runs, run, low)
                    if hits < least:
                        least = hits
                        choice = code[where]
                pc = choice  # also where nothing was there before: what is new may be
                continue
        elif entering:
            key = _prefix(code, at + 2, slots)
            if key < 0:
                found[FAILED] = 1
                return
            _derived(
                table, facts, found, sources, parts, runs, present, key, code[at + 1], facts[fact, ROUND] + 1
            )  # fmt: skip
            if found[FAILED]:
                return
        if forward:
            pc += 1
            entering = True
        else:
            pc = before[pc]
            entering = False


@_bare
def _grow_some(
    table: NDArray[np.int32],
    facts: Ints,
    buckets: NDArray[np.int32],
    links: NDArray[np.int32],
    found: Ints,
    plans: Ints,
    starts: Ints,
    before: Ints,
    code: Ints,
    sources: Ints,
    parts: Ints,
    runs: Ints,
    present: Ints,
    sieve_of: Ints,
    sieves: Ints,
    tables: Ints,
    marks: NDArray[np.uint8],
    index_of: Ints,
    indexes: Ints,
    slots: Ints,
    it: Ints,
    budget: int,
) -> None:
    """As `grow`, until more room is needed."""
    while found[TAKEN] < found[USED] and not found[FAILED] and found[WORK] < budget:
        if 2 * found[USED] > facts.shape[0]:
            return
        fact = found[TAKEN]
        found[TAKEN] = fact + 1
        _hang(fact, facts, code, indexes, buckets, links)
        for plan in range(plans.shape[0]):
            if plans[plan, 0] == facts[fact, RELATION] and not found[FAILED]:
                _follow(
                    plans, plan, starts, before, code, sources, parts, runs, present, sieve_of, sieves, tables, marks,
                    index_of, indexes, buckets, links, slots, it, table, facts, found, fact,
                )  # fmt: skip


@_loop
def _grown(
    table: NDArray[np.int32], facts: Ints, links: NDArray[np.int32], found: Ints, code: Ints, indexes: Ints
) -> Any:
    """Four times the room."""
    more = np.empty((4 * facts.shape[0], 4), np.int64)
    more[: found[USED]] = facts[: found[USED]]
    wide = np.zeros(4 * table.size, np.int32)
    buckets = np.zeros((indexes.shape[0], table.size), np.int32)
    chained = np.empty((more.shape[0], links.shape[1]), np.int32)
    for fact in range(found[USED]):
        wide[_place(wide, more, more[fact, KEY], more[fact, RELATION])] = fact + 1
    for fact in range(found[TAKEN]):
        _hang(fact, more, code, indexes, buckets, chained)
    return wide, more, buckets, chained


@_loop
def begin(front_key: Ints, front_relation: Ints, indexes: Ints, bits: int) -> Any:
    """Where to begin with the facts of the front: a table, facts, chains and `found`."""
    while 1 << (bits - 2) < front_key.size:
        bits += 1
    table = np.zeros(1 << bits, np.int32)
    buckets = np.zeros((indexes.shape[0], 1 << (bits - 2)), np.int32)
    facts = np.empty((1 << (bits - 1), 4), np.int64)
    links = np.empty((1 << (bits - 1), max(1, indexes.shape[0])), np.int32)
    found = np.zeros(5, np.int64)
    for i in range(front_key.size):
        facts[i, KEY] = front_key[i]
        facts[i, RELATION] = front_relation[i]
        facts[i, ROUND] = facts[i, NUMBER] = 0
        table[_place(table, facts, front_key[i], front_relation[i])] = i + 1
    found[USED] = front_key.size
    return table, facts, buckets, links, found


@_loop
def grow(
    table: NDArray[np.int32],
    facts: Ints,
    buckets: NDArray[np.int32],
    links: NDArray[np.int32],
    found: Ints,
    plans: Ints,
    starts: Ints,
    before: Ints,
    code: Ints,
    sources: Ints,
    parts: Ints,
    runs: Ints,
    present: Ints,
    sieve_of: Ints,
    sieves: Ints,
    tables: Ints,
    marks: NDArray[np.uint8],
    index_of: Ints,
    indexes: Ints,
    variables: int,
    budget: int,
) -> Any:
    """Find what follows from the facts that are there and not taken yet.

    `plans` has (relation that it starts from, first instruction, ...) each, `present` the source of every relation
    without the front. `index_of` says in which of the `indexes` an instruction finds new facts. Stops once `budget` is
    done, to be called again with what it returns: table, facts, chains and `found`. Each fact has its round, counted
    from the front's on, and the number of instances that derive it from facts of earlier rounds.
    """
    slots = np.zeros(variables, np.int64)
    it = np.zeros((starts.size, 7), np.int64)
    while found[TAKEN] < found[USED] and not found[FAILED] and found[WORK] < budget:
        if 2 * found[USED] > facts.shape[0]:
            table, facts, buckets, links = _grown(table, facts, links, found, code, indexes)
        _grow_some(
            table, facts, buckets, links, found, plans, starts, before, code, sources, parts, runs, present, sieve_of,
            sieves, tables, marks, index_of, indexes, slots, it, budget,
        )  # fmt: skip
    return table, facts, buckets, links, found


def warm() -> None:
    """Compile or load it."""
    none = np.zeros(0, np.int64)
    pairs, triples, quads, sevens = (np.zeros((0, width), np.int64) for width in (2, 3, 4, 7))
    bits = np.zeros(0, np.uint8)
    begun = begin(none, none, triples, 4)
    grow(*begun, quads, none, none, none, pairs, quads, quads, none, none, none, sevens, bits, none, triples, 0, 1)
