"""Programs as they are found in the wild, in the style of points-to analyses, network checks and tutorials."""

from __future__ import annotations

import pytest

from sempre.analysis.check import check
from sempre.lang.parser import parse
from sempre.lang.printer import to_text

ANDERSEN = """
/** Inclusion-based points-to analysis. */
.type Var <: symbol
.type Obj <: symbol
.type Field <: symbol
.decl new(v: Var, o: Obj) .input new
.decl assign(to: Var, from: Var)
.decl load(to: Var, base: Var, f: Field)
.decl store(base: Var, f: Field, from: Var)
.input assign, load, store(IO=file, delimiter="\\t")
.decl alias(x: Var, y: Var) output
.decl points(v: Var, o: Obj)
.output points(IO=stdout)
points(v, o) :- new(v, o).
points(v, o) :- assign(v, w), points(w, o).
points(v, o) :- load(v, b, f), store(c, f, w), alias(b, c), points(w, o).
    .plan 0:(3,1,2,4), 1:(4,2,1,3)
alias(x, y) :- points(x, o), points(y, o).
.printsize alias
"""

DOOP = """
.type Type
.type ReferenceType = ClassType | ArrayType
.type ClassType <: Type
.type ArrayType <: Type
.type Method = symbol
.type Heap = symbol
.type Context = [hd: Heap, tl: Context]
.decl ClassType_(?t: ClassType)
.decl isArray(?t: ArrayType)
.decl isRef(?t: ReferenceType)
isRef(?t) :- ClassType_(?t) ; isArray(?t).
.decl DirectSuperclass(?c: ClassType, ?p: ClassType)
.input DirectSuperclass(IO="file", filename="DirectSuperclass.facts", delimiter="\\t")
.decl Superclass(?c: Type, ?p: Type)
Superclass(?c, ?p) :- DirectSuperclass(?c, ?p).
Superclass(?c, ?p) :- Superclass(?c, ?t), DirectSuperclass(?t, ?p).
.decl Implemented(?m: Method, ?t: ClassType)
.decl Lookup(?m: Method, ?t: ClassType, ?at: ClassType)
Lookup(?m, ?t, ?t) :- Implemented(?m, ?t).
Lookup(?m, ?t, ?at) :- DirectSuperclass(?t, ?p), Lookup(?m, ?p, ?at), !Implemented(?m, ?t).
.decl Reach(?ctx: Context, ?m: Method)
Reach([h, nil], m) :- Call(_, h, m).
Reach([h, c], m) :- Reach(c, caller), Call(caller, h, m), c = [_, nil].
.decl Call(from: Method, at: Heap, to: Method)
.decl CallCount(m: Method, n: number)
CallCount(m, n) :- Call(m, _, _), n = count : { Call(m, _, _) }.
.decl Busiest(m: Method)
Busiest(m) :- CallCount(m, n), n = max k : { CallCount(_, k) }.
.output Superclass, Lookup, Reach, Busiest, isRef
"""

NETWORK = """
.decl link(@s: symbol, d: symbol, c: number)
.decl path(@s: symbol, d: symbol, via: symbol, c: number)
.decl best(@s: symbol, d: symbol, c: number)
path(@s, d, d, c) :- link(@s, d, c).
path(@s, d, z, c1 + c2) :- link(@s, z, c1), best(@z, d, c2), c1 + c2 < 16.
best(@s, d, min<c>) :- link(@s, d, c).
best(@s, d, min<c1 + c2>) :- link(@s, z, c1), best(@z, d, c2), c2 < 16.
.output best
"""

TUTORIAL = """
.number_type Id
.symbol_type Name
.decl person(id: Id, name: Name, born: unsigned, size: float)
person(1, "Ada", 1815u, 1.65). person(2, "Bob", 1900, 1.8).
.decl lt(x: number, y: number) inline
lt(x, y) :- x < y.
.decl pair(a: Name, b: Name, label: symbol)
pair(a, b, cat(a, cat("-", b))) :-
    person(i, a, _, _), person(j, b, y, _), lt(i, j), y >= 1800, !match("B.*", a), contains("o", b),
    strlen(a) = 3, substr(a, 0, 1) != "Z", (to_number("12") band 0x0F) > 0b11.
.decl total(n: float) total(sum s : { person(_, _, _, s) }).
.decl flag() brie
flag() :- total(t), t > 1e3.
.decl same(a: Id, b: Id) eqrel
same(a, b) :- person(a, _, y, _), person(b, _, y, _).
.output pair, total, flag, same
"""


@pytest.mark.parametrize("text", [ANDERSEN, DOOP, NETWORK, TUTORIAL], ids=["andersen", "doop", "network", "tutorial"])
def test_programs_are_accepted_and_print_back(text: str) -> None:
    program = parse(text)
    assert parse(to_text(program)) == program
    assert check(program, {}).strata


def test_components_are_written_out() -> None:
    text = """
    .comp Input { .decl new(v: symbol, h: symbol) .input new }
    .init base = Input
    .comp Analysis<Context> {
        .decl points(c: Context, v: symbol, h: symbol) overridable
        points(c, v, h) :- base.new(v, h), context(c).
        .decl context(c: Context)
    }
    .comp Insensitive : Analysis<symbol> { .override points  context("all"). }
    .init main = Insensitive
    .decl out(v: symbol) .output out
    out(v) :- main.points(_, v, _).
    """
    program = parse(text)
    assert parse(to_text(program)) == program
    checked = check(program, {})
    assert list(checked.relations) == ["base.new", "main.points", "main.context", "out"]
    assert [rule.text for rule in checked.rules] == ["out(v) :- main.points(_, v, _)."]
