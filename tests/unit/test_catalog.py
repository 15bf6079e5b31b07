"""The table of errors has what the source reports and nothing else, and the page of errors is made of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sempre.analysis.check import check
from sempre.catalog import SECTIONS, Entry, page
from sempre.diagnostics import SempreError
from sempre.lang.parser import parse, parse_changes
from sempre.network.fragment import check_fragment
from sempre.network.localize import localize

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sempre"
TESTS = ROOT / "tests"
CODE = re.compile(r"\b[EW]\d{3}\b")
ENTRIES = [entry for section in SECTIONS for entry in section.entries]
OF_LANGUAGE = [entry for entry in ENTRIES if re.match(r"E[1-4](?!00)|W2", entry.code)]
# Too long for a table, or said of a program that is right elsewhere.
IN_WORDS = {"E109", "E110", "E148", "E150", "E152", "E154", "E160", "E166", "E339", "E340", "E425"}


def reported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every code in a text that is no docstring, with its line."""
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield from ((code, node.lineno) for code in CODE.findall(node.value))


def test_the_table_has_the_codes_of_the_source_and_no_other() -> None:
    used = {
        code: f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "catalog.py"
        for code, line in reported(ast.parse(path.read_text("utf-8")))
    }
    table = {entry.code for entry in ENTRIES}
    assert {code: place for code, place in used.items() if code not in table} == {}, "not in sempre.catalog"
    assert table - used.keys() == set(), "reported nowhere"


def test_a_code_is_in_the_table_once_and_in_order() -> None:
    codes = [entry.code for entry in ENTRIES]
    assert len(codes) == len(set(codes))
    for section in SECTIONS:
        assert [entry.code for entry in section.entries] == sorted(entry.code for entry in section.entries)


def test_the_page_of_errors_is_what_the_table_makes() -> None:
    assert (ROOT / "docs" / "errors.md").read_text("utf-8") == page(), "`make errors` writes it"


def test_every_code_has_a_test() -> None:
    texts = [path.name for path in (TESTS / "errors").iterdir()]
    texts += [path.read_text("utf-8") for path in TESTS.rglob("*.py") if path != Path(__file__)]
    # The name of a case is `E101_missing_period`: no word ends behind the code.
    tested = {code for text in texts for code in re.findall(r"(?<!\w)[EW]\d{3}(?!\d)", text)}
    assert {entry.code for entry in ENTRIES} - tested == set()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.code)
def test_an_entry_is_written_as_the_others(entry: Entry) -> None:
    assert all((entry.meaning, entry.way_out, entry.example))
    assert not entry.meaning.endswith(".")
    assert not entry.meaning[0].isupper()
    assert entry.way_out[0].isupper()
    assert entry.way_out.endswith(".")
    assert "\n" not in f"{entry}"


@pytest.mark.parametrize("entry", OF_LANGUAGE, ids=lambda entry: entry.code)
def test_an_example_brings_about_its_error_and_no_other(entry: Entry) -> None:
    if entry.code in IN_WORDS:
        return
    assert set(said(entry)) == {entry.code}


def said(entry: Entry) -> list[str]:
    """The codes that are reported about the example of an entry; warnings count where there is no error."""
    text = re.fullmatch("`([^`]+)`", entry.example)
    assert text is not None, "a program, and nothing else"
    try:
        if entry.code.startswith("E19"):
            parse_changes(text[1], "example")
        checked = check(parse(text[1], "example"), {"example": text[1]})
        if entry.code.startswith("E42"):
            check_fragment(localize(checked), "proofs")
    except SempreError as error:
        return [finding.code for finding in error.diagnostics]
    return [finding.code for finding in checked.warnings]


def test_a_code_that_is_hidden_in_a_text_is_found() -> None:
    tree = ast.parse('"""About E101."""\nshow(f"error[E102]: {x}")\nDiagnostic("W103", "such as E1034")')
    assert sorted(reported(tree)) == [("E102", 2), ("W103", 3)]


# The place of the hint among the arguments, where it is given without its name.
HINT_AT = {
    "CellFault": 2,
    "_Unfit": 2,
    "Unfit": 2,
    "Unsuited": 1,
    "_BadTerm": 3,
    "Limit": 1,
    "fail": 3,
    "report": 4,
    "Diagnostic": 4,
}


def hints(tree: ast.AST) -> Iterator[ast.expr]:
    """Every expression that makes a hint."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "hint")
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield from node.args[HINT_AT.get(name, len(node.args)) :][:1]
        elif isinstance(node, ast.Assign) and any(_is_hint(target) for target in node.targets):
            yield node.value
        elif isinstance(node, ast.FunctionDef) and node.name.endswith("hint"):
            yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value)


def _is_hint(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id.lower().endswith("hint")


def texts(made: ast.expr) -> Iterator[str]:
    """What an expression may be, as far as it is written there; `{}` stands for what is not."""
    match made:
        case ast.IfExp(body=one, orelse=other):
            yield from (*texts(one), *texts(other))
        case ast.BoolOp(values=values):
            yield from (text for value in values for text in texts(value))
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


def is_a_sentence(hint: str) -> bool:
    """Whether it begins as one, perhaps with code, and ends as one; what is filled in at an end may do so."""
    return not hint or ((hint[0].isupper() or hint[0] in "`{") and hint.endswith((".", "?", "{}")))


def test_hints_are_sentences() -> None:
    odd = [
        f"{path.relative_to(SOURCE)}:{made.lineno}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        for made in hints(ast.parse(path.read_text("utf-8")))
        for text in texts(made)
        if not is_a_sentence(text)
    ]
    assert odd == []


@pytest.mark.parametrize(
    "source",
    [
        'Diagnostic("E1", "m", hint="use it.")',
        'CellFault("E1", "m", "Use it")',
        'hint = "Use it." if a else f"use {it}."',
        'RECORD_HINT = "Use it"',
        'def _hint():\n    return a or "Use it"',
    ],
)
def test_a_hint_that_is_no_sentence_is_found(source: str) -> None:
    assert [text for made in hints(ast.parse(source)) for text in texts(made) if not is_a_sentence(text)] != []
