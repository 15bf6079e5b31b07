"""Finds the rules that have an algorithm of their own: the automatic partition of strata into modules.

Any subset of a stratum's rules may be a module, since what other rules derive into its relations are facts like any
others; so the search takes what it recognizes and leaves the rest to the generic module:

1. a relation whose own rules make it symmetric and transitive is an `stc`;
2. the chain rules of the other relations are grouped by recursion among them, a group is kept as far as it is regular,
   and its words become a `Sketch`;
3. groups that read each other without a cycle become one module, so that closure facts need not be read one by one.

Reference: [Hu22] sections 5.1 and 6, which takes the partition as given. [HS04] for the regular order; beyond it, heads
that recur through each other on one side only are regular too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sempre.analysis.model import CheckedProgram, NormalRule, Relation, Stratum
from sempre.analysis.name_graphs import arrange
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, StateError
from sempre.modules import shapes
from sempre.modules.automata import Deterministic, Sketch, TooManyStates, automaton, collapsed, languages
from sempre.modules.choice import Allowed, ModuleChoice, Wanted, allowed, chosen_modules, rules_named
from sempre.modules.sequences import sequence_module
from sempre.modules.shapes import ChainRule, PureRule
from sempre.modules.spec import Module
from sempre.plan.ops import relations_of
from sempre.rewrites.passes import rewrite
from sempre.rewrites.successors import with_neighbors


@dataclass(frozen=True, slots=True)
class Modular:
    """A program as it is evaluated, its modules by stratum, and rules that wait until somebody reads their relation."""

    program: CheckedProgram
    modules: Mapping[int, tuple[Module, ...]]
    deferred: Mapping[str, NormalRule]


def modularize(program: CheckedProgram, wanted: Wanted | ModuleChoice = "auto") -> Modular:
    """The program after all rewrites, and its modules."""
    choice = chosen_modules(wanted)
    rewritten = rewrite(program, (with_neighbors,))
    may = allowed(rewritten, choice)
    if "seq" in may:
        rewritten = with_neighbors(rewritten, lambda rule: may.may("seq", rule))
    found = partition(rewritten, choice)
    _check_named(rewritten, choice, found)
    return Modular(rewritten, found, rewritten.deferred)


def partition(program: CheckedProgram, wanted: Wanted | ModuleChoice = "auto") -> dict[int, tuple[Module, ...]]:
    """The modules of each stratum that has some, by its index.

    Expects equivalences as rules, and rules numbered by their place in the program.
    """
    kinds = allowed(program, chosen_modules(wanted))
    found: dict[int, tuple[Module, ...]] = {}
    closed: set[str] = set()
    for stratum in program.strata:
        if any(name in program.guards for name in stratum.relations):
            continue  # not all that follows is kept, so nothing is closed at once
        sequence = sequence_module(program, stratum)
        modules = _modules(program, stratum, kinds, closed) if sequence is None else (sequence,)
        modules = (*kinds.own.get(stratum.index, ()), *modules)
        if modules:
            found[stratum.index] = modules
        closed |= {name for name in stratum.relations if shapes.are_transitive(_pure_rules(name, stratum))}
    return found


def _check_named(program: CheckedProgram, choice: ModuleChoice, found: Mapping[int, tuple[Module, ...]]) -> None:
    """A kind that was asked for by the name of a relation or rule takes some of what was named, or it is an error."""
    modules = [module for several in found.values() for module in several]
    orders = {module.order.relation for module in modules if module.order is not None}
    for kind, target in choice.named:
        if kind in choice.kinds:
            continue
        rules = rules_named(program, target, "`modules`")
        taken = {number for module in modules if module.kind == kind for number in module.rules}
        reads = orders if kind == "seq" else set()
        if not any(rule.number in taken or reads & relations_of(rule.body) for rule in rules):
            hint = "`sempre check` says which kinds take which rules."
            raise StateError(Diagnostic("E617", f"no module of kind `{kind}` takes `{target}`", hint=hint))


@dataclass(frozen=True, slots=True)
class _Group:
    """Heads that recur through each other, the rules that make them do so, and the paths these allow.

    `reads` are the other relations that the words are made of.
    """

    kind: str
    heads: tuple[str, ...]
    rules: frozenset[int]
    sketch: Sketch
    reads: frozenset[str]
    reason: str


def _modules(program: CheckedProgram, stratum: Stratum, kinds: Allowed, below: Collection[str]) -> tuple[Module, ...]:
    """The modules of a stratum; `below` are the transitive relations of lower strata."""
    relations = program.relations
    if any(relations[name].aggregate is not None for name in stratum.relations):
        return ()
    heads = [name for name in stratum.relations if name not in kinds.heads and _is_graph(relations[name])]
    equivalences = [m for name in heads if (m := _equivalence(name, stratum, kinds)) is not None]
    closed = {head for module in equivalences for head in module.heads}
    left = [name for name in heads if name not in closed]
    chains = [c for rule in stratum.recursive if (c := _graph_chain(rule, left, relations)) is not None]
    groups = []
    for names in arrange({n: [w for c in chains if c.head == n for w in c.word if w in left] for n in left}):
        groups += _groups(names, chains, stratum, kinds)
    found = [*equivalences, *_paths(groups, kinds, below)]
    return tuple(sorted(found, key=lambda module: stratum.relations.index(module.heads[0])))


def _is_graph(relation: Relation) -> bool:
    """Whether the relation's facts are edges: two columns of one kind, and no facts but those its rules derive."""
    return relation.arity == 2 and relation.kinds[0] == relation.kinds[1]


