"""A module for rules that sempre has no algorithm for: intervals that grow together.

python examples/intervals/intervals.py [--bookings N]

`rooms.dl` joins spans that touch or overlap. A room with n bookings in a row has about n²/2 spans, and the rule that
joins them has about n³/6 instances. The module below keeps the intervals of every room and sweeps over them in the
order of their ends, room by room: a change costs what the rooms that it concerns have.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sempre

HERE = Path(__file__).parent
JOINING = "span(room, a, d) :- span(room, a, b), span(room, c, d), a <= c, c <= b, b < d."
Interval = tuple[int, int]
Columns = Sequence[NDArray[np.int64]]


class Intervals:
    """Takes the rule that joins spans, and leaves the others to sempre."""

    name = "intervals"
    rules = (JOINING,)

    def start(self) -> Rooms:
        """No rooms yet."""
        return Rooms()


class Rooms:
    """The intervals that every room was given, and those that they make. Rooms are numbers here, whatever they are."""

    def __init__(self) -> None:
        self._given: dict[int, set[Interval]] = {}
        self._spans: dict[int, set[Interval]] = {}

    def add(self, facts: sempre.ModuleFacts) -> sempre.ModuleFacts:
        """The spans that come with new ones."""
        fresh: list[tuple[int, int, int]] = []
        for room, intervals in _by_room(facts):
            self._given.setdefault(room, set()).update(intervals)
            fresh += self._changed(room)
        return {"span": _columns(fresh)}

    def remove(
        self, facts: sempre.ModuleFacts, derived: sempre.ModuleFacts, trusted: sempre.Trusted | None
    ) -> sempre.ModuleFacts:
        """The spans of the rooms concerned that are gone, or that only doubtful ones make."""
        lost: list[tuple[int, int, int]] = []
        for room, intervals in _by_room(facts):
            self._given[room] -= intervals
        for room in {room for told in (facts, derived) for room, _ in _by_room(told)}:
            before = self._spans.get(room, set())
            self._changed(room)
            left = self._spans[room]
            if trusted is not None:
                certain = trusted("span", _columns((room, *span) for span in self._given.get(room, ())))
                left = set(_swept(zip(certain[1].tolist(), certain[2].tolist(), strict=True)))
            lost += [(room, *span) for span in before - left]
        return {"span": _columns(lost)}

    def holds(self, head: str, facts: Columns) -> NDArray[np.bool_]:
        """Which spans are there."""
        rows = zip(*(column.tolist() for column in facts), strict=True)
        return np.array([(begin, end) in self._spans.get(room, ()) for room, begin, end in rows], np.bool_)

    def _changed(self, room: int) -> Iterator[tuple[int, int, int]]:
        """Bring a room up to date; gives its new spans."""
        before, after = self._spans.get(room, set()), set(_swept(self._given.get(room, ())))
        self._spans[room] = after
        return ((room, *span) for span in after - before)


def _swept(intervals: Iterable[Interval]) -> Iterator[Interval]:
    """All spans that intervals make: from each begin, in the order of ends, as far as one touches the next."""
    by_end = sorted(set(intervals), key=lambda interval: interval[1])
    for begin in {begin for begin, _ in by_end}:
        furthest: int | None = None
        for other, end in by_end:
            joins = furthest is not None and begin <= other <= furthest < end
            if other == begin or joins:
                yield begin, end
                # An interval that ends before it begins joins nothing.
                furthest = end if begin <= end else furthest


def _by_room(facts: sempre.ModuleFacts) -> list[tuple[int, set[Interval]]]:
    found: dict[int, set[Interval]] = {}
    for columns in facts.values():
        for room, begin, end in zip(*(column.tolist() for column in columns), strict=True):
            found.setdefault(room, set()).add((begin, end))
    return list(found.items())


def _columns(rows: Iterable[tuple[int, int, int]]) -> Columns:
    table = np.array([*rows], np.int64).reshape(-1, 3)
    return tuple(table.T)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bookings", type=int, default=150)
    wanted = parser.parse_args().bookings
    program = sempre.Program.from_file(HERE / "rooms.dl")
    rooms = [f"room {number}" for number in range(8)]
    booked = [(room, 2 * hour, 2 * hour + 2) for room in rooms for hour in range(wanted)]
    choices: list[list[str | sempre.RuleModule]] = [["auto"], ["auto", Intervals()]]
    for modules in choices:
        with sempre.Database(program, modules=modules) as db:
            started = time.perf_counter()
            db.apply(insert={"booked": booked, "beside": [(rooms[0], rooms[1])]})
            first = time.perf_counter() - started
            started = time.perf_counter()
            db.apply(delete={"booked": [(rooms[2], 20, 22)]})
            update = time.perf_counter() - started
            how = "by the module" if len(modules) > 1 else "rule by rule"
            print(f"{how}: {len(db['span']):,} spans in {first:.2f} s; without one booking {update:.3f} s")


if __name__ == "__main__":
    main()
