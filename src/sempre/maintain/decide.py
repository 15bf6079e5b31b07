"""How and where a stratum is brought up to date: one decision, from rules, sizes and what was learned.

`decide` is asked before a stratum starts. It says where the stratum runs, by which strategy, whether the last epoch is
followed or everything derived again, which modules may take part, and why, with the numbers that this rests on. It is
asked again with `outgrown` when the place turns out to be too small. Two questions have their answers here too, and are
asked when their numbers are known: `paying_modules`, once there are first facts, and `upkeep`, after a run from
scratch. Nothing in this file looks at a relation or a clock.

For `auto` a stratum is maintained in one of two ways. `ranked` is the one for most. `dredc` is for strata that a module
closes, and for those that took many small rounds (long chains), which it follows row by row. Where a module shares its
stratum with other rules both ways are possible, and the one that has cost less is taken when the stratum is evaluated
again. Whether to maintain at all is decided by time: what changed rows have cost so far, by kind of change, is compared
with the last run from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol

from sempre.analysis.model import CheckedProgram, Relation, Stratum
from sempre.data import dataclass
from sempre.limits import DEFAULTS, Limits
from sempre.maintain.costs import COUNTERS, MODULAR, RANKED, History
from sempre.modules.spec import Module
from sempre.plan.backend import CLUSTER, DRIVER, WORKERS
from sempre.plan.ops import functions_of, relations_of
from sempre.rewrites.successors import shown

# A column in the kernel: eight bytes, sorted in about three orders.
VALUE_BYTES = 24

AUTO, RECOMPUTE, GROUPS, SORTED = "auto", "recompute", "dred", "seq"
GUARDED = "guarded"
SEARCH = "bf"
ELASTIC = "elastic"


# ---------------------------------------------------------------------------------------------- what it rests on


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """How many rows changed of what a stratum reads, how many it reads, and of what kind the change is."""

    rows: int
    read: int
    kind: str


class StratumSizes(Protocol):
    """How large things are. On the cluster it may take a job to find out, so nothing is asked in advance."""

    def rows(self, relation: str) -> int:
        """The rows of a relation that the stratum reads, or the explicit facts of one of its own."""
        ...

    def before(self, relation: str) -> int:
        """The rows that a relation of the stratum had before the epoch."""
        ...

    def change(self) -> ChangeSize:
        """The change that the stratum has to follow."""
        ...


class OnePass(Protocol):
    """One pass over a whole stratum that can be made."""

    @property
    def reason(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Choices:
    """What there is to choose from, and what the user has chosen already.

    `place` is the only one there is, or that was asked for. `modules` are those of the stratum. `closes` says whether
    the stratum can be closed in one pass; None where nothing can. Strategies that are `forgetful` can go on after that.
    `workers` is how many bytes workers have room for, 0 if there are none; `no_workers` says why those that were asked
    for cannot be had. `follows` says whether it is worth trying to follow a small change of a stratum on the cluster in
    the driver; None where nothing can, or where it was tried in vain.
    """

    program: CheckedProgram
    strategy: str = AUTO
    place: str | None = DRIVER
    budget: int = 0
    modules: tuple[Module, ...] = ()
    closes: Callable[[Stratum, StratumSizes], OnePass | None] | None = None
    forgetful: Collection[str] = ()
    limits: Limits = DEFAULTS
    follows: Callable[[Stratum, ChangeSize], bool] | None = None
    workers: int = 0
    no_workers: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Where and how a stratum is brought up to date.

    With `update`, the stratum goes on from what is remembered of it, else it begins anew. `modules` may take part, as
    far as they are `paying_modules`. With `one_pass`, all of the stratum is closed at once. `why` has the numbers, and
    `note` is what the report of the whole epoch repeats of it.

    With `followed`, the stratum is on the cluster, and its small `change` is followed in the driver, without jobs. That
    may be given up, and then it is decided again.

    For `auto`, `change` is what there is to follow, `history` what is known from now on, and `seconds` what an update
    may take at least, since it is known to take long; with `recompute` it derives everything again.
    """

    place: str
    strategy: str
    modules: tuple[Module, ...] = ()
    one_pass: OnePass | None = None
    why: str = ""
    update: bool = False
    seconds: float = 0.0
    note: str = ""
    history: History | None = None
    change: ChangeSize | None = None
    followed: bool = False


# ------------------------------------------------------------------------------------------------ the decision


