"""Rules without the names of their variables and the order of their literals: what two texts of one rule share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sempre.analysis.model import Call, Compare, Const, Fold, Match, NormalRule, Not, Unpack, Var

# Text that is the same for the same thing.
Normal = str


def normal_rule(rule: NormalRule) -> Normal:
    """A rule without the names of its variables and the order of its literals.

    Variables are told apart by where they stand. Those that this does not tell apart are exchangeable in all but very
    contrived rules; where they are not, two texts of one rule may have different forms, but never two rules one.
    """
    parts: list[Any] = [rule.args, *rule.body]
    inside = [frozenset(variables_in(part)) for part in parts]
    names = sorted(frozenset[str]().union(*inside))
    kind_of = {name: (rule.kinds[name].value if name in rule.kinds else "", rule.records.get(name)) for name in names}
    colors = _ranked({name: repr(kind) for name, kind in kind_of.items()})
    while True:
        shapes = {
            name: repr(
                (
                    colors[name],
                    sorted(shape_of(p, colors, name) for p, has in zip(parts, inside, strict=True) if name in has),
                )
            )
            for name in names
        }
        finer = _ranked(shapes)
        if len({*finer.values()}) == len({*colors.values()}):
            if len({*finer.values()}) == len(names):
                break
            tied = min(color for color in finer.values() if [*finer.values()].count(color) > 1)
            first = next(name for name in _in_order(rule) if finer[name] == tied)
            finer = {name: 2 * color + (name == first) for name, color in finer.items()}
        colors = finer
    head, *body = (shape_of(part, colors) for part in parts)
    kinds = [kind_of[name] for name in sorted(names, key=colors.__getitem__)]
    return repr((rule.relation, rule.deletes, head, sorted(body), kinds))


def _ranked(shapes: Mapping[str, str]) -> dict[str, int]:
    """Equal shapes as equal numbers, in their order."""
    ranks = {shape: rank for rank, shape in enumerate(sorted({*shapes.values()}))}
    return {name: ranks[shape] for name, shape in shapes.items()}


def _in_order(rule: NormalRule) -> Iterable[str]:
    for part in (rule.args, *rule.body):
        yield from variables_in(part)


def shape_of(part: Any, colors: Mapping[str, int], marked: str = "") -> str:
    """A literal, an expression or several, with the colors of variables for their names; one of them is marked."""

    def shape(part: Any) -> Any:
        match part:
            case Var(name):
                return ("the", colors[name]) if name == marked else colors[name]
            case Const(value, kind):
                return (kind.value, repr(value))
            case Call(op, args, kind, operand):
                return (op, kind.value, operand.value, shape(args))
            case Match(relation, args):
                return ("match", relation, shape(args))
            case Compare(op, left, right, kind):
                return ("compare", op, kind.value, shape(left), shape(right))
            case Unpack(record, fields):
                return ("unpack", shape(record), shape(fields))
            case Not(body, shared):
                return ("not", among(body), among(shared))
            case Fold(result, kind, expr, body, shared, operand):
                return ("fold", kind, operand.value, shape(result), shape(expr), among(body), among(shared))
            case tuple():
                return tuple(shape(each) for each in part)
        return None

    def among(parts: Iterable[Any]) -> list[str]:
        return sorted(repr(shape(each)) for each in parts)

    return repr(shape(part))


def variables_in(part: Any) -> Iterable[str]:
    """The variables in a literal, an expression or several, as often as they occur."""
    match part:
        case Var(name):
            yield name
        case Call(_, args) | Match(_, args):
            yield from variables_in(args)
        case Compare(_, left, right):
            yield from variables_in((left, right))
        case Unpack(record, fields):
            yield from variables_in((record, *fields))
        case Not(body, shared):
            yield from variables_in((*body, *shared))
        case Fold(result, _, expr, body, shared):
            yield from variables_in((result, expr, *body, *shared))
        case tuple():
            for each in part:
                yield from variables_in(each)
