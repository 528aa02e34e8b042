"""A partition stays with one actor as long as that lives: shown by how often it is started."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ray_adapter.nodes import Nodes
from resumable_ray import RayExecutor
from support.waiting import wait_until

import resumable as rs

PARTITIONS = 6
NUMBERS = rs.range(360)


@dataclass(frozen=True, eq=False, repr=False)
class Noted(rs.Transform[Any]):
    """Passes items on, and notes in the file ``notes`` which process has started it."""

    _: KW_ONLY
    notes: str = ""

    identity: ClassVar[dict[str, Any]] = {}

    def start(self, epoch: int = 0) -> Any:
        with open(self.notes, "a") as notes:
            print(os.getpid(), file=notes)
        return self.upstream.start(epoch)


def slow(item: int) -> int:
    time.sleep(0.002)
    return item


class Notes:
    """How often the partitions of a pipeline are started.

    Attributes:
      pipeline: noted partitions.
    """

    def __init__(self, folder: Path, executor: RayExecutor) -> None:
        self._path = folder / "notes"
        self.pipeline = NUMBERS.partition(
            PARTITIONS,
            lambda part: part.apply(Noted, notes=str(self._path)).map(slow),
            workers=2,
            executor=executor,
        )

    def started(self) -> Counter[int]:
        """How many partitions each actor has started."""
        found = Counter(map(int, self._path.read_text().split()))
        del found[os.getpid()]
        return found


def two_actors(executor: RayExecutor) -> list[int]:
    """The process of each of two actors, once both run."""
    lanes = [executor.lane(), executor.lane()]
    found: list[int] = []

    def both() -> bool:
        found[:] = [lane.submit(os.getpid).result() for lane in lanes]
        return len(set(found)) == 2

    wait_until(both)
    return found


def test_a_partition_is_started_once_in_an_epoch_and_once_more_after_a_death(
    nodes: Nodes, tmp_path: Path
) -> None:
    with RayExecutor(num_actors=2, max_restarts=0) as executor:
        victim, other = two_actors(executor)
        notes = Notes(tmp_path, executor)
        for epoch in (1, 2):
            assert list(notes.pipeline) == list(NUMBERS)
            assert notes.started() == dict.fromkeys([victim, other], epoch * PARTITIONS // 2)
        got = []
        with iter(notes.pipeline) as iterator:
            for item in iterator:
                got.append(item)
                if len(got) == 90:
                    os.kill(victim, signal.SIGKILL)
        assert got == list(NUMBERS)
        half = PARTITIONS // 2
        assert notes.started() == {victim: 3 * half, other: 2 * half + PARTITIONS}


def test_a_new_actor_relieves_one_that_has_more_than_its_share(nodes: Nodes) -> None:
    with RayExecutor(num_actors=2) as executor:
        lanes = [executor.lane() for _ in range(4)]

        def processes() -> Counter[int]:
            return Counter(lane.submit(os.getpid).result() for lane in lanes)

        wait_until(lambda: sorted(processes().values()) == [2, 2])
        before = processes()
        os.kill(min(before), signal.SIGKILL)

        def replaced() -> bool:
            with suppress(BrokenExecutor):
                now = processes()
                return sorted(now.values()) == [2, 2] and min(before) not in now
            return False

        wait_until(replaced)
