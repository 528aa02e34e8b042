"""Who of Lightning and Fabric calls, where that decides what a call means."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

import resumable as rs
from resumable.core.savers import LIGHTNING

__all__ = ["FIT_LOOPS", "WRAPPERS", "asks_ahead", "is_called_by", "refuse_states_not_loaded"]

FIT_LOOPS: Final = "lightning.pytorch.loops.fit_loop", "pytorch_lightning.loops.fit_loop"
"""Lightning's module that begins the epochs, by the names under which it is installed."""
WRAPPERS: Final = "lightning.fabric.wrappers", "lightning_fabric.wrappers"
"""Fabric's module that wraps loaders, by the names under which it is installed."""


def is_called_by(modules: tuple[str, ...]) -> bool:
    """Whether the code that runs was called by one of ``modules``."""
    return any(True for _ in _frames_of(modules))


def asks_ahead(caller: FrameType) -> bool:
    """Whether ``caller`` is Lightning as it saves, which may have fetched a batch ahead of the step."""
    return caller.f_globals.get("__name__") in LIGHTNING


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


def _frames_of(modules: tuple[str, ...]) -> Iterator[FrameType]:
    """The frames on the stack that belong to ``modules``, the newest first."""
    frame = sys._getframe(1) if any(name in sys.modules for name in modules) else None
    while frame is not None:
        if frame.f_globals.get("__name__") in modules:
            yield frame
        frame = frame.f_back
