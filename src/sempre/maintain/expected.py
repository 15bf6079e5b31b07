"""What each place was expected to cost a stratum, for the report: from its size, and from what it took there before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from sempre.data import dataclass
from sempre.maintain.costs import Cost, History
from sempre.maintain.decide import ChangeSize
from sempre.plan.backend import CLUSTER

# How a change is remembered whose size nobody asked for: on the cluster that would take jobs.
SOME = "some"


@dataclass(frozen=True, slots=True)
class Expected:
    """A place, before a stratum started.

    `bytes` is what the stratum may take there, and `room` what there is; None where there is no limit. `seconds` is
    what bringing it up to date was expected to take there: None where nobody can tell, since it never ran there.
    """

    place: str
    bytes: int
    room: int | None
    seconds: float | None


@dataclass(slots=True)
class PlaceCosts:
    """What strata have taken, by place: whole runs, and changes. It lasts as long as the database is open."""

    share: float
    _changes: dict[tuple[int, str], History] = field(default_factory=dict)
    _runs: dict[tuple[int, str], Cost] = field(default_factory=dict)

    def expected(
        self, stratum: int, needed: int, rooms: Mapping[str, int | None], home: str | None, change: ChangeSize | None
    ) -> tuple[Expected, ...]:
        """What places are expected to cost. At `home` a change is followed, at others everything is derived anew."""
        found = []
        for place, room in rooms.items():
            seconds = self._follows(stratum, place, change) if place == home else None
            known = self._runs.get((stratum, place))
            if seconds is None and known is not None:
                seconds = known.of(needed)
            found.append(Expected(place, needed, room, None if seconds is None else round(seconds, 6)))
        return tuple(found)

    def _follows(self, stratum: int, place: str, change: ChangeSize | None) -> float | None:
        history = self._changes.get((stratum, place))
        if history is None:
            return None
        kind, rows = _sized(change)
        return history.expected(kind, rows, self.share)[0]

    def ran(self, stratum: int, place: str, needed: int, seconds: float) -> None:
        """A stratum was derived anew."""
        self._runs[stratum, place] = Cost(seconds, max(needed, 1))

    def followed(self, stratum: int, place: str, change: ChangeSize | None, seconds: float) -> None:
        """A stratum has followed a change."""
        kind, rows = _sized(change)
        known = self._changes.get((stratum, place), History())
        self._changes[stratum, place] = replace(known.learned(kind, seconds, rows, self.share), ways={})


def _sized(change: ChangeSize | None) -> tuple[str, int]:
    return (SOME, 1) if change is None else (change.kind, change.rows)


def shown_expected(expected: Iterable[Expected]) -> str:
    """The places as a line of text."""
    return "; ".join(map(_shown, expected))


def _shown(each: Expected) -> str:
    room = "" if each.place == CLUSTER or each.room is None else f" of {each.room:,}"
    seconds = "not known how long" if each.seconds is None else f"{each.seconds:.3f} s"
    return f"{each.place}: {each.bytes:,} bytes{room}, {seconds}"
