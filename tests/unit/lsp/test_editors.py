"""The folder for VS Code: its files are whole, and its grammar knows the words of the language."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sempre.analysis.functor_signatures import FUNCTORS
from sempre.lang.declarations import QUALIFIERS
from sempre.lang.lexer import DIRECTIVES
from sempre.lang.operators import AGGREGATES, PRECEDENCE, UNARY

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "editors" / "vscode"


def loaded(name: str) -> Any:
    return json.loads((FOLDER / name).read_text("utf-8"))


def patterns(node: Any) -> Iterator[tuple[str, str]]:
    """Every pattern of the grammar, with the scope that it gives."""
    if isinstance(node, dict):
        for key in ("match", "begin", "end"):
            if key in node:
                yield str(node.get("name", "")), node[key]
        for value in node.values():
            yield from patterns(value)
    elif isinstance(node, list):
        for value in node:
            yield from patterns(value)


def matched(text: str, scope: str) -> bool:
    """Whether the grammar gives a whole text a scope."""
    found = patterns(loaded("syntaxes/souffle.tmLanguage.json"))
    return any(name.startswith(scope) and re.fullmatch(pattern, text) for name, pattern in found)


def test_what_the_manifest_names_is_there() -> None:
    manifest = loaded("package.json")
    named = [manifest["main"], manifest["contributes"]["languages"][0]["configuration"]]
    named += [grammar["path"] for grammar in manifest["contributes"]["grammars"]]
    assert [name for name in named if not (FOLDER / name).is_file()] == []
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert version is not None
    assert manifest["version"] == version[1]
    assert f"sempre-{version[1]}.vsix" in (FOLDER / "README.md").read_text("utf-8")


def test_every_setting_that_is_read_is_declared() -> None:
    code = (FOLDER / "extension.js").read_text("utf-8")
    declared = loaded("package.json")["contributes"]["configuration"]["properties"]
    assert {f"sempre.{name}" for name in re.findall(r'settings\.get\("(\w+)"\)', code)} == declared.keys()


def test_the_grammar_knows_the_words_of_the_language() -> None:
    grammar = loaded("syntaxes/souffle.tmLanguage.json")
    included = {each["include"].removeprefix("#") for each in grammar["patterns"]}
    assert included == grammar["repository"].keys()
    assert [name for name in DIRECTIVES if not matched(f".{name}", "keyword.declaration")] == []
    assert [word for word in AGGREGATES if not matched(word, "keyword.operator.aggregate")] == []
    qualifiers = "".join(pattern for name, pattern in patterns(grammar) if name == "storage.modifier.souffle")
    assert [word for word in (*QUALIFIERS, "choice-domain") if word not in re.split(r"[|()?:]+", qualifiers)] == []
    operators = {name for name in (*PRECEDENCE, *UNARY) if name.isalpha()}
    assert [name for name in operators if not matched(name, "keyword.operator.word")] == []
    named = {name for name in FUNCTORS if name.isidentifier()} - operators - {"neg"}
    support = "".join(pattern for name, pattern in patterns(grammar) if name == "support.function.souffle")
    assert [name for name in named if name not in re.split(r"[|()?:]+", support)] == []


@pytest.mark.parametrize(
    ("text", "scope"), [("0x2a", "constant.numeric"), ("$Leaf", "constant.other"), ("p", "entity")]
)
def test_examples_of_the_grammar(text: str, scope: str) -> None:
    following = "(" if scope == "entity" else ""
    found = patterns(loaded("syntaxes/souffle.tmLanguage.json"))
    hits = [m for name, pattern in found if name.startswith(scope) and (m := re.match(pattern, text + following))]
    assert any(hit.group() == text for hit in hits)
