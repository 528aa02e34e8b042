"""Values of a stage computed once from its fields."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

V = TypeVar("V")

if TYPE_CHECKING:
    computed_once = cached_property
else:

    class computed_once(Generic[V]):  # noqa: N801  # it decorates, as `property` does
        """A value that is computed when first asked for, and then kept.

        Unlike `functools.cached_property` before Python 3.12, no lock is taken: two threads could
        deadlock on such locks, and a forked child could wait for a lock for ever. So two threads
        may both compute the value. A stage does not pickle the value.
        """

        def __init__(self, compute: Callable[[Any], V]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, stage: Any, owner: type | None = None) -> V:
            if stage is None:
                return self
            value = vars(stage)[self._name] = self._compute(stage)
            return value
