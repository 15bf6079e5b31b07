"""Source text to tokens, each with its place.

`tokenize` never raises: what it cannot read becomes a `Diagnostic`, and it goes on after it, so that one run reports
every lexical error. A directive such as `.decl` is one token, which keeps it apart from the `.` that ends a rule.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from sempre.diagnostics import Diagnostic, Span

DIRECTIVES = frozenset({
    "decl", "type", "number_type", "symbol_type", "input", "output", "printsize", "limitsize", "pragma", "functor",
    "aggregate", "comp", "init", "override", "include", "once", "plan", "lattice",
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

_PATTERN = re.compile(
    r"""
      (?P<space>(?:\s|//[^\n]*)+)
    | (?P<word>[A-Za-z_?][A-Za-z0-9_?]*)
    | (?P<number>[0-9]+(?:\.[0-9]+){3}|0[xX][0-9a-fA-F]+u?|0[bB][01]+u?
        |[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+u?)
      (?P<tail>[A-Za-z0-9_?]*)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*"?)
    | (?P<comment>/\*)
    | (?P<preprocessor>\#[ \t]*(?P<macro>\w*)(?:\\\r?\n|[^\n])*)
    | \.(?P<directive>DIRECTIVES)(?![A-Za-z0-9_?])
    | (?P<symbol>SYMBOLS)
    """.replace("DIRECTIVES", "|".join(sorted(DIRECTIVES, key=len, reverse=True))).replace(
        "SYMBOLS", "|".join(re.escape(symbol) for symbol in SYMBOLS)
    ),
    re.VERBOSE,
)

_SURROGATE = re.compile("[\ud800-\udfff]")
_CLOSED = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"')


class Source:
    """A text and where its lines begin, so that places are computed only when something needs them."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def span(self, start: int, end: int) -> Span:
        """The place of the characters from `start` up to `end`."""
        line = bisect_right(self.starts, start)
        last = line if end <= start else bisect_right(self.starts, end - 1)
        return Span(self.file, line, start - self.starts[line - 1] + 1, last, end - self.starts[last - 1] + 1)


class Token(NamedTuple):
    """`kind` is `word`, `number`, `unsigned`, `float`, `string`, `directive`, `end`, or the symbol itself."""

    kind: str
    text: str
    offset: int
    value: int | float | str
    source: Source

    @property
    def end(self) -> int:
        """The offset just behind the token."""
        return self.offset + len(self.text)

    @property
    def span(self) -> Span:
        return self.source.span(self.offset, self.offset + len(self.text))


def tokenize(text: str, file: str) -> tuple[list[Token], list[Diagnostic]]:
    """The tokens of `text`, closed by one of kind `end`, and everything that could not be read."""
    return tokenize_source(Source(text, file))


def tokenize_source(source: Source) -> tuple[list[Token], list[Diagnostic]]:
    """The same for a text that knows the places of its characters."""
    lexer, text = _Lexer(source), source.text
    if not text.isascii():
        for half in _SURROGATE.finditer(text):
            code = ord(half.group())
            hint = "It is half of a character, and cannot be written; remove it."
            lexer.report("E102", f"U+{code:04X} is no character", half.start(), half.end(), hint)
    position = 0 if not lexer.diagnostics else len(text)
    while position < len(text):
        position = lexer.step(position)
    lexer.emit("end", "", position, "")
    return lexer.tokens, lexer.diagnostics


class _Lexer:
    """What one pass over the text has found so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens: list[Token] = []
        self.diagnostics: list[Diagnostic] = []

    def step(self, position: int) -> int:
        """Read one token, or one stretch of space or comment; the position behind it."""
        text = self.source.text
        match = _PATTERN.match(text, position)
        if match is None:
            self.report("E102", f"unexpected character `{text[position]}`", position, position + 1)
            return position + 1
        end = match.end()
        lexeme = match.group()
        kind = match.lastgroup
        if kind == "word":
            self.emit("word", lexeme, position, lexeme)
        elif kind == "symbol":
            self.emit(lexeme, lexeme, position, lexeme)
        elif kind == "string":
            self.string(lexeme, position)
        elif kind == "tail":
            self.number(match.group("number"), match.group("tail"), position)
        elif kind == "directive":
            self.emit("directive", lexeme, position, match.group("directive"))
        elif kind == "comment":
            end = self.block_comment(position)
        elif kind == "preprocessor":
            self.preprocessor(match.group("macro"), lexeme, position)
        return end

    def emit(self, kind: str, lexeme: str, position: int, value: int | float | str) -> None:
        self.tokens.append(Token(kind, lexeme, position, value, self.source))

    def report(self, code: str, message: str, start: int, end: int, hint: str = "") -> None:
        self.diagnostics.append(Diagnostic(code, message, self.source.span(start, end), hint=hint))

    def block_comment(self, position: int) -> int:
        end = self.source.text.find("*/", position + 2)
        if end < 0:
            self.report("E104", "this comment is never closed", position, position + 2, "Close it with `*/`.")
            return len(self.source.text)
        return end + 2

    def preprocessor(self, name: str, lexeme: str, position: int) -> None:
        first_line = lexeme.split("\n")[0].rstrip()
        hint = "The preprocessor reads lines that begin with `#`; change scripts and questions have none."
        message = f"`#{name}` is not at the beginning of a line"
        self.report("E122", message, position, position + len(first_line), hint)

    def number(self, lexeme: str, tail: str, position: int) -> None:
        if tail:
            bad = lexeme + tail
            hint = "Write 42, 42u, 0x2a, 0b101010, 4.2 or 4e2."
            self.report("E106", f"malformed number `{bad}`", position, position + len(bad), hint)
            self.emit("number", bad, position, 0)
            return
        if lexeme.count(".") == 3 and not all(int(part) < 256 for part in lexeme.split(".")):
            hint = "Each of the four numbers of an address is at most 255."
            self.report("E106", f"malformed number `{lexeme}`", position, position + len(lexeme), hint)
            self.emit("number", lexeme, position, 0)
            return
        kind, value = _number_value(lexeme)
        self.emit(kind, lexeme, position, value)

    def string(self, lexeme: str, position: int) -> None:
        # An escaped quote does not close: the pattern takes escapes whole, so a last quote is a closing one unless
        # it is the opening one.
        if len(lexeme) < 2 or not _CLOSED.fullmatch(lexeme):
            end = position + len(lexeme)
            self.report("E103", "this string is never closed", position, end, 'Close it with `"` on the same line.')
            self.emit("string", lexeme, position, lexeme[1:])
            return
        body = lexeme[1:-1]
        self.emit("string", lexeme, position, self.unescape(body, position) if "\\" in body else body)

    def unescape(self, body: str, position: int) -> str:
        """`body` with its escapes resolved; unknown ones are reported and kept as they are."""
        out: list[str] = []
        chars = iter(body)
        for char in chars:
            if char != "\\":
                out.append(char)
                continue
            escape = next(chars)
            if escape not in ESCAPES:
                known = r"""Known are \n \t \r \a \b \f \v \0 \? \" \' and \\."""
                self.report(
                    "E105", f"unknown escape `\\{escape}` in a string", position, position + len(body) + 2, known
                )
            out.append(ESCAPES.get(escape, escape))
        return "".join(out)


def _number_value(lexeme: str) -> tuple[str, int | float]:
    kind, digits = ("unsigned", lexeme[:-1]) if lexeme.endswith("u") else ("number", lexeme)
    if digits.count(".") == 3:  # an address of the Internet, which stands for its 32 bits
        return kind, int.from_bytes(map(int, digits.split(".")), "big")
    prefix = digits[:2].lower()
    if len(digits) > LONGEST_NUMBER and digits.isalnum():
        return kind, 10**LONGEST_NUMBER
    if prefix == "0x":
        return kind, int(digits, 16)
    if prefix == "0b":
        return kind, int(digits, 2)
    if digits.isdigit():
        return kind, int(digits)
    return "float", float(digits)
