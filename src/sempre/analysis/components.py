"""Components written out: after this pass a program has relations, types, directives and rules alone.

What a component declares gets the name of the instance in front, as in `graph.edge`. Every other name in it means what
is declared around: in the instance that this one was made in, and so on to the program. A type argument takes the place
of its parameter, wherever the parameter names a type or a component. Spans stay those of the component, and say which
instance they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, fields, is_dataclass, replace
from typing import Any

from sempre.analysis.naming import counted, nearest
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, Span
from sempre.lang.syntax import (
    AlgebraicType,
    Atom,
    Attribute,
    Branch,
    Cast,
    Component,
    ComponentType,
    Directive,
    Instantiation,
    Item,
    ParsedProgram,
    RelationDecl,
    Rule,
    Subsumption,
    Subtype,
    TypeDecl,
    Union,
)

# Instances inside of instances: more than this is a component that makes itself.
DEEPEST_INSTANCE = 100

Binding = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Home:
    """Where components are looked for: those declared in one place, and then those around it."""

    components: Mapping[str, Component]
    around: Home | None = None

    def find(self, name: str) -> tuple[Component, Home] | None:
        """The component of a name, and where it is declared."""
        home: Home | None = self
        while home is not None:
            if name in home.components:
                return home.components[name], home
            home = home.around
        return None

    def inside(self, component: Component) -> Home:
        return Home({item.type.name: item for item in component.items if isinstance(item, Component)}, self)

    def names(self) -> list[str]:
        return [*self.components, *(self.around.names() if self.around else ())]


@dataclass(slots=True, eq=False)
class Instance:
    """A component on its way to being written out; the program itself has no name and nothing around it.

    `pieces` has its items with what type parameters stand for in each, and the instances inside of it in their places.
    The names are as the component writes them, those of inner instances with the name of the instance in front.
    """

    name: str
    within: str
    around: Instance | None = None
    pieces: list[tuple[Item | Instance, Binding]] = field(default_factory=list)
    relations: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    branches: set[str] = field(default_factory=set)
    made: dict[str, Span] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return f"{self.around.prefix}{self.name}." if self.around is not None else ""

    def adopt(self, inner: Instance) -> None:
        """Take in an instance that stands in this one, with all of its names."""
        for mine, its in zip(self.spaces(), inner.spaces(), strict=True):
            mine |= {f"{inner.name}.{name}" for name in its}

    def spaces(self) -> tuple[set[str], set[str], set[str]]:
        return self.relations, self.types, self.branches


def expand_components(program: ParsedProgram) -> tuple[ParsedProgram, list[Diagnostic]]:
    """`program` with every instance written out, and what is wrong with its components."""
    if not any(isinstance(item, Component | Instantiation) for item in program.items):
        return program, []
    home = Home({item.type.name: item for item in program.items if isinstance(item, Component)})
    diagnostics = list(_structure_problems(program.items, home, frozenset()))
    making = _Making(diagnostics)
    root = Instance("", "")
    making.fill(root, program.items, home, {}, frozenset())
    items = tuple(_written(root, _Names(root)))
    return ParsedProgram(items), list(dict.fromkeys(diagnostics))


# ------------------------------------------------------------------------------------------ what is wrong


def _structure_problems(items: Iterable[Item], home: Home, parameters: frozenset[str]) -> Iterator[Diagnostic]:
    """What is wrong with components before any is instantiated."""
    seen: dict[str, Span] = {}
    for item in items:
        if isinstance(item, Instantiation):
            yield from _reference_problems(item.type, item.span, home, parameters)
        if not isinstance(item, Component):
            continue
        name = item.type.name
        if name in seen:
            notes = ((seen[name], "the first declaration is here"),)
            hint = "Give one of them another name."
            yield Diagnostic("E142", f"component `{name}` is already declared", item.span, hint=hint, notes=notes)
        seen[name] = item.span
        mine = parameters | frozenset(item.type.arguments)
        for base in item.bases:
            yield from _reference_problems(base, item.span, home, mine)
        yield from _cycle_problems(item, home)
        yield from _override_problems(item, home, mine)
        yield from _structure_problems(item.items, home.inside(item), mine)


def _reference_problems(
    type_: ComponentType, span: Span, home: Home, parameters: frozenset[str]
) -> Iterator[Diagnostic]:
    """A component that does not exist, or that is given the wrong number of types."""
    if type_.name in parameters:
        return
    found = home.find(type_.name)
    if found is None:
        hint = nearest(type_.name, home.names()) or f"Declare it with `.comp {type_.name} {{ ... }}`."
        yield Diagnostic("E140", f"unknown component `{type_.name}`", span, hint=hint)
        return
    wanted = found[0].type.arguments
    if len(wanted) != len(type_.arguments):
        takes = counted(len(wanted), "type argument")
        message = f"component `{type_.name}` takes {takes}, not {len(type_.arguments)}"
        notes = ((found[0].span, "declared here"),)
        arguments = f"<{', '.join(wanted)}>" if wanted else ""
        yield Diagnostic("E141", message, span, hint=f"Write `{type_.name}{arguments}`.", notes=notes)


def _cycle_problems(component: Component, home: Home) -> Iterator[Diagnostic]:
    """A component that inherits from itself."""
    path = _path_to(component, component, home, (component.type.name,))
    if path:
        message = f"component `{component.type.name}` inherits from itself: {' -> '.join(path)}"
        yield Diagnostic("E144", message, component.span, hint="Take one of the bases away.")


def _path_to(goal: Component, here: Component, home: Home, path: tuple[str, ...]) -> tuple[str, ...]:
    for base in here.bases:
        found = home.find(base.name)
        if found is None:
            continue
        if found[0] is goal:
            return (*path, base.name)
        if base.name not in path and (longer := _path_to(goal, found[0], found[1], (*path, base.name))):
            return longer
    return ()


def _override_problems(component: Component, home: Home, parameters: frozenset[str]) -> Iterator[Diagnostic]:
    """`.override` of a relation that no base has, or whose declaration does not allow it."""
    if any(base.name in parameters for base in component.bases):
        return
    inherited = _inherited(component, home, ())
    for name in component.overrides:
        if name not in inherited:
            hint = nearest(name, inherited) or "Only what a base component declares can be overridden."
            yield Diagnostic("E146", f"`.override {name}`: no base has a relation `{name}`", component.span, hint=hint)
        elif "overridable" not in inherited[name].qualifiers:
            message = f"`.override {name}`: the relation is not declared `overridable`"
            notes = ((inherited[name].span, "declared here"),)
            hint = "Add `overridable` to its declaration."
            yield Diagnostic("E146", message, component.span, hint=hint, notes=notes)


def _inherited(component: Component, home: Home, path: tuple[str, ...]) -> dict[str, RelationDecl]:
    """The relations that the bases of a component declare, and the bases of those."""
    relations: dict[str, RelationDecl] = {}
    for base in component.bases:
        found = home.find(base.name)
        if found is None or base.name in path:
            continue
        relations |= _inherited(*found, (*path, base.name))
        relations |= {item.name: item for item in found[0].items if isinstance(item, RelationDecl)}
    return relations


# ---------------------------------------------------------------------------------------------- instances


class _Making:
    """Makes the instances of a program, and notes what makes that impossible."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        self.diagnostics = diagnostics
        self.endless = False

    def fill(
        self, instance: Instance, items: Iterable[Item], home: Home, binding: Binding, overridden: frozenset[str]
    ) -> None:
        """Take the items of a component, or of the program, into an instance."""
        for item in items:
            match item:
                case Instantiation():
                    self.make(item, instance, home, binding)
                    continue
                case Component():
                    continue
                case Rule() if overridden:
                    kept = tuple(head for head in item.heads if head.atom.relation not in overridden)
                    if not kept:
                        continue
                    item = item if len(kept) == len(item.heads) else replace(item, heads=kept)
                case Subsumption() if item.lesser.relation in overridden:
                    continue
                case RelationDecl():
                    instance.relations.add(item.name)
                case TypeDecl():
                    instance.types.add(item.name)
                    if isinstance(item.definition, AlgebraicType):
                        instance.branches |= {name for name, _ in item.definition.branches}
                case _:
                    pass
            instance.pieces.append((item, binding))

    def make(self, init: Instantiation, around: Instance, home: Home, binding: Binding) -> None:
        """Make the instance that `.init` asks for, in another one or in the program."""
        name = binding.get(init.type.name, init.type.name)
        found = self.find(name, init.type, init.span, home)
        if found is None or self.is_taken(init, around) or self.is_endless(init, around):
            return
        component, where = found
        inner = Instance(init.name, "", around)
        inner.within = f"the instance `{inner.prefix[:-1]}` of `{name}`"
        self.collect(inner, component, where, _bound(component, init.type, binding), frozenset(), ())
        around.adopt(inner)
        around.pieces.append((inner, binding))

    def find(self, name: str, type_: ComponentType, span: Span, home: Home) -> tuple[Component, Home] | None:
        problems = list(_reference_problems(replace(type_, name=name), span, home, frozenset()))
        self.diagnostics += problems
        return None if problems else home.find(name)

    def is_taken(self, init: Instantiation, around: Instance) -> bool:
        if init.name in around.made:
            notes = ((around.made[init.name], "the first is here"),)
            message, hint = f"there is already an instance `{init.name}`", "Give one of them another name."
            self.diagnostics.append(Diagnostic("E143", message, init.span, hint=hint, notes=notes))
            return True
        around.made[init.name] = init.span
        return False

    def is_endless(self, init: Instantiation, around: Instance) -> bool:
        depth, outer = 0, around
        while outer.around is not None:
            depth, outer = depth + 1, outer.around
        if depth >= DEEPEST_INSTANCE and not self.endless:
            self.endless = True
            message = f"component `{init.type.name}` makes an instance of itself, without end"
            hint = "Make the instance outside of the component."
            self.diagnostics.append(Diagnostic("E145", message, init.span, hint=hint))
        return self.endless

    def collect(
        self,
        instance: Instance,
        component: Component,
        home: Home,
        binding: Binding,
        overridden: frozenset[str],
        path: tuple[str, ...],
    ) -> None:
        """Take a component into an instance: first what it inherits, then its own items."""
        if component.type.name in path:
            return  # reported with the structure
        for base in component.bases:
            name = binding.get(base.name, base.name)
            found = self.find(name, base, component.span, home)
            if found is not None:
                bound = _bound(found[0], base, binding)
                hidden = overridden | frozenset(component.overrides)
                self.collect(instance, *found, bound, hidden, (*path, component.type.name))
        self.fill(instance, component.items, home.inside(component), binding, overridden)


