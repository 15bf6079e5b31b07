"""What `auto` has learned of a stratum: how long runs and changes take, by kind, size and way of maintaining it.

There are three ways: by ranks, by counters, and by counters with modules. What one of them has cost stays known when
another is taken. Between ranks and counters the costs decide, each time that the stratum is evaluated again for another
reason: its run counts what the next way needs, which takes little. Nothing in this file looks at a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from sempre.data import dataclass
from sempre.limits import DEFAULTS, Limits

RANKED, COUNTERS = "ranked", "dredc"
MODULAR = f"{COUNTERS} with modules"
# So many times the rows take so many times as long, to this power: less, since some of what they affect is the same.
OVERLAP = 0.75
# Ways are compared by so many changes of late.
RECENT = 8


@dataclass(frozen=True, slots=True)
class Cost:
    """What changes of a kind and about a size have cost of late: seconds, for so many changed rows.

    It is `guessed` where the last one was given up.
    """

    seconds: float
    rows: float
    guessed: bool = False

    def of(self, rows: int) -> float:
        """The seconds that so many rows are expected to take: what more rows affect overlaps in part."""
        ratio = rows / max(self.rows, 1)
        return self.seconds * (ratio if ratio < 1 else float(ratio**OVERLAP))

    def is_like(self, rows: float, share: float) -> bool:
        """Whether it is the cost of changes of about so many rows."""
        return rows < share * self.rows and self.rows < share * rows


@dataclass(frozen=True, slots=True)
class History:
    """What `auto` knows of a stratum.

    `full_seconds` is how long a run from scratch took. `costs` has what changes have cost by their kind (`insert`,
    `delete` or `mixed`) and size. `ways` has the seconds of an epoch of late, by the way that it was maintained in, and
    `since` those of all epochs since the last run from scratch. These survive in a store.

    `preparing` is how long the maps took that deletions need, and that a run from scratch discards.

    `others` has the costs by other ways than the present one, and `recent` the kinds and rows of the last changes, but
    for those in bulk. `excess` is how much longer updates have taken since the last run from scratch than another way
    is known to take.

    How the stratum stands comes with its memory: the `way` it is maintained in, whether it is `certain` that following
    a change is cheaper (one module does all the recursion), whether it is `forgotten`, what was counted of it, and
    whether it is `unprepared`, without the maps.
    """

    full_seconds: float = 0.0
    costs: Mapping[str, tuple[Cost, ...]] = field(default_factory=dict)
    ways: Mapping[str, float] = field(default_factory=dict)
    since: float = 0.0
    way: str = RANKED
    certain: bool = False
    forgotten: bool = False
    preparing: float = 0.0
    unprepared: bool = False
    others: Mapping[str, Mapping[str, tuple[Cost, ...]]] = field(default_factory=dict)
    recent: tuple[tuple[str, int], ...] = ()
    excess: float = 0.0

    def noted(self, kind: str, rows: int) -> History:
        """With a change that is to be followed, or not."""
        return replace(self, recent=(*self.recent, (kind, rows))[-RECENT:])

    def learned(
        self, kind: str, seconds: float, rows: int, share: float = DEFAULTS.similar_share, guessed: bool = False
    ) -> History:
        """With what an epoch has cost; changes of other sizes than about `rows` have costs of their own.

        What was measured takes the place of what was guessed.
        """
        new = Cost(seconds, rows, guessed)
        like = [cost for cost in self.costs.get(kind, ()) if cost.is_like(rows, share)]
        if like and (guessed or not like[0].guessed):
            new = Cost((like[0].seconds + seconds) / 2, (like[0].rows + rows) / 2, guessed)
        others = [cost for cost in self.costs.get(kind, ()) if not cost.is_like(new.rows, share)]
        costs = tuple(sorted((*others, new), key=lambda cost: cost.rows))
        ways = {**self.ways, self.way: (self.ways.get(self.way, seconds) + seconds) / 2}
        excess = self.excess
        if (there := self.other) is not None:
            elsewhere, known = _expected(self.others.get(there, {}), kind, rows, share)
            excess += seconds - elsewhere if elsewhere is not None and known else 0.0
        return replace(self, costs={**self.costs, kind: costs}, ways=ways, since=self.since + seconds, excess=excess)

    def expected(self, kind: str, rows: int, share: float) -> tuple[float | None, bool]:
        """The seconds that so many rows are expected to take, and whether that is known from changes of their size.

        Where no change was like it, the next larger one says how much it will be at most.
        """
        return _expected(self.costs, kind, rows, share)

    def knows(self, kind: str, rows: int, share: float) -> bool:
        """Whether changes of about that size were followed to their end."""
        return any(cost.is_like(rows, share) and not cost.guessed for cost in self.costs.get(kind, ()))

    def is_near(self, kind: str, rows: int, share: float) -> bool:
        """Whether changes of at least about that size are known, so that it can be told from them."""
        return any(share * cost.rows >= rows for cost in self.costs.get(kind, ()))

    def faded(self, kind: str, share: float) -> History:
        """With so much less trust in what is known of a kind of change."""
        costs = tuple(replace(cost, seconds=cost.seconds * share) for cost in self.costs[kind])
        return replace(self, costs={**self.costs, kind: costs})

    def avoids_modules(self) -> bool:
        """Whether epochs without modules cost less; while nobody knows, whether those with them have cost a run."""
        plain, modular = self.ways.get(RANKED), self.ways.get(MODULAR)
        if modular is None:
            return False
        # What takes a moment altogether says little.
        return self.since > max(self.full_seconds, DEFAULTS.time_moment) if plain is None else modular > plain

    # ------------------------------------------------------------------------------------ between ranks and counters

    @property
    def other(self) -> str | None:
        """The way that could be taken instead; None where modules take part."""
        return {RANKED: COUNTERS, COUNTERS: RANKED}.get(self.way)

    def next_way(self, limits: Limits) -> tuple[str, str]:
        """By ranks or by counters, whatever the last changes would take less by, and why if that is another way."""
        here, there = self.way if self.other else RANKED, self.other or COUNTERS
        stay, go = (sum(self._price(way, kind, rows, limits) for kind, rows in self.recent) for way in (here, there))
        if go < limits.changing_share * stay:
            changes = "the last change is" if len(self.recent) == 1 else f"the last {len(self.recent)} changes are"
            return there, f"{changes} expected to take {go:.3f} s by {there}, {stay:.3f} s by {here}"
        return here, ""

    def _price(self, way: str, kind: str, rows: int, limits: Limits) -> float:
        """The seconds that a change is expected to take by a way: at worst it is given up for a run from scratch."""
        seconds = self._known(way, kind, rows, limits)
        if seconds is None:
            elsewhere = self._known(RANKED if way == COUNTERS else COUNTERS, kind, rows, limits)
            seconds = limits.untried_share * self.full_seconds
            if kind == "insert" and way == COUNTERS:
                # Each of them counts all instances that it finds, and not those of new facts alone.
                seconds = limits.counting_share * (elsewhere or 0.0)
            elif elsewhere is not None:
                seconds = min(seconds, elsewhere)
        return min(seconds, limits.avoided_share * self.full_seconds)

    def _known(self, way: str, kind: str, rows: int, limits: Limits) -> float | None:
        costs = self.costs if way == self.way else self.others.get(way, {})
        seconds, _ = _expected(costs, kind, rows, limits.similar_share)
        if seconds is None and kind == "mixed":
            seconds, _ = _expected(costs, "delete", rows, limits.similar_share)
        return seconds

    def started(self, seconds: float, way: str, limits: Limits) -> History:
        """After a run from scratch that took so long; from now on it is maintained in a way.

        What is known of other ways fades, so that they are tried again some day.
        """
        known = {**self.others, self.way: self.costs}
        costs = known.pop(way, {})
        kept = {other: _faded(held, limits.fading_share if self.way == way else 1.0) for other, held in known.items()}
        others = {other: held for other, held in kept.items() if held}
        return History(seconds, costs, self.ways, way=way, preparing=self.preparing, others=others, recent=self.recent)


def _expected(by_kind: Mapping[str, tuple[Cost, ...]], kind: str, rows: int, share: float) -> tuple[float | None, bool]:
    """See `History.expected`."""
    costs = by_kind.get(kind, ())
    like = [cost for cost in costs if cost.is_like(rows, share)]
    if like:
        return like[0].of(rows), not like[0].guessed
    smaller = [cost.of(rows) for cost in costs if cost.rows < rows]
    larger = [cost for cost in costs if cost.rows >= rows]
    if not larger:
        return (smaller[-1], False) if smaller else (None, False)
    return (min(smaller[-1], larger[0].seconds) if smaller else larger[0].of(rows)), True


def _faded(by_kind: Mapping[str, tuple[Cost, ...]], share: float) -> Mapping[str, tuple[Cost, ...]]:
    return {
        kind: tuple(replace(cost, seconds=cost.seconds * share) for cost in costs) for kind, costs in by_kind.items()
    }