def decide(
    stratum: Stratum,
    sizes: StratumSizes,
    history: History | None,
    options: Choices,
    home: str | None = None,
    outgrown: str = "",
) -> Decision:
    """How to bring a stratum up to date.

    `home` is where it is; None if it was never evaluated. `outgrown` says why the driver turned out too small.
    """
    place, note = _place(stratum, sizes, options, home, outgrown)
    strategy = strategy_for(stratum, options, place)
    made = Decision(place, strategy, options.modules, why=note, note=note)
    stayed = home == place
    small = _small_change(stratum, sizes, options) if stayed and place == CLUSTER else None
    if small is not None:
        by = GROUPS if strategy == GROUPS else SEARCH
        near = f"{small.rows:,} rows ({small.kind}) are followed in the driver"
        return replace(made, strategy=by, modules=(), why=_joined(note, near), update=True, change=small, followed=True)
    fresh = not stayed or options.strategy in (AUTO, RECOMPUTE)
    if place == CLUSTER and options.closes is not None and strategy in options.forgetful and fresh:
        # `auto` takes one pass over following a change, which takes several jobs, and a few more per round.
        one_pass = options.closes(stratum, sizes)
        if one_pass is not None:
            inside = f"{shown(stratum.relations)} inside of tasks: {one_pass.reason}"
            return replace(made, modules=(), one_pass=one_pass, why=_joined(note, inside), note=_joined(note, inside))
        if (
            home is not None
            and not stratum.recursive
            and (read := _read(stratum, sizes)) <= options.limits.one_pass_rows
        ):
            return replace(made, strategy=RECOMPUTE, why=_joined(note, f"it reads {read:,} rows: about one job"))
    if not stayed:
        moved = "" if home is None else f"what it remembers is of the {home}"
        return replace(made, why=_joined(note, moved))
    if strategy != AUTO or history is None:
        return replace(made, update=strategy != RECOMPUTE)
    return _followed(stratum, sizes, history, made, options.limits)


def strategy_for(stratum: Stratum, options: Choices, place: str = DRIVER) -> str:
    """The name of the strategy: strata with aggregates in heads have only two ways, neighbors one.

    On workers and on the cluster `auto` has one way too. On workers that is by ranks, with which small deletions delete
    less than with counters, but where modules may take part.
    """
    if any(module.order is not None for module in options.modules):
        return SORTED
    if is_guarded(stratum, options.program):
        return GUARDED
    aggregates = any(options.program.relations[name].aggregate is not None for name in stratum.relations)
    chosen = options.strategy
    if chosen == AUTO and place != DRIVER:
        chosen = RANKED if place == WORKERS and not options.modules else COUNTERS
    return GROUPS if aggregates and chosen != RECOMPUTE else chosen


def is_guarded(stratum: Stratum, program: CheckedProgram) -> bool:
    """Whether a relation of the stratum does not keep all rows: then it is evaluated again, in the driver."""
    return any(name in program.guards for name in stratum.relations)


def calls_python(stratum: Stratum) -> bool:
    """Whether a rule of the stratum calls a Python function, which this process alone has."""
    return any(functions_of(rule) for rule in (*stratum.nonrecursive, *stratum.recursive))


def _small_change(stratum: Stratum, sizes: StratumSizes, options: Choices) -> ChangeSize | None:
    """What changed of a stratum on the cluster, if that can be followed in the driver.

    By strategies that remember nothing: counters of whole relations are on the cluster.
    """
    strategy = strategy_for(stratum, options, CLUSTER)
    remembers_nothing = strategy in (SEARCH, GROUPS) or (options.strategy == AUTO and strategy == COUNTERS)
    if options.follows is None or not remembers_nothing:
        return None
    change = sizes.change()
    return change if change.rows <= options.limits.followed_rows and options.follows(stratum, change) else None


