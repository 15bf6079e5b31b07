"""Semi-naive evaluation of one stratum.

Every rule instance is considered exactly once: instances over lower strata alone by the full plans of nonrecursive
rules, all others in the round after their last fact was found, by the delta plan of that fact's atom.

Reference: [Hu22] Alg. 1, [Zhao] Alg. 1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sempre.analysis.model import CheckedProgram, Match, NormalRule, Relation, Stratum
from sempre.data import dataclass
from sempre.maintain.modular import Exchange
from sempre.maintain.narrowing import Narrowed, Narrowing
from sempre.maintain.planning import Plans, pivot_relation, pivots
from sempre.maintain.states import ViewDict, read_alike, read_step
from sempre.maintain.strategy import nonempty
from sempre.plan.backend import Backend, Counted, Executable, Rows, Version
from sempre.plan.ops import Order, Pivot, Read, Step

Round = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Job:
    """One delta plan to run while its pivot's relation changes."""

    rule: NormalRule
    pivot: Pivot
    reads: str


def jobs_by_head(stratum: Stratum) -> dict[str, list[Job]]:
    """The delta plans of the recursive rules, by head relation."""
    found: dict[str, list[Job]] = {}
    for rule in stratum.recursive:
        for pivot in pivots(rule, stratum.relations):
            found.setdefault(rule.relation, []).append(Job(rule, pivot, pivot_relation(rule, pivot)))
    return found


def keeps_best(relation: Relation) -> bool:
    """Whether the relation keeps the `min` or `max` of each group."""
    return relation.aggregate is not None and relation.aggregate[0] in ("min", "max")


def keeps_total(relation: Relation) -> bool:
    """Whether the relation keeps the `sum` or `count` of each group; such a relation is never recursive."""
    return relation.aggregate is not None and not keeps_best(relation)


