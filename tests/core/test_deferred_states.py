"""A state that was noted says what one taken at the same moment would have said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import resumable as rs
from resumable.core import CountingIterator, StageIterator, unpack
from resumable.core.stage_iterator import state_deferrer
from resumable.state.value import State
from resumable.testing import check_stage


def numbers() -> Iterator[int]:
    return iter(range(40))


def is_small(number: int) -> bool:
    return number < 30


STAGES: dict[str, rs.Pipeline[Any]] = {
    "batch": rs.from_iterable(numbers).batch(3),
    "take": rs.from_iterable(numbers).take(30),
    "skip": rs.from_iterable(numbers).skip(2),
    "take_while": rs.from_iterable(numbers).take_while(is_small),
    "enumerate": rs.from_iterable(numbers).enumerate(),
    "shard": rs.from_iterable(numbers).shard(1, 2),
    "all of them": rs.from_iterable(numbers).skip(2).take(30).enumerate().batch(2),
}


@pytest.mark.parametrize("name", STAGES)
def test_a_noted_state_is_the_one_of_its_moment(name: str) -> None:
    iterator = STAGES[name].stage.start()
    note = state_deferrer(iterator)
    taken, noted = [], []
    for _ in range(5):
        taken.append(iterator.get_state())
        noted.append(note())
        assert iterator.pull(2)
    assert [each() for each in noted] == taken


def test_a_state_noted_between_samples_of_a_stream_has_the_last_of_them() -> None:
    iterator = rs.from_iterable(numbers).stage.start()
    note, taken, noted = state_deferrer(iterator), [], []
    for _ in iterator.items():  # those from 16 on are sampled now and then
        taken.append(iterator.get_state())
        noted.append(note())
    assert len(taken) == 40
    assert [each() for each in noted] == taken


@dataclass(frozen=True, eq=False, repr=False)
class Summed(rs.Transform[int]):
    """Each number with the sum up to it, by an iterator of a user who knows of `get_state` alone."""

    def start(self, epoch: int = 0) -> StageIterator[int]:
        return SummedIterator(self, epoch)


class SummedIterator(CountingIterator[int]):
    def __init__(self, stage: Summed, epoch: int) -> None:
        super().__init__(stage, epoch)
        self._total = 0

    def pull(self, count: int) -> list[int]:
        sums = []
        for item in list(self._upstream.pull(count)):
            self._total += item
            sums.append(self._total)
        self._position += len(sums)
        return sums

    def get_state(self) -> State:
        return {"total": self._total, **super().get_state()}

    def set_state(self, state: State) -> None:
        self._total, *_ = unpack(self._stage, state, "total", "position", "upstream")
        super().set_state({key: state[key] for key in ("position", "upstream")})


def test_what_a_subclass_adds_to_a_state_is_in_a_noted_one_too() -> None:
    summed = rs.from_iterable(numbers).apply(Summed)
    note = state_deferrer(summed.stage.start())
    assert note()()["total"] == 0
    check_stage(rs.from_iterable(numbers).apply(Summed).flat_map(range))
