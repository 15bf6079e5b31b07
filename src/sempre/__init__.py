"""Datalog whose results stay up to date.

Everything public is here; `sempre.Database` is where to begin. Names are loaded on first use: the command line and
programs that only catch errors do not wait for the engine.
"""

from typing import TYPE_CHECKING, Any

from sempre.diagnostics import (
    BackendError,
    DataError,
    Diagnostic,
    InternalError,
    ProgramError,
    SempreError,
    StateError,
)  # fmt: skip

if TYPE_CHECKING:
    from sempre.api import (
        ChangeSet,
        CycleChanges,
        Database,
        ModuleFacts,
        ModuleState,
        Network,
        Program,
        Report,
        RuleModule,
        Transaction,
        Trusted,
        View,
        aggregate,
        by_name,
        by_position,
        functor,
    )

__version__ = "0.2.0"

__all__ = [
    "BackendError",
    "ChangeSet",
    "CycleChanges",
    "DataError",
    "Database",
    "Diagnostic",
    "InternalError",
    "ModuleFacts",
    "ModuleState",
    "Network",
    "Program",
    "ProgramError",
    "Report",
    "RuleModule",
    "SempreError",
    "StateError",
    "Transaction",
    "Trusted",
    "View",
    "__version__",
    "aggregate",
    "by_name",
    "by_position",
    "functor",
]


if not TYPE_CHECKING:  # which knows the names, and would take every other one for present, too

    def __getattr__(name: str) -> Any:
        if name in __all__:
            from sempre import api

            return getattr(api, name)
        raise AttributeError(f"module 'sempre' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
