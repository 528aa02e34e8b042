"""Report the item of an input that failed, the stage, and the reason."""

# TensorFlow shows an exception of the input below a description of the graph. So the reason is
# logged when raised, and can be asked for later.

from __future__ import annotations

import traceback
from types import CodeType
from typing import Any, Final

import tensorflow as tf

import resumable as rs
from resumable.core.failed_item import called_code
from resumable.core.graph import walk
from resumable.core.iterator import PipelineIterator
from resumable.core.stage import Stage
from resumable.core.stage_iterator import StageIterator

__all__ = ["Failures"]

# TensorFlow chooses an own error type by the type of the Python exception.
KINDS: Final = (MemoryError, NotImplementedError, ValueError, TypeError)


class Failures:
    """The exceptions of one input.

    Args:
      pipeline: of the input.

    Attributes:
      last: the reason of the last exception; None before any.
    """

    def __init__(self, pipeline: rs.Pipeline[Any]) -> None:
        self._stage = pipeline.stage
        self._logged: set[int] = set()
        self.last: str | None = None

    def noted(self, error: Exception, number: int) -> Exception:
        """The exception to raise for ``error`` at item ``number``; the reason is logged.

        A repeated failure of the same item is not logged again.
        """
        place = stage_of(error, self._stage)
        self.last = (
            f"item {number} of the input failed{f' in {place}' if place else ''}: "
            f"{type(error).__name__}: {error}"
        )
        if number not in self._logged:
            self._logged.add(number)
            tf.get_logger().error(self.last)
        kind = next((kind for kind in KINDS if isinstance(error, kind)), RuntimeError)
        return kind(self.last)


def stage_of(error: BaseException, stage: Stage[Any]) -> str | None:
    """The innermost stage below ``stage`` that ``error`` came through, with the stage's path."""
    codes: dict[CodeType, str] = {}
    stages: dict[int, str] = {}
    for each, path in walk(stage):
        stages[id(each)] = f"{type(each).__name__} at {path}"
        if (code := called_code(each)) is not None:
            codes.setdefault(code, stages[id(each)])
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code in codes:
            return codes[frame.f_code]
        owner = frame.f_locals.get("self")
        if isinstance(owner, StageIterator) and not isinstance(owner, PipelineIterator):
            found = stages.get(id(owner._stage), found)
    return found
