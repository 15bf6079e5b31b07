"""Terms, atoms and formulas: the recursive heart of the parser.

Where the grammar is ambiguous for one token of lookahead, the parser looks behind the matching bracket instead of
trying and backtracking: `(` begins a formula unless an operator follows its `)`, and `name(` begins an atom unless an
operator follows. That is linear, and an error is reported where it is, not where the last attempt gave up.
"""

from __future__ import annotations

from sempre.lang.cursor import Cursor
from sempre.lang.lexer import Token
from sempre.lang.operators import (
    AGGREGATES,
    COMPARISONS,
    HEAD_AGGREGATES,
    PRECEDENCE,
    UNARY,
    UNARY_PRECEDENCE,
    binary_operator,
)
from sempre.lang.syntax import (
    Aggregate,
    Apply,
    Atom,
    Branch,
    Cast,
    Comparison,
    Counter,
    Float,
    Formula,
    HeadAggregate,
    Negation,
    Nil,
    Number,
    Record,
    String,
    Term,
    Truth,
    Unsigned,
    UserCall,
    Variable,
    Wildcard,
    conjunction,
    disjunction,
)

# Words that are operators, and so never variables.
_OPERATOR_WORDS = frozenset(name for name in (*PRECEDENCE, *UNARY) if name.isalpha())

# Tokens that end a term when looking ahead for the `:` of an aggregate.
_TERM_END = frozenset((",", ";", ".", ")", "]", "}", ":-", "directive", "end", *COMPARISONS))


