"""Reads what the sources of a program have now, and says which version of each that was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from sempre.analysis.model import CheckedProgram, Relation, Type
from sempre.data import dataclass
from sempre.diagnostics import Findings, SempreError
from sempre.files.columns import concat
from sempre.files.directive_options import SPARK_ONLY, Endpoint, input_endpoint
from sempre.files.read import Stdin, TextTable, read_endpoint
from sempre.files.sources.source import FactSource, SourceVersion, source_of


@dataclass(frozen=True, slots=True)
class SourceRows:
    """All rows of the sources of one relation, and their versions."""

    table: pa.Table
    versions: tuple[SourceVersion, ...]


# Makes the sources that Spark reads; None without a session.
SparkSources = Callable[[Endpoint, Relation, Mapping[str, Type]], FactSource] | None


def sources_of(
    checked: CheckedProgram, relation: Relation, folder: Path, spark: SparkSources = None
) -> list[FactSource]:
    """The sources of a relation; raises `DataError` if one of them cannot be followed."""
    endpoints = [input_endpoint(relation, each) for each in relation.inputs]
    return [
        spark(each, relation, checked.types)
        if spark is not None and each.io in SPARK_ONLY
        else source_of(each, relation, checked.types, folder)
        for each in endpoints
    ]


def is_followable(relation: Relation, *, spark: bool = False) -> bool:
    """Whether all that a relation is read from has versions, with a session of Spark or without."""
    without = ("stdin",) if spark else ("stdin", *SPARK_ONLY)
    return all(input_endpoint(relation, each).io not in without for each in relation.inputs)


def whole(relation: Relation, sources: list[FactSource], known: tuple[SourceVersion | None, ...] = ()) -> SourceRows:
    """All that the sources of a relation have now."""
    versions = [source.version(each) for source, each in zip(sources, known or (None,) * len(sources), strict=True)]
    tables = [source.rows(version) for source, version in zip(sources, versions, strict=True)]
    return SourceRows(concat(relation, tables), tuple(versions))


def read_with_versions(
    checked: CheckedProgram, folder: Path
) -> tuple[dict[str, pa.Table], Mapping[str, tuple[SourceVersion, ...]]]:
    """What every relation with an `.input` has, and the versions of those that can be followed.

    Raises once, with what is wrong in every file.
    """
    findings, stdin, texts = Findings(), Stdin(), TextTable()
    parts: dict[str, list[pa.Table]] = {}
    tables: dict[str, pa.Table] = {}
    versions: dict[str, tuple[SourceVersion, ...]] = {}
    for relation in checked.relations.values():
        if not relation.inputs:
            continue
        with findings.gathered(SempreError):
            if is_followable(relation):
                found = whole(relation, sources_of(checked, relation, folder))
                tables[relation.name], versions[relation.name] = found.table, found.versions
            else:
                endpoints = [input_endpoint(relation, each) for each in relation.inputs]
                parts[relation.name] = [
                    read_endpoint(each, relation, folder, checked.types, stdin, texts) for each in endpoints
                ]
    findings.check()
    tables |= texts.joined(parts, checked.relations)
    return {name: tables[name] for name in checked.relations if name in tables}, versions
