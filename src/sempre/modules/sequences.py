"""The module of sorted neighbors: its stratum is one that `rewrites.successors` made, and has nothing else.

Reference: [Hu22] section 6.5.
"""

from __future__ import annotations

from sempre.analysis.model import CheckedProgram, Stratum
from sempre.modules.spec import Module
from sempre.plan.ops import Neighbors
from sempre.rewrites.successors import find_successor, is_neighbors


def sequence_module(program: CheckedProgram, stratum: Stratum) -> Module | None:
    """The module of a stratum that `with_neighbors` made."""
    if len(stratum.relations) != 1 or not is_neighbors(stratum.relations[0]):
        return None
    (rule,) = stratum.nonrecursive
    one = find_successor(rule)
    assert one is not None
    order = Neighbors(rule.relation, one.source, one.groups, one.column, one.kind)
    columns = program.relations[one.source].columns
    within = f" for each {' and '.join(f'`{columns[g]}`' for g in one.groups)}" if one.groups else ""
    reason = f"neighbors in `{columns[one.column]}` of `{one.source}`{within}, kept sorted"
    return Module("seq", stratum.relations, frozenset((rule.number,)), reason, order=order)