class TermParser(Cursor):
    """Parses terms and formulas from the cursor on."""

    # The `:` of the aggregate whose term is being read.
    awaited = 0

    # ------------------------------------------------------------------------------------------------ terms

    def term(self, tightest: int = 0) -> Term:
        """A term made of operators that bind at least as tightly as `tightest`."""
        start = self.token
        left = self.unary()
        while True:
            operator = binary_operator(self.token.kind, self.token.text)
            if operator is None or PRECEDENCE[operator] < tightest:
                return left
            self.advance()
            right = self.term(PRECEDENCE[operator] + (operator != "^"))
            left = Apply(operator, (left, right), self.since(start))

    def unary(self) -> Term:
        start = self.token
        operator = UNARY.get(start.text) if start.kind in ("word", *UNARY) else None
        if operator is None:
            return self.primary()
        self.advance()
        literal = self.token
        if operator == "neg" and literal.kind in ("number", "float") and self.peek().kind not in ("^", "**"):
            self.advance()
            if literal.kind == "number":
                return Number(-int(literal.value), self.since(start))
            return Float(-float(literal.value), self.since(start))
        operand = self.term(UNARY_PRECEDENCE)
        return Apply(operator, (operand,), self.since(start))

    def primary(self) -> Term:
        token = self.token
        match token.kind:
            case "number":
                return Number(int(self.advance().value), token.span)
            case "unsigned":
                return Unsigned(int(self.advance().value), token.span)
            case "float":
                return Float(float(self.advance().value), token.span)
            case "string":
                return String(str(self.advance().value), token.span)
            case "(":
                self.advance()
                inner = self.term()
                self.expect(")")
                return inner
            case "[":
                self.advance()
                return Record(self.terms_until("]"), self.since(token))
            case "$":
                return self.branch()
            case "@":
                return self.user_term()
            case "word":
                return self.named_term()
        raise self.unexpected("a term")

    def terms_until(self, close: str) -> tuple[Term, ...]:
        """Terms between commas, and the closing bracket."""
        terms: list[Term] = []
        if not self.accept(close):
            terms.append(self.term())
            while self.accept(","):
                terms.append(self.term())
            self.expect(close, f"`,` or `{close}`")
        return tuple(terms)

    def branch(self) -> Term:
        start = self.expect("$")
        if not self.at("word"):
            return Counter(start.span)
        name = self.qualified_name("the name of a branch")
        args = self.terms_until(")") if self.accept("(") else ()
        return Branch(name, args, self.since(start))

    def named_term(self) -> Term:
        """A term that begins with a word: a variable, a call, an aggregate."""
        token = self.token
        word = token.text
        if word in AGGREGATES and self.aggregate_follows():
            return self.aggregate()
        if self.peek().kind == "(":
            return self.call()
        if word in _OPERATOR_WORDS:
            raise self.unexpected("a term")
        self.advance()
        if word == "_":
            return Wildcard(token.span)
        return Nil(token.span) if word == "nil" else Variable(word, token.span)

    def call(self) -> Term:
        start = self.advance()
        self.expect("(")
        if start.text == "as":
            operand = self.term()
            self.expect(",")
            type_name = self.qualified_name("the name of a type")
            self.expect(")")
            return Cast(operand, type_name, self.since(start))
        args = self.terms_until(")")
        if start.text == "autoinc" and not args:
            return Counter(self.since(start))
        return self.list_term(start, args) or Apply(start.text, args, self.since(start))

    def list_term(self, start: Token, args: tuple[Term, ...]) -> Term | None:
        """The lists of NDlog, which are records: `f_init(a, b)` is `[a, [b, nil]]`, `f_concat(a, p)` is `[a, p]`."""
        span = self.since(start)
        if start.text == "f_concat" and len(args) == 2:
            return Record(args, span)
        if start.text != "f_init" or not args:
            return None
        found: Term = Nil(span)
        for arg in reversed(args):
            found = Record((arg, found), span)
        return found

    # ------------------------------------------------------------------------------------------- aggregates

    def aggregate_follows(self) -> bool:
        """Whether the word at the cursor begins `kind term : body`, and not a call or a variable."""
        return self.colon_ahead(self.position + 1) > 0

    def colon_ahead(self, index: int) -> int:
        """Where the `:` is that comes before anything that would end a term, or 0; brackets are skipped whole."""
        if self.tokens[index].kind == "(":
            index = self.partner.get(index, index) + 1
        while index < len(self.tokens):
            token = self.tokens[index]
            if token.kind == ":":
                return index
            if token.kind in _TERM_END or token.text in AGGREGATES:
                return 0
            index = self.partner.get(index, index) + 1
        return 0

    def user_aggregate_follows(self) -> bool:
        """Whether the `@` at the cursor begins `@name term : body`.

        `@name(...)` does so where the `:` follows at once, and is not that of an aggregate around.
        """
        if self.peek().kind != "word":
            return False
        if self.peek(2).kind != "(":
            return self.colon_ahead(self.position + 2) > 0
        behind = self.partner.get(self.position + 2, len(self.tokens) - 2) + 1
        return self.tokens[behind].kind == ":" and behind != self.awaited

    def user_term(self) -> Term:
        """`@name(args)`, or the aggregate `@name term : body`."""
        aggregates = self.user_aggregate_follows()
        start = self.advance()
        if aggregates:
            name = self.word("the name of an aggregate")
            return self.aggregate_of(start, f"@{name.text}")
        name = self.word("the name of a functor")
        self.expect("(")
        return UserCall(name.text, self.terms_until(")"), self.since(start))

    def aggregate(self) -> Aggregate:
        start = self.advance()
        return self.aggregate_of(start, start.text)

    def aggregate_of(self, start: Token, kind: str) -> Aggregate:
        """An aggregate from behind its name."""
        around, self.awaited = self.awaited, self.colon_ahead(self.position)
        term = None if self.at(":") else self.term()
        self.awaited = around
        if term is None and kind != "count":
            raise self.unexpected(f"what to take the {kind} of", f"Write `{kind} x : {{ ... }}`.")
        if term is not None and kind == "count":
            raise self.fail("E101", "`count` takes no term", term.span, "Write `count : { ... }`.")
        self.expect(":")
        if self.accept("{"):
            body = self.formula()
            self.expect("}")
        else:
            body = self.atom()
        return Aggregate(kind, term, body, self.since(start))

    # ------------------------------------------------------------------------------------------------ atoms

    def qualified_name(self, what: str) -> str:
        """A name, with the instances it is qualified by: `graph.edge`, written without spaces."""
        name = self.word(what).text
        while self.at(".") and self.token.offset == self.previous.end and self.peek().offset == self.token.end:
            if self.peek().kind != "word":
                break
            self.advance()
            name += "." + self.advance().text
        return name

    def atom(self, head: bool = False) -> Atom:
        """`name(args)`; in a head, an argument may be an aggregate."""
        start = self.token
        name = self.qualified_name("a relation")
        self.expect("(", f"`(` after `{name}`")
        args: list[Term] = []
        location: int | None = None
        while not self.at(")"):
            if args:
                self.expect(",", "`,` or `)`")
            calls = self.peek().kind == "word" and self.peek(2).kind == "("
            if self.at("@") and not calls and not self.user_aggregate_follows():
                if location is not None:
                    raise self.fail("E111", "an atom has at most one location", self.token.span)
                location = len(args)
                self.advance()
            args.append(self.head_argument() if head else self.term())
        self.expect(")")
        return Atom(name, tuple(args), location, self.since(start))

    def head_argument(self) -> Term:
        start = self.token
        if not self.at_word(*HEAD_AGGREGATES) or self.aggregate_follows():
            return self.term()
        if self.peek().kind == "<":
            self.advance()
            self.advance()
            inner = self.term()
            self.expect(">")
            return HeadAggregate(start.text, inner, self.since(start))
        term = self.term()
        # Only the whole argument is an aggregate: `min(x) + 1` stays a call, which the analysis explains.
        if isinstance(term, Apply) and term.functor == start.text and len(term.args) == 1:
            return HeadAggregate(start.text, term.args[0], term.span)
        return term

    # --------------------------------------------------------------------------------------------- formulas

    def formula(self) -> Formula:
        """Alternatives between `;`."""
        start = self.token
        parts = [self.conjunction()]
        while self.accept(";"):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else disjunction(parts, self.since(start))

    def conjunction(self) -> Formula:
        """Literals between `,`."""
        start = self.token
        parts = [self.literal()]
        while self.accept(","):
            parts.append(self.literal())
        return parts[0] if len(parts) == 1 else conjunction(parts, self.since(start))

    def literal(self) -> Formula:
        token = self.token
        if self.at("!"):
            self.advance()
            return Negation(self.literal(), self.since(token))
        if self.at("(") and not self.is_operator(self.after_bracket()):
            self.advance()
            inner = self.formula()
            self.expect(")")
            return inner
        if self.at("word"):
            return self.literal_of_word()
        return self.comparison()

    def literal_of_word(self) -> Formula:
        token = self.token
        if token.text in ("true", "false") and not self.is_operator(self.peek()) and self.peek().kind != "(":
            self.advance()
            return Truth(token.text == "true", token.span)
        if self.peek().kind == "(":
            if token.text in ("match", "contains"):
                return self.string_test()
            return self.comparison() if self.call_continues() else self.atom()
        if self.peek().kind == "." and self.peek(2).kind == "word" and self.peek(2).offset == self.token.end + 1:
            return self.atom()
        return self.comparison()

    def call_continues(self) -> bool:
        """Whether an operator follows `name(...)` at the cursor, which makes it a term."""
        if self.token.text in AGGREGATES and self.aggregate_follows():
            return True
        self.position += 1
        after = self.after_bracket()
        self.position -= 1
        return self.is_operator(after)

    def is_operator(self, token: Token) -> bool:
        return token.kind in COMPARISONS or binary_operator(token.kind, token.text) is not None

    def string_test(self) -> Comparison:
        start = self.advance()
        self.expect("(")
        left = self.term()
        self.expect(",")
        right = self.term()
        self.expect(")")
        return Comparison(start.text, left, right, self.since(start))

    def comparison(self) -> Comparison:
        start = self.token
        if start.kind in _TERM_END:
            raise self.unexpected("an atom or a comparison")
        left = self.term()
        if not self.at(*COMPARISONS):
            raise self.unexpected("a comparison such as `=` or `<`", self.comparison_hint(left))
        operator = self.advance().kind
        right = self.term()
        return Comparison(operator, _truth_value(left), _truth_value(right), self.since(start))

    def comparison_hint(self, left: Term) -> str:
        if isinstance(left, Variable):
            return f"A relation without columns is written `{left.name}()`."
        return ""


def _truth_value(term: Term) -> Term:
    """`true` and `false` as operands, as in `f_inPath(p, s) = false`, are 1 and 0."""
    if isinstance(term, Variable) and term.name in ("true", "false"):
        return Number(int(term.name == "true"), term.span)
    return term
