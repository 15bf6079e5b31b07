"""Every rewrite does to the programs in its fixtures what they say, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from sempre.cli import main
from tests.unit.rewrites.fixtures import FOLDER, PASSES, Case, cases, rewritten

FILES = sorted(FOLDER.glob("*.dl"))


@pytest.mark.parametrize("case", [case for path in FILES for case in cases(path)], ids=str)
def test_a_program_becomes_what_its_fixture_says(case: Case) -> None:
    assert rewritten(case) == case.after


def test_every_pass_has_fixtures() -> None:
    assert {path.stem for path in FILES} == {*PASSES}


def test_the_command_shows_the_program_after_all_rewrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "same.dl"
    path.write_text(".decl same(x: number, y: number) eqrel\nsame(1, 2).\n.output same\n", "utf-8")
    assert main(["check", "--show", "transformed-program", str(path)]) == 0
    assert "same(y, x) :- same(x, y).\n" in capsys.readouterr().out
