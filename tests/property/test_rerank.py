"""Facts that lose support are settled one by one as rounds of arrays would settle them, ranks and numbers included."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from sempre.backends import local
from sempre.backends import rerank as reranks
from sempre.kernel import compiled
from sempre.lang.parser import parse
from sempre.maintain import ranked
from tests.engine import UNHURRIED, check_epochs
from tests.property.cycles import cyclic_case
from tests.property.programs import random_case

pytestmark = pytest.mark.oracle

CASES = 40
Plant = Callable[[pytest.MonkeyPatch], None]

# Circles, with several atoms of the stratum in a rule, negations and facts of their own.
PROGRAM = """
.decl e(x: number, y: number)
.decl n(x: number)
.decl s(x: number, y: number)
.decl p(x: number, y: number)
.decl q(x: number, y: number)
p(x, y) :- e(x, y).
p(x, z) :- p(x, y), p(y, z), !n(y).
p(x, z) :- e(x, y), q(y, z).
q(y, x) :- p(x, y), q(x, x).
q(x, z) :- s(x, y), p(y, z), p(z, y).
q(x, x) :- s(x, _), p(x, x).
"""

GRAPHS = parse(PROGRAM, "graphs.dl")


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was settled fact by fact; None for what was not."""
    compiled.load(wait=True)
    made: list[Any] = []
    original = reranks.rerank

    def noting(*args: Any) -> Any:
        made.append(original(*args))
        return made[-1]

    monkeypatch.setattr(local, "rerank", noting)
    return made


def first_difference() -> int | None:
    """The first case that does not agree with the oracle: random programs, and graphs that change at random."""
    for seed in range(CASES):
        rng = random.Random(seed)
        case = random_case(rng)
        epochs = [(case.facts, {}), *case.updates]
        for program, changes in ((case.program, epochs), (GRAPHS, list(_graphs(rng)))):
            try:
                check_epochs(program, changes, "ranked")
            except Exception:  # noqa: BLE001  # a defect may show as a wrong result or as any error
                return seed
    return None


def _graphs(rng: random.Random) -> Any:
    """Epochs that delete and insert edges."""
    nodes = rng.randint(2, 6)

    def some(most: int) -> dict[str, set[tuple[int, ...]]]:
        names = {"e": 2, "s": 2, "n": 1, "p": 2}
        return {
            name: {
                tuple(rng.randrange(nodes) for _ in range(arity))
                for _ in range(rng.randint(0, most if name != "n" else 1))
            }
            for name, arity in names.items()
        }

    yield some(12), {}
    for _ in range(6):
        yield (some(2) if rng.random() < 0.5 else {}), some(4)


def test_settling_agrees_with_the_oracle(settled: list[Any]) -> None:
    assert first_difference() is None
    made = [found for found in settled if found is not None]
    raised = [found for found in made if any(map(_is_any_left, found.ranks, [found] * 9))]
    assert len(made) > CASES, "too few to say anything"
    assert len(raised) > 10, "too few facts that changed their rank and stayed"


def _is_any_left(name: str, found: Any) -> bool:
    return len(found.ranks[name]) > len(found.gone[name])


def altered(change: Callable[[Any], Any]) -> Plant:
    """What is settled, told wrong."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        original = reranks.rerank

        def wrong(*args: Any) -> Any:
            found = original(*args)
            return None if found is None else change(found)

        monkeypatch.setattr(local, "rerank", wrong)

    return plant


def without_plans(task: int) -> Plant:
    """Plans of one task are not followed."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        original = reranks.rerank

        def wrong(front: Any, plans: Any, *rest: Any) -> Any:
            return original(front, [plan for plan in plans if plan[2] != task], *rest)

        monkeypatch.setattr(local, "rerank", wrong)

    return plant


def nothing_explicit(monkeypatch: pytest.MonkeyPatch) -> None:
    def given(writer: Any, *rest: Any) -> int:
        writer.sources.append((0, 0))
        return len(writer.sources) - 1

    monkeypatch.setattr(reranks, "_given", given)


def counted_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is gone is taken for counted when it comes back."""
    original = ranked._rerank

    def wrong(update: Any, *rest: Any) -> Any:
        found = original(update, *rest)
        update.counted_back = True
        monkeypatch.setattr(ranked, "_derivable", lambda update, name: update.backend.empty(name).rows())
        return found

    monkeypatch.setattr(ranked, "_rerank", wrong)


def changes_under_negations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranked, "nested_changes", lambda rule, changed: False)


def _nothing(counted: Mapping[str, Any]) -> dict[str, Any]:
    return {name: type(c)(c.packing, c.keys[:0], c.weights[:0]) for name, c in counted.items()}


def sieves_of_other_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sieves ask for the values beside those that the later lookup asks for."""
    original = reranks.Settling._parts

    def wrong(*args: Any) -> list[int]:
        parts = original(*args)
        parts[-2] += 1
        return parts

    monkeypatch.setattr(reranks.Settling, "_parts", wrong)


DEFECTS: dict[str, Plant] = {
    "facts keep their ranks": altered(lambda found: replace(found, ranks=_nothing(found.ranks))),
    "facts keep their numbers": altered(lambda found: replace(found, tight=_nothing(found.tight))),
    "facts stay": altered(
        lambda found: replace(found, gone={n: type(r)(r.packing, r.keys[1:]) for n, r in found.gone.items()})
    ),
    "nothing follows": without_plans(reranks.FORWARD),
    "nothing is looked for": without_plans(reranks.BACKWARD),
    "nothing grounds": without_plans(reranks.GROUNDING),
    "nothing is explicit": nothing_explicit,
    "counted when back": counted_back,
    "negations change": changes_under_negations,
    "sieves drop too much": sieves_of_other_values,
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.load(wait=True)
    DEFECTS[name](monkeypatch)
    assert first_difference() is not None


def test_rows_that_choose_a_lookup_are_settled_too(settled: list[Any]) -> None:
    """Rules with circles: the choice of a lookup stands in the middle of a plan, and steps follow it."""
    limits = replace(UNHURRIED, crowd_rows=0, choice_rows=0)
    for seed in range(CASES):
        case = cyclic_case(random.Random(f"settled/{seed}"))
        check_epochs(case.program, [(case.facts, {}), *case.updates], "ranked", limits=limits)
    assert sum(found is not None for found in settled) > 5
