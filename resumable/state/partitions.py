"""The parts of a state for partitions, and the keys of a pipeline's state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeGuard

PARTITIONS: Final = "partitions"
"""The key for the numbers of the partitions in a state.

The lists under the other keys have one entry for each partition.
"""
OF_PARTITIONS: Final = (PARTITIONS, "positions", "ended", "parts")
"""All keys of a state of partitions.

A dict is a state of partitions only with exactly these keys, since the state of a user's function
may have a key of the same name.
"""
OF_EVEN_STEPS: Final = ("left", "ranks", "uneven", "upstream")
"""The keys of a state of ranks that end together; the last has the state of the partitions."""
MOST_PARTITIONS: Final = 1 << 14

TOP: Final = ("fingerprint", "epoch", "step", "ahead", "pipeline")
EPOCH_REACHED: Final = "epoch_reached"
"""A further key, if stages resume from before items already handed out."""


def is_of_partitions(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether ``value`` has the keys of a state of partitions."""
    return isinstance(value, dict) and value.keys() == set(OF_PARTITIONS)


def states_of_partitions(state: Any) -> Iterator[dict[str, Any]]:
    """The states of partitions, wherever ``state`` has some."""
    waiting = [state]
    while waiting:
        found = waiting.pop()
        if is_of_partitions(found):
            yield found
        if isinstance(found, dict):
            waiting += found.values()
        elif isinstance(found, (list, tuple)):
            waiting += found
