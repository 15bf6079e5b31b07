"""Where Spark jobs are started, and ended when the one who waits for them is interrupted.

Actions run in threads of their own, also a single one. A thread that waits for Spark's answer must not be the one that
Ctrl-C arrives in: the answer would stay unread, and be taken for that to the next question.

Jobs say what they are for: in a classic session by their description, on Spark Connect by a tag.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

# How many actions run at a time: a small job is mostly waiting.
JOBS_AT_ONCE = 4
# A job may be about to start when the others are ended, so that is tried again and again; and at most for so long.
RECANCEL_SECONDS = 0.3
MOST_SECONDS = 30.0
DESCRIPTION = "spark.job.description"


class Jobs:
    """The jobs of one database: counted, and tagged so that they can be ended without touching those of others."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.tag = f"sempre-{uuid.uuid4().hex[:12]}"
        # In a classic session a tag of the session's is that of one thread: no other thread can end what has it.
        self._context: Any = None if _is_remote(spark) else spark.sparkContext
        self._pool: ThreadPoolExecutor | None = None
        self._mine = threading.local()
        self._numbers = itertools.count(1)
        self.number = 0
        # What jobs are for, until something else is said; actions that begin now keep it.
        self.doing = ""

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def count(self, jobs: int = 1) -> None:
        """So many jobs more."""
        for _ in range(jobs):
            self.number = next(self._numbers)

    def run(self, actions: Sequence[Callable[[], T]], doing: Sequence[str] = ()) -> list[T]:
        """What the actions return, several at a time; if one raises, or this is interrupted, all of them end.

        `doing` says what each is for, where that is not `self.doing`.
        """
        if getattr(self._mine, "running", False):  # an action that needs others
            return [action() for action in actions]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(JOBS_AT_ONCE, "sempre-job")
        told = doing or [self.doing] * len(actions)
        pool = self._pool
        futures = [pool.submit(self._tagged, action, each) for action, each in zip(actions, told, strict=True)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            self._end(futures)
            raise

    def one(self, action: Callable[[], T]) -> T:
        """What a single action returns."""
        (found,) = self.run([action])
        return found

    def _tagged(self, action: Callable[[], T], doing: str) -> T:
        with self._tag(), described(self.spark, doing):
            self._mine.running = True
            try:
                return action()
            finally:
                self._mine.running = False

    @contextlib.contextmanager
    def _tag(self) -> Iterator[None]:
        self.spark.addTag(self.tag)
        if self._context is not None:
            self._context.addJobTag(self.tag)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):  # the session may be gone: what was raised before says so
                self.spark.removeTag(self.tag)
                if self._context is not None:
                    self._context.removeJobTag(self.tag)

    def _interrupt(self) -> None:
        """End whatever has the tag now."""
        with contextlib.suppress(Exception):
            if self._context is None:
                self.spark.interruptTag(self.tag)
            else:
                self._context.cancelJobsWithTag(self.tag)

    def _end(self, futures: Sequence[Future[Any]]) -> None:
        """Leave nothing running of what was begun."""
        begun = [future for future in futures if not future.cancel() and not future.done()]
        deadline = time.monotonic() + MOST_SECONDS
        while begun and time.monotonic() < deadline:
            self._interrupt()
            begun = list(wait(begun, RECANCEL_SECONDS).not_done)


@contextlib.contextmanager
def described(spark: SparkSession, doing: str) -> Iterator[None]:
    """The jobs of this thread say what they are for."""
    if not doing:
        yield
        return
    if _is_remote(spark):
        tag = f"sempre: {doing}".replace(",", ";")  # tags are kept as a list with commas
        spark.addTag(tag)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                spark.removeTag(tag)
        return
    context = spark.sparkContext
    before: Any = context.getLocalProperty(DESCRIPTION)  # None if there is none, which takes it away again
    context.setLocalProperty(DESCRIPTION, f"sempre: {doing}")
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            context.setLocalProperty(DESCRIPTION, before)


def _is_remote(spark: SparkSession) -> bool:
    """Whether a session is a client of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
