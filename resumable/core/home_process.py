"""Which process something was made in."""

from __future__ import annotations

import os
from typing import final


@final
class HomeProcess:
    """The process that makes this object: its threads and locks do not come along with a fork.

    Attributes:
      number: of the process.
    """

    def __init__(self) -> None:
        self.number = os.getpid()

    def is_this_one(self) -> bool:
        """Whether it is the process that asks."""
        return os.getpid() == self.number