def _followed(stratum: Stratum, sizes: StratumSizes, history: History, made: Decision, limits: Limits) -> Decision:
    """Whether `auto` follows a change in the driver, or derives everything again."""
    way = history.way
    by = way.removesuffix(" with modules")
    if history.certain:
        why = f"{way}: one module does all the recursion"
        return Decision(made.place, by, made.modules, None, why, True, history=history)

    def again(why: str, known: History | None = None) -> Decision:
        known = known or history
        modules = modules_after(known, made.modules)
        note = f"{', '.join(stratum.relations)} recomputed: {why}"
        return Decision(made.place, RECOMPUTE, modules, None, why, True, 0.0, note, known)

    change = sizes.change()
    if 0 < change.rows <= max(limits.bulk_share * change.read, limits.unprepared_rows):
        history = history.noted(change.kind, change.rows)
    rows = f"{change.rows:,} rows ({change.kind})"
    if history.forgotten and change.kind != "insert" and not closes_alone(stratum, made.modules):
        return again("nothing is remembered of it")
    if way == MODULAR and history.avoids_modules():
        return again(f"updates with modules have taken {history.since:.2f} s, as much as a run from scratch")
    if history.excess > max(history.full_seconds, limits.time_moment):
        return again(f"updates by {way} have taken {history.excess:.2f} s more than by {history.other}")
    kind = change.kind
    alike = history.knows(kind, change.rows, limits.similar_share)
    most = limits.recursive_share if stratum.recursive and not alike else limits.change_share
    most = limits.grown_rows_share if kind == "insert" else most
    if change.rows > most * change.read and change.rows > limits.change_rows:
        return again(f"the change has {change.rows:,} rows and the stratum reads {change.read:,}")
    expected, known = history.expected(kind, change.rows, limits.similar_share)
    if not known and kind == "mixed" and history.costs.get("delete"):
        kind = "delete"  # what goes costs more than what comes
        expected, known = history.expected(kind, change.rows, limits.similar_share)
    if kind == "insert" and expected is not None and not alike:
        expected = min(expected, history.full_seconds)  # it finds what is new once, as a run does
    if history.unprepared and kind != "insert" and change.rows > limits.unprepared_rows:
        if expected is None:
            dear = history.preparing > limits.prepared_share * history.full_seconds
        else:
            dear = history.preparing + expected > limits.avoided_share * history.full_seconds
        if dear and history.preparing > limits.time_moment:
            return again(
                f"maps for {rows} would take {history.preparing:.2f} s first, and a run from scratch takes "
                f"{history.full_seconds:.2f} s",
                replace(history, preparing=history.preparing * limits.fading_share),
            )
    too_long = max(limits.avoided_share * history.full_seconds, limits.time_moment)
    if expected is not None and expected > too_long and history.is_near(kind, change.rows, limits.guessed_share):
        return again(
            f"{change.rows:,} changed rows ({change.kind}) are expected to take {expected:.2f} s, "
            f"and a run from scratch takes {history.full_seconds:.2f} s",
            history.faded(kind, limits.fading_share),
        )
    if expected is not None and expected > limits.expected_share * history.full_seconds:
        why, allowed = f"{way}: {rows} may take as long as a run from scratch", 0.0
    elif expected is None or not known:
        why, allowed = f"{way}: it is not known what {rows} cost", 0.0
    else:
        allowed = min(limits.expected_slack * expected, limits.expected_share * history.full_seconds)
        why = f"{way}: {rows} are expected to take {expected:.3f} s"
    why += f", and a run from scratch takes {history.full_seconds:.3f} s"
    return Decision(made.place, by, made.modules, None, why, True, allowed, "", history, change)


