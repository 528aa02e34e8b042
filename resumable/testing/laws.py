"""The laws every pipeline obeys, as functions that raise AssertionError."""

# Each law takes a pipeline and tries one promise. No law relies on another, so the failing law
# names the fault. `check_stage` adds the laws for a single stage.

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.block import block_items, block_length, is_columns
from ..core.iterator import PipelineIterator
from ..core.stage_iterator import StageIterator, state_deferrer
from ..errors import MalformedItem, StateMismatch, UnencodableState, shorten
from ..pipeline import Pipeline
from ..state.encoding import dumps, loads
from ..state.partitions import EPOCH_REACHED
from ..state.value import State
from .comparing import assert_same, same
from .tunings import tunings

ENOUGH: Final = 400
"""Number of items that a law reads of a pipeline, by default."""


def require(condition: bool, message: str) -> None:
    """Raise an AssertionError, even under ``python -O``, where `assert` does nothing."""
    if not condition:
        raise AssertionError(message)


def first_items(pipeline: Pipeline[Any], limit: int | None = ENOUGH) -> list[Any]:
    """The uninterrupted run, up to ``limit`` items."""
    with iter(pipeline) as iterator:
        return list(itertools.islice(iterator, limit))


def through_bytes(iterator: StageIterator[Any]) -> bytes:
    """The state, serialised."""
    try:
        return dumps(iterator.get_state())
    except UnencodableState as error:
        raise AssertionError(f"the state cannot be saved: {error}") from error


def runs_alike(pipeline: Pipeline[Any], limit: int = ENOUGH) -> None:
    """Two uninterrupted runs deliver the same items."""
    first = first_items(pipeline, limit)
    assert_same(
        first_items(pipeline, limit),
        first,
        "a second uninterrupted run (is there unseeded randomness, time, or the order of a set?)",
    )


def states_along(
    pipeline: Pipeline[Any], length: int, positions: Sequence[int] | None = None
) -> dict[int, bytes]:
    """The state at each of ``positions`` in a run of ``length`` items, by default at every position."""
    chosen = None if positions is None else set(positions)
    states = {}
    with iter(pipeline) as reference:
        for position in range(length + 1):
            if position:
                next(reference)
            if chosen is None or position in chosen:
                states[position] = through_bytes(reference)
    return states


class ResumedItems(NamedTuple):
    """A resumed run: step and state at the beginning, and the items."""

    step: int
    state: bytes
    items: list[Any]


def resumed_items(
    pipeline: Pipeline[Any], states: Sequence[bytes], counts: Sequence[int]
) -> Iterator[ResumedItems]:
    """The run after each of ``states``, over ``counts`` items."""
    for state, count in zip(states, counts, strict=True):
        with pipeline.resume(loads(state)) as resumed:
            step, again = resumed.step, through_bytes(resumed)
            items = list(itertools.islice(resumed, count))
        yield ResumedItems(step, again, items)


def resumes_at_every_position(
    pipeline: Pipeline[Any],
    limit: int = ENOUGH,
    positions: Sequence[int] | None = None,
    run: Callable[..., Iterable[ResumedItems]] = resumed_items,
    where: str = "",
) -> None:
    """The items before a save and after the resume are those of an uninterrupted run.

    Tried at every position, through serialised bytes, with a new iterator each time.

    Args:
      pipeline: any pipeline.
      limit: how many items to read.
      positions: where to resume, up to ``limit``; at every position by default.
      run: called as ``resumed_items`` is, to resume elsewhere.
      where: the place of the resume, for messages.
    """
    expected = first_items(pipeline, limit)
    states = states_along(pipeline, len(expected), positions)
    runs = run(pipeline, [*states.values()], [limit - position for position in states])
    for (position, state), (step, again, rest) in zip(states.items(), runs, strict=True):
        if (step, again) == (position, state) and same(rest, expected[position:]):
            continue  # to name the difference takes longer than this check
        shown = f"resumed at {position}{where} from {shorten(loads(state), 300)}"
        require(step == position, f"{shown}: it says step {step}")
        require(again == state, f"{shown}: the state is now {shorten(loads(again), 300)}")
        assert_same(rest, expected[position:], shown, position)


def resumes_for_generations(
    pipeline: Pipeline[Any], cuts: Sequence[int], limit: int | None = ENOUGH
) -> None:
    """As `resumes_at_every_position`, for a run resumed after each of ``cuts`` items in turn."""
    expected = first_items(pipeline, limit)
    most = len(expected) + 1 if limit is None else limit
    with iter(pipeline) as start:
        state = through_bytes(start)
    got: list[Any] = []
    for cut in (*cuts, most):
        with pipeline.resume(loads(state)) as iterator:
            got += list(itertools.islice(iterator, min(cut, most - len(got))))
            state = through_bytes(iterator)
    assert_same(got, expected, f"resumed {len(cuts)} times, after {list(cuts)} items")


