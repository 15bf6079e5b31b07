"""`sempre explain`: why a fact of a store holds, why it does not, and why it came or went.

A fact of active rules has no proof; it has a history, the cycles in which it came and went.
"""

from __future__ import annotations

import argparse
import json

from sempre.active.history import FactHistory
from sempre.api import Database
from sempre.api.between import Between, between
from sempre.api.explanations import Proof, WhyNot, why, why_not
from sempre.cli.souffle_options import UsageError
from sempre.cli.store_commands import opened
from sempre.diagnostics import DataError, Diagnostic

WRONG = 3


def explain(options: argparse.Namespace) -> int:
    """Print an explanation, as a tree or in the form that was asked for."""
    _check_together(options)
    with opened(options) as database:
        if database.program.checked.semantics == "active":
            return _told(database, options)
        if options.between:
            with between(database, options.fact, *options.between) as told:
                return _checked(told) if options.check else _shown(told, options)
        if options.absent:
            return _shown(why_not(database, options.fact, depth=options.depth or 1), options)
        found = why(database, options.fact, depth=options.depth, further=(options.all or 1) - 1)
        return _checked(found) if options.check else _shown(found, options)


def _told(database: Database, options: argparse.Namespace) -> int:
    """The history of a fact in the run of an epoch."""
    proofs = ("absent", "between", "depth", "all", "check", "dot", "html")
    for name in proofs:
        if getattr(options, name) not in (None, False):
            flag = "--not" if name == "absent" else f"--{name}"
            raise UsageError(
                f"{flag} is for stratified rules\nhint: leave it out: active rules have a history of cycles, no proofs"
            )
    found = database.explain(options.fact)
    assert isinstance(found, FactHistory)
    print(json.dumps(found.to_json(), ensure_ascii=False, indent=1) if options.json else found)
    return 0


def _check_together(options: argparse.Namespace) -> None:
    """Refuse options that exclude each other."""
    flags = {"json": "--json", "dot": "--dot", "html": "--html", "check": "--check"}
    forms = [flag for name, flag in flags.items() if getattr(options, name)]
    what = [flag for name, flag in (("absent", "--not"), ("between", "--between")) if getattr(options, name)]
    proofs = [flag for name, flag in (("all", "--all"), ("check", "--check")) if getattr(options, name)]
    past = [flag for name, flag in (("epoch", "--epoch"), ("depth", "--depth")) if getattr(options, name) is not None]
    for clash in (
        forms,
        what,
        ["--not", proofs[0]] if options.absent and proofs else [],
        ["--between", "--all"] if options.between and options.all else [],
        ["--between", past[0]] if options.between and past else [],
        ["--check", "--depth"] if options.check and options.depth else [],
    ):
        if len(clash) > 1:
            raise UsageError(f"{clash[0]} and {clash[1]} exclude each other")


def _shown(found: Proof | WhyNot | Between, options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=1))
    elif options.dot:
        print(found.to_dot())
    elif options.html:
        try:
            options.html.write_text(found.to_html(), "utf-8")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise DataError(Diagnostic("E512", f"cannot write `{options.html}`: {reason}")) from None
        print(f"wrote {options.html}")
    else:
        print(found)
    return 0


def _checked(found: Proof | Between) -> int:
    """Have the checker replay the proofs; its complaints, or how much it saw."""
    complaints = found.check()
    for complaint in complaints:
        print(complaint)
    if not complaints:
        proofs = (
            [found] if isinstance(found, Proof) else [p for p in (found.before, found.after) if isinstance(p, Proof)]
        )
        for proof in proofs:
            size = len(proof.document.nodes)
            print(f"ok: {size:,} facts, height {proof.height:,}, each follows by its rule")
    return WRONG if complaints else 0
