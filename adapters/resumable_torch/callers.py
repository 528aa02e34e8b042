"""The framework that made a call, where the meaning of the call depends on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

import resumable as rs

__all__ = ["FIT_LOOPS", "WRAPPERS", "is_called_by", "refuse_framework", "refuse_states_not_loaded"]

FIT_LOOPS: Final = "lightning.pytorch.loops.fit_loop", "pytorch_lightning.loops.fit_loop"
"""Lightning's module that begins the epochs, by the names under which it is installed."""
WRAPPERS: Final = "lightning.fabric.wrappers", "lightning_fabric.wrappers"
"""Fabric's module that wraps loaders, by the names under which it is installed."""
RANKS: Final = (
    "give each rank its part by sampler=ResumableDistributedSampler(dataset, seed=0), or pass "
    "use_distributed_sampler=False if the order has a shard"
)
MADE_AGAIN_BY: Final = {"lightning": "Lightning", "fabric": "Fabric", "ignite": "ignite"}
"""Frameworks whose function ``update_dataloader`` makes a loader again, by a word in the name of its module."""
OPTIONS: Final = {
    "SequentialSampler": "instead of overfit_batches=n, pass shuffle=False and limit_train_batches=n",
    "_IndexBatchSamplerWrapper": "predict with a plain DataLoader, since nothing is resumed",
    "ReproducibleBatchSampler": "use Engine, since the loader has a state itself",
}


def is_called_by(modules: tuple[str, ...]) -> bool:
    """Whether the code that runs was called by one of ``modules``."""
    return any(True for _ in _frames_of(modules))


def refuse_states_not_loaded() -> None:
    """Refuse to begin an epoch while Lightning has states of loaders that it does not load.

    If `configure_optimizers` asks for ``trainer.estimated_stepping_batches``, Lightning sets up the loaders before it
    has read the checkpoint, and never loads their states.

    Raises:
      ExternalStateError: saying which callback loads them.
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
    """Refuse ``sampler`` if a framework passes it in place of the order that the user gave.

    Raises:
      InvalidArgument: naming the framework, and what to write.
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
    """The frames on the stack that belong to ``modules``, the newest first."""
    if any(name in sys.modules for name in modules):
        yield from (frame for frame in _frames() if frame.f_globals.get("__name__") in modules)


def _frames() -> Iterator[FrameType]:
    """The frames on the stack, the newest first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
