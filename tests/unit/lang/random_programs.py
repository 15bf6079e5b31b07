"""Hypothesis strategies for syntax trees: everything the grammar can produce, in the form the parser gives it."""

from __future__ import annotations

from hypothesis import strategies as st

from sempre.lang import syntax as s
from sempre.lang.operators import AGGREGATES, COMPARISONS, HEAD_AGGREGATES, PRECEDENCE

names = st.sampled_from(["a", "b", "edge", "x1", "?q", "Foo", "input", "count", "_u"])
dotted = st.sampled_from(["a", "edge", "g.edge", "g.h.e"])
types = st.sampled_from(["number", "symbol", "float", "T", "c.T"])
strings = st.text(max_size=8)

literals = st.one_of(
    st.sampled_from(["x", "y", "z", "Y2"]).map(s.Variable),
    st.just(s.Wildcard()),
    st.just(s.Nil()),
    st.just(s.Counter()),
    st.integers(-(10**20), 10**20).map(s.Number),
    st.integers(0, 10**20).map(s.Unsigned),
    st.floats(allow_nan=False).map(s.Float),
    strings.map(s.String),
)


def _calls(terms: st.SearchStrategy[s.Term]) -> st.SearchStrategy[s.Term]:
    many = st.lists(terms, max_size=3).map(tuple)
    several = st.lists(terms, min_size=2, max_size=3).map(tuple)
    binary = st.sampled_from(sorted(PRECEDENCE))
    return st.one_of(
        st.builds(s.Apply, binary, st.tuples(terms, terms)),
        st.builds(s.Apply, st.sampled_from(["neg", "bnot", "lnot"]), st.tuples(terms)),
        st.builds(s.Apply, st.sampled_from(["cat", "strlen", "max", "foo"]), several),
        st.builds(s.UserCall, st.sampled_from(["f", "g"]), many),
        st.builds(s.Record, many),
        st.builds(s.Branch, st.sampled_from(["A", "B"]), many),
        st.builds(s.Cast, terms, types),
        st.builds(_aggregate, st.sampled_from((*AGGREGATES, "@f")), terms, st.deferred(lambda: formulas)),
    )  # fmt: skip


def _aggregate(kind: str, term: s.Term, body: s.Formula) -> s.Aggregate:
    return s.Aggregate(kind, None if kind == "count" else term, body)


terms: st.SearchStrategy[s.Term] = st.recursive(literals, _calls, max_leaves=8)


@st.composite
def atoms(draw: st.DrawFn, head: bool = False) -> s.Atom:
    """An atom; in a head, arguments may be aggregates."""
    aggregates = st.builds(s.HeadAggregate, st.sampled_from(HEAD_AGGREGATES), terms)
    args = draw(st.lists(st.one_of(terms, aggregates) if head else terms, max_size=3))
    plain = [index for index, arg in enumerate(args) if not isinstance(arg, s.HeadAggregate)]
    location = draw(st.one_of(st.none(), st.sampled_from(plain))) if plain else None
    return s.Atom(draw(dotted), tuple(args), location)


comparisons = st.builds(s.Comparison, st.sampled_from([*COMPARISONS, "match", "contains"]), terms, terms)
simple = st.one_of(atoms(), comparisons, st.booleans().map(s.Truth))


def _compound(formulas_: st.SearchStrategy[s.Formula]) -> st.SearchStrategy[s.Formula]:
    parts = st.lists(formulas_, min_size=2, max_size=3)
    return st.one_of(formulas_.map(s.Negation), parts.map(s.conjunction), parts.map(s.disjunction))


formulas: st.SearchStrategy[s.Formula] = st.recursive(simple, _compound, max_leaves=5)

plans = st.one_of(
    st.just(()), st.just(((0, (1, 2)),)), st.just(((0, (2, 1)), (1, ())))
)  # fmt: skip
heads = st.builds(s.Head, atoms(head=True), st.booleans())
rules = st.builds(s.Rule, st.lists(heads, min_size=1, max_size=2).map(tuple), formulas, plans)
facts = st.builds(s.Rule, st.tuples(heads))
subsumptions = st.builds(s.Subsumption, atoms(head=True), atoms(head=True), formulas, plans)

attributes = st.builds(s.Attribute, names, types, st.booleans())
fields = st.builds(s.Attribute, names, types)
field_lists = st.lists(fields, max_size=2).map(tuple)
declarations = st.builds(
    s.RelationDecl,
    names,
    st.lists(attributes, max_size=3).map(tuple),
    st.lists(st.sampled_from(["inline", "eqrel", "btree", "input"]), max_size=2).map(tuple),
    st.sampled_from([(), (("x",),), (("x",), ("x", "y"))]),
)
definitions = st.one_of(
    st.builds(s.Subtype, types),
    st.builds(s.Union, st.lists(types, min_size=1, max_size=3).map(tuple)),
    st.builds(s.RecordType, field_lists),
    st.builds(s.AlgebraicType, st.lists(st.tuples(names, field_lists), min_size=1, max_size=2).map(tuple)),
)
directives = st.builds(
    s.Directive,
    st.sampled_from(["input", "output", "printsize", "limitsize"]),
    st.lists(dotted, min_size=1, max_size=2).map(tuple),
    st.lists(st.tuples(names, strings), max_size=2).map(tuple),
)
component_types = st.builds(s.ComponentType, st.sampled_from(["C", "D"]), st.lists(types, max_size=2).map(tuple))
parameters = st.lists(st.one_of(fields, types.map(lambda name: s.Attribute("", name))), max_size=2).map(tuple)
flat_items = st.one_of(
    rules,
    facts,
    subsumptions,
    declarations,
    st.builds(s.TypeDecl, names, definitions),
    directives,
    st.builds(s.Pragma, strings, strings),
    st.builds(s.FunctorDecl, names, parameters, types, st.booleans()),
    st.builds(s.FunctorDecl, names, parameters, types, aggregates=st.just(True)),
    st.builds(s.Instantiation, names, component_types),
)  # fmt: skip
components = st.builds(
    s.Component,
    component_types,
    st.lists(component_types, max_size=2).map(tuple),
    st.lists(flat_items, max_size=2).map(tuple),
    st.lists(names, max_size=1).map(tuple),
)
programs = st.lists(st.one_of(flat_items, components), max_size=4).map(lambda items: s.ParsedProgram(tuple(items)))
