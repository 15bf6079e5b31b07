"""What a change would do, evaluated beside the present state: nothing is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sempre.api.changes import ChangeSet
from sempre.backends.local import LocalBackend, unsealed
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, StateError
from sempre.engine import Engine, EpochResult, Snapshot
from sempre.results import Decoder

if TYPE_CHECKING:
    from sempre.api.database import Database


@dataclass(frozen=True, slots=True)
class BranchedState:
    """A state that a change would lead to, beside the database it is of."""

    engine: Engine
    backend: LocalBackend
    before: Snapshot
    after: Snapshot
    result: EpochResult
    decoder: Decoder
    by_position: set[str]


def branch_off(database: Database, insert: Mapping[str, Any], delete: Mapping[str, Any]) -> BranchedState:
    """The state after a change to the present one.

    It waits for nobody and keeps nobody waiting; with a Spark session it takes turns with changes.
    """
    engine = database._stratified("whatif()")
    database._materialized()
    if not database._is_local:
        with database._turn(), database._numbered():
            coming, going = database._intake.take(insert), database._intake.take(delete)
            before = engine.snapshot
            after, result = engine.evaluate(before, *database._rows(coming, going))
            engine.places.keep()  # the answer is read later, and has these numbers
            by_position = coming.by_position | going.by_position
            return BranchedState(engine, database._backend, before, after, result, database._decoder, by_position)
    aside = engine.aside()
    backend = unsealed(aside.backend)
    intake = replace(database._intake, backend=backend, engine=aside)
    coming, going = intake.take(insert), intake.take(delete)
    intake.fit(coming)
    after, result = aside.evaluate(aside.snapshot, intake.rows(coming), intake.rows(going))
    backend.close()
    decoder = Decoder(backend.values, aside.program.types)
    return BranchedState(aside, backend, aside.snapshot, after, result, decoder, coming.by_position | going.by_position)


class Whatif(ChangeSet):
    """What a change would do. As a context manager it can be committed, as long as nothing else has changed.

    with db.whatif(insert={"edge": [("a", "b")]}) as trial:
        if not trial.added["alarm"].num_rows:
            trial.commit()
    """

    def __init__(
        self, changes: ChangeSet, database: Database, insert: Mapping[str, Any], delete: Mapping[str, Any], epoch: int
    ) -> None:
        super().__init__(changes.added, changes.removed, changes.report, changes._frame, changes._streams)
        self._database, self._insert, self._delete, self._epoch = database, insert, delete, epoch
        self._ended = False

    def commit(self) -> ChangeSet:
        """Apply the change, as an epoch."""
        if self._ended:
            raise StateError(Diagnostic("E642", "this trial has ended", hint="Call `db.apply()` with the same rows."))
        if self._database.epoch != self._epoch:
            message = f"epoch {self._database.epoch} has come since this was evaluated in epoch {self._epoch}"
            raise StateError(Diagnostic("E642", message, hint="Ask again what the change would do, or apply it."))
        self._ended = True
        return self._database.apply(self._insert, self._delete)

    def __enter__(self) -> Whatif:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