def _joined(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


# ----------------------------------------------------------------------------------------------------- places


def _place(stratum: Stratum, sizes: StratumSizes, options: Choices, home: str | None, outgrown: str) -> tuple[str, str]:
    """Where a stratum should run, given how large what it reads is, and where it is now; and why, if that is far."""
    if options.place != DRIVER and (is_guarded(stratum, options.program) or calls_python(stratum)):
        return DRIVER, ""
    if options.place is not None:
        return options.place, ""
    names, needed = shown(stratum.relations), needed_bytes(options.program, stratum, sizes.rows)
    if outgrown:
        place = WORKERS if 0 < needed <= options.workers else CLUSTER
        return place, f"{names} again on {shown_place(place)}: {outgrown}"
    return placed(names, needed, options.budget, home, options.limits, options.workers, options.no_workers)


def placed(
    names: str,
    needed: int,
    budget: int,
    home: str | None,
    limits: Limits,
    workers: int = 0,
    no_workers: str = "",
) -> tuple[str, str]:
    """Where so many bytes belong, and why, if that is far: once they are far, until little is left of them.

    `workers` is what workers have room for; 0 if there are none, and then `no_workers` may say why.
    """
    share = limits.return_share
    if needed <= budget * (share if home in (WORKERS, CLUSTER) else 1):
        return DRIVER, ""
    place = WORKERS if needed <= workers * (share if home == CLUSTER else 1) else CLUSTER
    if needed <= budget:
        far = f"{names} still on {shown_place(place)}: about {needed:,} bytes"
        return place, f"{far}, more than a quarter of the budget"
    why = f"{names} on {shown_place(place)}: about {needed:,} bytes, and the budget is {budget:,}"
    if place == CLUSTER and workers:
        why += f", that of workers {workers:,}"
    return place, f"{why}; no workers: {no_workers}" if place == CLUSTER and no_workers else why


def shown_place(place: str) -> str:
    """A place as sentences have it."""
    return place if place == WORKERS else f"the {place}"


def needed_bytes(program: CheckedProgram, stratum: Stratum, rows: Callable[[str], int]) -> int:
    """The bytes that a stratum may take in the driver: what it reads, once per rule that reads it, and itself."""
    bodies = [relations_of(rule.body) for rule in (*stratum.nonrecursive, *stratum.recursive)]
    names = [name for body in (*bodies, set(stratum.relations)) for name in body]
    return sum(bytes_of(program.relations[name], rows(name)) for name in names)


def bytes_of(relation: Relation, rows: int) -> int:
    """About what rows of a relation take in the driver."""
    return rows * max(1, relation.arity) * VALUE_BYTES


def _read(stratum: Stratum, sizes: StratumSizes) -> int:
    """The rows that a stratum without recursion reads, its own included: they are compared with what it derives."""
    below = set().union(*(relations_of(rule.body) for rule in stratum.nonrecursive))
    return sum(map(sizes.rows, below)) + sum(map(sizes.before, stratum.relations))


# ---------------------------------------------------------------------------------------------------- modules


def modules_after(history: History | None, modules: tuple[Module, ...]) -> tuple[Module, ...]:
    """The modules of a stratum that may take part when it is derived again, given what they have cost."""
    return () if history is not None and history.avoids_modules() else modules


def closes_alone(stratum: Stratum, modules: Sequence[Module]) -> bool:
    """Whether modules can do all the recursion of a stratum."""
    owned = frozenset().union(*(module.rules for module in modules))
    return all(rule.number in owned for rule in stratum.recursive)


@dataclass(frozen=True, slots=True)
class ModuleSize:
    """What a module would start from: how many edges, values at their ends, and sources that it is asked for."""

    edges: int
    values: int
    sources: int


def paying_modules(
    stratum: Stratum, modules: Sequence[Module], measure: Callable[[Module], ModuleSize | None], limits: Limits
) -> tuple[tuple[Module, ...], str]:
    """The modules that are expected to pay, and why others do not; `measure` gives None where nothing is known yet.

    Components always do, and closures on their own: the rules they replace are cubic. So do those that the user has
    written: they were asked for. Linear rules are not: a matrix
    must fit, and be asked for more than a few rows. A closure among generic rules is swept over in many rounds, so its
    matrix must not be large.
    """
    alone = closes_alone(stratum, modules)
    paying, reasons = [], []
    for module in modules:
        surely = module.own is not None or module.kind == "stc" or (module.kind == "tc" and alone)
        size = None if surely else measure(module)
        reason = "" if size is None else _does_not_pay(module, size, limits)
        if reason:
            reasons.append(f"{module} is left out: {reason}")
        else:
            paying.append(module)
    return tuple(paying), "; ".join(reasons)


def why_not_shared(stratum: Stratum, modules: Sequence[Module], edges: Callable[[Module], int], limits: Limits) -> str:
    """Why modules cannot work where several processes share the sources of paths; empty if they can.

    Each process has all edges, and searches from its own values. Which facts are certain while others are in doubt no
    process knows by itself, so nothing else may take part in the recursion.
    """
    named = f"{' and '.join(map(str, modules))} {'is' if len(modules) == 1 else 'are'}"
    if any(module.own is not None for module in modules):
        return f"{named} left out: workers search for paths, and know no other modules"
    if len(modules) > 1 or not closes_alone(stratum, modules):
        return f"{named} left out: on workers one module must do all the recursion of a stratum"
    found = edges(modules[0])
    if found > limits.copied_rows:
        return f"{named} left out: {found:,} edges are too many to copy to every worker"
    return ""


def _does_not_pay(module: Module, size: ModuleSize, limits: Limits) -> str:
    """Why a module does not pay; empty if it does."""
    if module.kind == "tc":
        swept = size.edges * size.values
        swept_far = swept > limits.swept_bits
        return f"every round would sweep over {swept:,} bits, and other rules make many" if swept_far else ""
    assert module.paths is not None
    nodes = size.values * module.paths.states
    if nodes > limits.matrix_nodes:
        return f"a matrix of {nodes:,} nodes is too large"
    asked = f"it is asked for {size.sources:,} of {size.values:,} values"
    return asked if size.sources * limits.few_sources < size.values else ""


# ----------------------------------------------------------------------------------------------------- upkeep


def upkeep(modular: bool, walked: bool, rounds: int, limits: Limits) -> tuple[str, str]:
    """The strategy by which `auto` maintains a stratum after a run from scratch, and why."""
    if modular:
        return COUNTERS, "modules take part"
    if walked:
        return COUNTERS, "long chains were followed row by row"
    if rounds > limits.many_rounds:
        return COUNTERS, f"{rounds:,} rounds"
    return RANKED, f"{rounds:,} round{'' if rounds == 1 else 's'}"
