"""What Spark raises, as errors that say what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sempre import diagnostics
from sempre.diagnostics import BackendError, DataError, Diagnostic, SempreError, Span

MISSING = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
LONGEST = 300
# How a task says that an operation of a rule has no result: the rule's number, and why.
FAULT = re.compile(r"sempre-fault (-?[0-9]+): ([^\n]*?) \(end of fault\)")


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
    """The first line of what went wrong, without Spark's prefix and stack traces."""
    text = str(error or "unknown").strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    cause = next((line.partition("Caused by: ")[2] for line in reversed(lines) if "Caused by: " in line), "")
    first = cause or (lines[0] if lines else type(error).__name__)
    first = first.removeprefix(f"[{condition_of(error)}]").strip()
    return first if len(first) <= LONGEST else first[: LONGEST - 1] + "…"


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
            raise DataError(Diagnostic("E506", f"cannot read {what}: {reason_of(error)}", span)) from None


@contextmanager
def writing(what: str, span: Span) -> Iterator[None]:
    """Turn what Spark raises while it writes `what` into a `DataError`."""
    with _translated():
        try:
            yield
        except _spark_errors() as error:
            raise DataError(Diagnostic("E512", f"cannot write {what}: {reason_of(error)}", span)) from None


@contextmanager
def running() -> Iterator[None]:
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
                    hint="the database is as it was before; Spark's log has more",
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
            raise BackendError(Diagnostic("E705", f"the Spark session is gone: {reason_of(error)}")) from None
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
