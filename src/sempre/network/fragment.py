"""What can run on which algorithm: a program that cannot is refused, with the reason and the way out."""

from __future__ import annotations

from collections.abc import Iterator

from sempre.analysis.model import Fold, Kind, Match, Not
from sempre.diagnostics import Diagnostic, ProgramError
from sempre.network.localize import LocalProgram


def check_fragment(local: LocalProgram, algorithm: str) -> None:
    """Raise `ProgramError` with everything in the program that `algorithm` has no right answer for."""
    problems = [*_anywhere(local)]
    problems += _ranked(local) if algorithm == "proofs" else _counted(local, algorithm)
    if problems:
        raise ProgramError(list(dict.fromkeys(problems)), local.source.sources)


def is_recursive(local: LocalProgram) -> bool:
    return any(stratum.recursive for stratum in local.strata)


def _anywhere(local: LocalProgram) -> Iterator[Diagnostic]:
    """What no algorithm supports."""
    for relation in local.relations.values():
        if relation.is_equivalence:
            hint = "Write its three rules: reflexive, symmetric and transitive."
            message = f"`{relation.name}` is an equivalence relation, which nodes do not keep"
            yield Diagnostic("E424", message, relation.span, hint=hint)
        if "demand" in relation.qualifiers:
            message = f"`{relation.name}` is derived on demand, which nodes do not do"
            yield Diagnostic("E424", message, relation.span, hint="Remove `demand`.")
        if relation.aggregate and relation.aggregate[1] == relation.location:
            message = f"the location of `{relation.name}` cannot be an aggregate"
            yield Diagnostic(
                "E424", message, relation.span, hint="Aggregate first, then send the result in another rule."
            )
    for rule in local.rules:
        if rule.deletes:
            hint = "Use the ordinary semantics, which is what `sempre network` runs."
            yield Diagnostic("E424", "a head that deletes cannot run on nodes", rule.span, hint=hint)
        if not any(isinstance(literal, Match) for literal in rule.body):
            hint = "Add an atom that says at which node it holds, or write the facts out."
            yield Diagnostic("E424", "a rule without a positive atom belongs to no node", rule.span, hint=hint)


def _ranked(local: LocalProgram) -> Iterator[Diagnostic]:
    """Recursion through aggregates whose values cannot be compared with each other."""
    for stratum in local.strata:
        ranked = [local.relations[name] for name in stratum.relations if local.relations[name].aggregate]
        if not stratum.recursive or not ranked:
            continue
        kinds = {
            (relation.aggregate[0], relation.kinds[relation.aggregate[1]]) for relation in ranked if relation.aggregate
        }
        names = ", ".join(f"`{relation.name}`" for relation in ranked)
        if len(kinds) > 1:
            hint = "Use one aggregate over one type within a recursion."
            yield Diagnostic("E424", f"{names} aggregate differently in one recursion", ranked[0].span, hint=hint)
        elif ("max", Kind.SYMBOL) in kinds:
            hint = "Use `min`, or numbers."
            yield Diagnostic("E424", f"`max` of symbols in a recursion, in {names}", ranked[0].span, hint=hint)


def _counted(local: LocalProgram, algorithm: str) -> Iterator[Diagnostic]:
    """What counting derivations has no proof for: the papers leave negation and aggregates open."""
    hint = "Use `--algorithm proofs`."
    for rule in local.rules:
        for literal in rule.body:
            if isinstance(literal, Not | Fold):
                what = "negation" if isinstance(literal, Not) else "an aggregate"
                yield Diagnostic("E425", f"`{algorithm}` does not support {what}", literal.span, hint=hint)
        if local.relations[rule.relation].aggregate:
            yield Diagnostic("E425", f"`{algorithm}` does not support aggregates in heads", rule.span, hint=hint)
