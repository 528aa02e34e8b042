"""Work for one worker of an executor that the user passes in."""

# Most executors give each task to whichever worker is free. A partition then starts anew from its state wherever
# its next task comes to another process. An executor whose workers can be told apart avoids that by one more method.

from __future__ import annotations

from concurrent.futures import Executor
from typing import Protocol, runtime_checkable

from ..errors import InvalidType, shorten


@runtime_checkable
class HasLanes(Protocol):
    """An executor that can keep work together."""

    def lane(self) -> Executor:
        """A new executor that gives all its work to one worker of this one, as long as that worker lives."""


def lane_of(executor: str | Executor) -> str | Executor:
    """A lane of ``executor``, or itself if it has none.

    Raises:
      InvalidType: if its method ``lane`` returns no executor.
    """
    if not isinstance(executor, HasLanes):
        return executor
    lane = executor.lane()
    if not isinstance(lane, Executor):
        raise InvalidType(
            f"executor.lane() must return a concurrent.futures.Executor, got {shorten(lane)}"
        )
    return lane
