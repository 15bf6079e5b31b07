"""`sempre explain`: why a fact holds, from a store."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from sempre.cli.souffle_options import UsageError
from sempre.cli.store_commands import opened

if TYPE_CHECKING:
    from sempre.api.explanations import Proof

WRONG = 3


def explain(options: argparse.Namespace) -> int:
    """Print an explanation, as a tree or in the form that was asked for."""
    forms = [name for name in ("json", "dot", "html") if getattr(options, name)]
    if len(forms) > 1:
        raise UsageError(f"--{forms[0]} and --{forms[1]} exclude each other")
    with opened(options) as database:
        from sempre.api.explanations import why

        found = why(database, options.fact, depth=options.depth, further=(options.all or 1) - 1)
        return _checked(found) if options.check else _shown(found, options)


def _shown(found: Proof, options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=1))
    elif options.dot:
        print(found.to_dot())
    elif options.html:
        Path(options.html).write_text(found.to_html(), "utf-8")
        print(f"wrote {options.html}")
    else:
        print(found)
    return 0


def _checked(found: Proof) -> int:
    """Have the checker replay the proof; its complaints, or how much it saw."""
    complaints = found.check()
    for complaint in complaints:
        print(complaint)
    if not complaints:
        print(f"ok: {len(found.document.nodes):,} facts, height {found.height:,}, each follows by its rule")
    return WRONG if complaints else 0
