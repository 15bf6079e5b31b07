"""Which column of a table is which column of a relation: by name, and by position only where that is asked for.

Two columns of one type that change places are a wrong state that nothing notices. So names decide, ignoring case where
that leaves no choice; columns that the relation lacks are left out only on request; and names that do not match are an
error with the select to write. Rows without names, and the names that tools make up for such, go by position.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

from sempre.analysis.model import Relation
from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, DataError, Diagnostic, Span

# What Spark calls the columns of tuples and of text; what polars and, made to text, pandas call theirs.
MADE_UP = (("_{}", 1), ("_c{}", 0), ("column_{}", 0), ("{}", 0))
# Names beyond this are not shown.
SHOWN_COLUMNS = 20


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """What was asked for: `places` of the columns or just `by_position`; else names, and whether `extra` ones may be.

    `requests` are the words for these two requests where the table comes from, for hints; empty if there are none.
    """

    places: tuple[int, ...] | None = None
    by_position: bool = False
    extra: bool = False
    requests: tuple[str, str] = ("", "")


BY_NAME = ColumnChoice()
# As the options of `.input` have it.
IN_DIRECTIVE = ("{places} in .input", "extra=ignore in .input")


@dataclass(frozen=True, slots=True)
class ColumnMatch:
    """The place in the table of every column of the relation, and whether its name decided that."""

    places: tuple[int, ...]
    by_name: bool


def matched(
    relation: Relation,
    names: Sequence[str],
    what: str,
    taking: ColumnChoice = BY_NAME,
    *,
    span: Span = NOWHERE,
    made_up: bool = True,
) -> ColumnMatch:
    """Where the columns of a relation are among `names`; raises `DataError` (E502) if that cannot be told.

    `what` names the table in the message. Without `made_up`, no names are taken for those that a tool has made up.
    """
    if taking.places is not None:
        _check_places(relation, names, what, taking.places, span)
        return ColumnMatch(taking.places, False)
    places = None if taking.by_position else named_places(relation.columns, names, extra=taking.extra)
    if places is not None:
        return ColumnMatch(places, True)
    if taking.by_position or (made_up and _are_made_up(names)):
        _check_width(relation, names, what, span)
        return ColumnMatch(tuple(range(len(names))), False)
    raise DataError(_mismatch(relation, names, what, taking, span))


def named_places(wanted: Sequence[str], names: Sequence[str], *, extra: bool = False) -> tuple[int, ...] | None:
    """The place of every wanted name; None if one is missing or could be several, or if there are others."""
    if not extra and len(names) != len(wanted):
        return None
    found = found_places(wanted, names)
    places = tuple(found[name] for name in wanted if name in found)
    return places if len(places) == len(wanted) else None


def found_places(wanted: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """The places of the names that are there once: as they are, else but for case."""
    times = Counter(names)
    found = {name: names.index(name) for name in wanted if times[name] == 1}
    left = [name for name in wanted if not times[name]]
    folded = Counter(name.casefold() for name in left)
    others = [(place, name.casefold()) for place, name in enumerate(names) if name not in wanted]
    spelled = Counter(name for _, name in others)
    places = {name: place for place, name in others if spelled[name] == 1}
    for name in left:
        key = name.casefold()
        if folded[key] == 1 and key in places:
            found[name] = places[key]
    return found


def _are_made_up(names: Sequence[str]) -> bool:
    called = [[pattern.format(at) for at in range(first, first + len(names))] for pattern, first in MADE_UP]
    return bool(names) and list(names) in called


def _check_places(relation: Relation, names: Sequence[str], what: str, places: tuple[int, ...], span: Span) -> None:
    if max(places, default=-1) >= len(names):
        message = f"relation `{relation.name}` takes column {max(places)}, counted from 0; {what} has {len(names)}"
        raise DataError(Diagnostic("E502", message, span, detail=_listed(names)))


def _check_width(relation: Relation, names: Sequence[str], what: str, span: Span) -> None:
    if len(names) != relation.arity:
        message = f"relation `{relation.name}` has {relation.arity} columns, {what} has {len(names)}"
        raise DataError(Diagnostic("E502", message, span, detail=_listed(names)))


def _listed(names: Sequence[str]) -> str:
    return f"the columns are {_shown(names)}" if names else ""


def _mismatch(relation: Relation, names: Sequence[str], what: str, taking: ColumnChoice, span: Span) -> Diagnostic:
    """What is wrong with the names, and the select that would make them right."""
    found = found_places(relation.columns, names)
    missing = [name for name in relation.columns if name not in found]
    taken = set(found.values())
    others = [name for place, name in enumerate(names) if place not in taken]
    message = f"relation `{relation.name}` has the columns {_shown(relation.columns)}; {what} has {_shown(names)}"
    if not missing:
        detail = f"the relation has no {_shown(others)}"
        hint = f"Select {', '.join(_selected(name, names[found[name]]) for name in relation.columns[:SHOWN_COLUMNS])}"
        return Diagnostic("E502", message, span, detail=detail, hint=_with_request(hint, taking.requests[1]))
    twice = [name for name, times in Counter(name.casefold() for name in names).items() if times > 1]
    ambiguous = [name for name in missing if name.casefold() in twice]
    detail = f"not found: {_shown(missing)}" + (f"; more than one is called {_shown(ambiguous)}" if ambiguous else "")
    guesses = _guesses(missing, [] if ambiguous else others)
    parts = [
        _selected(name, names[found[name]] if name in found else guesses.get(name, "..."))
        for name in relation.columns[:SHOWN_COLUMNS]
    ]
    hint = f"Say which is which: select {', '.join(parts)}"
    places = f"columns={':'.join(map(str, range(relation.arity)))}"
    request = taking.requests[0].format(places=places) if len(names) >= relation.arity else ""
    return Diagnostic(
        "E502", message, span, detail=detail, hint=_with_request(hint, request, "takes them as they come")
    )


def _guesses(missing: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """A name for each that is missing: the nearest one, else what is left, in order."""
    left = list(dict.fromkeys(others))
    guesses: dict[str, str] = {}
    for name in missing:
        near = difflib.get_close_matches(name.casefold(), [each.casefold() for each in left], 1)
        if near:
            guesses[name] = next(each for each in left if each.casefold() == near[0])
            left.remove(guesses[name])
    rest = [name for name in missing if name not in guesses]
    return guesses | dict(zip(rest, left, strict=False))


def _selected(name: str, source: str) -> str:
    return name if name == source else f"{_quoted(source)} as {name}"


def _quoted(name: str) -> str:
    return name if name.isidentifier() or name == "..." else f"`{name}`"


def _with_request(hint: str, request: str, does: str = "leaves the others out") -> str:
    return f"{hint}; {request} {does}." if request else f"{hint}."


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_COLUMNS} more" if len(names) > SHOWN_COLUMNS else ""
    return ", ".join(names[:SHOWN_COLUMNS]) + more if names else "none"
