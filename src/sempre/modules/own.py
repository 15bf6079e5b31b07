"""A module of a user's at work: what it answers, made into what the framework expects of modules.

A user's answers may have facts more than once, or facts that were there before. They are checked for their shape: a
wrong relation or columns of different lengths are errors at once, with the name of the module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sempre.diagnostics import Diagnostic, StateError
from sempre.modules.graph import FactBlocks, Facts, Trust
from sempre.modules.spec import Module


class OwnGraph:
    """The state of a user's module, as a module at work has it."""

    def __init__(self, module: Module) -> None:
        assert module.own is not None
        self._module = module
        self._state = module.own.start()

    def is_exact(self, head: str) -> bool:
        """Nothing is known of a user's answers, so what was there is looked for."""
        return False

    def add(self, facts: Mapping[str, Facts]) -> dict[str, FactBlocks]:
        facts = _some(facts)
        if not facts:
            return {}
        given = {name: [columns] for name, columns in facts.items() if name in self._module.heads}
        return self._found(self._state.add(facts), given)

    def remove(
        self, facts: Mapping[str, Facts], trusted: Trust | None, also: Mapping[str, Facts]
    ) -> dict[str, FactBlocks]:
        facts, also = _some(facts), _some(also)
        if not facts and not also:
            return {}
        answer = self._state.remove(facts, also, trusted)
        # What went from outside is gone, unless it is still derived; where others are in doubt, it stays in question.
        gone: dict[str, list[Facts]] = {}
        for told in (facts, also) if trusted is None else ():
            for head in told.keys() & {*self._module.heads}:
                lost = ~self.holds(head, told[head])
                gone.setdefault(head, []).append(tuple(column[lost] for column in told[head]))
        return self._found(answer, gone)

    def holds(self, head: str, facts: Facts) -> NDArray[np.bool_]:
        size = facts[0].size
        mask = np.asarray(self._state.holds(head, facts)) if size else np.zeros(0, np.bool_)
        if mask.dtype != np.bool_ or mask.shape != (size,):
            raise self._wrong(f"`holds` for {size} facts of `{head}` gave an array of {mask.dtype}{mask.shape}")
        return mask

    def _found(
        self, answer: Mapping[str, Sequence[NDArray[np.int64]]], given: Mapping[str, list[Facts]]
    ) -> dict[str, FactBlocks]:
        """An answer and what was given, by head."""
        blocks = {head: [*parts] for head, parts in given.items()}
        for head, columns in answer.items():
            blocks.setdefault(head, []).append(self._checked(head, columns))
        return {
            head: FactBlocks(sum(block[0].size for block in parts), iter(parts))
            for head, parts in blocks.items()
            if parts
        }

    def _checked(self, head: str, columns: Sequence[NDArray[np.int64]]) -> Facts:
        if head not in self._module.heads:
            raise self._wrong(f"it answered with facts of `{head}`, which its rules do not derive")
        checked = tuple(np.ascontiguousarray(column) for column in columns)
        shapes = {(column.dtype, column.ndim, column.size) for column in checked}
        arity = self._module.arities[head]
        if len(checked) != arity or len(shapes) != 1 or checked[0].dtype != np.int64 or checked[0].ndim != 1:
            shown = ", ".join(f"{column.dtype}{column.shape}" for column in checked)
            raise self._wrong(f"for `{head}` it answered with columns {shown}, not {arity} of 64-bit integers")
        return checked

    def _wrong(self, what: str) -> StateError:
        hint = "Correct the module; `docs/modules.md` says what it must answer."
        return StateError(Diagnostic("E618", f"module `{self._module.kind}` broke its contract: {what}", hint=hint))


def _some(facts: Mapping[str, Facts]) -> dict[str, Facts]:
    """Those relations that have facts here."""
    return {name: columns for name, columns in facts.items() if columns and columns[0].size}
