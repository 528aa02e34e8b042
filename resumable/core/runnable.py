"""A pipeline that can be run, and what each of its iterators needs to know of it."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar, final

from ..errors import InvalidArgument
from ..state.value import MAX_DEPTH
from .fingerprint import fingerprint
from .foreign_source import inexact_among
from .graph import walk
from .lookup import looks_up
from .reliance import Reliance
from .saved_state import saved_state
from .stage import Stage

T = TypeVar("T")

# The other 50 levels are for a checkpoint around the state, and for values in it that functions and
# sources save.
MOST_LEVELS: Final = MAX_DEPTH - 50


@final
class RunnablePipeline(Generic[T]):
    """A pipeline whose states can be saved, and what all its iterators need to know, found out once.

    Args:
      stage: the last stage.

    Attributes:
      stage: as given.
      inexact: the sources whose position cannot be restored, with their paths.
      resumes_before: whether a stage resumes before its items, as in `SavedState`.

    Raises:
      InvalidArgument: if a state would be nested too deeply to be saved, giving the number of levels, and
        the most there may be.
    """

    def __init__(self, stage: Stage[T]) -> None:
        levels = state_levels(stage)
        if levels > MOST_LEVELS:
            raise InvalidArgument(
                f"the state of a pipeline must be nested at most {MOST_LEVELS} levels deep, got {levels}; "
                "a stage adds one or more, unless a later stage looks its items up by index"
            )
        stages = list(walk(stage))
        self.stage = stage
        self.inexact = list(inexact_among(stages))
        self.resumes_before = any([saved_state(found).resumes_before for found, _ in stages])
        self._fingerprints: dict[Reliance, str] = {}

    def fingerprint(self, relied_on: Reliance) -> str:
        """The `fingerprint` of a state that relies on ``relied_on`` in all stages."""
        if relied_on not in self._fingerprints:
            self._fingerprints[relied_on] = fingerprint(self.stage, relied_on)
        return self._fingerprints[relied_on]


def state_levels(stage: Stage[Any]) -> int:
    """How many levels of dicts and lists a state of ``stage`` has at most.

    Values that functions and sources save are not counted.
    """
    deepest = 0
    waiting = [(stage, 0)]
    while waiting:
        found, levels = waiting.pop()
        if looks_up(found):
            levels += 1
        else:
            levels += saved_state(found).levels
            waiting += [(upstream, levels) for upstream in found.inputs]
        deepest = max(deepest, levels)
    return deepest