def _graph_chain(rule: NormalRule, heads: Collection[str], relations: Mapping[str, Relation]) -> ChainRule | None:
    if rule.relation not in heads:
        return None
    found = shapes.chain(rule)
    if found is None:
        return None
    kinds = {kind for name in found.word for kind in relations[name].kinds}
    return found if kinds == set(relations[rule.relation].kinds) else None


def _pure_rules(name: str, stratum: Stratum) -> list[PureRule]:
    return [p for rule in stratum.recursive if rule.relation == name and (p := shapes.pure(rule)) is not None]


def _equivalence(name: str, stratum: Stratum, kinds: Allowed) -> Module | None:
    """The relation as connected components, if its rules make it symmetric and transitive."""
    pures = [rule for rule in _pure_rules(name, stratum) if kinds.may("stc", rule.rule)]
    rules = [rule for rule in pures if shapes.holds_in_equivalence(rule)]
    if not shapes.are_symmetric(rules) or not shapes.are_transitive(rules):
        return None
    return Module("stc", (name,), frozenset(rule.rule for rule in rules), f"`{name}` is symmetric and transitive")


# ---------------------------------------------------------------------------------------------------- groups


def _groups(heads: tuple[str, ...], chains: Iterable[ChainRule], stratum: Stratum, kinds: Allowed) -> list[_Group]:
    """What can be recognized of heads that recur through each other: one group, or some of its own for single heads."""
    chains = [c for c in chains if c.head in heads]
    if len(heads) > 1:
        together = _linear_together(heads, [c for c in chains if kinds.may("rch", c.rule)], kinds)
        if together is not None and together.rules:
            return [together]
    alone = [_alone(name, [c for c in chains if c.head == name], _pure_rules(name, stratum), kinds) for name in heads]
    return [group for group in alone if group is not None]


def _is_step(chain: ChainRule, kinds: Allowed) -> bool:
    """Whether a chain that does not read its head belongs to its paths: where that was asked for.

    A join finds them as well. In a module they are searched for, and read as its other steps are.
    """
    return len(chain.word) > 1 and kinds.must("rch", chain.rule)


def _linear_together(heads: tuple[str, ...], chains: list[ChainRule], kinds: Allowed) -> _Group | None:
    """A group of several heads whose words have heads at their last place only, or at their first place only."""
    rules = [c for c in chains if any(letter in heads for letter in c.word)]
    steps = [c for c in chains if rules and c not in rules and _is_step(c, kinds)]
    state = {head: number for number, head in enumerate(heads)}
    other = len(heads)
    if all(not any(letter in heads for letter in c.word[:-1]) for c in rules):
        edges = [(state[c.head], c.word[:-1], state[c.word[-1]]) for c in rules]
        edges += [(state[head], (head,), other) for head in heads]
        edges += [(state[c.head], c.word, other) for c in steps]
        ends = {head: (state[head], other) for head in heads}
        side = "right"
    elif all(not any(letter in heads for letter in c.word[1:]) for c in rules):
        edges = [(state[c.word[0]], c.word[1:], state[c.head]) for c in rules]
        edges += [(other, (head,), state[head]) for head in heads]
        edges += [(other, c.word, state[c.head]) for c in steps]
        ends = {head: (other, state[head]) for head in heads}
        side = "left"
    else:
        return None
    reads = frozenset(letter for c in (*rules, *steps) for letter in c.word) - {*heads}
    reason = f"{_quoted(heads)} recur through each other at the {side} end of their chains"
    owned = frozenset(c.rule for c in (*rules, *steps))
    return _Group("rch", heads, owned, Sketch(other + 1, tuple(edges), ends), reads, reason)


def _alone(name: str, chains: list[ChainRule], pures: list[PureRule], kinds: Allowed) -> _Group | None:
    """One head that recurs through itself: as much of it as the wanted kinds allow."""
    candidates = (_self_group(kind, name, chains, pures, kinds) for kind in ("rch", "tc", "linear"))
    return next((group for group in candidates if group is not None), None)


def _fits(name: str, chain: ChainRule) -> bool:
    """Whether a word extends paths of the head on one side, or joins two of them: the head stands at its ends only."""
    return len(chain.word) > 1 and name not in chain.word[1:-1]


