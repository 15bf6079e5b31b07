"""Classes that hold data, as `dataclasses` makes them, with methods that are compiled when they are first called.

The standard decorator compiles six methods for each class when a module is loaded; with the two hundred classes here
that took as long as all else that a small program needs. What is made is the same otherwise: `fields`, `replace`,
`asdict`, `match` and the type checker see a dataclass. Only what the project uses is here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Callable[[type], type]:
        """Make a class whose annotations are its fields; the arguments are those of `dataclasses.dataclass`."""
        return lambda cls: _made(cls, frozen, slots, eq)


_GIVEN_LATER = object()


def _made(cls: type, frozen: bool, slots: bool, eq: bool) -> type:
    if cls.__doc__ is None:  # or the standard decorator spells the signature, which costs more than the rest
        cls.__doc__ = f"Data of the kind `{cls.__name__}`."
    mine = set(cls.__dict__)
    # A method that compares takes the place of the hash with None; one that is written takes the place of ours.
    if "__eq__" in mine and cls.__dict__.get("__hash__") is None:
        mine.discard("__hash__")
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    writers = [("__init__", lambda: _init(made, frozen, slots)), ("__repr__", lambda: _repr(made))]
    if eq:
        writers.append(("__eq__", lambda: _eq(made)))
    if eq and frozen:
        writers.append(("__hash__", lambda: _hash(made)))
    elif eq and "__hash__" not in mine:
        made.__hash__ = None  # type: ignore[assignment]  # what can change has no hash
    for name, write in writers:
        if name not in mine:
            setattr(made, name, _written_later(made, name, write))
    if frozen:
        extra: dict[str, Any] = {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if slots:  # the standard way to bring an object back sets its attributes
            extra |= {"__getstate__": _state, "__setstate__": _restore}
        for name, method in extra.items():
            setattr(made, name, method)
    return made


def _written_later(cls: type, name: str, write: Callable[[], Any]) -> Any:
    """A method that is written, and takes this one's place, when it is first called."""

    def first(self: Any, *args: Any, **named: Any) -> Any:
        method = write()
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)
        return method(self, *args, **named)

    first.__name__ = name
    return first


def _function(name: str, parameters: Sequence[str], lines: Sequence[str], names: dict[str, Any]) -> Any:
    body = "\n".join(f"  {line}" for line in lines or ("pass",))
    exec(f"def {name}({', '.join(parameters)}):\n{body}", names)
    return names[name]


def _init(cls: Any, frozen: bool, slots: bool) -> Any:
    names: dict[str, Any] = {"_later": _GIVEN_LATER}
    parameters, lines = ["self"], []
    for field in dataclasses.fields(cls):
        name = field.name
        has_factory = field.default_factory is not dataclasses.MISSING
        has_default = field.default is not dataclasses.MISSING
        names[f"_of_{name}"] = field.default_factory if has_factory else field.default
        value = name
        if has_factory:
            value = f"_of_{name}() if {name} is _later else {name}" if field.init else f"_of_{name}()"
        elif not field.init:
            value = f"_of_{name}"
        if field.init:
            default = " = _later" if has_factory else f" = _of_{name}" if has_default else ""
            parameters.append(f"{name}{default}")
        elif not has_factory and not has_default:
            continue
        if frozen and slots:
            names[f"_set_{name}"] = getattr(cls, name).__set__
            lines.append(f"_set_{name}(self, {value})")
        elif frozen:
            names["_set"] = object.__setattr__
            lines.append(f"_set(self, {name!r}, {value})")
        else:
            lines.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    return _function("__init__", parameters, lines, names)


def _tuple_of(owner: str, fields: Sequence[dataclasses.Field[Any]]) -> str:
    return "(" + "".join(f"{owner}.{field.name}, " for field in fields) + ")"


def _repr(cls: Any) -> Any:
    shown = ", ".join(f"{field.name}={{self.{field.name}!r}}" for field in dataclasses.fields(cls) if field.repr)
    line = f'return self.__class__.__qualname__ + f"({shown})"'
    return recursive_repr()(_function("__repr__", ["self"], [line], {}))


def _eq(cls: Any) -> Any:
    fields = [field for field in dataclasses.fields(cls) if field.compare]
    lines = [
        "if other.__class__ is self.__class__:",
        f"  return {_tuple_of('self', fields)} == {_tuple_of('other', fields)}",
        "return NotImplemented",
    ]
    return _function("__eq__", ["self", "other"], lines, {})


def _hash(cls: Any) -> Any:
    fields = [field for field in dataclasses.fields(cls) if (field.compare if field.hash is None else field.hash)]
    return _function("__hash__", ["self"], [f"return hash({_tuple_of('self', fields)})"], {})


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