class Fixpoint:
    """The rounds of one stratum, from a first change to the least fixpoint."""

    def __init__(
        self,
        backend: Backend,
        plans: Plans,
        program: CheckedProgram,
        stratum: Stratum,
        on_round: Round,
        walking: bool = True,
        exchange: Exchange | None = None,
        counting: bool = False,
        narrowing: bool = False,
        counters: bool = False,
    ) -> None:
        self._backend = backend
        self._limits = backend.limits
        self._exchange = exchange
        # A walk goes through many rounds, in which modules would want their turn.
        self._walking = walking and not exchange
        self.walked = False
        self._small = 0
        self._keeps_best = {name for name in stratum.relations if keeps_best(program.relations[name])}
        self._plans = plans
        self._stratum = stratum
        self._jobs = jobs_by_head(stratum)
        # Only where all rows are new is it worth looking through all of them, and rows never leave.
        self._narrowing = Narrowing(backend, plans) if narrowing and not self._keeps_best else None
        self._on_round = on_round
        self._views: ViewDict = {}
        self._ready: dict[str, list[tuple[str, Executable]]] = {}
        self._orders: dict[tuple[str, Read], set[Order]] = {}
        self._sizes: dict[str, int] = {}
        self.rounds = 0
        # Every row that came or went, with the round, for callers who want the net change or ranks.
        self.touched: dict[str, list[tuple[int, Rows]]] = {name: [] for name in stratum.relations}
        # With `counting`, the instances that derive each fact in the round in which it is new.
        self.supports: dict[str, list[Counted]] | None = {name: [] for name in stratum.relations} if counting else None
        # With `counters` too, all instances, each of them in the round in which it is found. None after a walk, and
        # where there are many more than facts: then counters take long to make, and to keep.
        self.counted: dict[str, list[Counted]] | None = None
        if counting and counters:
            self.counted = {name: [] for name in stratum.relations}
        # Only then somebody wants to know how many there were: to ask workers is a round trip.
        self._instances, self._found = 0 if self.counted is None else backend.instances, 0

    def run(self, state: dict[str, Version], delta: dict[str, Rows]) -> None:
        """Close `state` under the recursive rules. `delta` has facts that are not in it yet; they are added."""
        old = {name: state[name] for name in self._stratum.relations}
        self._found = sum(map(len, delta.values()))
        while delta := self._turns(delta, old):
            if self._jobs and self._outgrown(old, delta):
                self._prepare(state, old, delta)
            walked = self._walk(old, delta)
            if walked is not None:
                delta = walked
                continue
            new = self._advance(old, delta)
            self.rounds += 1
            self._on_round(self.rounds, sum(len(rows) for rows in delta.values()))
            following = self._step(old, new, delta) if self._jobs else {}
            old, delta = new, following
        state.update(old)

    def _turns(self, delta: Mapping[str, Rows], old: Mapping[str, Version]) -> dict[str, Rows]:
        """The delta after every module had its turn."""
        if self._exchange is None:
            return nonempty(self._backend, delta)
        return self._exchange.add(delta, lambda name: self._backend.view(old[name]))

    def _walk(self, old: dict[str, Version], delta: dict[str, Rows]) -> dict[str, Rows] | None:
        """Follow a small delta row by row, once rounds have been small for a while; adds to `old` what it found."""
        if (
            not self._walking
            or self.rounds < self._limits.walk_after
            or self._keeps_best
            or self._narrowed  # rules with several atoms of the stratum, which nobody can walk
            or not self._is_chain(old, delta)
        ):
            return None
        plans = [executable for ready in self._ready.values() for _, executable in ready]
        present = {name: self._backend.view(version) for name, version in old.items()}
        walked = self._backend.walk(delta, plans, self._views, present, None)
        if walked is None:
            return None
        self.walked = True
        self.counted = None
        self.rounds += 1
        for name in old:
            came = [walked.followed[name], *([delta[name]] if name in delta else [])]
            old[name] = old[name].adding(self._backend.union(came))
            self.touched[name] += [(self.rounds, rows) for rows in came]
        self._on_round(self.rounds, sum(map(len, walked.followed.values())))
        return {name: rows for name, rows in walked.pending.items() if len(rows)}

    def _is_chain(self, old: Mapping[str, Version], delta: Mapping[str, Rows]) -> bool:
        """Whether rounds are small, and have been for a while."""
        limits = self._limits
        self._small = self._small + 1 if sum(map(len, delta.values())) <= limits.walk_front else 0
        return self._small > (limits.walk_tail if sum(map(len, old.values())) > limits.walk_facts else 0)

    def _advance(self, old: dict[str, Version], delta: dict[str, Rows]) -> dict[str, Version]:
        """The versions with `delta`; rows that it replaces leave `old`, rows that do not improve leave `delta`."""
        new = dict(old)
        for name in list(delta):
            if name in self._keeps_best:
                delta[name], replaced = self._backend.improvement(name, delta[name], old[name])
                old[name] = old[name].removing(replaced)
                self.touched[name].append((self.rounds, replaced))
                if not len(delta[name]):
                    del delta[name]
                    continue
            new[name] = old[name].adding(delta[name])
            self.touched[name].append((self.rounds + 1, delta[name]))
        return new

    def _step(
        self, old: Mapping[str, Version], new: Mapping[str, Version], delta: Mapping[str, Rows]
    ) -> dict[str, Rows]:
        """One round: what the recursive rules derive from `delta` and `new` does not have."""
        views, backend = self._views, self._backend
        for name in self._stratum.relations:
            only = None
            if name in delta:
                only = backend.view(backend.version(delta[name], self._orders.get((name, Read.ONLY), ())))
            read_step(views, name, backend.view(new[name]), backend.view(old[name]), only)
        present = {*delta, *self._step_narrowed(delta)}
        following: dict[str, Rows] = {}
        for head, ready in self._ready.items():
            plans = [executable for reads, executable in ready if reads in present]
            if plans and self.supports is not None:
                counted = self._supports(head, plans, new[head])
                self.supports[head].append(counted)
                following[head] = counted.rows()
            elif plans:
                following[head] = backend.derive(head, plans, views, new[head])
        backend.settle(following.values())
        return {head: rows for head, rows in following.items() if len(rows)}

    def _supports(self, head: str, plans: Sequence[Executable], known: Version) -> Counted:
        """The new facts of a round, with the instances that derive each."""
        backend = self._backend
        if self.counted is None:
            return backend.supports(head, plans, self._views, known)
        found = backend.supports(head, plans, self._views, backend.empty(head))
        self.counted[head].append(found)
        fresh = backend.excluded(found, known)
        self._found += len(fresh)
        many = self._limits.counted_share * max(self._found, self._limits.affected_rows)
        if backend.instances - self._instances > many:
            self.counted = None
        return fresh

    def _step_narrowed(self, delta: Mapping[str, Rows]) -> list[str]:
        """The same round of the narrowed relations: those that have new rows."""
        backend, found = self._backend, []
        for held in self._narrowed:
            before, only = held.version, None
            rows = held.of(delta[held.source]) if held.source in delta else None
            if rows is not None and len(rows):
                only = backend.view(backend.version(rows, self._orders.get((held.name, Read.ONLY), ())))
                held.version = before.adding(rows)
                found.append(held.name)
            read_step(self._views, held.name, backend.view(held.version), backend.view(before), only)
        return found

    @property
    def _narrowed(self) -> Collection[Narrowed]:
        return () if self._narrowing is None else self._narrowing.held.values()

    def _outgrown(self, old: Mapping[str, Version], delta: Mapping[str, Rows]) -> bool:
        """Whether some relation has changed so much in size that the plans should be looked at again."""
        slack = self._limits.replan_bits
        for name, rows in delta.items():
            bits = (len(old[name]) + len(rows)).bit_length()
            if abs(self._sizes.get(name, -slack) - bits) >= slack:
                return True
        return False

    def _prepare(self, state: dict[str, Version], old: dict[str, Version], delta: Mapping[str, Rows]) -> None:
        """Plans for the present sizes, and the indexes they need."""
        backend = self._backend
        expected = {**state, **old}
        for name, rows in delta.items():
            if len(rows) > len(old[name]):
                expected[name] = backend.version(rows)
        self._sizes = {name: (len(old[name]) + len(delta.get(name, ()))).bit_length() for name in old}
        jobs = self._jobs if self._narrowing is None else self._narrowed_jobs(self._narrowing, old, expected)
        self._ready = {
            head: [(job.reads, self._plans.delta(job.rule, job.pivot, expected)) for job in some]
            for head, some in jobs.items()
        }
        self._orders = self._plans.needed_orders((job.rule, job.pivot) for some in jobs.values() for job in some)
        narrowed = {held.name: held for held in self._narrowed}
        for name in {name for name, _ in self._orders}:
            if name in narrowed:
                narrowed[name].version = narrowed[name].version.indexed(self._lookups(name))
            elif name in old:
                old[name] = old[name].indexed(self._lookups(name))
            else:
                state[name] = state[name].indexed(self._lookups(name))
                read_alike(self._views, name, backend.view(state[name]))

    def _narrowed_jobs(
        self, narrowing: Narrowing, old: Mapping[str, Version], expected: dict[str, Version]
    ) -> dict[str, list[Job]]:
        """The delta plans to run, with narrowed atoms where that pays; `expected` gets what these have."""
        rules: dict[int, tuple[NormalRule, list[tuple[Step, ...]]]] = {}
        for job in (job for some in self._jobs.values() for job in some):
            # An atom that is looked up is beside one that the plan starts from.
            if len(pivots(job.rule, self._stratum.relations)) > 1:
                steps = self._plans.delta(job.rule, job.pivot, expected).plan.steps
                rules.setdefault(job.rule.number, (job.rule, []))[1].append(steps)
        made = narrowing.rewritten(rules, frozenset(self._stratum.relations), old, expected)

        def job_for(job: Job) -> Job:
            rule = made.get(job.rule.number)
            return job if rule is None else Job(rule, job.pivot, pivot_relation(rule, job.pivot))

        return {head: [job_for(job) for job in some] for head, some in self._jobs.items()}

    def _lookups(self, name: str) -> set[Order]:
        """The orders that standing versions of a relation are looked up by."""
        reads = (Read.HERE, Read.THERE, Read.BOTH)
        return set().union(*(self._orders.get((name, read), ()) for read in reads))


