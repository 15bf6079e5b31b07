"""Functors in Python: the engine with them equals the oracle with built-in functors that mean the same."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.api.explanations import Proof
from sempre.cli import main
from sempre.lang.parser import parse
from sempre.python_functions import REGISTERED
from tests.engine import STRATEGIES, compare, lists, truths
from tests.oracle.naive import Facts
from tests.workers import UnusedSession

pytestmark = pytest.mark.oracle

DECLARED = """
.functor twice(x: number): number
.functor joined(s: symbol, n: number): symbol
.functor far(x: number, y: number): unsigned
.functor mixed(x: number, u: unsigned): float
.decl e(x: number, y: number)
.decl w(s: symbol, n: number)
.decl p(x: number, y: number)
.decl q(s: symbol)
.decl r(f: float, u: unsigned)
"""
# With a call in Python, and with built-in functors.
POOL = (
    ("p(x, @twice(y)) :- e(x, y).", "p(x, y + y) :- e(x, y)."),
    ("p(@twice(x), y) :- p(x, y), @twice(x) < 20, x > 0.", "p(x + x, y) :- p(x, y), x + x < 20, x > 0."),
    ("q(@joined(s, n)) :- w(s, n).", "q(cat(s, to_string(n))) :- w(s, n)."),
    ("q(s) :- w(s, n), !w(@joined(s, n), _).", "q(s) :- w(s, n), !w(cat(s, to_string(n)), _)."),
    (
        "r(@mixed(x, u), u) :- e(x, y), u = @far(x, y).",
        "r(itof(x) + utof(u), u) :- e(x, y), u = itou((x - y) * (x - y)).",
    ),
    ("p(x, n) :- e(x, _), n = sum @twice(y) : { e(x, y) }.", "p(x, n) :- e(x, _), n = sum y + y : { e(x, y) }."),
    ("p(x, y) :- e(x, y), e(y, @twice(x)).", "p(x, y) :- e(x, y), e(y, x + x)."),
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(REGISTERED)

    @sempre.functor
    def twice(x: int) -> int:
        return x + x

    @sempre.functor(name="joined", columns=True)
    def on_columns(texts: list[str], numbers: Any) -> list[str]:
        return [f"{text}{number}" for text, number in zip(texts, numbers.tolist(), strict=True)]

    @sempre.functor
    def mixed(x: int, u: int) -> float:
        return float(x + u)

    @sempre.functor(columns=True, name="far")
    def far_of(x: Any, y: Any) -> Any:
        if not isinstance(x, int) and x.size % 2:
            raise NotImplementedError
        return (x - y) ** 2

    yield
    REGISTERED.clear()
    REGISTERED.update(before)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_calls_equal_what_they_mean(strategy: str) -> None:
    for seed in range(3):
        rng = random.Random(f"{strategy} {seed}")
        rules = rng.sample(POOL, rng.randint(3, 6))
        ours, theirs = (DECLARED + "\n".join(rule[at] for rule in rules) for at in (0, 1))
        epochs = [(_facts(rng), _facts(rng)) for _ in range(4)]
        expected = truths(parse(theirs), epochs)
        with sempre.Database(ours, strategy=strategy) as db:
            for (insert, delete), truth in zip(epochs, expected[1:], strict=True):
                db.apply(insert=lists(insert), delete=lists(delete))
                compare(db, truth.facts, ours)
                assert db.verify().ok


def _facts(rng: random.Random) -> Facts:
    pairs = {(rng.randrange(5), rng.randrange(5)) for _ in range(rng.randint(0, 5))}
    return {"e": pairs, "w": {(rng.choice(("a", "b", "a1", "b2", "é")), rng.randrange(3)) for _ in range(3)}}


def test_proofs_by_functors_pass_the_checker() -> None:
    text = DECLARED + "p(x, @twice(y)) :- e(x, y). q(@joined(s, n)) :- w(s, n), @twice(n) > 2."
    with sempre.Database(text) as db:
        db.apply(insert={"e": [(1, 2)], "w": [("a", 2)]})
        for fact in ("p(1, 4)", 'q("a2")'):
            proof = db.explain(fact)
            assert isinstance(proof, Proof)
            assert proof.check() == []


BAD = {
    "wrong type": (lambda x: "text", "`@f` gave 'text', which is no number"),
    "too large": (lambda x: 1 << 63, "`@f` gave 9223372036854775808, which is no number"),
    "no number": (lambda x: None, "`@f` gave None, which is no number"),
    "exception": (lambda x: 1 // 0, "`@f` raised ZeroDivisionError: integer division or modulo by zero"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_function_that_fails_ends_the_epoch(what: str) -> None:
    function, message = BAD[what]
    sempre.functor(name="f")(function)
    with sempre.Database(".functor f(x: number): number .decl e(x: number) .decl p(x: number) p(@f(x)) :- e(x).") as db:
        with pytest.raises(sempre.DataError, match="E510") as error:
            db.apply(insert={"e": [(1,)]})
        assert message in str(error.value)
        assert not len(db["e"])


def test_a_column_of_another_length_is_refused() -> None:
    sempre.functor(name="f", columns=True)(lambda x: [1])
    db = sempre.Database(".functor f(x: number): number .decl e(x: number) .decl p(x: number) p(@f(x)) :- e(x).")
    with db, pytest.raises(sempre.DataError, match="gave 1 values for 2 rows"):
        db.apply(insert={"e": [(1,), (2,)]})


def test_a_functor_without_a_function_is_an_error() -> None:
    with pytest.raises(sempre.ProgramError, match="E339"):
        sempre.Database(".functor nobody(): number .decl p(x: number) p(@nobody()).")
    text = ".functor twice(x: number): number .decl e(x: number) .decl p(x: number) p(@twice(x)) :- e(x)."
    with pytest.raises(sempre.BackendError, match="cannot run on the cluster"):
        sempre.Database(text, spark=UnusedSession(), place="cluster")


def test_a_file_of_functions_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, functions = tmp_path / "p.dl", tmp_path / "f.py"
    program.write_text(".functor plus_one(x: number): number\n.decl p(x: number)\np(@plus_one(1)).\n.output p\n")
    functions.write_text("import sempre\n@sempre.functor\ndef plus_one(x):\n    return x + 1\n")
    assert main(["run", str(program), "-D", "-", "--on", "local", "--functors", str(functions)]) == 0
    assert "2\n" in capsys.readouterr().out
    functions.write_text("1 // 0\n")
    assert main(["run", str(program), "-D", "-", "--on", "local", "--functors", str(functions)]) == 1
    assert "error[E340]" in capsys.readouterr().err
    assert sys.modules.get("f") is None
