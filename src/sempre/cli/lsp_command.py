"""`sempre lsp`: the language server, for editors, on standard input and output."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from sempre.cli.souffle_options import reading
from sempre.diagnostics import BackendError, Diagnostic
from sempre.lang.preprocessor import Preprocessing


def serve_editor(options: argparse.Namespace) -> int:
    """Answer an editor until it ends the session; raises `BackendError` without the package for that."""
    from sempre.cli.arguments import installed_version

    try:
        server = importlib.import_module("sempre.lsp.server")
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("pygls", "lsprotocol"):
            raise
        hint = "Install it: pip install 'sempre[lsp]'."
        raise BackendError(Diagnostic("E663", "`sempre lsp` needs the package `pygls`", hint=hint)) from None
    how = reading(options)
    folders = tuple(str(Path(folder).absolute()) for folder in how["include"])
    settings = Preprocessing(folders, tuple(how["macros"].items()))
    server.serve(installed_version(), settings, legacy=options.legacy, warnings=not options.no_warn)
    return 0
