"""The built-in functors: how many arguments each takes, of which kinds, and what it gives."""

from __future__ import annotations

from sempre.analysis.model import Kind
from sempre.data import dataclass

ANY = frozenset(Kind)
NUMERIC = frozenset({Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT})
INTEGRAL = frozenset({Kind.NUMBER, Kind.UNSIGNED})
SCALAR = NUMERIC | {Kind.SYMBOL}

ANY_NUMBER = 1 << 30


@dataclass(frozen=True, slots=True)
class Functor:
    """What a functor takes and gives.

    With `same`, all arguments and the result are of one kind out of that set. Otherwise `parameters` gives the kinds
    each argument may have, the last one repeating, and `result` the kind of the result.
    """

    least: int
    most: int
    same: frozenset[Kind] = frozenset()
    parameters: tuple[frozenset[Kind], ...] = ()
    result: Kind | None = None

    def parameter(self, index: int) -> frozenset[Kind]:
        return self.parameters[min(index, len(self.parameters) - 1)]

    def takes(self) -> str:
        """The number of arguments, in words."""
        if self.least == self.most:
            return f"{self.least} argument{'s' if self.least != 1 else ''}"
        if self.most < ANY_NUMBER:
            return f"{self.least} to {self.most} arguments"
        return f"at least {self.least} arguments"


def _same(count: int, kinds: frozenset[Kind], most: int | None = None) -> Functor:
    return Functor(count, most or count, same=kinds)


def _maps(result: Kind, *parameters: frozenset[Kind]) -> Functor:
    return Functor(len(parameters), len(parameters), parameters=parameters, result=result)


_NUMBER = frozenset({Kind.NUMBER})
_UNSIGNED = frozenset({Kind.UNSIGNED})
_FLOAT = frozenset({Kind.FLOAT})
_SYMBOL = frozenset({Kind.SYMBOL})
_RECORD = frozenset({Kind.RECORD})

FUNCTORS: dict[str, Functor] = {
    "+": _same(2, SCALAR),  # of symbols it is `cat`
    **{name: _same(2, NUMERIC) for name in ("-", "*", "/", "^")},
    **{name: _same(2, INTEGRAL) for name in ("%", "band", "bor", "bxor", "bshl", "bshr", "bshru")},
    **{name: _same(2, INTEGRAL) for name in ("land", "lor", "lxor")},
    "neg": _same(1, frozenset({Kind.NUMBER, Kind.FLOAT})),
    "bnot": _same(1, INTEGRAL),
    "lnot": _same(1, INTEGRAL),
    "range": _same(2, NUMERIC, 3),  # gives each number between its bounds; never part of another term, see `lifting`
    "max": _same(2, SCALAR, ANY_NUMBER),
    "min": _same(2, SCALAR, ANY_NUMBER),
    "cat": Functor(2, ANY_NUMBER, parameters=(_SYMBOL,), result=Kind.SYMBOL),
    "strlen": _maps(Kind.NUMBER, _SYMBOL),
    "substr": _maps(Kind.SYMBOL, _SYMBOL, _NUMBER, _NUMBER),
    "ord": _maps(Kind.NUMBER, _SYMBOL),
    "to_number": _maps(Kind.NUMBER, SCALAR),
    "to_unsigned": _maps(Kind.UNSIGNED, SCALAR),
    "to_float": _maps(Kind.FLOAT, SCALAR),
    "to_string": _maps(Kind.SYMBOL, SCALAR),
    "itof": _maps(Kind.FLOAT, _NUMBER),
    "itou": _maps(Kind.UNSIGNED, _NUMBER),
    "ftoi": _maps(Kind.NUMBER, _FLOAT),
    "ftou": _maps(Kind.UNSIGNED, _FLOAT),
    "utof": _maps(Kind.FLOAT, _UNSIGNED),
    "utoi": _maps(Kind.NUMBER, _UNSIGNED),
    "f_init": Functor(1, ANY_NUMBER, parameters=(ANY,), result=Kind.RECORD),  # the parser turns these two into records,
    "f_concat": _maps(Kind.RECORD, ANY, _RECORD),  # so that only wrong uses are left
    "f_member": _maps(Kind.NUMBER, _RECORD, ANY),
    "f_inPath": _maps(Kind.NUMBER, _RECORD, ANY),
    "f_size": _maps(Kind.NUMBER, _RECORD),
    "f_first": Functor(1, 1, parameters=(_RECORD,)),
    "f_last": Functor(1, 1, parameters=(_RECORD,)),
}  # fmt: skip

# Functors of lists, which are records of an element and the rest; where the element stands: an argument, or (-1) the
# result.
LIST_ELEMENT: dict[str, int | None] = {"f_member": 1, "f_inPath": 1, "f_first": -1, "f_last": -1, "f_size": None}

# What the operands of a comparison may be; both are of one kind.
COMPARABLE: dict[str, frozenset[Kind]] = {
    "=": ANY, "!=": ANY,
    "<": SCALAR, "<=": SCALAR, ">": SCALAR, ">=": SCALAR,
    "match": _SYMBOL, "contains": _SYMBOL, "not_match": _SYMBOL, "not_contains": _SYMBOL,
}  # fmt: skip

OPPOSITE: dict[str, str] = {
    "=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
    "match": "not_match", "contains": "not_contains", "not_match": "match", "not_contains": "contains",
}  # fmt: skip

# What an aggregate may be taken of; `sum`, `min` and `max` give the same kind back.
AGGREGABLE: dict[str, frozenset[Kind]] = {"count": ANY, "sum": NUMERIC, "min": SCALAR, "max": SCALAR, "mean": NUMERIC}
AGGREGATE_RESULT: dict[str, Kind] = {"count": Kind.NUMBER, "mean": Kind.FLOAT}
