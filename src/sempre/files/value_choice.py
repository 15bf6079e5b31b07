"""What becomes of values that a relation has no place for: nulls and decimals, where the user has said it.

Nothing is filled in or rounded that was not asked for. A decimal with a declared scale is a number of units: with
`decimals="price=2"`, 1.25 is 125, and 1.255 is an error. One that goes to a column of floats is the nearest float.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import pyarrow as pa

from sempre.analysis.model import Kind, Relation
from sempre.data import dataclass
from sempre.files.columns import ARROW_TYPES, RANGES

Value = int | float | str
MOST_SCALE = 18
WORDS = ("drop", "error")


@dataclass(frozen=True, slots=True)
class ValueChoice:
    """For the columns of a relation: what nulls become, and how many places after the point decimals have.

    `drop_nulls` leaves out rows that have a null. A scale of None stands for floats.
    """

    drop_nulls: bool = False
    fills: tuple[tuple[str, Value], ...] = ()
    scales: tuple[tuple[str, int | None], ...] = ()

    def fill(self, name: str) -> Value | None:
        """What a null in a column becomes; None where it is an error."""
        return next((value for column, value in self.fills if column == name), None)

    def takes_decimals(self, name: str) -> bool:
        return any(column == name for column, _ in self.scales)

    def scale(self, name: str) -> int | None:
        """How many places after the point the numbers of a column stand for."""
        return next((scale for column, scale in self.scales if column == name), None)


AS_THEY_ARE = ValueChoice()


class BadChoice(ValueError):
    """Why a choice does not fit a relation, and after a line break what to write."""


def value_choice(
    relation: Relation,
    nulls: str | int | float | Mapping[str, Value] | None,
    decimals: str | Mapping[str, int | str] | None,
) -> ValueChoice:
    """What was asked for; in texts, `x=0,y=unknown` goes by columns. Raises `BadChoice`."""
    if isinstance(nulls, str) and nulls not in WORDS and difflib.get_close_matches(nulls.lower(), WORDS, cutoff=0.75):
        hint = f'Write drop or error; if the text is meant: nulls="{relation.columns[0]}={nulls}".'
        raise BadChoice(f"`nulls={nulls}` is unknown\n{hint}")
    drop = nulls == "drop"
    fills = () if drop or nulls in (None, "error") else _fills(relation, nulls)
    return ValueChoice(drop, fills, _scales(relation, decimals) if decimals else ())


def _fills(relation: Relation, nulls: str | int | float | Mapping[str, Value] | None) -> tuple[tuple[str, Value], ...]:
    if isinstance(nulls, Mapping):
        return _fills_by_column(relation, nulls)
    by_column = _by_column(relation, nulls) if isinstance(nulls, str) else None
    if by_column is not None:
        return _fills_by_column(relation, by_column)
    found = []
    for name, kind in zip(relation.columns, relation.kinds, strict=True):
        try:
            found.append((name, _of_kind(nulls, kind, name)))
        except BadChoice:
            continue  # nulls there are errors, as ever
    if not found:
        kinds = ", ".join(f"{name}: {kind.value}" for name, kind in zip(relation.columns, relation.kinds, strict=True))
        raise BadChoice(f"`nulls={nulls}` fits no column of relation `{relation.name}`\nIt has {kinds}.")
    return tuple(found)


def _fills_by_column(relation: Relation, given: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    _check_columns(relation, given, "nulls")
    pairs = [(name, given[name]) for name in relation.columns if name in given]
    return tuple((name, _of_kind(value, _kind(relation, name), name)) for name, value in pairs)


def _kind(relation: Relation, name: str) -> Kind:
    return relation.kinds[relation.columns.index(name)]


def _by_column(relation: Relation, text: str) -> dict[str, str] | None:
    """`x=0,y=unknown` as a dictionary; None if the text does not begin with the name of a column."""
    if text.partition("=")[0].strip() not in relation.columns or "=" not in text:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    return {name.strip(): value for name, _, value in pairs}


def _check_columns(relation: Relation, given: Mapping[str, object], option: str) -> None:
    for name in given:
        if name not in relation.columns:
            has = ", ".join(relation.columns)
            raise BadChoice(f"`{option}`: relation `{relation.name}` has no column `{name}`\nIt has {has}.")


def _of_kind(value: Value | None, kind: Kind, name: str) -> Value:
    """A value for the nulls of a column."""
    wrong = BadChoice(f"`nulls`: `{value}` is no {kind.value}, which column `{name}` holds\nGive a {kind.value}.")
    try:
        if kind in RANGES and not isinstance(value, bool | float):
            number = int(value)  # type: ignore[arg-type]  # what is no number is an error
            if RANGES[kind][0] <= number <= RANGES[kind][1]:
                return number
        elif kind is Kind.FLOAT and not isinstance(value, bool):
            return float(value)  # type: ignore[arg-type]
        elif kind in (Kind.SYMBOL, Kind.RECORD) and isinstance(value, str):
            return value
    except (TypeError, ValueError):
        pass
    raise wrong


def _scales(relation: Relation, decimals: str | Mapping[str, int | str]) -> tuple[tuple[str, int | None], ...]:
    floats = [name for name, kind in zip(relation.columns, relation.kinds, strict=True) if kind is Kind.FLOAT]
    if decimals == "float" and floats:
        return tuple((name, None) for name in floats)
    given = decimals if isinstance(decimals, Mapping) else _by_column(relation, decimals)
    if given is None:
        hint = (
            'Write decimals="price=2" for hundredths in a column of numbers, or decimals=float for columns of floats.'
        )
        raise BadChoice(f"`decimals={decimals}` does not say which column of `{relation.name}` is meant\n{hint}")
    _check_columns(relation, given, "decimals")
    return tuple((name, _scale(_kind(relation, name), name, value)) for name, value in given.items())


def _scale(kind: Kind, name: str, value: int | str) -> int | None:
    text = str(value).strip()
    if kind is Kind.FLOAT and text == "float":
        return None
    if kind in RANGES and text.isascii() and text.isdigit() and int(text) <= MOST_SCALE:
        return int(text)
    hint = f"A column of numbers takes a scale from 0 to {MOST_SCALE}, a column of floats takes `float`."
    raise BadChoice(f"`decimals`: `{text}` is no scale for column `{name}`, which holds a {kind.value}\n{hint}")


# -------------------------------------------------------------------------------------------------------- columns


def filled(column: pa.ChunkedArray, kind: Kind, fill: Value | None) -> pa.ChunkedArray:
    """A column of a relation's type with a value in the place of nulls."""
    if fill is None or not column.null_count:
        return column
    return column.fill_null(pa.scalar(fill, ARROW_TYPES[kind]))


def unscaled(scale: int) -> tuple[str, str, str]:
    """What is wrong with decimals that are no units: code, message and hint."""
    hint = "Declare a larger scale, or round where the table is written; a number has at most 18 digits."
    return "E504", f"a decimal has more than {scale} places after the point, or is out of range", hint


def scaled(column: pa.ChunkedArray, kind: Kind, scale: int) -> pa.ChunkedArray:
    """Decimals as whole numbers of units; raises `pa.ArrowInvalid` for those that are none, and beyond the range."""
    exact = column.cast(pa.decimal128(38, scale))  # raises where places would be lost
    bare = [
        pa.Array.from_buffers(pa.decimal128(38, 0), len(chunk), chunk.buffers(), offset=chunk.offset)
        for chunk in exact.chunks
    ]
    return pa.chunked_array(bare, pa.decimal128(38, 0)).cast(ARROW_TYPES[kind])
