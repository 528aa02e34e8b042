"""Check the arguments of a checkpointer, and open its store and its pass."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

from ..core.iterator import PipelineIterator
from ..errors import InvalidType, StateMismatch, shorten
from ..pipeline import Pipeline
from .directory import Directory
from .envelope import Checkpoint
from .remote import Remote
from .store import Store

T = TypeVar("T")
L = TypeVar("L")


def as_store(store: str | os.PathLike[str] | Store, name: str) -> Store:
    """The store for a path, a URL or a store."""
    if isinstance(store, Store):
        return store
    if not isinstance(store, (str, os.PathLike)):
        raise InvalidType(f"store must be a path, a URL or a Store, got {shorten(store)}")
    if isinstance(store, str) and "://" in store:
        return Remote(store, name)
    return Directory(store, name)


def check_pipeline(pipeline: Pipeline[T]) -> Pipeline[T]:
    """Return ``pipeline`` if it is one."""
    if not isinstance(pipeline, Pipeline):
        raise InvalidType(f"pipeline must be a pipeline, got {shorten(pipeline)}")
    return pipeline


def check_listeners(listeners: Iterable[L], kind: type[L]) -> tuple[L, ...]:
    """Return ``listeners`` as a tuple if all of them are of ``kind``."""
    if isinstance(listeners, kind) or not isinstance(listeners, Iterable):
        raise InvalidType(f"listeners must be a list of listeners, got {shorten(listeners)}")
    checked = tuple(listeners)
    for listener in checked:
        if not isinstance(listener, kind):
            raise InvalidType(f"listeners must be {kind.__name__} objects, got {shorten(listener)}")
    return checked


def started_at(
    checkpoint: Checkpoint | None, pipeline: Pipeline[T], store: Store
) -> PipelineIterator[T]:
    """A pass through ``pipeline`` at ``checkpoint`` of ``store``; its state can be saved exactly."""
    iterator = pipeline.start()
    try:
        if checkpoint is not None:
            iterator.set_state(checkpoint.state)
        iterator.get_state()  # what cannot be saved raises before the first item
    except BaseException as error:
        iterator.close()
        if checkpoint is not None and isinstance(error, StateMismatch):
            raise StateMismatch(
                f"the checkpoint of step {checkpoint.step} in {store!r} does not fit: {error}"
            ) from error
        raise
    return iterator
