"""All laws at once, for a pipeline or for a stage."""

from __future__ import annotations

import dataclasses
import gc
import pickle
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np

from ..core.arguments import check_bool, check_int
from ..core.graph import walk, why_first_epoch_only
from ..core.stage import Stage
from ..core.transform import Transform
from ..errors import InvalidArgument, InvalidType, StateMismatch, shorten
from ..pipeline import Pipeline, from_arrays, from_iterable, from_sequence
from ..pipeline import range as numbers
from ..stages.map_batches import MapBatches
from ..state.encoding import dumps
from . import laws
from .comparing import assert_same
from .flows import items_flow_as_declared
from .fresh_process import resume_in_a_fresh_process
from .laws import ENOUGH, first_items, require

BEYOND: Final = 100
"""Items compared after the last of the given positions."""
COLUMNS: Final = {"x": np.arange(80.0).reshape(40, 2), "y": np.arange(40)}
PATIENCE: Final = 5.0
"""Seconds within which threads must have ended after a `close`."""


def check_resumes_everywhere(
    pipeline: Pipeline[Any],
    *,
    positions: Iterable[int] | None = None,
    generations: int = 3,
    fresh_process: bool = False,
) -> None:
    """Check that ``pipeline`` resumes exactly, through serialised bytes.

    Args:
      pipeline: the pipeline that you train on; read several times from the start.
      positions: numbers of items to stop after. By default every number up to 400; then at most 400
        items are read.
      generations: how many times a resumed run is stopped and resumed again.
      fresh_process: whether to resume in another process too, with another hash seed. The pipeline
        must then be picklable.

    Raises:
      AssertionError: if a resume is not exact; names the position, the first item that differs,
        expected and got, and the state.
    """
    if not isinstance(pipeline, Pipeline):
        raise InvalidType(f"pipeline must be a pipeline, got {shorten(pipeline)}")
    check_int("generations", generations, minimum=0)
    check_bool("fresh_process", fresh_process)
    chosen = None
    limit = ENOUGH
    if positions is not None:
        chosen = sorted({check_int("each of positions", p, minimum=0) for p in positions})
        limit = max(chosen, default=0) + BEYOND
    laws.runs_alike(pipeline, limit)
    length = len(first_items(pipeline, limit))
    if chosen and chosen[-1] > length:
        raise InvalidArgument(f"positions must be within the {length} items, got {chosen[-1]}")
    _own(laws.resumes_at_every_position, pipeline, limit, chosen)
    cut = length // (generations + 1)
    for cuts in ([cut] * generations, [1] * generations):
        laws.resumes_for_generations(pipeline, cuts, limit)
    laws.stays_ended(pipeline, limit)
    if fresh_process:
        laws.resumes_at_every_position(
            pipeline, limit, chosen, resume_in_a_fresh_process, " in a fresh process"
        )


def check_stage(stage: Stage[Any] | Pipeline[Any]) -> None:
    """Check that the last stage of a pipeline obeys every law, for the author of a stage.

    The stage is tried over its own upstream. A stage with an upstream is also tried over numbers, a
    stream, items that are None, a single item and no item, as far as the stage's functions accept
    these.

    Args:
      stage: a pipeline of some 20 to 400 items, such as ``rs.range(50).apply(Windows, 3)``.

    Raises:
      AssertionError: if the stage breaks a law; names the stage, the upstream, the law, and the
        first difference.
    """
    if not isinstance(stage, (Stage, Pipeline)):
        raise InvalidType(f"stage must be a stage or a pipeline, got {shorten(stage)}")
    checked: Stage[Any] = stage.stage if isinstance(stage, Pipeline) else stage
    name = type(checked).__name__
    for field in checked.identity:
        if not hasattr(checked, field):
            raise AssertionError(f"identity of {name} names {field!r}, which it does not have")
    for over, variant in _variants(checked):
        pipeline = Pipeline(variant)
        try:
            first_items(pipeline)
        except Exception as error:
            if over:  # the functions do not take these items
                continue
            raise AssertionError(f"{name} cannot be iterated: {error!r}") from error
        for law, check in _LAWS.items():
            try:
                _own(check, pipeline)
            except AssertionError as error:
                raise AssertionError(f"{name}{over} breaks the law that {law}: {error}") from error


