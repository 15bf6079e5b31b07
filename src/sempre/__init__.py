"""Datalog whose results stay up to date.

Everything public is here; `sempre.Database` is where to begin.
"""

from sempre.api import ChangeSet, Database, Program, Report, Transaction, View
from sempre.diagnostics import (
    BackendError, DataError, Diagnostic, InternalError, ProgramError, SempreError, StateError,
)  # fmt: skip

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "ChangeSet",
    "DataError",
    "Database",
    "Diagnostic",
    "InternalError",
    "Program",
    "ProgramError",
    "Report",
    "SempreError",
    "StateError",
    "Transaction",
    "View",
    "__version__",
]
