"""A mapping whose values are made when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

Value = TypeVar("Value")


class OnDemand(Mapping[str, Value], Generic[Value]):
    """Values by name, made by `make`, each once."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Value]) -> None:
        self._names = tuple(names)
        self._make = make
        self._made: dict[str, Value] = {}
        self._lock = threading.RLock()

    def __getitem__(self, name: str) -> Value:
        with self._lock:
            if name not in self._made:
                if name not in self._names:
                    raise KeyError(name)
                self._made[name] = self._make(name)
            return self._made[name]

    def is_made(self, name: str) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
