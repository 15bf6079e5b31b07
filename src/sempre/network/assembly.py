"""From a checked program to a network that runs it, and values in and out of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from sempre.analysis.model import Call, CheckedProgram, Const, Expr, Kind, Relation
from sempre.diagnostics import DataError, Diagnostic, ProgramError
from sempre.files import Epoch
from sempre.files.columns import table_of
from sempre.files.records import format_record, read_record
from sempre.kernel.functors import Fault
from sempre.kernel.reduce import float_rank
from sempre.network import python_functors
from sempre.network.fragment import check_fragment, is_recursive
from sempre.network.localize import LocalProgram, localize
from sempre.network.node import Address, Fact, Node
from sempre.network.node_program import NodeProgram
from sempre.network.node_tables import Row
from sempre.network.proofs import ProofNode
from sempre.network.psn import MOST_DERIVATIONS, CountingNode
from sempre.network.simulate import DEFAULT_LIMIT, Burst, Simulation
from sempre.network.supports import SupportNode
from sempre.plan.ops import functions_of
from sempre.rewrites.guarding import with_guards
from sempre.rewrites.ranges import with_ranges

ALGORITHMS = ("auto", "proofs", "sets", "psn", "sn")


def make_network(
    checked: CheckedProgram, algorithm: str = "auto", limit: int = DEFAULT_LIMIT, most: int = MOST_DERIVATIONS
) -> Simulation:
    """A network without facts that runs `checked`; raises `ProgramError` if that algorithm cannot.

    `limit` is the number of messages after which a run is given up; `most` the derivations that a counting node keeps.
    """
    local = _local(checked, algorithm)
    return Simulation(node_maker(local, algorithm, most), _locations(local), limit)


def local_program(checked: CheckedProgram, algorithm: str = "auto") -> LocalProgram:
    """The local form of a program, for nodes in other processes; raises `ProgramError` if there is none, or that
    algorithm cannot run it.
    """
    if any(map(functions_of, checked.rules)) or any(map(functions_of, checked.facts)):
        hint = "Run it with `--simulate SEED`, or centrally, with `sempre run`."
        message = "nodes in other processes have no Python functors and no aggregates in Python"
        raise ProgramError([Diagnostic("E161", message, hint=hint)], checked.sources)
    return _local(checked, algorithm)


def _local(checked: CheckedProgram, algorithm: str) -> LocalProgram:
    refuse_what_is_central(checked)
    local = localize(checked)
    check_fragment(local, _chosen(algorithm))
    return local


def _chosen(algorithm: str) -> str:
    return "proofs" if algorithm == "auto" else algorithm


def node_maker(local: LocalProgram, algorithm: str = "auto", most: int = MOST_DERIVATIONS) -> Callable[[Address], Node]:
    """A function that makes the node at an address."""
    algorithm = _chosen(algorithm)
    program = NodeProgram(local)
    if algorithm == "proofs":
        return lambda address: ProofNode(program, address)
    if algorithm == "sets":
        return lambda address: SupportNode(program, address, most)
    annotated = algorithm == "sn" and is_recursive(local)
    return lambda address: CountingNode(program, address, annotated, algorithm == "sn", most)


def refuse_what_is_central(checked: CheckedProgram) -> None:
    """Nodes evaluate rules as they stand; what is evaluated by relations of its own is not."""
    if checked.guards or with_guards(with_ranges(checked)) is not checked:
        hint = "Evaluate the program centrally, with `sempre run`."
        message = "nodes have no `range`, counter, `choice-domain`, subsumption or `.limitsize`"
        raise ProgramError([Diagnostic("E161", message, hint=hint)], checked.sources)


def _locations(local: LocalProgram) -> dict[str, int]:
    return {name: local.location(name) for name in local.relations}


# -------------------------------------------------------------------------------------------------- values


def first_burst(checked: CheckedProgram, tables: Mapping[str, pa.Table]) -> Burst:
    """The program's own facts and those of its inputs, each once."""
    facts = dict.fromkeys(_program_facts(checked))
    for name, table in tables.items():
        facts |= dict.fromkeys((name, row) for row in rows_of(checked, name, table))
    return Burst(insert=tuple(facts))


def burst_of(checked: CheckedProgram, epoch: Epoch) -> Burst:
    """An epoch of changes as a burst."""
    insert = [(name, row) for name, table in epoch.insert.items() for row in rows_of(checked, name, table)]
    delete = [(name, row) for name, table in epoch.delete.items() for row in rows_of(checked, name, table)]
    return Burst(tuple(insert), tuple(delete))


def _program_facts(checked: CheckedProgram) -> Iterable[Fact]:
    for fact in checked.facts:
        try:
            yield fact.relation, tuple(_constant(arg) for arg in fact.args)
        except Fault as fault:
            diagnostic = Diagnostic("E510", f"{fault}", fact.span, detail=f"in the fact: {fact.text}")
            raise DataError(diagnostic, checked.sources) from None


def _constant(expr: Expr) -> Any:
    if isinstance(expr, Call):
        return python_functors.function(expr.op, expr.operand.value)(*map(_constant, expr.args))
    assert isinstance(expr, Const)
    return python_functors.constant(expr)


def rows_of(checked: CheckedProgram, name: str, table: pa.Table) -> list[Row]:
    """The rows of a table as tuples; records, which are text in tables, as nested tuples.

    A value of an algebraic type is the number of its branch, and a record with what it holds, as in normal rules.
    """
    relation = checked.relations[name]
    columns: list[list[Any]] = []
    for at, type_ in enumerate(relation.types):
        values = table.column(at).to_pylist()
        if type_.kind is Kind.RECORD:
            values = [read_record(text, type_, checked.types, _record) for text in values]
        elif type_.kind is Kind.FLOAT:
            values = [python_functors.canonical(value) for value in values]
        columns.append(values)
    return list(zip(*columns, strict=True)) if columns else [()] * min(table.num_rows, 1)


def _record(_: Any, parts: Iterable[Any]) -> tuple[Any, ...]:
    return python_functors.record_of(parts)


def table_from(checked: CheckedProgram, relation: Relation, rows: Iterable[Row]) -> pa.Table:
    """The rows of a relation as a table, sorted so that the same state is the same file."""
    columns = [list(column) for column in zip(*sorted(rows, key=_sort_key), strict=True)]
    if not columns:
        columns = [[] for _ in relation.columns]
    for at, type_ in enumerate(relation.types):
        if type_.kind is Kind.RECORD:
            columns[at] = [format_record(value, type_, checked.types) for value in columns[at]]
    return table_of(relation, columns)


def _sort_key(row: Row) -> tuple[Any, ...]:
    return tuple((value is None or isinstance(value, tuple), _flat(value)) for value in row)


def _flat(value: Any) -> Any:
    if isinstance(value, float):
        return float_rank(value)
    return str(value) if value is None or isinstance(value, tuple) else value
