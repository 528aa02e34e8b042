"""A state as a dict of bytes, for savers with `state_dict` and `load_state_dict`."""

# Ranks that save together keep the value of equal keys once, and on load a rank requests the keys
# of its own save. So shared states go under one key, and different states under separate keys.

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

from ..errors import StateMismatch, shorten
from ..errors.foreign_states import looks_like
from .encoding import dumps_frozen, loads
from .partitions import by_partition
from .value import State

KEY: Final = "resumable"
"""The key of a state shared by all ranks."""
OF_PARTITION: Final = "partition/"
"""Prefix of the key of a partition; the number follows."""
OF_RANK: Final = "rank/"
"""Prefix of the key of the state of one rank; the rank and the number of ranks follow."""


def rank_key(rank: int, ranks: int) -> str:
    """The key of the state of one rank.

    >>> rank_key(3, 64)
    'rank/00003-of-00064'
    """
    return f"{OF_RANK}{rank:05}-of-{ranks:05}"


def partition_key(number: int) -> str:
    """The key of a partition.

    >>> partition_key(7)
    'partition/00007'
    """
    return f"{OF_PARTITION}{number:05}"


def named(state: State) -> dict[str, bytes]:
    """``state`` under a key for each partition, or under `KEY` without partitions."""
    parts = by_partition(state)
    if not parts:
        return {KEY: dumps_frozen(state)}
    return {partition_key(number): dumps_frozen(part) for number, part in parts.items()}


def state_in(state_dict: Mapping[str, Any]) -> State:
    """The state in a ``state_dict`` with the single key `KEY`.

    Raises:
      StateMismatch: if ``state_dict`` holds no state.
    """
    if not isinstance(state_dict, Mapping) or set(state_dict) != {KEY}:
        raise StateMismatch(
            f"the state must be a dict with the key {KEY!r} alone, got "
            f"{shorten(state_dict)}{looks_like(state_dict)}"
        )
    return state_of(state_dict[KEY])


def states_in(state_dict: Any) -> dict[str, State]:
    """The states in a ``state_dict``: of partitions or ranks, or one state for all.

    Raises:
      StateMismatch: if ``state_dict`` holds no state, or several kinds.
    """
    keys = list(state_dict) if isinstance(state_dict, Mapping) else []
    for kind in (OF_PARTITION, OF_RANK):
        if keys and all(isinstance(key, str) and key.startswith(kind) for key in keys):
            return {key: state_of(value) for key, value in state_dict.items()}
    return {KEY: state_in(state_dict)}


def state_of(data: Any) -> State:
    """The state from the bytes in a ``state_dict``.

    Raises:
      StateMismatch: if ``data`` are not bytes.
    """
    if isinstance(data, io.BytesIO):  # some savers return bytes in this form
        data = data.getvalue()
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise StateMismatch(f"the state must be bytes, got {shorten(data)}")
    return loads(data)
