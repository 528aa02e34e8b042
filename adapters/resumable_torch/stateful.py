"""What has the state of a rank, by torch's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import resumable as rs
from resumable.errors import shorten
from resumable.state.encoding import dumps_frozen

from .cursor import KEY, HasCursor, state_in

__all__ = ["Stateful", "as_stateful", "pipeline_of"]


class Stateful(Protocol):
    """A `ResumableDataLoader`, a `PipelineDataset` or a sampler."""

    def state_dict(self) -> dict[str, bytes]:
        """The state of the loop."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop."""


class IteratorState:
    """An iterator of a pipeline by torch's names.

    Args:
      iterator: of the pipeline.
    """

    def __init__(self, iterator: rs.PipelineIterator[Any]) -> None:
        self._iterator = iterator
        self.pipeline: rs.Pipeline[Any] = rs.Pipeline(iterator._stage)

    def state_dict(self) -> dict[str, bytes]:
        """The state after the items that were handed out."""
        return {KEY: dumps_frozen(self._iterator.get_state())}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict``."""
        self._iterator.set_state(state_in(state_dict))


def as_stateful(source: Any) -> Stateful:
    """``source``, or its state by torch's names if it is an iterator.

    Raises:
      InvalidType: if it has no state.
    """
    if isinstance(source, rs.PipelineIterator):
        return IteratorState(source)
    if not (hasattr(source, "state_dict") and hasattr(source, "load_state_dict")):
        raise rs.InvalidType(
            "loader must be a ResumableDataLoader, a PipelineDataset or an iterator of a pipeline, got "
            f"{shorten(source)}"
        )
    return source  # type: ignore[no-any-return]


def pipeline_of(source: Stateful) -> rs.Pipeline[Any] | None:
    """The pipeline whose state ``source`` has, if that is known."""
    if isinstance(source, IteratorState):
        return source.pipeline
    return source.cursor.pipeline if isinstance(source, HasCursor) else None
