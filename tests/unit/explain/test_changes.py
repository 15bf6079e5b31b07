"""Why a fact is absent, why it came or went, what caused changes, trials, and queries of several atoms."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.api.explanations import WhyNot
from sempre.cli import main

REACH = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl banned(x: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y), !banned(x).
reach(x, z) :- reach(x, y), edge(y, z), !banned(y).
.output reach
"""
EDGES = [("a", "b"), ("b", "c"), ("a", "x"), ("x", "c"), ("c", "d")]


@pytest.fixture
def db() -> sempre.Database:
    database = sempre.Database(REACH)
    database.apply(insert={"edge": EDGES})
    return database


def absent(db: sempre.Database, fact: str, **options: Any) -> WhyNot:
    found = db.explain(fact, absent=True, **options)
    assert isinstance(found, WhyNot)
    json.dumps(found.to_json())
    return found


def test_what_is_missing_is_named_with_what_is_near(db: sempre.Database) -> None:
    assert str(absent(db, 'reach("d", "b")')).splitlines() == [
        'reach("d", "b") is absent',
        "by <program>:6:1: reach(x, y) :- edge(x, y), !banned(x).",
        '  MISSING  edge("d", "b")',
        '           there is edge("a", "b")',
        '  holds    !banned("d")',
        "by <program>:7:1: reach(x, z) :- reach(x, y), edge(y, z), !banned(y).",
        '  MISSING  reach("d", "a")',
        '  holds    edge("a", "b")',
        '  holds    !banned("a")',
    ]


def test_what_blocks_is_explained(db: sempre.Database) -> None:
    db.apply(insert={"banned": [("c",)]})
    text = str(absent(db, 'reach("b", "d")', depth=2))
    assert 'BLOCKED  !banned("c")' in text
    assert 'banned("c") is an explicit fact' in text


def test_further_levels_are_told(db: sempre.Database) -> None:
    found = absent(db, 'reach("d", "b")', depth=3)
    assert len(found.document.answers) > 2


def test_a_minimum_says_what_it_is() -> None:
    db = sempre.Database(
        ".decl e(x: number, y: number) .decl d(x: number, n: number)"
        "d(1, 0). d(y, min(n + 1)) :- d(x, n), e(x, y). e(1, 2)."
    )
    assert str(absent(db, "d(2, 5)")).startswith("d(2, 5) is absent: the min of its group is 1")


def test_what_holds_is_not_absent(db: sempre.Database) -> None:
    with pytest.raises(sempre.StateError, match="E641"):
        absent(db, 'reach("a", "b")')


def test_causes_of_changes(db: sempre.Database) -> None:
    changes = db.apply(insert={"banned": [("b",), ("x",)]})
    found = changes.causes("reach").to_pylist()
    assert {row["_cause"] for row in found if (row["x"], row["y"]) == ("b", "c")} == {'banned("b")'}
    assert {row["_change"] for row in found} == {"removed"}
    changes = db.apply(delete={"banned": [("b",), ("x",)]})
    table = changes.causes("reach")
    pairs = {(row["_together"], row["_cause"]) for row in table.to_pylist() if (row["x"], row["y"]) == ("a", "c")}
    assert {cause for _, cause in pairs} == {'banned("b")', 'banned("x")'}
    assert len({number for number, _ in pairs}) == 1, "both are needed to undo it"
    db.apply(insert={"edge": [("p", "q")]})
    with pytest.raises(sempre.StateError, match="E643"):
        changes.causes("reach")


def test_a_trial_is_committed_or_forgotten(db: sempre.Database) -> None:
    with db.whatif(insert={"edge": [("d", "e")]}) as trial:
        assert trial.added["reach"].num_rows == 5
    assert ("a", "e") not in db["reach"]
    with pytest.raises(sempre.StateError, match="E642"):
        trial.commit()
    with db.whatif(insert={"edge": [("d", "e")]}) as trial:
        assert trial.commit().added["reach"].num_rows == 5
    assert ("a", "e") in db["reach"]
    with db.whatif(insert={"edge": [("e", "f")]}) as trial:
        db.apply(delete={"edge": [("d", "e")]})
        with pytest.raises(sempre.StateError, match="E642"):
            trial.commit()


