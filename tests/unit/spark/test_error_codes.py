"""What is said when a stream or a session cannot be used, shown without a session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import sempre
from sempre.diagnostics import NOWHERE, BackendError, DataError, SempreError, StateError
from sempre.files.columns import empty_table
from sempre.spark import ship
from sempre.spark.failures import job_errors, reading, writing
from sempre.spark.feed import Feed
from sempre.spark.operations import Columns, StreamReader
from sempre.spark.streams import Maintenance, StreamOptions, Target

types = pytest.importorskip("pyspark.sql.types")

CHECKED = sempre.Program(".decl on()\n.decl edge(x: symbol, y: symbol)\n").checked
NO_COLUMNS = Columns("on")


class Writer:
    """As much of a `DataStreamWriter` as a stream is started with."""

    def option(self, _name: str, _value: str) -> Writer:
        return self

    def foreachBatch(self, _work: Callable[..., None]) -> Writer:  # noqa: N802  # as Spark calls it
        return self

    def start(self) -> SimpleNamespace:
        return SimpleNamespace(id="s", isActive=True)


def stream(*, is_streaming: bool = True) -> Any:
    return SimpleNamespace(schema=types.StructType([]), isStreaming=is_streaming, writeStream=Writer())


def maintained(df: Any = None, *, last: int = -1, **options: Any) -> Maintenance:
    def take(*_: object) -> Any:
        raise AssertionError("nothing is applied")

    target = Target(CHECKED, lambda _stream: last, take)
    return Maintenance(target, df or stream(), StreamOptions(NO_COLUMNS, **options))


def said(kind: type[SempreError], work: Callable[[], object]) -> str:
    with pytest.raises(kind) as caught:
        work()
    assert type(caught.value) is kind
    return str(caught.value)


def test_an_unknown_operation() -> None:
    reader = StreamReader.__new__(StreamReader)  # expressions need a session, and operations do not
    reader.columns = Columns("edge", operation="op")
    assert said(DataError, lambda: reader.check_operations(["insert", "upsert", "-", "merge"])) == (
        "error[E517]: column `op` of the stream has `merge`, `upsert`\n"
        "hint: Use one of: insert, +, update_postimage, c, r, delete, -, update_preimage, d."
        " An update is the row that was there, deleted, and the row that is, inserted;"
        ' or keys={"RELATION": ["COLUMN"]} say which row it replaces.'
    )


def test_a_stream_without_the_columns_that_say_what_to_do() -> None:
    schema = types.StructType([types.StructField("x", types.StringType())])
    hint = "hint: Say where the stream has these: relation=, relation_column=, operation= and order=."
    assert said(DataError, lambda: StreamReader(CHECKED, schema, Columns())) == "\n".join(
        f"error[E518]: the stream has no column `{name}`: it has x\n{hint}" for name in ("relation", "operation")
    )


def test_a_frame_that_is_no_stream() -> None:
    assert said(DataError, lambda: maintained(stream(is_streaming=False))) == (
        "error[E518]: the DataFrame is not a stream\nhint: Read it with spark.readStream, or use apply()."
    )


@pytest.mark.parametrize(("last", "has"), [(-1, "has seen nothing of it"), (2, "ends with batch 2 of it")])
def test_a_checkpoint_that_is_ahead(last: int, has: str) -> None:
    going = maintained(last=last)
    assert said(StateError, lambda: going._on_batch(stream(), 7)) == (
        f"error[E650]: the stream goes on with batch 7, and this database {has}\n"
        "detail: the checkpoint remembers what was read; the database that it was read into is another\n"
        "hint: Use a new checkpoint to read the stream from its beginning, or keep batches with keep_batches=True; "
        "trust_checkpoint=True if the database was loaded with all that came before."
    )


def test_kept_batches_need_no_trust(tmp_path: Path) -> None:
    assert said(StateError, lambda: maintained(checkpoint=str(tmp_path), keep_batches=True, trust_checkpoint=True)) == (
        "error[E650]: kept batches are applied from the first on: there is nothing to trust the checkpoint for\n"
        "hint: Leave trust_checkpoint out."
    )


def test_kept_batches_need_a_checkpoint() -> None:
    assert said(BackendError, lambda: maintained(keep_batches=True)) == (
        "error[E720]: batches are kept in the folder of the checkpoint, and none is named\n"
        "hint: Name one that Spark can reach with checkpoint=."
    )


def test_a_stream_that_spark_has_ended() -> None:
    def gone() -> bool:
        raise ValueError("the source was deleted")

    going = maintained()
    query = SimpleNamespace(isActive=True, stop=lambda: None)
    worker = threading.Thread(target=going._follow, args=(query, SimpleNamespace(is_kept=lambda _batch: gone())))
    worker.start()
    worker.join(60)
    assert f"{going._error}" == "error[E721]: the stream has failed: the source was deleted"


def test_a_feed_of_another_history(tmp_path: Path) -> None:
    nothing: dict[str, pa.Table] = {name: empty_table(relation) for name, relation in CHECKED.relations.items()}
    changes: Any = SimpleNamespace(added=nothing, removed=nothing)
    feed = Feed.at(tmp_path, CHECKED)
    feed.write(1, ("s", 0), changes)
    assert said(StateError, lambda: feed.write(1, ("t", 0), changes)) == (
        f"error[E651]: `{tmp_path}/1` is of another history: epoch 1 was written there by another batch\n"
        'detail: there: {"epoch": 1, "stream": "s", "batch": 0, "rows": {}}; '
        'now: {"epoch": 1, "stream": "t", "batch": 0, "rows": {}}\n'
        "hint: Give this stream a feed of its own, or remove the old one."
    )


def test_a_session_that_is_gone() -> None:
    for guard in (reading("table `t`", NOWHERE), writing("table `t`", NOWHERE), job_errors()):
        with pytest.raises(BackendError) as caught, guard:
            raise ConnectionRefusedError("nobody listens")
        assert str(caught.value) == "error[E705]: the Spark session is gone: nobody listens"


@pytest.mark.parametrize(("found", "what"), [("", "cannot import it"), ("older", "have another one")])
def test_tasks_that_keep_another_version(found: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        pass

    monkeypatch.setattr(ship, "task_fingerprint", lambda _spark: found)
    monkeypatch.setattr(ship, "_send", lambda _spark: None)
    session: Any = Session()
    assert said(BackendError, lambda: ship.ensure(session)) == (
        f"error[E722]: the tasks of this session {what}, though `sempre` was sent to them\n"
        "hint: Install the same version where Spark runs Python, or none."
    )
