"""A loop that saves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import resumable as rs

__all__ = ["run_loop"]


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
