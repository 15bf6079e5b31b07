"""From a rule to its plans: a greedy join order by bound columns and measured sizes.

After the pivot, whatever only filters comes first; then the atom expected to yield the fewest rows per row so far,
cross products last; operations that can fail (division, overflow) as late as possible, so that they see only rows
that everything else let through.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from sempre.analysis.model import (
    Call,
    Compare,
    Const,
    Fold,
    Kind,
    Match,
    NormalRule,
    Not,
    Unpack,
    Var,
)
from sempre.data import dataclass
from sempre.plan.conjuncts import (
    NOTHING,
    Goal,
    assignment_of,
    binding,
    can_be_looked_up,
    is_cheap,
    is_known,
    is_ready,
    match_of,
    reading,
    variables,
)
from sempre.plan.estimates import Statistics, fanout_of, is_uncertain, may_expand, preferred
from sempre.plan.indexes import Orders
from sempre.plan.ops import (
    HEAD,
    RANKED,
    SPLIT,
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
    nested_matches,
)  # fmt: skip

# The rank of what an instance derives, and of the fact that a plan starts from.
RANK, SEED_RANK = Var("#rank"), Var("#seed_rank")
# So many times, a plan may go on in two ways that share nothing.
BRANCHINGS = 2


@dataclass(frozen=True, slots=True)
class LiteralState:
    """Which state a literal is evaluated in: the version its atom reads, and for nested bodies whether it must hold
    there as well (`both`) or must not (`flips`).
    """

    read: Read
    both: bool = False
    flips: bool = False


def readings(rule: NormalRule, pivot: Pivot | None, recursive: frozenset[str]) -> list[LiteralState]:
    """How each literal is read, given the pivot and the relations of the rule's stratum.

    When the pivot is of the rule's own stratum, everything below must hold in both states, whichever side it stands on.
    Otherwise literals left of the pivot hold in both states and those right of it here.
    """
    if pivot is None or from_head(pivot):
        return [LiteralState(Read.HERE) for _ in rule.body]
    if pivot.uniform:
        recursive = NOTHING
    chosen = rule.body[pivot.literal]
    if isinstance(chosen, Match) and chosen.relation in recursive:
        reads = reads_for(len(rule.body), pivot.literal)
        return [
            LiteralState(read if isinstance(literal, Match) and literal.relation in recursive else Read.BOTH, both=True)
            for literal, read in zip(rule.body, reads, strict=True)
        ]
    found = []
    for index, read in enumerate(reads_for(len(rule.body), pivot.literal)):
        found.append(LiteralState(read, both=index < pivot.literal, flips=index == pivot.literal))
    return found


def reads_for(size: int, pivot: int) -> list[Read]:
    """The version each atom reads: both left of the pivot, here right of it."""
    return [Read.BOTH if index < pivot else Read.ONLY if index == pivot else Read.HERE for index in range(size)]


def plan_rule(
    rule: NormalRule,
    pivot: Pivot | None,
    statistics: Statistics,
    orders: Orders,
    recursive: frozenset[str] = NOTHING,
    ignored: int | None = None,
    stated: tuple[int, ...] = (),
) -> Plan:
    """The plan of `rule` with this pivot.

    `recursive` are the relations of the rule's stratum. A plan from the head ignores column `ignored` of the given
    facts: with an aggregate in the head, they stand for their groups. `stated` is the order of atoms, if there is one.
    """
    if pivot == SPLIT:
        steps = split_steps(rule, statistics, orders)
        if steps:
            return Plan(rule, pivot, steps)
    body: list[Goal] = list(rule.body)
    how = readings(rule, pivot, recursive)
    needed = NOTHING.union(*(variables(arg) for arg in Plan(rule, pivot, ()).head))
    seed: Match | None = None
    if pivot is not None and (from_head(pivot) or pivot.ranked):
        head, tests = _head_seed(rule, ignored)
        body += tests
        if pivot.ranked:
            atoms = [literal for literal in rule.body if isinstance(literal, Match) and literal.relation in recursive]
            body += [RankOf(head, RANK), *_lower_ranks(rule, pivot, atoms)]
        how += [LiteralState(Read.HERE)] * (len(body) - len(how))
        if from_head(pivot):
            seed = head
            body.append(seed)
            how.append(LiteralState(Read.ONLY))
    if pivot is not None and pivot.inner >= 0:
        seed, earlier = _nested_seed(rule, pivot)
        body += [*earlier, seed]
        how += [LiteralState(Read.CHANGED)] * (len(earlier) + 1)
    first = len(body) - 1 if seed is not None else None if pivot is None else pivot.literal
    backward = pivot is not None and from_head(pivot)
    steps = order_steps(
        body, how, NOTHING, needed, statistics, orders, first, adaptive=backward, given=stated, growing=recursive
    )
    if pivot is not None and pivot.inner >= 0:
        steps = (steps[0], Distinct(steps[0].live), *steps[1:])
    return Plan(rule, pivot, steps)


def stated_order(rule: NormalRule, pivot: Pivot | None, recursive: frozenset[str]) -> tuple[int, ...]:
    """The positions of the rule's atoms in the order that its `.plan` states for this plan; empty if it states none.

    A version is a recursive atom that new facts are read for, by its place among these; without any there is version 0.
    """
    atoms = matches(rule.body)
    own = [index for index in atoms if match_of(rule.body[index]).relation in recursive]
    if not rule.plan or (pivot is None) == bool(own):
        return ()
    if pivot is not None and (pivot.literal not in own or pivot != Pivot(pivot.literal)):
        return ()
    order = dict(rule.plan).get(0 if pivot is None else own.index(pivot.literal), ())
    # One alternative of a rule may have other atoms than the one that the order is for.
    return tuple(atoms[position - 1] for position in order) if sorted(order) == [*range(1, len(atoms) + 1)] else ()


def from_head(pivot: Pivot) -> bool:
    """Whether the plan starts from given facts of the head relation."""
    return pivot in (HEAD, RANKED, SPLIT) or pivot.to_body


def _head_seed(rule: NormalRule, ignored: int | None) -> tuple[Match, list[Compare]]:
    """An atom over given facts of the head relation, and tests that what the rule derives is such a fact."""
    args: list[Var | Const] = []
    tests: list[Compare] = []
    for column, arg in enumerate(rule.args):
        if column == ignored or not isinstance(arg, Var | Const):
            args.append(Var(f"#head{column}"))
            if column != ignored:
                assert isinstance(arg, Call)
                tests.append(Compare("=", Var(f"#head{column}"), arg, arg.kind, arg.span))
        else:
            args.append(arg)
    return Match(rule.relation, tuple(args)), tests


def _lower_ranks(rule: NormalRule, pivot: Pivot, atoms: list[Match]) -> list[Goal]:
    """Tests that these atoms rank below the head. The rank of what the plan starts from is looked up once, at once."""
    seed = rule.body[pivot.literal] if pivot.literal >= 0 and pivot.inner < 0 else None
    tests: list[Goal] = [LowerRank(atom, RANK) for atom in atoms if atom is not seed]
    if any(atom is seed for atom in atoms):
        assert isinstance(seed, Match)
        tests += [RankOf(seed, SEED_RANK), Compare("<", SEED_RANK, RANK, Kind.NUMBER)]
    return tests


def split_steps(rule: NormalRule, statistics: Statistics, orders: Orders) -> tuple[Step, ...]:
    """Steps from given facts of the head relation, split by variable; none where there is nothing to split.

    Facts that share values share the lookups that follow from them: the steps begin with the values of the variables
    that stand in one atom of the body, each combination once. A value of another variable is looked for among the given
    facts once the body has bound it. So the given facts filter, and multiply nothing. At last the whole fact must be a
    given one.

    Reference: [Zhao] section 4.2, filtering for re-discovery rules.
    Differs: begins with all variables that the first atom can be looked up by, not with one.
    """
    head, tests = _head_seed(rule, None)
    names = list(dict.fromkeys(arg.name for arg in head.args if isinstance(arg, Var)))
    first = _first_variables(rule, head, statistics)
    others = [name for name in names if name not in first]
    if not first or not others:
        return ()

    def given(wanted: Collection[str]) -> Match:
        """An atom over given facts that has these variables, and else what its columns hold."""
        kept = (isinstance(arg, Const) or arg.name in wanted for arg in head.args)
        args = (a if keep else Var(f"#any{n}") for n, (a, keep) in enumerate(zip(head.args, kept, strict=True)))
        return Match(head.relation, tuple(args))

    # One that is left is looked for together with the first ones.
    single = [(name,) for name in others] if len(others) > 1 else []
    filters = [_is_there(given(wanted), wanted) for wanted in (*single, tuple(names))]
    body: list[Goal] = [*rule.body, *tests, *filters, given(first)]
    how = [LiteralState(Read.HERE)] * (len(rule.body) + len(tests)) + [LiteralState(Read.CHANGED)] * len(filters)
    needed = NOTHING.union(*(variables(arg) for arg in rule.args))
    steps = order_steps(body, [*how, LiteralState(Read.ONLY)], NOTHING, needed, statistics, orders, len(body) - 1)
    return (steps[0], Distinct(steps[0].live), *steps[1:])


def _first_variables(rule: NormalRule, head: Match, statistics: Statistics) -> frozenset[str]:
    """The variables of the head that stand in one atom of the body: those for which looking it up finds least."""
    columns = {arg.name: column for column, arg in enumerate(head.args) if isinstance(arg, Var)}
    found = []
    for index in matches(rule.body):
        shared = binding(rule.body[index]) & columns.keys()
        if shared:
            values = max(statistics.distinct(head.relation, columns[name]) for name in shared)
            found.append((values * fanout_of(rule.body[index], shared, statistics), -len(shared), sorted(shared)))
    return frozenset(min(found)[2]) if found else NOTHING


def _is_there(atom: Match, names: Iterable[str]) -> Not:
    """That something matches an atom: a row is kept or dropped, whatever the number of matches."""
    shared = tuple(Var(name) for name in names)
    return Not((Not((atom,), shared),), shared)


def _nested_seed(rule: NormalRule, pivot: Pivot) -> tuple[Match, list[Not]]:
    """The atom whose changed rows a nested pivot starts from, and what keeps earlier atoms' candidates out."""
    literal = rule.body[pivot.literal]
    assert isinstance(literal, Not | Fold)
    shared = {var.name for var in literal.shared}
    fresh = (Var(f"#seed{n}") for n in itertools.count())
    atoms = [
        Match(atom.relation, tuple(a if isinstance(a, Const) or a.name in shared else next(fresh) for a in atom.args))
        for atom in nested_matches(literal)[: pivot.inner + 1]
    ]
    earlier = [Not((atom,), tuple(Var(name) for name in sorted(binding(atom) & shared))) for atom in atoms[:-1]]
    return atoms[-1], earlier


