"""From a parsed program to a checked one: the passes, in order."""

from __future__ import annotations

from collections.abc import Callable

from sempre.analysis.binding import check_binding
from sempre.analysis.clauses import make_clauses
from sempre.analysis.components import expand_components
from sempre.analysis.draft import Draft
from sempre.analysis.facts import take_plain_facts
from sempre.analysis.guards import check_guards_in_cycles, declare_guards, take_guards
from sempre.analysis.head_aggregates import check_monotone, resolve_head_aggregates
from sempre.analysis.hints import check_plans
from sempre.analysis.inlining import choose_inlined
from sempre.analysis.lifting import lift_program
from sempre.analysis.model import CheckedProgram
from sempre.analysis.names import check_names, resolve_locations
from sempre.analysis.ndlog import ignore_ndlog
from sempre.analysis.normalize import normalize
from sempre.analysis.on_demand import check_demand
from sempre.analysis.relations import resolve_relations, resolve_types
from sempre.analysis.strata import check_strata, stratify
from sempre.analysis.support import check_cycles, check_deletions, check_semantics
from sempre.analysis.type_inference import check_types
from sempre.analysis.user_functors import check_functors
from sempre.analysis.warnings import warn
from sempre.diagnostics import ProgramError
from sempre.lang.syntax import ParsedProgram, Pragma

Pass = Callable[[Draft], Draft]


def stop_on_errors(draft: Draft) -> Draft:
    """Pass: raise with everything found so far, if any of it is an error."""
    errors = [diagnostic for diagnostic in draft.diagnostics if diagnostic.severity == "error"]
    if errors:
        raise ProgramError(errors, draft.sources)
    return draft


PASSES: tuple[Pass, ...] = (
    resolve_types,
    resolve_relations,
    take_plain_facts,
    declare_guards,
    check_functors,
    check_semantics,
    check_deletions,
    check_cycles,
    check_names,
    resolve_locations,
    resolve_head_aggregates,
    check_demand,
    choose_inlined,
    check_strata,
    check_plans,
    make_clauses,
    check_types,
    check_binding,
    normalize,
    check_monotone,
    take_guards,
    check_guards_in_cycles,
    warn,
    stop_on_errors,
    stratify,
)


def check(program: ParsedProgram, sources: dict[str, str], semantics: str | None = None) -> CheckedProgram:
    """The program in normal form; raises `ProgramError` with every error it has.

    `sources` maps file names to texts, for messages. `semantics` overrides the program's own pragma.
    """
    program, problems = expand_components(program)
    if problems:
        raise ProgramError(problems, sources)
    program, notes = ignore_ndlog(program)
    program = lift_program(program)
    pragmas = {item.key: item.value for item in program.items if isinstance(item, Pragma)}
    draft = Draft(program, semantics or pragmas.get("semantics", "stratified"), sources).report(notes)
    for pass_ in PASSES:
        draft = pass_(draft)
    return CheckedProgram(
        relations={name: relation for name, relation in draft.relations.items() if name not in draft.inlined},
        types=draft.types.types,
        facts=draft.facts,
        rules=draft.rules,
        strata=draft.strata,
        pragmas=pragmas,
        warnings=draft.diagnostics,
        sources=sources,
        semantics=draft.semantics,
        guards=draft.guards,
    )
