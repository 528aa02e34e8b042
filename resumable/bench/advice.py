"""Name the bottleneck in a sentence, and advise on a cure."""

# A pipeline that already follows a hint gets another hint, chosen by the stages before and after
# the bottleneck.

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ..core.function_state import CallsFunction
from ..core.graph import walk
from ..core.lookup import looks_up
from ..core.stage import Stage, runs_ahead
from ..formats.io.remote import RemoteFile
from ..formats.streams import RecordStream
from ..sources.arrays import FromArrays
from ..stages.batch import Batch
from ..stages.concatenate import Concatenate
from ..stages.enumerate import Enumerate
from ..stages.filter import Filter
from ..stages.flat_map import FlatMap
from ..stages.interleave import Interleave
from ..stages.interleave_map import InterleaveMap
from ..stages.map import Map
from ..stages.mix import Mix
from ..stages.part import Part
from ..stages.partition import Partition
from ..stages.prefetch import Prefetch
from ..stages.random_map import RandomMap
from ..stages.repeat import Repeat
from ..stages.scan import Scan
from ..stages.shard import Shard
from ..stages.shuffle import Shuffle
from ..stages.skip import Skip
from ..stages.take import Take
from ..stages.unbatch import Unbatch
from ..stages.window_shuffle import WindowShuffle
from ..stages.zip import Zip
from .partitioned import ONE_PROCESSOR, advise_workers, partition_of
from .report import brief

IDLE: Final = 0.25
"""A process that computes for less than this share of the time mostly waits."""

HALF: Final = 0.5
"""A process that computes for less than this share of the time is not held up by handing items from
thread to thread.
"""

SLOW_THREAD: Final = (
    "The loop waits for its thread, which mostly waits too: read larger pieces of the source at once, or several "
    "sources with interleave."
)

CALLED_BY: Final[Mapping[type[Stage[Any]], str]] = {Map: "map(fn", RandomMap: "random_map(fn, seed"}
"""Stages that take workers, and the beginning of the method call."""


class Hint(NamedTuple):
    """Advice, and a second hint for a pipeline that already follows the first."""

    text: str
    is_followed: Callable[[Stage[Any], list[Stage[Any]]], bool]
    otherwise: str


def advise(
    stage: Stage[Any], path: str, share: int, above: list[Stage[Any]], cpu_share: float | None
) -> str:
    """A sentence that names the bottleneck, and a suitable hint.

    Args:
      stage: the stage with the greatest share.
      path: where the stage is.
      share: the stage's share of the loop's time, in percent.
      above: the later stages, the nearest first.
      cpu_share: the part of the time in which the process computed, from 0 to 1; None if unknown.
    """
    named = named_bottleneck(stage, path, share)
    kind = type(stage)
    if (partition := _of_workers(stage, above)) is not None:
        hint = _partition_hint(stage, partition, cpu_share)
    elif runs_ahead(stage) and kind not in (Prefetch, Partition):
        hint = _workers_hint(stage, cpu_share)
    elif _waits_for_files(stage, cpu_share):
        hint = _files_hint(stage)
    elif kind is Prefetch and cpu_share is not None and cpu_share < HALF:
        hint = SLOW_THREAD
    elif kind in CALLED_BY:
        hint = _map_hint(stage, above, cpu_share)
    elif kind is Batch:
        hint = _batch_hint(stage)
    elif not stage.inputs:
        hint = _source_hint(above, cpu_share)
    elif kind in HINTS:
        text, is_followed, otherwise = HINTS[kind]
        hint = otherwise if is_followed(stage, above) else text
    else:
        hint = ""
    return f"{named} {hint}".rstrip()


def named_bottleneck(stage: Stage[Any], path: str, share: int) -> str:
    """The sentence that names the bottleneck."""
    return f"The bottleneck is {brief(str(stage))} at {path}: {share} % of the time."


def advise_on_loop(share: int, last: Stage[Any]) -> str:
    """The sentence and hint if the loop takes longer than any stage; ``last`` is the last stage."""
    found = f"The stages are not the bottleneck: {share} % of the time goes into handing out"
    if _gives_batches(last):
        return f"{found} batches one by one. Make them larger, so that there are fewer."
    return f"{found} items one by one. batch(n) hands out many at once."