def order_steps(
    body: Sequence[Goal],
    how: Sequence[LiteralState],
    bound: frozenset[str],
    needed: frozenset[str],
    statistics: Statistics,
    orders: Orders,
    first: int | None = None,
    adaptive: bool = False,
    branchings: int = BRANCHINGS,
    given: tuple[int, ...] = (),
    growing: frozenset[str] = NOTHING,
) -> tuple[Step, ...]:
    """Steps for a body in which `bound` is bound already and `needed` is read afterwards.

    Atoms come in the order `given`, if there is one. Relations that are `growing` may find more than they do now.

    Where several atoms can be looked up next and have a say in each other's variables, which of them comes first is
    left to the rows. With `adaptive`, so it is where they only share what is bound: averages say little of the few
    facts that a plan from the head is asked about.
    """
    todo = list(range(len(body)))
    chosen: list[tuple[int, ...]] = []
    known = bound
    while todo:
        pick = first if first in todo else _next(body, todo, known, statistics, given)
        assert pick is not None
        picks: tuple[int, ...] = (pick,)
        if pick != first and not given:
            picks = _meeting(body, todo, pick, known, statistics)
            other = None
            if len(picks) == 1:
                other = _rival(body, todo, pick, known, statistics, orders, adaptive, growing)
            if other is not None and branchings:
                left, rest = [body[index] for index in todo], [how[index] for index in todo]
                options = tuple(
                    order_steps(
                        left,
                        rest,
                        known,
                        needed,
                        statistics,
                        orders,
                        todo.index(choice),
                        branchings=branchings - 1,
                        growing=growing,
                    )
                    for choice in (pick, other)
                )
                live = needed.union(*(reading(goal) for goal in left))
                return (*_with_liveness(body, how, chosen, bound, live, statistics, orders), Either(options, needed))
        for index in picks:
            todo.remove(index)
        chosen.append(picks)
        known |= binding(body[pick])
    return _with_liveness(body, how, chosen, bound, needed, statistics, orders)