def _takes_columns(pipeline: Pipeline[Any]) -> None:
    """Over columns, the stage delivers the same as over a list of the same items."""
    stage = pipeline.stage
    if not isinstance(stage, Transform) or isinstance(stage, MapBatches):
        return  # the function of `map_batches` takes unchanged columns
    columns = from_arrays(COLUMNS)
    try:
        singly = dataclasses.replace(stage, upstream=from_sequence([*columns]).stage)
        expected = first_items(Pipeline(singly))
    except Exception:  # the functions do not take these items
        return
    try:
        got = first_items(Pipeline(dataclasses.replace(stage, upstream=columns.stage)))
        assert_same(got, expected, "over columns, against the same items in a list")
    except Exception as error:
        raise AssertionError(
            f"{error}; turn what pull returns into a list by resumable.core.block_items"
        ) from error


def _variants(stage: Stage[Any]) -> Iterable[tuple[str, Stage[Any]]]:
    yield "", stage
    if not isinstance(stage, Transform):
        return
    upstreams: dict[str, Pipeline[Any]] = {
        "numbers": numbers(40),
        "a stream": from_iterable(_stream),
        "items of None": from_sequence([None, 1, None, None, 2, 0] * 6),
        "one item": numbers(1),
        "no items": numbers(0),
    }
    for over, upstream in upstreams.items():
        # A stage with a need, such as random access, refuses some upstreams.
        with suppress(InvalidArgument, InvalidType):
            yield f" over {over}", dataclasses.replace(stage, upstream=upstream.stage)


def _stream() -> Iterable[int]:
    return iter([*_FORTY])


_FORTY: Final = (*map(int, "31415926535897932384626433832795028841971"[:40]),)


def _own(law: Callable[..., None], pipeline: Pipeline[Any], *arguments: Any) -> None:
    """Try a law. The refusal of the pipeline's own state breaks the law."""
    try:
        law(pipeline, *arguments)
    except StateMismatch as error:
        raise AssertionError(f"it refuses a state that it gave: {error}") from error


def _resumes_over_epochs(pipeline: Pipeline[Any]) -> None:
    length = len(first_items(pipeline))
    if length < ENOUGH and not why_first_epoch_only(pipeline.stage):
        around = [*range(0, 2 * length, 7), length - 1, length, length + 1]
        positions = [position for position in around if position >= 0]
        laws.resumes_at_every_position(pipeline.repeat(3), 2 * length + 10, positions)


def _states_share_nothing(pipeline: Pipeline[Any]) -> None:
    """Check the states that the iterator of the stage returns, before any copy."""
    iterator = pipeline.stage.start(0)
    try:
        for _ in range(20):
            state = iterator.get_state()
            before = dumps(state)
            again = iterator.get_state()
            require(dumps(again) == before, "a second get_state gives another state")
            more = next(iterator, iterator)
            require(
                dumps(state) == before,
                f"a state that was taken changed as the iterator went on: {shorten(state, 300)}; "
                "get_state must copy what changes",
            )
            if more is iterator:
                return
    finally:
        iterator.close()


def _states_have_one_shape(pipeline: Pipeline[Any]) -> None:
    with iter(pipeline) as iterator:
        first = _shape(iterator.get_state())
        for position in range(1, 50):
            if next(iterator, iterator) is iterator:
                return
            shape = _shape(iterator.get_state())
            require(
                _fits(first, shape),
                f"the state has the keys {shape} after {position} items, and {first} at the start",
            )


