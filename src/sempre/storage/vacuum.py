"""Drops past epochs, puts the current one into one piece, and numbers its symbols anew."""

from __future__ import annotations

import errno
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from sempre.analysis.model import CheckedProgram, Kind
from sempre.diagnostics import StateError
from sempre.storage.digests import observes_codes
from sempre.storage.manifest import Manifest
from sempre.storage.memories import LEADING
from sempre.storage.parquet_blocks import Block, Content, Texts
from sempre.storage.pieces import PieceReader
from sempre.storage.store import FOLDERS, Store

logger = logging.getLogger(__name__)

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def vacuum(store: Store, program: CheckedProgram, keep: int) -> tuple[int, int]:
    """Keep the last `keep` epochs; returns how many bytes were freed, and how many are left.

    `program` is that of the current epoch. With one epoch to keep, its state is rewritten. What is to go goes first: a
    vacuum is what people try when a disk is full. If there is no room to rewrite even then, the state stays as it is.
    """
    before = used_bytes(store)
    _drop(store, keep)
    if keep == 1:
        try:
            _rewrite(store, program)
        except StateError as error:
            if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in NO_ROOM or not store.is_locked:
                raise
            logger.warning("no room to rewrite epoch %d", store.epochs()[-1], extra={"store": store.place})
        _drop(store, keep)
    after = used_bytes(store)
    return before - after, after


def _drop(store: Store, keep: int) -> None:
    """Remove all epochs but the last, and what only they name."""
    kept = store.epochs()[-keep:]
    # Manifests go first: what is left of the others, should this be cut short, names files that are there.
    for epoch in store.epochs()[:-keep]:
        store.drop_epoch(epoch)
    store.drop_files({file.path for epoch in kept for file in store.manifest(epoch).files}, kept[-1])


def used_bytes(store: Store) -> int:
    """The size of all files."""
    return sum(store.disk.used_bytes(store.path / folder) for folder in FOLDERS)


def _rewrite(store: Store, program: CheckedProgram) -> None:
    manifest = store.manifest()
    reader = PieceReader(manifest.pieces, store.read)
    contents = {name: total for name in reader.names() if len(total := reader.total(name))}
    draft = replace(manifest, pieces=())
    if _is_renumbered(manifest, program):
        contents, draft = _renumbered(contents, draft, program)
    if store.disk.is_shared:
        # The present epoch may be what another writer builds on: a new one keeps it from that.
        nothing = {"added": {}, "removed": {}, "seconds": 0.0, "strategy": "", "why": "", "rounds": 0, "instances": 0}
        written = datetime.now(UTC).isoformat(timespec="milliseconds")
        draft = replace(draft, epoch=draft.epoch + 1, kind="vacuum", written=written, report=nothing)
    store.commit(draft, None, contents)


def _is_renumbered(manifest: Manifest, program: CheckedProgram) -> bool:
    """Whether nothing but columns of symbols depends on the codes of symbols, and all such columns are known.

    Records of all types with as many fields share a table: a code in one may be a symbol here and a number there.
    Numbers that come from codes cannot be told from others. Stores of format 1 and 2 have sets that are no relations of
    the program.
    """
    has_records = any(type_.kind is Kind.RECORD for type_ in program.types.values())
    return not has_records and not observes_codes(program) and manifest.digest is not None


def _renumbered(
    contents: Mapping[str, Content], manifest: Manifest, program: CheckedProgram
) -> tuple[dict[str, Content], Manifest]:
    """The same state with symbols numbered without gaps. Their order stays, and so rows stay sorted."""
    symbols = contents.get("symbols")
    if not isinstance(symbols, Texts):
        return dict(contents), manifest
    taken = np.zeros(len(symbols), np.bool_)
    for name, content in contents.items():
        for column in _symbol_columns(name, content, program):
            taken[column] = True
    if taken.all():
        return dict(contents), manifest
    codes = np.cumsum(taken, dtype=np.int64) - 1
    renumbered: dict[str, Content] = {}
    for name, content in contents.items():
        if isinstance(content, Block):
            mine = {id(column) for column in _symbol_columns(name, content, program)}
            columns = [codes[column] if id(column) in mine else column for column in content.columns]
            renumbered[name] = Block(columns, content.weights, len(content))
    left = [text for text, is_taken in zip(symbols.texts, taken.tolist(), strict=True) if is_taken]
    if left:
        renumbered["symbols"] = Texts(left)
    lists = {**manifest.lists, "symbols": len(left)}
    return renumbered, replace(manifest, generation=manifest.generation + 1, lists=lists)


def _symbol_columns(name: str, content: Content, program: CheckedProgram) -> list[np.ndarray]:
    kind, slash, relation = name.partition("/")
    if not slash or not isinstance(content, Block):
        return []
    columns = content.columns[LEADING.get(kind, 0) :]
    kinds = program.relations[relation].kinds
    return [column for column, kind_ in zip(columns, kinds, strict=True) if kind_ is Kind.SYMBOL]
