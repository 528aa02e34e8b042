"""More ways to run a pipeline, without changing any item."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ..core.function_state import calling_with_state
from ..core.graph import rebuilt, tuned, variations, walk
from ..core.stage import Stage
from ..errors import InvalidArgument, InvalidType
from ..pipeline import Pipeline


def tunings(pipeline: Pipeline[Any]) -> Iterator[tuple[str, Pipeline[Any]]]:
    """``pipeline`` with other workers and buffers, and with a thread after each stage in turn.

    A state of ``pipeline`` fits every variant. A thread is left out where not allowed. A pipeline
    that calls a stateful function has no variants: the function belongs to one pipeline at a time.
    """
    stage = pipeline.stage
    if next(calling_with_state(stage), None) is not None:
        return
    for label, tuning in variations(stage):
        if tuning:
            yield label, Pipeline(tuned(stage, tuning))
    for number, (found, _) in enumerate(walk(stage)):
        with suppress(InvalidArgument, InvalidType):
            yield f"with prefetch(2) after {type(found).__name__}", _with_thread(stage, number)


def _with_thread(stage: Stage[Any], after: int) -> Pipeline[Any]:
    return Pipeline(
        rebuilt(
            stage,
            lambda number, found: Pipeline(found).prefetch(2).stage if number == after else found,
        )
    )
