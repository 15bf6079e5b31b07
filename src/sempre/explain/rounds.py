"""The rounds of a stratum: in which one naive evaluation finds each fact."""

from __future__ import annotations

from collections.abc import Collection

from sempre.analysis.model import Stratum
from sempre.data import dataclass
from sempre.explain.inquiries import Bench, CodedFact, Codes, tuples_of
from sempre.kernel.tally import Tally
from sempre.maintain.recompute import materialize_with
from sempre.maintain.strategy import Work
from sempre.plan.backend import sealed
from sempre.plan.ops import relations_of


@dataclass(frozen=True, slots=True)
class StratumRounds:
    """The round of every fact of a stratum."""

    tallies: dict[str, Tally]

    @staticmethod
    def of(bench: Bench, stratum: Stratum) -> StratumRounds:
        """Evaluates the stratum from the bottom, by rounds alone; what it reads is not evaluated again."""
        state, backend, own = bench.state, bench.backend, stratum.relations
        stratum = bench.program.strata[stratum.index]
        reads = set().union(*(relations_of(r.body) for r in (*stratum.nonrecursive, *stratum.recursive)))
        new = {name: bench.version(name) for name in reads - set(own)}
        explicit = {name: backend.fitted(name, state.explicit(name)) for name in own}
        work = Work(bench.program, sealed(backend), bench.plans, {}, explicit, explicit, {}, _unseen, new)  # type: ignore[arg-type]
        outcome, fixpoint = materialize_with(work, stratum, walking=False)
        tallies: dict[str, Tally] = {}
        for name in own:
            parts = [backend.times(rows, number) for number, rows in fixpoint.touched[name]]  # type: ignore[arg-type]
            tallies[name] = backend.numbered(name, parts, outcome.versions[name])  # type: ignore[arg-type]
        return StratumRounds(tallies)

    def heights(self, bench: Bench, facts: Collection[CodedFact]) -> dict[CodedFact, int]:
        """The rounds of some facts."""
        by_relation: dict[str, list[Codes]] = {}
        for name, codes in facts:
            by_relation.setdefault(name, []).append(codes)
        found: dict[CodedFact, int] = {}
        for name, rows in by_relation.items():
            counted = bench.backend.lookup(self.tallies[name], bench.rows(name, rows))
            numbers = counted.weights.tolist()
            coded = tuples_of(counted.rows().columns(), len(counted))
            found.update(zip(((name, codes) for codes in coded), numbers, strict=True))
        return found


def _unseen(round_: int, facts: int) -> None:
    """Nobody watches."""
