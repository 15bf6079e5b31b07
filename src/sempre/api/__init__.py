"""The public surface: programs, databases, relations, transactions, change sets.

>>> program = Program('''
... .decl edge(x: symbol, y: symbol)
... .decl reach(x: symbol, y: symbol)
... reach(x, y) :- edge(x, y).
... reach(x, z) :- reach(x, y), edge(y, z).
... ''')
>>> db = Database(program)
>>> changes = db.apply(insert={"edge": [("a", "b"), ("b", "c")]})
>>> sorted(db["reach"])
[('a', 'b'), ('a', 'c'), ('b', 'c')]
>>> changes = db.apply(delete={"edge": [("b", "c")]})
>>> changes.removed["reach"].to_pylist()
[{'x': 'a', 'y': 'c'}, {'x': 'b', 'y': 'c'}]
"""

from typing import TYPE_CHECKING, Any

from sempre.api.changes import ChangeSet, CycleChanges, Report
from sempre.api.database import Database
from sempre.api.options import peak_rss
from sempre.api.program import Program
from sempre.api.transaction import Transaction
from sempre.api.views import Past, View
from sempre.ingest import by_name, by_position
from sempre.modules.protocol import ModuleFacts, ModuleState, RuleModule, Trusted
from sempre.python_functions import aggregate, functor

if TYPE_CHECKING:
    from sempre.api.network import Network

__all__ = [
    "ChangeSet",
    "CycleChanges",
    "Database",
    "ModuleFacts",
    "ModuleState",
    "Network",
    "Past",
    "Program",
    "Report",
    "RuleModule",
    "Transaction",
    "Trusted",
    "View",
    "aggregate",
    "by_name",
    "by_position",
    "functor",
    "peak_rss",
]


if not TYPE_CHECKING:  # networks of processes take a while to load, and few want them

    def __getattr__(name: str) -> Any:
        if name == "Network":
            from sempre.api.network import Network

            return Network
        raise AttributeError(f"module 'sempre.api' has no attribute '{name}'")
