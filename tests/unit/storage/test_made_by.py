"""A store knows what it was made by: what is the same program opens and goes on, what is not is refused."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.analysis.rule_forms import normal_rule
from sempre.api.stores import check_files, vacuum
from sempre.rewrites import passes
from sempre.rewrites.fields import with_fields
from sempre.storage.differences import differences
from sempre.storage.digests import observes_codes, program_digest
from sempre.storage.manifest import Manifest
from sempre.storage.pieces import PieceReader
from sempre.storage.store import Store

NEGATED = """
.decl at(t: number)
.decl next(x: number, y: number)
next(x, y) :- at(x), at(y), x < y, !(at(z), x < z, z < y).
"""
HELPER = """
.decl at(t: number)
.decl between(x: number, y: number)
.decl next(x: number, y: number)
between(x, y) :- at(x), at(z), at(y), x < z, z < y.
next(x, y) :- at(x), at(y), x < y, !between(x, y).
"""
CLOSURE = """
.decl e(x: number, y: number)
.decl r(x: number, y: number)
r(x, y) :- e(x, y).
r(x, z) :- r(x, y), r(y, z).
"""


def manifest_of(store: Path) -> Manifest:
    return Store(store).manifest()


def sets_of(store: Path) -> set[str]:
    """The sets that have rows."""
    reader = PieceReader(manifest_of(store).pieces, Store(store).read)
    return {name for name in reader.names() if len(reader.total(name))}


# ---------------------------------------------------------------------------------------- modules and outputs


@pytest.mark.parametrize("program", [NEGATED, HELPER], ids=["negated", "helper"])
@pytest.mark.parametrize(("first", "then"), [("off", "auto"), ("auto", "off"), ("off", "tc"), ("seq", "tc")])
def test_other_modules(program: str, first: str, then: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with sempre.Database(program, store=store, modules=first) as db:
        db.apply(insert={"at": [(1,), (2,), (4,)]})
    with sempre.Database(program, store=store, modules=then) as db:
        assert sorted(db["next"]) == [(1, 2), (2, 4)]
        if "between" in db:
            assert db.query("between(1, X)").to_pydict() == {"X": [4]}
        db.apply(insert={"at": [(3,)]}, delete={"at": [(2,)]})
        assert sorted(db["next"]) == [(1, 3), (3, 4)]
        assert db.verify().ok
    with sempre.Database(program, store=store, modules=first) as db:
        db.apply(insert={"at": [(2,)]})
        assert sorted(db["next"]) == [(1, 2), (2, 3), (3, 4)]
        assert db.verify().ok
        with db.at_epoch(1) as past:
            assert sorted(past["next"]) == [(1, 2), (2, 4)]
            assert past.verify().ok


def test_counters_of_a_whole_stratum_are_not_those_beside_a_module(tmp_path: Path) -> None:
    with sempre.Database(CLOSURE, store=tmp_path / "store", strategy="dredc", modules="off") as db:
        db.apply(insert={"e": [(1, 2), (2, 3)]})
        db.apply(insert={"e": [(3, 4)]}, delete={"e": [(1, 2)]})
    assert {"nonrec/r", "rec/r"} & sets_of(tmp_path / "store")
    with sempre.Database(CLOSURE, store=tmp_path / "store", strategy="dredc") as db:
        db.apply(delete={"e": [(2, 3)]})
        assert sorted(db["r"]) == [(3, 4)]
    assert not {"nonrec/r", "rec/r"} & sets_of(tmp_path / "store"), "nobody would keep them up to date"


def test_neighbors_are_not_stored(tmp_path: Path) -> None:
    with sempre.Database(HELPER, store=tmp_path / "store") as db:
        db.apply(insert={"at": [(1,), (2,)], "between": [(7, 8)]})
        assert "next#" not in db.metrics()
    assert sets_of(tmp_path / "store") == {"facts/at", "explicit/between", "facts/next"}
    assert manifest_of(tmp_path / "store").deferred == ("between",)


OUTPUTS = {
    "added": (HELPER, f"{HELPER}.output between\n"),
    "removed": (f"{HELPER}.output between\n", HELPER),
    "of another kind": (f"{HELPER}.output next\n", f"{HELPER}.printsize next\n"),
}


@pytest.mark.parametrize("outputs", OUTPUTS)
def test_other_outputs(outputs: str, tmp_path: Path) -> None:
    first, then = OUTPUTS[outputs]
    with sempre.Database(first, store=tmp_path / "store") as db:
        db.apply(insert={"at": [(1,), (2,), (4,)]})
    with sempre.Database(then, store=tmp_path / "store") as db:
        db.apply(insert={"at": [(3,)]}, delete={"at": [(2,)]})
        assert (sorted(db["next"]), sorted(db["between"])) == ([(1, 3), (3, 4)], [(1, 4)])
        assert db.verify().ok


# ------------------------------------------------------------------------------------------------------- orders


def test_rules_in_another_order(tmp_path: Path) -> None:
    declared = "".join(f".decl {name}(t: number)\n.decl n{name}(x: number, y: number)\n" for name in "ab")
    rules = [f"n{n}(x, y) :- {n}(x), {n}(y), x < y, !({n}(z), x < z, z < y).\n" for n in "ab"]
    with sempre.Database(declared + "".join(rules), store=tmp_path / "store") as db:
        db.apply(insert={"a": [(1,), (2,), (3,)], "b": [(10,), (20,)]})
    with sempre.Database(declared + "".join(reversed(rules)), store=tmp_path / "store") as db:
        db.apply(insert={"a": [(5,)], "b": [(15,)]}, delete={"a": [(2,)]})
        assert (sorted(db["na"]), sorted(db["nb"])) == ([(1, 3), (3, 5)], [(10, 15), (15, 20)])


def test_ranges_and_records_in_another_order(tmp_path: Path) -> None:
    """Relations that rewrites add are found again by what their rules say, and not by where these stand."""
    declared = ".type L = [h: number, r: L]\n.decl e(x: number, y: number)\n.decl l(x: L)\n.decl n(x: L, n: number)\n"
    declared += "".join(f".decl {name}(x: number, z: number)\n" for name in "pqr")
    rules = [
        "p(x, z) :- e(x, y), z = range(0, y).\n",
        "q(x, z) :- e(x, y), z = range(y, x).\n",
        "r(x, z) :- q(x, y), z = range(0, y, 2).\n",
        "n(x, k + 1) :- l(x), x = [_, r], n(r, k).\n",
        "n(x, k + 2) :- l(x), x = [h, r], n(r, k), k > h.\n",
        "n(nil, 0).\n",
    ]
    with sempre.Database(declared + "".join(rules), store=tmp_path / "store") as db:
        db.apply(insert={"e": [(5, 2), (3, 4)], "l": [((1, None),), ((2, (1, None)),)]})
        before = {name: set(db[name]) for name in "npqr"}
    with sempre.Database(declared + "".join(reversed(rules)), store=tmp_path / "store") as db:
        assert {name: set(db[name]) for name in "npqr"} == before
        db.apply(insert={"e": [(7, 4)], "l": [((3, (2, (1, None))),)]}, delete={"e": [(3, 4)]})
        assert db.verify().ok


def test_counters_in_another_order_are_another_program(tmp_path: Path) -> None:
    """Numbers of `autoinc()` go by the order of the rules that take them."""
    declared = "".join(f".decl {name}(x: number)\n.decl {name}n(n: number, x: number)\n" for name in "ef")
    rules = ["en(autoinc(), x) :- e(x).\n", "fn(autoinc(), x) :- f(x), x > 1.\n", "f(x) :- e(x).\n"]
    with sempre.Database(declared + "".join(rules), store=tmp_path / "store") as db:
        db.apply(insert={"e": [(1,), (2,), (3,)]})
        before = {name: set(db[name]) for name in ("en", "fn")}
    with sempre.Database(declared + "".join([rules[2], *rules[:2]]), store=tmp_path / "store") as db:
        db.apply(insert={"e": [(4,)]})
        assert all(before[name] < set(db[name]) for name in before)
    other = declared + "".join(reversed(rules))
    with pytest.raises(sempre.StateError, match=r"E604(.|\n)*added: counter 1 in fn"):
        sempre.Database(other, store=tmp_path / "store")
    with sempre.Database(other, store=tmp_path / "store", migrate=True) as db:
        assert sorted(x for _, x in db["fn"]) == [2, 3, 4]


def test_a_store_of_a_version_that_rewrote_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not have is evaluated when it is read, and written with the next epoch."""
    program = ".type L = [h: number, r: L]\n.decl l(x: L)\n.decl n(x: L, n: number)\nn(nil, 0).\n"
    program += "n(x, k + 1) :- l(x), x = [_, r], n(r, k).\n"
    one, two, three = (1, None), (2, (1, None)), (3, (2, (1, None)))
    with monkeypatch.context() as patch:
        patch.setattr(passes, "REWRITES", tuple(each for each in passes.REWRITES if each is not with_fields))
        with sempre.Database(program, store=tmp_path / "store") as db:
            db.apply(insert={"l": [(one,), (two,)]})
    for _ in range(2):
        with sempre.Database(program, store=tmp_path / "store") as db:
            db.apply(insert={"l": [(three,)]})
            assert sorted(number for _, number in db["n"]) == [0, 1, 2, 3]
            assert db.verify().ok


