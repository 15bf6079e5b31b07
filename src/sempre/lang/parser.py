"""Programs, change scripts and queries from text.

The parser is written by hand, as recursive descent: it can say what it expected in the words of the language, go on
after an error to report the others, and give every node its place. A generated parser does each of these worse, and
would be a dependency of every start.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from typing import TypeVar

from sempre.diagnostics import DataError, Diagnostic, ProgramError, Span
from sempre.lang.cursor import SyntaxFailure
from sempre.lang.declarations import DeclarationParser
from sempre.lang.lexer import DIRECTIVES, Token, tokenize, tokenize_source
from sempre.lang.preprocessor import PLAIN, Prepared, Preprocessing, preprocess
from sempre.lang.syntax import (
    Apply,
    Atom,
    Branch,
    ChangeStatement,
    Float,
    Formula,
    Head,
    Item,
    Nil,
    Number,
    ParsedProgram,
    Record,
    Rule,
    String,
    Subsumption,
    Term,
    Truth,
    Unsigned,
    Variable,
)
from sempre.lang.walk import DEEPEST_TERM, is_too_deep

Plan = tuple[tuple[int, tuple[int, ...]], ...]
Part = TypeVar("Part")


def parse(text: str, file: str = "<text>") -> ParsedProgram:
    """The program in `text`; raises `ProgramError` with every syntax error it has."""
    return parse_prepared(prepare(text, file))


def prepare(text: str, file: str, settings: Preprocessing = PLAIN) -> Prepared:
    """The text of a program as the preprocessor leaves it; raises `ProgramError`."""
    prepared, diagnostics = preprocess(text, file, settings)
    if diagnostics:
        raise ProgramError(diagnostics, prepared.sources)
    return prepared


def parse_prepared(prepared: Prepared) -> ParsedProgram:
    """The program in a text behind the preprocessor; raises `ProgramError` with every syntax error it has."""
    tokens, diagnostics = tokenize_source(prepared)
    parser = Parser(tokens, diagnostics)
    items = parser.program()
    if diagnostics:
        raise ProgramError(diagnostics, prepared.sources)
    return ParsedProgram(tuple(items))


def parse_changes(text: str, file: str = "<text>") -> list[list[ChangeStatement]]:
    """The epochs of a change script, each the changes before one `commit.`

    Raises `DataError` with every mistake; changes behind the last `commit.` are one.
    """
    tokens, diagnostics = tokenize(text, file)
    parser = ChangeParser(tokens, diagnostics)
    epochs = parser.epochs()
    if diagnostics:
        raise DataError(diagnostics, {file: text})
    return epochs


def parse_atom(text: str, file: str = "<query>") -> Atom:
    """One atom, as in a query: `reach("a", X)`; raises `ProgramError`."""
    return _parse_query(text, file, Parser.atom)


def parse_body(text: str, file: str = "<query>") -> Formula:
    """The body of a rule, as in a query: `reach("a", X), !banned(X)`; raises `ProgramError`."""
    return _parse_query(text, file, Parser.formula)


def _parse_query(text: str, file: str, read: Callable[[Parser], Part]) -> Part:
    tokens, diagnostics = tokenize(text, file)
    parser = Parser(tokens, diagnostics)
    try:
        found = read(parser)
        parser.accept(".")
        if not parser.at("end"):
            raise parser.unexpected("the end of the query")
        if not diagnostics and is_too_deep(found):
            raise parser.too_deep(tokens[0].span)
    except SyntaxFailure as failure:
        diagnostics.append(failure.diagnostic)
    except RecursionError:
        diagnostics.append(parser.too_deep(tokens[0].span).diagnostic)
    if diagnostics:
        raise ProgramError(diagnostics, {file: text})
    return found


class Parser(DeclarationParser):
    """Parses whole programs; adds what is wrong to `diagnostics`, which has what the lexer found."""

    def __init__(self, tokens: list[Token], diagnostics: list[Diagnostic]) -> None:
        super().__init__(tokens)
        self.diagnostics = diagnostics
        self.unreadable = [(found.span.line, found.span.column) for found in diagnostics]

    def program(self) -> list[Item]:
        """All items; one with an error is recorded in `diagnostics` and left out."""
        items: list[Item] = []
        while not self.at("end"):
            start = self.position
            try:
                found = self.item()
                deep = [self.too_deep(item.span).diagnostic for item in found if is_too_deep(item)]
                self.diagnostics += deep
                items.extend(found)
            except SyntaxFailure as failure:
                self.recover(failure.diagnostic, start)
            except RecursionError:
                self.recover(self.too_deep(self.tokens[start].span).diagnostic, start)
        return items

    def too_deep(self, span: Span) -> SyntaxFailure:
        return self.fail(
            "E109", "this is nested too deeply", span, f"At most {DEEPEST_TERM} levels can be read; split it."
        )

    def recover(self, diagnostic: Diagnostic, start: int) -> None:
        """Record `diagnostic` and go to where the next item begins.

        A rule ends with `.`; a directive has no end of its own, so the next one, or a word that opens a line, ends it.
        """
        if not self.explained(start):
            self.diagnostics.append(diagnostic)
        directive = self.tokens[start].kind in ("directive", ".")
        self.position = max(self.position, start + 1)
        while not self.at("end", "directive"):
            line = self.token.span.line
            if directive and self.at("word") and line > self.previous.span.line and self.peek().kind == "(":
                return
            if self.advance().kind == ".":
                return

    def explained(self, start: int) -> bool:
        """Whether the lexer reported something between the start of the item and here, which is then the cause."""
        first, here = self.tokens[start].span, self.token.span
        return any((first.line, first.column) <= place <= (here.line, here.column) for place in self.unreadable)

    def item(self) -> list[Item]:
        """A directive, a rule or a fact."""
        if self.at("directive"):
            return self.directive_item()
        if self.at(".") and self.peek().kind == "word":
            name = self.peek()
            span = self.token.span.to(name.span)
            raise self.fail("E107", f"unknown directive `.{name.text}`", span, _directive_hint(name.text))
        if self.at("word", "-"):
            return [self.rule()]
        raise self.unexpected("a rule or a directive")

    # ------------------------------------------------------------------------------------------------ rules

    def rule(self) -> Rule | Subsumption:
        start = self.token
        heads = [self.head()]
        if self.at("<=") and not heads[0].deletes:
            return self.subsumption(start, heads[0].atom)
        while self.accept(","):
            heads.append(self.head())
        body: Formula = Truth(True)
        if self.accept(":-"):
            body = self.formula()
            self.end_of_rule("`,`, `;` or `.`")
        else:
            self.end_of_rule("`:-` or `.`")
        span = self.since(start)
        return Rule(tuple(heads), body, self.plan(), span)

    def end_of_rule(self, expected: str) -> None:
        if not self.accept("."):
            hint = "End the rule with `.`." if self.token.span.line > self.previous.span.line else ""
            raise self.unexpected(expected, hint)

    def head(self) -> Head:
        start = self.token
        deletes = self.accept("-") is not None
        atom = self.atom(head=True)
        return Head(atom, deletes, self.since(start))

    def subsumption(self, start: Token, lesser: Atom) -> Subsumption:
        self.expect("<=")
        greater = self.atom(head=True)
        self.expect(":-")
        body = self.formula()
        self.end_of_rule("`,`, `;` or `.`")
        span = self.since(start)
        return Subsumption(lesser, greater, body, self.plan(), span)

    def plan(self) -> Plan:
        """The `.plan 0:(2,1), 1:(1,2)` that may follow a rule."""
        if self.token.text != ".plan":
            return ()
        self.advance()
        orders = [self.plan_order()]
        while self.accept(","):
            orders.append(self.plan_order())
        return tuple(orders)

    def plan_order(self) -> tuple[int, tuple[int, ...]]:
        version = int(self.expect("number", "the number of a version").value)
        self.expect(":")
        self.expect("(")
        positions: list[int] = []
        while not self.at(")"):
            if positions:
                self.expect(",", "`,` or `)`")
            positions.append(int(self.expect("number", "the number of an atom").value))
        self.expect(")")
        return version, tuple(positions)


class ChangeParser(Parser):
    """Parses change scripts: `+fact.`, `-fact.` and `commit.`"""

    def epochs(self) -> list[list[ChangeStatement]]:
        epochs: list[list[ChangeStatement]] = []
        open_: list[ChangeStatement] = []
        begun = self.token
        while not self.at("end"):
            start = self.position
            begun = begun if open_ else self.token
            try:
                if self.at_word("commit"):
                    self.advance()
                    self.expect(".")
                    epochs.append(open_)
                    open_ = []
                else:
                    open_.append(self.change())
            except SyntaxFailure as failure:
                self.recover(failure.diagnostic, start)
            except RecursionError:
                self.recover(self.too_deep(self.tokens[start].span).diagnostic, start)
        if open_:
            message = "the changes from here on are never committed"
            self.diagnostics.append(Diagnostic("E190", message, begun.span, hint="End the script with `commit.`."))
        return epochs

    def change(self) -> ChangeStatement:
        start = self.token
        if not self.at("+", "-"):
            raise self.unexpected("`+`, `-` or `commit.`", "A change is written `+fact.` or `-fact.`")
        insert = self.advance().kind == "+"
        fact = fact_atom(self.atom())
        for argument in fact.args:
            if not is_constant(argument):
                hint = "Write the fact out: numbers, strings, `nil`, and records and branches of those."
                raise self.fail("E191", "a change takes constants only", argument.span, hint)
        self.expect(".")
        return ChangeStatement(insert, fact, self.since(start))


def fact_atom(atom: Atom) -> Atom:
    """An atom that is a fact: `inf`, `-inf` and `nan`, which are variables elsewhere, are floats here."""
    return replace(atom, args=tuple(map(_fact_term, atom.args)))


def _fact_term(term: Term) -> Term:
    if isinstance(term, Record | Branch):
        return replace(term, args=tuple(map(_fact_term, term.args)))
    if isinstance(term, Variable) and term.name in ("inf", "nan"):
        return Float(float(term.name), term.span)
    if isinstance(term, Apply) and term.functor == "neg" and term.args[0] in (Variable("inf"), Float(math.inf)):
        return Float(-math.inf, term.span)
    return term


def is_constant(term: Term) -> bool:
    """Whether a term is a literal, or a record of such."""
    if isinstance(term, Record | Branch):
        return all(is_constant(argument) for argument in term.args)
    return isinstance(term, Number | Unsigned | Float | String | Nil)


def _directive_hint(name: str) -> str:
    close = get_close_matches(name, sorted(DIRECTIVES), 1)
    return f"Did you mean `.{close[0]}`?" if close else ""
