"""The process in which an object was made, and what to do in its forks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import final

from ..errors import WorkerError


def in_forked_children(function: Callable[[], object]) -> Callable[[], object]:
    """``function``, which is also called in each process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
    return function


@final
class HomeProcess:
    """The process that makes this object, whose threads and locks are of no use after a fork.

    Attributes:
      number: id of the process.
    """

    def __init__(self) -> None:
        self.number = os.getpid()

    def is_this_one(self) -> bool:
        """Whether the caller is in the process that made this object."""
        return os.getpid() == self.number

    def check_workers_of(self, stage: object) -> None:
        """Refuse to continue in a forked process, where the workers of ``stage`` do not exist.

        Raises:
          WorkerError: if the caller is in a forked process.
        """
        if not self.is_this_one():
            raise WorkerError(
                f"the workers of {stage!r} are in the process that started them, not in this fork of "
                "it; iterate the pipeline anew here"
            )