def stays_ended(pipeline: Pipeline[Any], limit: int = ENOUGH) -> None:
    """Nothing comes after the end, also after a resume from the state at the end, even twice."""
    with iter(pipeline) as iterator:
        for _ in range(limit):
            if next(iterator, iterator) is iterator:
                break
        else:
            return  # endless, or long
        state = through_bytes(iterator)
        for _ in range(3):
            more = next(iterator, iterator)
            require(
                more is iterator,
                f"after the end comes {shorten(more)} (is None, or an empty block, taken for it?)",
            )
    for _ in range(2):
        with pipeline.resume(loads(state)) as resumed:
            rest = list(itertools.islice(resumed, limit))
            require(not rest, f"resumed after the end, it delivers {shorten(rest)}")
            state = through_bytes(resumed)


def state_is_a_value(pipeline: Pipeline[Any], position: int) -> None:
    """Taking a state has no effect, and a state never changes once taken."""
    expected = first_items(pipeline, position + 5)
    with iter(pipeline) as iterator:
        got = list(itertools.islice(iterator, position))
        state = iterator.get_state()
        before = dumps(state)
        require(through_bytes(iterator) == before, "a second get_state gives another state")
        got += list(itertools.islice(iterator, 5))
        assert_same(got, expected, f"with get_state called after {position} items")
        require(dumps(state) == before, "a state that was taken changed as the iterator went on")
        wreck(iterator.get_state())
        after = through_bytes(iterator)
        wreck(state)
        require(through_bytes(iterator) == after, "changing a state changed the iterator")
        copied = loads(before)
        iterator.set_state(copied)
        require(through_bytes(iterator) == before, "set_state restored another state")
        wreck(copied)
        require(through_bytes(iterator) == before, "set_state kept a reference to the state")


def set_state_works_on_a_used_iterator(pipeline: Pipeline[Any], limit: int = ENOUGH) -> None:
    """A used or exhausted iterator continues at a state like a new iterator."""
    expected = first_items(pipeline, limit)
    middle = len(expected) // 2
    with iter(pipeline) as iterator:
        at_start = iterator.get_state()
        list(itertools.islice(iterator, middle))
        at_middle = iterator.get_state()
        list(itertools.islice(iterator, limit))
        for state, position in ((at_middle, middle), (at_start, 0), (at_middle, middle)):
            iterator.set_state(state)
            rest = list(itertools.islice(iterator, limit - position))
            assert_same(rest, expected[position:], f"a used iterator set to {position}", position)


def refused_states_leave_no_trace(
    pipeline: Pipeline[Any], position: int, theirs: Collection[str] | None = None
) -> None:
    """A spoilt state is refused by StateMismatch without any effect, or restored unchanged.

    Args:
      pipeline: any pipeline.
      position: where the iterator is when given spoilt states.
      theirs: names of the parts of a state that belong to foreign objects in the pipeline. Any
        other spoilt part must be refused. By default a stage may accept any value that the stage
        keeps.
    """
    expected = first_items(pipeline, position + 6)
    with iter(pipeline) as iterator:
        list(itertools.islice(iterator, position))
        before = through_bytes(iterator)
        for spoilt, surely in _spoilt(loads(before), theirs):
            shown = f"the state {shorten(spoilt, 300)}"
            try:
                iterator.set_state(spoilt)
            except StateMismatch:
                require(through_bytes(iterator) == before, f"{shown} was refused, and left a trace")
                continue
            except Exception as error:
                raise AssertionError(
                    f"{shown} must be refused by StateMismatch, got {error!r}"
                ) from error
            require(not surely, f"{shown} was accepted")
            restored = loads(through_bytes(iterator))
            require(same(restored, spoilt), f"{shown} was accepted, and is not what was restored")
            iterator.set_state(loads(before))
        rest = list(itertools.islice(iterator, 6))
        assert_same(rest, expected[position:], "after refused states", position)


def pull_agrees_with_next(pipeline: Pipeline[Any], counts: Sequence[int]) -> None:
    """`pull` delivers the same items as calls of `next`, and leaves the same state."""
    with iter(pipeline) as by_item, iter(pipeline) as by_block:
        for count in counts:
            singly = list(itertools.islice(by_item, count))
            block = by_block.pull(count)
            assert_same(block_items(block), singly, f"pull({count}) against next")
            if len(singly) < count:
                return  # past the end, positions within the graph may differ
            require(
                _go_on_alike(pipeline, by_item, by_block),
                f"pull({count}) leaves another state than {count} times next",
            )


