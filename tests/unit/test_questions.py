"""Questions: to programs, to relations on demand, in stores, and from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.api.stores import vacuum
from sempre.cli import main
from tests.inside import engine_of

REACH = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y) ; reach(x, z), edge(z, y).
.decl other(x: symbol)
.input other
"""
ON_DEMAND = REACH.replace("reach(x: symbol, y: symbol)", "reach(x: symbol, y: symbol) demand")
EDGES = [("a", "b"), ("b", "c"), ("x", "y")]


def answers(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("reach.dl").write_text(REACH, "utf-8")
    Path("demand.dl").write_text(ON_DEMAND, "utf-8")
    Path("edge.facts").write_text("a\tb\nb\tc\nx\ty\n", "utf-8")
    return tmp_path


# --------------------------------------------------------------------------------------------------- to programs


def test_a_question_to_a_program_reads_and_derives_what_it_needs(folder: Path) -> None:
    program = sempre.Program.from_file("reach.dl")
    assert answers(program.query('reach("b", X)', folder)) == [("c",)]  # there is no `other.facts`
    assert answers(program.query('reach(X, "c")', {"edge": EDGES})) == [("a",), ("b",)]
    assert program.query('reach("a", "c")', {"edge": EDGES}).num_rows == 1
    with pytest.raises(sempre.DataError, match="E501"):
        program.query("other(X)", folder)


def test_nothing_is_derived_for_others() -> None:
    cut = sempre.Program(REACH).for_question("reach", (0,))
    with sempre.Database(cut) as db:
        db._materialise({"edge": EDGES}, {"demand#reach#0": [("x",)]})
        assert list(db["reach"]) == [("x", "y")]


def test_a_question_must_fit_its_relation() -> None:
    program = sempre.Program(REACH)
    with pytest.raises(sempre.DataError, match="E502"):
        program.query('reach("a")')
    with pytest.raises(sempre.DataError, match="no relation is called `rich`"):
        program.query('rich("a", X)')
    with pytest.raises(sempre.DataError, match="relation `reach`: column `x` is symbol, and 1"):
        program.query("reach(1, X)")


# ---------------------------------------------------------------------------------------------------- on demand


def test_answers_follow_the_facts_until_they_are_released() -> None:
    db = sempre.Database(ON_DEMAND)
    db.apply(insert={"edge": EDGES})
    assert len(db["reach"]) == 0
    assert answers(db.query('reach("a", X)')) == [("b",), ("c",)]
    epoch = db.epoch
    assert answers(db.query('reach("a", X)')) == [("b",), ("c",)]
    assert db.query('reach("a", "c")').num_rows == 1
    assert db.epoch == epoch
    changes = db.apply(insert={"edge": [("c", "d")]}, delete={"edge": [("a", "b"), ("x", "y")]})
    assert answers(changes.removed["reach"]) == [("a", "b"), ("a", "c")]
    assert db.demands() == ['reach("a", _)']
    assert answers(db.query("reach(X, Y)")) == [("b", "c"), ("b", "d"), ("c", "d")]
    assert db.demands() == ["reach(_, _)", 'reach("a", _)']
    db.release("reach(_, _)")
    db.release('reach("a", X)')
    assert not db.demands()
    assert len(db["reach"]) == 0


def test_only_what_was_asked_can_be_released() -> None:
    db = sempre.Database(ON_DEMAND)
    db.query('reach("b", X)')
    with pytest.raises(sempre.StateError, match="E614") as raised:
        db.release('reach("a", X)')
    assert 'What is asked for: reach("b", _).' in str(raised.value)
    with pytest.raises(sempre.StateError, match="`edge` is not derived on demand"):
        db.release('edge("a", X)')


def test_the_option_is_the_qualifier() -> None:
    db = sempre.Database(REACH, demand=["reach"])
    assert db.program.text == ON_DEMAND
    with pytest.raises(sempre.DataError, match="no relation is called `rech`"):
        sempre.Database(REACH, demand=["rech"])
    with pytest.raises(sempre.ProgramError, match="E214"):
        sempre.Database(REACH, demand=["edge"])
    together = ".decl e(x: number) .decl a, b(x: number) a(x) :- e(x). b(x) :- e(x)."
    with pytest.raises(sempre.StateError, match="`a`, `b` have one declaration"):
        sempre.Database(together, demand=["a"])
    assert sempre.Database(together, demand=["a", "b"]).program.relations["b"].qualifiers == {"demand"}


def test_a_store_keeps_questions(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sempre.Database(ON_DEMAND, store=path) as db:
        db.apply(insert={"edge": EDGES})
        db.query('reach("a", X)')
        db.apply(delete={"edge": [("b", "c")]})
    vacuum(path)
    with sempre.Database.open(path) as db:
        assert db.demands() == ['reach("a", _)']
        assert answers(db.query('reach("a", X)')) == [("b",)]
        db.apply(insert={"edge": [("b", "z")]})
        assert answers(db.query('reach("a", X)')) == [("b",), ("z",)]
        assert db.verify().ok
        epoch = db.epoch
    other = ON_DEMAND + ".decl more(x: symbol)\nmore(x) :- edge(x, _).\n"
    with sempre.Database(other, store=path, migrate=True) as db:
        assert db.demands() == ['reach("a", _)']
        assert answers(db["reach"].to_arrow()) == [("a", "b"), ("a", "z")]
    with sempre.Database.open(path, epoch=epoch) as past:
        assert answers(past.query('reach("a", X)')) == [("b",), ("z",)]
        with pytest.raises(sempre.StateError, match="E613"):
            past.query('reach("b", X)')


# --------------------------------------------------------------------------------------------------- the commands


def test_the_command_asks_programs_and_stores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "reach.dl", 'reach("b", X)']) == 0
    assert capsys.readouterr().out == "X\nc\n"
    assert main(["init", "store", "demand.dl"]) == 0
    assert main(["query", "store", 'reach("b", X)']) == 0
    assert capsys.readouterr().out.endswith("X\nc\n")
    Path("more.changes").write_text('+edge("c", "d"). commit.\n', "utf-8")
    assert main(["apply", "store", "more.changes"]) == 0
    assert "reach +1 -0" in capsys.readouterr().out
    assert main(["query", "store", 'reach("b", X)', "--drop"]) == 0
    assert "reach +0 -2" in capsys.readouterr().out
    assert main(["query", "store", 'reach("b", X)', "--drop"]) == 1
    assert "E614" in capsys.readouterr().err


