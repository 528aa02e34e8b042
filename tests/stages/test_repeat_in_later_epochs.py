"""In a later epoch of the loop, the number of a repeat says which epochs of the data come."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import resumable as rs

LENGTH = 10


def of_epoch(epoch: int) -> range:
    return range(epoch, epoch + LENGTH)


DATA: dict[str, rs.Pipeline[int]] = {
    "shuffled": rs.range(LENGTH).shuffle(0),
    "shuffled in a window": rs.range(LENGTH).shuffle(0, window=4),
    "drawn": rs.range(LENGTH).random_map(lambda _, rng: int(rng.integers(1000)), seed=0),
    "a stream by epoch": rs.from_iterable(of_epoch),
    "by epoch": rs.by_epoch({0: rs.range(LENGTH), 2: rs.range(20, 20 + LENGTH)}),
    "repeated before": rs.range(LENGTH // 2).shuffle(0).repeat(2),
    "alike": rs.range(LENGTH).map(int),
}
NUMBERS = st.none() | st.integers(1, 4)


@given(
    data=st.sampled_from(sorted(DATA)),
    epoch=st.integers(0, 2),
    saved=NUMBERS,
    present=NUMBERS,
    cut=st.integers(0, LENGTH - 1),
)
@example(data="shuffled", epoch=1, saved=1, present=2, cut=4)
@example(data="by epoch", epoch=1, saved=1, present=2, cut=4)
@example(data="alike", epoch=1, saved=1, present=2, cut=4)
def test_a_run_goes_on_in_the_epoch_of_the_data_where_it_was_or_is_refused(
    data: str, epoch: int, saved: int | None, present: int | None, cut: int
) -> None:
    with DATA[data].repeat(saved).start(epoch) as iterator:
        passed = list(islice(iterator, cut))
        state = rs.loads(rs.dumps(iterator.get_state()))
        expected = passed + list(islice(iterator, LENGTH - cut))
    pipeline = DATA[data].repeat(present)
    try:
        resumed = pipeline.resume(state)
    except rs.StateMismatch as error:
        if data != "by epoch":  # there the pipeline of an epoch differs as well
            assert f"saved epochs={saved}, this pipeline has epochs={present}" in str(error)  # noqa: PT017
        assert epoch
        assert saved != present
        assert data != "alike"
        return
    with resumed:
        assert passed + list(islice(resumed, LENGTH - cut)) == expected


@pytest.mark.parametrize("number", [1, 3, None])
def test_a_state_that_does_not_tell_the_number_goes_on(number: int | None) -> None:
    pipeline = DATA["shuffled"].repeat(number)
    with pipeline.start(1) as iterator:
        passed = list(islice(iterator, 4))
        state = iterator.get_state()
    told = state["fingerprint"]
    assert told != pipeline.fingerprint
    state["fingerprint"] = pipeline.fingerprint  # as earlier versions saved it
    with pipeline.resume(state) as iterator:
        assert iterator.get_state()["fingerprint"] == told
        assert passed + list(islice(iterator, 6)) == list(islice(pipeline.start(1), LENGTH))


@pytest.mark.parametrize("data", ["shuffled", "alike"])
def test_a_state_tells_the_same_with_and_without_threads(data: str) -> None:
    told = set()
    for workers in (0, 1):
        pipeline = DATA[data].map(abs, workers=workers).repeat(2)
        with pipeline.start(1) as iterator:
            next(iterator)
            told.add(iterator.get_state()["fingerprint"])
    assert len(told) == 1


def test_an_iterator_that_goes_back_to_the_first_epoch_may_go_on_with_another_number() -> None:
    iterator = DATA["shuffled"].repeat(1).start(1)
    with DATA["shuffled"].repeat(1).start(0) as first:
        iterator.set_state(first.get_state())
        assert iterator.get_state() == first.get_state()
    expected = list(DATA["shuffled"].repeat(2))
    assert list(DATA["shuffled"].repeat(2).resume(iterator.get_state())) == expected
