"""Source text to tokens, each with its place.

`tokenize` never raises: what it cannot read becomes a `Diagnostic`, and it goes on after it, so that one run reports
every lexical error. A directive such as `.decl` is one token, which keeps it apart from the `.` that ends a rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sempre.diagnostics import Diagnostic, Span

DIRECTIVES = frozenset({
    "decl", "type", "number_type", "symbol_type", "input", "output", "printsize", "limitsize", "pragma", "functor",
    "comp", "init", "override", "include", "once", "plan", "const", "lattice",
})  # fmt: skip

# Longest first, so that `>>>` is not read as `>>` and `>`.
SYMBOLS = (
    ">>>", ":-", "<=", ">=", "!=", "<:", "**", "<<", ">>", "&&", "||", "^^",
    "(", ")", "[", "]", "{", "}", ",", ";", ":", ".", "=", "<", ">", "!", "+", "-", "*", "/", "%", "^", "~", "&", "|",
    "@", "$",
)  # fmt: skip

ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    "0": "\0", "?": "?",
}  # fmt: skip

# Python refuses to print or read much longer integers; one of this length is far outside 64 bits, which is all that
# the analysis asks of it.
LONGEST_NUMBER = 1000

_SPACE = re.compile(r"\s+|//[^\n]*")
_WORD = re.compile(r"[A-Za-z_?][A-Za-z0-9_?]*")
_NUMBER = re.compile(
    r"0[xX][0-9a-fA-F]+u?|0[bB][01]+u?"
    r"|[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
    r"|[0-9]+u?"
)
_DIRECTIVE = re.compile(r"\.(" + "|".join(sorted(DIRECTIVES, key=len, reverse=True)) + r")(?![A-Za-z0-9_?])")
_PREPROCESSOR = re.compile(r"#[ \t]*(\w*)(?:\\\r?\n|[^\n])*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\[^\n])*')
_SYMBOL = re.compile("|".join(re.escape(symbol) for symbol in SYMBOLS))
_TAIL = re.compile(r"[A-Za-z0-9_?]+")


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is `word`, `number`, `unsigned`, `float`, `string`, `directive`, `end`, or the symbol itself."""

    kind: str
    text: str
    span: Span
    offset: int
    value: int | float | str = ""

    @property
    def end(self) -> int:
        """The offset just behind the token."""
        return self.offset + len(self.text)


def tokenize(text: str, file: str) -> tuple[list[Token], list[Diagnostic]]:
    """The tokens of `text`, closed by one of kind `end`, and everything that could not be read."""
    lexer = _Lexer(text, file)
    while lexer.position < len(text):
        lexer.step()
    lexer.emit("end", "")
    return lexer.tokens, lexer.diagnostics


class _Lexer:
    """The state of one pass over the text: where it is, and what it has found."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.position = 0
        self.line = 1
        self.line_start = 0
        self.tokens: list[Token] = []
        self.diagnostics: list[Diagnostic] = []

    def step(self) -> None:
        """Read one token, or one stretch of space or comment."""
        text, position = self.text, self.position
        char = text[position]
        if space := _SPACE.match(text, position):
            self.skip(space.group())
        elif text.startswith("/*", position):
            self.block_comment()
        elif char == "#":
            self.preprocessor()
        elif word := _WORD.match(text, position):
            self.emit("word", word.group())
        elif char.isdigit() and char.isascii():
            self.number()
        elif char == '"':
            self.string()
        elif directive := _DIRECTIVE.match(text, position):
            self.emit("directive", directive.group(), directive.group(1))
        elif symbol := _SYMBOL.match(text, position):
            self.emit(symbol.group(), symbol.group())
        else:
            self.report("E102", f"unexpected character `{char}`", char)
            self.skip(char)

    def span(self, lexeme: str) -> Span:
        """Where `lexeme`, which starts here, lies."""
        column = self.position - self.line_start + 1
        breaks = lexeme.count("\n")
        if not breaks:
            return Span(self.file, self.line, column, self.line, column + len(lexeme))
        return Span(self.file, self.line, column, self.line + breaks, len(lexeme) - lexeme.rfind("\n"))

    def skip(self, lexeme: str) -> None:
        breaks = lexeme.count("\n")
        if breaks:
            self.line += breaks
            self.line_start = self.position + lexeme.rfind("\n") + 1
        self.position += len(lexeme)

    def emit(self, kind: str, lexeme: str, value: int | float | str | None = None) -> None:
        token = Token(kind, lexeme, self.span(lexeme), self.position, lexeme if value is None else value)
        self.tokens.append(token)
        self.skip(lexeme)

    def report(self, code: str, message: str, lexeme: str, hint: str = "") -> None:
        self.diagnostics.append(Diagnostic(code, message, self.span(lexeme), hint=hint))

    def block_comment(self) -> None:
        end = self.text.find("*/", self.position + 2)
        if end < 0:
            self.report("E104", "this comment is never closed", "/*", "Close it with `*/`.")
            end = len(self.text)
        self.skip(self.text[self.position : end + 2])

    def preprocessor(self) -> None:
        match = _PREPROCESSOR.match(self.text, self.position)
        assert match is not None
        name = match.group(1)
        first_line = match.group().split("\n")[0].rstrip()
        self.report(
            "E122",
            f"the preprocessor is not supported: `#{name}`",
            first_line,
            "Run the program through `mcpp -P` or `cpp -P` first.",
        )
        self.skip(match.group())

    def number(self) -> None:
        match = _NUMBER.match(self.text, self.position)
        assert match is not None
        lexeme = match.group()
        tail = _TAIL.match(self.text, match.end())
        if tail:
            bad = lexeme + tail.group()
            self.report("E106", f"malformed number `{bad}`", bad, "Write 42, 42u, 0x2a, 0b101010, 4.2 or 4e2.")
            self.emit("number", bad, 0)
            return
        kind, value = _number_value(lexeme)
        self.emit(kind, lexeme, value)

    def string(self) -> None:
        match = _STRING.match(self.text, self.position)
        assert match is not None
        if self.text[match.end() : match.end() + 1] != '"':
            self.report("E103", "this string is never closed", match.group(), 'Close it with `"` on the same line.')
            self.emit("string", match.group(), match.group()[1:])
            return
        self.emit("string", match.group() + '"', self.unescape(match.group()[1:]))

    def unescape(self, body: str) -> str:
        """`body` with its escapes resolved; unknown ones are reported and kept as they are."""
        if "\\" not in body:
            return body
        out: list[str] = []
        chars = iter(body)
        for char in chars:
            if char != "\\":
                out.append(char)
                continue
            escape = next(chars)
            if escape not in ESCAPES:
                known = r"Known are \n \t \r \a \b \f \v \0 \? \" \' and \\."
                self.report("E105", f"unknown escape `\\{escape}` in a string", f'"{body}"', known)
            out.append(ESCAPES.get(escape, escape))
        return "".join(out)


def _number_value(lexeme: str) -> tuple[str, int | float]:
    kind, digits = ("unsigned", lexeme[:-1]) if lexeme.endswith("u") else ("number", lexeme)
    prefix = digits[:2].lower()
    if len(digits) > LONGEST_NUMBER and digits.isalnum():
        return kind, 10**LONGEST_NUMBER
    if prefix == "0x":
        return kind, int(digits[2:], 16)
    if prefix == "0b":
        return kind, int(digits[2:], 2)
    if digits.isdigit():
        return kind, int(digits)
    return "float", float(digits)
