"""Check the arguments of a checkpointer, and open its store and its iterator."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..core.arguments import check_below, check_bool, check_choice, check_type
from ..core.iterator import PipelineIterator
from ..core.resuming import with_rank
from ..core.run_counters import RunCounters
from ..core.stage import Stage
from ..errors import InvalidArgument, InvalidType, StateMismatch, UnencodableState, shorten
from ..pipeline import Pipeline
from ..state.value import State
from ..triggers.base import Trigger
from .directory import Directory
from .envelope import Checkpoint
from .ranks.part import WHOLE, RankPart
from .remote import Remote
from .retention import Retention
from .saver import SavePoint
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
    """Return ``pipeline`` if it is a pipeline."""
    checked: Pipeline[T] = check_type("pipeline", pipeline, Pipeline, "a pipeline")
    return checked


def check_listeners(listeners: Iterable[L], kind: type[L]) -> tuple[L, ...]:
    """Return ``listeners`` as a tuple if all are of ``kind``."""
    if isinstance(listeners, kind) or not isinstance(listeners, Iterable):
        raise InvalidType(f"listeners must be a list of listeners, got {shorten(listeners)}")
    checked = tuple(listeners)
    for listener in checked:
        check_type("listeners", listener, kind, f"{kind.__name__} objects")
    return checked


def check_policy(
    trigger: Any, retention: Any, asynchronous: Any, when_busy: Any, stop_on_signal: Any
) -> bool:
    """Check when a checkpointer saves and stops; returns whether saves are skipped when busy."""
    check_type("trigger", trigger, Trigger, "a trigger such as EverySteps(100)")
    if retention is not None:
        check_type("retention", retention, Retention, "a Retention such as Retention(5)")
    check_bool("asynchronous", asynchronous)
    skips = check_choice("when_busy", when_busy, ("wait", "skip")) == "skip"
    if skips and not asynchronous:
        raise InvalidArgument("when_busy='skip' needs asynchronous=True")
    if check_bool("stop_on_signal", stop_on_signal) and not trigger.signals:
        raise InvalidArgument(
            f"stop_on_signal=True needs a trigger with OnSignal(...), got {trigger!r}"
        )
    return skips


def check_rank(rank: Any, ranks: Any, trigger: Trigger, skips: bool) -> tuple[int, int]:
    """Return ``rank`` and ``ranks`` if all ranks will save at the same steps."""
    rank, ranks = check_below("rank", rank, "ranks", ranks)
    if ranks > 1 and trigger.reads_clock:
        raise InvalidArgument(
            f"trigger must be due at the same steps on all {ranks} ranks, whose clocks differ: use "
            f"EverySteps instead of EverySeconds, got {trigger!r}"
        )
    if ranks > 1 and skips:
        raise InvalidArgument(
            f"when_busy='skip' needs ranks=1, got {ranks}: each rank would skip other steps"
        )
    return rank, ranks


def start_at(
    checkpoint: Checkpoint | None,
    pipeline: Pipeline[T],
    store: Store,
    *,
    from_this_rank: bool = False,
) -> PipelineIterator[T]:
    """The iterator of ``pipeline`` at ``checkpoint`` of ``store``; its state can be saved exactly.

    Args:
      checkpoint: to begin at; None for the start.
      pipeline: of this rank.
      store: of the checkpoint.
      from_this_rank: whether this rank is known to have saved the state, even if the state does not
        name the rank.
    """
    if checkpoint is None:
        return start_with(None, pipeline)
    state = state_for(pipeline.stage, checkpoint, from_this_rank=from_this_rank)
    return start_with(state, pipeline, f"the checkpoint of step {checkpoint.step} in {store!r}")


def start_with(state: State | None, pipeline: Pipeline[T], what: str = "") -> PipelineIterator[T]:
    """The iterator of ``pipeline`` at ``state``, which errors call ``what``, or at the start."""
    iterator = pipeline.start()
    try:
        if state is not None:
            iterator.set_state(state)
        iterator.get_state()  # an unsaveable state raises before the first item
    except BaseException as error:
        iterator.close()
        if state is not None and isinstance(error, StateMismatch):
            say_what_does_not_fit(what, error)
        raise
    return iterator


def state_for(stage: Stage[Any], checkpoint: Checkpoint, *, from_this_rank: bool) -> State:
    """The state of ``checkpoint``, with the rank of ``stage`` if ``from_this_rank``."""
    state = checkpoint.state
    if from_this_rank and "fingerprint" in state:
        return {**state, "fingerprint": with_rank(state["fingerprint"], stage)}
    return state


def say_what_does_not_fit(what: str, error: StateMismatch) -> None:
    """Begin the message of ``error`` with ``what`` does not fit."""
    error.reword(f"{what} does not fit: {error}")


def save_point_of(
    checkpoint: Checkpoint | None, clock: Callable[[], float], wall_clock: Callable[[], float]
) -> SavePoint:
    """The save point of ``checkpoint`` for later saves; None for the start."""
    if checkpoint is None:
        return SavePoint(None, clock())
    # Otherwise a run always interrupted before a due save would never save.
    age = max(0.0, wall_clock() - checkpoint.time)
    return SavePoint(checkpoint.step, clock() - age)


def take_checkpoint(
    get_state: Callable[[], State],
    wall_clock: Callable[[], float],
    part: RankPart,
    get_counters: Callable[[], RunCounters | None] | None,
    step: int,
) -> Checkpoint:
    """A checkpoint of the state returned by ``get_state`` now, at ``step``.

    Args:
      get_state: returns the state.
      wall_clock: seconds since the epoch.
      part: of the step.
      get_counters: returns the counters of the checkpoint; None for a checkpoint without counters.
      step: of the loop.

    Raises:
      UnencodableState: if the state cannot be joined with the states of other ranks.
    """
    state = get_state()
    if part != WHOLE:
        check_for_others(state, step, part)
    counters = None if get_counters is None else get_counters()
    return Checkpoint(step, float(wall_clock()), state, part, counters)


def check_for_others(state: State, step: int, part: RankPart) -> None:
    """Refuse a ``state`` at ``step`` that only the rank of ``part`` can use.

    Raises:
      UnencodableState: if the state was taken right after an error.
    """
    if state["ahead"]:
        raise UnencodableState(
            f"step {step} cannot be saved by {part} right after an error, as its state cannot be joined "
            "with those of the others; go on for one item, or leave the loop by an exception"
        )
