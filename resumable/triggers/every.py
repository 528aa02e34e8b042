"""The trigger described by two arguments of TensorFlow's hooks."""

from __future__ import annotations

from ..core.arguments import check_int, check_seconds
from ..errors import InvalidArgument
from .base import Trigger
from .seconds import EverySeconds
from .steps import EverySteps


def every(save_steps: int | None = None, save_secs: float | None = None) -> Trigger:
    """``EverySteps(save_steps)`` or ``EverySeconds(save_secs)``, whichever is given.

    The arguments and their rule match TensorFlow's ``CheckpointSaverHook``.

    Args:
      save_steps: steps from one save to the next, at least 1.
      save_secs: seconds from one save to the next, above 0.

    Raises:
      InvalidArgument: a ValueError, unless exactly one argument is given and is in range.
      InvalidType: if the argument is not a number, or ``save_steps`` not an integer.

    >>> rs.every(save_steps=100)
    EverySteps(steps=100)
    >>> rs.every(save_secs=600)
    EverySeconds(seconds=600.0)
    """
    if (save_steps is None) == (save_secs is None):
        raise InvalidArgument(
            "exactly one of save_steps and save_secs must be given, got "
            f"save_steps={save_steps!r}, save_secs={save_secs!r}"
        )
    if save_secs is not None:
        return EverySeconds(check_seconds("save_secs", save_secs))
    return EverySteps(check_int("save_steps", save_steps, minimum=1))
