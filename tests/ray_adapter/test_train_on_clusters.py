"""Real trainings of Ray Train that are killed, stopped and scaled train on every item once, in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray.train", reason="ray.train is not installed")
from ray.train import CheckpointConfig, FailureConfig, Result, RunConfig
from ray.train.v2.api.config import ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from ray_adapter.nodes import Nodes
from ray_adapter.train_loops import PARTS, in_partitions, phases_in, train
from support.behind_deals import leaves
from support.waiting import wait_until

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")  # of Ray's own

WAITS = 240
"""Seconds after which what does not happen is a fault."""


@pytest.fixture(autouse=True, scope="module")
def as_fast_as_may_be() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")
        patch.setenv("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")  # one process less
        yield


def trainer(folder: Path, workers: int | tuple[int, int], **config: Any) -> DataParallelTrainer:
    """A new trainer of the run in ``folder``."""
    return DataParallelTrainer(
        train,
        train_loop_config={"results": str(folder), **config},
        scaling_config=ScalingConfig(num_workers=workers, elastic_resize_monitor_interval_s=0.1),
        run_config=RunConfig(
            name="run",
            storage_path=str(folder / "storage"),
            failure_config=FailureConfig(max_failures=1),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )


def begun(fit: Callable[[], Result]) -> Callable[[], Result]:
    """Call ``fit`` in a thread; returns what waits for its result.

    Ray's nodes can be started by the main thread only, and what waits for ever is to fail.
    """
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(fit()), daemon=True)
    thread.start()

    def result() -> Result:
        thread.join(WAITS)
        assert results, "the training failed, or did not end"
        return results[0]

    return result


def test_workers_that_are_killed_become_more_and_begin_anew_train_on_every_item_once(
    nodes: Nodes, tmp_path: Path
) -> None:
    """Workers behind `shard` do so on the page about Ray."""
    nodes.kill_one()
    result = begun(trainer(tmp_path, (2, 3), kill=8, wait=12, stop=19).fit)
    wait_until(lambda: len(list(tmp_path.glob("waits-*"))) == 2, WAITS)
    nodes.complete()
    newest = result().checkpoint
    assert newest is not None
    killed, restarted, more = phases_in(Path(newest.path))
    assert [len(batches) for batches in (*killed, *restarted, *more)] == [6] * 7
    for rank in range(2):
        whole = [batch.tolist() for batch in in_partitions(rank, 2)]
        assert killed[rank] + restarted[rank] == whole[:12]
    kept = sorted((tmp_path / "storage" / "run").glob("checkpoint_2*"))
    assert len(list((kept[-1] / "input").iterdir())) == 3

    begun(trainer(tmp_path, 3).fit)()
    phases = phases_in(tmp_path)
    assert phases[:3] == [killed, restarted, more]
    assert [len(batches) for batches in phases[3]] == [6] * 3
    in_time = [number for phase in phases for number in in_turns(phase)]
    assert sorted(in_time) == sorted(leaves(in_partitions(0, 1)))
    for part in range(PARTS):
        of_part = [number for number in in_time if number % PARTS == part]
        assert of_part == sorted(of_part)


def in_turns(batches: list[list[list[int]]]) -> list[int]:
    """The items of workers in the order of all, as `shard` deals them out."""
    items = [list(chain.from_iterable(one)) for one in batches]
    return [item for row in zip_longest(*items) for item in row if item is not None]
