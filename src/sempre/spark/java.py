"""Finds a Java that Spark can run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sempre.diagnostics import BackendError, Diagnostic

OLDEST = 17
# Where `make setup` puts one when the machine has none.
BUNDLED = Path(sys.prefix) / "java"

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> Path:
    """The home of the first Java that is new enough: `JAVA_HOME`, the one on the PATH, the one that set-up brought."""
    seen: list[str] = []
    for home in _candidates():
        version = _version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return home
        seen.append(f"{home} has {'no Java that starts' if version is None else f'Java {version}'}")
    message = f"Spark needs Java {OLDEST} or later, and there is none"
    hint = "Install one and set JAVA_HOME, or run `make setup` again, or evaluate without Spark: --on local."
    raise BackendError(Diagnostic("E703", message, detail="; ".join(seen), hint=hint))


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    if (BUNDLED / "bin" / "java").exists():
        yield BUNDLED


def _version(java: Path) -> int | None:
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    return int(match[1]) if match else None
