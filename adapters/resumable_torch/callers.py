"""The framework that made a call, if the meaning of the call depends on the framework."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

import resumable as rs

__all__ = ["FIT_LOOPS", "WRAPPERS", "is_called_by", "refuse_framework", "refuse_states_not_loaded"]

FIT_LOOPS: Final = "lightning.pytorch.loops.fit_loop", "pytorch_lightning.loops.fit_loop"
"""Lightning's module that begins the epochs, under both of its package names."""
WRAPPERS: Final = "lightning.fabric.wrappers", "lightning_fabric.wrappers"
"""Fabric's module that wraps loaders, under both of its package names."""
RANKS: Final = (
    "give each rank its part by sampler=ResumableDistributedSampler(dataset, seed=0), or pass "
    "use_distributed_sampler=False if the order has a shard"
)
MADE_AGAIN_BY: Final = {"lightning": "Lightning", "fabric": "Fabric", "ignite": "ignite"}
"""Frameworks whose ``update_dataloader`` makes a loader again, by a word in the module name."""
OPTIONS: Final = {
    "SequentialSampler": "instead of overfit_batches=n, pass shuffle=False and limit_train_batches=n",
    "_IndexBatchSamplerWrapper": "predict with a plain DataLoader, since nothing is resumed",
    "ReproducibleBatchSampler": "use Engine, since the loader has a state itself",
}


def is_called_by(modules: tuple[str, ...]) -> bool:
    """Whether the running code was called by one of ``modules``."""
    return any(True for _ in _frames_of(modules))


def refuse_states_not_loaded() -> None:
    """Refuse to begin an epoch while Lightning has unloaded states of loaders.

    If `configure_optimizers` reads ``trainer.estimated_stepping_batches``, Lightning sets up the
    loaders before reading the checkpoint, and never loads the states of the loaders.

    Raises:
      ExternalStateError: with the callback that loads the states.
    """
    for frame in _frames_of(FIT_LOOPS):
        loop: Any = frame.f_locals.get("self")
        if getattr(loop, "restarting", False) and loop._combined_loader_states_to_load:
            raise rs.ExternalStateError(
                "Lightning has not loaded the states of the loaders, since configure_optimizers asked for "
                "estimated_stepping_batches before: the callback ResumeInput() loads them"
            )
        return


def refuse_framework(sampler: object) -> None:
    """Refuse ``sampler`` if a framework passes it instead of the user's order.

    Raises:
      InvalidArgument: with the framework, and advice.
    """
    kind = type(sampler).__name__
    for frame in _frames():
        if frame.f_code.co_name.endswith("update_dataloader"):
            module = frame.f_globals["__name__"]
            for name in [name for word, name in MADE_AGAIN_BY.items() if word in module][-1:]:
                raise rs.InvalidArgument(
                    f"{name} replaced the order of this loader by a {kind}, which would lose its shuffle "
                    f"and its state: {OPTIONS.get(kind, RANKS)}"
                )


def _frames_of(modules: tuple[str, ...]) -> Iterator[FrameType]:
    """The frames of ``modules`` on the stack, the newest first."""
    if any(name in sys.modules for name in modules):
        yield from (frame for frame in _frames() if frame.f_globals.get("__name__") in modules)


def _frames() -> Iterator[FrameType]:
    """The frames on the stack, the newest first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
