"""What Spark raises, as errors that say what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sempre import diagnostics
from sempre.diagnostics import BackendError, DataError, Diagnostic, SempreError, Span

MISSING = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
LONGEST_MESSAGE = 300
# How a task says that an operation of a rule has no result: the rule's number, and why.
FAULT = re.compile(r"sempre-fault (-?[0-9]+): ([^\n]*?) \(end of fault\)")


# How Spark tells of the task that it gave up for.
_LOST = re.compile(r"Lost task [^)]*\(TID [0-9]+\) \([^)]*\): (.+)")


class TaskFault(Exception):
    """An operation of a rule has no result for some row; noticed inside a task."""

    def __init__(self, rule: int, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule


def fault_text(rule: int, reason: object) -> str:
    """What a task raises so that `running` finds the fault again."""
    return f"sempre-fault {rule}: {str(reason).replace(chr(10), ' ')} (end of fault)"


def condition_of(error: BaseException | None) -> str:
    """Spark's name for an error, such as `PATH_NOT_FOUND`; empty if it has none."""
    try:
        return str(getattr(error, "getCondition", lambda: "")() or "")
    except Exception:  # noqa: BLE001  # asking a JVM that is gone
        return ""


def reason_of(error: BaseException | None) -> str:
    """The first line of what went wrong, without Spark's prefix and stack traces; `cause_of` has what is behind it."""
    lines = _lines(error)
    first = lines[0] if lines else type(error).__name__
    if first.startswith("An error occurred while calling ") and _thrown(lines):
        first = _thrown(lines)  # py4j's own words say nothing
    return _shortened(first.removeprefix(f"[{condition_of(error)}]").strip())


def cause_of(error: BaseException | None) -> str:
    """What Spark's error goes back to, as a detail: what a task, its Python or a driver of a database raised last.

    Empty if that is the reason itself, or not told.
    """
    lines = _lines(error)
    cause = _raised_in_python(lines) or _caused(lines) or _lost_task(lines) or _thrown(lines)
    reason = reason_of(error)
    return "" if not cause or _shortened(cause) == reason else f"caused by {_shortened(cause)}"


def _lines(error: BaseException | None) -> list[str]:
    """What was said, and Java's stack trace, which both kinds of session keep apart from it."""
    text = str(error or "unknown").strip()
    if "Caused by: " not in text:
        trace = getattr(error, "_stackTrace", None) or getattr(error, "_stacktrace", None)
        text += f"\n{trace}" if isinstance(trace, str) else ""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _raised_in_python(lines: Sequence[str]) -> str:
    """The last line of the last traceback of Python's: what it raised."""
    starts = [at for at, line in enumerate(lines) if line.endswith("Traceback (most recent call last):")]
    if not starts:
        return ""
    margin = len(lines[starts[-1]]) - len(lines[starts[-1]].lstrip())  # none, if Java's words come before it
    for line in lines[starts[-1] + 1 :]:
        if len(line) - len(line.lstrip()) <= margin:
            return "" if line.strip().startswith("at ") else line.strip()
    return ""


def _caused(lines: Sequence[str]) -> str:
    """The innermost of Java's causes."""
    return next((line.partition("Caused by: ")[2] for line in reversed(lines) if "Caused by: " in line), "")


def _lost_task(lines: Sequence[str]) -> str:
    """What the last of the tasks that failed raised."""
    found = next((_LOST.search(line) for line in lines if _LOST.search(line)), None)
    return found[1] if found else ""


def _thrown(lines: Sequence[str]) -> str:
    """What Java threw, as py4j tells it."""
    return next((line.strip()[2:] for line in lines if line.startswith(": ")), "")


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 1] + "…"


@contextmanager
def reading(what: str, span: Span, missing: Callable[[], DataError] | None = None) -> Iterator[None]:
    """Turn what Spark raises while it reads `what` into a `DataError`; `missing` makes that for what is not there."""
    with _translated():
        try:
            yield
        except _spark_errors() as error:
            if condition_of(error).startswith(MISSING):
                if missing is not None:
                    raise missing() from None
                raise DataError(Diagnostic("E501", f"{what} does not exist", span, detail=reason_of(error))) from None
            message = f"cannot read {what}: {reason_of(error)}"
            raise DataError(Diagnostic("E506", message, span, detail=cause_of(error))) from None


@contextmanager
def writing(what: str, span: Span) -> Iterator[None]:
    """Turn what Spark raises while it writes `what` into a `DataError`."""
    with _translated():
        try:
            yield
        except _spark_errors() as error:
            message = f"cannot write {what}: {reason_of(error)}"
            raise DataError(Diagnostic("E512", message, span, detail=cause_of(error))) from None


@contextmanager
def job_errors() -> Iterator[None]:
    """Turn what Spark raises while a job of ours runs into a `TaskFault`, what our code raised, or a `BackendError`."""
    with _translated():
        try:
            yield
        except _spark_errors() as error:
            fault = FAULT.search(str(error))
            if fault is not None:
                raise TaskFault(int(fault[1]), fault[2]) from None
            raised = _raised(str(error))
            if raised is not None:
                raise raised from None
            raise BackendError(
                Diagnostic(
                    "E706",
                    f"a Spark job failed: {reason_of(error)}",
                    detail=cause_of(error),
                    hint="Look into Spark's log; the database is as it was before.",
                )
            ) from error


@contextmanager
def _translated() -> Iterator[None]:
    """A session that is gone is the fault of no file."""
    try:
        yield
    except SempreError:
        raise
    except Exception as error:
        if type(error).__module__.startswith(("grpc", "py4j")) or isinstance(error, ConnectionError):
            message = f"the Spark session is gone: {reason_of(error)}"
            raise BackendError(Diagnostic("E705", message, detail=cause_of(error))) from None
        raise


def _spark_errors() -> tuple[type[Exception], ...]:
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:  # a client of Spark Connect can do without
        return (PySparkException,)
    return (PySparkException, Py4JJavaError)


_RAISED = re.compile(r"sempre\.diagnostics\.(\w+): (.*?)(?=\n\s*\n|\n\tat |\nDuring handling|\Z)", re.DOTALL)
_SHOWN = re.compile(r"error\[(\w+)\]: ([^\n]*)(.*)", re.DOTALL)


def _raised(text: str) -> SempreError | None:
    """The error that our own code raised inside of a task, if that is what Spark tells of."""
    found = _RAISED.search(text)
    kind: type[SempreError] | None = getattr(diagnostics, found[1], None) if found else None
    shown = _SHOWN.match(found[2]) if found else None
    if kind is None or shown is None or not issubclass(kind, SempreError):
        return None
    return kind(Diagnostic(shown[1], shown[2], detail=shown[3].strip()))
