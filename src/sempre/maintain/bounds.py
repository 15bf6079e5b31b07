"""Modules under watch: every answer is held against the bounds that make the framework correct.

A module must answer at least what one application of its rules gives, and at most what is true. For addition and
rederivation that is one step of its rules, and nothing that does not hold after the epoch; for overdeletion, every fact
that a broken rule instance derived and that does not hold after the epoch, and nothing that is not there.

This evaluates the stratum once more, so it is for tests: `Work.debug` switches it on, and `check_modules` of a
database. What is wrong is an error, with the relation or the rule and what a module did not do.

Reference: [Hu22] Table 1, with the first addition measured against the state after overdeletion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sempre.analysis.model import NormalRule, Stratum
from sempre.diagnostics import Diagnostic, StateError
from sempre.maintain.memory import how_many
from sempre.maintain.modular import Certain, Exchange, owned_by
from sempre.maintain.recompute import materialize
from sempre.maintain.states import ViewDict, read_alike
from sempre.maintain.strategy import Work
from sempre.modules.spec import Module
from sempre.plan.backend import Counted, Rows, Version, View


class WatchedExchange(Exchange):
    """An exchange that checks what its modules answer."""

    def __init__(self, work: Work, stratum: Stratum, modules: Sequence[Module]) -> None:
        super().__init__(work, stratum, modules)
        owned = owned_by(modules)
        self._stratum = stratum
        self._rules = [rule for rule in (*stratum.nonrecursive, *stratum.recursive) if rule.number in owned]
        self._made_truth: Mapping[str, Version] | None = None

    @property
    def _truth(self) -> Mapping[str, Version]:
        """The stratum after the epoch."""
        if self._made_truth is None:
            self._made_truth = materialize(self._work, self._stratum).versions
        return self._made_truth

    def add(self, front: Mapping[str, Rows], present: Callable[[str], View]) -> dict[str, Rows]:
        answer = super().add(front, present)
        if self.modules:
            backend = self._backend
            able = backend.for_modules() or backend.for_paths()
            assert able is not None
            after = {name: able.standing(present(name)) for name in self._stratum.relations}
            for name, rows in answer.items():
                self._none(backend.intersection(rows, after[name]), name, "added, and there already")
                self._none(backend.difference(rows, self._truth[name]), name, "added, and not true")
                after[name] = after[name].adding(rows)
            if not any(self._waiting):
                self._check_step(after, after, "not added")
        return answer

    def delete(self, front: Mapping[str, Rows], dead: Mapping[str, Version], certain: Certain) -> dict[str, Rows]:
        answer = super().delete(front, dead, certain)
        if self.modules:
            backend, old = self._backend, self._work.old
            left = {}
            for name in self._stratum.relations:
                rows = answer.get(name, backend.empty(name).rows())
                self._none(backend.difference(rows, old[name]), name, "overdeleted, and never there")
                self._none(backend.intersection(rows, dead[name]), name, "overdeleted twice")
                left[name] = old[name].removing(backend.union([dead[name].rows(), rows]))
            if not any(self._waiting):
                self._check_broken(left)
        return answer

    def rederive(self, dead: Mapping[str, Version]) -> dict[str, Rows]:
        answer = super().rederive(dead)
        if self.modules:
            backend = self._backend
            left = {n: self._work.old[n].removing(dead[n].rows()) for n in self._stratum.relations}
            for name, rows in answer.items():
                self._none(backend.difference(rows, self._truth[name]), name, "rederived, and not true")
            known = {n: version.adding(answer[n]) if n in answer else version for n, version in left.items()}
            self._check_step(left, known, "not rederived", dead)
        return answer

    def _check_step(
        self,
        state: Mapping[str, Version],
        known: Mapping[str, Version],
        what: str,
        among: Mapping[str, Version] | None = None,
    ) -> None:
        """One application of the modules' rules to the state gives nothing that is not known.

        With `among`, only what is there is looked for, and only where nothing below is new.
        """
        below = {**self._work.new} if among is None else self._kept_below()
        for rule in self._rules:
            rows = self._count(rule, {**below, **state}).rows()
            if among is not None:
                rows = self._backend.intersection(rows, among[rule.relation])
            self._none(self._backend.difference(rows, known[rule.relation]), rule, what)

    def _check_broken(self, left: Mapping[str, Version]) -> None:
        """Facts that lost an instance of the modules' rules, and are left, hold.

        Where words are shortened, an instance that went may be a way around a path that is left: what such a path still
        gives, and what is given, does not rest on that instance.
        """
        backend, kept = self._backend, self._kept_below()
        shortened = {head: closing for closing in self._closings for head in closing.module.shortened}
        for rule in self._rules:
            before, after = self._count(rule, self._work.old), self._count(rule, {**kept, **left})
            broken = backend.total(rule.relation, [part for part in (before, after.negated()) if len(part)]).rows()
            broken = backend.intersection(broken, left[rule.relation])
            if rule.relation in shortened:
                closing = shortened[rule.relation]
                broken = closing.graph.parted(rule.relation, broken)[1]
                broken = backend.difference(broken, closing.backbone[rule.relation])
            self._none(backend.difference(broken, self._truth[rule.relation]), rule, "not overdeleted")

    def _none(self, rows: Rows, of: str | NormalRule, what: str) -> None:
        """An error, if there are such facts of a relation, or of a rule's head."""
        if not len(rows):
            return
        relation = of if isinstance(of, str) else of.relation
        module = next((module for module in self.modules if relation in module.heads), None)
        who = f"module `{module}`" if module is not None else "a module"
        which = f"of `{relation}`" if isinstance(of, str) else f"that `{of.text}` derives"
        hint = "Correct the module; `docs/modules.md` has the bounds."
        raise StateError(
            Diagnostic("E618", f"{who} broke its bounds: {how_many(len(rows))} {which}: {what}", hint=hint)
        )

    def _kept_below(self) -> dict[str, Version]:
        """The strata below without what is gone, and without what is new."""
        work, changes = self._work, self._work.changes
        return {
            name: version.removing(changes[name].minus) if name in changes else version
            for name, version in work.old.items()
            if name not in self._stratum.relations
        }

    def _count(self, rule: NormalRule, state: Mapping[str, Version]) -> Counted:
        """The instances of a rule in a state."""
        plans = self._work.plans
        ready = plans.full(rule, state)
        views: ViewDict = {}
        for (name, _), orders in plans.needed_orders([(rule, None)]).items():
            read_alike(views, name, self._backend.view(state[name].indexed(orders)))
        return self._backend.count(rule.relation, [ready], views)