def _meeting(
    body: Sequence[Goal], todo: list[int], pick: int, known: frozenset[str], statistics: Statistics
) -> tuple[int, ...]:
    """The atom picked and all others that bind the same variables: whichever binds them, the others only filter.

    Taking, row by row, the one that finds fewest is what keeps a join with a cycle within the worst case of its result.
    """
    if not may_expand(body[pick], known, statistics):
        return (pick,)
    fresh = binding(body[pick]) - known
    others = [index for index in todo if index != pick and can_be_looked_up(body[index], known)]
    return (pick, *(index for index in others if binding(body[index]) - known == fresh))


def _rival(
    body: Sequence[Goal],
    todo: list[int],
    pick: int,
    known: frozenset[str],
    statistics: Statistics,
    orders: Orders,
    adaptive: bool,
    growing: frozenset[str],
) -> int | None:
    """Another atom that could be looked up instead of the one picked, if that may find many rows."""
    picked = body[pick]
    if not isinstance(picked, Match) or not fanout_of(picked, known, statistics):
        return None
    if statistics.size(picked.relation) < statistics.limits.choice_rows:
        return None
    expands = may_expand(picked, known, statistics)

    def is_rival(index: int) -> bool:
        if index == pick or not can_be_looked_up(body[index], known):
            return False
        match = match_of(body[index])
        shares = bool(binding(match) & binding(picked) - known)
        grows = picked.relation in growing or match.relation in growing
        if shares and (expands or (grows and is_uncertain(picked, match, known, statistics))):
            return True
        # It is not worth making an index for one that has no say in what the one picked binds.
        bound = frozenset(column for column, arg in enumerate(match.args) if is_known(arg, known))
        return adaptive and orders.serves(match.relation, bound)

    return preferred(body, list(filter(is_rival, todo)), known, statistics)


