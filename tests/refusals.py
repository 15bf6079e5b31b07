"""What is refused, and by which error."""

from __future__ import annotations

from collections.abc import Callable

import sempre


def code_of(work: Callable[[], object]) -> str:
    """The code of the error of ours that something ends with; empty if it does not."""
    try:
        work()
    except sempre.SempreError as error:
        return error.diagnostics[0].code or str(error)
    return ""
