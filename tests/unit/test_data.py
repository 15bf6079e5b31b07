"""What `sempre.data.dataclass` makes is what `dataclasses.dataclass` makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest

from sempre.data import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    note: str = field(default="", compare=False)
    seen: list[int] = field(default_factory=list, hash=False, repr=False)
    kind: ClassVar[str] = "point"


@dataclass(frozen=True, slots=True)
class Colored(Point):
    color: str = "red"


@dataclass(slots=True)
class Counter:
    """Has a docstring, a check after the first values, and a field that nobody gives."""

    start: int
    count: int = field(init=False)
    steps: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.count = self.start


@dataclass(frozen=True)
class Open:
    value: object


@dataclass(slots=True, eq=False)
class Own:
    value: int

    def __repr__(self) -> str:
        return "mine"


@dataclass(frozen=True, slots=True)
class Odd:
    value: int

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd) and self.value % 2 == other.value % 2


def test_fields_defaults_and_factories_are_given() -> None:
    one, other = Point(1), Point(y=2, x=1, note="n")
    assert (one.x, one.y, one.note, one.seen, one.kind) == (1, 2, "", [], "point")
    assert one.seen is not Point(1).seen
    assert one == other
    assert hash(one) == hash(other)
    assert one != Point(2)
    assert repr(other) == "Point(x=1, y=2, note='n')"


def test_wrong_arguments_are_refused_as_ever() -> None:
    with pytest.raises(TypeError, match="x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="z"):
        Point(1, z=3)  # type: ignore[call-arg]


def test_frozen_objects_do_not_change() -> None:
    for one in (Point(1), Open(1)):
        with pytest.raises(FrozenInstanceError):
            one.x = 3  # type: ignore[misc,union-attr]
        with pytest.raises(FrozenInstanceError):
            del one.x  # type: ignore[union-attr]
    assert not hasattr(Point(1), "__dict__")


def test_a_class_below_has_the_fields_of_both() -> None:
    one = Colored(1, color="blue")
    assert [each.name for each in fields(one)] == ["x", "y", "note", "seen", "color"]
    assert one != Point(1)
    assert Point(1) != one
    assert repr(one) == "Colored(x=1, y=2, note='', color='blue')"
    assert hash(one) == hash(Colored(1, 2, "other", [], "blue"))


def test_the_functions_for_dataclasses_take_them() -> None:
    assert is_dataclass(Point)
    assert is_dataclass(Point(1))
    assert replace(Point(1), y=5) == Point(1, 5)
    assert asdict(Colored(1)) == {"x": 1, "y": 2, "note": "", "seen": [], "color": "red"}
    match Colored(1, 2):
        case Colored(x, y):
            assert (x, y) == (1, 2)


def test_objects_that_change_have_no_hash_and_can_be_set() -> None:
    one = Counter(3)
    assert (one.count, one.steps) == (3, {})
    one.count = 4
    assert one != Counter(3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_methods_that_are_written_stay() -> None:
    assert repr(Own(1)) == "mine"
    assert Own(1) != Own(1)
    assert len({Own(1), Own(1)}) == 2
    assert Odd(1) == Odd(3)
    assert hash(Odd(1)) == 7


@pytest.mark.parametrize("one", [Point(1, 3, "n", [1]), Colored(1), Open((1,)), Counter(2)])
def test_copies_and_pickles_are_equal(one: Any) -> None:
    assert copy.copy(one) == one
    assert copy.deepcopy(one) == one
    assert pickle.loads(pickle.dumps(one)) == one


def test_an_object_that_holds_itself_can_be_shown() -> None:
    held: list[object] = []
    one = Open(held)
    held.append(one)
    assert repr(one) == "Open(value=[...])"


@pytest.mark.parametrize("options", [{"frozen": True, "slots": True}, {"slots": True}, {"frozen": True}, {"eq": False}])
def test_the_standard_decorator_agrees(options: dict[str, bool]) -> None:
    def classes(decorator: Any) -> Any:
        class Sample:
            a: int
            b: str = "b"
            c: tuple[int, ...] = field(default=(), compare=False)

        return decorator(**options)(Sample)

    ours, theirs = classes(dataclass), classes(dataclasses.dataclass)
    assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__
    for arguments in ((1,), (1, "x"), (1, "x", (2,))):
        assert repr(ours(*arguments)) == repr(theirs(*arguments))
        assert (ours(1) == ours(*arguments)) == (theirs(1) == theirs(*arguments)) or not options.get("eq", True)
        if ours.__hash__ is not None and options.get("eq", True):
            assert hash(ours(*arguments)) == hash(theirs(*arguments))
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)


def test_loading_the_package_compiles_hardly_any_method() -> None:
    """A decorator of the standard library in each of two hundred classes was half of a short run."""
    counted = """
import builtins
compiled = [0]
plain = builtins.exec
def counting(source, *args):
    compiled[0] += isinstance(source, str) and source.lstrip().startswith("def __")
    return plain(source, *args)
builtins.exec = counting
import sempre.cli.run_command, sempre.api
print(compiled[0])
"""
    found = subprocess.run([sys.executable, "-c", counted], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 50
