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
# Columns of `facts`.
KEY, RELATION, RANK, NUMBER, STATE, DUE, OLD_RANK, OLD_NUMBER = range(8)
# Places of `found`: facts, queue, work done, lowest rank of an instance, instances that are low enough, of which stand;
# whether there was no room, and how often a fact was taken from the queue.
USED, WAITING, WORK, LOWEST, LOW, LOW_STANDING, FAILED, TAKEN = range(8)


def _loop(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_loop
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


@_loop
def _held(runs: Ints, first: int, last: int, key: int) -> bool:
    for run in range(first, last):
        at = _first(runs, run, key)
        if at < runs[run, 1] and _load64(runs[run, 0] + 8 * at) == key:
            return True
    return False


@_loop
def _shown(sources: Ints, parts: Ints, runs: Ints, source: int, key: int) -> bool:
    for part in range(sources[source, 0], sources[source, 1]):
        if _held(runs, parts[part, 0], parts[part, 1], key) and not _held(runs, parts[part, 2], parts[part, 3], key):
            return True
    return False


@_loop
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


@_loop
def _place(table: NDArray[np.int32], facts: Ints, key: int, relation: int) -> int:
    """Where a fact is in the table, or the free place where it belongs."""
    mask = table.size - 1
    mixed = key * 0x9E3779B97F4A7C1 + relation * 0x1F123BB5
    at = ((mixed >> 29) ^ (mixed >> 7)) & mask
    while table[at] and (facts[table[at] - 1, KEY] != key or facts[table[at] - 1, RELATION] != relation):
        at = (at + 1) & mask
    return at


@_loop
def _rank(table: NDArray[np.int32], facts: Ints, tallies: Ints, spans: Ints, key: int, relation: int) -> int:
    at = _place(table, facts, key, relation)
    if table[at]:
        return facts[table[at] - 1, RANK]
    return _number(tallies, spans[relation, 0], spans[relation, 1], key)


@_loop
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


@_loop
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


@_loop
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


@_loop
def _highest(
    table: NDArray[np.int32], facts: Ints, tallies: Ints, spans: Ints, body: Ints, bodies: int, most: int
) -> int:
    """The highest rank among the facts of an instance and `most`."""
    for number in range(bodies):
        rank = _rank(table, facts, tallies, spans, body[number, 0], body[number, 1])
        if rank > most:
            most = rank
    return most


@_loop
def _spread(
    table: NDArray[np.int32],
    facts: Ints,
    found: Ints,
    heap: Ints,
    tallies: Ints,
    spans: Ints,
    body: Ints,
    bodies: int,
    mode: int,
    fact: int,
    before: int,
    after: int,
    key: int,
    relation: int,
) -> None:
    """What an instance with `fact` in it means to what it derives.

    `before` is the rank with which the fact is in it, `after` the one that it is about to get.
    """
    at = _place(table, facts, key, relation)
    if table[at] and facts[table[at] - 1, STATE] == OUT:
        if mode != LOSE:
            head = table[at] - 1
            due = 3 * _highest(table, facts, tallies, spans, body, bodies, after) + RETURN
            if due < facts[head, DUE]:
                facts[head, DUE] = due
                _push(heap, found, due, head)
        return
    rank = facts[table[at] - 1, RANK] if table[at] else _number(tallies, spans[relation, 0], spans[relation, 1], key)
    if rank <= before or (mode == RAISE and rank > after):
        return
    if _highest(table, facts, tallies, spans, body, bodies, before) >= rank:
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


@_loop
def _holds(
    table: NDArray[np.int32],
    facts: Ints,
    code: Ints,
    parts: Ints,
    runs: Ints,
    body: Ints,
    bodies: int,
    mode: int,
    seed: int,
    seed_relation: int,
) -> bool:
    """Whether none of the facts of an instance is out, and the fact that it was found from is where it may be.

    This is looked up for whole instances: most of what a plan goes through does not become one.
    """
    for number in range(bodies):
        at = body[number, 3]
        part = body[number, 4]
        if _held(runs, parts[part, 2], parts[part, 3], body[number, 2]):
            return False
        own = 0
        for column in range(code[at + 6]):
            where = at + 7 + 3 * column
            own |= ((body[number, 2] >> code[where]) & code[where + 1]) << code[where + 2]
        relation = code[at + 3]
        if own == seed and relation == seed_relation:
            if code[at + 4] or mode >= PROVE:
                return False
        else:
            held = table[_place(table, facts, own, relation)]
            if held and facts[held - 1, STATE] == OUT:
                return False
        body[number, 0] = own
        body[number, 1] = relation
    return True


@_loop
def _follow(
    plan: Ints,
    starts: Ints,
    before: Ints,
    code: Ints,
    sources: Ints,
    parts: Ints,
    runs: Ints,
    tallies: Ints,
    spans: Ints,
    slots: Ints,
    it: Ints,
    body: Ints,
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
    bodies = plan[3]
    first = plan[1]
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
                            key = _load64(address + 8 * it[pc, 3])
                            if key > high:
                                break
                            it[pc, 3] += 1
                            found[WORK] += 1
                            if op == OWN:
                                body[code[at + 5], 2] = key
                                body[code[at + 5], 3] = at
                                body[code[at + 5], 4] = part
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
        elif entering and _holds(table, facts, code, parts, runs, body, bodies, mode, seed, seed_relation):
            found[WORK] += 1
            if mode == PROVE:
                found[LOW_STANDING] = 1
                return
            if mode == SEARCH:
                _weigh(table, facts, found, tallies, spans, body, bodies, rank)
            else:
                key = _prefix(code, at + 2, slots)
                if key < 0:
                    found[FAILED] = 1
                    return
                _spread(
                    table, facts, found, heap, tallies, spans, body, bodies, mode, fact, rank, after, key, code[at + 1]
                )
                if found[FAILED]:
                    return
        if forward:
            pc += 1
            entering = True
        else:
            pc = before[pc]
            entering = False


@_loop
def _weigh(
    table: NDArray[np.int32], facts: Ints, found: Ints, tallies: Ints, spans: Ints, body: Ints, bodies: int, rank: int
) -> None:
    """Note an instance of a fact in doubt: whether it ranks no higher than `rank`, and whether it stands."""
    most = 0
    stands = True
    for number in range(bodies):
        held = table[_place(table, facts, body[number, 0], body[number, 1])]
        if held:
            most = max(most, facts[held - 1, RANK])
            stands = stands and facts[held - 1, STATE] == STANDS
        else:
            relation = body[number, 1]
            most = max(most, _number(tallies, spans[relation, 0], spans[relation, 1], body[number, 0]))
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
    found = np.zeros(8, np.int64)
    for i in range(front_key.size):
        fact = _touched(table, facts, found, tallies, spans, front_key[i], front_relation[i])
        if fact < 0:
            break
        _push(heap, found, 3 * facts[fact, RANK] + LOOK, fact)
    return table, facts, heap, found


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
    it = np.zeros((starts.size, 4), np.int64)
    body = np.zeros((most_bodies, 5), np.int64)
    while found[WAITING] and not found[FAILED] and found[WORK] < budget:
        found[TAKEN] += 1
        if 4 * max(found[USED], found[WAITING] >> 1) > facts.shape[0]:
            table, facts, heap = _grown(table, facts, heap, found)
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
                        plans[plan], starts, before, code, sources, parts, runs, tallies, spans, slots, it, body,
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
                    plans[plan], starts, before, code, sources, parts, runs, tallies, spans, slots, it, body,
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
                    plans[plan], starts, before, code, sources, parts, runs, tallies, spans, slots, it, body,
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
    return table, facts, heap, found


def warm() -> None:
    """Compile or load it."""
    none = np.zeros(0, np.int64)
    pairs, quads, sixes = (np.zeros((0, width), np.int64) for width in (2, 4, 6))
    begun = begin(none, none, sixes, quads, 4)
    settle(*begun, quads, none, none, none, pairs, quads, quads, none, sixes, quads, 0, 0, 1)
