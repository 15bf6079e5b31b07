"""Update scripts: a program, changes, and what each commit must change.

    .decl edge(x: number, y: number)          the program, as any other; its facts are there before the first commit
    .decl reach(x: number, y: number)
    reach(x, y) :- edge(x, y).
    //---
    +edge(1, 2). -edge(2, 3). commit.         one epoch; the last operation on a fact wins
    // The line below is the complete net change of all relations that have rules, in any order;
    // several such lines add up, and `//>` alone means that nothing changes.
    //> +reach(1,2) -reach(2,3)

`python -m tests.scripts.script FILE...` writes what the oracle finds into the files, for a person to check.
`from_case(case)` is the script of a random case.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sempre.lang import syntax as s
from sempre.lang.parser import parse, parse_changes
from sempre.lang.printer import to_text
from tests.engine import Changes, updated
from tests.oracle.clauses import clauses_of
from tests.oracle.naive import Facts, explicit_facts, materialize
from tests.oracle.values import Row
from tests.property.dice import literal
from tests.property.programs import Case

SEPARATOR = "//---\n"
FACT = re.compile(r'([+-])(\w+)\(((?:[^()"]|"(?:[^"\\]|\\.)*")*)\)')


@dataclass(frozen=True)
class Script:
    """A parsed script: per epoch, the changes and the (added, removed) facts that are expected."""

    program: s.ParsedProgram
    epochs: list[Changes]
    expected: list[Changes]


def read(text: str, file: str) -> Script:
    head, _, tail = text.partition(SEPARATOR)
    program = parse(head, file)
    changes, expected = [], []
    for commit in tail.split("commit.")[1:]:
        block = "".join(re.findall(r"^//>(.*)$", commit, re.MULTILINE))
        found = "".join(f"{sign}{name}({args}).\n" for sign, name, args in FACT.findall(block))
        expected.append(_changes(program, next(iter(parse_changes(found + "commit.", file)))))
    changes = [_changes(program, epoch) for epoch in parse_changes(tail, file)]
    return Script(program, changes, expected)


def _changes(program: s.ParsedProgram, operations: list[s.ChangeStatement]) -> Changes:
    """(insert, delete) of an epoch; the last operation on a fact wins."""
    declarations = tuple(item for item in program.items if isinstance(item, s.RelationDecl | s.TypeDecl))
    last: dict[tuple[str, Row], bool] = {}
    for change in operations:
        rule = s.Rule((s.Head(change.fact),))
        for name, rows in clauses_of(s.ParsedProgram((*declarations, rule))).facts.items():
            last.update(dict.fromkeys(((name, row) for row in rows), change.insert))
    sides: tuple[Facts, Facts] = ({}, {})
    for (name, row), insert in last.items():
        sides[0 if insert else 1].setdefault(name, set()).add(row)
    return sides


def oracle_changes(script: Script) -> Iterator[Changes]:
    """What each epoch adds to and removes from the relations that have rules."""
    explicit = explicit_facts(script.program)
    before = materialize(script.program, explicit)
    derived = {head.atom.relation for rule in script.program.rules() if not rule.is_fact for head in rule.heads}
    for insert, delete in script.epochs:
        explicit = updated(explicit, insert, delete)
        after = materialize(script.program, explicit)
        names = sorted(derived & set(after))
        added = {name: after[name] - before[name] for name in names if after[name] - before[name]}
        removed = {name: before[name] - after[name] for name in names if before[name] - after[name]}
        yield added, removed
        before = after


# ------------------------------------------------------------------------------------------------- writing


def filled(text: str, file: str) -> str:
    """The script with the oracle's changes as its expectations."""
    script = read(text, file)
    head, _, tail = text.partition(SEPARATOR)
    pieces = re.sub(r"^//>.*\n?", "", tail, flags=re.MULTILINE).split("commit.\n")
    lines = [f"commit.\n//>{_line(script.program, *changes)}\n" for changes in oracle_changes(script)]
    return head + SEPARATOR + "".join(piece + line for piece, line in zip(pieces, [*lines, ""], strict=True))


def _line(program: s.ParsedProgram, added: Facts, removed: Facts) -> str:
    columns = clauses_of(program).schema.columns
    facts = [(name, row, "+") for name, rows in added.items() for row in rows]
    facts += [(name, row, "-") for name, rows in removed.items() for row in rows]
    return "".join(f" {sign}{_fact(name, row, columns[name])}" for name, row, sign in sorted(facts, key=repr))


def _fact(name: str, row: Row, kinds: tuple[str, ...]) -> str:
    return to_text(s.Atom(name, tuple(map(literal, row, kinds))))


def from_case(case: Case) -> str:
    """A random case as a script, its expectations filled in."""
    columns = clauses_of(case.program).schema.columns
    lines = []
    for insert, delete in [(case.facts, {}), *case.updates]:
        for sign, facts in (("-", delete), ("+", insert)):
            lines += [f"{sign}{_fact(n, row, columns[n])}." for n, rows in sorted(facts.items()) for row in rows]
        lines.append("commit.")
    return filled(to_text(case.program) + SEPARATOR + "\n".join(lines) + "\n", "case.dl")


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(filled(path.read_text("utf-8"), str(path)), "utf-8")
