"""How deeply the states of a pipeline will be nested."""

from __future__ import annotations

from typing import Any, Final

from ..errors import InvalidArgument
from ..state.value import MAX_DEPTH
from .lookup import looks_up
from .saved_state import saved_state
from .stage import Stage

# The other 50 levels are for a checkpoint around the state, and for values in it that functions and
# sources save.
MOST_LEVELS: Final = MAX_DEPTH - 50


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


def check_depth(stage: Stage[Any]) -> None:
    """Refuse a pipeline whose state would be nested too deeply to be saved.

    Raises:
      InvalidArgument: giving the number of levels, and the most there may be.
    """
    levels = state_levels(stage)
    if levels > MOST_LEVELS:
        raise InvalidArgument(
            f"the state of a pipeline must be nested at most {MOST_LEVELS} levels deep, got {levels}; "
            "a stage adds one or more, unless a later stage looks its items up by index"
        )
