"""Faults of the kernel as errors that name a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sempre.analysis.model import CheckedProgram, NormalRule
from sempre.diagnostics import DataError, Diagnostic
from sempre.kernel.capacity import CapacityError
from sempre.kernel.functors import Fault


@contextmanager
def located(program: CheckedProgram, rules: Sequence[NormalRule]) -> Iterator[None]:
    """Turn an operation without a result into an error that names the rules it may have been in.

    A limit is left to whoever can do without what was counted, and in the end to `limited`.
    """
    try:
        yield
    except Fault as fault:
        raise DataError(_diagnostic(str(fault), rules), program.sources) from None


@contextmanager
def limit_errors(program: CheckedProgram, rules: Sequence[NormalRule]) -> Iterator[None]:
    """Turn a fault or a limit that nobody could do without into an error."""
    try:
        with located(program, rules):
            yield
    except CapacityError as limit:
        raise DataError(_diagnostic(str(limit), rules, limit.hint), program.sources) from None


def _diagnostic(message: str, rules: Sequence[NormalRule], hint: str = "") -> Diagnostic:
    if not rules:
        return Diagnostic("E510", message, hint=hint)
    first, *others = rules
    detail = f"while evaluating: {first.text}"
    if others:
        heads = ", ".join(f"`{name}`" for name in dict.fromkeys(rule.relation for rule in rules))
        detail = f"while evaluating one of the {len(rules)} rules of {heads}"
    return Diagnostic("E510", message, first.span, detail=detail, hint=hint)


__all__ = ["limit_errors", "located"]
