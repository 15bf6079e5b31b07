"""Keeps a database current with a stream: every micro-batch is an epoch, applied once.

Spark repeats a batch when it was stopped before it could note that the batch is done. The stream is known by the id
that its checkpoint keeps, batches by their numbers, which have no gaps: what was applied already is passed over, and a
database that lacks batches is not fed later ones.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import CheckedProgram
from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, BackendError, DataError, Diagnostic, SempreError, StateError
from sempre.files.locations import is_url
from sempre.spark.batches import Batch, Batches
from sempre.spark.failures import cause_of, reading, reason_of
from sempre.spark.feed import Feed
from sempre.spark.inbox import Inbox, keeper
from sempre.spark.operations import Columns, StreamReader
from sempre.spark.rejects import Rejects
from sempre.spark.row_rules import row_rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sempre.files.write import Changes
    from sempre.spark.residency import Residency

POLL_SECONDS = 0.2
# What `foreachBatch` hands to a query that has been told to stop.
STOPPED = "the stream is stopping"
# Spark waits ten seconds for the process that runs a function of batches, and no setting changes that.
SLOW_PROCESS = "Python worker failed to connect back"
STARTS = 3


@dataclass(frozen=True, slots=True)
class BatchReport:
    """How a batch went: the epoch it became, and how many rows it and the changes had; `rejected` were not taken."""

    batch: int
    epoch: int
    rows: int
    seconds: float
    added: Mapping[str, int]
    removed: Mapping[str, int]
    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """What a stream needs of a database.

    `last_batch` is the last batch of a stream that was applied, -1 before the first. `take` applies a batch as an
    epoch, and calls the function it gets with the epoch's number and changes before anybody else can see them.
    `staying` gives who decides which rows stay on the cluster, if anything can.
    """

    checked: CheckedProgram
    last_batch: Callable[[str], int]
    take: Callable[[Batch, tuple[str, int], Callable[[int, Any], None]], BatchReport]
    staying: Callable[[], Residency | None] = lambda: None


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream is read and where its changes go; see `Database.maintain`."""

    columns: Columns
    checkpoint: str | None = None
    name: str | None = None
    trigger: Mapping[str, Any] | None = None
    keep_batches: bool = False
    trust_checkpoint: bool = False
    feed: str | Path | None = None
    on_changes: Callable[[Any], None] | None = None
    rejects: str | Path | None = None
    keys: Mapping[str, Sequence[str]] | None = None
    nulls: Any = None
    decimals: Any = None


