"""A program means the same when words of it are macros, and parts of it behind conditions and in other files."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from sempre.lang.parser import parse, parse_prepared, prepare
from sempre.lang.preprocessor import Preprocessing
from sempre.lang.printer import item_text, to_text
from sempre.lang.walk import descend
from tests.property.programs import random_case

WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|[0-9][\w.]*')


class Hiding:
    """Puts words of a text behind macros: alone, through another macro, with arguments, glued of two halves."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.names: dict[str, str] = {}

    def hide(self, text: str) -> str:
        return WORD.sub(lambda match: self.word(match[0]), text)

    def word(self, word: str) -> str:
        if word in self.names:
            return self.names[word] if self.rng.random() < 0.8 else word
        if self.rng.random() < 0.7:
            return word
        name = f"M{len(self.lines)}"
        used = name
        way = self.rng.randrange(5)
        if way == 0:
            self.lines.append(f"#define {name} {word} // {word}")
        elif way == 1:
            self.lines += [f"#define {name} {name}X", f"#define {name}X \\\n   {word}"]
        elif way == 2:
            self.lines.append(f"#define {name}(x, y) x/* y */")
            used = f"{name}({word}, (a, b))"
        elif way == 3 and word[0] not in '"0123456789' and len(word) > 1:
            self.lines.append(f"#define {name}(x) {word[0]} ## x")
            used = f"{name} ( {word[1:]} )"
        else:
            self.lines += [f"#define {name}I(x) x", f"#define {name} {name}I"]
            used = f"{name}({word})"
        self.names[word] = used
        return used


def hidden(text: str, rng: random.Random, folder: Path) -> str:
    """The text of a program with macros, conditions, and some of it in another file."""
    hiding = Hiding(rng)
    parts: list[str] = []
    for number, line in enumerate(text.splitlines()):
        made = hiding.hide(line) if not line.startswith(".") else line
        if rng.random() < 0.1:
            made = f"#if 1 < 0 || defined(NOTHING)\nno such thing (\n#else\n{made}\n#endif"
        elif rng.random() < 0.1:
            made = f"#ifndef NOTHING\n{made}\n#elif 1\n#error\n#else\n{{\n#endif"
        elif rng.random() < 0.1:
            (folder / f"part{number}.dl").write_text(f"#pragma once\n{made}\n", "utf-8")
            made = f'#include "part{number}.dl"\n#include <part{number}.dl>'
        parts.append(made)
    return "\n".join([*hiding.lines, *parts]) + "\n"


@pytest.mark.parametrize("seed", range(60))
def test_a_program_with_macros_is_the_program_without(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    program = random_case(rng).program
    text = hidden(to_text(program), rng, tmp_path)
    prepared = prepare(text, str(tmp_path / "main.dl"), Preprocessing((str(tmp_path),)))
    assert parse_prepared(prepared) == program
    assert parse(prepared.text) == program, "what a store keeps is the same program"


@pytest.mark.parametrize("seed", range(20))
def test_places_are_those_of_the_text_that_was_written(seed: int, tmp_path: Path) -> None:
    """Every item, and everything in it that no macro made, is where its span says."""
    rng = random.Random(seed)
    program = random_case(rng).program
    lines = [item_text(item) for item in program.items]
    text = "#define UNUSED 1\n#if 1\n" + "\n#endif\n#if 1\n".join(lines) + "\n#endif\n"
    parsed = parse(text, "main.dl")
    source = text.splitlines()
    assert len(parsed.items) == len(lines)
    for item, line in zip(parsed.items, lines, strict=True):
        first = line.splitlines()[0]
        assert source[item.span.line - 1][item.span.column - 1 :].startswith(first)
        for node in descend(item):
            name = getattr(node, "relation", None)
            if isinstance(name, str):
                span = node.span  # type: ignore[attr-defined]  # atoms have one
                assert source[span.line - 1][span.column - 1 :].startswith(name)
