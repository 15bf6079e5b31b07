"""Local programs as text: what `sempre check -v` prints of a program with locations."""

from __future__ import annotations

from sempre.network.localize import LocalProgram
from sempre.rewrites.checked_text import declaration_text, rule_text


def local_text(local: LocalProgram) -> str:
    """The declarations that localization added, and every rule, with the place of its body first."""
    lines = [declaration_text(local.relations[name]) for name in local.relations if name in local.made]
    lines += [rule_text(rule, local.relations) for rule in local.rules]
    return "\n".join(lines)
