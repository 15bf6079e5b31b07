"""Commands on relations: where rows are at home, the copies of versions, and what travels between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sempre.analysis.model import CheckedProgram
from sempre.backends.local import LocalBackend
from sempre.data import dataclass
from sempre.kernel import join
from sempre.kernel.layout import Field, Keys, fields_covering, packing
from sempre.kernel.tally import Counted
from sempre.kernel.trace import RowSet, Trace
from sempre.limits import Limits
from sempre.modules.spec import Module
from sempre.plan.ops import Neighbors
from sempre.workers.codec import from_json
from sempre.workers.framing import Column
from sempre.workers.mesh import Mesh, Parcel
from sempre.workers.paths import SharedPaths
from sempre.workers.placing import EVERYWHERE, Workers, frequent_values, home_column, owners, placed_by, split
from sempre.workers.set_commands import Numbers, SetCommands
from sempre.workers.shards import NO_VALUES, Bring, Pick, Shard, ShardView
from sempre.workers.together import Waves

# Of values with at most so many bits it is written down where each is at home.
OWNED_BITS = 20


@dataclass(frozen=True, slots=True)
class Told:
    """Rows of versions with this content that are at home elsewhere."""

    content: object
    rows: Trace


@dataclass(frozen=True, slots=True)
class Sent:
    """What was found that versions of this content did not have; of all of it, this worker sent these rows home."""

    content: object
    found: Keys
    rows: RowSet


class ShardCommands(SetCommands):
    """The shards of one worker, and how rows come to where they belong."""

    def __init__(self, program: CheckedProgram, mesh: Mesh, limits: Limits) -> None:
        super().__init__(LocalBackend(program, 1, limits))
        self._program = program
        self._mesh = mesh
        # One worker has all rows at home, and no copies.
        self._homes = {
            name: home_column(relation) if mesh.size > 1 else None for name, relation in program.relations.items()
        }
        self._tables: dict[Field, Workers] = {}
        self._known_there: dict[str, Told] = {}
        self._sent: dict[str, Sent] = {}

    # ------------------------------------------------------------------------------------------------- relations

    def _rows_of(self, relation: str, columns: Sequence[Column], size: int) -> RowSet:
        self._local.fit({relation: columns})
        return self._local.rows(relation, columns, size)

    def _receive(self, relation: str, size: int, columns: Sequence[Column] = ()) -> RowSet:
        if not size:
            return self._local.no_rows(relation)
        if not self._program.relations[relation].arity:
            return self._local.rows(relation, [], 1)
        return self._rows_of(relation, columns, size)

    def _empty(self, relation: str) -> Shard:
        return Shard(relation, self._local.empty(relation))

    def _same(self, number: int) -> Shard:
        return self._shard(number)

    def _rows(self, number: int) -> RowSet:
        return self._shard(number).home.rows()

    def _version(self, relation: str, number: int, orders: Iterable[Sequence[int]], everywhere: bool) -> Shard:
        shard = Shard(relation, Trace.of(self._held[number]))
        return self._indexed_shard(shard, orders, everywhere)

    def _indexed_shard(self, shard: Shard, orders: Iterable[Sequence[int]], everywhere: bool) -> Shard:
        wanted, relation = [tuple(order) for order in orders], shard.relation
        pick = self._pick(relation) if everywhere else None
        return shard.indexed(wanted, self._homes[relation], self._bring(relation), pick)

    def _indexed(self, number: int, orders: Iterable[Sequence[int]], everywhere: bool) -> Shard:
        return self._indexed_shard(self._shard(number), orders, everywhere)

    def _spread(self, number: int, orders: Iterable[Sequence[int]]) -> Shard:
        """What was everywhere, each row with its owners alone."""
        shard = self._shard(number)
        return self._indexed_shard(Shard(shard.relation, shard.home), orders, everywhere=False)

    def _split(self, number: int, size: int) -> Shard:
        """The same rows, of which all workers have `size`, with those of common values split."""
        shard = self._shard(number)
        home, workers = self._homes[shard.relation], self._mesh.size
        placing = [column for column in shard.copies if column != home]
        if any(order[:1] == (home,) and order != shard.home.own for order in shard.home.orders) or home == 0:
            placing.append(0 if home is None else home)
        most = max(self._local.limits.split_rows, size // (2 * workers))
        found = []
        for column in sorted(placing):
            # Before they are split, all rows of a value are here; afterwards, an even part of them.
            values, counts = frequent_values(shard.at(column, home), column, -(-most // workers))
            found.append([np.full(values.size, column), values, counts])
        said = [np.concatenate(some) for some in zip(*found, strict=True)]
        gathered = self._mesh.exchange([said] * workers)
        common = {column: np.empty(0, np.int64) for column in placing}
        if gathered.parts:
            of, values, counts = (np.concatenate(some) for some in zip(*gathered.parts, strict=True))
            for column in placing:
                mine = of == column
                each, which = np.unique(values[mine], return_inverse=True)
                common[column] = each[np.bincount(which, counts[mine], each.size) >= most]
        return shard.split(common, home, self._bring(shard.relation))

    def _adding(self, number: int, rows: int) -> Shard:
        shard = self._shard(number)
        added = shard.adding(self._held[rows], self._bring(shard.relation))
        self._remember(shard, self._held[rows], added)
        return added

    def _remember(self, before: Shard, rows: RowSet, after: Shard) -> None:
        """What was sent home is known there, now that what it was found with has been added."""
        sent = self._sent.get(before.relation)
        if sent is None or sent.found is not rows.keys or sent.content is not before.content:
            return
        del self._sent[before.relation]
        known = self._known_elsewhere(before)
        told = Trace.of(sent.rows) if known is None else known.adding(sent.rows)
        self._known_there[before.relation] = Told(after.content, told)

    def _known_elsewhere(self, shard: Shard) -> Trace | None:
        told = self._known_there.get(shard.relation)
        return told.rows if told is not None and told.content is shard.content else None

    def _rest(self) -> None:
        """Forget what was sent: there is no telling when it will be of use again."""
        self._known_there.clear()
        self._sent.clear()

    def _removing(self, number: int, rows: int) -> Shard:
        shard = self._shard(number)
        return shard.removing(self._held[rows], self._bring(shard.relation))

    def _bring(self, relation: str) -> Bring:
        workers = self._mesh.size

        def bring(rows: RowSet, places: Sequence[tuple[int, Column]]) -> list[RowSet]:
            columns = rows.columns()
            parcels = [
                Parcel(
                    [columns] * workers
                    if column == EVERYWHERE
                    else split(columns, placed_by(columns, column, common, workers), workers)
                )
                for column, common in places
            ]
            return [self._joined(relation, gathered.parts) for gathered in self._mesh.exchange_all(parcels)]

        return bring

    def _pick(self, relation: str) -> Pick:
        def pick(rows: RowSet, column: int) -> RowSet:
            columns = rows.columns()
            mine = owners(columns[column], self._mesh.size) == self._mesh.me
            return self._joined(relation, [[column[mine] for column in columns]])

        return pick

    def _joined(self, relation: str, parts: Sequence[Sequence[Column]]) -> RowSet:
        if not parts:
            return self._local.no_rows(relation)
        columns = [np.concatenate(some) for some in zip(*parts, strict=True)]
        return self._local.rows(relation, columns, columns[0].size)

    def _standing(self, relation: str, number: int) -> RowSet:
        found: ShardView = self._held[number]
        return self._local.standing(found.at(None)).rows()

    def _view(self, relation: str, numbers: Numbers, without: int | None) -> ShardView:
        first, *others = (self._shard(number) for number in numbers)
        gone: tuple[Shard, ...] = ()
        if without is not None:
            gone = (self._shard(without).alike(first, self._homes[relation], self._bring(relation)),)
        parts = ((first, gone), *((shard, ()) for shard in others))
        return ShardView(parts, self._homes[relation])

    def _plus(self, number: int, others: Numbers) -> ShardView:
        view = self._held[number]
        assert isinstance(view, ShardView)
        return view.plus(*(self._shard(other) for other in others))

    # ---------------------------------------------------------------------------------------------------- homes

    def _owners(self, relation: str, columns: Sequence[Column], size: int) -> Workers:
        home = self._homes[relation]
        return np.zeros(size, np.intp) if home is None else owners(columns[home], self._mesh.size)

    def _owners_of(self, relation: str, rows: RowSet) -> Workers:
        """The same of rows as keys; of values that lie close together, it is written down for each."""
        home, layout = self._homes[relation], rows.packing
        if home is None:
            return np.zeros(len(rows), np.intp)
        field = layout.fields[home]
        if not layout.narrow or not 0 < field.bits <= OWNED_BITS:
            return self._owners(relation, layout.columns(rows.keys), len(rows))
        table = self._tables.get(field)
        if table is None:
            values = np.arange(field.lo, field.lo + (1 << field.bits))
            table = self._tables[field] = owners(values, self._mesh.size).astype(np.int16)
        shift, mask = layout.place(home)
        return table.take((rows.keys >> shift) & mask)

    def _sent_home(self, relation: str, rows: RowSet) -> RowSet:
        """The rows that are at home here, of those that all workers have."""
        columns = rows.columns() or [np.zeros(len(rows), np.int64)]
        at = self._owners(relation, columns, len(rows))
        gathered = self._mesh.exchange(split(columns, at, self._mesh.size))
        if not gathered.parts:
            return self._local.no_rows(relation)
        if not self._program.relations[relation].arity:
            return self._local.rows(relation, [], 1)
        return self._joined(relation, gathered.parts)

    def _counted_home(self, relation: str, counted: Counted) -> Waves[Counted]:
        """The counted rows that are at home here, of those that all workers have; numbers of equal rows added."""
        arity = self._program.relations[relation].arity
        columns = [*counted.rows().columns(), counted.weights.astype(np.int64)]
        at = self._owners(relation, columns, len(counted))
        (gathered,) = yield [Parcel(split(columns, at, self._mesh.size))]
        if not gathered.parts:
            return self._local.total(relation, [])
        came = [np.concatenate(some) for some in zip(*gathered.parts, strict=True)]
        layout = packing(fields_covering(came[:arity], self._local.fields[relation]), tuple(range(arity)))
        keys = layout.pack(came[:arity], came[-1].size)
        return Counted(layout, *join.summed(keys.copy(), came[-1], layout.bits))

    # ----------------------------------------------------------------------------------------- paths and neighbors

    def _everyones(self, told: Iterable[Sequence[Any]]) -> dict[str, list[Column]]:
        """The columns of what all workers have of some rows, by relation."""
        return {
            name: self._bring(name)(self._held[number], [(EVERYWHERE, NO_VALUES)])[0].columns() for name, number in told
        }

    def _paths(self, heads: Sequence[str], automaton: Any) -> SharedPaths:
        assert self._mesh.size == 1 or all(self._homes[head] == 0 for head in heads)
        module = Module("paths", tuple(heads), frozenset(), "", from_json(automaton))
        return SharedPaths(module, self._local.limits.matrix_nodes, self._mesh.size, self._mesh.me, self._local.collect)

    def _paths_learn(self, number: int, told: Iterable[Sequence[Any]]) -> None:
        self._held[number].learn(self._everyones(told))

    def _paths_add(self, number: int, told: Iterable[Sequence[Any]]) -> Any:
        return self._held[number].add(self._everyones(told))

    def _paths_remove(self, number: int, told: Iterable[Sequence[Any]], also: Iterable[Sequence[Any]]) -> Any:
        return self._held[number].remove(self._everyones(told), self._everyones(also))

    def _paths_parted(self, number: int, head: str, rows: int) -> tuple[RowSet, RowSet]:
        held: RowSet = self._held[rows]
        mask = self._held[number].holds(head, held.columns())
        return self._local.chosen(held, mask), self._local.chosen(held, ~mask)

    def _neighbors(self, order: Any, rows: int) -> RowSet:
        wanted: Neighbors = from_json(order)
        held: RowSet = self._held[rows]
        columns = held.columns()
        at = owners(columns[wanted.groups[0]], self._mesh.size) if wanted.groups else np.zeros(len(held), np.intp)
        gathered = self._mesh.exchange(split(columns, at, self._mesh.size))
        mine = self._joined(wanted.source, gathered.parts)
        found = self._local.neighbors(wanted, mine) if len(mine) else self._local.no_rows(wanted.relation)
        return self._sent_home(wanted.relation, found)