def _next(
    body: Sequence[Goal], todo: list[int], known: frozenset[str], statistics: Statistics, given: tuple[int, ...] = ()
) -> int:
    """The literal to take next; of the atoms, the first that is left of those `given`."""
    ready = [index for index in todo if not isinstance(body[index], Match) and is_ready(body[index], known)]
    for index in ready:
        if is_cheap(body[index]):
            return index
    atoms = [index for index in todo if isinstance(body[index], Match)]
    if given and atoms:
        return min(atoms, key=given.index)
    best = preferred(body, atoms, known, statistics)
    late = [index for index in ready if not isinstance(body[index], Fold)] or ready
    if best is None:
        assert late, "a literal is never bound: the analysis let it pass"
        return late[0]
    # Rather compute a value that an atom can be looked up by than build a cross product.
    crosses = not any(is_known(arg, known) for arg in match_of(body[best]).args)
    helps = [index for index in late if binding(body[index]) - known]
    if crosses and helps and match_of(body[best]).args:
        return helps[0]
    return best


# ---------------------------------------------------------------------------------------------- making steps


@dataclass(frozen=True, slots=True)
class _PlanContext:
    how: LiteralState
    known: frozenset[str]
    live: frozenset[str]
    statistics: Statistics
    orders: Orders


def _with_liveness(
    body: Sequence[Goal],
    how: Sequence[LiteralState],
    chosen: Sequence[tuple[int, ...]],
    bound: frozenset[str],
    needed: frozenset[str],
    statistics: Statistics,
    orders: Orders,
) -> tuple[Step, ...]:
    """The steps in the chosen order, each knowing which variables are still read after it.

    Literals that are chosen together are taken in whichever order finds least.
    """
    lives: list[frozenset[str]] = []
    for picks in reversed(chosen):
        lives.append(needed)
        needed = needed.union(*(reading(body[index]) for index in picks))
    lives.reverse()
    steps: list[Step] = []
    known = bound
    for picks, live in zip(chosen, lives, strict=True):
        if len(picks) == 1:
            steps.append(_step(body[picks[0]], _PlanContext(how[picks[0]], known, live, statistics, orders)))
        else:
            orderings = [[(index,), *((other,) for other in picks if other != index)] for index in picks]
            options = [_with_liveness(body, how, each, known, live, statistics, orders) for each in orderings]
            steps.append(Either(tuple(options), live))
        known |= binding(body[picks[0]])
    return tuple(steps)


