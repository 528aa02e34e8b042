"""Inputs for the tests with Orbax, and what is passed in their place by mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from resumable_jax import InputCheckpointable
from support import graphs

import resumable as rs

__all__ = [
    "BATCHES",
    "MISTAKEN",
    "PIPELINES",
    "WRAPPED",
    "SavesAndLoads",
    "at",
    "kept",
    "rest",
]

BATCHES = rs.range(100).shuffle(1).batch(4)

PIPELINES: dict[str, rs.Pipeline[Any]] = {
    "batches": BATCHES,
    "a filter behind shard": rs.range(60).shard(1, 2).filter(lambda number: number % 3 > 0),
    "packed": rs.range(1, 40).map(graphs.document).pack(16, group=4),
    "mixed": rs.mix(rs.range(50), rs.range(100, 130), seed=1, stop="all").batch(2),
    "epochs": rs.range(10).shuffle(3).repeat(3).batch(4),
}

WRAPPED: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda it: it,
    "wrapped": InputCheckpointable,
}


class SavesAndLoads:
    """What has methods of these names, and no state of an input."""

    def save(self, path: object) -> None: ...

    def load(self, path: object) -> None: ...


MISTAKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "a pipeline": (lambda: BATCHES, "a pipeline has no position: iterator = iter"),
    "a Checkpointer": (
        lambda: rs.Checkpointer(rs.Memory(), rs.AtEnd()),
        "a Checkpointer saves to a store of its own: pass the loop that its resume",
    ),
    "an object that saves and loads": (SavesAndLoads, "SavesAndLoads object"),
    "a state": (lambda: iter(BATCHES).get_state(), "fingerprint"),
    "a plain iterator": (lambda: enumerate(BATCHES), "enumerate object"),
}


def at(pipeline: rs.Pipeline[Any], step: int) -> rs.PipelineIterator[Any]:
    """An iterator of ``pipeline`` after ``step`` items."""
    iterator = pipeline.start()
    for _ in range(step):
        next(iterator)
    return iterator


def rest(items: Any) -> list[str]:
    """Each item that is left, with all that it holds."""
    return [repr(item) for item in items]


@contextmanager
def kept(iterator: rs.PipelineIterator[Any]) -> Iterator[rs.PipelineIterator[Any]]:
    """See that what is done to ``iterator`` fails and leaves it where it is."""
    state = iterator.get_state()
    yield iterator
    assert iterator.get_state() == state
