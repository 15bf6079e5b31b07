"""Every error has a program that shows it, and the exact text the user sees.

`NAME.dl` (or `NAME.changes`, a change script) is bad; `NAME.err` is what is said about it. Every code of the language
has a case here; `tests/unit/test_catalog.py` has what is true of all codes.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from sempre.analysis.check import check
from sempre.diagnostics import SempreError, render
from sempre.lang.parser import parse, parse_changes

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CASES = sorted(path for path in HERE.iterdir() if path.suffix in (".dl", ".changes"))
CHECKED = ("lang", "analysis")


def report(path: Path) -> str:
    """What is said about the text in `path`, errors and warnings alike."""
    text = path.read_text(encoding="utf-8")
    try:
        with contextlib.chdir(HERE):  # what a case includes is beside it
            return _said(path, text)
    except SempreError as error:
        return str(error)


def _said(path: Path, text: str) -> str:
    if path.suffix == ".changes":
        parse_changes(text, path.name)
        return ""
    checked = check(parse(text, path.name), {path.name: text})
    return render(checked.warnings, checked.sources)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_message_is_exactly_as_expected(path: Path) -> None:
    expected = path.with_suffix(".err").read_text(encoding="utf-8")
    assert report(path) + "\n" == expected


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case_shows_its_code_and_no_other(path: Path) -> None:
    codes = re.findall(r"^(?:error|warning)\[(\w+)\]", report(path), re.MULTILINE)
    assert set(codes) == {path.stem.split("_")[0]}


def source_codes() -> set[str]:
    files = (file for package in CHECKED for file in (ROOT / "src" / "sempre" / package).glob("*.py"))
    return {code for file in files for code in re.findall(r'"([EW]\d{3})"', file.read_text(encoding="utf-8"))}


def test_every_code_has_a_case() -> None:
    assert source_codes() == {path.stem.split("_")[0] for path in CASES}
