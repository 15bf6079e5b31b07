"""`--root`: a program stays inside of a folder, also through links."""

from __future__ import annotations

from pathlib import Path

import pytest

import sempre
from sempre.cli import main
from sempre.diagnostics import ProgramError
from sempre.files import check_root

PROGRAM = """.decl e(x: symbol)
.input e({})
.decl p(x: symbol)
p(x) :- e(x).
.output p({})
"""


def refused(tmp_path: Path, given: str, written: str, output: str | Path = "") -> str:
    checked = sempre.Program(PROGRAM.format(given, written)).checked
    try:
        check_root(checked, tmp_path / "box", tmp_path / "box", output or tmp_path / "box")
    except ProgramError as error:
        return str(error)
    return ""


@pytest.fixture(autouse=True)
def box(tmp_path: Path) -> Path:
    (tmp_path / "box" / "inner").mkdir(parents=True)
    (tmp_path / "secret.facts").write_text("secret\n")
    return tmp_path / "box"


@pytest.mark.parametrize("inside", ["", "filename=inner", 'filename="inner/../e.facts"', "IO=stdin", "IO=parquet"])
def test_inside(tmp_path: Path, inside: str) -> None:
    assert refused(tmp_path, inside, "IO=stdout") == ""
    assert refused(tmp_path, "IO=stdin", inside.replace("stdin", "stdout")) == ""
    assert refused(tmp_path, inside, "", output="-") == ""


@pytest.mark.parametrize(
    "outside",
    ['filename="../secret.facts"', 'filename="/etc/passwd"', 'filename="s3://b/x"', "IO=spark", 'IO=jdbc, url="x"'],
)
def test_outside(tmp_path: Path, outside: str) -> None:
    assert "E519" in refused(tmp_path, outside, "")
    assert "E519" in refused(tmp_path, "", outside)


@pytest.mark.parametrize("name", ["e.facts", "e.facts.gz"])
def test_links_are_followed(tmp_path: Path, box: Path, name: str) -> None:
    assert refused(tmp_path, "", "") == ""
    (box / name).symlink_to(tmp_path / "secret.facts")
    assert "E519" in refused(tmp_path, "", "")


def test_links_in_folders_are_followed(tmp_path: Path, box: Path) -> None:
    (box / "inner" / "part.parquet").symlink_to(tmp_path / "secret.facts")
    assert "E519" in refused(tmp_path, "IO=parquet, filename=inner", "")


def test_the_words(tmp_path: Path) -> None:
    assert refused(tmp_path, 'filename="../secret.facts"', "").replace(str(tmp_path), "") == (
        "error[E519]: `/box/../secret.facts` is outside of `/box`, which --root names\n"
        "  --> <program>:2:1\n"
        ' 2 | .input e(filename="../secret.facts")\n'
        "   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "hint: Name a file below that folder, or run without --root if the program is trusted."
    )


@pytest.mark.parametrize(
    "command", [["run", "--on", "local"], ["init", "store"], ["network", "--on", "local", "--workers", "1"]]
)
def test_the_commands(
    tmp_path: Path, box: Path, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(box)
    (box / "p.dl").write_text(PROGRAM.format('filename="../secret.facts"', "").replace("(x: s", "(@x: s"))
    assert main([*command, "p.dl", "--root", "."]) == 1
    assert "E519" in capsys.readouterr().err
    assert not (box / "store").exists()
    assert main([*command, "p.dl", "--root", ".."]) == 0
    assert main([*command, "p.dl", "--root", "nowhere"]) == 2
