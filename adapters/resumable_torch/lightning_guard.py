"""Refuse what Lightning does without the callback `ResumeInput`, where that would lose batches."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final

import resumable as rs
from resumable.core.savers import LIGHTNING

__all__ = ["refuse_save_ahead", "refuse_states_not_loaded"]

FIT_LOOPS: Final = "lightning.pytorch.loops.fit_loop", "pytorch_lightning.loops.fit_loop"
"""Lightning's module that begins the epochs, by the names under which it is installed."""


def refuse_states_not_loaded() -> None:
    """Refuse to begin an epoch while Lightning has states of loaders that it does not load.

    If `configure_optimizers` asks for ``trainer.estimated_stepping_batches``, Lightning sets up the loaders before it
    has read the checkpoint, and never loads their states.

    Raises:
      ExternalStateError: saying which callback loads them.
    """
    frame = sys._getframe(1) if any(name in sys.modules for name in FIT_LOOPS) else None
    while frame is not None:
        if frame.f_globals.get("__name__") in FIT_LOOPS:
            loop: Any = frame.f_locals.get("self")
            if getattr(loop, "restarting", False) and loop._combined_loader_states_to_load:
                raise rs.ExternalStateError(
                    "Lightning has not loaded the states of the loaders, since configure_optimizers asked for "
                    "estimated_stepping_batches before: the callback ResumeInput() loads them"
                )
            return
        frame = frame.f_back


def refuse_save_ahead(caller: FrameType) -> None:
    """Refuse to give Lightning the state of a loader without a length.

    Args:
      caller: the frame that looks up `state_dict`.

    Raises:
      ExternalStateError: saying which callback saves it.
    """
    if caller.f_globals.get("__name__") in LIGHTNING:
        raise rs.ExternalStateError(
            "Lightning fetches a batch ahead of the step from a loader without a length, so this state would be one "
            "batch too far: the callback ResumeInput() saves the right one"
        )