class Maintenance:
    """A stream that keeps a database current.

    Spark's own handle is `query`. An error in a batch ends the stream, and the database stays as it was after the last
    epoch that went well.
    """

    def __init__(self, target: Target, df: DataFrame, options: StreamOptions) -> None:
        self._target = target
        self._options = options
        relations, only = target.checked.relations, options.columns.relation
        mine = relations if only is None else {only: relations[only]}
        rules = row_rules(mine, options.keys, options.nulls, options.decimals, options.rejects is not None)
        self._batches = Batches(StreamReader(target.checked, df.schema, options.columns, rules), target.staying)
        self._rejects = None if options.rejects is None else Rejects.at(options.rejects)
        self._feed = None if options.feed is None else Feed.at(options.feed, target.checked)
        self._started = threading.Event()
        self._stopping = False
        self._busy = threading.Lock()
        self._applying = 0  # the thread that applies a batch
        self._error: BaseException | None = None
        self._last: BatchReport | None = None
        self._thread: threading.Thread | None = None
        self._inbox: Inbox | None = None
        self.query = self._start(df)

    def _start(self, df: DataFrame) -> StreamingQuery:
        options = self._options
        is_remote = type(df).__module__.startswith("pyspark.sql.connect.")
        writer = _writer(df, options)
        if not (is_remote or options.keep_batches):
            query = started(writer.foreachBatch(self._on_batch))
            self._stream = str(query.id)
            self._started.set()
            return query
        if options.checkpoint is None:
            why = "on Spark Connect batches are handed over" if is_remote else "batches are kept"
            message = f"{why} in the folder of the checkpoint, and none is named"
            raise BackendError(Diagnostic("E720", message, hint="Name one that Spark can reach with checkpoint=."))
        if options.trust_checkpoint:
            message = "kept batches are applied from the first on: there is nothing to trust the checkpoint for"
            raise StateError(Diagnostic("E650", message, hint="Leave trust_checkpoint out."))
        self._inbox = Inbox(df.sparkSession, f"{_located(options.checkpoint)}/inbox", df.schema)
        query = started(writer.foreachBatch(keeper(self._inbox.folder)))
        self._stream = str(query.id)
        self._thread = threading.Thread(
            target=self._follow, args=(query, self._inbox), name="sempre-stream", daemon=True
        )
        self._thread.start()
        return query

    # ---------------------------------------------------------------------------------------------- watching

    @property
    def is_active(self) -> bool:
        """Whether batches may still come."""
        if self._thread is not None:
            return self._thread.is_alive()
        return bool(self.query.isActive) and self._error is None

    @property
    def last_progress(self) -> BatchReport | None:
        """How the last batch went that became an epoch here."""
        return self._last

    def exception(self) -> BaseException | None:
        """What ended the stream: an error of ours, of `on_changes`, or of Spark's; `None` while all is well."""
        if self._error is None and not self._stopping and not self.query.isActive:
            failure = self.query.exception()
            if failure is not None:
                self._error = _failed(failure)
        return self._error

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the stream has ended, at most `timeout` seconds; raises what ended it. Returns whether it has."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.is_active:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._wait(POLL_SECONDS if left is None else min(left, POLL_SECONDS))
        self._raise()
        return True

    def process_available(self) -> None:
        """Wait until everything that the source has now is in the database; raises what ended the stream."""
        with contextlib.suppress(Exception):  # the query's failure is told below, in our words
            self.query.processAllAvailable()
        if self._thread is not None:  # Spark is done with a batch when it is kept
            assert self._inbox is not None
            while self.is_active and self._inbox.is_kept(self._target.last_batch(self._stream) + 1):
                self._wait(POLL_SECONDS)
        self._raise()

    def stop(self) -> None:
        """End the stream, after the batch that is being applied now; its database stays open."""
        self.exception()  # what has ended it already stays known
        self._stopping = True
        if self._applying == threading.get_ident():  # called by `on_changes`: the query waits for that to return
            threading.Thread(target=self.query.stop, name="sempre-stop", daemon=True).start()
            return
        self.query.stop()
        if self._thread is not None:
            self._thread.join()
        with self._busy:
            pass  # a stopped query does not wait for the function that it called

    def _wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)
        else:
            time.sleep(seconds)

    def _raise(self) -> None:
        error = self.exception()
        if error is not None:
            raise error

    def __repr__(self) -> str:
        state = "active" if self.is_active else "failed" if self._error else "ended"
        last = "" if self._last is None else f", batch {self._last.batch} was epoch {self._last.epoch}"
        return f"<Maintenance: {state}{last}>"

    # ----------------------------------------------------------------------------------------------- batches

    def _on_batch(self, df: DataFrame, batch: int) -> None:
        """Called by Spark, in a thread of its own."""
        self._started.wait()
        self._guarded(df, batch)

    def _guarded(self, df: DataFrame, batch: int, *, kept: bool = False) -> None:
        with self._busy:
            if self._stopping or self._error is not None:
                raise StateError(STOPPED)
            self._applying = threading.get_ident()
            try:
                self._take(df, batch, kept)
            except BaseException as error:
                self._error = error
                raise
            finally:
                self._applying = 0

    def _take(self, df: DataFrame, batch: int, kept: bool) -> None:
        last = self._target.last_batch(self._stream)
        what = f"batch {batch} of the stream"
        if batch <= last:
            if not kept:  # else a stream with a state of its own would lack what Spark remembers of it
                with reading(what, NOWHERE):
                    df.write.format("noop").mode("overwrite").save()
            return
        if batch > last + 1 and not (last < 0 and self._options.trust_checkpoint):
            raise StateError(_gap(last, batch))
        rows = self._batches.read(df, what, kept=kept)
        if rows.rejected is not None and self._rejects is not None:
            self._rejects.write(self._stream, batch, rows.rejected)
        self._last = self._target.take(rows, (self._stream, batch), lambda n, c: self._publish(batch, n, c))

    def _publish(self, batch: int, epoch: int, changes: Changes) -> None:
        if self._feed is not None:
            self._feed.write(epoch, (self._stream, batch), changes)
        if self._options.on_changes is not None:
            self._options.on_changes(changes)

    # ---------------------------------------------------------------------------------------- kept batches

    def _follow(self, query: StreamingQuery, inbox: Inbox) -> None:
        """Apply batches as they are kept, until the query has ended and nothing is left."""
        try:
            while not self._stopping:
                batch = self._target.last_batch(self._stream) + 1
                ended = not query.isActive
                if inbox.is_kept(batch):
                    self._guarded(inbox.read(batch), batch, kept=True)
                elif ended:
                    return
                else:
                    self._check_order(query, inbox, batch)
                    time.sleep(POLL_SECONDS)
        except BaseException as error:  # noqa: BLE001  # told by `exception` and `await_termination`
            if self._error is None and not self._stopping:
                self._error = error if isinstance(error, SempreError) else _failed(error)
            with contextlib.suppress(Exception):
                query.stop()

    def _check_order(self, query: StreamingQuery, inbox: Inbox, batch: int) -> None:
        """Raise if Spark has gone past a batch that was not kept: waiting for it would never end."""
        progress = query.lastProgress
        if progress is not None and int(progress["batchId"]) > batch and not inbox.is_kept(batch):
            raise StateError(_gap(batch - 1, int(progress["batchId"])))


