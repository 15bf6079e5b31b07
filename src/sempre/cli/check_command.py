"""`sempre check`: what is wrong with a program, and how it would be evaluated."""

from __future__ import annotations

import argparse

from sempre.analysis.model import CheckedProgram, Stratum
from sempre.cli.program_file import load_program


def check(options: argparse.Namespace) -> int:
    """Print the strata of a program without errors; raises with all errors of one that has some."""
    from sempre.explain.plan_text import decisions, modules, plans
    from sempre.modules.find import modularize

    program = load_program(options.program, options)
    checked = program.checked
    parts = modularize(checked, options.modules)
    if options.show == "initial-ast":
        from sempre.lang.printer import to_text

        print(to_text(program.syntax), end="")
    elif options.show == "plans":
        print(plans(checked))
    elif options.show == "distribution":
        from sempre.explain.distribution import distribution

        print(distribution(parts.program, parts.modules), end="")
    elif options.show:
        from sempre.rewrites.checked_text import program_text

        print(program_text(parts.program), end="")
    if options.show:
        return 0
    print(summary(checked), end="")
    print(modules(parts), end="")
    if options.verbose and any(relation.location is not None for relation in checked.relations.values()):
        from sempre.network.localize import localize
        from sempre.network.program_text import local_text

        print("\nlocalized:")
        print(local_text(localize(checked)))
    if options.verbose and checked.semantics != "active":
        print()
        print(decisions(parts))
    if options.verbose:
        print()
        print(plans(checked))
    return 0


def summary(checked: CheckedProgram) -> str:
    """The program in figures, then one line per stratum."""
    counts = (
        (len(checked.relations), "relation", "relations"),
        (len(checked.rules), "rule", "rules"),
        (len(checked.facts), "fact", "facts"),
        (len(checked.strata), "stratum", "strata"),
    )
    active = checked.semantics == "active"
    shown = counts[:-1] if active else counts
    lines = [", ".join(f"{count} {one if count == 1 else many}" for count, one, many in shown)]
    if active:
        lines.append("active rules: all are matched in every cycle, until one changes nothing")
    else:
        lines += [_stratum_line(checked, stratum) for stratum in checked.strata]
    return "\n".join(lines) + "\n"


def _stratum_line(checked: CheckedProgram, stratum: Stratum) -> str:
    rules = len(stratum.nonrecursive) + len(stratum.recursive)
    marks = []
    if rules:
        marks.append(f"{rules} rule{'s' if rules != 1 else ''}")
    if stratum.recursive:
        marks.append("recursive")
    relations = [checked.relations[name] for name in stratum.relations]
    marks += [word for word in ("input", "output") if any(getattr(relation, f"{word}s") for relation in relations)]
    kept = [checked.guards[name].what for name in stratum.relations if name in checked.guards]
    marks += [f"evaluated again at every change: {what}" for what in dict.fromkeys(kept)]
    tail = f"  ({', '.join(marks)})" if marks else ""
    return f"stratum {stratum.index}: {', '.join(stratum.relations)}{tail}"
