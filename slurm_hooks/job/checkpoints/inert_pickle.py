"""Reads the structure of a pickle without running any code that it names.

Every class or function that the pickle names becomes an inert stand-in, which only keeps its
arguments. So a hostile file can use memory but cannot call anything (docs.python.org, pickle:
"Restricting Globals").
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import IO, Any


class Inert:
    """Stand-in for any object. ``named``: its name in the pickle; ``given`` and ``state``: its
    arguments and its state.
    """

    named = ""

    def __init__(self, *given: object, **_: object) -> None:
        self.given = given
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state

    def __setitem__(self, key: object, value: object) -> None:
        """Items of a mapping subclass: not used."""

    def append(self, item: object) -> None:
        """Items of a list subclass: not used."""

    def extend(self, items: object) -> None:
        """Items of a list subclass: not used."""


class Truncated(Exception):
    """The data ends early or is not a pickle."""


class Reader(pickle.Unpickler):
    """Loads one or more pickles from ``file``.

    After a load, ``found`` holds every stand-in of the classes in ``wanted``, and ``persistent`` every
    persistent id.
    """

    def __init__(self, file: IO[bytes], wanted: frozenset[str] = frozenset()) -> None:
        super().__init__(file)
        self._wanted = wanted
        self._classes: dict[str, type[Inert]] = {}
        self.found: list[Inert] = []
        self.persistent: list[object] = []

    def find_class(self, module: str, name: str, /) -> type[Inert]:
        full = f"{module}.{name}"
        if full not in self._classes:
            self._classes[full] = self._stand_in(name)
        return self._classes[full]

    def _stand_in(self, name: str) -> type[Inert]:
        body: dict[str, object] = {"named": name}
        if name in self._wanted:
            found = self.found

            def keep(self: Inert, state: object) -> None:
                self.state = state
                found.append(self)

            body["__setstate__"] = keep
        return type("Inert", (Inert,), body)

    def persistent_load(self, pid: Any, /) -> Inert:
        self.persistent.append(pid)
        return Inert()

    def next(self) -> object:
        """The next pickle's value. Raises ``Truncated``; a read error stays an OSError."""
        try:
            return self.load()
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - a broken pickle can raise nearly anything
            raise Truncated(str(error) or type(error).__name__) from None


def attributes(items: list[Inert]) -> Iterator[dict[str, object]]:
    """The attribute dictionaries of the objects that have one."""
    for item in items:
        if isinstance(item.state, dict):
            yield item.state
