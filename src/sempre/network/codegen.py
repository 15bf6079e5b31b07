"""Local rules as Python functions over the tables of a node.

Every rule and every way to enter it (a new fact for one of its atoms, a changed fact under a negation or an aggregate)
becomes one function of the fact's row. The text is generated once per program; `bind` makes the functions of one node.
Joins are nested loops over dict indexes on the columns that are bound at that point; after a number of them the rest is
a function of its own, as Python refuses more than 20. So are negations and aggregates, whatever they are nested in.

A function returns a list of (head row, rows of the positive atoms): one entry per rule instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sempre.analysis.head_aggregates import literal_names
from sempre.analysis.model import (
    Call,
    Compare,
    Const,
    Expr,
    Fold,
    Kind,
    Literal,
    Match,
    NormalRule,
    Not,
    Unpack,
    Var,
)
from sempre.data import dataclass
from sempre.kernel.reduce import aggregate
from sempre.network import python_functors
from sempre.network.localize import LocalProgram, binds
from sempre.network.node_tables import NodeTable, Row

Instances = list[tuple[Row, tuple[Row, ...]]]
Enter = Callable[[Row], Instances]

# Loops in one function; Python refuses more than 20.
MOST_LOOPS = 15


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """One way into a rule: by a fact of `relation`.

    `pivot` is the number of the positive atom that the fact is for, or None when it lies under a negation or an
    aggregate. `full` gives the instances that hold; `outer` those whose positive atoms hold, whatever is nested.
    """

    rule: int
    relation: str
    pivot: int | None
    full: int
    outer: int


class Code:
    """The functions of a program: `entries` by relation, and `bind` for the tables of one node."""

    def __init__(self, program: LocalProgram) -> None:
        self.program = program
        self.numbers = {name: number for number, name in enumerate(program.relations)}
        self.indexes: dict[tuple[str, tuple[int, ...]], int] = {}
        self.entries: dict[str, list[RuleEntry]] = {name: [] for name in program.relations}
        self.constants: dict[str, Any] = {
            "matches": python_functors.matches,
            "equal_floats": python_functors.equal_floats,
            "aggregate": aggregate,
        }
        self.lines: list[str] = []
        self.count = 0
        self.parts = 0
        for rule in program.rules:
            self._rule(rule)
        self._factory = self._compile()

    def positives(self, rule: NormalRule) -> list[Match]:
        return [literal for literal in rule.body if isinstance(literal, Match)]

    def tables(self) -> list[NodeTable]:
        """Empty tables for a node, with every index that the functions use."""
        wanted: dict[str, list[tuple[int, ...]]] = {name: [] for name in self.numbers}
        for name, columns in self.indexes:
            wanted[name].append(columns)
        return [NodeTable(wanted[name]) for name in self.numbers]

    def bind(self, tables: list[NodeTable]) -> list[Enter]:
        """The functions over `tables`; `RuleEntry.full` and `RuleEntry.outer` are places in this list."""
        rows = [table.rows for table in tables]
        indexes = [tables[self.numbers[name]].indexes[columns] for name, columns in self.indexes]
        functions: list[Enter] = self._factory(rows, indexes)
        return functions

    # ------------------------------------------------------------------------------------------- generating

    def _rule(self, rule: NormalRule) -> None:
        positives = self.positives(rule)
        nested = [literal for literal in rule.body if isinstance(literal, Not | Fold)]
        for pivot, match in enumerate(positives):
            full = self._function(rule, pivot, match, set())
            outer = self._function(rule, pivot, match, set(), outer=True) if nested else full
            self.entries[match.relation].append(RuleEntry(rule.number, match.relation, pivot, full, outer))
        for literal in nested:
            shared = {var.name for var in literal.shared}
            for match in _inner_matches(literal):
                full = self._function(rule, None, match, shared)
                outer = self._function(rule, None, match, shared, outer=True)
                self.entries[match.relation].append(RuleEntry(rule.number, match.relation, None, full, outer))

    def _function(
        self, rule: NormalRule, pivot: int | None, match: Match, shared: set[str], outer: bool = False
    ) -> int:
        writer = _FunctionWriter(self, rule, "out", "", "return out")
        writer.line(f"def f{self.count}(row):")
        writer.depth += 1
        writer.line("out = []")
        if pivot is None:
            writer.take_shared(match, shared)
        else:
            writer.take(match, "row")
            writer.rows[pivot] = "row"
        writer.body(list(rule.body), outer)
        writer.flat("return out")
        self.lines += writer.lines
        self.count += 1
        return self.count - 1

    def part(self) -> str:
        """A name for a function that another one calls."""
        self.parts += 1
        return f"p{self.parts}"

    def index(self, relation: str, columns: tuple[int, ...]) -> int:
        return self.indexes.setdefault((relation, columns), len(self.indexes))

    def constant(self, value: Any) -> str:
        """A name for a value that the text needs."""
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def _compile(self) -> Callable[..., list[Enter]]:
        names = ", ".join(f"f{number}" for number in range(self.count))
        lines = ["def factory(T, I):"]
        lines += [f"    T{number} = T[{number}]" for number in range(len(self.numbers))]
        lines += [f"    I{number} = I[{number}].get" for number in range(len(self.indexes))]
        lines += [f"    {line}" for line in self.lines]
        text = "\n".join([*lines, f"    return [{names}]", ""])
        space: dict[str, Any] = dict(self.constants)
        exec(compile(text, "<rules>", "exec"), space)
        factory: Callable[..., list[Enter]] = space["factory"]
        return factory


def _inner_matches(literal: Not | Fold) -> Iterable[Match]:
    for inner in literal.body:
        if isinstance(inner, Match):
            yield inner
        elif isinstance(inner, Not | Fold):
            yield from _inner_matches(inner)


class _FunctionWriter:
    """Writes one function, or several that continue each other.

    `into` is the list that results are added to; where there is none, the function ends by `found` with the first one.
    `end` is what it ends by otherwise.
    """

    def __init__(self, code: Code, rule: NormalRule, into: str, found: str, end: str) -> None:
        self.code = code
        self.rule = rule
        self.into = into
        self.found = found
        self.end = end
        self.lines: list[str] = []
        self.depth = 0
        self.loops = 0
        self.names: dict[str, str] = {}
        self.rows: dict[int, str] = {}
        self.fresh = 0
        self.skip = end

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def flat(self, text: str) -> None:
        self.lines.append("    " + text)

    def new(self, stem: str) -> str:
        self.fresh += 1
        return f"{stem}{self.fresh}"

    def unless(self, test: str) -> None:
        """Go on with the next row unless `test`."""
        self.line(f"if not ({test}): {self.skip}")

    # ---------------------------------------------------------------------------------------------- binding

    def take(self, match: Match, row: str) -> None:
        """Bind or check every column of a row."""
        for at, arg in enumerate(match.args):
            self.column(arg, f"{row}[{at}]")

    def take_shared(self, match: Match, shared: set[str]) -> None:
        """Bind what an outer body shares with an atom nested in it; the rest may be anything."""
        for at, arg in enumerate(match.args):
            if isinstance(arg, Const) or arg.name in shared:
                self.column(arg, f"row[{at}]")

    def column(self, arg: Var | Const, text: str) -> None:
        if isinstance(arg, Var) and arg.name not in self.names:
            self.names[arg.name] = self.new("v")
            self.line(f"{self.names[arg.name]} = {text}")
        else:
            self.unless(self.equal(text, self.expr(arg), _kind(arg, self.rule)))

    def equal(self, left: str, right: str, kind: Kind) -> str:
        return f"equal_floats({left}, {right})" if kind is Kind.FLOAT else f"{left} == {right}"

    # ------------------------------------------------------------------------------------------------- body

    def body(self, literals: list[Literal], outer: bool) -> None:
        """The loops of the rule's own body, then its head."""
        waiting = [literal for literal in literals if not (outer and isinstance(literal, Not | Fold))]
        positives = self.code.positives(self.rule)
        position = {id(match): number for number, match in enumerate(positives)}
        waiting = [lit for lit in waiting if position.get(id(lit), -1) not in self.rows]
        while waiting:
            literal = self.choose(waiting)
            if literal is None:
                break  # what depends on nested literals is left out of `outer`
            waiting = [other for other in waiting if other is not literal]
            self.literal(literal, position)
        rows = ", ".join(self.rows[number] for number in range(len(positives)))
        head = "()" if outer else self.row_of([self.expr(arg) for arg in self.rule.args])
        self.line(f"out.append(({head}, ({rows}{',' if len(positives) == 1 else ''})))")

    def choose(self, waiting: list[Literal]) -> Literal | None:
        """The literal to do next: a test if one can be made, else the atom with the most columns bound."""
        for literal in waiting:
            if not isinstance(literal, Match) and binds(literal, self.names) is not None:
                return literal
        atoms = [literal for literal in waiting if isinstance(literal, Match)]
        return max(atoms, key=self.selectivity) if atoms else None

    def selectivity(self, match: Match) -> tuple[int, int]:
        bound = sum(isinstance(arg, Const) or arg.name in self.names for arg in match.args)
        return bound, -len(match.args)

    def literal(self, literal: Literal, position: dict[int, int]) -> None:
        match literal:
            case Match():
                row = self.lookup(literal)
                if id(literal) in position:
                    self.rows[position[id(literal)]] = row
            case Compare():
                self.compare(literal)
            case Unpack():
                self.unpack(literal)
            case Not():
                self.unless(f"not {self.nested(literal, literal.shared)}")
            case Fold():
                self.fold(literal)

    def lookup(self, match: Match) -> str:
        """A loop over the rows that agree with what is bound; the name of the row."""
        number = self.code.numbers[match.relation]
        columns = tuple(at for at, arg in enumerate(match.args) if isinstance(arg, Const) or arg.name in self.names)
        values = [self.expr(match.args[at]) for at in columns]
        row = self.new("r")
        if len(columns) == len(match.args):
            self.line(f"{row} = {self.row_of(values)}")
            self.unless(f"{row} in T{number}")
            return row
        if self.loops == MOST_LOOPS:
            self.go_on_elsewhere()
        if columns:
            key = values[0] if len(values) == 1 else self.row_of(values)
            self.line(f"for {row} in I{self.code.index(match.relation, columns)}({key}, ()):")
        else:
            self.line(f"for {row} in T{number}:")
        self.depth += 1
        self.loops += 1
        self.skip = "continue"
        for at, arg in enumerate(match.args):
            if at not in columns:
                self.column(arg, f"{row}[{at}]")
        return row

    def go_on_elsewhere(self) -> None:
        """Write what follows into a function that is called here with all that is bound."""
        given = dict.fromkeys([*([self.into] if self.into else []), *self.names.values(), *self.rows.values()])
        name = self.code.part()
        call = f"{name}({', '.join(given)})"
        self.line(call if self.into else f"if {call}: {self.found}")
        self.flat(self.end)
        self.depth = self.loops = 0
        self.line(f"def {call}:")
        self.depth = 1
        self.skip = self.end

    def row_of(self, values: list[str]) -> str:
        return f"({', '.join(values)}{',' if len(values) == 1 else ''})"

    # ------------------------------------------------------------------------------------------------ tests

    def compare(self, literal: Compare) -> None:
        if literal.op == "=":
            for target, source in ((literal.left, literal.right), (literal.right, literal.left)):
                if isinstance(target, Var) and target.name not in self.names:
                    text = self.expr(source)
                    self.names[target.name] = self.new("v")
                    self.line(f"{self.names[target.name]} = {text}")
                    return
        left, right = self.expr(literal.left), self.expr(literal.right)
        op = literal.op.removeprefix("not_")
        if op in ("=", "!="):
            text = self.equal(left, right, literal.kind)
        elif op == "match":
            text = f"matches({left}, {right}, {literal.op != op})"
        elif op == "contains":
            text = f"{left} in {right}"
        else:
            text = f"{left} {op} {right}"
        self.unless(f"not ({text})" if literal.op == "!=" or literal.op.startswith("not_") else text)

    def unpack(self, literal: Unpack) -> None:
        record = self.names[literal.record.name]
        self.unless(f"{record} is not None")
        for at, arg in enumerate(literal.fields):
            self.column(arg, f"{record}[{at}]")

    def expr(self, expr: Expr) -> str:
        if isinstance(expr, Var):
            return self.names[expr.name]
        if isinstance(expr, Const):
            value = python_functors.constant(expr)
            return repr(value) if isinstance(value, int) else self.code.constant(value)
        assert isinstance(expr, Call)
        function = self.code.constant(python_functors.function(expr.op, expr.operand.value))
        return f"{function}({', '.join(self.expr(arg) for arg in expr.args)})"

    # ----------------------------------------------------------------------------------------------- nested

    def nested(self, literal: Not, shared: tuple[Var, ...]) -> str:
        """Define a function that says whether the body of a negation holds; the call of it."""
        inner = _FunctionWriter(self.code, self.rule, "", "return True", "return False")
        return self.call(inner.part(literal.body, shared, None), shared)

    def fold(self, literal: Fold) -> None:
        result = literal.result.name
        shared = tuple(var for var in literal.shared if var.name in self.names)
        inner = _FunctionWriter(self.code, self.rule, "values", "", "return values")
        values = self.call(inner.part(literal.body, shared, literal.expr), shared)
        value = self.new("a")
        self.line(f"{value} = aggregate({literal.kind!r}, {values}, {literal.operand.value!r})")
        self.unless(f"{value} is not None")
        if result in self.names:
            self.unless(self.equal(value, self.names[result], self.rule.kinds[result]))
        else:
            self.names[result] = value

    def call(self, name: str, shared: tuple[Var, ...]) -> str:
        return f"{name}({', '.join(self.names[var.name] for var in shared)})"

    def part(self, body: tuple[Literal, ...], shared: tuple[Var, ...], expr: Expr | None) -> str:
        """Write a function over the variables that a nested body shares, with loops of its own; its name."""
        name = self.code.part()
        self.names = {var.name: self.new("v") for var in shared}
        self.line(f"def {name}({', '.join(self.names.values())}):")
        self.depth += 1
        if self.into:
            self.line(f"{self.into} = []")
        waiting: list[Literal] = list(body)
        while waiting:
            literal = self.choose(waiting)
            assert literal is not None, literal_names(waiting[0])
            waiting = [other for other in waiting if other is not literal]
            self.literal(literal, {})
        self.line(f"{self.into}.append({self.expr(expr) if expr is not None else '0'})" if self.into else self.found)
        self.flat(self.end)
        self.code.lines += self.lines
        return name


def _kind(arg: Var | Const, rule: NormalRule) -> Kind:
    return arg.kind if isinstance(arg, Const) else rule.kinds[arg.name]
