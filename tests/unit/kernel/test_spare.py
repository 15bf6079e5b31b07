"""What a first run leaves over goes back to the system."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

import sempre
from sempre.kernel import compiled, gather, spare
from sempre.limits import Limits

PROGRAM = ".decl e(x: number, y: number)\n.decl p(x: number, y: number)\np(x, z) :- e(x, y), e(y, z).\n"


def test_idle_buckets_are_given_up() -> None:
    compiled.load(compiled.LOOPS, wait=True)
    bucket = gather.Bucket(10, False, lambda keys, counts: None)
    bucket.close()
    assert gather._idle
    spare.give_back()
    assert not gather._idle


@pytest.mark.parametrize("error", [OSError, AttributeError, TypeError])
def test_another_c_library_is_no_reason_to_fail(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str | None) -> Any:
        raise error(name)

    monkeypatch.setattr(ctypes, "CDLL", fail)
    spare.give_back()


def test_the_first_run_gives_back_and_updates_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr("sempre.engine.give_back", lambda: given.append(1))
    with sempre.Database(PROGRAM, limits=Limits(give_back_rows=5)) as database:
        database.materialise({"e": [(1, 2), (2, 3), (3, 4)]})
        assert len(given) == 1
        database.apply(insert={"e": [(4, 5)]})
        assert len(given) == 1
    with sempre.Database(PROGRAM, limits=Limits(give_back_rows=6)) as database:
        database.materialise({"e": [(1, 2), (2, 3), (3, 4)]})
        assert len(given) == 1
