"""What is wrong with several pieces of data is raised once."""

from __future__ import annotations

import pytest

from sempre.diagnostics import DataError, Diagnostic, Findings, ProgramError, Span


def finding(file: str) -> Diagnostic:
    return Diagnostic("E503", "not a number", Span(file, 1, 1, 1, 2))


def test_every_error_is_kept_with_its_source() -> None:
    findings = Findings([finding("c")])
    for file in ("b", "a"):
        with findings.gathered():
            raise DataError(finding(file), {file: "x"})
    with pytest.raises(DataError) as raised:
        findings.check()
    assert [each.span.file for each in raised.value.diagnostics] == ["a", "b", "c"]
    assert raised.value.sources == {"a": "x", "b": "x"}


def test_nothing_is_raised_where_nothing_was_found() -> None:
    findings = Findings()
    with findings.gathered():
        pass
    findings.check()


def test_other_errors_go_through() -> None:
    findings = Findings()
    with pytest.raises(ProgramError), findings.gathered():
        raise ProgramError("wrong")
    findings.check()
