"""Dates and instants as numbers: days, and microseconds since 1970.

A subtype of `number` called `date`, `timestamp` or `timestamp_ntz`, or below one so called, says which of them its
numbers are, and they come out as what they went in as. What would become another day or another hour on its way is
refused: a date has no hour, an instant no day without a time zone, and the time that a clock shows is no instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sempre.analysis.model import Kind, Type

DATE, INSTANT, CLOCK = "date", "timestamp", "timestamp_ntz"
RESTORED = (DATE, INSTANT, CLOCK)
WORDS = {DATE: "a date", INSTANT: "an instant", CLOCK: "a time without a zone"}


class Unsuited(ValueError):
    """Why a column cannot be what its type says; `hint` has the way out."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def restored_type(type_: Type, types: Mapping[str, Type]) -> str:
    """`date`, `timestamp` or `timestamp_ntz` if the declared type is called that, or is below one; else nothing."""
    if type_.kind is not Kind.NUMBER:
        return ""
    while type_.base:
        if type_.name.lower() in RESTORED:
            return type_.name.lower()
        type_ = types[type_.base]
    return ""


def check_suited(given: str, type_: Type, types: Mapping[str, Type], casts: Mapping[str, str]) -> None:
    """Raise if a column that is a `given` one of `RESTORED` is declared as another; `casts` has what to write."""
    wanted = restored_type(type_, types)
    if not wanted or wanted == given:
        return
    message = f"{WORDS[given]} cannot be read as `{type_.name}`, which is {WORDS[wanted]}"
    hint = f"Write {casts[wanted]}" if wanted in casts else ""
    declared = f"declare the column as a type called `{given}`, or as a number."
    raise Unsuited(message, f"{hint}, or {declared}" if hint else declared[0].upper() + declared[1:])


ARROW_CASTS = {
    DATE: "a cast to date32, of the day that is meant",
    INSTANT: "a cast to timestamp with a zone (tz_localize in pandas)",
    CLOCK: "a cast to timestamp without a zone (tz_localize(None) in pandas)",
}


def whole_numbers(data: Any, type_: Type, types: Mapping[str, Type]) -> Any:
    """An Arrow column of integers, booleans, dates or instants as integers; None if it is something else."""
    import pyarrow as pa

    given = data.type
    if pa.types.is_boolean(given):
        return data.cast(pa.int8())
    if pa.types.is_integer(given):
        return data
    if pa.types.is_date(given):
        check_suited(DATE, type_, types, ARROW_CASTS)
        return data.cast(pa.date32()).cast(pa.int32())
    if pa.types.is_timestamp(given):
        check_suited(CLOCK if given.tz is None else INSTANT, type_, types, ARROW_CASTS)
        try:
            return data.cast(pa.timestamp("us", given.tz)).cast(pa.int64())
        except pa.ArrowInvalid:
            hint = 'Round them to microseconds, for example with dt.floor("us").'
            raise Unsuited("instants are kept in microseconds, and some do not fit", hint) from None
    return None