def _shape(state: Any) -> Any:
    """The keys of a nested state; None for anything but a dict."""
    if not isinstance(state, dict):
        return None
    return {key: _shape(value) for key, value in state.items()}


def _fits(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return True
    return left.keys() == right.keys() and all(_fits(left[key], right[key]) for key in left)


def _pulls_agree(pipeline: Pipeline[Any]) -> None:
    laws.pull_agrees_with_next(pipeline, [1, 2, 0, 5, 1, 30, 300])
    laws.next_and_pull_may_be_mixed(pipeline, [1, 2, 0, 3])
    laws.blocks_agree_with_pull(pipeline, [1, 4, 2, 100])
    laws.marks_keep_their_moment(pipeline, 40)


def _closes(pipeline: Pipeline[Any]) -> None:
    before = set(threading.enumerate())
    for count in (0, 3, ENOUGH):
        iterator = pipeline.stage.start(0)
        list(islice(iterator, count))
        iterator.close()
        iterator.close()
    del iterator
    gc.collect()
    deadline = time.monotonic() + PATIENCE
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    require(not left, f"after close() these threads still run: {sorted(map(str, left))}")


def _can_be_pickled(pipeline: Pipeline[Any]) -> None:
    try:
        # With an earlier protocol, NumPy turns foreign byte orders into the machine's own.
        again: Pipeline[Any] = pickle.loads(pickle.dumps(pipeline, pickle.HIGHEST_PROTOCOL))
    except Exception as error:
        if all(map(_pickles, _values(pipeline))):
            raise AssertionError(f"its description cannot be pickled: {error!r}") from error
        return  # the fault lies in the user's function
    require(again.fingerprint == pipeline.fingerprint, "unpickled it has another fingerprint")
    assert_same(first_items(again, 20), first_items(pipeline, 20), "unpickled")


def _values(pipeline: Pipeline[Any]) -> list[Any]:
    """The arguments of the stages, except upstream stages."""
    return [
        getattr(stage, field.name)
        for stage, _ in walk(pipeline.stage)
        for field in dataclasses.fields(stage)
        if field.name not in ("upstream", "upstreams")
    ]


def _pickles(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def _with_each(law: Callable[..., None], *choices: Any) -> Callable[[Pipeline[Any]], None]:
    """A law for a pipeline alone: ``law`` holds with each of ``choices``."""

    def holds(pipeline: Pipeline[Any]) -> None:
        for chosen in choices:
            law(pipeline, chosen)

    return holds


_LAWS: Final[dict[str, Callable[[Pipeline[Any]], None]]] = {
    # The outermost iterator takes states at any time, so an effect of `get_state` would break other
    # laws.
    "get_state copies, and has no effect": _states_share_nothing,
    "two runs deliver the same items": laws.runs_alike,
    "it resumes at every position": laws.resumes_at_every_position,
    "nothing comes after the end": laws.stays_ended,
    "a state is a value": _with_each(laws.state_is_a_value, 0, 1, 7),
    "a state has the same keys at every position": _states_have_one_shape,
    "it resumes again and again": _with_each(
        laws.resumes_for_generations, [0, 0, 0], [1, 2, 3], [5, 5, 5], [0, 17, 1]
    ),
    "it resumes in every epoch": _resumes_over_epochs,
    "set_state works on a used iterator": laws.set_state_works_on_a_used_iterator,
    "a refused state leaves no trace": _with_each(laws.refused_states_leave_no_trace, 0, 3),
    "pull agrees with next": _pulls_agree,
    "skip agrees with next": _with_each(laws.skip_agrees_with_next, [0, 1, 3, 0, 10], [25, 400]),
    "a block may be columns": _takes_columns,
    "threads and resumes change no block": partial(laws.blocks_depend_on_items_alone, limit=12),
    "its items flow as it says": items_flow_as_declared,
    "gather agrees with iteration": laws.gather_agrees_with_iteration,
    "close ends what it started": _closes,
    "its description can be pickled": _can_be_pickled,
}
