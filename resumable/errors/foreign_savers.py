"""Savers of other libraries that would save states wrongly, recognised by their modules."""

from __future__ import annotations

from types import FrameType
from typing import Final, NamedTuple


class ForeignSaver(NamedTuple):
    """A saver that would save some states wrongly.

    Attributes:
      name: of the library.
      for_partitions: advice where each rank owns partitions, if the saver keeps the state of rank 0
        alone.
      for_streams: advice for loaders without length, if the saver fetches a batch ahead of the
        training step.
    """

    name: str
    for_partitions: str = ""
    for_streams: str = ""


ACCELERATE: Final = ForeignSaver(
    "Accelerate",
    for_partitions="register_for_checkpointing(JoinedState(loader)) keeps those of all",
)
LIGHTNING: Final = ForeignSaver(
    "Lightning",
    for_streams="pass ResumableDataLoader(PipelineDataset(pipeline), None), with the callback ResumeInput()",
)
MODULES: Final = {
    "accelerate.accelerator": ACCELERATE,  # looks up the method when an object is registered
    "accelerate.checkpointing": ACCELERATE,
    "lightning.pytorch.utilities.combined_loader": LIGHTNING,
    "pytorch_lightning.utilities.combined_loader": LIGHTNING,
}
"""Modules that ask for a state."""


def saver_that_asks(caller: FrameType) -> ForeignSaver | None:
    """The saver whose code ``caller`` runs; None for other code."""
    return MODULES.get(caller.f_globals.get("__name__", ""))
