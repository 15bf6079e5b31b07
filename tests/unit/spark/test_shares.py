"""How strata are shared out to tasks, and why some are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram, Stratum
from sempre.lang.parser import parse
from sempre.limits import DEFAULTS
from sempre.maintain.decide import VALUE_BYTES
from sempre.rewrites.equivalences import close_equivalences
from sempre.spark import task_room
from sempre.spark.cluster.shares import decide, why_not
from sempre.spark.task_room import TaskRoom

DECLARED = ".decl e(x: number, y: number) .decl p(x: number, y: number) .decl q(x: number, y: number) .decl z() "
FIRST = DECLARED + "p(x, y) :- e(x, y). "
SOME = {"e": DEFAULTS.single_share_rows + 1}


def last(text: str) -> tuple[CheckedProgram, Stratum]:
    program = close_equivalences(check(parse(text, "t.dl"), {"t.dl": text}))
    return program, next(stratum for stratum in reversed(program.strata) if stratum.nonrecursive or stratum.recursive)


@pytest.mark.parametrize(
    ("rules", "keys"),
    [
        ("p(x, z) :- p(x, y), e(y, z), !e(z, x).", {"p": (0,)}),
        ("p(x, z) :- e(x, y), p(y, z), x != z.", {"p": (1,)}),
        ("p(x, y) :- p(x, y), e(x, y).", {"p": (0, 1)}),
        ("q(y, x) :- p(x, y). p(x, z) :- q(y, x), e(y, z).", {"p": (0,), "q": (1,)}),
        ("p(x, z) :- p(x, y), p(y, w), e(w, z), x < z.", {}),
        ("p(x, z) :- p(x, y), p(y, z), x < z.", {}),
        ("p(x, x) :- p(x, y), p(y, x).", {}),
        ("p(x + 1, y) :- p(x, y), x < 9.", {"p": (1,)}),
        ("p(1, z) :- p(1, y), e(y, z).", {}),  # a constant is not handed on
    ],
)
def test_keys(rules: str, keys: Mapping[str, tuple[int, ...]]) -> None:
    split = decide(*last(FIRST + rules), SOME)
    assert split is not None
    assert split.module is None
    assert dict(split.keys) == keys
    assert (split.parts == 1) == (not keys)


@pytest.mark.parametrize(
    ("rules", "kind"),
    [
        ("p(x, z) :- p(x, y), e(y, z).", "linear"),
        ("p(x, z) :- e(x, y), p(y, z).", "linear"),
        ("p(x, z) :- p(x, y), p(y, z).", "tc"),
        ("p(x, z) :- p(x, y), e(y, z). p(x, z) :- e(x, y), p(y, z).", "linear"),
        ("p(x, z) :- p(x, y), p(y, w), e(w, z).", ""),
        ("p(y, x) :- p(x, y). p(x, z) :- p(x, y), p(y, z).", "stc"),
        ("p(x, z) :- p(x, y), q(y, z). q(x, y) :- e(x, y). q(x, z) :- q(x, y), e(y, z).", "linear"),
        ("q(x, z) :- p(x, y), e(y, z). p(x, z) :- q(x, y), e(y, z).", "rch"),
    ],
)
def test_paths(rules: str, kind: str) -> None:
    split = decide(*last(FIRST + rules), SOME)
    assert split is not None
    assert (split.module.kind if split.module else "") == kind
    assert split.parts == (DEFAULTS.fewest_shares if kind else 1)


def test_wide_transitive_rules_are_made_linear() -> None:
    text = (
        ".decl e(x: number, y: number) .decl p(a: number, b: number, c: number, d: number) p(x, y, y, x) :- e(x, y). "
    )
    split = decide(*last(text + "p(a, b, e, f) :- p(a, b, c, d), p(c, d, e, f)."), SOME)
    assert split is not None
    assert dict(split.keys) == {"p": (0, 1)}


def test_sizes_decide() -> None:
    program, stratum = last(FIRST + "p(x, z) :- p(x, y), e(y, z).")
    for rows, parts in (
        (0, 1),
        (DEFAULTS.single_share_rows + 1, DEFAULTS.fewest_shares),
        (1_000_000, 40),
        (DEFAULTS.copied_rows, 160),
    ):
        split = decide(program, stratum, {"e": rows})
        assert split is not None
        assert (split.parts, split.seeded, split.copied) == (parts, False, ("e", "p"))
    split = decide(program, stratum, {"e": 10, "p": DEFAULTS.copied_rows})
    assert split is not None
    assert (split.parts, split.seeded, split.copied) == (DEFAULTS.most_shares, True, ("e",))
    assert decide(program, stratum, {"e": DEFAULTS.copied_rows + 1}) is None


def test_reasons() -> None:
    program, stratum = last(FIRST + "p(x, z) :- p(x, y), e(y, z).")
    split = decide(program, stratum, {"e": 3000})
    assert split is not None
    assert split.reason == (
        "paths (`p` is extended by `e` at its end): from 8 blocks of first values, 3,000 rows copied to each task"
    )
    assert why_not(program, stratum, {"e": 3000}) == ""
    split = decide(*last(FIRST + "p(x, z) :- p(x, y), e(y, z), x != z."), {"e": 3000})
    assert split is not None
    assert split.reason == "splits by p(x): 8 shares, 3,000 rows copied to each task"
    assert "4,000,001 rows are too many to copy" in why_not(program, stratum, {"e": DEFAULTS.copied_rows + 1})
    tangled = last(FIRST + "p(y, x) :- p(x, y). p(x, z) :- p(x, y), p(y, z), x != z.")
    split = decide(*tangled, {"e": 1000})
    assert split is not None
    assert split.reason == "it does not split by columns, and all of it (1,000 rows) goes to one task"
    assert "too many for one task" in why_not(*tangled, {"e": DEFAULTS.whole_rows + 1})
    assert why_not(*last(FIRST), {}) == "it is not recursive"
    assert why_not(*last(FIRST + "p(x, z) :- p(x, y), e(y, z), z()."), {}) == "`z` has no columns"


def test_tasks_are_given_as_much_as_they_have_room_for() -> None:
    """How many rows that is goes by bytes: two columns of three million rows, of each of two relations, take 288 MB."""
    tangled = last(FIRST + "p(y, x) :- p(x, y). p(x, z) :- p(x, y), p(y, z), x != z.")
    rows = {"e": 6_000_000}
    needed = 6_000_000 * 2 * VALUE_BYTES
    enough = TaskRoom(alone=int(needed / DEFAULTS.task_share) + 1)
    split = decide(*tangled, rows, room=enough)
    assert split is not None
    assert (split.parts, split.room) == (1, enough.alone)
    assert "all of it (6,000,000 rows) goes to one task" in split.reason
    assert decide(*tangled, rows, room=TaskRoom(alone=enough.alone - 10)) is None
    linear = last(FIRST + "p(x, z) :- p(x, y), e(y, z), x != z.")
    needed *= 2  # two rules read the edges
    each = int(needed / DEFAULTS.task_share) + 1
    split = decide(*linear, rows, room=TaskRoom(alone=2 * each, beside=each))
    assert split is not None
    assert (split.parts, split.room) == (240, 0)
    split = decide(*linear, rows, room=TaskRoom(alone=each, beside=each // 2))
    assert split is not None
    assert (split.parts, split.room, dict(split.keys)) == (1, each, {})
    assert "too many to copy to every task, and all of it (6,000,000 rows) goes to one task" in split.reason
    assert decide(*linear, rows, limits=replace(DEFAULTS, task_share=0), room=TaskRoom(each, each)) is None


@pytest.mark.parametrize(
    ("settings", "alone", "beside"),
    [
        ("master=local[4]", 2048, 512),
        ("master=local-cluster[2,1,1024]", 384, 384),
        ("master=yarn executor.memory=8g executor.cores=4", 819, 204),
        ("master=yarn executor.memoryOverhead=2048 executor.cores=2", 2048, 1024),
        ("master=k8s://h executor.memory=4g executor.memoryOverheadFactor=0.4", 1638, 1638),
        ("master=yarn executor.pyspark.memory=3g executor.cores=4 task.cpus=2", 3072, 1536),
        ("", 384, 384),
    ],
)
def test_a_session_says_how_much_room_tasks_have(
    settings: str, alone: int, beside: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_room, "machine_memory", lambda: 8 << 30)
    session: Any = SimpleNamespace(conf={f"spark.{name}": value for name, value in map(split_once, settings.split())})
    found = task_room.task_room(session, DEFAULTS)
    assert (found.alone >> 20, found.beside >> 20) == (alone, beside)


def split_once(setting: str) -> list[str]:
    return setting.split("=", 1)


def test_first_facts_of_a_transitive_rule_are_not_taken_from_outside() -> None:
    """They are both what is shared and what every task reads."""
    program, stratum = last(FIRST + "p(x, z) :- p(x, y), p(y, z).")
    assert decide(program, stratum, {"e": 10, "p": DEFAULTS.copied_rows}) is None
    assert "too many first facts" in why_not(program, stratum, {"e": 10, "p": DEFAULTS.copied_rows})
