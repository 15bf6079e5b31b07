"""What was learned of a stratum, and which way it says is taken next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sempre.limits import DEFAULTS
from sempre.maintain.costs import COUNTERS, MODULAR, RANKED, RECENT, Cost, History


def costs(kind: str, seconds: float, rows: int) -> dict[str, tuple[Cost, ...]]:
    return {kind: (Cost(seconds, rows),)}


DEAR = History(1.0, costs("delete", 1.1, 1_000), recent=(("delete", 1_000),))


@pytest.mark.parametrize(
    ("history", "way"),
    [
        (History(1.0), RANKED),
        (replace(DEAR, recent=()), RANKED),
        (DEAR, COUNTERS),  # never tried: three tenths of a run are expected
        (replace(DEAR, others={COUNTERS: costs("delete", 0.7, 1_000)}), COUNTERS),
        (replace(DEAR, others={COUNTERS: costs("delete", 0.9, 1_000)}), RANKED),  # for so little it stays as it is
        (replace(DEAR, others={COUNTERS: costs("delete", 9.0, 10)}, recent=(("delete", 1_000),)), RANKED),
        # Most changes of late were small, and cost little by ranks.
        (replace(DEAR, costs=costs("delete", 0.1, 10), recent=(("delete", 10),) * 7), RANKED),
        (replace(DEAR, way=COUNTERS), RANKED),
        (replace(DEAR, way=COUNTERS, others={RANKED: costs("delete", 1.2, 1_000)}), COUNTERS),
        (replace(DEAR, way=MODULAR), RANKED),  # without modules nothing is known yet
        # Insertions by counters are expected to take half as long again.
        (
            replace(
                DEAR,
                costs={**DEAR.costs, **costs("insert", 0.2, 9)},
                recent=(*DEAR.recent, *[("insert", 9)] * 5),
            ),
            RANKED,
        ),
        (replace(DEAR, recent=(("mixed", 1_000),)), COUNTERS),  # what goes costs more than what comes
    ],
)
def test_the_way_that_the_last_changes_would_take_less_by(history: History, way: str) -> None:
    taken, why = history.next_way(DEFAULTS)
    assert taken == way
    assert bool(why) == (taken != (history.way if history.other else RANKED))


def test_the_last_changes_are_noted() -> None:
    history = History().noted("insert", 5)
    assert history.recent == (("insert", 5),)
    for rows in range(1, RECENT + 3):
        history = history.noted("delete", rows)
    assert history.recent == tuple(("delete", rows) for rows in range(3, RECENT + 3))


def test_what_is_known_of_ways_is_kept_when_they_change_and_fades_when_they_do_not() -> None:
    changed = DEAR.started(2.0, COUNTERS, DEFAULTS)
    assert (changed.full_seconds, changed.costs, changed.way) == (2.0, {}, COUNTERS)
    assert changed.others == {RANKED: DEAR.costs}
    again = changed.learned("delete", 0.2, 1_000).started(2.0, COUNTERS, DEFAULTS)
    assert again.others[RANKED]["delete"][0].seconds == pytest.approx(1.1 * DEFAULTS.fading_share)
    back = again.started(2.0, RANKED, DEFAULTS)
    assert back.costs == again.others[RANKED]
    assert back.others == {COUNTERS: again.costs}


def test_what_was_measured_takes_the_place_of_what_was_guessed() -> None:
    guessed = History().learned("delete", 2.0, 100, guessed=True)
    assert guessed.expected("delete", 100, DEFAULTS.similar_share) == (2.0, False)
    assert not guessed.knows("delete", 100, DEFAULTS.similar_share)
    measured = guessed.learned("delete", 0.5, 120)
    assert measured.costs["delete"] == (Cost(0.5, 120),)
    assert measured.knows("delete", 100, DEFAULTS.similar_share)
    assert guessed.learned("delete", 1.0, 100, guessed=True).costs["delete"] == (Cost(1.5, 100, True),)


def test_what_updates_take_longer_than_by_another_way_is_added_up() -> None:
    history = History(1.0, way=COUNTERS, others={RANKED: costs("delete", 0.1, 10)})
    history = history.learned("delete", 0.4, 10).learned("delete", 0.3, 12)
    assert history.excess == pytest.approx(0.4 - 0.1 + 0.3 - 0.1 * 1.2**0.75)
    assert history.learned("insert", 5.0, 10).excess == history.excess, "it is not known by ranks"
    assert history.started(1.0, RANKED, DEFAULTS).excess == 0