@pytest.mark.parametrize("strategy", ["auto", "dredc", "elastic", "ranked"])
def test_declarations_in_another_order(strategy: str, tmp_path: Path) -> None:
    e, p, q = (f".decl {name}(x: number, y: number)\n" for name in "epq")
    rules = "p(x, y) :- e(x, y).\nq(x, z) :- p(x, y), e(y, z).\np(x, z) :- q(x, y), e(y, z), x != 99.\n"
    rng, edges = random.Random(3), set[tuple[int, int]]()
    for text in (e + p + q + rules, e + q + p + rules, p + e + q + rules, e + p + q + rules):
        with sempre.Database(text, store=tmp_path / "store", strategy=strategy) as db, sempre.Database(text) as right:
            for _ in range(2):
                come = {(rng.randrange(7), rng.randrange(7)) for _ in range(3)}
                gone = set(rng.sample(sorted(edges), min(len(edges), 2)))
                edges = (edges - gone) | come
                db.apply(insert={"e": sorted(come)}, delete={"e": sorted(gone)})
            right.apply(insert={"e": sorted(edges)})
            assert all(set(db[name]) == set(right[name]) for name in "pq")
            assert db.verify().ok
    assert {key for key in manifest_of(tmp_path / "store").memories if "p" in key} <= {"p,q"}


