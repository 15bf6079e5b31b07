"""The worked examples of [Hu22], with the paper's intermediate sets.

Where our modules do less than the paper's (they keep what trusted facts prove), the test says so.
"""

from __future__ import annotations

from typing import Any

import sempre
from sempre.maintain.auto import ChosenStrategy
from sempre.modules.closing import Closing
from sempre.modules.spec import Module
from sempre.plan.ops import Automaton
from tests.inside import engine_of

Pairs = set[str]

TRANSITIVE = """
.decl S(x: symbol, y: symbol)
.decl R(x: symbol, y: symbol)
R(x, y) :- S(x, y).
R(x, z) :- R(x, y), R(y, z).
"""


def pairs(db: sempre.Database, name: str, rows: Any = None) -> Pairs:
    """Facts as words: R(a, b) is `ab`."""
    found = db[name] if rows is None else db._decoder.tuples(db.program.relations[name], rows.columns(), len(rows))
    return {"".join(row) for row in found}


def backbone(db: sempre.Database, name: str) -> Pairs:
    return kept(db, name, 0)


def kept(db: sempre.Database, name: str, module: int) -> Pairs:
    for memory in engine_of(db).snapshot.memories.values():
        inner: Any = memory.memory if isinstance(memory, ChosenStrategy) else memory
        if inner is not None and name in inner.kept[module].backbone:
            return pairs(db, name, inner.kept[module].backbone[name].rows())
    raise AssertionError(f"no module derives into {name}")


def words(*names: str) -> list[tuple[str, ...]]:
    return [tuple(name) for name in names]


class Heard:
    """What modules are told and answer while an epoch runs."""

    def __init__(self, monkeypatch: Any) -> None:
        self.deleted: list[Any] = []
        self.rederived: list[Any] = []
        delete, rederive = Closing.delete, Closing.rederive

        def watch_delete(closing: Any, told: Any, trusted: Any, holds: Any) -> Any:
            answer = delete(closing, told, trusted, holds)
            self.deleted.append((told, answer))
            return answer

        def watch_rederive(closing: Any, dead: Any) -> Any:
            self.rederived.append(rederive(closing, dead))
            return self.rederived[-1]

        monkeypatch.setattr(Closing, "delete", watch_delete)
        monkeypatch.setattr(Closing, "rederive", watch_rederive)


def test_examples_20_to_22(monkeypatch: Any) -> None:
    db = sempre.Database(TRANSITIVE, strategy="dredc")
    # Example 20: the backbone is smaller than the closure.
    db.apply(insert={"S": words("bc"), "R": words("cd", "de")})
    assert pairs(db, "R") == {"bc", "cd", "de", "bd", "be", "ce"}
    assert backbone(db, "R") == {"bc", "cd", "de"}
    # Example 21: R(c, e) is given by S(c, e) now, but was derived before, so it stays out.
    db.apply(insert={"S": words("ac", "ce")})
    assert pairs(db, "R") == {"bc", "cd", "de", "bd", "be", "ce", "ac", "ad", "ae"}
    assert backbone(db, "R") == {"ac", "bc", "cd", "de"}
    # Example 22: R(c, e) loses its path and holds; it enters the backbone, or R(b, e) would be lost.
    heard = Heard(monkeypatch)
    changes = db.apply(delete={"R": words("de"), "S": words("ac")})
    (told, answer), *more = heard.deleted
    assert not more
    assert pairs(db, "R", told["R"]) == {"de", "ac"}
    # Overdeleted, what was told included: R(a, d) and R(a, e), and R(b, e) until R(c, e) brings it back.
    assert pairs(db, "R", answer["R"]) == {"ac", "de", "ad", "ae", "be"}
    assert [pairs(db, "R", rows["R"]) for rows in heard.rederived] == [{"be"}]
    assert backbone(db, "R") == {"bc", "cd", "ce"}
    assert {"".join(row.values()) for row in changes.removed["R"].to_pylist()} == {"de", "ac", "ad", "ae"}
    assert db.verify().ok


