"""Fixtures of rewrites: what a pass makes of a program, as text.

A file in `fixtures/` has the name of its pass. It has cases: a line `// case: what it shows`, a program, a line
`// becomes`, and what the pass makes of the program. `python -m tests.unit.rewrites.fixtures` writes the second part of
every case anew; read the difference before you commit it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram
from sempre.lang.parser import parse
from sempre.rewrites.checked_text import program_text
from sempre.rewrites.fields import with_fields
from sempre.rewrites.passes import REWRITES
from sempre.rewrites.ranges import with_ranges

FOLDER = Path(__file__).parent / "fixtures"
TITLE, BECOMES = "// case: ", "// becomes\n"


@dataclass(frozen=True, slots=True)
class Case:
    file: str
    title: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"


def normal_form(program: CheckedProgram) -> CheckedProgram:
    """What `check` itself makes of a text: no rewrite at all."""
    return program


PASSES: Mapping[str, Callable[[CheckedProgram], CheckedProgram]] = {
    each.__name__: each for each in (normal_form, *REWRITES)
}
# Passes that work on what others have made.
AFTER: Mapping[str, tuple[Callable[[CheckedProgram], CheckedProgram], ...]] = {
    "with_lasting_names": (with_ranges, with_fields)
}


def cases(path: Path) -> list[Case]:
    """The cases of a file."""
    found = []
    for part in path.read_text("utf-8").split(TITLE)[1:]:
        title, _, text = part.partition("\n")
        before, _, after = text.partition(BECOMES)
        found.append(Case(path.stem, title, before.strip(), after.strip()))
    return found


def rewritten(case: Case) -> str:
    """What the pass makes of the program of a case."""
    checked = check(parse(case.before), {"<program>": case.before})
    for pass_ in AFTER.get(case.file, ()):
        checked = pass_(checked)
    return program_text(PASSES[case.file](checked)).strip()


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.dl")):
        written = [f"{TITLE}{case.title}\n{case.before}\n{BECOMES}{rewritten(case)}\n" for case in cases(path)]
        path.write_text("\n".join(written), "utf-8")