@pytest.mark.parametrize("strategy", ["counting", "elastic", "dredc", "bfc", "auto"])
@pytest.mark.parametrize(("first", "then"), [(1, 2), (2, 1)])
def test_a_rule_twice(strategy: str, first: int, then: int, tmp_path: Path) -> None:
    declared, store = ".decl e(x: number, y: number)\n.decl p(x: number)\n", tmp_path / "store"
    start, step = "p(y) :- e(_, y).\n", "p(y) :- p(x), e(x, y).\n"
    with sempre.Database(declared + start + step * first, store=store, strategy=strategy) as db:
        db.apply(insert={"e": [(i, i + 1) for i in range(300)]})
        db.apply(delete={"e": [(299, 300)]})
        db.apply(insert={"e": [(299, 300)]})
    with sempre.Database(declared + start + step * then, store=store, strategy=strategy) as db:
        db.apply(delete={"e": [(5, 6), (298, 299)]})
        assert {x for (x,) in db["p"]} == set(range(1, 301)) - {6, 299}
        assert db.verify().ok


def test_a_rule_twice_under_an_aggregate_is_another_program() -> None:
    text = ".decl e(x: number)\n.decl s(n: number)\n"
    rule = "s(sum(x)) :- e(x).\n"
    one, two = (sempre.Program(text + rule * copies).checked for copies in (1, 2))
    assert differences(one, two).lines == ("rule added: s(sum(x)) :- e(x).",)


# -------------------------------------------------------------------------------------------------- differences


