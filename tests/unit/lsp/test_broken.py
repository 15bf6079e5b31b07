"""Whatever is typed so far, every question has an answer."""

from __future__ import annotations

import random
from pathlib import Path

from sempre.lsp.answers import Place, Refused, definitions, outline, references, renamed
from sempre.lsp.completing import completions
from sempre.lsp.hovering import hover
from sempre.lsp.programs import Programs

ROOT = Path(__file__).parents[3]
TEXTS = [path.read_text("utf-8") for path in sorted((ROOT / "tests" / "programs").glob("*.dl"))]
NOISE = (
    "",
    "(",
    ")",
    "{",
    "}",
    ".",
    ".comp",
    ".comp A : A {",
    ".init x = ",
    '"',
    "/*",
    "#if",
    ":-",
    "@",
    "$",
    "a.b.c(",
)


def broken(rng: random.Random) -> str:
    text = rng.choice(TEXTS)
    begin, end = sorted((rng.randrange(len(text)), rng.randrange(len(text))))
    return rng.choice((text[:end], text[:begin] + text[end:], text[:begin] + rng.choice(NOISE) + text[begin:]))


def test_a_broken_text_has_answers() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        programs, text = Programs(), broken(rng)
        programs.put("/p.dl", text)
        assert dict(programs.findings(["/p.dl"])).keys() == {"/p.dl"}
        outline(programs, "/p.dl")
        lines = text.split("\n")
        for _ in range(3):
            line = rng.randrange(len(lines)) + 1
            place = Place("/p.dl", line, rng.randrange(len(lines[line - 1]) + 1) + 1)
            definitions(programs, place)
            references(programs, place)
            hover(programs, place)
            completions(programs, place)
            try:
                renamed(programs, place, "zz9")
            except Refused as refusal:
                assert str(refusal)  # noqa: PT017


def test_components_that_inherit_in_a_circle_end() -> None:
    programs = Programs()
    text = ".comp A : B { .decl a(x: number) a(x) :- c(x). }\n.comp B : A { .init i = A i.i.a(1). }\n"
    text += ".init x = A\nx.i.q(1).\n"
    programs.put("/p.dl", text)
    for line, written in enumerate(text.split("\n"), 1):
        for column in range(1, len(written) + 2):
            definitions(programs, Place("/p.dl", line, column))
            completions(programs, Place("/p.dl", line, column))
