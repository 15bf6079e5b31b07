"""Plans and modules as text: how each rule would be evaluated."""

from __future__ import annotations

from collections.abc import Iterable

from sempre.analysis.model import Call, CheckedProgram, Const, Expr, Match, NormalRule, Stratum, Var
from sempre.limits import DEFAULTS
from sempre.maintain.costs import COUNTERS, RANKED
from sempre.maintain.decide import (
    AUTO,
    SORTED,
    ChangeSize,
    Choices,
    Decision,
    closes_alone,
    decide,
)
from sempre.modules.find import Modular
from sempre.plan.indexes import Orders
from sempre.plan.ops import (
    Absent,
    Assign,
    Distinct,
    Either,
    Filter,
    LowerRank,
    Pivot,
    Plan,
    Probe,
    RankOf,
    Read,
    Reduce,
    Step,
    TakeApart,
    matches,
    relations_of,
)
from sempre.plan.planner import from_head, plan_rule, stated_order
from sempre.python_functions import shown_kind
from sempre.rewrites.equivalences import close_equivalences
from sempre.rewrites.successors import shown

_READS = {Read.HERE: "", Read.THERE: "there ", Read.BOTH: "old ", Read.ONLY: "new facts of ", Read.CHANGED: "changed "}


class NoStatistics:
    """Before there is data every relation is taken to be large, and every column to be selective."""

    limits = DEFAULTS

    def size(self, relation: str) -> int:
        return 1 << 16

    def distinct(self, relation: str, column: int) -> int:
        return 1 << 8

    def crowd(self, relation: str, column: int) -> float:
        return 1 << 8

    def matching(self, relation: str, columns: tuple[int, ...]) -> None:
        return None


def plans(program: CheckedProgram) -> str:
    """Every plan of the program, as it would be made before any data is known."""
    program = close_equivalences(program)
    orders = Orders()
    for name, relation in program.relations.items():
        orders.declare(name, relation.arity)
    lines: list[str] = []
    for stratum in program.strata:
        for rule in stratum.nonrecursive:
            lines += _plan_lines(rule, None, stratum, program, orders)
        for rule in stratum.recursive:
            for pivot in _pivots(rule, stratum):
                lines += _plan_lines(rule, pivot, stratum, program, orders)
    return "\n".join(lines)


def used_plans(program: CheckedProgram, found: Iterable[Plan]) -> str:
    """Plans that were made with data at hand."""
    return "\n".join(line for plan in found for line in _lines_of(plan, program, _title(plan.rule, plan.pivot)))


def modules(parts: Modular) -> str:
    """The modules of a program, each with why it is one and with its rules; nothing if there are none."""
    readers = {rule.number: relations_of(rule.body) for rule in parts.program.rules}
    texts = {rule.number: rule.text for rule in parts.program.rules}
    lines: list[str] = []
    for module in (module for found in parts.modules.values() for module in found):
        # Rules that a program does not have itself are told by those that read what they derive.
        rules = module.rules if module.order is None else {n for n in texts if module.order.relation in readers[n]}
        title = module.order.source if module.order is not None else ", ".join(module.heads)
        lines += [f"module {module.kind} {title}: {module.reason}", *(f"  {texts[number]}" for number in sorted(rules))]
    lines += [f"on demand: {rule.text}" for rule in parts.deferred.values()]
    return "\n".join([*lines, "every other rule: generic", ""]) if lines else ""


class _NoSizes:
    """Before there is data nothing is known of sizes."""

    def rows(self, relation: str) -> int:
        return 0

    def before(self, relation: str) -> int:
        return 0

    def change(self) -> ChangeSize:
        return ChangeSize(0, 0, "insert")


def decisions(parts: Modular) -> str:
    """How each stratum would be kept up to date by default, as far as its rules decide that: a line each."""
    lines = []
    for stratum in parts.program.strata:
        if stratum.nonrecursive or stratum.recursive:
            options = Choices(parts.program, modules=parts.modules.get(stratum.index, ()))
            decision = decide(stratum, _NoSizes(), None, options)
            lines.append(f"{shown(stratum.relations)}: {_kept(stratum, decision)}")
    return "\n".join(lines)


