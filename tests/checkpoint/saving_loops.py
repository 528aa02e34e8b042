"""A loop that saves, and what it leaves in its folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.waiting import wait_until

import resumable as rs

__all__ = ["files_in", "run_loop", "unfinished_in", "until_written"]


def run_loop(
    pipeline: rs.Pipeline[Any],
    store: rs.Store | Path,
    trigger: rs.Trigger,
    steps: int | None = None,
    *,
    after_step: Callable[[int], object] = lambda step: None,
    **options: Any,
) -> list[Any]:
    """The items of ``steps`` steps of a `Checkpointer` with these options, by default to the end."""
    seen: list[Any] = []
    with rs.Checkpointer(store, trigger, **options) as checkpointer:
        for item in checkpointer.resume(pipeline):
            seen.append(item)
            after_step(checkpointer.step)
            if len(seen) == steps:
                break
    return seen


def files_in(folder: Path) -> list[str]:
    """The names of the files in ``folder``, ascending, without that of the lock."""
    return sorted(name for name in os.listdir(folder) if not name.startswith(".lock-"))


def unfinished_in(folder: Path) -> list[str]:
    """Those of saves that were cut short."""
    return [name for name in os.listdir(folder) if name.startswith(".tmp-")]


def until_written(checkpointer: rs.Checkpointer) -> None:
    """Wait until nothing is being written, nor removed by a retention."""
    assert checkpointer._loop is not None
    saver = checkpointer._loop._saver
    wait_until(lambda: not saver.busy)
