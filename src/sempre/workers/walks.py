"""A walk over the rows of all workers: the first one gets what it needs, walks alone, and sends home what it found.

A chain of facts has nothing that could be done side by side, and each of its steps would be an exchange. So where there
are not many rows to read, the first worker gets them whole. What it got of versions that do not change is kept for as
long as walks go on reading it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from sempre.backends.local import LocalBackend
from sempre.backends.walk_code import WalkResult, walk
from sempre.data import dataclass
from sempre.kernel import compiled, join
from sempre.kernel.layout import fields_covering, packing
from sempre.kernel.tally import Counted, Tally
from sempre.kernel.trace import Order, RowSet, Trace, TraceView
from sempre.plan.ops import Plan, Read, probes
from sempre.workers.framing import Column
from sempre.workers.mesh import Mesh, Parcel
from sempre.workers.placing import EVERYWHERE, Workers, split
from sempre.workers.shards import ShardView

# The worker where each row of a relation is at home, given by columns.
OwnersOf = Callable[[str, Sequence[Column], int], Workers]
# A relation, and what some versions of it have: the same on all workers.
Content = tuple[object, ...]
# What a plan reads below its stratum, and the orders that it looks it up by.
Lookups = Mapping[tuple[str, Read], set[Order]]
# Not all columns of these rows are those of a relation: at last there are numbers beside them.
Sent = tuple[str, list[Column]]

# The program of the walker is loaded when it has been asked for so often: that takes half a second.
LOAD_ASKED = 16


@dataclass(frozen=True, slots=True)
class Request:
    """What a walk starts from and what it reads, as one worker has it; `whole` is what all workers have whole."""

    front: Mapping[str, RowSet]
    plans: Sequence[Plan]
    views: Mapping[tuple[str, Read], ShardView]
    whole: frozenset[tuple[str, Read]]
    present: Mapping[str, ShardView]
    deleting: Mapping[str, Tally] | None

    def lookups(self) -> Lookups:
        """What is read below the stratum."""
        found: dict[tuple[str, Read], set[Order]] = {}
        for plan in self.plans:
            for probe in probes(plan.steps[1:]):
                found.setdefault((probe.relation, probe.read), set()).add(probe.order)
        return found


class Walks:
    """The walks of one worker."""

    def __init__(self, local: LocalBackend, mesh: Mesh, owners_of: OwnersOf) -> None:
        self._local = local
        self._mesh = mesh
        self._owners_of = owners_of
        # Of all workers the same keys; what belongs to them, at the first one.
        self._kept: dict[Content, Trace | None] = {}
        self._asked = 0

    @property
    def nbytes(self) -> int:
        """The memory that kept rows take."""
        return sum(trace.nbytes for trace in self._kept.values() if trace is not None)

    def walk(self, request: Request) -> WalkResult | None:
        """What is at home here of what a walk finds; None, at all workers, where there can be none now."""
        alone = self._mesh.size == 1
        if not self._agreed(self._mesh.me > 0 or self._is_ready()):
            return None
        found = self._here(request) if alone else self._there(request)
        if not self._agreed(self._mesh.me > 0 or found is not None):
            return None
        if found is not None:
            self._local.instances += sum(int(counted.weights.sum()) for counted in found.counts.values())
        if found is not None and alone:
            return found
        return self._sent_home(list(request.present), found)

    def _is_ready(self) -> bool:
        """Whether what walks is loaded; whoever asks often will have it."""
        self._asked += 1
        if self._asked == LOAD_ASKED:
            compiled.load(compiled.WALKER, wait=True)
        return compiled.walker() is not None

    def _agreed(self, is_fine: bool) -> bool:
        """Whether all workers say so."""
        return not self._mesh.exchange([[]] * self._mesh.size, more=not is_fine).more

    def _here(self, request: Request) -> WalkResult | None:
        """A walk where all rows are at home here."""
        views = {key: request.views[key].at(None) for key in request.lookups()}
        present = {name: view.at(None) for name, view in request.present.items()}
        return walk(request.front, request.plans, views, present, request.deleting, self._local.values)

    # ------------------------------------------------------------------------------------- at the first worker

    def _there(self, request: Request) -> WalkResult | None:
        """A walk at the first worker, with the rows of all."""
        lookups = request.lookups()
        missing: dict[Content, RowSet] = {}
        kept: dict[Content, Trace | None] = {}
        for name, read in lookups:
            key = _content(request.views[name, read])
            if (name, read) in request.whole or key in kept:
                continue
            kept[key] = self._kept.get(key)
            if key not in self._kept:
                missing[key] = self._standing(request.views[name, read])
        sent = [(str(key[0]), _columns(rows)) for key, rows in missing.items()]
        sent += [(name, _columns(self._standing(view))) for name, view in request.present.items()]
        sent += [(name, _columns(rows)) for name, rows in request.front.items()]
        tallies = {} if request.deleting is None else request.deleting
        sent += [(name, _numbered(tally.entries())) for name, tally in tallies.items()]
        came = self._brought(sent)
        self._kept = kept
        if self._mesh.me:
            return None
        kept |= {key: Trace.of(self._rows(*next(came))) for key in missing}
        present = {name: TraceView.of(Trace.of(self._rows(*next(came)))) for name in request.present}
        front = {name: self._rows(*next(came)) for name in request.front}
        numbers = {name: self._tally(*next(came)) for name in tallies}
        views = {key: self._view(request, key, orders) for key, orders in lookups.items()}
        deleting = None if request.deleting is None else numbers
        return walk(front, request.plans, views, present, deleting, self._local.values)

    def _view(self, request: Request, key: tuple[str, Read], orders: set[Order]) -> TraceView:
        """What a plan reads by this name, with all rows."""
        view = request.views[key]
        if key in request.whole:
            return view.at(EVERYWHERE)
        trace = self._kept[_content(view)]
        assert trace is not None
        trace = self._kept[_content(view)] = trace.indexed(orders)
        return TraceView.of(trace)

    def _standing(self, view: ShardView) -> RowSet:
        return self._local.standing(view.at(None)).rows()

    def _brought(self, sent: Sequence[Sent]) -> Iterator[Sent]:
        """The same of all workers, at the first one, which makes room for the values."""
        workers = self._mesh.size
        parcels = [Parcel([columns if worker == 0 else [] for worker in range(workers)]) for _, columns in sent]
        gathered = self._mesh.exchange_all(parcels)
        found: list[Sent] = []
        for (name, columns), each in zip(sent, gathered, strict=True):
            parts = each.parts or [[column[:0] for column in columns]]
            found.append((name, [np.concatenate(some) for some in zip(*parts, strict=True)]))
        for name, columns in found:
            self._local.fit({name: columns[: self._arity(name)]})
        return iter(found)

    def _arity(self, name: str) -> int:
        return self._local.program.relations[name].arity

    def _rows(self, name: str, columns: Sequence[Column]) -> RowSet:
        size = columns[0].size
        if not size:
            return self._local.no_rows(name)
        return self._local.rows(name, columns[: self._arity(name)], size if self._arity(name) else 1)

    def _counted(self, name: str, columns: Sequence[Column]) -> Counted:
        """Rows with the numbers that are in the last column."""
        own = columns[: self._arity(name)]
        layout = packing(fields_covering(own, self._local.fields[name]), tuple(range(len(own))))
        return Counted(layout, *join.consolidate(layout.pack(own, columns[-1].size), columns[-1]))

    def _tally(self, name: str, columns: Sequence[Column]) -> Tally:
        return self._local.tally(name).adding(self._counted(name, columns))

    # ------------------------------------------------------------------------------------------------- and home

    def _sent_home(self, names: Sequence[str], found: WalkResult | None) -> WalkResult:
        """What the first worker found, each row where it is at home."""
        nothing = {name: self._local.no_rows(name) for name in names}
        none = {name: self._local.total(name, []) for name in names}
        found = WalkResult(nothing, nothing, none) if found is None else found
        sent = [(name, _columns(found.followed[name])) for name in names]
        sent += [(name, _columns(found.pending[name])) for name in names]
        sent += [(name, _numbered(found.counts[name])) for name in names]
        came: list[Sent] = []
        for (name, columns), gathered in zip(sent, self._mesh.exchange_all([*map(self._homeward, sent)]), strict=True):
            parts = gathered.parts or [[column[:0] for column in columns]]
            came.append((name, [np.concatenate(some) for some in zip(*parts, strict=True)]))
        each = len(names)
        followed, pending = (
            {name: self._rows(name, columns) for name, columns in some} for some in (came[:each], came[each : 2 * each])
        )
        return WalkResult(followed, pending, {name: self._counted(name, columns) for name, columns in came[2 * each :]})

    def _homeward(self, sent: Sent) -> Parcel:
        name, columns = sent
        at = self._owners_of(name, columns, columns[0].size)
        return Parcel(split(columns, at, self._mesh.size))


def _content(view: ShardView) -> Content:
    """What a view has: what has the same has the same rows."""
    parts = tuple((shard.content, *(other.content for other in gone)) for shard, gone in view.parts)
    return (view.parts[0][0].relation, *parts)


def _columns(rows: RowSet) -> list[Column]:
    """The columns of some rows; one of no meaning where there are none, which says how many rows there are."""
    return rows.columns() or [np.zeros(len(rows), np.int64)]


def _numbered(counted: Counted) -> list[Column]:
    return [*counted.rows().columns(), counted.weights.astype(np.int64)]