def test_example_29() -> None:
    """S follows R's closure: quadratic many facts, found over the backbone alone."""
    db = sempre.Database(
        """
        .decl R(x: number, y: number)
        .decl S(x: number, y: number)
        R(x, z) :- R(x, y), R(y, z).
        S(x, z) :- S(x, y), R(y, z).
        """,
        strategy="dredc",
    )
    n, m = 7, 4
    db.apply(insert={"R": [(i, i + 1) for i in range(1, n)], "S": [(100 + k, 1) for k in range(m)]})
    assert set(db["R"]) == {(i, j) for i in range(1, n) for j in range(i + 1, n + 1)}
    assert set(db["S"]) == {(100 + k, j) for k in range(m) for j in range(1, n + 1)}
    db.apply(delete={"R": [(3, 4)]})
    assert set(db["S"]) == {(100 + k, j) for k in range(m) for j in range(1, 4)}
    assert db.verify().ok


def test_example_31() -> None:
    """A fact that a module derives and that is given too is forgotten when both are lost: R(a, d) never appears."""
    db = sempre.Database(
        """
        .decl U(x: symbol, y: symbol)
        .decl V(x: symbol, y: symbol)
        .decl S(x: symbol, y: symbol)
        .decl T(x: symbol, y: symbol)
        .decl W(x: symbol, y: symbol)
        .decl R(x: symbol, y: symbol)
        S(x, y) :- U(x, y).
        T(x, y) :- S(x, y).
        W(x, y) :- U(x, y).
        T(x, y) :- W(x, y).
        R(x, z) :- T(x, y), V(y, z).
        // What follows puts all of them into one stratum, as the paper has them, and derives nothing.
        S(x, y) :- R(x, y), V(x, x).
        W(x, y) :- R(x, y), V(x, x).
        """,
        strategy="dredc",
    )
    # The partition of the paper; its chain rules alone are not recursive, so nobody looks for them.
    steps = ((0, "T", 1), (0, "W", 1), (2, "R", 4), (2, "T", 3), (2, "W", 3), (3, "V", 4))
    paths = Automaton(5, steps, {"T": 0, "R": 2}, {"T": frozenset((1,)), "R": frozenset((4,))})
    texts = ("T(x, y) :- W(x, y).", "R(x, z) :- T(x, y), V(y, z).")
    chains = frozenset(rule.number for rule in engine_of(db).program.rules if rule.text in texts)
    stratum = next(stratum for stratum in engine_of(db).program.strata if "R" in stratum.relations)
    engine_of(db).modules = {stratum.index: (Module("rch", ("T", "R"), chains, "as in the paper", paths),)}
    engine_of(db).debug = True
    # Given first by S, T(a, b) is in the backbone; then W derives it inside of the module, too.
    db.apply(insert={"S": words("ab"), "V": words("bc")})
    assert kept(db, "T", 0) == {"ab"}
    db.apply(insert={"U": words("ab")})
    assert pairs(db, "R") == {"ac"}
    db.apply(insert={"V": words("bd")}, delete={"U": words("ab"), "S": words("ab")})
    assert not pairs(db, "R")
    assert not pairs(db, "T")
    assert not kept(db, "T", 0)
    assert db.verify().ok


def test_exact_components_would_keep_what_rests_on_itself() -> None:
    """R(v, u) comes from T(u, v), which comes from R(u, v): without base(u, w) both must go."""
    db = sempre.Database(
        """
        .decl base(x: symbol, y: symbol)
        .decl g(x: symbol, y: symbol)
        .decl R(x: symbol, y: symbol)
        .decl T(x: symbol, y: symbol)
        R(x, y) :- base(x, y).
        R(y, x) :- R(x, y).
        R(x, z) :- R(x, y), R(y, z).
        T(x, y) :- R(x, y), g(x, y).
        R(y, x) :- T(x, y).
        """,
        strategy="dredc",
    )
    db.apply(insert={"base": words("uw", "wv"), "g": words("uv")})
    assert pairs(db, "T") == {"uv"}
    db.apply(delete={"base": words("uw")})
    assert pairs(db, "R") == {"vw", "wv", "vv", "ww"}
    assert not pairs(db, "T")
    assert db.verify().ok