def blocks_agree_with_pull(pipeline: Pipeline[Any], sizes: Sequence[int]) -> None:
    """`blocks` delivers the same items as calls of `pull`, and leaves the same state after each block.

    Some blocks are drawn for each of ``sizes``, from successive generators.
    """
    with closing(pipeline.stage.start(0)) as moving, closing(pipeline.stage.start(0)) as pulled:
        for size in sizes:
            for block in itertools.islice(moving.blocks(size), 3):
                expected = pulled.pull(size)
                what = f"blocks({size}) against pull({size})"
                require(is_columns(block) == is_columns(expected), f"{what}: another kind of block")
                assert_same(block_items(block), block_items(expected), what)
                if block_length(expected) < size:
                    return  # past the end, positions within the graph may differ
                require(
                    through_bytes(moving) == through_bytes(pulled),
                    f"blocks({size}) leaves another state than pull({size})",
                )


def marks_keep_their_moment(pipeline: Pipeline[Any], limit: int = ENOUGH) -> None:
    """A deferred state belongs to the moment of the mark, even if the iterator moves on first."""
    with closing(pipeline.stage.start(0)) as moving:
        note_state = state_deferrer(moving)
        states, marks = [through_bytes(moving)], [note_state()]
        for _ in itertools.islice(moving.items(), limit):
            states.append(through_bytes(moving))
            marks.append(note_state())
        for number, (state, mark) in enumerate(zip(states, marks, strict=True)):
            require(dumps(mark()) == state, f"the mark after {number} items is another state")


def skip_agrees_with_next(pipeline: Pipeline[Any], counts: Sequence[int]) -> None:
    """`skip` leaves the same state as calls of `next`, and the same items follow.

    `state_after` returns this state in advance.
    """
    expected = first_items(pipeline)
    with iter(pipeline) as by_item, iter(pipeline) as skipping:
        for count in counts:
            passed = len(list(itertools.islice(by_item, count)))
            ahead = skipping.state_after(count)
            skipped = skipping.skip(count)
            require(skipped == passed, f"skip({count}) says {skipped}, of {passed} items")
            require(
                ahead is None or ahead == (skipping.get_state(), passed),
                f"state_after({count}) tells another state than skip({count}) leaves",
            )
            if passed < count:
                require(next(skipping, skipping) is skipping, f"after skip({count}) it goes on")
                return
            require(
                _go_on_alike(pipeline, by_item, skipping),
                f"skip({count}) leaves another state than {count} times next",
            )
        rest = list(itertools.islice(skipping, max(ENOUGH - sum(counts), 0)))
        assert_same(rest, expected[sum(counts) :], f"after skips of {list(counts)}")


def next_and_pull_may_be_mixed(
    pipeline: Pipeline[Any], counts: Sequence[int], limit: int = ENOUGH, *, singly: int = 1
) -> None:
    """Turns of `next` and `pull` deliver the items of an uninterrupted run.

    Args:
      pipeline: any pipeline.
      counts: of items to pull, one after another and then again.
      limit: how many items to read.
      singly: how many items each turn takes by `next`.
    """
    expected = first_items(pipeline, limit)
    with iter(pipeline) as iterator:
        got = list(itertools.islice(_in_turns(iterator, counts, singly), limit))
    assert_same(got, expected, f"turns of next and of pull {list(counts)}")


def _in_turns(iterator: PipelineIterator[Any], counts: Sequence[int], singly: int) -> Iterator[Any]:
    for count in itertools.cycle(counts):
        items = [*itertools.islice(iterator, singly), *block_items(iterator.pull(count))]
        yield from items
        if len(items) < singly + count:
            return


def blocks_depend_on_items_alone(
    pipeline: Pipeline[Any], positions: Sequence[int] = (3,), limit: int = 24
) -> None:
    """Threads, workers and resumes change no item and no block of items.

    Blocks are the arguments of a function of `map_batches`, and the stacks of `batch` and `window`;
    values, types, dtypes, byte orders and shapes are compared. Each run starts at the beginning,
    and at the state after each of ``positions`` items.
    """
    for what, made in _made_of_blocks(pipeline):
        try:
            expected = first_items(made, limit)
        except MalformedItem:  # items that cannot be stacked
            continue
        states = states_along(made, len(expected), [*positions])
        for how, run in [("as it is", made), *tunings(made)]:
            assert_same(first_items(run, limit), expected, f"{what} {how}")
            for position, state in states.items():
                with run.resume(loads(state)) as resumed:
                    rest = list(itertools.islice(resumed, limit - position))
                assert_same(rest, expected[position:], f"{what} {how}, from {position}", position)


