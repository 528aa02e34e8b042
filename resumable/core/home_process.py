"""The process in which an object was made."""

from __future__ import annotations

import os
from typing import final


@final
class HomeProcess:
    """The process that makes this object, whose threads and locks are of no use after a fork.

    Attributes:
      number: id of the process.
    """

    def __init__(self) -> None:
        self.number = os.getpid()

    def is_this_one(self) -> bool:
        """Whether the caller is in that process."""
        return os.getpid() == self.number
