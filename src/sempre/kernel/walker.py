"""Rounds of a few rows each, one row at a time, in compiled code.

A long chain makes thousands of rounds with a handful of facts. For array operations each costs its fixed overhead; here
a fact costs about a microsecond. `walk` follows delta plans whose only atom of the stratum is the pivot: then every
instance belongs to exactly one fact, the order in which facts are taken does not matter, and there are no rounds.

It is an interpreter: `backends/walk_code.py` writes the plans as integers, runs of keys as addresses. Relations are
read in place. Nothing is changed but the arrays made here, so a walk that is given up has done nothing.

Code, by instruction (the first integer says which):

    SCAN    checks: n, (shift, mask, lo, value)*   binds: n, (slot, shift, mask, lo)*   same: n, (…, …)*
    PROBE   source, free mask, prefix: n, (constant?, value or slot, lo, hi, shift)*   binds   same
    ABSENT  source, free mask, prefix
    COMPARE operator, (constant?, value or slot) twice
    MOVE    slot, constant?, value or slot
    EMIT    relation, columns: n, (constant?, value or slot, lo, hi, shift)*
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SCAN, PROBE, ABSENT, COMPARE, MOVE, EMIT = range(6)
EQ, NE, LT, LE, GT, GE = range(6)
INSERT, DELETE = 0, 1
DONE, MORE, OVERFLOW = 0, 1, 2
# How a touched fact stands: not decided, joined the walk, stays as it is.
_OPEN, _JOINED, _SETTLED = 0, 1, 2


@intrinsic
def _load64(context: Any, address: Any) -> Any:
    """The 64-bit integer at an address."""

    def generate(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.PointerType(ir.IntType(64))), typ=ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic
def _load32(context: Any, address: Any) -> Any:
    """The 32-bit integer at an address."""

    def generate(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.PointerType(ir.IntType(32))), typ=ir.IntType(32))

    return types.int32(types.int64), generate


def _loop(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_loop
def _lower_bound(address: int, size: int, key: int) -> int:
    low = 0
    high = size
    while low < high:
        middle = (low + high) >> 1
        if _load64(address + 8 * middle) < key:
            low = middle + 1
        else:
            high = middle
    return low


@_loop
def _in_runs(runs: Ints, first: int, last: int, key: int) -> bool:
    for run in range(first, last):
        address = runs[run, 0]
        size = runs[run, 1]
        at = _lower_bound(address, size, key)
        if at < size and _load64(address + 8 * at) == key:
            return True
    return False


@_loop
def _in_source(sources: Ints, parts: Ints, runs: Ints, source: int, key: int) -> bool:
    for part in range(sources[source, 0], sources[source, 1]):
        if _in_runs(runs, parts[part, 0], parts[part, 1], key) and not _in_runs(
            runs, parts[part, 2], parts[part, 3], key
        ):
            return True
    return False


@_loop
def _count(tallies: Ints, first: int, last: int, key: int) -> int:
    """The number that a tally has for a key."""
    total = 0
    for run in range(first, last):
        address = tallies[run, 0]
        size = tallies[run, 2]
        at = _lower_bound(address, size, key)
        if at < size and _load64(address + 8 * at) == key:
            if tallies[run, 3] == 4:
                total += _load32(tallies[run, 1] + 4 * at)
            else:
                total += _load64(tallies[run, 1] + 8 * at)
    return total


@_loop
def _bind(code: Ints, at: int, key: int, slots: Ints) -> bool:
    """Bind variables from a key by the binds and same-checks at `at`."""
    n = code[at]
    at += 1
    for _ in range(n):
        slots[code[at]] = ((key >> code[at + 1]) & code[at + 2]) + code[at + 3]
        at += 4
    n = code[at]
    at += 1
    for _ in range(n):
        left = ((key >> code[at]) & code[at + 1]) + code[at + 2]
        right = ((key >> code[at + 3]) & code[at + 4]) + code[at + 5]
        if left != right:
            return False
        at += 6
    return True


@_loop
def _prefix(code: Ints, at: int, slots: Ints) -> int:
    """The least key with the prefix at `at`, or -1 when the relation cannot hold it."""
    n = code[at]
    at += 1
    key = 0
    for _ in range(n):
        value = code[at + 1] if code[at] else slots[code[at + 1]]
        if value < code[at + 2] or value > code[at + 3]:
            return -1
        key |= (value - code[at + 2]) << code[at + 4]
        at += 5
    return key


@_loop
def _compares(operator: int, left: int, right: int) -> bool:
    if operator == EQ:
        return left == right
    if operator == NE:
        return left != right
    if operator == LT:
        return left < right
    if operator == LE:
        return left <= right
    if operator == GT:
        return left > right
    return left >= right


@_loop
def _slot_of(table_key: Ints, table_relation: Ints, key: int, relation: int) -> int:
    """Where a fact is in the table, or the free place where it belongs."""
    mask = table_key.size - 1
    at = ((key * 0x9E3779B97F4A7C1 + relation * 0x1F123BB5) >> 7) & mask
    while table_relation[at] >= 0 and (table_key[at] != key or table_relation[at] != relation):
        at = (at + 1) & mask
    return at


# One long function: with its instructions in functions of their own, inlined or not, it takes a tenth to a half longer.
@_loop
def walk(
    front_key: Ints,
    front_relation: Ints,
    plans: Ints,
    starts: Ints,
    code: Ints,
    sources: Ints,
    parts: Ints,
    runs: Ints,
    present: Ints,
    tallies: Ints,
    tally_ranges: Ints,
    variables: int,
    mode: int,
    bits: int,
    budget: int,
) -> Any:
    """Follow the plans from the front.

    `plans` has (relation of the pivot, first instruction, last) each; `present` the source of every relation as it
    stands without the front; `variables` is how many slots the code uses. Inserting, a derived fact joins when it is
    not present; deleting, when it is present and its tally is zero. Returns a status, how many joined facts were
    followed, the facts that joined (the front first) and, of all facts derived, by how many instances.
    """
    capacity = 1 << bits
    table_key = np.zeros(capacity, np.int64)
    table_relation = np.full(capacity, -1, np.int64)
    table_count = np.zeros(capacity, np.int64)
    table_state = np.zeros(capacity, np.int8)
    work_key = np.empty(capacity, np.int64)
    work_relation = np.empty(capacity, np.int64)
    used = 0
    size = front_key.size
    done = 0
    status = DONE
    for i in range(front_key.size):
        work_key[i] = front_key[i]
        work_relation[i] = front_relation[i]
        at = _slot_of(table_key, table_relation, front_key[i], front_relation[i])
        if table_relation[at] < 0:
            used += 1
        table_key[at] = front_key[i]
        table_relation[at] = front_relation[i]
        table_state[at] = _JOINED
    slots = np.zeros(variables, np.int64)
    depth = starts.size
    it_part = np.zeros(depth, np.int64)
    it_run = np.zeros(depth, np.int64)
    it_at = np.zeros(depth, np.int64)
    it_low = np.zeros(depth, np.int64)
    while done < size and status == DONE:
        if size - front_key.size > budget:
            status = MORE
            break
        fact = work_key[done]
        for plan in range(plans.shape[0]):
            if plans[plan, 0] != work_relation[done]:
                continue
            first = plans[plan, 1]
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
                            if ((fact >> code[at]) & code[at + 1]) + code[at + 2] != code[at + 3]:
                                forward = False
                            at += 4
                        forward = forward and _bind(code, at, fact, slots)
                elif op == PROBE:
                    source = code[at + 1]
                    free = code[at + 2]
                    binds = at + 4 + 5 * code[at + 3]
                    if entering:
                        it_low[pc] = _prefix(code, at + 3, slots)
                        it_part[pc] = sources[source, 0]
                        it_run[pc] = -1
                    if it_low[pc] >= 0:
                        high = it_low[pc] | free
                        while it_part[pc] < sources[source, 1] and not forward:
                            part = it_part[pc]
                            if it_run[pc] < 0:
                                it_run[pc] = parts[part, 0]
                                it_at[pc] = -1
                            while it_run[pc] < parts[part, 1] and not forward:
                                address = runs[it_run[pc], 0]
                                length = runs[it_run[pc], 1]
                                if it_at[pc] < 0:
                                    it_at[pc] = _lower_bound(address, length, it_low[pc])
                                while it_at[pc] < length and not forward:
                                    key = _load64(address + 8 * it_at[pc])
                                    if key > high:
                                        break
                                    it_at[pc] += 1
                                    if not _in_runs(runs, parts[part, 2], parts[part, 3], key):
                                        forward = _bind(code, binds, key, slots)
                                if not forward:
                                    it_run[pc] += 1
                                    it_at[pc] = -1
                            if not forward:
                                it_part[pc] += 1
                                it_run[pc] = -1
                elif op == ABSENT:
                    if entering:
                        forward = True
                        source = code[at + 1]
                        low = _prefix(code, at + 3, slots)
                        if low >= 0:
                            high = low | code[at + 2]
                            for part in range(sources[source, 0], sources[source, 1]):
                                for run in range(parts[part, 0], parts[part, 1]):
                                    address = runs[run, 0]
                                    length = runs[run, 1]
                                    position = _lower_bound(address, length, low)
                                    while forward and position < length:
                                        key = _load64(address + 8 * position)
                                        if key > high:
                                            break
                                        if not _in_runs(runs, parts[part, 2], parts[part, 3], key):
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
                elif entering:
                    relation = code[at + 1]
                    key = _prefix(code, at + 2, slots)
                    if key < 0 or 2 * (used + 1) > capacity:
                        return OVERFLOW, 0, work_key[:0], work_relation[:0], work_key[:0], work_key[:0], work_key[:0]
                    place = _slot_of(table_key, table_relation, key, relation)
                    if table_relation[place] < 0:
                        used += 1
                        table_key[place] = key
                        table_relation[place] = relation
                    table_count[place] += 1
                    if table_state[place] == _OPEN:
                        here = _in_source(sources, parts, runs, present[relation], key)
                        if mode == DELETE:
                            ranges = tally_ranges[relation]
                            joins = here and _count(tallies, ranges[0], ranges[1], key) == 0
                        else:
                            joins = not here
                        if joins:
                            table_state[place] = _JOINED
                            work_key[size] = key
                            work_relation[size] = relation
                            size += 1
                        else:
                            table_state[place] = _SETTLED
                if forward:
                    pc += 1
                    entering = True
                else:
                    pc -= 1
                    entering = False
        done += 1
    counted = np.flatnonzero(table_count)
    return (
        status,
        done,
        work_key[:size].copy(),
        work_relation[:size].copy(),
        table_key[counted],
        table_relation[counted],
        table_count[counted],
    )


def warm() -> None:
    """Compile or load the walk."""
    none = np.zeros(0, np.int64)
    pairs = np.zeros((0, 2), np.int64)
    quads = np.zeros((0, 4), np.int64)
    triples = np.zeros((0, 3), np.int64)
    walk(none, none, triples, none, none, pairs, quads, pairs, none, quads, pairs, 0, INSERT, 4, 1)
