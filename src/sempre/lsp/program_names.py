"""Every name in a program with its place and what it names, also while the program is broken.

The parser itself finds them: `NamingParser` notes each name that it reads, so that nothing here has to know the grammar
a second time. `Names` says which declaration a name means: in the component it stands in, in the bases of that, and so
on outward.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, Span
from sempre.lang.lexer import Token
from sempre.lang.parser import Parser
from sempre.lang.syntax import Item, Term, Variable

Scope = tuple[str, ...]

# What the parser says it expects, and what such a word names.
_SPACES = {
    "the name of a relation": "relation",
    "a relation": "relation",
    "the name of a type": "type",
    "a type argument": "type",
    "the name of a branch": "branch",
    "the name of a functor": "functor",
    "the name of an aggregate": "functor",
    "the name of a component": "component",
    "a name for the instance": "instance",
    "the name of an attribute": "attribute",
    "an attribute": "attribute",
}
# The directives whose first name is declared by them.
_DECLARING = frozenset({".type", ".number_type", ".symbol_type", ".functor", ".aggregate", ".comp"})
# What else a name of a space may mean.
_ALSO = {"type": ("parameter", "type", "component"), "component": ("parameter", "component")}
_OF_AN_ITEM = ("variable", "attribute")


@dataclass(frozen=True, slots=True)
class Name:
    """A name where it stands.

    `text` is its last part; `owners` are the instances in front of it. `scope` are the components around, `item` is the
    first token of the rule or declaration that it belongs to.
    """

    space: str
    text: str
    span: Span
    scope: Scope
    item: int
    index: int
    declares: bool = False
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extent:
    """Where an item begins and ends."""

    first: int
    span: Span


class NamingParser(Parser):
    """Parses a program and notes its names; what was noted before an error stays."""

    def __init__(self, tokens: list[Token], diagnostics: list[Diagnostic]) -> None:
        super().__init__(tokens, diagnostics)
        self.names: list[Name] = []
        self.extents: dict[int, Extent] = {}
        self._items: list[int] = []
        self._borders, self._scopes, self.headers = _regions(tokens, self.partner)

    def item(self) -> list[Item]:
        first = self.position
        self._items.append(first)
        try:
            return super().item()
        finally:
            self._items.pop()
            self.extents[first] = Extent(first, self.since(self.tokens[first]))

    def word(self, what: str) -> Token:
        before = self.previous
        token = super().word(what)
        space = _SPACES.get(what)
        if space is not None:
            self._note(space, token, what, before)
        return token

    def qualified_name(self, what: str) -> str:
        first, noted, before = self.position, len(self.names), self.previous
        name = super().qualified_name(what)
        space = _SPACES.get(what)
        if space is not None:
            del self.names[noted:]
            parts = self.tokens[first : self.position : 2]
            owners: tuple[str, ...] = ()
            for token in parts[:-1]:
                self._note("instance", token, "", before, owners)
                owners = (*owners, token.text)
            self._note(space, parts[-1], what, before, owners)
        return name

    def named_term(self) -> Term:
        token = self.token
        term = super().named_term()
        if isinstance(term, Variable) and term.name not in ("true", "false"):
            self._note("variable", token, "", token)
        return term

    def _note(self, space: str, token: Token, what: str, before: Token, owners: tuple[str, ...] = ()) -> None:
        item = self._items[-1] if self._items else 0
        index = self.position - 1
        declares = what in ("the name of a relation", "a name for the instance", "the name of an attribute")
        declares = declares or (before.kind == "directive" and before.text in _DECLARING)
        declares = declares or (space == "branch" and before.kind != "$")
        if what == "a type argument" and self._is_parameter(index):
            space, declares = "parameter", True
        scope = self._scope(index, outer=space == "component" and declares)
        self.names.append(Name(space, token.text, token.span, scope, item, index, declares, owners))

    def _is_parameter(self, index: int) -> bool:
        """Whether a type argument stands behind the name of the component that is declared."""
        return any(start < index < colon for start, colon, _ in self.headers.values())

    def _scope(self, index: int, *, outer: bool) -> Scope:
        scope = self._scopes[bisect_right(self._borders, index) - 1]
        return scope[:-1] if outer else scope

    def scope_at(self, file: str, line: int, column: int) -> Scope:
        """The components around a place."""
        found: Scope = ()
        for border, scope in zip(self._borders, self._scopes, strict=True):
            span = self.tokens[min(border, len(self.tokens) - 1)].span
            if span.file == file and (span.line, span.column) <= (line, column):
                found = scope
        return found


def _regions(
    tokens: Sequence[Token], partner: dict[int, int]
) -> tuple[list[int], list[Scope], dict[Scope, tuple[int, int, int]]]:
    """Which components are around a token, and the heads of components.

    The first two are where that changes, and to what. Of a head: where it begins, where its own name and parameters
    end, and where its bases end.
    """
    borders: list[int] = [0]
    scopes: list[Scope] = [()]
    headers: dict[Scope, tuple[int, int, int]] = {}
    open_: list[tuple[int, Scope]] = []
    for index, token in enumerate(tokens):
        while open_ and index > open_[-1][0]:
            open_.pop()
            borders.append(index)
            scopes.append(open_[-1][1] if open_ else ())
        if token.text != ".comp" or token.kind != "directive" or tokens[index + 1].kind != "word":
            continue
        opening = index
        while tokens[opening].kind not in ("{", "end", "."):
            opening += 1
        colon = next((at for at in range(index, opening) if tokens[at].kind == ":"), opening)
        scope = (*(open_[-1][1] if open_ else ()), tokens[index + 1].text)
        open_.append((partner.get(opening, len(tokens)), scope))
        borders.append(index)
        scopes.append(scope)
        headers[scope] = (index, colon, opening)
    return borders, scopes, headers


class Names:
    """The names of a program, and which declaration each of them means."""

    def __init__(self, parser: NamingParser) -> None:
        self.all = tuple(parser.names)
        self._declared: dict[tuple[Scope, str, str], Name] = {}
        self._bases: dict[Scope, list[str]] = defaultdict(list)
        self._made: dict[tuple[Scope, str], str] = {}
        instance: Name | None = None
        for name in self.all:
            if name.declares:
                self._declared.setdefault((name.scope, name.space, name.text), name)
            if name.space == "instance" and name.declares:
                instance = name
            elif name.space == "component" and not name.declares:
                header = parser.headers.get(name.scope)
                if header is not None and header[0] < name.index < header[2]:
                    self._bases[name.scope].append(name.text)
                elif instance is not None and instance.item == name.item:
                    self._made[instance.scope, instance.text] = name.text

    def at(self, file: str, line: int, column: int) -> list[Name]:
        """The names at a place; several where it is the use of a macro. Their ends count."""
        return [
            name
            for name in self.all
            if name.span.file == file
            and (name.span.line, name.span.column) <= (line, column) <= (name.span.end_line, name.span.end_column)
        ]

    def meant(self, name: Name) -> Name | None:
        """The declaration that a name means; the first occurrence of a variable or an attribute."""
        if name.space in _OF_AN_ITEM:
            return next(each for each in self.all if _same_item(each, name))
        if name.declares:
            return self._declared[name.scope, name.space, name.text]
        if not name.owners:
            return self._outward(name.scope, name.space, name.text, frozenset())
        home = self.inside_of(name.scope, name.owners)
        return None if home is None else self._within(home, name.space, name.text, frozenset())

    def inside_of(self, scope: Scope, owners: Iterable[str]) -> Scope | None:
        """The component that an instance, `a` or `a.b`, is one of."""
        home: Scope | None = None
        for owner in owners:
            made = (
                self._outward(scope, "instance", owner, frozenset())
                if home is None
                else self._within(home, "instance", owner, frozenset())
            )
            kind = None if made is None else self._made.get((made.scope, made.text))
            found = None if made is None or kind is None else self._outward(made.scope, "component", kind, frozenset())
            if found is None or found.space != "component":
                return None
            home = (*found.scope, found.text)
        return home

    def uses(self, declaration: Name) -> list[Name]:
        """The names that mean a declaration, the declaration too."""
        alike = [name for name in self.all if name.text == declaration.text]
        if declaration.space in _OF_AN_ITEM:
            return [name for name in alike if _same_item(name, declaration)]
        return [name for name in alike if name.space not in _OF_AN_ITEM and self.meant(name) is declaration]

    def visible(self, scope: Scope, space: str) -> Iterator[Name]:
        """The declarations of a space that can be used in a scope, the nearest first."""
        while True:
            yield from self.members(scope, space)
            if not scope:
                return
            scope = scope[:-1]

    def members(self, scope: Scope, space: str, seen: frozenset[Scope] = frozenset()) -> Iterator[Name]:
        """The declarations of a space in a component and its bases."""
        if scope in seen:
            return
        yield from (name for (where, kind, _), name in self._declared.items() if where == scope and kind == space)
        for home in self._homes(scope, frozenset()):
            yield from self.members(home, space, seen | {scope})

    def _outward(self, scope: Scope, space: str, text: str, seen: frozenset[Scope]) -> Name | None:
        while True:
            found = self._within(scope, space, text, seen)
            if found is not None or not scope:
                return found
            scope = scope[:-1]

    def _within(self, scope: Scope, space: str, text: str, seen: frozenset[Scope]) -> Name | None:
        for each in _ALSO.get(space, (space,)):
            if (scope, each, text) in self._declared:
                return self._declared[scope, each, text]
        if scope in seen:
            return None
        seen |= {scope}
        homes = self._homes(scope, seen)
        return next((name for home in homes if (name := self._within(home, space, text, seen)) is not None), None)

    def _homes(self, scope: Scope, seen: frozenset[Scope]) -> Iterator[Scope]:
        """The components that one inherits from."""
        for base in self._bases.get(scope, ()):
            found = self._outward(scope[:-1], "component", base, seen | {scope})
            if found is not None and found.space == "component":
                yield (*found.scope, found.text)


def _same_item(one: Name, other: Name) -> bool:
    return (one.space, one.text, one.item) == (other.space, other.text, other.item)
