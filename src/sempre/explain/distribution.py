"""How workers would divide the rules: which lookups are local, and what travels for the others.

The text follows the stages that `workers/flow.py` makes of a plan, for relations that are too large to be everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sempre.analysis.model import CheckedProgram, NormalRule, Stratum, Var
from sempre.explain.plan_text import NoStatistics
from sempre.kernel.values import Values
from sempre.limits import DEFAULTS
from sempre.maintain.decide import why_not_shared
from sempre.maintain.planning import pivots
from sempre.modules.spec import Module
from sempre.plan.indexes import Orders
from sempre.plan.ops import Pivot, Plan, decided_plan
from sempre.plan.planner import plan_rule
from sempre.rewrites.equivalences import close_equivalences
from sempre.workers.channel import Channel
from sempre.workers.flow import Flow
from sempre.workers.mesh import Mesh
from sempre.workers.placing import home_column
from sempre.workers.stages import Route, Stage


def distribution(program: CheckedProgram, modules: Mapping[int, Sequence[Module]] | None = None) -> str:
    """The homes of all relations, then the modules of every stratum, by its number, and every plan, as it would be made
    before any data is known.
    """
    program = close_equivalences(program)
    orders = Orders()
    for name, relation in program.relations.items():
        orders.declare(name, relation.arity)
    recursive = {name for stratum in program.strata if stratum.recursive for name in stratum.relations}
    lines = [_home_line(program, name, recursive) for name in program.relations]
    for stratum in program.strata:
        lines += _module_lines(stratum, (modules or {}).get(stratum.index, ()))
        jobs: list[tuple[NormalRule, Pivot | None]] = [(rule, None) for rule in stratum.nonrecursive]
        jobs += [(rule, pivot) for rule in stratum.recursive for pivot in pivots(rule, stratum.relations)]
        for rule, pivot in jobs:
            title = f"rule {rule.number}" + ("" if pivot is None else f", new facts in literal {pivot.literal + 1}")
            plan = decided_plan(plan_rule(rule, pivot, NoStatistics(), orders))
            lines += [f"{title}: {rule.text}", *(f"  {line}" for line in _stages(plan, program))]
    return "\n".join(lines) + "\n"


def _home_line(program: CheckedProgram, name: str, recursive: set[str]) -> str:
    relation = program.relations[name]
    column = home_column(relation)
    if column is None:
        return f"{name}: at one worker"
    home = f"{name}: each row at the owner of its {relation.columns[column]}"
    return home if name in recursive else f"{home}; at every worker up to {DEFAULTS.everywhere_rows:,} rows"


def _module_lines(stratum: Stratum, modules: Sequence[Module]) -> list[str]:
    if not modules:
        return []
    if any(module.order is not None for module in modules):
        return [f"{modules[0]}: rows travel to the owners of their groups, and are sorted there"]
    why = why_not_shared(stratum, modules, lambda module: 0, DEFAULTS)
    if why:
        return [why]
    return [f"{modules[0]}: its edges go to all workers, and each finds what begins with the values it owns"]


class _Nobody(Channel):
    """Another worker, to whom nothing is ever sent."""

    def __init__(self) -> None:
        """There is no connection."""


def _stages(plan: Plan, program: CheckedProgram) -> list[str]:
    homes = {name: home_column(relation) for name, relation in program.relations.items()}
    flow = Flow(plan.steps, Values(), homes, Mesh(0, {1: _Nobody()}), DEFAULTS)
    lines = [] if flow.scanned is None else [f"each worker begins with its rows of {flow.scanned}"]
    for number, stage in enumerate(flow.stages):
        lines += _stage_lines(stage, number == 0)
    home = homes[plan.relation]
    if home is None:
        return [*lines, "heads travel to one worker"]
    arg = plan.head[home]
    if isinstance(arg, Var) and flow.placed == arg.name:
        return [*lines, "heads are at home"]
    owner = arg.name if isinstance(arg, Var) else "their " + program.relations[plan.relation].columns[home]
    return [*lines, f"heads travel to the owner of {owner}"]


def _stage_lines(stage: Stage, is_first: bool) -> list[str]:
    if stage.nested is not None:
        return ["a nested body is decided elsewhere: what it shares travels there, and the answer comes back"]
    reads = [name for step in stage.steps for name, _, _ in step.reads]
    found = []
    if stage.route is not None and not is_first:
        what = ", ".join(stage.names) or "their number"
        found.append(f"bindings travel {_where(stage.route)}: {what}")
    if reads:
        found.append(f"local lookups: {', '.join(reads)}")
    return found


def _where(route: Route) -> str:
    if route.everywhere:
        return "to all workers"
    return "to one worker" if route.var is None else f"to the owner of {route.var}"
