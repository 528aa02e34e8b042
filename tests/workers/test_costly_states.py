"""Workers of partitions take a state that costs much only now and then, and any state can be had all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clocks import Clock

import resumable as rs
from resumable.core.stage import Stage
from resumable.windows.carrying import CarryingIterator
from resumable.workers import running_partition
from resumable.workers.after_item import AfterItem, PackedState
from resumable.workers.partition_server import PartitionServer
from resumable.workers.running_partition import PartitionTask
from resumable.workers.skips import without_listeners

SECONDS_AN_ITEM, SECONDS_A_STATE = 0.001, 1.0


def carrying(number: int) -> Stage[int]:
    return rs.range(2000).shuffle(0, window=100, carry=True).stage


@pytest.mark.parametrize("costly", [True, False])
def test_states_are_taken_for_a_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, costly: bool
) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr(running_partition, "perf_counter", clock)
    taken = 0
    get_state = CarryingIterator.get_state

    def counted(iterator: CarryingIterator[Any]) -> Any:
        nonlocal taken
        taken += 1
        clock.now += SECONDS_A_STATE * costly
        return get_state(iterator)

    monkeypatch.setattr(CarryingIterator, "get_state", counted)
    place = AfterItem(PackedState(carrying(0).start(0).get_state()), 0, 0)
    runner, items, taken = PartitionServer(carrying), 0, 0
    while items < 1900:
        task = PartitionTask("run", 0, 0, place, 2, {}, None)
        delivery = runner(task)
        clock.now += SECONDS_AN_ITEM * len(delivery.items)
        items += len(delivery.items)
        place = delivery.positions[-1]
    runner.close()
    seconds = 1900 * SECONDS_AN_ITEM
    most = seconds / SECONDS_A_STATE + 2
    assert taken <= most if costly else taken == items
    assert place.made == items
    assert bool(place.beyond) is costly


STAGES: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "carrying": lambda part: part.shuffle(1, window=4, carry=True),
    "groups": lambda part: part.map_batches(lambda batch: list(batch) * 2, 3),
    "window": lambda part: part.shuffle(1, window=4).batch(2, collate=list),
    "dropping": lambda part: part.map(lambda item: 60 // (item % 3), on_error="skip").repeat(2),
}


@pytest.fixture(params=[0.0, 1e9])
def share(request: pytest.FixtureRequest) -> Iterator[None]:
    """All states cost too much: each is taken, or none but the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running_partition, "CHEAP_SECONDS", -1.0)
        patch.setattr(running_partition, "STATE_SHARE", request.param)
        yield


@pytest.mark.usefixtures("share")
@pytest.mark.parametrize("executor", ["thread"])
@given(
    st.sampled_from(sorted(STAGES)),
    st.integers(1, 9),
    st.lists(st.integers(0, 9), max_size=5),
    st.booleans(),
)
def test_states_are_those_without_workers(
    executor: str, name: str, buffer_size: int, moves: list[int], prefetched: bool
) -> None:
    def pipeline(**options: Any) -> rs.Pipeline[Any]:
        return rs.range(23).partition(3, STAGES[name], **options)

    parts = pipeline(workers=2, buffer_size=buffer_size, executor=executor)
    with iter(pipeline()) as plain, iter(parts.prefetch(3 * prefetched)) as iterator:
        for move in moves:
            assert list(islice(iterator, move)) == list(islice(plain, move))
            assert rs.dumps(iterator.get_state()) == rs.dumps(plain.get_state())
        with parts.resume(rs.loads(rs.dumps(iterator.get_state()))) as resumed:
            rest = list(resumed)
        assert rest == list(plain) == list(iterator)
        iterator.close()
        assert rs.dumps(iterator.get_state()) == rs.dumps(plain.get_state())


@pytest.mark.usefixtures("share")
@pytest.mark.parametrize("buffer_size", [0, 2])
def test_items_dropped_before_the_position_of_a_task_are_not_told_again(buffer_size: int) -> None:
    def dropping(number: int) -> Stage[Any]:
        items = rs.range(40).map(
            lambda item: 60 // (item % 3), on_error="skip", on_skip=lambda number, error: None
        )
        shuffled = items.shuffle(1, window=4, carry=True)
        return without_listeners(shuffled.prefetch(buffer_size).stage)

    place = AfterItem(PackedState(dropping(0).start(0).get_state()), 0, 0)
    told: set[int] = set()
    twice: set[int] = set()
    while True:
        runner = PartitionServer(dropping)  # as in another process for each task
        delivery = runner(PartitionTask("run", 0, 0, place, 3, {}, None))
        runner.close()
        numbers = {dropped.number for dropped in delivery.skips}
        twice |= told & numbers
        told |= numbers
        if delivery.end is not None:
            break
        place = delivery.positions[-1]
    assert told == set(range(0, 40, 3))
    if not buffer_size:  # a thread drops items ahead of those that are delivered
        assert not twice
