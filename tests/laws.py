"""The laws every pipeline obeys, as functions that raise AssertionError."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import resumable as rs
from resumable.block import block_items

ENOUGH = 400


def same(left: Any, right: Any) -> bool:
    """Equal in value, type, dtype and shape, bit for bit."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (np.ndarray, np.generic)):
        return (
            bool(left.dtype == right.dtype)
            and left.shape == right.shape
            and left.tobytes() == right.tobytes()
        )
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) or (left != left and right != right)


def assert_same(got: Any, expected: Any, where: str) -> None:
    """Fail with the first difference."""
    for number, (left, right) in enumerate(zip(got, expected, strict=False)):
        assert same(left, right), f"{where}: item {number} is {left!r}, expected {right!r}"
    assert len(got) == len(expected), f"{where}: {len(got)} items, expected {len(expected)}"


def first_items(pipeline: rs.Pipeline[Any], limit: int = ENOUGH) -> list[Any]:
    """The uninterrupted run, up to ``limit`` items."""
    with iter(pipeline) as iterator:
        return list(itertools.islice(iterator, limit))


def through_bytes(iterator: rs.PipelineIterator[Any]) -> bytes:
    """The state, serialised."""
    return rs.dumps(iterator.get_state())


def resumes_at_every_position(pipeline: rs.Pipeline[Any], limit: int = ENOUGH) -> None:
    """Prefix + resumed == uninterrupted: at every position, through bytes, anew each time."""
    expected = first_items(pipeline, limit)
    with iter(pipeline) as reference:
        states = [through_bytes(reference)]
        for _ in expected:
            next(reference)
            states.append(through_bytes(reference))
    for position, state in enumerate(states):
        with pipeline.resume(rs.loads(state)) as resumed:
            assert resumed.step == position
            assert through_bytes(resumed) == state, f"state changed by resuming at {position}"
            rest = list(itertools.islice(resumed, limit - position))
        assert_same(rest, expected[position:], f"resumed at {position} from {rs.loads(state)}")


def resumes_for_generations(
    pipeline: rs.Pipeline[Any], cuts: list[int], limit: int = ENOUGH
) -> None:
    """Resumed from the resumed, at ``cuts`` items after one another."""
    expected = first_items(pipeline, limit)
    state = through_bytes(iter(pipeline))
    got: list[Any] = []
    for cut in cuts:
        with pipeline.resume(rs.loads(state)) as iterator:
            got += list(itertools.islice(iterator, min(cut, limit - len(got))))
            state = through_bytes(iterator)
    with pipeline.resume(rs.loads(state)) as iterator:
        got += list(itertools.islice(iterator, limit - len(got)))
    assert_same(got, expected, f"resumed after {cuts}")


def stays_ended(pipeline: rs.Pipeline[Any]) -> None:
    """The state after the end delivers nothing, also after another resume."""
    with iter(pipeline) as iterator:
        for _ in range(ENOUGH):
            if next(iterator, iterator) is iterator:
                break
        else:
            return  # endless, or long
        state = through_bytes(iterator)
        assert next(iterator, iterator) is iterator
    for _ in range(2):
        with pipeline.resume(rs.loads(state)) as resumed:
            assert list(resumed) == []
            state = through_bytes(resumed)


def state_is_a_value(pipeline: rs.Pipeline[Any], position: int) -> None:
    """Taking a state changes nothing, and nothing changes a state that was taken."""
    expected = first_items(pipeline, position + 5)
    with iter(pipeline) as iterator:
        got = list(itertools.islice(iterator, position))
        state = iterator.get_state()
        before = rs.dumps(state)
        assert through_bytes(iterator) == before
        got += list(itertools.islice(iterator, 5))
        assert_same(got, expected, "with get_state in between")
        assert rs.dumps(state) == before, "the state changed by going on"
        _wreck(iterator.get_state())
        after = through_bytes(iterator)
        _wreck(state)
        assert through_bytes(iterator) == after, "a changed state changed the iterator"
        copied = rs.loads(before)
        iterator.set_state(copied)
        _wreck(copied)
        assert through_bytes(iterator) == before, "set_state kept a reference"


