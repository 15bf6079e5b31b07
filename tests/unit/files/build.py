"""Small checked programs, made without the parser."""

from __future__ import annotations

from sempre.analysis.model import CheckedProgram, Kind, Relation, Type
from sempre.diagnostics import Span
from sempre.lang.syntax import Directive

TYPES = {
    "number": Type("number", Kind.NUMBER),
    "unsigned": Type("unsigned", Kind.UNSIGNED),
    "float": Type("float", Kind.FLOAT),
    "symbol": Type("symbol", Kind.SYMBOL),
    "List": Type("List", Kind.RECORD, (("head", "number"), ("tail", "List"))),
    "Pair": Type("Pair", Kind.RECORD, (("key", "symbol"), ("weight", "float"))),
}
SPAN = Span("p.dl", 1, 1, 1, 10)


def relation(name: str, *columns: str, **directives: object) -> Relation:
    """`relation("r", "x:number", input={}, output={"rfc4180": "true"})`."""
    names = tuple(column.split(":")[0] for column in columns)
    types = tuple(TYPES[column.split(":")[1]] for column in columns)
    made = {
        f"{kind}s": (Directive(kind, (name,), tuple(dict(directives[kind]).items()), SPAN),)  # type: ignore[call-overload]
        for kind in ("input", "output")
        if kind in directives
    }
    return Relation(name, names, types, printsize=bool(directives.get("printsize")), **made)


def program(*relations: Relation) -> CheckedProgram:
    return CheckedProgram({r.name: r for r in relations}, TYPES, (), (), (), {}, (), {})
