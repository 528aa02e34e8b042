"""States of other libraries, and their savers that would save states wrongly, to name in errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final, NamedTuple

# The owners of states, and some keys of the states. Entries with more keys come first. No state of
# the library's stages may fit an entry.
KNOWN: Final = [
    ("torchdata's StatefulDataLoader", "_snapshot _steps_since_snapshot"),
    ("torchdata's StatefulDataLoader", "_sampler_iter_state _num_yielded"),
    ("torchdata.nodes", "root num_yielded"),
    ("Hugging Face's IterableDataset", "examples_iterable epoch"),
    ("MosaicML Streaming", "sample_in_epoch num_canonical_nodes"),
    ("LitData's StreamingDataLoader", "dataset current_epoch latest_worker_idx"),
    ("Grain's DataLoader", "last_seen_indices last_worker_index"),
    ("Grain's dataset iterators", "next_index"),
]
LONGEST: Final = 1 << 16  # bytes that are searched


def looks_like(state: Any) -> str:
    """The library from which ``state`` seems to come, as the end of a message; empty if unknown.

    Args:
      state: a dict, or JSON in bytes as returned by Grain's loader.
    """
    if isinstance(state, Mapping):
        found = {key for key in state if isinstance(key, str)}
    elif isinstance(state, (bytes, bytearray, memoryview)) and bytes(state[:1]) == b"{":
        found = set(re.findall(r'"(\w+)"', bytes(state[:LONGEST]).decode("latin-1")))
    else:
        return ""
    owners = [owner for owner, keys in KNOWN if found.issuperset(keys.split())]
    return f"; it looks like one of {owners[0]}, which nothing else can load" if owners else ""


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
