"""How strata are shared out to tasks, and why some are not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram, Stratum
from sempre.lang.parser import parse
from sempre.limits import DEFAULTS
from sempre.rewrites.equivalences import close_equivalences
from sempre.spark.cluster.shares import decide, why_not

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


def test_first_facts_of_a_transitive_rule_are_not_taken_from_outside() -> None:
    """They are both what is shared and what every task reads."""
    program, stratum = last(FIRST + "p(x, z) :- p(x, y), p(y, z).")
    assert decide(program, stratum, {"e": 10, "p": DEFAULTS.copied_rows}) is None
    assert "too many first facts" in why_not(program, stratum, {"e": 10, "p": DEFAULTS.copied_rows})
