"""What the preprocessor leaves, worked out by hand, and the places it gives."""

from __future__ import annotations

from pathlib import Path

import pytest

import sempre
from sempre.api.stores import stored_text
from sempre.diagnostics import ProgramError
from sempre.lang.parser import parse, prepare
from sempre.lang.preprocessor import Preprocessing


def left(text: str, *macros: tuple[str, str]) -> list[str]:
    """The words that are left of a text."""
    return prepare(text, "main.dl", Preprocessing(macros=macros)).text.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#define A 1\nA AA xA A1 A", "1 AA xA A1 1"),
        ("#define A(x) [x]\nA (1) A A(A(2)) A((1,2))", "[1] A [[2]] [(1,2)]"),
        ("#define A A B\n#define B A\nA", "A A"),
        ("#define S(x) #x\n#define M 7\nS(M) S( a  \"b\" )", '"M" "a "b""'.replace('"a "b""', '"a  \\"b\\""')),
        ("#define C(a, b) a##b\n#define XY 5\nC(X, Y) C(1,2)", "5 12"),
        ("#define F(x) x + 1\n#define G F\nG(2)", "2 + 1"),
        ("#define A 1\n#undef A\nA", "A"),
        ("#define A 1 // one\n#define B /* two */ 2\nA B \"A\" // A\n/* A */", '1 2 "A" // A /* A */'),
        ("#define V(x, ...) x(__VA_ARGS__)\nV(p, 1, 2)", "p(1, 2)"),
        ("#define N() 3\nN() N", "3 N"),
        ("#if 0x10 == 16 && (1 ? 2 : 0) - 2 == 0\nyes\n#endif", "yes"),
        ("#if -7 / 2 == -3 && -7 % 2 == -1 && 1 << 3 > 7 && !0\nyes\n#else\nno\n#endif", "yes"),
        ("#ifdef A\n1\n#elif defined A || defined(B)\n2\n#else\n3\n#endif", "3"),
        ("#if 0\n#if 1\n1\n#else\n2\n#endif\n#else\n3\n#endif", "3"),
        ("#define A 5\n#if A > 4\nA\n#endif", "5"),
        ("a\n#\n#pragma something\n  #  define  A  2\nA", "a 2"),
        ("__LINE__\n__LINE__ __FILE__", '1 2 "main.dl"'),
    ],
)  # fmt: skip
def test_what_is_left(text: str, expected: str) -> None:
    assert left(text) == expected.split()


def test_macros_from_outside() -> None:
    assert left("#ifdef A\nA B\n#endif", ("A", "1"), ("B", "")) == ["1"]


def test_a_program_without_lines_for_it_is_taken_as_it_is() -> None:
    text = '.decl p(x: symbol)\np("#define"). // #define\n'
    assert prepare(text, "main.dl").text is text


def test_includes_are_found_beside_the_file_and_then_in_folders(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.dl").write_text('#include "b.dl"\n.include "b.dl"\n', "utf-8")
    (tmp_path / "lib" / "b.dl").write_text(".once\n.decl b(x: number)\n", "utf-8")
    (tmp_path / "b.dl").write_text(".decl wrong(x: number)\n", "utf-8")
    (tmp_path / "main.dl").write_text("#include <a.dl>\nb(1).\n", "utf-8")
    program = sempre.Program.from_file(tmp_path / "main.dl", include=[tmp_path / "lib"])
    assert list(program.relations) == ["b"]
    with pytest.raises(ProgramError, match=r"cannot include `a\.dl`: it is outside"):
        sempre.Program.from_file(tmp_path / "main.dl", include=[tmp_path / "lib"], root=tmp_path / "other")


def test_a_mistake_in_an_included_file_is_shown_there(tmp_path: Path) -> None:
    (tmp_path / "a.dl").write_text(".decl a(x: number)\n\na(b).\n", "utf-8")
    (tmp_path / "main.dl").write_text('#define B 1\n#include "a.dl"\n', "utf-8")
    with pytest.raises(ProgramError) as caught:
        sempre.Program.from_file(tmp_path / "main.dl")
    assert f"--> {tmp_path / 'a.dl'}:3:3\n 3 | a(b).\n" in str(caught.value)


def test_a_span_over_a_macro_reaches_from_what_was_written_to_what_was_written() -> None:
    program = parse("#define ONE 1\n.decl p(x: number)\np(ONE).\n", "main.dl")
    rule = next(program.rules())
    assert (rule.span.line, rule.span.column, rule.span.end_column) == (3, 1, 8)
    assert rule.heads[0].atom.args[0].span.within == "the macro `ONE` of main.dl:1"


def test_a_store_keeps_what_is_left(tmp_path: Path) -> None:
    program = sempre.Program("#if SIZE > 1\n.decl p(x: number)\np(SIZE).\n#endif\n", macros={"SIZE": "2"})
    with sempre.Database(program, store=tmp_path / "store") as db:
        assert list(db["p"]) == [(2,)]
    with sempre.Database(stored_text(tmp_path / "store")[0], store=tmp_path / "store") as db:
        assert list(db["p"]) == [(2,)]
