"""What the options of a database mean, and which are refused."""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import CheckedProgram, Fact, NormalRule
from sempre.backends.local import LocalBackend
from sempre.data import dataclass
from sempre.diagnostics import BackendError, Diagnostic, ProgramError, StateError
from sempre.engine import Progress
from sempre.limits import DEFAULTS, Limits
from sempre.maintain.decide import ELASTIC
from sempre.maintain.strategy_names import MODULAR_STRATEGIES, STRATEGY_NAMES
from sempre.modules.choice import ModuleChoice, Wanted, chosen_modules
from sempre.modules.find import Modular
from sempre.places import Places
from sempre.plan.backend import sealed
from sempre.plan.ops import functions_of
from sempre.python_functions import REGISTERED
from sempre.sizes import parse_size

if TYPE_CHECKING:
    from sempre.spark.cluster.spark_backend import SparkBackend
    from sempre.workers.crew import Crew
    from sempre.workers.workers_backend import WorkersBackend

PLACES = ("auto", "driver", "workers", "cluster")


@dataclass(frozen=True, slots=True)
class Options:
    """The expert knobs of a database, and who is told of progress."""

    strategy: str
    modules: Wanted
    place: str
    threads: int | None
    memory: str | int | None
    cycles: int | None = None
    progress: Callable[[Progress], None] | None = None
    limits: Limits = DEFAULTS
    switch: float | str | None = None
    check_modules: bool = False
    workers: int | None = None
    profile: bool = False

    def to_open(self) -> dict[str, Any]:
        """Those that another state of the same database is opened with."""
        names = ("strategy", "modules", "place", "threads", "memory", "limits", "switch", "check_modules", "workers")
        return {name: getattr(self, name) for name in names}


def check_options(strategy: str, place: str, semantics: str | None) -> None:
    known = sorted(STRATEGY_NAMES)
    if strategy not in known:
        raise StateError(f"unknown strategy `{strategy}`", hint=f"Use one of: {', '.join(known)}.")
    if place not in PLACES:
        raise BackendError(f"unknown place `{place}`", hint=f"Use one of: {', '.join(PLACES)}.")
    if semantics not in (None, "stratified", "active"):
        raise StateError(f"unknown semantics `{semantics}`", hint="Use `stratified` or `active`.")


def check_amounts(threads: int | None, workers: int | None, memory: str | int | None, place: str) -> None:
    if workers is not None and place not in ("auto", "workers"):
        hint = (
            'Use place "auto" or "workers", or leave it out; `threads` is how many threads this process computes with.'
        )
        raise BackendError(f"`workers` has no effect with place `{place}`", hint=hint)
    if workers is not None and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 1):
        raise StateError(f"`workers` is {workers!r}", hint="Use a whole number from 1, or leave it out.")
    if memory is not None and place == "workers":
        raise StateError("`memory` has no effect with place `workers`", hint="Leave it out.")
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
        raise StateError(f"`threads` is {threads!r}", hint="Use a whole number from 1, or leave it out.")
    parse_size(memory)


def check_switch(strategy: str, switch: float | str | None) -> float | None:
    """The share of a run from scratch that an update of `elastic` may take, as a number."""
    if switch is None:
        return None
    if strategy != ELASTIC:
        raise StateError(f"`switch` is for strategy `{ELASTIC}`, and this is `{strategy}`", hint="Leave it out.")
    if switch == "never":
        return math.inf
    try:
        share = float(switch)
    except (TypeError, ValueError):
        share = math.nan
    if isinstance(switch, bool) or not share >= 0:
        hint = "Use a share of a run from scratch, such as 0.2, or `never`; 0 is for always starting again."
        raise StateError(f"`switch` is {switch!r}", hint=hint)
    return share


def check_store(store: Any, epoch: int | None, migrate: bool) -> None:
    """Refuse what only stores have, without one."""
    for name, given in (("epoch", epoch is not None), ("migrate", migrate)):
        if given and store is None:
            raise StateError(f"`{name}` is for databases in stores", hint="Name the store: `store=DIRECTORY`.")


def check_stratified(cycles: int | None, memory: str | int | None, spark: Any) -> None:
    """Refuse what has no effect on rules that do not run in cycles."""
    if cycles is not None:
        raise StateError("`cycles` is for active rules, and these are stratified", hint="Leave it out.")
    if memory is not None and spark is None:
        hint = (
            "Leave it out; with a session, it is how much may be evaluated in this process instead of on the cluster."
        )
        raise StateError("`memory` has no effect without a Spark session", hint=hint)


def check_guards(program: CheckedProgram, place: str) -> None:
    """Refuse places where relations cannot choose which rows they keep."""
    if program.guards and place in ("workers", "cluster"):
        name, guard = next(iter(program.guards.items()))
        hint = 'Use `place="auto"`: then these relations are in the driver, and others where they fit.'
        raise BackendError(f"`{name}` ({guard.what}) cannot be evaluated on the {place}", hint=hint)


def check_functions(program: CheckedProgram, place: str) -> None:
    """Refuse functors and aggregates that no Python function is registered for."""
    computed = (fact for fact in program.facts if fact.text)  # facts of literals call nothing
    calling: tuple[NormalRule | Fact, ...] = (*program.rules, *computed)
    for rule in calling:
        for name, aggregates in sorted(functions_of(rule)):
            what = "aggregate" if aggregates else "functor"
            if name not in REGISTERED or REGISTERED[name].aggregates != aggregates:
                hint = f"Decorate a function with `@sempre.{what}` before, or name its file: `--functors FILE.py`."
                message = f"no Python function is registered for the {what} `@{name}`"
                raise ProgramError([Diagnostic("E339", message, rule.span, hint=hint)], program.sources)
            if place in ("workers", "cluster"):
                hint = 'Use `place="auto"`: then these rules run in the driver, and others where they fit.'
                raise BackendError(f"the {what} `@{name}` is Python, and cannot run on the {place}", hint=hint)


