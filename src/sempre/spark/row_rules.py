"""What the user of a stream has said of its rows: which keys they have, and what nulls and decimals become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sempre.analysis.model import Relation
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic
from sempre.files.value_choice import AS_THEY_ARE, BadChoice, ValueChoice, value_choice


@dataclass(frozen=True, slots=True)
class RowRules:
    """By relation: the columns of a key, by which rows replace rows; and what nulls and decimals become."""

    keys: Mapping[str, tuple[str, ...]]
    values: Mapping[str, ValueChoice]
    rejects: bool = False

    def of_values(self, name: str) -> ValueChoice:
        return self.values.get(name, AS_THEY_ARE)

    @property
    def in_driver(self) -> bool:
        """Whether rows have to be looked at one by one, which is done in the driver."""
        odd = any(each.drop_nulls or each.scales for each in self.values.values())
        return bool(self.keys) or self.rejects or odd


NO_RULES = RowRules({}, {})


def row_rules(
    relations: Mapping[str, Relation],
    keys: Mapping[str, Sequence[str]] | None,
    nulls: Any,
    decimals: Any,
    rejects: bool,
) -> RowRules:
    """The rules for the relations that a stream may change; raises where they fit none of them."""
    found: dict[str, tuple[str, ...]] = {}
    for name, columns in (keys or {}).items():
        if name not in relations:
            raise _refused(f"keys: the stream does not change a relation `{name}`", f"It may: {', '.join(relations)}.")
        wanted = (columns,) if isinstance(columns, str) else tuple(columns)
        unknown = [each for each in wanted if each not in relations[name].columns]
        if unknown or not wanted:
            what = f"has no column `{unknown[0]}`" if unknown else "has a key without columns"
            has = ", ".join(relations[name].columns)
            raise _refused(f"keys: relation `{name}` {what}", f"It has {has}.")
        found[name] = wanted
    values: dict[str, ValueChoice] = {}
    errors: list[BadChoice] = []
    for name, relation in relations.items():
        try:
            chosen = value_choice(relation, _own(relation, nulls), _own(relation, decimals))
        except BadChoice as error:
            errors.append(error)
            continue
        if chosen != AS_THEY_ARE:
            values[name] = chosen
    if errors and not values:
        message, _, hint = str(errors[0]).partition("\n")
        raise _refused(message, hint)
    for option, given in (("nulls", nulls), ("decimals", decimals)):
        if isinstance(given, Mapping):
            unknown = [each for each in given if not any(each in one.columns for one in relations.values())]
            if unknown:
                raise _refused(f"{option}: no relation of the stream has a column `{unknown[0]}`", "")
    return RowRules(found, values, rejects)


def _own(relation: Relation, given: Any) -> Any:
    """Of what is said column by column, what is about the columns of a relation."""
    if isinstance(given, Mapping):
        return {name: value for name, value in given.items() if name in relation.columns} or None
    return given


def _refused(message: str, hint: str) -> DataError:
    return DataError(Diagnostic("E518", message, hint=hint))
