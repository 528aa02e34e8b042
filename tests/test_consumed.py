"""The state at the item last consumed, whatever is produced ahead of it."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import Loader, RunningSum

import resumable as rs
from resumable.consumed import ConsumedStates

LENGTH = 60


def numbers() -> Iterator[int]:
    return iter(range(LENGTH))


PIPELINES: dict[str, Any] = {
    "random access": lambda: rs.range(LENGTH).shuffle(3).batch(2),
    "stream": lambda: rs.from_iterable(numbers).shuffle(1, window=7).filter(lambda n: n % 3),
    "threads": lambda: rs.from_iterable(numbers).map(abs, workers=2).prefetch(4),
    "passes": lambda: rs.from_iterable(numbers).repeat(2),
}


@pytest.mark.parametrize("kind", PIPELINES)
@given(begin=st.integers(0, 12), aheads=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))))
def test_the_state_is_that_of_an_iterator_that_is_not_ahead(
    kind: str, begin: int, aheads: list[tuple[int, int]]
) -> None:
    pipeline = PIPELINES[kind]()
    reference = list(pipeline)
    begin = min(begin, len(reference))
    states = ConsumedStates(pipeline)
    with pipeline.start() as iterator:
        list(islice(iterator, begin))
        states = states.starting_at(states.checked(iterator.get_state()))
    consumed = produced = begin
    with states.produce() as producer:
        for step, ahead in aheads:
            consumed = min(consumed + step, len(reference))
            while produced < min(consumed + ahead, len(reference)):
                assert next(producer) == pytest.approx(reference[produced])
                produced += 1
                states.mark(producer)
            state = states.after(consumed)
            assert state["step"] == consumed
            with pipeline.resume(rs.loads(rs.dumps(state))) as resumed:
                rest = list(resumed)
            assert str(rest) == str(reference[consumed:])


def test_a_stream_computes_little_more_than_it_is_ahead() -> None:
    """With a mark after every item; how many there are in truth is for the clock to say."""
    seen: list[int] = []

    def keep(number: int) -> bool:
        seen.append(number)
        return True

    states = ConsumedStates(rs.range(100_000).filter(keep))
    with states.produce() as producer:
        for _ in islice(producer, 5000):
            states._marks._due = 0.0
            states.mark(producer)
        for ahead in (1000, 500, 40, 10, 1):
            seen.clear()
            assert states.after(5000 - ahead)["step"] == 5000 - ahead
            assert len(seen) <= ahead


def test_a_pass_over_items_that_are_looked_up_reads_nothing() -> None:
    seen: list[int] = []
    states = ConsumedStates(rs.range(10**9).shuffle(1).map(seen.append))
    with states.produce() as producer:
        next(producer)
        states.mark(producer)
        assert states.after(10**8)["step"] == 10**8
    assert len(seen) == 1


def test_a_producer_in_another_thread_is_not_asked() -> None:
    """In the middle of an item its stages stand elsewhere than its count says."""
    arrived, go_on = threading.Event(), threading.Event()

    def slow(number: int) -> int:
        if number == 3 and threading.current_thread() is thread:
            arrived.set()
            go_on.wait(60)
        return number

    pipeline = rs.from_iterable(numbers).map(slow)
    states = ConsumedStates(pipeline)

    def produce() -> None:
        with states.produce(elsewhere=True) as producer:
            for _ in islice(producer, 6):
                states.mark(producer)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        assert arrived.wait(60)
        state = states.after(3)
    finally:
        go_on.set()
        thread.join()
    with pipeline.resume(state) as resumed:
        assert next(resumed) == 3


def test_what_is_read_once_is_counted_and_drawn_again() -> None:
    def once() -> rs.Pipeline[int]:
        return rs.from_iterable(numbers(), external_state_policy="ignore").map(abs)

    states = ConsumedStates(once())
    with states.produce() as producer:
        assert list(islice(producer, 10)) == list(range(10))
        state = states.after(7)
    assert (state["step"], state["ahead"]) == (7, 7)
    again = ConsumedStates(once())
    again = again.starting_at(again.checked(rs.loads(rs.dumps(state))))
    with again.produce() as producer:
        assert next(producer) == 7


def test_a_step_before_the_pass_is_refused() -> None:
    states = ConsumedStates(rs.range(9))
    states = states.starting_at(states.after(4))
    with pytest.raises(rs.StateMismatch, match="began after step 4, so step 3 is not in it"):
        states.after(3)


def test_a_copy_in_another_process_has_no_running_iterator() -> None:
    states = ConsumedStates(rs.range(9))
    with states.produce() as producer:
        next(producer)
        copied = pickle.loads(pickle.dumps(states))
        assert copied.after(5) == states.after(5)


OF_THEIR_OWN: dict[str, Any] = {
    "function": lambda: rs.range(LENGTH).map(RunningSum()).filter(lambda total: total % 3),
    "read once": lambda: rs.from_iterable(numbers(), external_state_policy="ignore").map(abs),
}


@pytest.mark.parametrize("kind", [*PIPELINES, *OF_THEIR_OWN])
@given(
    begin=st.integers(0, 12),
    most=st.integers(0, 7),
    moves=st.lists(st.integers(-9, 9)),
    rare=st.booleans(),
)
def test_behind_an_iterator_the_states_are_those_that_it_had(
    kind: str, begin: int, most: int, moves: list[int], rare: bool
) -> None:
    make = (PIPELINES | OF_THEIR_OWN)[kind]
    with make().start() as bare:
        had = [bare.get_state()]
        expected = []
        for item in bare:
            expected.append(str(item))
            had.append(bare.get_state())
    with make().start() as producer:
        begin = len(list(islice(producer, begin)))
        states = ConsumedStates.behind(producer, most)
        if rare:
            states._marks._share = 1 << 40
        step = begin
        for move in moves:
            for item in islice(producer, max(move, 0)):
                assert str(item) == expected[producer.step - 1]
                states.mark(producer)
            step = max(step, producer.step - most, min(producer.step, producer.step + move))
            assert rs.dumps(states.after(step)) == rs.dumps(had[step])


class Reader:
    """An iterator that knows its place."""

    def __init__(self) -> None:
        self.place = 0

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> int:
        if self.place == LENGTH:
            raise StopIteration
        self.place += 1
        return self.place - 1

    def get_state(self) -> int:
        return self.place

    def set_state(self, place: int) -> None:
        self.place = place


IN_ONE_PLACE: dict[str, Any] = {
    "function": OF_THEIR_OWN["function"],
    "iterator": lambda: rs.from_iterable(Reader()).map(abs),
    "loader": lambda: rs.from_iterable(Loader(LENGTH)).map(abs).prefetch(2),
}


@pytest.mark.parametrize("kind", IN_ONE_PLACE)
@pytest.mark.parametrize("elsewhere", [False, True])
@given(
    begin=st.integers(0, 12),
    aheads=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))),
    rare=st.booleans(),
)
def test_what_has_a_state_of_its_own_is_left_alone_when_items_are_read_again(
    kind: str, elsewhere: bool, begin: int, aheads: list[tuple[int, int]], rare: bool
) -> None:
    make = IN_ONE_PLACE[kind]
    with make().start() as bare:
        had = [bare.get_state()]
        expected = []
        for item in bare:
            expected.append(item)
            had.append(bare.get_state())
    begin = min(begin, len(expected))
    states = ConsumedStates(make())
    states = states.starting_at(states.checked(had[begin]))
    consumed = produced = begin
    with states.produce(elsewhere=elsewhere) as producer:
        if rare:
            states._marks._share = 1 << 40
        for step, ahead in aheads:
            consumed = min(consumed + step, len(expected))
            while produced < min(consumed + ahead, len(expected)):
                assert next(producer) == expected[produced]
                produced += 1
                states.mark(producer)
            state = states.after(consumed)
            assert state["step"] == consumed
            with make().resume(rs.loads(rs.dumps(state))) as resumed:
                assert list(resumed) == expected[consumed:]


class Locked(RunningSum):
    """What cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_cannot_be_copied_is_refused_where_items_would_be_read_again(elsewhere: bool) -> None:
    states = ConsumedStates(rs.range(LENGTH).map(Locked()))
    with states.produce(elsewhere=elsewhere) as producer:
        assert list(islice(producer, 9)) == [*accumulate(range(9))]
        with pytest.raises(rs.ExternalStateError, match=r"cannot be copied: TypeError: .*lock"):
            states.after(5)
        states.mark(producer)
        assert states.after(9)["step"] == 9
        assert next(producer) == sum(range(10))


