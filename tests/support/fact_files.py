"""Files of facts: what the tests of every stage, or of every format, know of each, in a file named after its module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

__all__ = ["FactFiles", "Mutation"]

F = TypeVar("F")
K = TypeVar("K")
V = TypeVar("V")

TESTS: Final = Path(__file__).parents[1]


class Mutation(NamedTuple):
    """A fault in one place.

    Attributes:
      path: of the module, below the package.
      old: what stands there, once in the module.
      new: what is put in its place.
    """

    path: str
    old: str
    new: str


class FactFiles(Generic[F]):
    """The files of facts in `tests/ROOM/facts/`.

    Args:
      kind: the class of `FACTS` in each file.
      room: the folder of tests.
    """

    def __init__(self, kind: type[F], room: str) -> None:
        self._kind, self._room = kind, room

    @cached_property
    def all(self) -> Mapping[str, F]:
        """The facts of all files, by the name of the module."""
        return self.read()

    def read(self) -> dict[str, F]:
        """The same, read again.

        Raises:
          ImportError: if a file does not say all; the message names what to write.
        """
        paths = sorted((TESTS / self._room / "facts").glob("*.py"))
        return {path.stem: self._read(path.stem) for path in paths}

    def _read(self, name: str) -> F:
        kind, module = self._kind, f"tests/{self._kind.__module__.replace('.', '/')}.py"
        told = f"{self.path(name)} must have FACTS = {kind.__name__}(...), as {module} explains"
        try:
            facts: Any = getattr(import_module(f"{self._room}.facts.{name}"), "FACTS", None)
        except TypeError as error:  # a missing argument
            raise ImportError(f"{told}: {error}") from error
        if not isinstance(facts, kind):
            raise ImportError(told)
        return facts

    def path(self, name: str) -> str:
        """The file of the module with this name, from the root of the checkout."""
        return f"tests/{self._room}/facts/{name}.py"

    def merged(self, of: Callable[[F], Mapping[K, V]]) -> dict[K, V]:
        """The entries that ``of`` finds in each of all facts.

        Raises:
          ValueError: if two files have the same name in it.
        """
        found: dict[K, V] = {}
        for name, facts in self.all.items():
            if twice := found.keys() & of(facts).keys():
                raise ValueError(f"{twice} of {self.path(name)} is in an earlier file too")
            found.update(of(facts))
        return found

    def gathered(self, of: Callable[[F], Iterable[V]]) -> list[V]:
        """The values that ``of`` finds in each of all facts."""
        return [value for facts in self.all.values() for value in of(facts)]
