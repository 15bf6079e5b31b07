"""Why a fact holds: from Python and from the command line, in all forms; and what the checker refuses."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.api.explanations import Proof, SnapshotFacts
from sempre.cli import main
from sempre.explain.checker import check_proof
from sempre.explain.wording import value_text
from sempre.results import Decoder
from tests.inside import engine_of

REACH = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl banned(x: symbol)
.decl reach(x: symbol, y: symbol)
//! there is an edge from {x} to {y}
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z), !banned(y).
.output reach
"""
EDGES = [("a", "b"), ("b", "c"), ("c", "d")]


@pytest.fixture
def db() -> sempre.Database:
    database = sempre.Database(REACH)
    database.apply(insert={"edge": EDGES})
    return database


def explain(db: sempre.Database, fact: str, **options: Any) -> Proof:
    found = db.explain(fact, **options)
    assert isinstance(found, Proof)
    assert options or found.check() == []
    return found


def test_a_proof_has_a_short_answer_and_a_tree(db: sempre.Database) -> None:
    proof = explain(db, 'reach("a", "c")')
    assert proof.base == ['edge("b", "c")', 'edge("a", "b")']
    assert str(proof).splitlines() == [
        'reach("a", "c") holds because of 2 facts:',
        '  edge("b", "c")',
        '  edge("a", "b")',
        "",
        'reach("a", "c")  by <program>:8:1: reach(x, z) :- reach(x, y), edge(y, z), !banned(y).',
        '├─ reach("a", "b")  there is an edge from a to b  (<program>:7:1)',
        '│  └─ edge("a", "b")',
        '├─ edge("b", "c")',
        '└─ no banned("b")',
    ]


def test_a_proof_is_cut_at_a_depth(db: sempre.Database) -> None:
    assert 'reach("a", "b")  (deeper)' in str(explain(db, 'reach("a", "c")', depth=1)) or (
        len(explain(db, 'reach("a", "d")', depth=1).document.nodes) < len(explain(db, 'reach("a", "d")').document.nodes)
    )


def test_further_proofs_come_with_their_number(db: sempre.Database) -> None:
    db.apply(insert={"edge": [("a", "c")]})
    proof = explain(db, 'reach("a", "d")', further=2)
    assert proof.document.instances == 1
    db.apply(insert={"edge": [("b", "d")]})
    assert "2 instances in all; 1 further:" in str(explain(db, 'reach("a", "d")', further=2))


def test_heights_are_least_where_a_long_rule_is_met_first() -> None:
    db = sempre.Database(
        """
        .decl start(x: number) .decl next(x: number, y: number) .decl all(x: number, a: number, b: number, c: number)
        .decl p(x: number)
        p(x) :- start(x).
        p(y) :- p(x), next(x, y).
        p(x) :- all(x, a, b, c), p(a), p(b), p(c).
        start(1). start(10). next(1, 2). next(2, 3). next(3, 4). all(100, 2, 3, 4). next(10, 11). next(11, 12).
        next(12, 100).
        """
    )
    assert explain(db, "p(100)").height == 4


def test_what_is_no_fact_is_refused(db: sempre.Database) -> None:
    with pytest.raises(sempre.DataError, match="E640"):
        db.explain('reach("a", X)')
    with pytest.raises(sempre.StateError, match="E641"):
        db.explain('reach("d", "a")')


