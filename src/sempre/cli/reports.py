"""What commands write about epochs: a report for programs, a profile for people."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sempre.diagnostics import DataError, Diagnostic
from sempre.files.write import is_device, open_device


def write_reports(
    options: argparse.Namespace,
    title: str,
    epochs: Sequence[Mapping[str, Any]],
    session_seconds: float,
    published: bool | None = None,
) -> None:
    """Write the report and the profile of some epochs, where they were asked for.

    `published` says of a store whether its outputs were written.
    """
    if options.report:
        told: dict[str, Any] = {"epochs": epochs, "session_seconds": session_seconds}
        told |= {} if published is None else {"published": published}
        _write(options.report, json.dumps(told, indent=2) + "\n")
    if options.profile:
        from sempre.explain.profile_page import profile_page

        _write(options.profile, profile_page(title, epochs, session_seconds))


def _write(path: Path, text: str) -> None:
    """Write a file at once: another reader sees the one before, or all of it. A device is written to, not replaced."""
    try:
        if is_device(path):
            with open_device(path) as sink:
                sink.write(text.encode("utf-8"))
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(Diagnostic("E512", f"cannot write `{path}`: {reason}")) from None


def _replace(target: Path, text: str) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, "utf-8")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
