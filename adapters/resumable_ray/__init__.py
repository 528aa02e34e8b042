"""A pool of Ray actors as an executor for `map` and `partition`, and the state of an input in Ray Train's checkpoints."""

# `executor` is a `concurrent.futures.Executor`, and knows nothing of pipelines. `train` reports the
# state with a checkpoint and resumes from a checkpoint; `checkpoint_folder` writes and reads the
# state where Ray keeps the checkpoint.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .executor import RayExecutor as RayExecutor

if TYPE_CHECKING:
    from .train import report as report
    from .train import resume as resume


def __getattr__(name: str) -> Any:
    # Ray Train needs packages that the executor does not need, and takes a second to import.
    if name in ("report", "resume"):
        from . import train

        return getattr(train, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