def _gives_batches(stage: Stage[Any]) -> bool:
    """Whether the items are batches, judged by the nearest stage that makes or splits batches."""
    for found, _ in walk(stage):
        if isinstance(found, (Batch, Unbatch)):
            return isinstance(found, Batch)
    return False


def _gets_batches(stage: Stage[Any], above: list[Stage[Any]]) -> bool:
    return all(_gives_batches(upstream) for upstream in stage.inputs)


def _workers_are_used(stage: Stage[Any], above: list[Stage[Any]]) -> bool:
    others = [*_before(stage), *above]
    return any(type(found) in CALLED_BY and runs_ahead(found) for found in others)


def _pieces_are_unbatched(stage: Stage[Any], above: list[Stage[Any]]) -> bool:
    return any(isinstance(found, Unbatch) for found in above)


def _batches_are_mapped(stage: Stage[Any], above: list[Stage[Any]]) -> bool:
    return any(isinstance(found, Map) and _gives_batches(found) for found in _before(stage))


def _before(stage: Stage[Any]) -> list[Stage[Any]]:
    return [found for found, _ in walk(stage)][1:]


HANDS_ON: Final = Hint(
    "It only hands items on: where possible, batch them before it, so that there are fewer.",
    _gets_batches,
    "It only hands batches on: make them larger, so that there are fewer.",
)
ONE_BY_ONE: Final = Hint(
    "It works on one item at a time in Python: move what costs most into a map with workers.",
    _workers_are_used,
    "It works on one item at a time in Python: make its function faster.",
)
STEP_BY_STEP: Final = Hint(
    "Each step needs the one before: move whatever does not into a map with workers.",
    _workers_are_used,
    "Each step needs the one before: make its function faster.",
)
HINTS: Final[Mapping[type[Stage[Any]], Hint]] = {
    **dict.fromkeys(
        (Concatenate, Enumerate, Interleave, Mix, Part, Partition, Repeat, Shard, Skip, Take, Zip),
        HANDS_ON,
    ),
    Filter: ONE_BY_ONE,
    FlatMap: ONE_BY_ONE,
    InterleaveMap: Hint(
        "It makes one item at a time from what its function opens: let the function return larger "
        "pieces, and unbatch() them.",
        _pieces_are_unbatched,
        "It makes one piece at a time from what its function opens: make the pieces larger.",
    ),
    Scan: STEP_BY_STEP,
    Unbatch: Hint(
        "It takes batches apart into single Python objects: map whole batches where that is "
        "possible.",
        _batches_are_mapped,
        "It takes batches apart into single Python objects: leave it out if the stages after it "
        "can take batches.",
    ),
    Prefetch: Hint(
        "Handing an item from thread to thread costs more than making it: put prefetch after "
        "batch, so that fewer and larger items are handed over, or leave it out.",
        _gets_batches,
        "Handing a batch from thread to thread costs more than making it: leave prefetch out, or "
        "make larger batches.",
    ),
    Shuffle: Hint(
        "The order itself costs more than the items: shuffle whole batches.",
        _gets_batches,
        "The order itself costs more than the batches: make them larger, so that there are fewer.",
    ),
    WindowShuffle: Hint(
        "It moves single Python objects: if the source can be indexed, use shuffle(seed) without a "
        "window, which moves only indices.",
        _gets_batches,
        "It moves batches one by one: make them larger, so that there are fewer.",
    ),
}


def _of_workers(stage: Stage[Any], above: list[Stage[Any]]) -> Partition[Any] | None:
    """The partition whose workers could share the work of ``stage``; None if sharing is no help."""
    if isinstance(stage, Partition) and runs_ahead(stage) and stage.executor == "thread":
        return stage
    kind = type(stage)
    takes_workers = kind in CALLED_BY or HINTS.get(kind) in (ONE_BY_ONE, STEP_BY_STEP)
    return partition_of(above) if takes_workers or not stage.inputs else None