def _failed(error: BaseException) -> BackendError:
    message = f"the stream has failed: {reason_of(error)}"
    return BackendError(Diagnostic("E721", message, detail=cause_of(error)))


def _writer(df: DataFrame, options: StreamOptions) -> DataStreamWriter:
    if not df.isStreaming:
        message = "the DataFrame is not a stream"
        raise DataError(Diagnostic("E518", message, hint="Read it with spark.readStream, or use apply()."))
    writer = df.writeStream
    if options.checkpoint is not None:
        writer = writer.option("checkpointLocation", _located(options.checkpoint))
    if options.name is not None:
        writer = writer.queryName(options.name)
    return writer if options.trigger is None else writer.trigger(**options.trigger)


def started(writer: DataStreamWriter) -> StreamingQuery:
    """Start a stream; on a machine that is busy, Spark may find its process too slow, before it has read anything."""
    for _ in range(STARTS - 1):
        try:
            return writer.start()
        except Exception as error:
            if SLOW_PROCESS not in str(error):
                raise
    return writer.start()


def _located(checkpoint: str) -> str:
    return checkpoint.rstrip("/") if is_url(checkpoint) else str(Path(checkpoint).absolute())


def _gap(last: int, batch: int) -> Diagnostic:
    has = f"ends with batch {last} of it" if last >= 0 else "has seen nothing of it"
    return Diagnostic(
        "E650",
        f"the stream goes on with batch {batch}, and this database {has}",
        detail="the checkpoint remembers what was read; the database that it was read into is another",
        hint="Use a new checkpoint to read the stream from its beginning, or keep batches with keep_batches=True; "
        "trust_checkpoint=True if the database was loaded with all that came before.",
    )


__all__ = ["Batch", "BatchReport", "Columns", "Maintenance", "StreamOptions", "Target"]