def first_facts(
    backend: Backend,
    plans: Plans,
    program: CheckedProgram,
    stratum: Stratum,
    state: dict[str, Version],
    explicit: Mapping[str, Version],
) -> dict[str, Rows]:
    """The explicit facts of a stratum and what its nonrecursive rules derive from the strata below."""
    by_head: dict[str, list[NormalRule]] = {name: [] for name in stratum.relations}
    for rule in stratum.nonrecursive:
        if _has_rows(rule, state):  # or there is no need of a plan
            by_head[rule.relation].append(rule)
    found: dict[str, Rows] = {}
    for head, rules in by_head.items():
        ready = [plans.full(rule, state) for rule in rules]
        views: ViewDict = {}
        for (name, read), orders in plans.needed_orders((rule, None) for rule in rules).items():
            state[name] = state[name].indexed(orders)
            views[name, read] = backend.view(state[name])
        given = explicit[head].rows()
        if keeps_total(program.relations[head]):
            counted = backend.total(head, [backend.once(given), backend.count(head, ready, views)])
            found[head] = backend.totals(head, counted)
        else:
            found[head] = backend.union([given, backend.derive(head, ready, views, explicit[head])])
    return found


def _has_rows(rule: NormalRule, state: Mapping[str, Version]) -> bool:
    """Whether every relation that the rule joins has facts; without, it has no instance."""
    return all(len(state[literal.relation]) for literal in rule.body if isinstance(literal, Match))
