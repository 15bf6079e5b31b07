"""The `sempre` command: arguments in, exit code out.

0 done · 1 the program or the data is at fault · 2 usage, also a place or a Spark that is not to be had here ·
3 a defect of sempre · 130 Ctrl-C · 143 SIGTERM. Each command is a file of this package
and imports what it needs when it runs: a tiny program must not wait for what it does not use.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
import warnings
from collections.abc import Sequence

from sempre.cli.arguments import STORE_COMMANDS, parse
from sempre.cli.signals import SignalExit
from sempre.cli.souffle_options import UsageError
from sempre.cli.terminal import show_error, show_text
from sempre.diagnostics import BackendError, DataError, Diagnostic, InternalError, SempreError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
DONE, AT_FAULT, USAGE, DEFECT, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; every error ends here, as text on standard error and an exit code."""
    ending = SignalExit()
    if argv is not None:  # called by somebody who goes on afterwards
        with ending:
            return _ended(ending, argv)
    _settle_process()
    ending.at_exit()
    ending.__enter__()  # and the signals are not given back: nothing is left that they could mean to others
    return _ended(ending, None)


def _settle_process() -> None:
    """What suits a process that is ours alone."""
    # A stream that was closed, as by `>&-`, leads nowhere; else the next file that is opened had its number.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    # Files are UTF-8, and so is what goes into a pipe; a terminal that cannot show a character shows its number.
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        else:
            sys.stdout.reconfigure(encoding="utf-8")
    # NumPy's BLAS, which nothing here calls, starts threads that spin for a while when it is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Trees of a program are many small objects that all stay: looking for garbage among them is for nothing.
    gc.set_threshold(100_000, 50, 100)
    warnings.showwarning = _show_warning


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning that comes while a program runs, without the place in our own source."""
    show_text(f"warning: {message}")


def _ended(ending: SignalExit, argv: Sequence[str] | None) -> int:
    """The exit code of one command."""
    try:
        code = _guarded(argv)
        ending.until_the_end()
        return ending.code or code
    except KeyboardInterrupt:
        ending.until_the_end()
        show_text("interrupted" if ending.code != TERMINATED else "terminated")
        return ending.code or INTERRUPTED


def _guarded(argv: Sequence[str] | None) -> int:
    try:
        return _dispatch(sys.argv[1:] if argv is None else list(argv))
    except SystemExit as stop:  # argparse, after --help, --version or a usage message
        return stop.code if isinstance(stop.code, int) else USAGE
    except UsageError as error:
        show_text(f"error: {error}")
        return USAGE
    except SempreError as error:
        show_error(error)
        if isinstance(error, InternalError):
            return _defect(error)
        return USAGE if isinstance(error, BackendError) else AT_FAULT
    except BrokenPipeError:
        # The reader of our output left, as `| head` does; nothing is wrong, and the last flush must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except MemoryError:
        show_text("error[E701]: out of memory")
        return AT_FAULT
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
            return _full(error.errno)
        if os.environ.get("SEMPRE_DEBUG"):
            raise
        show_text(f"error[E900]: {type(error).__name__}: {error}")
        return _defect(error)


def _full(reason: int) -> int:
    """Standard output, which is all that is written without a name, takes no more; nor will the last flush."""
    show_error(DataError(Diagnostic("E512", f"cannot write standard output: {os.strerror(reason).lower()}")))
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return AT_FAULT


def _dispatch(argv: list[str]) -> int:
    options = parse(argv)
    if wanted := os.environ.get("SEMPRE_LOG"):
        from sempre.cli.logs import start_logging

        start_logging(wanted)
    if getattr(options, "functors", ()):
        from sempre.cli.program_file import load_functions

        for path in options.functors:
            load_functions(path)
    match options.command:
        case "run":
            from sempre.cli.run_command import run

            return run(options)
        case "check":
            from sempre.cli.check_command import check

            return check(options)
        case "format":
            from sempre.cli.format_command import format_files

            return format_files(options)
        case "lsp":
            from sempre.cli.lsp_command import serve_editor

            return serve_editor(options)
        case "network":
            from sempre.cli.network_command import network

            return network(options)
        case "explain":
            from sempre.cli.explain_command import explain

            return explain(options)
        case "shell":
            from sempre.cli.shell_command import shell

            return shell(options)
        case command if command in STORE_COMMANDS:
            from sempre.cli.store_commands import COMMANDS

            return COMMANDS[command](options)
    return DONE


def _defect(error: Exception) -> int:
    if os.environ.get("SEMPRE_DEBUG"):
        raise error
    show_text("This is a defect of sempre, not of your program. SEMPRE_DEBUG=1 shows where it happened.")
    return DEFECT
