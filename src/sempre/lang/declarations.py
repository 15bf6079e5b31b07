"""Everything that begins with a dot: relations, types, directives, pragmas, functors, components."""

from __future__ import annotations

from collections.abc import Callable

from sempre.lang.lexer import Token
from sempre.lang.syntax import (
    AlgebraicType,
    Attribute,
    Component,
    ComponentType,
    Directive,
    FunctorDecl,
    Instantiation,
    Item,
    Pragma,
    RecordType,
    RelationDecl,
    Subtype,
    TypeDecl,
    Union,
)
from sempre.lang.terms import TermParser

QUALIFIERS = (
    "inline", "no_inline", "eqrel", "btree", "btree_delete", "brie", "magic", "no_magic", "input", "output",
    "printsize", "override", "overridable", "demand",
)  # fmt: skip


class DeclarationParser(TermParser):
    """Parses the items that begin with a directive."""

    def directive_item(self) -> list[Item]:
        """The items of the directive at the cursor."""
        start = self.advance()
        name = str(start.value)
        if name in ("input", "output", "printsize", "limitsize"):
            return self.directives(start)
        if name in ("include", "once"):
            hint = "Write it on a line of its own."
            raise self.fail("E122", f"`.{name}` is not at the beginning of a line", start.span, hint)
        if name in ("plan", "override", "lattice"):
            raise self.misplaced(start)
        parsers: dict[str, Callable[[Token], list[Item]]] = {
            "decl": self.relations,
            "type": self.type_declaration,
            "number_type": self.old_type,
            "symbol_type": self.old_type,
            "pragma": self.pragma,
            "functor": self.functor,
            "aggregate": self.functor,
            "comp": self.component,
            "init": self.instantiation,
        }
        return parsers[name](start)

    def misplaced(self, start: Token) -> Exception:
        """The failure for a directive that makes no sense where it stands."""
        if start.text == ".lattice":
            hint = "Keep the best value with an aggregate in the head, such as `dist(y, min(d))`."
            return self.fail("E129", "lattices are not supported: `.lattice`", start.span, hint)
        hint = "It follows a rule." if start.text == ".plan" else "It stands in a component."
        return self.fail("E101", f"`{start.text}` does not belong here", start.span, hint)

    # -------------------------------------------------------------------------------------------- relations

    def relations(self, start: Token) -> list[Item]:
        """`.decl a, b(x: t) qualifiers choice-domain ...`: one declaration for each name."""
        names = [self.qualified_name("the name of a relation")]
        while self.accept(","):
            names.append(self.qualified_name("the name of a relation"))
        self.expect("(", f"`(` after `{names[-1]}`")
        attributes = self.attributes(")")
        qualifiers: list[str] = []
        choice: tuple[tuple[str, ...], ...] = ()
        while self.at("word") and not self.begins_rule():
            if self.at_word("choice") and self.peek().kind == "-":
                choice += self.choice_domain()
            else:
                qualifiers.append(self.qualifier())
        span = self.since(start)
        return [RelationDecl(name, attributes, tuple(qualifiers), choice, span) for name in names]

    def begins_rule(self) -> bool:
        """Whether the word at the cursor opens a rule, and so ends the declaration before it."""
        following = self.peek().kind
        return following == "(" or (following == "." and not self.at_word(*QUALIFIERS))

    def qualifier(self) -> str:
        token = self.advance()
        if token.text not in QUALIFIERS:
            known = "Known are " + ", ".join(f"`{name}`" for name in QUALIFIERS) + "."
            raise self.fail("E108", f"unknown qualifier `{token.text}`", token.span, known)
        return token.text

    def choice_domain(self) -> tuple[tuple[str, ...], ...]:
        """`choice-domain a, (b, c)`: the keys, each a tuple of attributes."""
        self.advance()
        self.expect("-")
        if not self.at_word("domain"):
            raise self.unexpected("`choice-domain`")
        self.advance()
        keys = [self.choice_key()]
        while self.accept(","):
            keys.append(self.choice_key())
        return tuple(keys)

    def choice_key(self) -> tuple[str, ...]:
        if not self.accept("("):
            return (self.word("an attribute").text,)
        names = [self.word("an attribute").text]
        while self.accept(","):
            names.append(self.word("an attribute").text)
        self.expect(")")
        return tuple(names)

    def attributes(self, close: str) -> tuple[Attribute, ...]:
        """`name: type` between commas, and the closing bracket."""
        found: list[Attribute] = []
        while not self.at(close):
            if found:
                self.expect(",", f"`,` or `{close}`")
            found.append(self.attribute())
        self.expect(close)
        return tuple(found)

    def attribute(self) -> Attribute:
        start = self.token
        located = self.accept("@") is not None
        name = self.word("the name of an attribute").text
        self.expect(":", f"`:` and a type after `{name}`")
        type_name = self.qualified_name("the name of a type")
        return Attribute(name, type_name, located, self.since(start))

    # ------------------------------------------------------------------------------------------------ types

    def type_declaration(self, start: Token) -> list[Item]:
        name = self.qualified_name("the name of a type")
        definition: Subtype | Union | RecordType | AlgebraicType
        old = False
        if self.accept("<:"):
            definition = Subtype(self.qualified_name("the name of a type"))
        elif not self.accept("="):
            definition, old = Subtype("symbol"), True
        elif self.accept("["):
            definition = RecordType(self.attributes("]"))
        elif self.at("word") and self.peek().kind == "{":
            definition = self.algebraic()
        else:
            definition = self.union()
        return [TypeDecl(name, definition, self.since(start), old)]

    def union(self) -> Union:
        members = [self.qualified_name("the name of a type")]
        while self.accept("|"):
            members.append(self.qualified_name("the name of a type"))
        return Union(tuple(members))

    def algebraic(self) -> AlgebraicType:
        branches = [self.algebraic_branch()]
        while self.accept("|"):
            branches.append(self.algebraic_branch())
        return AlgebraicType(tuple(branches))

    def algebraic_branch(self) -> tuple[str, tuple[Attribute, ...]]:
        name = self.word("the name of a branch").text
        self.expect("{")
        return name, self.attributes("}")

    def old_type(self, start: Token) -> list[Item]:
        """`.number_type name` and `.symbol_type name`."""
        base = str(start.value).removesuffix("_type")
        name = self.word("the name of a type").text
        return [TypeDecl(name, Subtype(base), self.since(start), old=True)]

    # ------------------------------------------------------------------------------- directives and pragmas

    def directives(self, start: Token) -> list[Item]:
        """`.input a, b(key=value)`: options hold for the relations since the last options."""
        found: list[Item] = []
        while True:
            names = [self.qualified_name("a relation")]
            while self.accept(","):
                names.append(self.qualified_name("a relation"))
            options = self.options() if self.at("(") and self.is_options() else ()
            found.append(Directive(str(start.value), tuple(names), options, self.since(start)))
            if not options or not self.accept(","):
                return found

    def is_options(self) -> bool:
        """Whether `(` opens options: an empty pair, or `key =`."""
        return self.peek().kind == ")" or self.peek(2).kind == "="

    def options(self) -> tuple[tuple[str, str], ...]:
        self.expect("(")
        pairs: list[tuple[str, str]] = []
        while not self.at(")"):
            if pairs:
                self.expect(",", "`,` or `)`")
            key = self.word("the name of an option").text
            self.expect("=")
            pairs.append((key, self.option_value()))
        self.expect(")")
        return tuple(pairs)

    def option_value(self) -> str:
        if self.at("word"):
            return self.qualified_name("a value")
        sign = "-" if self.accept("-") else ""
        if self.at("string", "number", "unsigned", "float"):
            return sign + str(self.advance().value)
        raise self.unexpected("the value of an option")

    def pragma(self, start: Token) -> list[Item]:
        key = str(self.expect("string", "a string, the name of the pragma").value)
        value = str(self.advance().value) if self.at("string") else ""
        return [Pragma(key, value, self.since(start))]

    # ------------------------------------------------------------------------------- functors and components

    def functor(self, start: Token) -> list[Item]:
        aggregates = start.value == "aggregate"
        name = self.word("the name of an aggregate" if aggregates else "the name of a functor").text
        self.expect("(")
        parameters: list[Attribute] = []
        while not self.at(")"):
            if parameters:
                self.expect(",", "`,` or `)`")
            parameters.append(self.parameter())
        self.expect(")")
        self.expect(":", "`:` and the type of the result")
        result = self.qualified_name("the name of a type")
        stateful = not aggregates and self.at_word("stateful") and self.advance() is not None
        return [FunctorDecl(name, tuple(parameters), result, stateful, self.since(start), aggregates)]

    def parameter(self) -> Attribute:
        """`name: type`, or a type alone."""
        if self.peek().kind == ":":
            return self.attribute()
        token = self.token
        return Attribute("", self.qualified_name("the name of a type"), span=token.span)

    def component_type(self) -> ComponentType:
        name = self.qualified_name("the name of a component")
        arguments: list[str] = []
        if self.accept("<"):
            arguments.append(self.qualified_name("a type argument"))
            while self.accept(","):
                arguments.append(self.qualified_name("a type argument"))
            self.expect(">")
        return ComponentType(name, tuple(arguments))

    def component(self, start: Token) -> list[Item]:
        type_ = self.component_type()
        bases: list[ComponentType] = []
        if self.accept(":"):
            bases.append(self.component_type())
            while self.accept(","):
                bases.append(self.component_type())
        self.expect("{")
        items: list[Item] = []
        overrides: list[str] = []
        while not self.at("}", "end"):
            if self.token.text == ".override":
                self.advance()
                overrides.append(self.word("a relation").text)
            else:
                items.extend(self.item())
        self.expect("}")
        return [Component(type_, tuple(bases), tuple(items), tuple(overrides), self.since(start))]

    def instantiation(self, start: Token) -> list[Item]:
        name = self.word("a name for the instance").text
        self.expect("=")
        return [Instantiation(name, self.component_type(), self.since(start))]

    def item(self) -> list[Item]:
        """The items at the cursor; `Parser` knows rules too."""
        return self.directive_item()
