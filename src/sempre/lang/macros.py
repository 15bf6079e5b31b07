"""Macros: what a name stands for, with arguments and without, `#x` and `a ## b` included.

What a macro stands for is looked through for macros again, without the macro itself, as in C.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sempre.data import dataclass

# A few lines of macros can stand for more text than there is memory.
LONGEST_EXPANSION = 1_000_000
DEEPEST_MACRO = 100

_DEFINITION = re.compile(r"([A-Za-z_]\w*)(\(([^()]*)\))?")
_NAME = re.compile(r"[A-Za-z_]\w*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[0-9]\w*|[A-Za-z_]\w*|\#\#|\s+|//[^\n]*|/\*.*?\*/|.', re.DOTALL)
_LAST_NAME = re.compile(r"(?<!\w)([A-Za-z_]\w*)\s*$")
_BUILT_IN = ("__FILE__", "__LINE__")


class MacroFault(ValueError):
    """A macro that cannot be defined or used so."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro; `parameters` is None for one without parentheses. `place` is where it was defined."""

    name: str
    parameters: tuple[str, ...] | None
    body: str
    place: str


def read_macro(text: str, place: str) -> Macro:
    """The macro that `#define` is followed by."""
    match = _DEFINITION.match(text)
    if match is None:
        raise MacroFault("E153", "`#define` needs the name of a macro", "Write `#define NAME text`.")
    parameters = None
    if match[2] is not None:
        parameters = tuple(name.strip() for name in match[3].split(",")) if match[3].strip() else ()
        for name in parameters:
            if name != "..." and not _NAME.fullmatch(name):
                raise MacroFault("E153", f"`{name}` is no parameter of a macro", "Write names between commas.")
        if len(set(parameters)) < len(parameters):
            raise MacroFault("E153", f"macro `{match[1]}` has two parameters of one name", "Name them apart.")
    elif text[match.end() : match.end() + 1] == "(":
        raise MacroFault("E153", f"the parameters of macro `{match[1]}` cannot be read", "Write names between commas.")
    return Macro(match[1], parameters, text[match.end() :].strip(), place)


