"""What a store knows of the sources that its relations follow: where they are, and which version of each was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, replace
from typing import Any

from sempre.data import dataclass

# A set with, per explicit fact, how many rows of the sources stand for it, less one; those with exactly one row are not
# in it. A fact that the program states, and that no source has, is there with -1.
COPIES = "copies"

# What tells the versions of a source apart, as JSON has it; see `sempre.files.sources`.
SourceVersion = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FollowedRelation:
    """The sources of one relation, in the order of its `.input` directives.

    `versions` are those whose rows are in the store; None where that is not known. `by_hand`: something else has
    changed the relation since.
    """

    places: tuple[str, ...]
    versions: tuple[SourceVersion | None, ...]
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class Followed:
    """All relations of a store that follow sources.

    `folder` is where the names of files begin, `outputs` where results are published, empty if nowhere. `publisher`
    is the name of the store in tables that it publishes to.
    """

    folder: str
    outputs: str
    publisher: str
    relations: Mapping[str, FollowedRelation] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Followed:
        relations = {
            name: FollowedRelation(tuple(each["places"]), tuple(each["versions"]), each["by_hand"])
            for name, each in raw["relations"].items()
        }
        return Followed(raw["folder"], raw["outputs"], raw["publisher"], relations)

    def changed_by_hand(self, names: Iterable[str]) -> Followed:
        """The same after something else has changed some relations."""
        marked = {name: replace(self.relations[name], by_hand=True) for name in names if name in self.relations}
        return replace(self, relations={**self.relations, **marked}) if marked else self

    def unread(self) -> Followed:
        """The same for a store that keeps the facts and forgets how often each was there."""
        relations = {
            name: replace(each, versions=(None,) * len(each.versions)) for name, each in self.relations.items()
        }
        return replace(self, relations=relations)
