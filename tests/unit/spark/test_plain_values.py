"""Plain values of DataFrames, and the kernel's steps over them: no session is needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sempre
from sempre.analysis.model import Call, Const, Kind, Type, Unpack, Var
from sempre.ingest import encode_rows
from sempre.kernel.values import Values
from sempre.plan.ops import Step, TakeApart
from sempre.rewrites.equivalences import close_equivalences
from sempre.spark.cluster.column_types import (
    RecordShape,
    arrow_type,
    form_of,
    from_arrow,
    kinds_in,
    kinds_of,
    plain,
    table_of,
    to_arrow,
)  # fmt: skip
from sempre.spark.cluster.compute import KernelSteps, looked_into
from sempre.spark.cluster.crossing import OneText

PROGRAM = sempre.Program("""
.type Name <: symbol
.type Pair = [name: Name, at: float]
.type List = [item: Pair, rest: List]
.type Alias = List
.decl e(n: number, u: unsigned, f: float, s: Name, p: Pair, l: Alias)
.decl h(l: List)
.decl same(x: Pair, y: Pair) eqrel
h([p, l]) :- e(_, _, _, _, p, l), q = as(["", 0.0], Pair), p != q, !h2(l), z = nil, z = nil.
h(t) :- h([[_, _], t]).
.decl h2(l: List)
""").checked
ROWS = [
    (1, 2**64 - 1, math.nan, "a", ("a", 1.5), None),
    (-1, 0, -0.0, "", None, (("ü,", math.inf), ((" ", -0.0), None))),
    (-1, 0, 0.0, "", None, (("ü,", math.inf), (None, None))),
    (1, 2**64 - 1, math.nan, "a", ("a", 1.5), None),
]


def test_columns_of_every_type_cross_between_tables_of_codes() -> None:
    relation, ours, theirs = PROGRAM.relations["e"], Values(), Values()
    theirs.symbols.encode(["z", "y", "x"])
    columns, size = encode_rows(relation, ROWS, ours, PROGRAM.types)
    kinds = kinds_of(relation, PROGRAM.types)
    table = table_of(ours, columns, size, kinds, relation.arity)
    assert table.schema.types == [arrow_type(form) for form in kinds]
    there = [from_arrow(theirs, table.column(at), form) for at, form in enumerate(kinds)]
    for column, other, form, name in zip(columns, there, kinds, relation.columns, strict=True):
        assert [column.tolist().index(code) for code in column] == [other.tolist().index(code) for code in other], name
        assert to_arrow(theirs, other, form).to_pylist()[1:3] == to_arrow(ours, column, form).to_pylist()[1:3], name
    assert table.column("c5").to_pylist()[1:3] == ['[["ü,", inf], [[" ", 0.0], nil]]', '[["ü,", inf], [nil, nil]]']


def test_no_rows_are_no_codes() -> None:
    for form in kinds_of(PROGRAM.relations["e"], PROGRAM.types):
        empty = to_arrow(Values(), np.empty(0, np.int64), form)
        assert empty.type == arrow_type(form)
        assert from_arrow(Values(), empty, form).size == 0
        assert from_arrow(Values(), pa.chunked_array([], arrow_type(form)), form).size == 0


def test_codes_of_records_without_a_type_are_refused() -> None:
    with pytest.raises(AssertionError, match="shape"):
        to_arrow(Values(), np.zeros(1, np.int64), Kind.RECORD)
    with pytest.raises(AssertionError, match="shape"):
        from_arrow(Values(), pa.array(["nil"]), Kind.RECORD)


def test_rules_know_the_types_of_their_records() -> None:
    def names(rule: Any) -> dict[str, str]:
        forms = kinds_in(rule, PROGRAM.types)
        assert set(forms) == set(rule.kinds)
        return {var: form.type.name for var, form in forms.items() if isinstance(form, RecordShape)}

    first, second = PROGRAM.rules[:2]
    assert {var: name for var, name in names(first).items() if var in "plqz"} == {
        "p": "Pair", "l": "List", "q": "Pair", "z": "nil",
    }  # fmt: skip
    assert names(second)["t"] == "List"
    assert sorted(names(second).values()) == ["List", "List", "Pair"]
    for rule in close_equivalences(PROGRAM).rules:
        assert {var for var, kind in rule.kinds.items() if kind is Kind.RECORD} == set(rule.records)


def test_nil_is_a_constant() -> None:
    assert plain(Const(None, Kind.RECORD)) == "nil"
    assert to_arrow(Values(), np.zeros(1, np.int64), RecordShape(Type("nil", Kind.RECORD), {})).to_pylist() == ["nil"]


# ---------------------------------------------------------------------------------------------------- in a task


def test_steps_take_records_apart_and_build_them() -> None:
    pair, list_ = (form_of(PROGRAM.types[name], PROGRAM.types) for name in ("Pair", "List"))
    steps: tuple[Step, ...] = (
        TakeApart(Unpack(Var("l"), (Var("p"), Var("t"))), frozenset("pt"), frozenset("lptx")),
        TakeApart(Unpack(Var("p"), (Var("n"), Const(1.5, Kind.FLOAT))), frozenset("n"), frozenset("lptnx")),
    )
    longer = Call("record", (Var("p"), Var("l")), Kind.RECORD, Kind.RECORD)
    # Nobody looks into `x`: a text is as good as any.
    assert looked_into(steps, [longer]) == frozenset("lptn")
    run = KernelSteps(
        0,
        steps,
        (("l", "v0", list_), ("x", "v1", Kind.SYMBOL)),
        (("n", "v2", Kind.SYMBOL), ("p", "v3", pair), ("t", "v4", list_), ("x", "v1", Kind.SYMBOL)),
        ((longer, "c0", list_),),
    )
    texts = ["[[b, 1.5], [[a, 2.0], nil]]", "nil", "[[a, 2.0], nil]", '[["", 1.5], nil]']
    batch = pa.RecordBatch.from_arrays([pa.array(texts), pa.array(["[kept", "w", "x", "too"])], names=["v0", "v1"])
    (found,) = run(iter([batch]))
    assert found.to_pydict() == {
        "v2": ["b", ""],
        "v3": ["[b, 1.5]", '["", 1.5]'],
        "v4": ["[[a, 2.0], nil]", "nil"],
        "v1": ["[kept", "too"],
        "c0": ["[[b, 1.5], [[b, 1.5], [[a, 2.0], nil]]]", '[["", 1.5], [["", 1.5], nil]]'],
    }


def test_texts_get_one_spelling_and_say_what_is_wrong_with_them() -> None:
    run = OneText((Kind.NUMBER, form_of(PROGRAM.types["Pair"], PROGRAM.types)))
    texts = ["[ a,-0]", '["a", 0.0]', None, "[a, b]", "nil", "[a, -nan]"]
    batch = pa.RecordBatch.from_arrays([pa.array(range(6)), pa.array(texts, pa.string())], names=["c0", "c1"])
    (found,) = run(iter([batch]))
    assert found.to_pydict() == {
        "c0": list(range(6)),
        "c1": ["[a, 0.0]", "[a, 0.0]", None, None, "nil", "[a, nan]"],
        "why_c1": [None, None, None, "`b` is not a float", None, None],
    }
