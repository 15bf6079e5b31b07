"""Several things at a time: what they send goes in one exchange, from one step of each to the next.

What an exchange costs is to wait for the others. All workers have the same things under way at each step, since each of
these goes through the same steps everywhere.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias, TypeVar

from sempre.workers.mesh import Gathered, Mesh, Parcel
from sempre.workers.stages import Sending

T = TypeVar("T")
# What sends several parcels at each of its steps, and goes on with what came for each.
Waves: TypeAlias = Generator[list[Parcel], list[Gathered], T]


def side_by_side(running: Iterable[Sending[None]]) -> Waves[None]:
    """Plans, each of which sends one parcel at a time."""
    waiting: list[tuple[Sending[None], Parcel]] = []
    for plan in running:
        with suppress(StopIteration):
            waiting.append((plan, next(plan)))
    while waiting:
        came = yield [parcel for _, parcel in waiting]
        after: list[tuple[Sending[None], Parcel]] = []
        for (plan, _), gathered in zip(waiting, came, strict=True):
            with suppress(StopIteration):
                after.append((plan, plan.send(gathered)))
        waiting = after


def at_once(mesh: Mesh, commands: Sequence[Waves[T]]) -> list[T]:
    """What each of some commands makes."""
    made: dict[int, T] = {}
    waiting: list[tuple[int, list[Parcel]]] = []

    def step(index: int, came: list[Gathered] | None, after: list[tuple[int, list[Parcel]]]) -> None:
        command = commands[index]
        try:
            after.append((index, next(command) if came is None else command.send(came)))
        except StopIteration as end:
            made[index] = end.value

    for index in range(len(commands)):
        step(index, None, waiting)
    while waiting:
        came = iter(mesh.exchange_all([parcel for _, parcels in waiting for parcel in parcels]))
        after: list[tuple[int, list[Parcel]]] = []
        for index, parcels in waiting:
            step(index, [next(came) for _ in parcels], after)
        waiting = after
    return [made[index] for index in range(len(commands))]
