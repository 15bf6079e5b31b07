"""`sempre format`: programs in one form, in place."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from sempre.diagnostics import DataError, Diagnostic
from sempre.files import missing_file
from sempre.lang.formatter import formatted


def format_files(options: argparse.Namespace) -> int:
    """Format the files, or say which would change; `-` is standard input, formatted to standard output."""
    changed = []
    for path in options.files:
        if str(path) == "-":
            sys.stdout.write(formatted(sys.stdin.read(), "<stdin>"))
            continue
        text = _text(path)
        new = formatted(text, str(path))
        if new != text:
            changed.append(path)
            if not options.check:
                _replace(path, new)
    for path in changed:
        print(f"{'would change' if options.check else 'formatted'} {path}")
    return 1 if changed and options.check else 0


def _replace(path: Path, text: str) -> None:
    """Put a text in the place of a file, whole or not at all."""
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "Use `sempre format -` to print it instead."
        raise DataError(Diagnostic("E512", f"cannot write `{path}`: {reason}", hint=hint)) from None
    finally:
        temporary.unlink(missing_ok=True)


def _text(path: Path) -> str:
    if not path.exists():
        raise missing_file(path)
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        message = f"cannot read `{path}`: it is not UTF-8"
        raise DataError(Diagnostic("E505", message, hint="Convert it to UTF-8.")) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(Diagnostic("E506", f"cannot read `{path}`: {reason}")) from None