def test_queries_of_several_atoms(db: sempre.Database) -> None:
    assert db.query('edge("a", X), edge(X, Y), X != "b"').to_pylist() == [{"X": "x", "Y": "c"}]
    assert db.query("n = count : { edge(_, _) }, n > 3").to_pylist() == [{"n": 5}]
    assert db.query('edge("a", "b"), !banned("a")').num_rows == 1
    assert db.query('edge(X, "b"); edge(X, "d").').to_pydict() == {"X": ["a", "c"]}
    with pytest.raises(sempre.ProgramError, match="E201"):
        db.query("edge(X, Y), Z > 3")
    with pytest.raises(sempre.ProgramError):
        db.query("edge(X, Y), nowhere(X)")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reach.dl").write_text(REACH)
    Path("edge.facts").write_text("".join(f"{x}\t{y}\n" for x, y in EDGES))
    Path("c.changes").write_text('+banned("c"). commit.\n')
    assert main(["init", "store", "reach.dl"]) == 0
    assert main(["apply", "store", "c.changes"]) == 0
    capsys.readouterr()
    assert main(["explain", "store", 'reach("a", "d")', "--not"]) == 0
    assert 'BLOCKED  !banned("c")' in capsys.readouterr().out
    assert main(["explain", "store", 'reach("a", "d")', "--between", "0", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        'reach("a", "d") vanished between epoch 0 and epoch 1, because of:',
        '  banned("c") was inserted',
    ]
    for form in (["--json"], ["--dot"], ["--html", "page.html"], ["--check"]):
        assert main(["explain", "store", 'reach("a", "d")', "--between", "0", "1", *form]) == 0
    assert main(["explain", "store", 'reach("a", "d")', "--between", "1", "0"]) == 1
    assert "E643" in capsys.readouterr().err
    assert main(["explain", "store", 'reach("a", "d")', "--not", "--between", "0", "1"]) == 2
    assert main(["query", "store", 'edge("a", X), edge(X, "c")']) == 0
    assert capsys.readouterr().out == "X\nb\nx\n"


def test_the_shell_and_other_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reach.dl").write_text(REACH)
    Path("edge.facts").write_text("".join(f"{x}\t{y}\n" for x, y in EDGES))
    assert main(["init", "store", "reach.dl"]) == 0
    lines = [
        'edge("a", X)',
        '.explain reach("a", "c")',
        '.why-not reach("c", "a")',
        '.whatif -edge("c", "d").',
        ".timing",
    ]
    monkeypatch.setattr(
        "sys.stdin", io.StringIO("\n".join([*lines, ".relations", ".plan", ".help", ".quit", "nothing"]))
    )
    capsys.readouterr()
    assert main(["shell", "store"]) == 0
    out = capsys.readouterr().out
    for words in (
        "X\nb\nx\n",
        "holds because of 2 facts",
        "is absent",
        '-reach("a", "d")',
        "reach(x: symbol, y: symbol)  ",
    ):
        assert words in out
    monkeypatch.setattr("sys.stdin", io.StringIO('edge("a"\n.nonsense\n'))
    assert main(["shell", "reach.dl"]) == 1
    assert ".help lists them" in capsys.readouterr().err
    Path("other.dl").write_text(
        REACH.replace("reach(x, z) :- reach(x, y), edge(y, z), !banned(y).", "reach(y, x) :- edge(x, y).")
    )
    assert main(["whatif", "store", "--rules", "other.dl"]) == 0
    out = capsys.readouterr().out
    assert '+reach("b", "a")' in out
    assert '-reach("a", "d")' in out
    assert main(["whatif", "store", "--rules", "reach.dl"]) == 0
    assert capsys.readouterr().out == "nothing would change\n"
    assert main(["whatif", "store"]) == 2


def test_a_row_that_another_is_chosen_for() -> None:
    db = sempre.Database(
        ".decl e(x: number, y: number) .decl c(x: number, y: number) choice-domain x"
        " c(x, y) :- e(x, y). e(1, 2). e(1, 3)."
    )
    (lost,) = {(1, 2), (1, 3)} - set(db["c"])
    assert "the relation keeps another row" in str(absent(db, f"c{lost}"))