def _bound(component: Component, type_: ComponentType, binding: Binding) -> Binding:
    """What type parameters stand for inside of a component that is given the arguments of `type_`."""
    given = (binding.get(argument, argument) for argument in type_.arguments)
    return {**binding, **dict(zip(component.type.arguments, given, strict=True))}


# ---------------------------------------------------------------------------------------------- writing out


def _written(instance: Instance, names: _Names) -> Iterator[Item]:
    """The items of an instance, under their full names."""
    for piece, binding in instance.pieces:
        if isinstance(piece, Instance):
            yield from _written(piece, _Names(piece))
        elif instance.around is None:
            yield piece  # the program's own names are full
        else:
            yield names.item(piece, binding)


class _Names:
    """Gives the items of one instance their full names, and spans that name the instance."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.binding: Binding = {}
        self.relations: dict[str, str] = {}
        self.branches: dict[str, str] = {}

    def item(self, item: Item, binding: Binding) -> Item:
        self.binding = binding
        made: Item = self.node(item)
        return made

    def relation(self, name: str) -> str:
        if name not in self.relations:
            self.relations[name] = self.full(name, lambda instance: instance.relations)
        return self.relations[name]

    def type(self, name: str) -> str:
        return self.full(self.binding.get(name, name), lambda instance: instance.types)

    def branch(self, name: str) -> str:
        if name not in self.branches:
            self.branches[name] = self.full(name, lambda instance: instance.branches)
        return self.branches[name]

    def full(self, name: str, space: Callable[[Instance], set[str]]) -> str:
        """A name as the instance uses it, under its full name: the innermost that is declared around."""
        here: Instance | None = self.instance
        while here is not None:
            if name in space(here):
                return here.prefix + name
            here = here.around
        return name

    def node(self, node: Any) -> Any:
        """A node, rebuilt with full names and placed spans."""
        kind = type(node)
        parts = _PARTS.get(kind) or _parts_of(kind)
        return kind(*(self.part(getattr(node, name), role) for name, role in parts))

    def part(self, value: Any, role: str) -> Any:
        if role == "span":
            inner = f"{value.within}, in " if value.within else ""
            return replace(value, within=f"{inner}{self.instance.within}")
        if role == "plain" or value is None:
            return value
        if role == "relation":
            return self.relation(value)
        if role == "type":
            return self.type(value)
        if role == "branch":
            return self.branch(value)
        if role == "relations":
            return tuple(map(self.relation, value))
        if role == "types":
            return tuple(map(self.type, value))
        if role == "branches":
            return tuple((self.branch(name), self.below(attributes)) for name, attributes in value)
        return self.below(value)

    def below(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.below, value))
        return self.node(value) if is_dataclass(value) else value


# What the fields of nodes hold that name something; other fields hold nodes, or what stays as it is.
_ROLES: dict[tuple[type, str], str] = {
    (Atom, "relation"): "relation",
    (RelationDecl, "name"): "relation",
    (TypeDecl, "name"): "type",
    (Attribute, "type_name"): "type",
    (Cast, "type_name"): "type",
    (Subtype, "base"): "type",
    (Branch, "name"): "branch",
    (Directive, "relations"): "relations",
    (Union, "members"): "types",
    (AlgebraicType, "branches"): "branches",
}
_PARTS: dict[type, tuple[tuple[str, str], ...]] = {}


def _parts_of(kind: type) -> tuple[tuple[str, str], ...]:
    parts = []
    for each in fields(kind):
        role = _ROLES.get((kind, each.name), "node")
        if each.name == "span":
            role = "span"
        elif role == "node" and each.type in ("str", "int", "float", "bool", "int | None"):
            role = "plain"
        parts.append((each.name, role))
    _PARTS[kind] = tuple(parts)
    return _PARTS[kind]
