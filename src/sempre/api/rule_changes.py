"""What other rules would do to the results of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sempre.api.program import Program
from sempre.api.stores import own_facts
from sempre.data import dataclass
from sempre.storage.differences import stored_alike

if TYPE_CHECKING:
    from sempre.api.database import Database

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """What each relation would gain and lose with other rules; relations that only one program has are named."""

    added: dict[str, list[Row]]
    removed: dict[str, list[Row]]
    new: tuple[str, ...]
    gone: tuple[str, ...]


def under_rules(database: Database, program: Program) -> RuleChanges:
    """The results of another program from the same explicit facts, compared with those that there are."""
    database._stratified("other rules")
    database._materialized()
    tables: dict[str, list[Row]] = {}
    before = own_facts(database)
    for name, relation in database.program.relations.items():
        if name in program.relations and stored_alike(database.program.checked, program.checked, name):
            rows = database._engine.snapshot.explicit[name].rows()
            given = database._decoder.tuples(relation, rows.columns(), len(rows))
            tables[name] = [row for row in given if row not in before.get(name, ())]
    added: dict[str, list[Row]] = {}
    removed: dict[str, list[Row]] = {}
    with type(database)(program) as other:
        other.materialise(tables)
        for name in program.relations:
            if name not in tables:
                continue
            then, now = set(database[name]), set(other[name])
            added[name], removed[name] = sorted(now - then, key=repr), sorted(then - now, key=repr)
        new = tuple(f"{name} ({len(other[name]):,} rows)" for name in program.relations if name not in tables)
    gone = tuple(name for name in database.program.relations if name not in tables)
    return RuleChanges(added, removed, new, gone)