def _partition_hint(stage: Stage[Any], partition: Partition[Any], cpu_share: float | None) -> str:
    waits = cpu_share is not None and cpu_share < IDLE
    hint = advise_workers(partition, waits=waits, cpu_share=cpu_share)
    if type(stage) in CALLED_BY and runs_ahead(stage):
        return f"{hint} Leave out the workers of its own: each partition has a pool of them."
    return hint


def _workers_hint(stage: Stage[Any], cpu_share: float | None) -> str:
    least, most = ONE_PROCESSOR
    executor, workers = getattr(stage, "executor", None), getattr(stage, "workers", 0)
    if executor == "thread" and cpu_share is not None and least <= cpu_share <= most:
        return (
            "Its workers are threads, which compute in Python in turn; processes share the work: "
            f'{CALLED_BY.get(type(stage), "map(fn")}, workers=n, executor="process").'
        )
    if executor == "process" and workers >= (os.cpu_count() or 1):
        return "The loop waits for its workers, one for each processor: make its function faster."
    return "The loop waits for its workers: give it more of them, or a faster function."


def _map_hint(stage: Stage[Any], above: list[Stage[Any]], cpu_share: float | None) -> str:
    if isinstance(stage, CallsFunction) and stage.carries_state:
        return "Its function carries state, so it is called for one item at a time."
    waits = cpu_share is not None and cpu_share < IDLE
    call = CALLED_BY[type(stage)]
    how = f"{call}, workers=n)" if waits else f'{call}, workers=n, executor="process")'
    reason = (
        "Its function mostly waits, and threads can wait together"
        if waits
        else "Its function computes in one Python thread; processes share the work"
    )
    return f"{reason}: {how}{_after_look_ups(above)}."


def _batch_hint(stage: Stage[Any]) -> str:
    if getattr(stage, "collate", None) is not None:
        return "Its collate puts the batches together: give it a faster one."
    before = _before(stage)
    if not any(isinstance(found, FromArrays) for found in before):
        return (
            "It puts batches together from single Python objects: arrays from from_arrays move as "
            "whole columns; or give it a faster collate."
        )
    if any(isinstance(found, CallsFunction) for found in before):
        return (
            "A function before it takes the columns apart: map whole batches with it, after batch."
        )
    return "It copies whole columns already: only smaller rows cost less."


def _waits_for_files(stage: Stage[Any], cpu_share: float | None) -> bool:
    """Whether ``stage`` reads file after file, and mostly waits for a network or opened inputs."""
    if isinstance(stage, RecordStream):
        return len(stage.found) > 1 and any(isinstance(file, RemoteFile) for file in stage.found)
    waits = cpu_share is not None and cpu_share < IDLE
    opens_others = isinstance(stage, (FlatMap, InterleaveMap))
    return waits and opens_others and stage.inputs[0].random_access


def _files_hint(stage: Stage[Any]) -> str:
    start, fn = ("rs.files(paths).", "read") if isinstance(stage, RecordStream) else ("", "fn")
    return (
        "It waits for one file after another, and workers can wait for several together: "
        f"{start}partition(n, lambda part: part.flat_map({fn}), workers=n)."
    )


def _source_hint(above: list[Stage[Any]], cpu_share: float | None) -> str:
    if any(runs_ahead(later) and isinstance(later, Prefetch) for later in above):
        return (
            "Reading the source is slower than the loop, though it is read ahead: read larger "
            "pieces at once, or several sources with interleave."
        )
    place = _after_look_ups(above)
    ahead = f"prefetch(n){place}{',' * bool(place)}"
    if cpu_share is not None and cpu_share < IDLE:
        return f"The source makes the loop wait: {ahead} reads ahead while the loop works."
    return (
        f"Reading the source takes the most: {ahead} reads it while the loop works on the item "
        "before."
    )


def _after_look_ups(above: list[Stage[Any]]) -> str:
    """Where to put a stage that runs ahead: after the last stage with look-ups by index."""
    looking_up = [later for later in above if looks_up(later)]
    return f", after {type(looking_up[-1]).__name__}" if looking_up else ""
