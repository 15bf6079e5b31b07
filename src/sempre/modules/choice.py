"""What a user asks for by `modules=`: kinds, kinds for some rules, and modules of the user's own.

A choice is text, or several choices: `auto` for all kinds, `off` for none, a kind (`tc`), a kind for one relation or
rule (`tc:path`, `linear: path(x, z) :- path(x, y), edge(y, z).`), or a `RuleModule`. In one text, commas are between
choices, unless it has a rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sempre.analysis.model import CheckedProgram, Fold, NormalRule, Not, Stratum
from sempre.diagnostics import Diagnostic, StateError
from sempre.modules.protocol import RuleModule
from sempre.modules.spec import Module
from sempre.plan.ops import relations_of

PATH_KINDS = ("tc", "stc", "linear", "rch")
KINDS = (*PATH_KINDS, "seq")
HINT = f"Use auto, off, some of {', '.join(KINDS)}, one of these for a relation, such as tc:path, or a RuleModule."
Wanted = str | RuleModule | Iterable[str | RuleModule]


@dataclass(frozen=True, slots=True)
class ModuleChoice:
    """Kinds that may take any rules, kinds that may take some, by relation or text, and modules of the user's own.

    `stated` are the kinds that were asked for one by one, and not by `auto`.
    """

    kinds: frozenset[str]
    named: tuple[tuple[str, str], ...] = ()
    own: tuple[RuleModule, ...] = ()
    stated: frozenset[str] = frozenset()

    def of_kinds(self, kinds: Collection[str]) -> ModuleChoice:
        """As much of it as is about these kinds."""
        named = tuple(pair for pair in self.named if pair[0] in kinds)
        return ModuleChoice(self.kinds & {*kinds}, named, stated=self.stated & {*kinds})


def chosen_modules(modules: Wanted | ModuleChoice) -> ModuleChoice:
    """A user's choice."""
    if isinstance(modules, ModuleChoice):
        return modules
    if isinstance(modules, RuleModule):
        return ModuleChoice(frozenset(), own=(modules,))
    if not isinstance(modules, str | Iterable):
        raise StateError(f"`modules` is {modules!r}", hint=HINT)
    if isinstance(modules, str):
        parts: list[str | RuleModule] = [modules] if ":-" in modules else [*modules.split(",")]
    else:
        parts = [*modules]
    kinds: set[str] = set()
    stated: set[str] = set()
    named: list[tuple[str, str]] = []
    own: list[RuleModule] = []
    for part in parts:
        if isinstance(part, RuleModule):
            own.append(part)
            continue
        name = str(part).strip()
        kind, colon, target = (text.strip() for text in name.partition(":"))
        if name == "auto":
            kinds |= {*KINDS}
        elif kind not in KINDS or (colon and not target):
            if name != "off" or len(parts) > 1:
                raise StateError(f"unknown kind of module `{name}`", hint=HINT)
        elif colon:
            named.append((kind, target))
        else:
            kinds.add(kind)
            stated.add(kind)
    return ModuleChoice(frozenset(kinds), tuple(named), tuple(own), frozenset(stated))


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which rules of a program each kind may take; None stands for all. Rules that are `taken` are nobody else's.

    `stated` are the rules that each kind was asked for by its own name: by `auto` it takes less.
    """

    rules: Mapping[str, frozenset[int] | None]
    taken: frozenset[int] = frozenset()
    heads: frozenset[str] = frozenset()  # the relations that modules of the user's derive into
    own: Mapping[int, tuple[Module, ...]] = field(default_factory=dict)  # those modules, by stratum
    stated: Mapping[str, frozenset[int] | None] = field(default_factory=dict)

    def __contains__(self, kind: str) -> bool:
        return kind in self.rules

    def may(self, kind: str, rule: int) -> bool:
        """Whether a kind may take a rule."""
        return rule not in self.taken and _has(self.rules, kind, rule)

    def must(self, kind: str, rule: int) -> bool:
        """Whether a kind was asked for a rule, and not by `auto`."""
        return self.may(kind, rule) and _has(self.stated, kind, rule)


def _has(rules: Mapping[str, frozenset[int] | None], kind: str, rule: int) -> bool:
    some = rules.get(kind, frozenset())
    return some is None or rule in some


def allowed(program: CheckedProgram, choice: ModuleChoice) -> Allowed:
    """What a choice means for a program, with equivalences as rules."""
    rules: dict[str, frozenset[int] | None] = dict.fromkeys(choice.kinds)
    stated: dict[str, frozenset[int] | None] = dict.fromkeys(choice.stated)
    for kind, target in choice.named:
        found = frozenset(rule.number for rule in rules_named(program, target, f"`modules` ({kind})"))
        for some in (rules, stated):
            before = some.get(kind, frozenset())
            some[kind] = None if before is None else before | found
    taken: dict[int, str] = {}
    heads: dict[str, str] = {}
    own: dict[int, list[Module]] = {}
    for module in choice.own:
        stratum, found_module = _own_module(program, module)
        _check_apart(program, found_module, taken, heads)
        own.setdefault(stratum.index, []).append(found_module)
        taken.update(dict.fromkeys(found_module.rules, module.name))
        heads.update(dict.fromkeys(found_module.heads, module.name))
    return Allowed(
        rules, frozenset(taken), frozenset(heads), {index: tuple(modules) for index, modules in own.items()}, stated
    )  # fmt: skip


def rules_named(program: CheckedProgram, target: str, who: str) -> list[NormalRule]:
    """The rules that a name of a relation or the text of a rule stands for."""
    if ":-" in target:
        found = [rule for rule in program.rules if _squeezed(rule.text) == _squeezed(target)]
        hint = "`sempre check -v` prints the rules as they are named."
    else:
        found = [rule for rule in program.rules if rule.relation == target]
        hint = f"The relations with rules are: {', '.join(sorted({rule.relation for rule in program.rules}))}."
    if not found:
        what = f"the rule `{target}`" if ":-" in target else f"rules of `{target}`"
        raise StateError(Diagnostic("E615", f"{who} names {what}, and the program has none such", hint=hint))
    return found


def _squeezed(text: str) -> str:
    """A rule without what a writer may do as he likes: blanks, and the period."""
    return "".join(text.split()).removesuffix(".")


def _own_module(program: CheckedProgram, module: RuleModule) -> tuple[Stratum, Module]:
    name, who = module.name, f"module `{module.name}`"
    if name in (*KINDS, "auto", "off", "") or not isinstance(name, str):
        raise StateError(f"a module of its own is named `{name}`", hint="Use a name that is not a kind of sempre's.")
    targets = [module.rules] if isinstance(module.rules, str) else [*module.rules]
    if not targets:
        raise StateError(Diagnostic("E615", f"{who} names no rules", hint="Name rules, or a relation, in `rules`."))
    rules = {rule.number: rule for target in targets for rule in rules_named(program, target, who)}
    for rule in rules.values():
        _check_takeable(program, rule, who)
    strata = [s for s in program.strata if any(rule.relation in s.relations for rule in rules.values())]
    if len(strata) > 1:
        names = ", ".join(sorted({rule.relation for rule in rules.values()}))
        hint = "Make a module for each stratum: `sempre check` prints the strata."
        raise StateError(Diagnostic("E617", f"{who} takes rules of several strata: {names}", hint=hint))
    heads = tuple(dict.fromkeys(rule.relation for rule in rules.values()))
    reads = sorted(set().union(*(relations_of(rule.body) for rule in rules.values())) - {*heads})
    reason = f"`{type(module).__name__}` was given for {'it' if len(heads) == 1 else 'them'}"
    arities = {name: program.relations[name].arity for name in (*heads, *reads)}
    return strata[0], Module(name, heads, frozenset(rules), reason, own=module, reads=tuple(arities), arities=arities)


def _check_takeable(program: CheckedProgram, rule: NormalRule, who: str) -> None:
    """Refuse rules whose facts do not only grow with what a module is told of."""
    if any(isinstance(literal, Not | Fold) for literal in rule.body):
        what = "negation or an aggregate"
    elif program.relations[rule.relation].aggregate is not None:
        what = "an aggregate in its head"
    elif not all(program.relations[name].arity for name in (rule.relation, *relations_of(rule.body))):
        what = "a relation without columns"
    else:
        return
    hint = "Leave the rule to sempre, and name the others one by one."
    raise StateError(Diagnostic("E617", f"{who} cannot take `{rule.text}`, which has {what}", hint=hint))


def _check_apart(program: CheckedProgram, module: Module, taken: Mapping[int, str], heads: Mapping[str, str]) -> None:
    """Refuse two modules for one rule, or for one relation."""
    for rule in program.rules:
        other = taken.get(rule.number) if rule.number in module.rules else None
        if other is not None:
            message = f"modules `{other}` and `{module.kind}` both take `{rule.text}`"
            raise StateError(Diagnostic("E616", message, hint="Name the rule in one of them."))
    for head in module.heads:
        if head in heads:
            message = f"modules `{heads[head]}` and `{module.kind}` both derive into `{head}`"
            raise StateError(Diagnostic("E616", message, hint="Let one of them take all rules of the relation."))
