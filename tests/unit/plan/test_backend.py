"""The algebra as a type: who has which capability, and which mistakes the type checker finds.

A comment `type: ignore[...]` that is not needed is an error in strict mode, so `make check` fails when one of the
mistakes below is no longer found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sempre.backends.local import LocalBackend
from sempre.plan.backend import Algebra, CycleAlgebra, ModuleAlgebra
from sempre.spark.cluster.spark_backend import SparkBackend

if TYPE_CHECKING:
    from typing import Any

    from sempre.kernel.tally import Counted as KernelCounted
    from sempre.kernel.trace import RowSet, Trace
    from sempre.plan.backend import Backend, Counted, Rows, Tally, Version, View

    AnyModules = ModuleAlgebra[Any, Any, Any, Any, Any, Any]
    AnyCycles = CycleAlgebra[Any, Any, Any, Any, Any, Any]
    _no_modules: type[AnyModules] = SparkBackend  # type: ignore[assignment]
    _no_cycles: type[AnyCycles] = SparkBackend  # type: ignore[assignment]

    def mistakes(backend: Backend, rows: Rows, version: Version, view: View, counted: Counted, tally: Tally) -> None:
        """What a strategy must not do, and cannot."""
        backend.columns(rows)  # type: ignore[attr-defined]
        backend.for_modules().columns(rows)  # type: ignore[union-attr]
        backend.chain("r", rows)  # type: ignore[attr-defined]
        backend.union([version])  # type: ignore[list-item]
        backend.union([counted])  # type: ignore[list-item]
        backend.difference(version, version)  # type: ignore[arg-type]
        backend.difference(rows, rows)  # type: ignore[arg-type]
        backend.version(version)  # type: ignore[arg-type]
        backend.view(rows)  # type: ignore[arg-type]
        backend.view(version, without=view)  # type: ignore[arg-type]
        backend.positive(version, rows)  # type: ignore[arg-type]
        version.adding(version)  # type: ignore[arg-type]
        version.removing(counted)  # type: ignore[arg-type]
        tally.adding(rows)  # type: ignore[arg-type]
        view.plus(view)  # type: ignore[arg-type]

    def families(local: LocalBackend, spark: SparkBackend, trace: Trace, rows: RowSet, counted: KernelCounted) -> None:
        """A backend takes only what is of its own family."""
        local.difference(rows, trace)
        spark.difference(rows, trace)  # type: ignore[arg-type]
        spark.total("r", [counted])  # type: ignore[list-item]


def methods(protocol: type) -> set[str]:
    return {name for base in protocol.__mro__ for name in vars(base) if not name.startswith("_")}


def test_a_backend_has_the_capabilities_that_its_types_say() -> None:
    core, modules, cycles = methods(Algebra), methods(ModuleAlgebra), methods(CycleAlgebra)
    instance = {"instances", "limits"}  # attributes of each backend
    assert modules | cycles <= set(dir(LocalBackend)) | instance
    assert core <= set(dir(SparkBackend)) | instance
    assert not ((modules | cycles) - core) & set(dir(SparkBackend))