def _self_group(kind: str, name: str, chains: list[ChainRule], pures: list[PureRule], kinds: Allowed) -> _Group | None:
    """The group of a head with paths `before* (head) after*`, joined where a rule joins two, if it is of this kind.

    In the place of the head may stand a chain without it.
    """
    closing = [rule for rule in pures if kinds.may(kind, rule.rule) and shapes.holds_in_closure(rule)]
    if not shapes.are_transitive(closing):
        closing = []
    taken = {rule.rule for rule in closing}
    closing = [] if kind == "linear" else closing
    ours = [c for c in chains if c.rule not in taken and kinds.may(kind, c.rule) and kind != "tc"]
    extending = [c for c in ours if name in (c.word[0], c.word[-1]) and _fits(name, c)]
    if kind == "linear":
        extending = [c for c in extending if len(c.word) == 2]
    steps = [c for c in ours if name not in c.word and _is_step(c, kinds)] if kind == "rch" else []
    longer = steps or any(len(c.word) > 2 for c in extending)
    shape = "rch" if longer or (closing and extending) else "linear" if extending else "tc"
    if shape != kind or not (closing or extending or steps):
        return None
    before, after = 0, 1
    edges: list[tuple[int, shapes.Word, int]] = [(before, (name,), after)]
    if closing:
        edges.append((after, (), before))
    for c in extending:
        if c.word[0] == c.word[-1] == name:
            edges.append((after, c.word[1:-1], before))
        elif c.word[0] == name:
            edges.append((after, c.word[1:], after))
        else:
            edges.append((before, c.word[:-1], before))
    edges += [(before, c.word, after) for c in steps]
    rules = frozenset((*(rule.rule for rule in closing), *(c.rule for c in (*extending, *steps))))
    reads = frozenset(letter for c in (*extending, *steps) for letter in c.word) - {name}
    sketch = Sketch(2, tuple(edges), {name: (before, after)})
    return _Group(kind, (name,), rules, sketch, reads, _reason(kind, name, closing, extending, steps))


def _reason(kind: str, name: str, closing: list[PureRule], extending: list[ChainRule], steps: list[ChainRule]) -> str:
    left = _quoted(c.word[0] for c in extending if c.word[-1] == name and c.word[0] != name)
    right = _quoted(c.word[-1] for c in extending if c.word[0] == name and c.word[-1] != name)
    grows = [f"{letters} at its {end}" for letters, end in ((left, "start"), (right, "end")) if letters]
    says = [f"`{name}` is transitive"] if closing else []
    if kind == "linear" or (grows and all(len(c.word) == 2 for c in extending)):
        says.append(f"{'it' if closing else f'`{name}`'} is extended by {' and '.join(grows)}")
    elif extending:
        says.append(f"the chains of `{name}` are regular")
    if steps:
        says.append(f"{_quoted(' '.join(c.word) for c in steps)} {'is a' if len(steps) == 1 else 'are'} `{name}`")
    return ", ".join(says)


# -------------------------------------------------------------------------------------------------- modules


def _paths(groups: list[_Group], kinds: Allowed, below: Collection[str]) -> list[Module]:
    """The groups as modules; those that read each other one way become one, if that is wanted and stays small."""
    free = [group for group in groups if all(kinds.may("rch", rule) for rule in group.rules)]
    modules = []
    for bundle in (*_bundles(free), *([group] for group in groups if group not in free)):
        try:
            modules.append(_module(bundle, below))
        except TooManyStates:
            modules += _one_by_one(bundle, below)
    return modules


def _one_by_one(bundle: list[_Group], below: Collection[str]) -> list[Module]:
    modules = []
    for group in bundle:
        try:
            modules.append(_module([group], below))
        except TooManyStates:
            continue
    return modules


def _bundles(groups: list[_Group]) -> list[list[_Group]]:
    """Groups to be put together, each after those whose heads its words have."""
    leader = {head: group.heads[0] for group in groups for head in group.heads}
    by_leader = {group.heads[0]: group for group in groups}
    reads = {name: [leader[read] for read in group.reads if read in leader] for name, group in by_leader.items()}
    circles = arrange(reads)
    # In a circle no language can be written out in terms of another: its groups exchange facts instead.
    circular = {name for circle in circles if len(circle) > 1 for name in circle}
    bundle_of = {name: frozenset((name,)) for name in reads}
    for name, others in reads.items():
        for other in others:
            if name not in circular and other not in circular:
                merged = bundle_of[name] | bundle_of[other]
                bundle_of.update(dict.fromkeys(merged, merged))
    order = [name for circle in circles for name in circle]
    return [[by_leader[name] for name in order if name in bundle] for bundle in dict.fromkeys(bundle_of.values())]


def _module(bundle: list[_Group], below: Collection[str]) -> Module:
    """The groups as one module. What is closed below is followed one step at a time: a second would be the first."""
    known: dict[str, Deterministic] = {}
    for group in bundle:
        known.update(languages(group.sketch, known))
    heads = tuple(head for group in bundle for head in group.heads)
    rules = frozenset[int]().union(*(group.rules for group in bundle))
    paths = {head: collapsed(words, below) for head, words in known.items()}
    kind = bundle[0].kind if len(bundle) == 1 else "rch"
    shortened = frozenset(head for head in heads if paths[head] != known[head])
    return Module(kind, heads, rules, "; ".join(group.reason for group in bundle), automaton(paths), shortened)


def _quoted(names: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in dict.fromkeys(names))
