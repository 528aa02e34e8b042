"""Make calls that only count or show, so that a failed call ends no run."""

# CPython calls a signal handler with the interrupted frame as an argument, and an exception of the
# handler propagates out of that frame. So a traceback distinguishes such an exception from an error
# of the call: a frame of the handler refers to the previous frame.

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, final

T = TypeVar("T")


@final
class BestEffort:
    """Makes calls that a run does not depend on.

    The result of a failed call is left out. The first failure is a `RuntimeWarning`, never raised,
    even where warnings are errors. An exception of a signal handler is raised, since it concerns
    the run.

    Args:
      what: the subject of the warning.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._has_warned = False

    def __call__(self, call: Callable[[], T], default: T) -> T:
        """Return the result of ``call``, or ``default`` if the call fails."""
        try:
            return call()
        except Exception as error:
            if _raised_by_signal_handler(error):
                raise
            if not self._has_warned:
                self._has_warned = True
                with suppress(RuntimeWarning):
                    message = f"{self._what} left out, because counting failed with {error!r}"
                    warnings.warn(message, RuntimeWarning, stacklevel=3)
        return default


def _raised_by_signal_handler(error: Exception) -> bool:
    """Whether a signal handler raised ``error``."""
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        interrupted, entry = entry.tb_frame, entry.tb_next
        for value in entry.tb_frame.f_locals.values():
            found = value if type(value) is tuple else (value,)
            if any(one is interrupted for one in found):
                return True
    return False