def _kept(stratum: Stratum, decision: Decision) -> str:
    modules = ", ".join(map(str, decision.modules))
    if decision.strategy == SORTED:
        return "kept sorted"
    if decision.strategy != AUTO:
        return f"kept by {decision.strategy}, since it aggregates"
    if not modules:
        return f"kept by {RANKED}, or by {COUNTERS} if it takes more than {DEFAULTS.many_rounds} rounds"
    if stratum.recursive and closes_alone(stratum, decision.modules):
        return f"kept by {COUNTERS} with {modules}, which can do all the recursion"
    return f"kept by {COUNTERS} with {modules}, or by {RANKED} without, whichever costs less"


def _pivots(rule: NormalRule, stratum: Stratum) -> list[Pivot]:
    atoms = [(index, rule.body[index]) for index in matches(rule.body)]
    return [Pivot(index) for index, atom in atoms if isinstance(atom, Match) and atom.relation in stratum.relations]


def _plan_lines(
    rule: NormalRule, pivot: Pivot | None, stratum: Stratum, program: CheckedProgram, orders: Orders
) -> list[str]:
    stated = stated_order(rule, pivot, frozenset(stratum.relations))
    plan = plan_rule(rule, pivot, NoStatistics(), orders, stated=stated)
    return _lines_of(plan, program, _title(rule, pivot) + (", in the order of its `.plan`" if stated else ""))


def _title(rule: NormalRule, pivot: Pivot | None) -> str:
    title = f"rule {rule.number}"
    if pivot is None:
        return title
    if from_head(pivot):
        return f"{title}, from facts of its head"
    inner = "" if pivot.inner < 0 else f", atom {pivot.inner + 1} in it"
    return f"{title}, new facts in literal {pivot.literal + 1}{inner}{', by rank' if pivot.ranked else ''}"


def _lines_of(plan: Plan, program: CheckedProgram, title: str) -> list[str]:
    lines = [f"{title}: {plan.rule.text}"]
    lines += [f"  {line}" for step in plan.steps for line in step_lines(step, program)]
    head = ", ".join(expression(arg) for arg in plan.head)
    return [*lines, f"  emit {plan.relation}({head})"]


def step_lines(step: Step, program: CheckedProgram) -> list[str]:
    """One step as indented lines."""
    if isinstance(step, Probe):
        return [_probe_line(step, program)]
    if isinstance(step, Filter):
        return [f"keep where {expression(step.test.left)} {step.test.op} {expression(step.test.right)}"]
    if isinstance(step, Assign):
        return [f"let {step.var.name} = {expression(step.expr)}"]
    if isinstance(step, TakeApart):
        fields = ", ".join(expression(field) for field in step.unpack.fields)
        return [f"take {step.unpack.record.name} apart as [{fields}]"]
    if isinstance(step, RankOf):
        return [f"let {step.var.name} = the rank of {step.atom.relation}"]
    if isinstance(step, LowerRank):
        return [f"keep where {step.atom.relation} ranks lower"]
    if isinstance(step, Distinct):
        return ["keep each binding once"]
    if isinstance(step, Either):
        options = [[f"  {line}" for inner in steps for line in step_lines(inner, program)] for steps in step.options]
        return ["whichever finds least first:", *options[0], *(line for each in options[1:] for line in ("or", *each))]
    nested = [f"  {line}" for inner in step.steps for line in step_lines(inner, program)]
    if isinstance(step, Absent):
        return ["keep where there is no", *nested]
    assert isinstance(step, Reduce)
    term = "" if step.literal.expr is None else f" {expression(step.literal.expr)}"
    return [f"let {step.literal.result.name} = {shown_kind(step.literal.kind)}{term} over", *nested]


def _probe_line(step: Probe, program: CheckedProgram) -> str:
    columns = program.relations[step.relation].columns
    by = ", ".join(
        f"{columns[column]} = {expression(value)}" for column, value in zip(step.prefix, step.lookup, strict=True)
    )
    gives = ", ".join(var.name for _, var in step.binds)
    how = f"look up {_READS[step.read]}{step.relation} by {by}" if by else f"scan {_READS[step.read]}{step.relation}"
    same = "".join(f", {columns[a]} = {columns[b]}" for a, b in step.same)
    return how + same + (f" -> {gives}" if gives else "")


def expression(expr: Expr) -> str:
    """An expression in prefix form."""
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, Const):
        return f'"{expr.value}"' if isinstance(expr.value, str) else "nil" if expr.value is None else str(expr.value)
    assert isinstance(expr, Call)
    return f"{expr.op}({', '.join(expression(arg) for arg in expr.args)})"