class Macros:
    """The macros that are defined at one point of a program."""

    def __init__(self, macros: dict[str, Macro]) -> None:
        self._macros = macros
        self._written = 0

    def get(self, name: str) -> Macro | None:
        return self._macros.get(name)

    def add(self, macro: Macro) -> None:
        self._macros[macro.name] = macro

    def drop(self, name: str) -> None:
        self._macros.pop(name, None)

    def stands_for(self, name: str, text: str, end: int) -> bool:
        """Whether a name that ends at `end` stands for something else: a macro with parameters does before `(`."""
        macro = self._macros.get(name)
        if macro is None:
            return name in _BUILT_IN
        return macro.parameters is None or _opening(text, end) >= 0

    def use(self, text: str, start: int, end: int, file: str, line: int) -> tuple[str, int]:
        """What the macro at `start:end` of a text stands for, arguments taken from the text, and the end of those."""
        made, end = self._use(text, start, end, _Place(file, line), frozenset())
        return made, end

    def expanded(self, text: str, file: str, line: int) -> str:
        """A text with what its macros stand for."""
        return self._expand(text, _Place(file, line), frozenset())

    def _use(self, text: str, start: int, end: int, place: _Place, hidden: frozenset[str]) -> tuple[str, int]:
        name = text[start:end]
        if len(hidden) > DEEPEST_MACRO:
            raise MacroFault("E154", f"more than {DEEPEST_MACRO} macros stand in each other", "Write some of them out.")
        macro = self._macros.get(name)
        if macro is None:
            quoted = place.file.replace("\\", "\\\\").replace('"', '\\"')
            return (f'"{quoted}"' if name == "__FILE__" else str(place.line)), end
        body = macro.body
        if macro.parameters is not None:
            raw, end = _arguments(macro, text, _opening(text, end))
            body = self._substituted(macro, raw, place, hidden)
        elif "##" in body:
            body = re.sub(r"\s*##\s*", "", body)
        made = self._expand(body, place, hidden | {name})
        self._written += len(made)
        if self._written > LONGEST_EXPANSION:
            hint = "A macro that doubles another, again and again, grows beyond all bounds."
            raise MacroFault("E154", f"macros stand for more than {LONGEST_EXPANSION:,} characters", hint)
        # A name at the end may be that of a macro whose arguments stand behind.
        last = _LAST_NAME.search(made)
        if last is not None and last[1] not in hidden | {name} and last[1] in self._macros:
            inner = self._macros[last[1]]
            if inner.parameters is not None and _opening(text, end) >= 0:
                raw, end = _arguments(inner, text, _opening(text, end))
                body = self._substituted(inner, raw, place, hidden)
                made = made[: last.start(1)] + self._expand(body, place, hidden | {name, inner.name})
        return made, end

    def _expand(self, text: str, place: _Place, hidden: frozenset[str]) -> str:
        parts: list[str] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            assert match is not None
            word, position = match.group(), match.end()
            if _NAME.match(word) and word not in hidden and self.stands_for(word, text, position):
                word, position = self._use(text, match.start(), position, place, hidden)
            parts.append(word)
        return "".join(parts)

    def _substituted(self, macro: Macro, raw: Sequence[str], place: _Place, hidden: frozenset[str]) -> str:
        """The body of a macro with its arguments: as written beside `#` and `##`, else with their macros replaced."""
        assert macro.parameters is not None
        given = dict(zip(("__VA_ARGS__" if p == "..." else p for p in macro.parameters), raw, strict=True))
        tokens = [match.group() for match in _TOKEN.finditer(macro.body)]
        parts: list[str] = []
        index, glue = 0, False
        while index < len(tokens):
            token = tokens[index]
            following = next((t for t in tokens[index + 1 :] if not t.isspace()), "")
            if token == "##":
                while parts and (not parts[-1] or parts[-1].isspace()):
                    parts.pop()
                glue = True
            elif token == "#" and following in given:
                index = tokens.index(following, index)
                quoted = given[following].replace("\\", "\\\\").replace('"', '\\"')
                parts.append(f'"{quoted}"')
            elif token in given:
                beside = glue or following == "##"
                parts.append(given[token] if beside else self._expand(given[token], place, hidden))
                glue = False
            elif not (glue and token.isspace()):
                parts.append(token)
                glue = False
            index += 1
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class _Place:
    """What `__FILE__` and `__LINE__` stand for."""

    file: str
    line: int


def _opening(text: str, end: int) -> int:
    """Where the `(` behind a name is, or -1."""
    while end < len(text) and text[end].isspace():
        end += 1
    return end if text[end : end + 1] == "(" else -1


def _arguments(macro: Macro, text: str, opening: int) -> tuple[list[str], int]:
    """The arguments between the parentheses that open there, and the end of those."""
    assert macro.parameters is not None
    arguments, depth, position, begun = [], 0, opening, opening + 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None
        token = match.group()
        if token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
            if depth == 0:
                arguments.append(text[begun:position].strip())
                return _fitting(macro, arguments, text[opening + 1 : position]), position + 1
        elif token == "," and depth == 1:
            arguments.append(text[begun:position].strip())
            begun = position + 1
        position = match.end()
    raise MacroFault("E148", f"the arguments of macro `{macro.name}` are never closed", "Close them with `)`.")


def _fitting(macro: Macro, arguments: list[str], whole: str) -> list[str]:
    """The arguments, as many as there are parameters."""
    parameters = macro.parameters or ()
    if not parameters and not whole.strip():
        return []
    if parameters and parameters[-1] == "..." and len(arguments) >= len(parameters) - 1:
        fixed = len(parameters) - 1
        return [*arguments[:fixed], ", ".join(arguments[fixed:])]
    if len(arguments) != len(parameters):
        takes = f"{len(parameters)} argument{'' if len(parameters) == 1 else 's'}"
        hint = f"It is defined as `{macro.name}({', '.join(parameters)})`."
        raise MacroFault("E148", f"macro `{macro.name}` takes {takes}, not {len(arguments)}", hint)
    return arguments