def rule_of(text: str) -> str:
    declared = ".decl a(x: number, y: number)\n.decl b(x: number)\n.decl h(x: number, y: number)\n"
    (rule,) = sempre.Program(declared + text).checked.rules
    return normal_rule(rule)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("h(x, y) :- a(x, y).", "h(u, v) :- a(u, v).", True),
        ("h(x, y) :- a(x, y).", "h(y, x) :- a(x, y).", False),
        ("h(x, z) :- a(x, y), a(y, z).", "h(u, w) :- a(v, w), a(u, v).", True),
        ("h(x, z) :- a(x, y), a(y, z).", "h(x, z) :- a(x, y), a(z, y).", False),
        ("h(1, 2) :- a(x, y), a(y, z), a(z, x).", "h(1, 2) :- a(q, p), a(r, q), a(p, r).", True),
        ("h(1, 2) :- a(x, y), a(y, x), b(x).", "h(1, 2) :- a(x, y), a(y, x), b(y).", True),
        ("h(1, 2) :- a(x, _), a(x, _).", "h(1, 2) :- a(x, _).", False),
        ("h(1, 2) :- a(x, y), a(z, w), b(x), b(z).", "h(1, 2) :- a(x, y), a(z, w), b(x), b(y).", False),
        ("h(x, x) :- b(x), !(a(x, y), b(y)).", "h(v, v) :- !(b(w), a(v, w)), b(v).", True),
        ("h(x, x) :- b(x), !(a(x, y), b(y)).", "h(x, x) :- b(x), !(a(y, x), b(y)).", False),
        ("h(x, n) :- b(x), n = count : { a(x, y), b(y) }.", "h(k, m) :- m = count : { b(z), a(k, z) }, b(k).", True),
        ("h(x, n) :- b(x), n = sum y : { a(x, y) }.", "h(x, n) :- b(x), n = max y : { a(x, y) }.", False),
        ("h(x, x) :- b(x), x < 1.", "h(x, x) :- b(x), x < 2.", False),
    ],
)
def test_rules_in_normal_form(one: str, other: str, same: bool) -> None:
    assert (rule_of(one) == rule_of(other)) is same


def test_a_type_inside_of_a_type(tmp_path: Path) -> None:
    program = ".type Q = [n: number]\n.type R = [a: symbol, b: Q]\n.decl e(r: R)\n.decl f(n: number)\n"
    other = program.replace("n: number]", "n: symbol]")
    with sempre.Database(program, store=tmp_path / "store") as db:
        db.apply(insert={"e": [(("x", (1,)),)], "f": [(1,)]})
    with pytest.raises(sempre.StateError, match=r"E604") as caught:
        sempre.Database(other, store=tmp_path / "store")
    assert "relation added: e(r: R) with R = [a: symbol, b: Q], Q = [n: symbol]" in str(caught.value)
    with sempre.Database(other, store=tmp_path / "store", migrate=True) as db:
        assert (list(db["e"]), list(db["f"])) == ([], [(1,)]), "numbers are no symbols"


def test_advice_is_no_difference() -> None:
    plain, advised = (
        program_digest(sempre.Program(f".decl e(x: number){words}\n").checked) for words in ("", " btree output")
    )
    assert plain == advised


# ------------------------------------------------------------------------------------------------------- vacuum


def test_neighbors_of_symbols_after_a_vacuum(tmp_path: Path) -> None:
    program = """
    .decl reading(sensor: symbol, at: number, value: number)
    .decl step(sensor: symbol, at: number, by: number)
    step(s, t, v - u) :- reading(s, b, u), reading(s, t, v), b < t, !(reading(s, z, _), b < z, z < t).
    """
    rows = [("x", 1, 10), ("y", 1, 10), ("a", 1, 10), ("a", 5, 30), ("b", 2, 7), ("b", 9, 8)]
    with sempre.Database(program, store=tmp_path / "store") as db:
        db.apply(insert={"reading": rows})
        db.apply(delete={"reading": rows[:2]})
    vacuum(tmp_path / "store")
    assert manifest_of(tmp_path / "store").lists["symbols"] == 2
    with sempre.Database(program, store=tmp_path / "store") as db:
        db.apply(insert={"reading": [("c", 1, 100), ("c", 3, 200), ("c", 5, 700)]})
        assert sorted(row for row in db["step"] if row[0] == "c") == [("c", 3, 100), ("c", 5, 500)]
        assert db.verify().ok