def _made_of_blocks(pipeline: Pipeline[Any]) -> Iterator[tuple[str, Pipeline[Any]]]:
    yield "items", pipeline
    yield "what map_batches calls with", pipeline.map_batches(_alone, 3)
    yield "batches", pipeline.batch(3)
    yield "windows", pipeline.window(3, shift=2)


def _alone(block: Any) -> list[Any]:
    return [block]


def gather_agrees_with_iteration(pipeline: Pipeline[Any], limit: int = 100) -> None:
    """Random access gives the items of an iteration, in any order and any number of times."""
    if not pipeline.random_access:
        return
    expected = first_items(pipeline, limit)
    length = pipeline.length
    if length is not None and length < limit:
        require(len(expected) == length, f"{len(expected)} items came, and len() is {length}")
    if not expected:
        return
    order = np.random.default_rng(0).permutation(len(expected))
    indices = np.concatenate([order, order[:3], [0]])
    got = block_items(pipeline.gather(indices))
    assert_same(got, [expected[index] for index in indices], "gather against iteration")
    require(same(pipeline[0], expected[0]), f"pipeline[0] is {shorten(pipeline[0])}")
    assert_same(pipeline[1:5], expected[1:5], "a slice against iteration", 1)


def _go_on_alike(
    pipeline: Pipeline[Any], one: StageIterator[Any], other: StageIterator[Any]
) -> bool:
    """Whether two iterators have the same state, or states with the same items to come.

    Within a graph, an ended input may have been asked for more items than it has, and another input
    for the matching items.
    """
    states = through_bytes(one), through_bytes(other)
    if states[0] == states[1]:
        return True
    return same(*(rest.items for rest in resumed_items(pipeline, states, [ENOUGH] * 2)))


def wreck(value: Any) -> None:
    """Overwrite every mutable part of a state."""
    if isinstance(value, dict):
        for key in list(value):
            wreck(value[key])
            value[key] = "wrecked"
    elif isinstance(value, list):
        for item in value:
            wreck(item)
        value[:] = ["wrecked"]
    elif isinstance(value, np.ndarray):
        value.fill(0)


def _spoilt(state: State, theirs: Collection[str] | None) -> Iterator[tuple[Any, bool]]:
    """States with a single error, and whether the state must be refused."""
    around = {key: value for key, value in state.items() if key != "pipeline"}
    wrong: Any
    for wrong in (None, [], {}, "state", around):
        yield wrong, True
    for spoilt, _ in _spoilt_entries(around, ()):  # the library's own, for every pipeline
        if around.keys() - spoilt.keys() == {EPOCH_REACHED}:
            continue  # as earlier versions saved it
        yield {**spoilt, "pipeline": state["pipeline"]}, True
    positions = state["pipeline"]
    # The library itself ensures that the state of a stage is a dict.
    spoil = _spoilt_entries if theirs is None else _spoilt_value
    for spoilt, surely in spoil(positions, theirs):
        yield {**state, "pipeline": spoilt}, surely


def _spoilt_value(value: Any, theirs: Collection[str] | None) -> Iterator[tuple[Any, bool]]:
    """Wrong values instead of ``value``, judged by type."""
    surely = theirs is not None
    # A negative number, a list of an impossible length, and values of other types.
    wrong: Any
    for wrong in (-1, 0.5, "spoilt", ["spoilt"] * 99, {}):
        if type(wrong) is not type(value) or wrong == -1 or isinstance(wrong, list):
            yield wrong, surely
    if isinstance(value, int) and not isinstance(value, bool):
        yield from ((str(value), surely), (bool(value), surely))
    if value is not None:
        yield None, surely
    if surely:  # a stage that takes anything could not save these values
        yield from ((wrong, True) for wrong in (object(), [object]))
    if isinstance(value, dict):
        yield from _spoilt_entries(value, theirs)


def _spoilt_entries(
    entries: dict[str, Any], theirs: Collection[str] | None
) -> Iterator[tuple[dict[str, Any], bool]]:
    surely = theirs is not None
    yield {**entries, "unknown": 1}, surely
    for key, value in entries.items():
        yield {name: kept for name, kept in entries.items() if name != key}, surely
        for wrong, refused in _spoilt_value(value, theirs if key not in (theirs or ()) else None):
            yield {**entries, key: wrong}, refused
        if key == "upstreams":
            for number, upstream in enumerate(value):
                for wrong, refused in _spoilt_value(upstream, theirs):
                    yield {**entries, key: [*value[:number], wrong, *value[number + 1 :]]}, refused