def check_active(options: Options, spark: Any) -> None:
    strategy, place, cycles = options.strategy, options.place, options.cycles
    if strategy != "auto":
        raise StateError(
            f"strategy `{strategy}` is for stratified rules", hint="Active rules have one strategy: leave it to `auto`."
        )
    if place == "cluster":
        hint = "Active rules run in the driver, or on workers."
        raise StateError(f"place `{place}` is for stratified rules", hint=hint)
    if place == "workers" and spark is None:
        hint = "Make it with Database(program, spark=session)."
        raise BackendError("place `workers` needs a Spark session", hint=hint)
    if options.workers is not None and place != "workers":
        raise BackendError("active rules have no use for `workers` here", hint='Say `place="workers"`, too.')
    if cycles is not None and cycles < 1:
        raise StateError(f"`cycles` is {cycles}, and no run is that short", hint="Use a number from 1.")


def usable_modules(options: Options, is_active: bool) -> ModuleChoice:
    """The modules that serve.

    Active rules read the database of the cycle before: nothing is closed at once there. DataFrames have rounds, or
    tasks that close whole strata; only neighbors are found by sorting there too.
    """
    wanted = chosen_modules(options.modules)
    if wanted.own:
        who = f"module `{wanted.own[0].name}`"
        if is_active:
            raise StateError(f"{who} is for stratified rules", hint="Leave it out: active rules have no modules.")
        if options.place in ("workers", "cluster"):
            raise StateError(
                f"{who} cannot work on the {options.place}", hint='Use `place="driver"`, or leave the module out.'
            )
        if options.strategy not in MODULAR_STRATEGIES:
            hint = f"Use one of: {', '.join(MODULAR_STRATEGIES)}."
            raise StateError(f"strategy `{options.strategy}` has no modules, and {who} was given", hint=hint)
    if is_active:
        return wanted.of_kinds(())
    return wanted.of_kinds(("seq",)) if options.place == "cluster" else wanted


def cluster_of(checked: CheckedProgram, spark: Any, place: str, driver: LocalBackend) -> SparkBackend | None:
    """The backend on DataFrames, if it may be needed."""
    if place == "cluster" and spark is None:
        hint = "Make it with Database(program, spark=session)."
        raise BackendError("place `cluster` needs a Spark session", hint=hint)
    if spark is None or place in ("driver", "workers"):
        return None
    from sempre.spark.cluster.spark_backend import SparkBackend

    return SparkBackend(checked, spark, driver.values, driver.limits)


def hire(spark: Any, checked: CheckedProgram, count: int | None, driver: LocalBackend) -> Crew:
    """Workers in tasks of a session."""
    from sempre.spark import hired

    return hired.hire(spark, checked, count, driver.values, driver.limits)


def hire_for_cycles(spark: Any, checked: CheckedProgram, count: int | None, driver: LocalBackend) -> Crew:
    """Workers for active rules in tasks of a session."""
    from sempre.active.cycle_process import MODULE
    from sempre.spark import hired

    return hired.hire(spark, checked, count, driver.values, driver.limits, MODULE)


@dataclass(frozen=True, slots=True)
class Hiring:
    """The backend on workers and what it has room for, or why there is none."""

    backend: WorkersBackend | None = None
    budget: int = 0
    reason: str = ""


def workers_of(checked: CheckedProgram, spark: Any, place: str, count: int | None, driver: LocalBackend) -> Hiring:
    """Workers, if they were asked for or may be needed. They start when they are first needed."""
    if spark is None:
        hint = "Make it with Database(program, spark=session)."
        if place == "workers":
            raise BackendError("place `workers` needs a Spark session", hint=hint)
        if count is not None:
            raise BackendError("`workers` has no effect without a Spark session", hint=f"Leave it out. {hint}")
    if place not in ("auto", "workers") or spark is None:
        return Hiring()
    from sempre.workers.workers_backend import WorkersBackend

    def made() -> WorkersBackend:
        return WorkersBackend(checked, lambda: hire(spark, checked, count, driver), driver.values, driver.limits)

    if place == "workers":
        return Hiring(made())
    try:
        budget = room(spark, count, driver.limits)
    except BackendError as error:  # nobody asked for workers in particular: there are other places
        return Hiring(reason=error.diagnostics[0].message if count is not None else "")
    return Hiring(made(), budget) if budget else Hiring()


def room(spark: Any, count: int | None, limits: Limits) -> int:
    """The bytes that workers of a session have room for."""
    from sempre.spark import hired

    return hired.room(spark, count, limits)


def places_of(
    parts: Modular,
    driver: LocalBackend,
    cluster: SparkBackend | None,
    hiring: Hiring,
    place: str,
    memory: str | int | None,
) -> Places | None:
    """Where strata may run, if there is a choice."""
    workers = hiring.backend
    if place == "workers" and workers is not None:
        return Places(parts.program, {each.place: each for each in (sealed(driver), sealed(workers))}, place)
    if cluster is None:
        return None
    from sempre.spark.cluster.following import Following
    from sempre.spark.cluster.task_closing import TaskClosing

    backends = {backend.place: backend for backend in (sealed(driver), sealed(cluster))}
    if workers is not None:
        backends[workers.place] = sealed(workers)
    closer, follower = TaskClosing(cluster), Following(cluster)
    budget = None if place == "cluster" else parse_size(memory)
    return Places(parts.program, backends, place, budget, closer, follower, hiring.budget, hiring.reason)


def peak_rss() -> int:
    """The most memory this process has held, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