def test_symbols_keep_codes_that_are_seen(tmp_path: Path) -> None:
    program = ".decl e(x: symbol)\n.decl o(x: symbol, n: number)\no(x, ord(x)) :- e(x).\n"
    with sempre.Database(program, store=tmp_path / "store") as db:
        db.apply(insert={"e": [("a",), ("b",), ("c",)]})
        db.apply(delete={"e": [("a",)]})
        before = sorted(db["o"])
    vacuum(tmp_path / "store")
    with sempre.Database(program, store=tmp_path / "store") as db:
        assert sorted(db["o"]) == before
        assert db.verify().ok
        db.apply(delete={"e": [("b",), ("c",)]})
        assert not list(db["o"])


@pytest.mark.parametrize(
    ("rule", "seen"),
    [
        ("h(x) :- e(x).", False),
        ("h(x) :- e(x), ord(x) > 1.", True),
        ("h(x) :- e(x), !(e(y), ord(y) < ord(x)).", True),
        ("h(x) :- e(x), 3 = max ord(y) + 1 : { e(y) }.", True),
        ("h(x) :- e(x), 3 = count : { e(y), ord(y) = 1 }.", True),
        ('n(ord("a")).', True),
    ],
)
def test_where_codes_are_seen(rule: str, seen: bool) -> None:
    text = f".decl e(x: symbol)\n.decl h(x: symbol)\n.decl n(x: number)\n{rule}\n"
    assert observes_codes(sempre.Program(text).checked) is seen


def test_new_codes_have_room(tmp_path: Path) -> None:
    """The layout of the last epoch begins where the codes that were left began."""
    program = ".decl e(x: symbol)\n.decl f(x: symbol)\n.decl p(x: symbol)\np(x) :- f(x).\n"
    with sempre.Database(program, store=tmp_path / "store") as db:
        db.apply(insert={"e": [(f"e{n}",) for n in range(5000)]})
        db.apply(insert={"f": [(f"f{n}",) for n in range(4)]})
        db.apply(delete={"e": list(db["e"])})
    vacuum(tmp_path / "store")
    with sempre.Database(program, store=tmp_path / "store", strategy="recompute") as db:
        db.apply(delete={"f": [("f0",)]})
        assert sorted(db["p"]) == [("f1",), ("f2",), ("f3",)]
        assert db.verify().ok


# -------------------------------------------------------------------------------------------------- old formats

OLD = Path(__file__).parent / "formats"


def right(db: sempre.Database) -> None:
    """Compare a database with one that has the same explicit facts from the start."""
    with sempre.Database(db.program.text, modules="off", strategy="recompute") as other:
        other.apply(insert={"at": list(db["at"]), "between": [("b", 7, 9)]})
        assert {name: sorted(db[name]) for name in db} == {name: sorted(other[name]) for name in other}
    assert db.verify().ok, db.verify()


@pytest.mark.folder
@pytest.mark.parametrize("written", ["auto", "off"])
@pytest.mark.parametrize("modules", ["auto", "off"])
@pytest.mark.parametrize("cleaned", [False, True])
def test_stores_of_format_one(written: str, modules: str, cleaned: bool, tmp_path: Path) -> None:
    """Memories without a digest are made again, and what was evaluated on demand is told from what was not."""
    store, options = tmp_path / "store", dict[str, Any](modules=modules, strategy="dredc")
    shutil.copytree(OLD / f"one-{written}", store)
    if cleaned:
        vacuum(store)
    with sempre.Database.open(store, **options) as db:
        assert sorted(db["between"]) == [("a", 1, 6), ("b", 7, 9)]
        right(db)
        db.apply(insert={"at": [("a", 5), ("c", 3)]}, delete={"at": [("b", 9)]})
        right(db)
    assert manifest_of(store).format == 3
    assert not any("#" in name for name in sets_of(store))
    vacuum(store)
    with sempre.Database.open(store, **options) as db:
        db.apply(delete={"at": [("a", 4)]}, insert={"at": [("c", 8)]})
        right(db)
    check_files(store)
