"""What places were expected to cost: from sizes, and from what strata took there."""

from __future__ import annotations

from sempre.maintain.decide import ChangeSize
from sempre.maintain.expected import Expected, PlaceCosts, shown_expected

ROOMS = {"driver": 1_000, "workers": 5_000, "cluster": None}
TEN = ChangeSize(10, 1_000, "insert")


def seconds(costs: PlaceCosts, needed: int, home: str | None, change: ChangeSize | None) -> dict[str, float | None]:
    return {each.place: each.seconds for each in costs.expected(0, needed, ROOMS, home, change)}


def test_nothing_is_known_at_first() -> None:
    found = PlaceCosts(4.0).expected(0, 800, ROOMS, None, None)
    assert found == tuple(Expected(place, 800, room, None) for place, room in ROOMS.items())
    line = "driver: 800 bytes of 1,000, not known how long; workers: 800 bytes of 5,000, not known how long; "
    assert shown_expected(found) == line + "cluster: 800 bytes, not known how long"


def test_at_home_a_change_is_followed_and_elsewhere_all_is_derived() -> None:
    costs = PlaceCosts(4.0)
    costs.ran(0, "driver", 1_000, 2.0)
    costs.ran(0, "cluster", 1_000, 30.0)
    costs.followed(0, "driver", TEN, 0.25)
    assert seconds(costs, 500, "driver", TEN) == {"driver": 0.25, "workers": None, "cluster": 15.0}
    assert seconds(costs, 500, "cluster", TEN) == {"driver": 1.0, "workers": None, "cluster": 15.0}
    assert seconds(costs, 500, None, TEN) == {"driver": 1.0, "workers": None, "cluster": 15.0}
    found = costs.expected(0, 500, ROOMS, "driver", TEN)
    assert shown_expected(found[:1]) == "driver: 500 bytes of 1,000, 0.250 s"
    assert costs.expected(1, 500, ROOMS, "driver", TEN)[0].seconds is None, "each stratum has costs of its own"


def test_changes_whose_size_nobody_asked_for() -> None:
    costs = PlaceCosts(4.0)
    costs.followed(0, "cluster", None, 3.0)
    costs.followed(0, "cluster", None, 1.0)
    assert seconds(costs, 500, "cluster", None)["cluster"] == 2.0
    assert seconds(costs, 500, "cluster", TEN)["cluster"] is None
