"""What is made once is kept for later epochs, and is in no state."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import Point, RunningSum, stream

import resumable as rs
from resumable.core import block_items
from resumable.core.graph import without_threads

SOURCES: dict[str, Callable[[int], rs.Pipeline[int]]] = {
    "look-up": rs.range,
    "order": lambda count: rs.range(count).shuffle(5),
    "stream": stream,
    "workers": lambda count: rs.range(count).map(int, workers=2),
    "dropping": lambda count: rs.range(2 * count).filter(lambda item: item % 2),
}
each = pytest.mark.parametrize("source", SOURCES)

IN_BLOCKS: dict[str, Callable[[rs.Pipeline[int]], rs.Pipeline[Any]]] = {
    "batch": lambda items: items.batch(4, collate=list),
    "shuffle": lambda items: items.shuffle(0).batch(8, collate=list),
}


def counted(source: str, count: int) -> tuple[rs.Pipeline[int], Counter[int]]:
    """A cache with nothing in it, and how often each of its items was made."""
    made: Counter[int] = Counter()

    def note(item: int) -> int:
        made[item] += 1
        return item

    return SOURCES[source](count).map(note).cache(), made


@each
@given(
    count=st.integers(0, 20), cuts=st.lists(st.integers(0, 25), max_size=3), blocks=st.booleans()
)
def test_every_process_makes_an_item_once_whatever_is_resumed(
    source: str, count: int, cuts: list[int], blocks: bool
) -> None:
    expected = list(SOURCES[source](count)) * 3
    got: list[Any] = []
    state: Any = None
    for cut in [*cuts, 3 * count + 1]:
        cache, made = counted(source, count)  # as in a new process
        pipeline = cache.repeat(3)
        iterator = iter(pipeline) if state is None else pipeline.resume(rs.loads(state))
        with iterator:
            got += block_items(iterator.pull(cut)) if blocks else islice(iterator, cut)
            state = rs.dumps(iterator.get_state())
        assert not made or max(made.values()) == 1
    assert got == expected


@each
def test_a_pass_that_was_left_is_gone_on_with_by_the_next(source: str) -> None:
    cache, made = counted(source, 20)
    expected = list(SOURCES[source](20))
    assert list(cache.take(7)) == expected[:7]
    assert sum(made.values()) == 7
    if cache.random_access:
        assert cache[15] == expected[15]
        assert block_items(cache.gather(np.array([15, 3, 15, 9]))) == [
            expected[index] for index in (15, 3, 15, 9)
        ]
    assert list(cache) == expected
    assert block_items(iter(cache).pull(50)) == expected
    assert set(made.values()) == {1}
    assert len(made) == 20


@each
def test_an_error_costs_nothing_that_was_made(source: str) -> None:
    made: Counter[int] = Counter()
    broken = True

    def fragile(item: int) -> int:
        made[item] += 1
        if broken and made.total() > 8:
            raise OSError("no answer")
        return item

    cache = SOURCES[source](20).map(fragile).cache()
    with iter(cache) as iterator:
        got = [next(iterator) for _ in range(8)]
        for _ in range(3):
            with pytest.raises(OSError, match="no answer"):
                next(iterator)
        broken = False
        got += iterator
    assert got == list(SOURCES[source](20))
    del made[got[8]]
    assert set(made.values()) == {1}


@pytest.mark.parametrize("name", IN_BLOCKS)
def test_an_error_in_a_block_costs_what_was_made_of_it_once(name: str) -> None:
    made: Counter[int] = Counter()
    broken = True

    def fragile(item: int) -> int:
        made[item] += 1
        if broken and item == 6:
            raise OSError("no answer")
        return item

    got: list[Any] = []
    with iter(IN_BLOCKS[name](rs.range(20).map(fragile).cache())) as iterator:
        for _ in range(5):
            with pytest.raises(OSError, match="no answer"):
                got.extend(iterator)
        broken = False
        got.extend(iterator)
    assert got == list(IN_BLOCKS[name](rs.range(20)))
    del made[6]
    assert max(made.values()) <= 2


def test_an_error_in_a_block_that_does_not_come_again_is_raised() -> None:
    fails = iter([True])

    def fragile(item: int) -> int:
        if item == 2 and next(fails, False):
            raise OSError("for the moment")
        return item

    with iter(rs.range(4).map(fragile).cache().batch(4, collate=list)) as iterator:
        with pytest.raises(OSError, match="for the moment"):
            next(iterator)
        assert list(iterator) == [[0, 1, 2, 3]]


@each
def test_skipping_makes_nothing(source: str) -> None:
    cache, made = counted(source, 20)
    expected = list(SOURCES[source](20))
    with iter(cache) as iterator:
        assert iterator.skip(5) == 5
        assert next(iterator) == expected[5]
        assert iterator.skip(10) == 10
        assert list(iterator) == expected[16:]
        assert sum(made.values()) == 5
        assert iterator.skip(3) == 0
    with iter(cache) as iterator:
        assert iterator.skip(50) == 20
    assert list(cache) == expected


def test_epochs_are_upstreams_first_one_and_its_own_for_what_follows() -> None:
    epochs = rs.from_iterable(lambda epoch: [epoch] * 3).cache()
    assert list(epochs.repeat(2)) == [0] * 6
    assert list(epochs.start(epoch=4)) == [0] * 3
    late = rs.range(30).shuffle(1).cache().start(epoch=3)
    assert list(late) == list(rs.range(30).shuffle(1))
    before, after = rs.range(30).shuffle(1).cache(), rs.range(30).cache().shuffle(1)
    first, second = list(before.repeat(2))[:30], list(before.repeat(2))[30:]
    assert first == second
    first, second = list(after.repeat(2))[:30], list(after.repeat(2))[30:]
    assert first != second
    assert sorted(first) == sorted(second)
    iterator = iter(epochs.repeat(2))
    list(islice(iterator, 4))
    assert iterator.epoch == 1


def test_the_threads_of_a_map_before_it_are_used_and_states_are_the_same_without() -> None:
    with_workers = SOURCES["workers"](20).cache()
    without = rs.Pipeline(without_threads(with_workers.stage))
    assert with_workers.random_access
    with iter(with_workers) as one, iter(without) as other:
        assert list(islice(one, 7)) == list(islice(other, 7))
        assert one.get_state() == other.get_state()
        assert type(one._running.root) is not type(other._running.root)
    with pytest.raises(rs.InvalidArgument, match="Map before it would run without its threads"):
        with_workers.shuffle(0)


def test_arrays_that_are_handed_out_cannot_be_written_into() -> None:
    array = np.zeros(3)
    items: list[Any] = [array, {"x": array}, Point(array, 1), (array, {"y": array})]
    for pipeline in (
        rs.from_sequence(items).cache(),
        rs.from_iterable(lambda: iter(items)).cache(),
    ):
        for one, mapped, point, pair in (list(pipeline), list(pipeline)):
            assert type(point) is Point
            for kept in (one, mapped["x"], point.x, pair[0], pair[1]["y"]):
                with pytest.raises(ValueError, match="read-only"):
                    kept[0] = 1
        batch = next(iter(pipeline.take(1).batch(1)))
        batch[0] = 1
    array[0] = 1  # the user's own is still writable


def test_what_is_kept_is_neither_in_a_state_nor_pickled_nor_copied() -> None:
    pipeline = rs.range(1000).map(float).cache()
    empty, fresh = len(pickle.dumps(pipeline)), rs.dumps(iter(pipeline).get_state())
    list(pipeline)
    assert len(pickle.dumps(pipeline)) == empty
    copied: Any = copy.deepcopy(pipeline).stage
    assert len(copied.kept.items) == 0
    assert len(rs.dumps(iter(pipeline).get_state())) == len(fresh) <= 300


def test_what_can_be_read_only_once_is_read_once() -> None:
    once = rs.from_iterable(iter(range(5))).cache()
    assert list(once.repeat(3)) == [*range(5)] * 3


def test_a_function_with_state_goes_on_after_a_resume_as_without() -> None:
    def pipeline() -> rs.Pipeline[int]:
        return rs.range(9).map(RunningSum()).cache().repeat(2)

    expected = list(pipeline())
    for cut in range(19):
        iterator = iter(pipeline())
        first = list(islice(iterator, cut))
        assert first + list(pipeline().resume(iterator.get_state())) == expected


def test_data_that_shrank_under_a_state_is_refused() -> None:
    iterator = iter(stream(9).cache())
    assert next(iterator) == 0
    list(islice(iterator, 6))
    state = iterator.get_state()
    shrunk = stream(5).cache()
    for _ in range(2):
        with pytest.raises(rs.StateMismatch, match="position=7 lies beyond the end"):
            next(shrunk.resume(state))
        with pytest.raises(rs.StateMismatch, match="position=7 lies beyond the end"):
            shrunk.resume(state).pull(1)
        list(shrunk)


def test_what_never_ends_is_refused() -> None:
    with pytest.raises(rs.InvalidArgument, match="cache needs a pipeline that ends"):
        rs.range(5).repeat().cache()
