"""An executor with lanes gets all tasks of a partition in one of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

import resumable as rs
from resumable.workers.foreign_executor import ForeignChunk

T = TypeVar("T")


class WithLanes(ThreadPoolExecutor):
    """Threads whose lanes note the partitions of which they get tasks.

    Attributes:
      lanes: those that were made.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self.lanes: list[NotingLane] = []

    def lane(self) -> Executor:
        self.lanes.append(NotingLane(self))
        return self.lanes[-1]


class NotingLane(Executor):
    """One lane of ``executor``.

    Attributes:
      tasks: how many came of each partition.
    """

    def __init__(self, executor: WithLanes) -> None:
        self._executor = executor
        self.tasks: defaultdict[int, int] = defaultdict(int)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        (work,) = args
        assert isinstance(work, ForeignChunk)
        self.tasks[work.block[0].number] += 1
        return self._executor.submit(fn, *args, **kwargs)


def test_all_tasks_of_a_partition_go_into_one_lane() -> None:
    numbers = rs.range(120)
    with WithLanes() as executor:
        pipeline = numbers.partition(
            5, lambda part: part.map(abs), workers=2, executor=executor
        ).repeat(2)
        assert list(pipeline) == 2 * list(numbers.partition(5, lambda part: part.map(abs)))
    used = [lane.tasks for lane in executor.lanes if lane.tasks]
    assert [sorted(tasks) for tasks in used] == [[0, 2, 4], [1, 3]]
    assert all(count > 2 for tasks in used for count in tasks.values())


def test_a_lane_that_is_no_executor_is_refused() -> None:
    class Wrong(ThreadPoolExecutor):
        def lane(self) -> int:
            return 3

    with Wrong(1) as executor:
        pipeline = rs.range(4).partition(2, lambda part: part, workers=1, executor=executor)
        with pytest.raises(rs.InvalidType, match=r"executor.lane\(\) must return .*, got 3"):
            next(iter(pipeline))