def _step(literal: Goal, context: _PlanContext) -> Step:
    if isinstance(literal, Match):
        return _probe(literal, context)
    if isinstance(literal, Compare):
        assignment = assignment_of(literal, context.known)
        if assignment is not None:
            return Assign(*assignment, context.live)
        return Filter(literal, context.live)
    if isinstance(literal, Unpack):
        return TakeApart(literal, binding(literal) - context.known, context.live)
    if isinstance(literal, RankOf):
        return RankOf(literal.atom, literal.var, context.live)
    if isinstance(literal, LowerRank):
        return LowerRank(literal.atom, literal.than, context.live)
    needed = NOTHING if isinstance(literal, Not) or literal.expr is None else variables(literal.expr)
    # A body nested in a nested one reads the state that the outer one reads.
    read = context.how.read if context.how.read in (Read.CHANGED, Read.THERE) else Read.HERE
    steps = _nested_steps(literal, needed, read, context)
    there = _reading_there(steps) if context.how.both or context.how.flips else ()
    if isinstance(literal, Not):
        return Absent(literal, steps, there, context.how.flips, context.live)
    test = literal.result.name in context.known
    return Reduce(literal, steps, there, context.how.flips, test, context.live)


def _nested_steps(literal: Not | Fold, needed: frozenset[str], read: Read, context: _PlanContext) -> tuple[Step, ...]:
    shared = frozenset(var.name for var in literal.shared)
    how = [LiteralState(read)] * len(literal.body)
    return order_steps(literal.body, how, shared, needed, context.statistics, context.orders)


def _reading_there(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The same steps on the other state: sizes are looked up in one state, so the order is the same."""
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Probe):
            found.append(replace(step, read=Read.THERE))
        elif isinstance(step, Absent | Reduce):
            found.append(replace(step, steps=_reading_there(step.steps)))
        elif isinstance(step, Either):
            found.append(replace(step, options=tuple(_reading_there(option) for option in step.options)))
        else:
            found.append(step)
    return tuple(found)


def _probe(match: Match, context: _PlanContext) -> Probe:
    first: dict[str, int] = {}
    same: list[tuple[int, int]] = []
    bound: set[int] = set()
    for column, arg in enumerate(match.args):
        if is_known(arg, context.known):
            bound.add(column)
        elif isinstance(arg, Var):
            if arg.name in first:
                same.append((first[arg.name], column))
            else:
                first[arg.name] = column
    order = context.orders.serving(match.relation, frozenset(bound))
    lookup = tuple(match.args[column] for column in order[: len(bound)])
    binds = tuple((column, Var(name)) for name, column in first.items() if name in context.live)
    return Probe(match.relation, context.how.read, order, lookup, binds, tuple(same), context.live)
