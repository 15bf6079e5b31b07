"""Small checked programs, made without the parser."""

from __future__ import annotations

from collections.abc import Mapping

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


def relation(name: str, *columns: str, printsize: bool = False, **directives: Mapping[str, str]) -> Relation:
    """`relation("r", "x:number", input={}, output={"rfc4180": "true"})`."""
    names = tuple(column.split(":")[0] for column in columns)
    types = tuple(TYPES[column.split(":")[1]] for column in columns)

    def made(kind: str) -> tuple[Directive, ...]:
        return (Directive(kind, (name,), tuple(directives[kind].items()), SPAN),) if kind in directives else ()

    return Relation(name, names, types, inputs=made("input"), outputs=made("output"), printsize=printsize)


def program(*relations: Relation) -> CheckedProgram:
    return CheckedProgram({r.name: r for r in relations}, TYPES, (), (), (), {}, (), {})
