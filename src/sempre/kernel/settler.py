"""Which facts stay when support is gone, fact by fact, in compiled code.

Facts have ranks, and each knows how many *tight* instances it has: those whose facts of the stratum all rank below it.
`settle` is told which facts lost some. It takes them in the order of their ranks, so what ranks lower is settled. One
that has no tight instance left, and that nothing else holds up, is in doubt. It is given the rank above that of its
lowest instance, if it has any whose facts stand: at once, if those rank no higher than it did; otherwise it is out
until everything up to there is settled. What ranks between loses an instance by that, and no more. So only facts that
change their rank are followed, as in dynamic shortest paths.

It is an interpreter of the same code as `walker`, with three more instructions:

    OWN     source, free mask, relation, both?, number, columns: n, (shift, mask, shift in the fact's own key)*
            prefix   binds   same
    EITHER  n, (first instruction, source, free mask, offset of prefix)*, prefixes
    (every instruction has a predecessor to go back to: `before`)

`both?` says that the fact which a plan starts from does not count here: it does at one of its places only.

Most of what a lookup finds is dropped by one that follows: of the 180 keys that one gives for a fact in a points-to
analysis, five go on. So a lookup can have a *sieve*: a bit for each (hashed) prefix that the later lookup may be asked
for, made once so many keys were gone through that it pays. `sieve_of` says where the sieve of an instruction is
described among `sieves`, -1 if it has none:

    table, known: n, (constant?, value or slot, lo, hi, shift)*, found: n, (shift, mask, add, shift)*

The prefix is the sum of what is known before the lookup and what is found by it. `tables` has (source, free bits, first
byte of its bits, mask, keys of the source, keys gone through, made?) each, `marks` the bits.

Reference: [RR96], [ES81] for ranks as distances; `docs/design/0007-rerank.md` for instances of several facts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sempre.kernel.layout import INT64_MAX
from sempre.kernel.walker import (
    ABSENT,
    COMPARE,
    MOVE,
    PROBE,
    SCAN,
    _bind,
    _compares,
    _load32,
    _load64,
    _prefix,
)  # fmt: skip

Ints = NDArray[np.int64]

OWN, EITHER = 6, 7
STANDS, DOUBTED, OUT = 0, 1, 2
# What is looked for: that a fact loses an instance, gains one, has one at all, or has which.
LOSE, GAIN, RAISE, PROVE, SEARCH = range(5)
# What a fact in the queue waits for: to be looked at, to be given another rank, to come back.
LOOK, DECIDE, RETURN = range(3)
FAR = np.int64(1) << 60
# To begin with a plan takes as long as so many keys.
STARTING = 4
# A sieve is made once the keys gone through are such a share of those that it is made of: each is marked in less time.
SIEVE_SHARE = 16
# So many ranks are remembered, in a table that is a power of two.
NEAR = 1 << 13
# Columns of `tables`.
SOURCE, FREE, FIRST, MASK, KEYS, SEEN, MADE = range(7)
# Columns of `facts`.
KEY, RELATION, RANK, NUMBER, STATE, DUE, OLD_RANK, OLD_NUMBER = range(8)
# Places of `found`: facts, queue, work done, lowest rank of an instance, instances that are low enough, of which stand;
# whether there was no room, how often a fact was taken from the queue, and how many keys sieves dropped.
USED, WAITING, WORK, LOWEST, LOW, LOW_STANDING, FAILED, TAKEN, SIFTED = range(9)


def _loop(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


def _bare(function: Any) -> Any:
    """For what makes no array: arrays that are handed on are not counted, which took half of the time."""
    return njit(cache=True, nogil=True, _nrt=False)(function)


@_bare
def _first(runs: Ints, run: int, key: int) -> int:
    """The first position of a run whose key is not below `key`."""
    address = runs[run, 0]
    size = runs[run, 1]
    low = 0
    high = size
    if runs[run, 2] and size:
        if key > _load64(address + 8 * (size - 1)):
            return size
        bucket = runs[run, 2] + 4 * (key >> runs[run, 3])
        low = np.int64(_load32(bucket)) & 0xFFFFFFFF
        high = np.int64(_load32(bucket + 4)) & 0xFFFFFFFF
    while low < high:
        middle = (low + high) >> 1
        if _load64(address + 8 * middle) < key:
            low = middle + 1
        else:
            high = middle
    return low


@_bare
def _held(runs: Ints, first: int, last: int, key: int) -> bool:
    for run in range(first, last):
        at = _first(runs, run, key)
        if at < runs[run, 1] and _load64(runs[run, 0] + 8 * at) == key:
            return True
    return False


@_bare
def _shown(sources: Ints, parts: Ints, runs: Ints, source: int, key: int) -> bool:
    for part in range(sources[source, 0], sources[source, 1]):
        if _held(runs, parts[part, 0], parts[part, 1], key) and not _held(runs, parts[part, 2], parts[part, 3], key):
            return True
    return False


@_bare
def _number(tallies: Ints, first: int, last: int, key: int) -> int:
    """The number that a tally has for a key."""
    total = 0
    for run in range(first, last):
        at = _first(tallies, run, key)
        if at < tallies[run, 1] and _load64(tallies[run, 0] + 8 * at) == key:
            if tallies[run, 5] == 4:
                total += _load32(tallies[run, 4] + 4 * at)
            else:
                total += _load64(tallies[run, 4] + 8 * at)
    return total


@_bare
def _place(table: NDArray[np.int32], facts: Ints, key: int, relation: int) -> int:
    """Where a fact is in the table, or the free place where it belongs."""
    mask = table.size - 1
    mixed = key * 0x9E3779B97F4A7C1 + relation * 0x1F123BB5
    at = ((mixed >> 29) ^ (mixed >> 7)) & mask
    while table[at] and (facts[table[at] - 1, KEY] != key or facts[table[at] - 1, RELATION] != relation):
        at = (at + 1) & mask
    return at


@_bare
def _ranked(near: Ints, tallies: Ints, spans: Ints, key: int, relation: int) -> int:
    """The rank that a fact had in the beginning, 0 if there is no such fact; remembered for a while."""
    mixed = key * 0x9E3779B97F4A7C1 + relation * 0x1F123BB5
    at = ((mixed >> 31) ^ mixed) & (near.shape[0] - 1)
    if near[at, 0] != key or near[at, 1] != relation + 1:
        near[at, 2] = _number(tallies, spans[relation, 0], spans[relation, 1], key)
        near[at, 0] = key
        near[at, 1] = relation + 1
    return near[at, 2]


@_bare
def _touched(
    table: NDArray[np.int32], facts: Ints, found: Ints, tallies: Ints, spans: Ints, key: int, relation: int
) -> int:
    """The number of a fact in `facts`, where it is put if it is not there yet; -1 if there is no room."""
    at = _place(table, facts, key, relation)
    if table[at]:
        return table[at] - 1
    new = found[USED]
    if new == facts.shape[0]:
        found[FAILED] = 1
        return -1
    found[USED] = new + 1
    table[at] = new + 1
    facts[new, KEY] = key
    facts[new, RELATION] = relation
    facts[new, RANK] = facts[new, OLD_RANK] = _number(tallies, spans[relation, 0], spans[relation, 1], key)
    facts[new, NUMBER] = facts[new, OLD_NUMBER] = _number(tallies, spans[relation, 2], spans[relation, 3], key)
    facts[new, STATE] = STANDS
    facts[new, DUE] = FAR
    return new


@_bare
def _push(heap: Ints, found: Ints, due: int, fact: int) -> None:
    at = found[WAITING]
    if at == heap.shape[0]:
        found[FAILED] = 1
        return
    found[WAITING] = at + 1
    while at:
        above = (at - 1) >> 1
        if heap[above, 0] <= due:
            break
        heap[at, 0] = heap[above, 0]
        heap[at, 1] = heap[above, 1]
        at = above
    heap[at, 0] = due
    heap[at, 1] = fact


@_bare
def _pop(heap: Ints, found: Ints) -> None:
    """Take the first out of the queue."""
    size = found[WAITING] - 1
    found[WAITING] = size
    due = heap[size, 0]
    fact = heap[size, 1]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and heap[below + 1, 0] < heap[below, 0]:
            below += 1
        if heap[below, 0] >= due:
            break
        heap[at, 0] = heap[below, 0]
        heap[at, 1] = heap[below, 1]
        at = below
    heap[at, 0] = due
    heap[at, 1] = fact


@_loop
def _grown(table: NDArray[np.int32], facts: Ints, heap: Ints, found: Ints) -> Any:
    """Four times the room."""
    more = np.empty((4 * facts.shape[0], 8), np.int64)
    more[: found[USED]] = facts[: found[USED]]
    queue = np.empty((4 * heap.shape[0], 2), np.int64)
    queue[: found[WAITING]] = heap[: found[WAITING]]
    wide = np.zeros(4 * table.size, np.int32)
    for fact in range(found[USED]):
        wide[_place(wide, more, more[fact, KEY], more[fact, RELATION])] = fact + 1
    return wide, more, queue


@_bare
def _highest(body: Ints, bodies: int, most: int) -> int:
    """The highest rank among the facts of an instance and `most`."""
    for number in range(bodies):
        if body[number, 5] > most:
            most = body[number, 5]
    return most


@_bare
def _concerned(
    table: NDArray[np.int32],
    facts: Ints,
    near: Ints,
    tallies: Ints,
    spans: Ints,
    mode: int,
    before: int,
    after: int,
    key: int,
    relation: int,
) -> bool:
    """Whether it means anything to a head that a fact of an instance, of rank `before`, comes, goes or is raised."""
    held = table[_place(table, facts, key, relation)]
    if held and facts[held - 1, STATE] == OUT:
        return mode != LOSE
    rank = facts[held - 1, RANK] if held else _ranked(near, tallies, spans, key, relation)
    return rank > before and (mode != RAISE or rank <= after)


@_bare
def _spread(
    table: NDArray[np.int32],
    facts: Ints,
    found: Ints,
    heap: Ints,
    near: Ints,
    tallies: Ints,
    spans: Ints,
    body: Ints,
    bodies: int,
    mode: int,
    before: int,
    after: int,
    key: int,
    relation: int,
) -> None:
    """What an instance means to what it derives, which is concerned.

    `before` is the rank with which a fact is in it, `after` the one that it is about to get.
    """
    at = _place(table, facts, key, relation)
    if table[at] and facts[table[at] - 1, STATE] == OUT:
        head = table[at] - 1
        due = 3 * _highest(body, bodies, after) + RETURN
        if due < facts[head, DUE]:
            facts[head, DUE] = due
            _push(heap, found, due, head)
        return
    rank = facts[table[at] - 1, RANK] if table[at] else _ranked(near, tallies, spans, key, relation)
    if _highest(body, bodies, before) >= rank:
        return
    head = _touched(table, facts, found, tallies, spans, key, relation)
    if head < 0:
        return
    if mode == GAIN:
        facts[head, NUMBER] += 1
        return
    facts[head, NUMBER] -= 1
    if facts[head, NUMBER] <= 0 and facts[head, STATE] == STANDS:
        _push(heap, found, 3 * rank + LOOK, head)


@_bare
def _holds(
    table: NDArray[np.int32],
    facts: Ints,
    code: Ints,
    near: Ints,
    tallies: Ints,
    spans: Ints,
    body: Ints,
    bodies: int,
    mode: int,
    seed: int,
    seed_relation: int,
) -> bool:
    """Whether none of the facts of an instance is out, and the fact that it was found from is where it may be.

    This is looked up for whole instances: most of what a plan goes through does not become one. Notes their ranks, and
    whether all stand.
    """
    for number in range(bodies):
        at = body[number, 3]
        own = 0
        for column in range(code[at + 6]):
            where = at + 7 + 3 * column
            own |= ((body[number, 2] >> code[where]) & code[where + 1]) << code[where + 2]
        relation = code[at + 3]
        held = table[_place(table, facts, own, relation)]
        if own == seed and relation == seed_relation:
            if code[at + 4] or mode >= PROVE:
                return False
        elif held and facts[held - 1, STATE] == OUT:
            return False
        body[number, 4] = facts[held - 1, STATE] == STANDS if held else 1
        body[number, 5] = facts[held - 1, RANK] if held else _ranked(near, tallies, spans, own, relation)
        if not body[number, 5]:
            return False  # an index may still have it: it was taken out before
    return True


@_bare
def _bit(prefix: int, mask: int) -> int:
    """Which bit of a sieve stands for a prefix."""
    mixed = prefix * 0x9E3779B97F4A7C1
    return (mixed ^ (mixed >> 31)) & mask


@_bare
def _make_sieve(tables: Ints, table: int, marks: NDArray[np.uint8], sources: Ints, parts: Ints, runs: Ints) -> int:
    """Mark every prefix that a source has; returns how many keys it went through."""
    source = tables[table, SOURCE]
    free = tables[table, FREE]
    first = tables[table, FIRST]
    mask = tables[table, MASK]
    total = 0
    for part in range(sources[source, 0], sources[source, 1]):
        for run in range(parts[part, 0], parts[part, 1]):
            address = runs[run, 0]
            for at in range(runs[run, 1]):
                bit = _bit(_load64(address + 8 * at) >> free, mask)
                marks[first + (bit >> 3)] |= np.uint8(1 << (bit & 7))
            total += runs[run, 1]
    tables[table, MADE] = 1
    return total


@_bare
def _known(sieves: Ints, at: int, slots: Ints) -> int:
    """What is known of the prefix before a lookup, or -1 when the later relation cannot hold it."""
    return _prefix(sieves, at + 1, slots)


@_bare
def _sifted(
    sieves: Ints,
    at: int,
    tables: Ints,
    marks: NDArray[np.uint8],
    known: int,
    address: int,
    begin: int,
    end: int,
    high: int,
) -> int:
    """The first position whose key the sieve lets through, or that is beyond what is looked up."""
    table = sieves[at]
    free = tables[table, FREE]
    first = tables[table, FIRST]
    mask = tables[table, MASK]
    at += 2 + 5 * sieves[at + 1]
    found = sieves[at]
    at += 1
    while begin < end:
        key = _load64(address + 8 * begin)
        if key > high:
            return begin
        prefix = known
        for column in range(found):
            where = at + 4 * column
            prefix += (((key >> sieves[where]) & sieves[where + 1]) + sieves[where + 2]) << sieves[where + 3]
        bit = _bit(prefix >> free, mask)
        if marks[first + (bit >> 3)] >> (bit & 7) & 1:
            return begin
        begin += 1
    return begin


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
    tallies: Ints,
    spans: Ints,
    sieve_of: Ints,
    sieves: Ints,
    tables: Ints,
    marks: NDArray[np.uint8],
    slots: Ints,
    it: Ints,
    body: Ints,
    near: Ints,
    table: NDArray[np.int32],
    facts: Ints,
    found: Ints,
    heap: Ints,
    mode: int,
    fact: int,
    rank: int,
    after: int,
) -> None:
    """Go through the instances that one plan finds for a fact."""
    seed = facts[fact, KEY]
    seed_relation = facts[fact, RELATION]
    bodies = plans[plan, 3]
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
                                begun = it[pc, 3]
                                it[pc, 3] = _sifted(
                                    sieves, it[pc, 5], tables, marks, it[pc, 4], address, begun, length, high
                                )
                                found[SIFTED] += it[pc, 3] - begun
                                if it[pc, 3] == length:
                                    break
                            key = _load64(address + 8 * it[pc, 3])
                            if key > high:
                                break
                            it[pc, 3] += 1
                            found[WORK] += 1
                            if sieve_of[pc] >= 0:
                                tables[sieves[sieve_of[pc]], SEEN] += 1
                            if op == OWN:
                                body[code[at + 5], 2] = key
                                body[code[at + 5], 3] = at
                            elif parts[part, 2] < parts[part, 3] and _held(runs, parts[part, 2], parts[part, 3], key):
                                continue
                            forward = _bind(code, binds, key, slots)
                        if not forward:
                            it[pc, 2] += 1
                            it[pc, 3] = -1
                    if not forward:
                        it[pc, 1] += 1
                        it[pc, 2] = -1
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
                if least:
                    pc = choice
                    continue
        elif entering:
            key = 0
            concerned = True
            if mode < PROVE:
                key = _prefix(code, at + 2, slots)
                if key < 0:
                    found[FAILED] = 1
                    return
                concerned = _concerned(table, facts, near, tallies, spans, mode, rank, after, key, code[at + 1])
            if concerned and _holds(table, facts, code, near, tallies, spans, body, bodies, mode, seed, seed_relation):
                found[WORK] += 1
                if mode == PROVE:
                    found[LOW_STANDING] = 1
                    return
                if mode == SEARCH:
                    _weigh(found, body, bodies, rank)
                else:
                    _spread(
                        table, facts, found, heap, near, tallies, spans, body, bodies, mode, rank, after, key,
                        code[at + 1],
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
def _weigh(found: Ints, body: Ints, bodies: int, rank: int) -> None:
    """Note an instance of a fact in doubt: whether it ranks no higher than `rank`, and whether it stands."""
    most = _highest(body, bodies, 0)
    stands = True
    for number in range(bodies):
        stands = stands and body[number, 4] == 1
    if most <= rank:
        found[LOW] += 1
        if stands:
            found[LOW_STANDING] += 1
    if stands and most < found[LOWEST]:
        found[LOWEST] = most


@_loop
def begin(front_key: Ints, front_relation: Ints, tallies: Ints, spans: Ints, bits: int) -> Any:
    """Where to begin with the facts of the front, which lost tight instances: a table, facts, a queue and `found`."""
    table = np.zeros(1 << bits, np.int32)
    facts = np.empty((1 << (bits - 1), 8), np.int64)
    heap = np.empty((1 << bits, 2), np.int64)
    found = np.zeros(9, np.int64)
    for i in range(front_key.size):
        fact = _touched(table, facts, found, tallies, spans, front_key[i], front_relation[i])
        if fact < 0:
            break
        _push(heap, found, 3 * facts[fact, RANK] + LOOK, fact)
    return table, facts, heap, found


@_bare
def _is_full(facts: Ints, found: Ints) -> bool:
    return 4 * max(found[USED], found[WAITING] >> 1) > facts.shape[0]


@_bare
def _settle_some(
    table: NDArray[np.int32],
    facts: Ints,
    heap: Ints,
    found: Ints,
    plans: Ints,
    starts: Ints,
    before: Ints,
    code: Ints,
    sources: Ints,
    parts: Ints,
    runs: Ints,
    explicit: Ints,
    tallies: Ints,
    spans: Ints,
    sieve_of: Ints,
    sieves: Ints,
    tables: Ints,
    marks: NDArray[np.uint8],
    slots: Ints,
    it: Ints,
    body: Ints,
    near: Ints,
    budget: int,
) -> None:
    """As `settle`, until more room is needed."""
    while found[WAITING] and not found[FAILED] and found[WORK] < budget and not _is_full(facts, found):
        found[TAKEN] += 1
        due = heap[0, 0]
        fact = heap[0, 1]
        _pop(heap, found)
        task = due % 3
        rank = due // 3
        relation = facts[fact, RELATION]
        if task == LOOK:
            if facts[fact, STATE] != STANDS or facts[fact, NUMBER] > 0 or facts[fact, RANK] != rank:
                continue
            if _shown(sources, parts, runs, explicit[relation], facts[fact, KEY]):
                continue
            found[LOW_STANDING] = 0
            for plan in range(plans.shape[0]):
                if plans[plan, 0] == relation and plans[plan, 2] == 2 and not found[LOW_STANDING]:
                    _follow(
                        plans, plan, starts, before, code, sources, parts, runs, tallies, spans,
                        sieve_of, sieves, tables, marks, slots, it, body, near,
                        table, facts, found, heap, PROVE, fact, rank, rank,
                    )  # fmt: skip
            if not found[LOW_STANDING]:
                facts[fact, STATE] = DOUBTED
                _push(heap, found, 3 * rank + DECIDE, fact)
            continue
        if task == RETURN and (facts[fact, STATE] != OUT or facts[fact, DUE] != due):
            continue
        if task == DECIDE and facts[fact, STATE] != DOUBTED:
            continue
        found[LOWEST] = FAR
        found[LOW] = found[LOW_STANDING] = 0
        for plan in range(plans.shape[0]):
            if plans[plan, 0] == relation and plans[plan, 2] == 1:
                _follow(
                    plans, plan, starts, before, code, sources, parts, runs, tallies, spans,
                        sieve_of, sieves, tables, marks, slots, it, body, near,
                    table, facts, found, heap, SEARCH, fact, rank, rank,
                )  # fmt: skip
        lowest = found[LOWEST]
        if found[LOW_STANDING]:
            mode = RAISE if task == DECIDE else GAIN
            facts[fact, STATE] = STANDS
            facts[fact, NUMBER] = found[LOW]
            if task == RETURN:
                facts[fact, RANK] = rank + 1
        elif task == DECIDE:
            mode = LOSE
        else:
            facts[fact, DUE] = FAR
            if lowest < FAR:
                facts[fact, DUE] = 3 * lowest + RETURN
                _push(heap, found, 3 * lowest + RETURN, fact)
            continue
        for plan in range(plans.shape[0]):
            if plans[plan, 0] == relation and plans[plan, 2] == 0:
                _follow(
                    plans, plan, starts, before, code, sources, parts, runs, tallies, spans,
                        sieve_of, sieves, tables, marks, slots, it, body, near,
                    table, facts, found, heap, mode, fact, facts[fact, RANK], rank + 1,
                )  # fmt: skip
        if mode == RAISE:
            facts[fact, RANK] = rank + 1
        elif mode == LOSE:
            facts[fact, STATE] = OUT
            facts[fact, DUE] = FAR
            if lowest < FAR:
                facts[fact, DUE] = 3 * lowest + RETURN
                _push(heap, found, 3 * lowest + RETURN, fact)


@_loop
def settle(
    table: NDArray[np.int32],
    facts: Ints,
    heap: Ints,
    found: Ints,
    plans: Ints,
    starts: Ints,
    before: Ints,
    code: Ints,
    sources: Ints,
    parts: Ints,
    runs: Ints,
    explicit: Ints,
    tallies: Ints,
    spans: Ints,
    sieve_of: Ints,
    sieves: Ints,
    tables: Ints,
    marks: NDArray[np.uint8],
    variables: int,
    most_bodies: int,
    budget: int,
) -> Any:
    """Find out what becomes of the facts in the queue, which lost tight instances, and of all that rests on them.

    `plans` has (relation that it starts from, first instruction, task, facts of the stratum besides) each, the task
    being 0 from a fact forward, 1 from a fact back to what derives it, 2 the same by rules without recursion.
    `explicit` is the source of explicit facts for every relation, `spans` where the ranks and numbers of a relation
    are among the `tallies`. Stops once `budget` is done, to be called again with what it returns: the table, facts,
    queue and `found`, in which nothing is waiting at the end.
    """
    slots = np.zeros(variables, np.int64)
    it = np.zeros((starts.size, 6), np.int64)
    body = np.zeros((most_bodies, 6), np.int64)
    near = np.zeros((NEAR, 4), np.int64)
    while found[WAITING] and not found[FAILED] and found[WORK] < budget:
        if _is_full(facts, found):
            table, facts, heap = _grown(table, facts, heap, found)
        _settle_some(
            table, facts, heap, found, plans, starts, before, code, sources, parts, runs, explicit, tallies, spans,
            sieve_of, sieves, tables, marks, slots, it, body, near, budget,
        )  # fmt: skip
    return table, facts, heap, found


def warm() -> None:
    """Compile or load it."""
    none = np.zeros(0, np.int64)
    pairs, quads, sixes, sevens = (np.zeros((0, width), np.int64) for width in (2, 4, 6, 7))
    begun = begin(none, none, sixes, quads, 4)
    bits = np.zeros(0, np.uint8)
    settle(*begun, quads, none, none, none, pairs, quads, quads, none, sixes, quads, none, none, sevens, bits, 0, 0, 1)
