"""What an editor renames: a name of a random program in components, and no other; the program means the same."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import pytest

from sempre.analysis.check import check
from sempre.diagnostics import SempreError
from sempre.lang.parser import parse
from sempre.lang.printer import to_text
from sempre.lsp import program_names as names
from sempre.lsp.answers import Place, renamed
from sempre.lsp.programs import Programs
from sempre.rewrites.checked_text import program_text
from tests.budget import seeds
from tests.property.programs import random_case
from tests.property.test_components import wrapped

FILE = "/programs/p.dl"
NEW = "zz9"
CASES = 6


def meaning(text: str) -> str:
    """The rules in normal form; variables that nobody wrote are numbered as they come."""
    numbers: dict[str, str] = {}
    rules = program_text(check(parse(text), {}))
    return re.sub(r"\b_\w+", lambda found: numbers.setdefault(found[0], f"_{len(numbers)}"), rules)


def edited(text: str, place: Place) -> str:
    """The text with another name for what stands at a place."""
    programs = Programs()
    programs.put(FILE, text)
    lines = text.split("\n")
    for span in sorted(renamed(programs, place, NEW), key=lambda span: (span.line, span.column), reverse=True):
        assert span.line == span.end_line
        line = lines[span.line - 1]
        lines[span.line - 1] = line[: span.column - 1] + NEW + line[span.end_column - 1 :]
    return "\n".join(lines)


def check_renaming(rng: random.Random) -> None:
    text = to_text(wrapped(random_case(rng).program, rng).program)
    before = meaning(text)
    programs = Programs()
    programs.put(FILE, text)
    found = programs.reading(FILE).names
    declared = [name for name in found.all if found.meant(name) is not None]
    for name in rng.sample(declared, min(12, len(declared))):
        after = edited(text, Place(FILE, name.span.line, name.span.column))
        assert after.count(NEW) >= 1
        assert after.replace(NEW, name.text) == text
        assert meaning(after).replace(NEW, name.text) == before, name


def test_a_program_means_the_same_after_names_changed() -> None:
    for seed in range(CASES):
        check_renaming(random.Random(seed))


@pytest.mark.slow
def test_many_programs_mean_the_same_after_names_changed() -> None:
    for seed in seeds(100, 30):
        check_renaming(random.Random(seed))


def _bases_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> Iterator[names.Scope]:
        yield from ()

    monkeypatch.setattr(names.Names, "_homes", nothing)


def _the_outermost_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    def outermost(self: names.Names, scope: names.Scope, space: str, text: str, seen: frozenset[names.Scope]) -> object:
        found = (self._within(scope[:depth], space, text, seen) for depth in range(len(scope) + 1))
        return next((name for name in found if name is not None), None)

    monkeypatch.setattr(names.Names, "_outward", outermost)


@pytest.mark.parametrize("plant", [_bases_are_forgotten, _the_outermost_is_meant])
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(60):
        try:
            check_renaming(random.Random(seed))
        except (AssertionError, SempreError):
            return
    pytest.fail("no case noticed")
