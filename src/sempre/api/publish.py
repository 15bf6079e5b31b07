"""Writes what `.output` asks for after an epoch of a store, so that what is published is always some epoch's state.

Files are written anew, and renamed into place together. A table of Delta Lake or Iceberg says which epoch it shows: it
gets what has changed since, in one commit, or nothing if it shows the epoch already. So publishing again does nothing,
and publishing after a crash does what was left.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from sempre.analysis.model import CheckedProgram, Kind, Relation
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic, ProgramError, StateError
from sempre.files.changes_table import changes_table
from sempre.files.directive_options import SPARK_ONLY, Endpoint, check_directives, output_endpoint
from sempre.files.targets import TableTarget, publishable, target_of
from sempre.files.write import Changes, WrittenFiles, write_outputs

if TYPE_CHECKING:
    from sempre.api.changes import ChangeSet
    from sempre.api.database import Database
    from sempre.api.network import Network
    from sempre.storage.followed import Followed
    from sempre.storage.keeper import Keeper

logger = logging.getLogger("sempre.publish")


@dataclass(frozen=True, slots=True)
class TwoTables:
    """The rows of one relation that an epoch has and another had not, and the other way round."""

    added: dict[str, pa.Table]
    removed: dict[str, pa.Table]


def publish_from_store(database: Database, folder: str | None, last: ChangeSet | None = None) -> WrittenFiles:
    """Write every output of the present epoch of a store, in a folder or where the last one went."""
    keeper = database._keeper
    followed = keeper.followed if keeper else None
    place = folder or (followed.outputs if followed else "")
    if not place:
        hint = "Name one: db.publish(folder), or sempre refresh STORE -D DIR, which is remembered."
        raise StateError("no folder is known to publish to", hint=hint)
    written = publish(database, place, _publisher(keeper, followed), last)
    if keeper is not None:
        keeper.store.note_published(database.epoch, place)
        where = {"store": keeper.store.place, "epoch": database.epoch, "folder": place}
        logger.info("published epoch %d to %s", database.epoch, place, extra=where)
    return written


def _publisher(keeper: Keeper | None, followed: Followed | None) -> str:
    """The name of a database in tables: one without a store has a new one each time, and replaces what is there."""
    if followed is not None:
        return followed.publisher
    return uuid.uuid4().hex if keeper is None else uuid.uuid5(uuid.NAMESPACE_URL, keeper.store.identity).hex


def publish(database: Database, folder: str, publisher: str, last: ChangeSet | None = None) -> WrittenFiles:
    """Write every output of the present epoch, which made the `last` changes; relative names are in `folder`."""
    checked = database.program.checked
    wrong = [each for each in check_directives(checked, spark=database._spark is not None) if each.severity == "error"]
    if wrong:
        raise ProgramError(wrong, checked.sources)
    takes = None
    if database._spark is not None:
        from sempre.spark.sinks import Sinks

        sinks = Sinks(database._spark, checked, folder)
        sinks.write_outputs(lambda name: database[name].to_spark())
        takes = sinks.takes
    written = write_outputs(
        checked,
        lambda name: database[name]._stream(),
        folder,
        count=lambda name: len(database[name]),
        elsewhere=lambda endpoint: endpoint.keeps_epoch or endpoint.changes or (takes is not None and takes(endpoint)),
    )
    publish_tables(checked, database, folder, publisher, last)
    return written


def publish_tables(
    checked: CheckedProgram,
    database: Database | Network,
    folder: str,
    publisher: str = "",
    last: ChangeSet | None = None,
) -> None:
    """Bring the outputs that are tables with versions to the present epoch; without a publisher they are replaced."""
    for relation, endpoint in _tables(checked, is_stored=bool(publisher)):
        target = _target(database, relation, endpoint, folder)
        _publish_table(database, relation, endpoint, target, publisher or uuid.uuid4().hex, last)


def _tables(checked: CheckedProgram, *, is_stored: bool) -> Iterator[tuple[Relation, Endpoint]]:
    """The outputs that are tables; a run without a store has Spark append the changes of its epochs."""
    for relation in checked.relations.values():
        for directive in relation.outputs:
            endpoint = output_endpoint(relation, directive)
            if is_stored if endpoint.changes else endpoint.keeps_epoch:
                yield relation, endpoint


def _target(database: Database | Network, relation: Relation, endpoint: Endpoint, folder: str) -> TableTarget:
    if endpoint.io not in SPARK_ONLY:
        return target_of(endpoint, folder)
    from sempre.spark.targets import spark_target

    assert database._spark is not None, "checked by the directives"
    return spark_target(database._spark, relation, database.program.checked.types, endpoint)


def _publish_table(
    database: Database | Network,
    relation: Relation,
    endpoint: Endpoint,
    target: TableTarget,
    publisher: str,
    last: ChangeSet | None,
) -> None:
    """Bring one table to the present epoch."""
    name, epoch = relation.name, database.epoch
    shown = target.epoch(publisher)
    if shown == epoch:
        return
    differ: Changes | None = None
    if shown is not None and shown < epoch:
        differ = last if last is not None and shown == epoch - 1 else _between(database, name, shown)
    if endpoint.changes:
        if database._keeper is None:
            raise StateError("`mode=changes` needs a store", hint="Use `Database(program, store=...)`.")
        if shown is not None and differ is None:
            message = f"table `{endpoint.table}` shows epoch {shown}, and what changed since is not in the store"
            hint = "Let `sempre vacuum --keep` leave the epochs that are not published yet; or remove the table."
            raise DataError(Diagnostic("E666", message, hint=hint))
        nothing = database[name].to_arrow().slice(0, 0)
        since = differ if differ is not None else TwoTables({name: database[name].to_arrow()}, {name: nothing})
        target.append(publishable(changes_table(relation, epoch, since), relation), publisher, epoch)
        return
    if endpoint.merges and differ is not None and Kind.FLOAT not in relation.kinds:
        added, removed = (publishable(side[name], relation) for side in (differ.added, differ.removed))
        if target.change(added, removed, publisher, epoch):
            return
    target.replace(publishable(database[name].to_arrow(), relation), publisher, epoch)


def _between(database: Database | Network, name: str, epoch: int) -> TwoTables | None:
    """How a relation differs from what it was after an earlier epoch; None where that is not in the store any more."""
    from sempre.api.database import Database

    if not isinstance(database, Database):
        return None  # a network keeps no past epochs
    try:
        with database.at_epoch(epoch) as past:
            before = past[name].to_arrow()
    except StateError:
        return None
    after = database[name].to_arrow()
    keys = after.column_names
    return TwoTables(
        {name: after.join(before, keys, join_type="left anti")}, {name: before.join(after, keys, join_type="left anti")}
    )