DEFECTS = {
    "another rule": lambda d: d["nodes"][0].update(rule=sum(map(int, d["rules"])) - d["nodes"][0]["rule"]),
    "another value": lambda d: d["nodes"][0]["values"].__setitem__(0, "d"),
    "a premise left out": lambda d: d["nodes"][0]["premises"].pop(0),
    "another premise": lambda d: d["nodes"][0]["premises"][0].update(node=len(d["nodes"]) - 1),
    "it rests on itself": lambda d: d["nodes"][0]["premises"][0].update(node=0),
    "an invented fact": lambda d: d["nodes"][-1].update(values=["x", "y"]),
    "a height": lambda d: d["nodes"][0].update(height=7),
    "another rule's text": lambda d: d["rules"][str(d["nodes"][0]["rule"])].update(text="reach(x, z) :- edge(x, z)."),
    "another fact": lambda d: d.update(fact='reach("a", "a")'),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_the_checker_finds_a_planted_defect(db: sempre.Database, name: str) -> None:
    document = copy.deepcopy(explain(db, 'reach("a", "d")').to_json())
    facts = SnapshotFacts(db, engine_of(db).snapshot)
    assert check_proof(document, db.program.checked, facts) == []
    DEFECTS[name](document)
    assert check_proof(document, db.program.checked, facts) != []


def test_the_checker_finds_what_a_negation_forbids(db: sempre.Database) -> None:
    document = explain(db, 'reach("a", "c")').to_json()
    db.apply(insert={"banned": [("b",)]})
    facts = SnapshotFacts(db, engine_of(db).snapshot)
    assert check_proof(document, db.program.checked, facts) != []


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reach.dl").write_text(REACH)
    Path("edge.facts").write_text("".join(f"{x}\t{y}\n" for x, y in EDGES))
    assert main(["init", "store", "reach.dl"]) == 0
    capsys.readouterr()
    assert main(["explain", "store", 'reach("a", "d")']) == 0
    assert "holds because of 3 facts" in capsys.readouterr().out
    assert main(["explain", "store", 'reach("a", "d")', "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["height"] == 3
    assert main(["explain", "store", 'reach("a", "d")', "--check"]) == 0
    assert capsys.readouterr().out == "ok: 6 facts, height 3, each follows by its rule\n"
    assert main(["explain", "store", 'reach("a", "d")', "--dot"]) == 0
    assert capsys.readouterr().out.startswith("digraph proof {")
    assert main(["explain", "store", 'reach("a", "d")', "--html", "proof.html"]) == 0
    page = Path("proof.html").read_text()
    assert "http" not in page
    assert main(["explain", "store", 'reach("a", "d")', "--dot", "--json"]) == 2
    assert main(["explain", "store", 'reach("d", "a")']) == 1
    assert "E641" in capsys.readouterr().err


def test_a_view_explains_its_rows(db: sempre.Database) -> None:
    assert db["reach"].explain(("a", "c")).base == explain(db, 'reach("a", "c")').base
    assert "is absent" in str(db["reach"].explain(("c", "a"), absent=True))


def test_values_of_algebraic_types_are_checked() -> None:
    db = sempre.Database(
        ".type L = N {} | C {h: number, t: L} .decl l(x: L) l($N()). l($C(1, x)) :- l(x), x = $N()."
        ".decl q(n: number) q(h) :- l($C(h, _))."
    )
    assert explain(db, "q(1)").check() == []


BRANCHES = """
.type Tree = Leaf {} | Node {left: Tree, label: symbol, weight: float, right: Tree}
.type Pair = [name: symbol, tree: Tree]
.decl tree(t: Tree, p: Pair)
.decl part(t: Tree, p: Pair)
part(t, p) :- tree(t, p).
"""


def test_values_of_algebraic_types_are_shown_as_a_program_has_them() -> None:
    node = ("Node", ("Leaf",), 'a(b" ', 0.5, ("Leaf",))
    fact = 'part($Node($Leaf, "a(b\\" ", 0.5, $Leaf), ["x", $Leaf])'
    with sempre.Database(BRANCHES) as db:
        db.apply(insert={"tree": [(node, ("x", ("Leaf",)))]})
        proof = explain(db, fact)
        assert proof.base == [fact.replace("part", "tree")]
        assert [row["_fact"] for row in db.explanations("part").to_pylist()] == [fact]
        assert db["part"].explain((node, ("x", ("Leaf",)))).base == proof.base
        absent = db.explain('part($Leaf, ["x", nil])'.replace("nil", "$Leaf"), absent=True)
        assert 'MISSING  tree($Leaf, ["x", $Leaf])' in str(absent)
        caused = db.apply(delete={"tree": [(node, ("x", ("Leaf",)))]}).causes("part").to_pylist()
        assert [row["_cause"] for row in caused] == [fact.replace("part", "tree")]
        assert caused[0]["t"] == '$Node($Leaf, "a(b\\" ", 0.5, $Leaf)'
        assert caused[0]["p"] == "[x, $Leaf]"


def test_long_lists_are_shown() -> None:
    value: Any = None
    for number in range(5_000):
        value = (number, value)
    assert value_text(value).startswith("[4999, [4998, [")
    assert value_text(value).endswith("[0, nil" + "]" * 5_000)


def test_a_page_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with sempre.Database(REACH, store="store") as db:
        db.apply(insert={"edge": EDGES})
    assert main(["explain", "store", 'edge("a", "b")', "--html", "nowhere/a.html"]) == 1
    assert capsys.readouterr().err == "error[E512]: cannot write `nowhere/a.html`: no such file or directory\n"


TREES = """
.type Tree = Leaf {} | Node {l: Tree, name: symbol, r: Tree}
.type Pair = [t: Tree, n: number]
.decl tree(t: Tree) .decl part(t: Tree) .decl name(s: symbol) .decl pair(p: Pair) .decl none(n: number)
tree($Node($Node($Leaf, "a", $Leaf), "b", $Leaf)).
part(t) :- tree(t).
part(l), part(r) :- part($Node(l, _, r)).
name(s) :- part($Node(_, s, $Leaf)).
pair([t, n]) :- part(t), n = count : { part(t) }.
none(n) :- pair([$Node(_, "b", _), n]), !part($Node($Leaf, "zz", $Leaf)).
"""


def test_algebraic_values_are_told_as_a_program_has_them() -> None:
    with sempre.Database(TREES) as db:
        place = db.program.checked.rules[0].span.file
        assert str(db.explain('name("a")')).split("\n")[3:] == [
            f'name("a")  by {place}:8:1: name(s) :- part($Node(_, s, $Leaf)).',
            f'└─ part($Node($Leaf, "a", $Leaf))  by {place}:7:1: part(l), part(r) :- part($Node(l, _, r)).',
            f'   └─ part($Node($Node($Leaf, "a", $Leaf), "b", $Leaf))  by {place}:6:1: part(t) :- tree(t).',
            '      └─ tree($Node($Node($Leaf, "a", $Leaf), "b", $Leaf))',
        ]
        assert str(db.explain("none(1)")).endswith('\n└─ no part($Node($Leaf, "zz", $Leaf))')
        assert str(db.explain("none(4)", absent=True)).split("\n")[2:] == [
            "  the nearest of 3 instances that lack as much:",
            "  holds    pair([$Leaf, 1])",
            '  FAILS    [$Leaf, 1] = [$Node(_, "b", _), 4]',
            '  holds    !part($Node($Leaf, "zz", $Leaf))',
        ]
        assert explain(db, 'part($Node($Leaf, "a", $Leaf))').check() == []
        assert "part($Leaf)" in db.explanations("part")["_fact"].to_pylist()


def test_the_rows_of_an_aggregate_stand_below_it() -> None:
    with sempre.Database(".decl p(x: number) p(1). p(4). .decl m(x: number) m(y) :- y = max x : { p(x) }.") as db:
        assert str(db.explain("m(4)")).split("\n")[-2:] == ["└─ 4 = max x : { p(x) }, of 2 rows", "   └─ p(4)"]


def test_a_count_of_symbols_in_a_head_is_a_number() -> None:
    with sempre.Database('.decl p(x: symbol) p("a"). p("b"). .decl n(x: number) n(count(x)) :- p(x).') as db:
        assert str(db.explain("n(2)")).endswith('one of 2 instances\n└─ p("a")')
        assert explain(db, "n(2)").check() == []
        assert str(db.explain("n(7)", absent=True)).startswith("n(7) is absent: the count of its group is 2")


def test_the_shell_tells_the_history_of_a_fact_of_active_rules(capsys: pytest.CaptureFixture[str]) -> None:
    from sempre.cli.shell_command import Shell

    rules = ".decl todo(x: number) .decl done(x: number)\ntodo(1).\ndone(x), -todo(x) :- todo(x)."
    with sempre.Database(rules, semantics="active") as db:
        assert Shell(db).answer(".explain done(1)")
        assert Shell(db).answer(".why-not todo(1)")
    told = capsys.readouterr().out
    rule = "  done(x), -todo(x) :- todo(x).\n"
    assert told == (
        f"done(1) holds\ncycle 1: added\n{rule}todo(1) does not hold\ncycle 0: in the input\ncycle 1: deleted\n{rule}"
    )


def test_what_a_negation_inside_of_a_negation_denies_is_open() -> None:
    """Without the least `e`, the next one is the least."""
    rules = ".decl e(x: number) .decl p(x: number) .decl q(x: number)\nq(x) :- p(x), !( e(y), !( e(z), z < y ) )."
    with sempre.Database(f"{rules}\ne(1). e(2). p(5).") as db:
        assert str(db.explain("q(5)", absent=True)).split("\n")[2:] == [
            "  holds    p(5)",
            "  open     !(e(y), !(e(z), z < y))",
            "           blocked by e(1); without that, others may block it",
        ]


def test_a_row_is_asked_for_as_it_is() -> None:
    """A list may be longer than a text may be deep; a branch is a plain tuple, as where rows come in."""
    rules = """
    .type List = [head: number, tail: List]
    .type Shape = Dot {} | Named {s: symbol, t: Shape}
    .decl given(l: List)
    .decl part(l: List)
    part(l) :- given(l).
    part(t) :- part([_, t]).
    .decl shape(t: Shape)
    """
    length = 1_000
    whole: Any = None
    for number in range(length):
        whole = (number, whole)
    with sempre.Database(rules) as db:
        db.apply(insert={"given": [(whole,)], "shape": [(("Named", "x", ("Dot",)),)]})
        proof = db["part"].explain((whole[1][1],))
        assert proof.height == 3
        assert len(json.loads(json.dumps(proof.to_json()))["nodes"]) == 4
        assert "part" in proof.to_html()
        with pytest.raises(sempre.StateError, match="nested too deeply to be checked"):
            proof.check()
        assert db["given"].explain((whole,)).height == 1
        short = next(row[0] for row in db["part"] if value_text(row[0]).count("[") == 150)  # more than JSON shows
        db.apply(insert={"given": [(short,)]}, delete={"given": [(whole,)]})
        assert db["part"].explain((short[1],)).check() == []
        assert db["shape"].explain((("Named", "x", ("Dot",)),)).height == 1
        assert db["part"].explain(((5, None),), absent=True).attempts
        with pytest.raises(sempre.StateError, match="does not hold"):
            db["part"].explain(((5, None),))
        with pytest.raises(sempre.DataError, match="a row has 2 values and the relation 1 columns"):
            db["part"].explain((1, 2))


def test_values_of_a_proof_that_share_their_ends_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof over a list of n elements has n facts with n lists in them: not n times n records are read."""
    rules = """
    .type List = [head: number, tail: List]
    .decl part(l: List)
    part(t) :- part([_, t]).
    """
    length = 60
    whole: Any = None
    for number in range(length):
        whole = (number, whole)
    read = 0
    original = Decoder._parts

    def counted(self: Decoder, *place: Any) -> Any:
        nonlocal read
        read += 1
        return original(self, *place)

    with sempre.Database(rules) as db:
        db.apply(insert={"part": [(whole,)]})
        monkeypatch.setattr(Decoder, "_parts", counted)
        proof = db.explain("part(nil)")
        assert isinstance(proof, Proof)
        assert len(proof.to_json()["nodes"]) == length + 1
    assert read <= 3 * length


def test_totals_by_branches_are_checked() -> None:
    rules = """
    .type Tree = Leaf {} | Two {l: Tree, r: Tree}
    .decl held(t: Tree, x: number)
    .decl size(t: Tree, n: number)
    size(t, count(x)) :- held(t, x).
    size($Two(t, t), count(x)) :- held(t, x).
    """
    leaf: Any = ("Leaf",)
    with sempre.Database(rules) as db:
        db.apply(insert={"held": [(leaf, 1), (leaf, 2), (("Two", leaf, leaf), 3)], "size": [(leaf, 7)]})
        assert sorted(n for _, n in db["size"]) == [1, 3, 3]
        for row in db["size"]:
            assert db["size"].explain(row).check() == []