def test_behind_an_iterator_a_state_that_cannot_be_taken_is_an_error_where_it_is_asked_for() -> (
    None
):
    held = rs.from_iterable(numbers).map(lambda number: {number}).shuffle(1, window=3, carry=True)
    pipelines: list[rs.Pipeline[Any]] = [held, held.map(len).map(RunningSum())]
    for pipeline in pipelines:
        with pipeline.start() as producer:
            states = ConsumedStates.behind(producer, 2)
            for _ in islice(producer, 5):
                states.mark(producer)
            for step in (4, 5):
                with pytest.raises(rs.UnencodableState, match=r"holds a builtins\.set"):
                    states.after(step)
            assert len(list(producer)) == LENGTH - 5


def test_behind_an_iterator_with_a_state_of_its_own_nothing_is_read_again() -> None:
    """Two readings of one object would disturb each other."""
    with iter(rs.range(LENGTH).map(RunningSum())) as producer:
        states = ConsumedStates.behind(producer, 2)
        for _ in islice(producer, 50):
            states.mark(producer)
        assert [states.after(step)["step"] for step in (48, 49, 50)] == [48, 49, 50]
        with pytest.raises(rs.StateMismatch, match="the state after step 13 was not kept"):
            states.after(13)
        assert next(producer) == sum(range(51))


def test_behind_an_iterator_nothing_is_read_again_from_before_it_was_given() -> None:
    seen: list[int] = []

    def keep(number: int) -> bool:
        seen.append(number)
        return True

    with iter(rs.range(100).filter(keep)) as producer:
        list(islice(producer, 50))
        states = ConsumedStates.behind(producer, 2)
        list(islice(producer, 2))
        seen.clear()
        assert states.after(51)["step"] == 51
    assert seen == [50]
