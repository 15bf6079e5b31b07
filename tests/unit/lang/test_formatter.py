"""`sempre format`: one form, the same program, every comment."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from sempre.cli import main
from sempre.diagnostics import ProgramError
from sempre.lang.formatter import formatted
from sempre.lang.parser import parse
from sempre.lang.printer import item_text
from tests.property.programs import random_case

SCRIPTS = sorted((Path(__file__).parents[2] / "scripts").glob("*.dl"))

BEFORE = """\
// About this.
.decl   edge( x:number,y :number )   // the edges


.decl path(x:number, y:number)
edge(1,2).  edge(2,3). // two facts
edge(0x1F,  3).
/* a block
   comment */
path(x,y):-edge(x,y).
path(x,z) :- path(x,y), /* inner */
   edge(y,z).   

path(x,z):-path(x,y),edge(y,z),x<z;path(z,x),x>5.
.output path"""  # noqa: W291

AFTER = """\
// About this.
.decl edge(x: number, y: number)  // the edges

.decl path(x: number, y: number)
edge(1, 2). edge(2, 3).  // two facts
edge(0x1F,  3).
/* a block
   comment */
path(x, y) :- edge(x, y).
path(x,z) :- path(x,y), /* inner */
   edge(y,z).

path(x, z) :- path(x, y), edge(y, z), x < z ; path(z, x), x > 5.
.output path
"""


def test_the_form_by_an_example() -> None:
    assert formatted(BEFORE) == AFTER


def test_a_program_with_an_error_is_not_formatted() -> None:
    with pytest.raises(ProgramError, match="E101"):
        formatted(".decl p(x: number)\np(1")


@pytest.mark.parametrize("seed", range(40))
def test_formatting_keeps_the_program_and_its_comments(seed: int) -> None:
    rng = random.Random(seed)
    text = _spoiled(rng, "\n".join(map(item_text, random_case(rng).program.items)))
    once = formatted(text)
    assert formatted(once) == once
    assert parse(once) == parse(text)
    assert _comments(once) == _comments(text)
    assert not re.search(r"\n\n\n|[ \t]\n", re.sub(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/', "C", once, flags=re.DOTALL))


def _spoiled(rng: random.Random, text: str) -> str:
    """The text with other blanks, and comments between its lines and at their ends."""
    lines = []
    for line in text.split("\n"):
        if rng.random() < 0.2:
            lines.append(rng.choice(("", "   ", "// a comment: p(x) :- q.", "/* one */", '/* "two\nlines */')))
        end = rng.choice(("", "", " ", "  // at the end", " /* there */"))
        lines.append(rng.choice(("", "", "  ")) + line + end)
    return "\n".join(lines)


def _comments(text: str) -> list[str]:
    found = re.findall(r'"(?:[^"\\\n]|\\.)*"|(//[^\n]*|/\*.*?\*/)', text, re.DOTALL)
    return [comment.rstrip() for comment in found if comment]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_programs_of_files_are_stable(path: Path) -> None:
    text = path.read_text("utf-8").split("commit.")[0]
    try:
        program = parse(text)
    except ProgramError:
        return  # a script, with changes
    once = formatted(text)
    assert parse(once) == program
    assert formatted(once) == once


def test_the_command_writes_what_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.dl"
    path.write_text(".decl p(x:number) // c\np( 1 ).\n", "utf-8")
    assert main(["format", "--check", str(path)]) == 1
    assert "would change" in capsys.readouterr().out
    assert main(["format", str(path)]) == 0
    assert path.read_text("utf-8") == ".decl p(x: number)  // c\np(1).\n"
    assert main(["format", "--check", str(path)]) == 0
    assert main(["format", str(tmp_path / "none.dl")]) == 1
    path.write_bytes(b"\xff")
    assert main(["format", str(path)]) == 1
