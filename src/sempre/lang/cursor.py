"""A place in a list of tokens, and the small steps every part of the parser is made of."""

from __future__ import annotations

from sempre.diagnostics import Diagnostic, Span
from sempre.lang.lexer import Token

OPENING = {"(": ")", "[": "]", "{": "}"}


class SyntaxFailure(Exception):
    """Leaves the item being parsed; the parser records `diagnostic` and goes on behind the item."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class Cursor:
    """Reads tokens in order; lookahead is free, and brackets know their partners."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.partner = match_brackets(tokens)

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    @property
    def previous(self) -> Token:
        return self.tokens[max(0, self.position - 1)]

    def peek(self, ahead: int = 1) -> Token:
        """The token `ahead` of the current one; the last token repeats for ever."""
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def at(self, *kinds: str) -> bool:
        return self.token.kind in kinds

    def at_word(self, *words: str) -> bool:
        return self.token.kind == "word" and self.token.text in words

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.position += 1
        return token

    def accept(self, kind: str) -> Token | None:
        """The current token, consumed, when it is of `kind`."""
        return self.advance() if self.token.kind == kind else None

    def expect(self, kind: str, what: str = "") -> Token:
        """The current token, which must be of `kind`; else a syntax error that says what was expected."""
        if self.token.kind == kind:
            return self.advance()
        raise self.unexpected(what or f"`{kind}`")

    def word(self, what: str) -> Token:
        return self.expect("word", what)

    def since(self, start: Token) -> Span:
        """The span from `start` to the token consumed last."""
        return start.source.span(start.offset, max(start.end, self.previous.end))

    def after_bracket(self) -> Token:
        """The token behind the partner of the bracket at the cursor; the last token when it has none."""
        partner = self.partner.get(self.position, len(self.tokens) - 1)
        return self.tokens[min(partner + 1, len(self.tokens) - 1)]

    def unexpected(self, expected: str, hint: str = "") -> SyntaxFailure:
        """The failure `expected X, found Y` at the cursor."""
        token = self.token
        span = token.span
        if token.kind == "end" and self.position:
            # The end of the file is often lines below; show what the missing text should follow.
            last = self.previous.span
            span = Span(last.file, last.end_line, last.end_column, last.end_line, last.end_column + 1)
        return SyntaxFailure(Diagnostic("E101", f"expected {expected}, found {describe(token)}", span, hint=hint))

    def fail(self, code: str, message: str, span: Span, hint: str = "") -> SyntaxFailure:
        return SyntaxFailure(Diagnostic(code, message, span, hint=hint))


def describe(token: Token) -> str:
    """How a message names a token."""
    if token.kind == "end":
        return "the end of the text"
    return f"the string {token.text}" if token.kind == "string" else f"`{token.text}`"


def match_brackets(tokens: list[Token]) -> dict[int, int]:
    """For every opening bracket with a partner, the index of that partner."""
    partner: dict[int, int] = {}
    open_: list[int] = []
    closing = set(OPENING.values())
    for index, token in enumerate(tokens):
        if token.kind in OPENING:
            open_.append(index)
        elif token.kind in closing and open_ and OPENING[tokens[open_[-1]].kind] == token.kind:
            partner[open_.pop()] = index
        elif token.kind == "directive":
            # A bracket that was never closed must not swallow the declarations after it.
            open_ = [index_ for index_ in open_ if tokens[index_].kind == "{"]
    return partner
