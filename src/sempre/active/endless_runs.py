"""Runs that do not end, told to the user: what repeats or what keeps growing, and what to do about it."""

from __future__ import annotations

from sempre.active.inference import Endless
from sempre.active.timeline import Timeline, clock
from sempre.analysis.model import CheckedProgram
from sempre.diagnostics import NOWHERE, DataError, Diagnostic
from sempre.plan.backend import Rows
from sempre.results import Decoder

# Facts that a message shows.
SHOWN_CHANGES = 5


def report(program: CheckedProgram, decoder: Decoder, found: Endless) -> DataError:
    """The error for a run that came back to an earlier database, or did too many cycles."""
    diagnostic = _oscillation(program, decoder, found) if found.period else _runaway(program, decoder, found)
    return DataError(diagnostic, program.sources)


def _oscillation(program: CheckedProgram, decoder: Decoder, found: Endless) -> Diagnostic:
    first, last = (clock(found.stratum, number) for number in (found.first + 1, found.last))
    facts, relations = [], []
    total = 0
    for name, chain in found.timeline.chains.items():
        rows = chain.flipped(first, last)
        if len(rows):
            relations.append(name)
            total += len(rows)
            facts += shown(program, decoder, name, rows)
    several = "fact flips" if total == 1 else "facts flip"
    rules = [rule for rule in program.rules if rule.relation in relations]
    deleting = next((rule for rule in rules if rule.deletes), None)
    return Diagnostic(
        "E540",
        f"the rules repeat themselves with a period of {found.period}: after cycle {found.last} the facts are those"
        f" after cycle {found.first}",
        NOWHERE if deleting is None else deleting.span,
        detail=f"{total:,} {several}: {_listed(facts, total)}.",
        hint="Make one of the rules wait: give it a condition that no longer holds once its work is done.",
    )


def too_large(program: CheckedProgram, decoder: Decoder, timeline: Timeline, budget: int) -> DataError:
    """The error for a run that needs more memory than it may have."""
    facts = sum(len(chain.now) for chain in timeline.chains.values())
    diagnostic = Diagnostic(
        "E542",
        f"the rules need more than {budget / 2**20:,.0f} MiB: {facts:,} facts after {timeline.cycles:,} cycles",
        detail=_still_changing(program, decoder, timeline),
        hint="Look for a rule that makes new values for ever, or allow more: `memory=`, in the shell `--memory`.",
    )
    return DataError(diagnostic, program.sources)


def _still_changing(program: CheckedProgram, decoder: Decoder, timeline: Timeline) -> str:
    facts, total = [], 0
    for name, change in timeline.last.items():
        for rows in (change.plus, change.minus):
            total += len(rows)
            facts += shown(program, decoder, name, rows)
    if not facts:
        return ""
    return f"The last cycle still changed {total:,} fact{'s' if total != 1 else ''}: {_listed(facts, total)}."


def _runaway(program: CheckedProgram, decoder: Decoder, found: Endless) -> Diagnostic:
    return Diagnostic(
        "E541",
        f"the rules have not come to an end after {found.last:,} cycles",
        detail=_still_changing(program, decoder, found.timeline),
        hint="Look for a rule that makes new values for ever, or allow more: `cycles=`, in the shell `--cycles`.",
    )


def _listed(facts: list[str], total: int) -> str:
    return ", ".join(facts[:SHOWN_CHANGES]) + (", ..." if total > len(facts[:SHOWN_CHANGES]) else "")


def shown(program: CheckedProgram, decoder: Decoder, name: str, rows: Rows) -> list[str]:
    """The first few rows, as facts."""
    columns = [column[:SHOWN_CHANGES] for column in rows.columns()]
    found = decoder.tuples(program.relations[name], columns, min(len(rows), SHOWN_CHANGES))
    return [fact_text(name, row) for row in found]


def fact_text(name: str, row: tuple[object, ...]) -> str:
    """A fact as the program would write it, near enough."""
    values = (f'"{value}"' if isinstance(value, str) else str(value) for value in row)
    return f"{name}({', '.join(values)})"