def set_state_works_on_a_used_iterator(pipeline: rs.Pipeline[Any], limit: int = ENOUGH) -> None:
    """A used or exhausted iterator continues at a state as a new one does."""
    expected = first_items(pipeline, limit)
    with iter(pipeline) as iterator:
        start = iterator.get_state()
        list(itertools.islice(iterator, len(expected) // 2))
        middle = iterator.get_state()
        list(itertools.islice(iterator, limit))
        for state, position in ((middle, len(expected) // 2), (start, 0), (middle, None)):
            iterator.set_state(state)
            if position is None:
                position = len(expected) // 2
            rest = list(itertools.islice(iterator, limit - position))
            assert_same(rest, expected[position:], f"set back to {position}")


def refused_state_leaves_no_trace(pipeline: rs.Pipeline[Any], position: int) -> None:
    """Every way to spoil a state is refused by StateMismatch, and changes nothing."""
    expected = first_items(pipeline, position + 6)
    with iter(pipeline) as iterator:
        list(itertools.islice(iterator, position))
        before = through_bytes(iterator)
        for spoilt in _spoilt(rs.loads(before)):
            try:
                iterator.set_state(spoilt)
            except rs.StateMismatch:
                pass
            else:
                raise AssertionError(f"accepted {spoilt}")
            assert through_bytes(iterator) == before
        rest = list(itertools.islice(iterator, 6))
        assert_same(rest, expected[position:], "after refused states")


def pull_agrees_with_next(pipeline: rs.Pipeline[Any], counts: list[int]) -> None:
    """`pull` delivers what as many calls of `next` do, and leaves the same state."""
    with iter(pipeline) as by_item, iter(pipeline) as by_block:
        for count in counts:
            singly = list(itertools.islice(by_item, count))
            block = by_block.pull(count)
            assert_same(block_items(block), singly, f"pull({count})")
            if len(singly) < count:
                return  # past the end, positions within the graph may differ
            assert through_bytes(by_item) == through_bytes(by_block)


def next_and_pull_may_be_mixed(pipeline: rs.Pipeline[Any], counts: list[int]) -> None:
    """Turns of `next` and `pull` deliver the items of an uninterrupted run."""
    expected = first_items(pipeline)
    got: list[Any] = []
    with iter(pipeline) as iterator:
        for count in counts:
            got += list(itertools.islice(iterator, 1))
            got += block_items(iterator.pull(count))
        got += list(itertools.islice(iterator, ENOUGH - len(got)))
    assert_same(got[:ENOUGH], expected, f"next and pull of {counts}")


def gather_agrees_with_iteration(pipeline: rs.Pipeline[Any], limit: int = 100) -> None:
    """Random access gives the items of iteration, in any order and repeatedly."""
    if not pipeline.random_access:
        return
    expected = first_items(pipeline, limit)
    if pipeline.length is not None and pipeline.length < limit:
        assert len(expected) == pipeline.length == len(pipeline)
    if not expected:
        return
    order = np.random.default_rng(0).permutation(len(expected))
    indices = np.concatenate([order, order[:3], [0]])
    got = block_items(pipeline.gather(indices))
    assert_same(got, [expected[index] for index in indices], "gather")
    assert same(pipeline[0], expected[0])
    assert_same(pipeline[1:5], expected[1:5], "slice")


def _wreck(value: Any) -> None:
    """Overwrite everything in a state that can be overwritten."""
    if isinstance(value, dict):
        for key in list(value):
            _wreck(value[key])
            value[key] = "wrecked"
    elif isinstance(value, list):
        for item in value:
            _wreck(item)
        value[:] = ["wrecked"]
    elif isinstance(value, np.ndarray):
        value.fill(0)


def _spoilt(state: Any) -> list[Any]:
    """States that are not this pipeline's: wrong types, missing and unknown keys, bad counts."""
    variants: list[Any] = [None, [], {}, "state", {**state, "more": 1}]
    for key in state:
        without = dict(state)
        del without[key]
        variants += [without, {**state, key: object()}]
    for name in ("step", "epoch", "ahead"):
        variants += [{**state, name: wrong} for wrong in (-1, 1.5, True, None, "1")]
    positions: list[Any] = [None, {}, [1], {**state["pipeline"], "unknown": 1}]
    variants += [{**state, "pipeline": wrong} for wrong in positions]
    variants += [{**state, "pipeline": wrong} for wrong in _spoilt_positions(state["pipeline"])]
    return variants


def _spoilt_positions(state: dict[str, Any]) -> list[dict[str, Any]]:
    variants: list[dict[str, Any]] = []
    for key, value in state.items():
        if key in ("position", "pass", "index", "offset", "turn", "taken", "skipped", "drained"):
            variants += [{**state, key: wrong} for wrong in (-1, "1", 0.5, None)]
        if key == "upstream":
            variants += [{**state, key: wrong} for wrong in [None, {}, *_spoilt_positions(value)]]
        if key in ("places", "slots", "ended", "delivered", "draining", "start"):
            variants += [{**state, key: wrong} for wrong in (object, [object], ["x"] * 99)]
        if key == "stage":
            variants += [{**state, key: wrong} for wrong in [None, {}, *_spoilt_positions(value)]]
        if key == "upstreams":
            spoilt: list[Any] = [None, [], [{}] * len(value)]
            variants += [{**state, key: wrong} for wrong in spoilt]
    return variants