def test_a_relation_is_put_on_demand_when_a_store_is_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "store", "reach.dl", "--demand", "reach"]) == 0
    with sempre.Database.open("store") as db:
        assert len(db["reach"]) == 0
        assert db.query('reach("a", X)').num_rows == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["query", "store", "reach(X, Y)", "-F", "."], "-F is for questions to a program"),
        (["query", "reach.dl", "reach(X, Y)", "--drop"], "--drop needs a store"),
        (["query", "reach.dl", "reach(X, Y)", "--epoch", "1"], "--epoch needs a store"),
        (["run", "reach.dl", "--magic", "--semantics", "active", "--on", "local"], "--magic is for stratified rules"),
    ],
)
def test_what_makes_no_sense_is_refused(
    folder: Path, given: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "store", "reach.dl"]) == 0
    assert main(given) == 2
    assert words in capsys.readouterr().err


WANTED = (
    REACH
    + """\
.decl wide(x: symbol, y: symbol)
wide(x, y) :- other(x), other(y).
.decl out(y: symbol)
out(y) :- reach("b", y).
.output out
"""
)


def test_a_run_reads_and_derives_what_its_outputs_need(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("wanted.dl").write_text(WANTED, "utf-8")  # and there is no `other.facts`
    for magic in ([], ["--magic"]):
        assert main(["run", "wanted.dl", "--on", "local", *magic]) == 0
        assert Path("out.csv").read_text("utf-8") == "c\n"
    Path("more.changes").write_text('+other("q"). +edge("c", "d"). commit.\n', "utf-8")
    assert main(["run", "wanted.dl", "--on", "local", "--changes", "more.changes"]) == 0
    assert Path("out.csv").read_text("utf-8") == "c\nd\n"


@pytest.mark.parametrize("how", ["call", "pragma", "qualifier"])
def test_magic_leaves_out_what_cannot_matter(how: str) -> None:
    text = WANTED
    if how == "pragma":
        text += '.pragma "magic-transform" "*"\n'
    if how == "qualifier":
        text = text.replace(".decl reach(x: symbol, y: symbol)", ".decl reach(x: symbol, y: symbol) magic")
    cut = sempre.Program(text).for_outputs(magic=how == "call")
    with sempre.Database(cut) as db:
        db.apply(insert={"edge": EDGES})
        assert list(db["reach"]) == [("b", "c")]
        assert not any("wide" in rule.relation for rule in engine_of(db).program.rules)


def test_a_program_without_outputs_is_wanted_as_a_whole() -> None:
    with sempre.Database(sempre.Program(REACH).for_outputs()) as db:
        db.apply(insert={"edge": EDGES})
        assert len(db["reach"]) == 4


def test_a_relation_may_be_called_demand() -> None:
    db = sempre.Database(".decl a(x: number)\na(1).\n.decl demand(x: number)\ndemand(x) :- a(x).")
    assert list(db["demand"]) == [(1,)]


RANGES = ".decl e(x: symbol, n: number) .decl r(x: symbol) r(x) :- e(x, _)."


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("X = range(0, 3)", [{"X": 0}, {"X": 1}, {"X": 2}]),
        ("X = range(0.0, 1.5, 0.5)", [{"X": 0.0}, {"X": 0.5}, {"X": 1.0}]),
        ("X = range(3u, 0u)", []),
        ("X = range(18446744073709551613u, 18446744073709551615u)", [{"X": (1 << 64) - 3}, {"X": (1 << 64) - 2}]),
        ("X = range(5, 0, -2)", [{"X": 1}, {"X": 3}, {"X": 5}]),
        ("X = range(7, 9, 0)", [{"X": 7}]),
        ("X = range(-9223372036854775808, 9223372036854775807, 9223372036854775807)",
         [{"X": -(1 << 63)}, {"X": -1}, {"X": (1 << 63) - 2}]),
        ("e(X, N), N = range(0, 3)", [{"X": "b", "N": 2}]),
        ("e(X, 2), Y = range(1, 3)", [{"X": "b", "Y": 1}, {"X": "b", "Y": 2}]),
        ("e(X, N), N - 1 = range(2, 9)", [{"X": "a", "N": 3}]),
        ("e(X, N), !(Y = range(0, 3), N = Y)", [{"X": "a", "N": 3}]),
        ("N = count : { e(_, M), Y = range(0, M) }", [{"N": 5}]),
        ("r(X), !r(\"c\"), X = \"a\".", [{"X": "a"}]),
    ],
)  # fmt: skip
def test_questions_with_ranges(text: str, answers: list[dict[str, object]]) -> None:
    with sempre.Database(RANGES) as db:
        db.apply(insert={"e": [("a", 3), ("b", 2)]})
        found = db.query(text).to_pylist()
        assert sorted(found, key=str) == sorted(answers, key=str)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('r("a"). r("b")', "error[E101]: expected the end of the query, found `r`\n  --> <query>:1:9\n"),
        ("e(X, N),\n  N = 1u", "error[E301]: `N` is a number, but `1u` is an unsigned\n  --> <query>:2:7\n"),
        (" r(X), Q > 3", "error[E201]: variable `Q` is not bound\n  --> <query>:1:8\n"),
        ("X = range(0, 9223372036854775807)",
         "error[E510]: range(0, 9223372036854775807) has more than 67,108,864 numbers\n  --> <query>:1:1\n"),
        ("X = range(0.0, 1e300)",
         "error[E510]: range(0.0, 1e+300) has more than 67,108,864 numbers\n  --> <query>:1:1\n"),
    ],
)  # fmt: skip
def test_a_question_that_is_wrong_says_where(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "e300" in text:
        monkeypatch.setattr("sempre.backends.spreading.MOST_NUMBERS", 1_000)
        message = message.replace("67,108,864", "1,000")
    with sempre.Database(RANGES) as db:
        db.apply(insert={"e": [("a", 3)]})
        with pytest.raises(sempre.SempreError) as caught:
            db.query(text)
    assert str(caught.value).startswith(message)
